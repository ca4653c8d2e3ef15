//! Flags that limit which metrics, and which values of labels, `/metrics` serves.

use clap::{ArgAction, Command};

use super::{FlagValues, file, flag, list};
use crate::metrics::MetricLimits;

pub(super) fn add_metric_flags(command: Command) -> Command {
    command.next_help_heading("Metrics").args([
        list("disabled-metrics", "Metrics that are not served, by their full names"),
        flag(
            "allow-metric-labels",
            "METRIC,LABEL=VALUE,...",
            "Values that a label may have; other values are served as 'unexpected'",
        )
        .action(ArgAction::Append),
        file("allow-metric-labels-manifest", "YAML file with the same: \"metric,label\": \"value,...\""),
    ])
}

/// Reads the limits on metrics from the command line. The file of `--allow-metric-labels-manifest` is read later.
pub(super) fn read_metric_limits(values: &FlagValues<'_>) -> Result<MetricLimits, String> {
    let disabled = values.all("disabled-metrics").into_iter().filter(|name: &String| !name.is_empty());
    let lists: Vec<String> = values.all("allow-metric-labels");
    lists
        .iter()
        .try_fold(MetricLimits::default().with_disabled_metrics(disabled), |limits, list| {
            limits.with_allowed_value_flags(pairs(list)?)
        })
        .map_err(|e| format!("--allow-metric-labels: {e}"))
}

/// Parses `key=value`, or a comma-separated list of such pairs. In a list, each pair is in double quotes, because a pair may
/// contain commas.
///
/// Upstream: `StringToString` of pflag.
fn pairs(list: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut rest = list.trim();
    if rest.matches('=').count() <= 1 {
        return pair(rest.trim_matches('"')).map(|pair| vec![pair]);
    }
    let mut out = Vec::new();
    while !rest.is_empty() {
        let (item, tail) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or_else(|| format!("{list:?} lacks a closing quote"))?,
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        out.push(pair(item)?);
        rest = tail.trim_start_matches([',', ' ']);
    }
    Ok(out)
}

fn pair(text: &str) -> Result<(&str, &str), String> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| format!("{text:?} is not of the form metric,label=value,..."))?;
    Ok((key, value.trim_matches('\'')))
}
