//! Restrictions that an operator puts on metrics: disabled metrics and allowed label values.
//!
//! Upstream: `component-base/metrics`, `--disabled-metrics` and `--allow-metric-labels`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The value that is served in place of a label value that is not allowed, as upstream does.
const UNEXPECTED: &str = "unexpected";

/// The metrics that an operator has disabled, and the label values that an operator allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricLimits {
    disabled: BTreeSet<String>,
    /// Allowed values by metric and label. Labels that are not listed may have any value.
    allowed: BTreeMap<(String, String), Arc<BTreeSet<String>>>,
}

impl MetricLimits {
    /// Disables the metrics with these names, in addition to the metrics that are already disabled.
    #[must_use]
    pub fn with_disabled_metrics(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.disabled.extend(names);
        self
    }

    /// Allows further values for a label of a metric. All values that are not allowed are served as `unexpected`.
    #[must_use]
    pub fn with_allowed_label_values(
        mut self,
        metric: &str,
        label: &str,
        values: impl IntoIterator<Item = String>,
    ) -> Self {
        let known = self.allowed.entry((metric.to_owned(), label.to_owned())).or_default();
        Arc::make_mut(known).extend(values);
        self
    }

    /// Parses `--allow-metric-labels`: pairs of `metric,label` and a comma-separated list of allowed values.
    ///
    /// # Errors
    /// The message names the first key that is not of the form `metric,label`.
    pub fn with_allowed_value_flags<'a>(
        self,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, String> {
        let word = |text: &str, also: &str| {
            let letters = |c: char| c.is_ascii_alphanumeric() || c == '_' || also.contains(c);
            text.chars().all(letters) && !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit())
        };
        pairs.into_iter().try_fold(self, |limits, (key, values)| match key.split_once(',') {
            Some((metric, label)) if word(metric, ":") && word(label, "") => {
                Ok(limits.with_allowed_label_values(metric, label, values.split(',').map(str::to_owned)))
            }
            _ => Err(format!("{key:?} is not of the form metric,label")),
        })
    }

    /// Whether every label of every metric may have any value.
    pub fn allows_all_label_values(&self) -> bool {
        self.allowed.is_empty()
    }

    pub(super) fn allows_metric(&self, metric: &str) -> bool {
        !self.disabled.contains(metric)
    }

    /// Returns the allowed values for the labels of a metric, in the order of `labels`.
    pub(super) fn allowed_label_values(&self, metric: &str, labels: &[&str]) -> AllowedLabelValues {
        let of = |label: &&str| self.allowed.get(&(metric.to_owned(), (*label).to_owned())).cloned();
        AllowedLabelValues(labels.iter().map(of).collect())
    }
}

/// The allowed values of one metric's labels, by the position of the label. A label without a list may have any value.
#[derive(Clone, Debug, Default)]
pub(super) struct AllowedLabelValues(Arc<[Option<Arc<BTreeSet<String>>>]>);

impl AllowedLabelValues {
    /// Returns `value` if it is allowed for the label at `position`, otherwise [`UNEXPECTED`].
    pub(super) fn allowed_or_unexpected<'a>(&self, position: usize, value: &'a str) -> &'a str {
        match self.0.get(position) {
            Some(Some(list)) if !list.contains(value) => UNEXPECTED,
            _ => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Metrics, Stability};

    /// COMMON-83.
    #[test]
    fn disabled_metrics_are_not_served() {
        let names = ["a_total", "b", "c_seconds"].map(str::to_owned);
        let metrics = Metrics::with_limits(MetricLimits::default().with_disabled_metrics(names));
        metrics.counter("a_total", Stability::Beta, "A", &[]).with_label_values(&[]).inc();
        metrics.counter("a_b_total", Stability::Beta, "Another", &[]).with_label_values(&[]).inc();
        metrics.gauge("b", Stability::Beta, "B", &[]).with_label_values(&[]).set(1.0);
        metrics.gauge("d", Stability::Beta, "D", &[]).with_label_values(&[]).set(1.0);
        metrics.histogram("c_seconds", Stability::Beta, "C", &[], [1.0]).with_label_values(&[]).observe(0.5);
        let text = metrics.render_prometheus();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
        assert_eq!(samples, ["# TYPE a_b_total counter", "a_b_total 1", "# TYPE d gauge", "d 1"]);
        assert!(!metrics.render_openmetrics().contains("c_seconds"));
    }

    /// COMMON-83.
    #[test]
    fn a_value_that_is_not_allowed_becomes_unexpected() {
        let pairs = [("x_total,code", "200,404"), ("y,code", "200")];
        let metrics = Metrics::with_limits(MetricLimits::default().with_allowed_value_flags(pairs).unwrap());
        let x = metrics.counter("x_total", Stability::Beta, "X", &["code", "verb"]);
        for code in ["200", "404", "500", "503"] {
            x.with_label_values(&[code, code]).inc();
            x.with_label_values(&[code, "GET"]).inc();
        }
        metrics.gauge("y", Stability::Beta, "Y", &["code"]).with_label_values(&["500"]).set(2.0);
        let text = metrics.render_prometheus();
        for line in [
            "x_total{code=\"200\",verb=\"200\"} 1",
            "x_total{code=\"unexpected\",verb=\"500\"} 1",
            "x_total{code=\"unexpected\",verb=\"GET\"} 2",
            "y{code=\"unexpected\"} 2",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\nis not in\n{text}");
        }
    }

    #[test]
    fn the_error_names_a_malformed_key() {
        for key in ["x", "x,", ",x", "1x,y", "x,y:z", "x,y,z", "x y,z"] {
            let error = MetricLimits::default().with_allowed_value_flags([(key, "v")]).unwrap_err();
            assert_eq!(error, format!("{key:?} is not of the form metric,label"));
        }
    }
}
