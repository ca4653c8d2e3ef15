//! What is counted.

use std::path::PathBuf;

use clap::{ArgAction, ArgMatches, Command};

use super::{Given, flag, path, serving};
use crate::metrics::Limits;

const METRICS: &str = "Metrics";

/// The flags.
pub(super) fn add(command: Command) -> Command {
    command
        .arg(
            flag(METRICS, "disabled-metrics", "Metrics that are not served, by their full names")
                .value_name("LIST")
                .value_delimiter(',')
                .action(ArgAction::Append),
        )
        .arg(
            flag(METRICS, "allow-metric-labels", "Values that labels may have; others are served as 'unexpected'")
                .value_name("METRIC,LABEL=VALUE,...")
                .action(ArgAction::Append),
        )
        .arg(
            flag(METRICS, "allow-metric-labels-manifest", "File of the same, as YAML: \"metric,label\": \"value,...\"")
                .value_name("FILE")
                .value_parser(path()),
        )
}

/// What is not counted, as far as the command line says.
pub(super) fn limits(matches: &ArgMatches) -> Result<Limits, String> {
    let given = Given(matches);
    let disabled = given.list("disabled-metrics").into_iter().filter(|name| !name.is_empty());
    let lists = given.list("allow-metric-labels");
    lists
        .iter()
        .try_fold(Limits::default().without(disabled), |limits, list| limits.with_pairs(pairs(list)?))
        .map_err(|e| format!("--allow-metric-labels: {e}"))
}

/// The file that says the rest, where the command line allows everything.
pub(super) fn manifest(matches: &ArgMatches) -> Option<PathBuf> {
    serving::path(&Given(matches), "allow-metric-labels-manifest")
}

/// Takes `key=value` apart, or a list of such pairs, each of which is then in double quotes for the commas in it.
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
