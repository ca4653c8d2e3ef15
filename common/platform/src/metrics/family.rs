//! Metric families: the metrics of one name, which differ in their label values.

use std::sync::Arc;

use prometheus_client::metrics::{
    family::{Family, MetricConstructor},
    histogram::Histogram,
};

use super::{Counter, Gauge, limits::AllowedLabelValues};

/// Names of a family's labels, in the order in which callers pass the values.
pub(super) type LabelNames = &'static [&'static str];
type Labels = Vec<(&'static str, String)>;

/// A metric family. `C` creates a metric when a combination of label values is used for the first time.
#[derive(Clone, Debug)]
pub struct MetricFamily<M, C = fn() -> M> {
    pub(super) label_names: LabelNames,
    pub(super) allowed_label_values: AllowedLabelValues,
    pub(super) metrics_by_labels: Family<Labels, M, C>,
}

/// Counters of one name, one for each combination of label values.
pub type Counters = MetricFamily<Counter>;
/// Gauges of one name, one for each combination of label values.
pub type Gauges = MetricFamily<Gauge>;
/// Histograms of one name with the same buckets, one for each combination of label values.
pub type Histograms = MetricFamily<Histogram, BucketBounds>;

/// Upper bounds of a histogram's buckets, without `+Inf`.
#[derive(Clone, Debug)]
pub struct BucketBounds(pub(super) Arc<[f64]>);

impl MetricConstructor<Histogram> for BucketBounds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

impl<M: Clone, C: MetricConstructor<M>> MetricFamily<M, C> {
    /// Returns the metric with these label values, in the order of the label names. Keep the result for frequent use.
    pub fn with_label_values(&self, values: &[&str]) -> M {
        self.metrics_by_labels.get_or_create_owned(&self.labels(values))
    }

    /// Stops serving the metric with these label values.
    pub fn remove(&self, values: &[&str]) {
        self.metrics_by_labels.remove(&self.labels(values));
    }

    /// Removes all metrics of the family. Metrics that [`MetricFamily::with_label_values`] returned before are no longer served.
    pub fn clear(&self) {
        self.metrics_by_labels.clear();
    }

    fn labels(&self, values: &[&str]) -> Labels {
        debug_assert_eq!(self.label_names.len(), values.len(), "one value per label: {:?}", self.label_names);
        let value = |(position, value): (usize, &&str)| {
            self.allowed_label_values.allowed_or_unexpected(position, value).to_owned()
        };
        self.label_names.iter().copied().zip(values.iter().enumerate().map(value)).collect()
    }
}
