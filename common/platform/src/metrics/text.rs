//! Converts the `OpenMetrics` text of the encoder, `prometheus_client`, to the text that Kubernetes components serve.
//!
//! Prometheus text 0.0.4 gives a counter's family the same name as its samples. Upstream sorts families and series, and formats
//! numbers as Go does. A counter keeps an upstream name that does not end in `_total`; in `OpenMetrics` its type is
//! `unknown`.

use std::{collections::BTreeMap, fmt::Write as _};

use super::MetricLimits;

/// A metric family as the encoder wrote it.
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'a str,
    samples: Vec<Sample<'a>>,
}

/// A line with one value of a metric family.
struct Sample<'a> {
    name: &'a str,
    /// Labels without braces, and without `le`.
    labels: &'a str,
    le: Option<&'a str>,
    value: &'a str,
}

fn parse(text: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            // The registry appends a full stop to every help text.
            families.push(Family { name, help: help.strip_suffix('.').unwrap_or(help), kind: "", samples: Vec::new() });
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            if let Some(family) = families.last_mut() {
                family.kind = rest.split_once(' ').map_or("untyped", |(_, kind)| kind);
            }
        } else if !line.starts_with('#')
            && let (Some(family), Some(sample)) = (families.last_mut(), sample(line))
        {
            family.samples.push(sample);
        }
    }
    families
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let (series, value) = line.rsplit_once(' ')?;
    let Some((name, labels)) = series.split_once('{') else {
        return Some(Sample { name: series, labels: "", le: None, value });
    };
    let labels = labels.strip_suffix('}')?;
    // The encoder writes the label `le` before the family's own labels.
    if name.ends_with("_bucket")
        && let Some(rest) = labels.strip_prefix("le=\"")
        && let Some((le, rest)) = rest.split_once('"')
    {
        return Some(Sample { name, labels: rest.strip_prefix(',').unwrap_or(rest), le: Some(le), value });
    }
    Some(Sample { name, labels, le: None, value })
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpositionFormat {
    Prometheus,
    OpenMetrics,
}

pub(super) fn render(encoded: &str, bare_counters: &[&str], limits: &MetricLimits, format: ExpositionFormat) -> String {
    let mut families = parse(encoded);
    families.sort_by_key(|f| f.name);
    let mut out = String::with_capacity(encoded.len());
    for family in &families {
        let bare = bare_counters.contains(&family.name);
        let total = family.kind == "counter" && !bare;
        let (suffix, kind) = match (format, family.kind) {
            (ExpositionFormat::OpenMetrics, "counter") if bare => ("", "unknown"),
            (ExpositionFormat::Prometheus, "counter") if total => ("_total", "counter"),
            (_, kind) => ("", kind),
        };
        let name = family.name;
        let full_name = if total { format!("{name}_total") } else { name.to_owned() };
        if !limits.allows_metric(&full_name) {
            continue;
        }
        let _ = writeln!(out, "# HELP {name}{suffix} {}", family.help);
        let _ = writeln!(out, "# TYPE {name}{suffix} {kind}");
        // Series are sorted by their labels. The lines of a series keep their order, but buckets come first.
        let mut series: BTreeMap<&str, Vec<&Sample<'_>>> = BTreeMap::new();
        for sample in &family.samples {
            series.entry(sample.labels).or_default().push(sample);
        }
        for samples in series.values_mut() {
            samples.sort_by_key(|sample| sample.le.is_none());
            for sample in samples {
                let name = if bare { sample.name.strip_suffix("_total").unwrap_or(sample.name) } else { sample.name };
                out.push_str(name);
                labels(&mut out, sample);
                let _ = writeln!(out, " {}", number(sample.value));
            }
        }
    }
    if format == ExpositionFormat::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

fn labels(out: &mut String, sample: &Sample<'_>) {
    if sample.labels.is_empty() && sample.le.is_none() {
        return;
    }
    out.push('{');
    out.push_str(sample.labels);
    if let Some(le) = sample.le {
        let comma = if sample.labels.is_empty() { "" } else { "," };
        let _ = write!(out, "{comma}le=\"{}\"", number(le));
    }
    out.push('}');
}

/// Formats a number as Go does (`strconv.FormatFloat(x, 'g', -1, 64)`), because values of `le` are part of upstream's series.
fn number(text: &str) -> String {
    if let Ok(n) = text.parse::<u64>()
        && n < 1_000_000
    {
        return text.to_owned();
    }
    let Ok(x) = text.parse::<f64>() else { return text.to_owned() };
    if x.is_infinite() {
        return if x > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if x.is_nan() {
        return "NaN".to_owned();
    }
    // Rust's `{:e}` writes the shortest digits that parse to the same number, as Go does.
    let scientific = format!("{x:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{x}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Metrics, Stability::Alpha};

    #[test]
    fn numbers_are_formatted_as_in_go() {
        for (rust, go) in [
            ("1", "1"),
            ("1.0", "1"),
            ("0.25", "0.25"),
            ("0.00000001", "1e-08"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("1048576", "1.048576e+06"),
            ("999999", "999999"),
            ("1000000", "1e+06"),
            ("16777216.0", "1.6777216e+07"),
            ("1763725000.25", "1.76372500025e+09"),
            ("+Inf", "+Inf"),
            ("-3.5", "-3.5"),
        ] {
            assert_eq!(number(rust), go, "{rust}");
        }
    }

    #[test]
    fn a_counter_without_total_keeps_its_name() {
        let metrics = Metrics::new();
        metrics
            .counter("endpoint_slice_controller_changes", Alpha, "Number of changes", &["operation"])
            .with_label_values(&["create"])
            .inc();
        let text = metrics.render_prometheus();
        assert_eq!(
            text,
            "# HELP endpoint_slice_controller_changes [ALPHA] Number of changes\n\
             # TYPE endpoint_slice_controller_changes counter\n\
             endpoint_slice_controller_changes{operation=\"create\"} 1\n"
        );
        assert!(
            metrics
                .render_openmetrics()
                .contains("# TYPE endpoint_slice_controller_changes unknown\nendpoint_slice_controller_changes{")
        );
    }

    #[test]
    fn openmetrics_ends_with_eof() {
        let metrics = Metrics::new();
        metrics.counter("a_total", Alpha, "A", &[]).with_label_values(&[]).inc();
        assert_eq!(metrics.render_openmetrics(), "# HELP a [ALPHA] A\n# TYPE a counter\na_total 1\n# EOF\n");
    }

    #[test]
    fn families_and_series_are_sorted_and_label_values_may_contain_anything() {
        let metrics = Metrics::new();
        let b = metrics.gauge("b", Alpha, "B", &["x"]);
        b.with_label_values(&["z"]).set(2.5);
        b.with_label_values(&["a \"quoted\" {thing} \\ \n end"]).set(1.0);
        metrics.gauge("a", Alpha, "Ends with a stop.", &[]).with_label_values(&[]).set(0.0);
        assert_eq!(
            metrics.render_prometheus(),
            "# HELP a [ALPHA] Ends with a stop.\n# TYPE a gauge\na 0\n\
             # HELP b [ALPHA] B\n# TYPE b gauge\n\
             b{x=\"a \\\"quoted\\\" {thing} \\\\ \\n end\"} 1\nb{x=\"z\"} 2.5\n"
        );
    }
}
