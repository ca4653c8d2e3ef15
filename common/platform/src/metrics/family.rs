//! Metrics of one name, told apart by their labels.

use std::sync::Arc;

use prometheus_client::metrics::{
    family::{Family, MetricConstructor},
    histogram::Histogram,
};

use super::{Counter, Gauge, limits::Allowed};

/// The names of a family's labels.
pub(super) type LabelNames = &'static [&'static str];
type Labels = Vec<(&'static str, String)>;

/// Metrics of one name and type; `C` makes the metric of a set of label values that is new.
#[derive(Clone, Debug)]
pub struct Labelled<M, C = fn() -> M> {
    pub(super) names: LabelNames,
    pub(super) allowed: Allowed,
    pub(super) family: Family<Labels, M, C>,
}

/// Counters of one name.
pub type Counters = Labelled<Counter>;
/// Gauges of one name.
pub type Gauges = Labelled<Gauge>;
/// Histograms of one name.
pub type Histograms = Labelled<Histogram, Buckets>;

/// Upper bounds of buckets.
#[derive(Clone, Debug)]
pub struct Buckets(pub(super) Arc<[f64]>);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

impl<M: Clone, C: MetricConstructor<M>> Labelled<M, C> {
    /// The metric with these label values, in the order of the label names. Keep it where it is used often.
    pub fn with(&self, values: &[&str]) -> M {
        self.family.get_or_create_owned(&self.labels(values))
    }

    /// Serves the metric with these label values no longer.
    pub fn remove(&self, values: &[&str]) {
        self.family.remove(&self.labels(values));
    }

    /// Begins anew. Metrics handed out before are served no longer.
    pub fn clear(&self) {
        self.family.clear();
    }

    fn labels(&self, values: &[&str]) -> Labels {
        debug_assert_eq!(self.names.len(), values.len(), "one value per label: {:?}", self.names);
        let value = |(position, value): (usize, &&str)| self.allowed.value(position, value).to_owned();
        self.names.iter().copied().zip(values.iter().enumerate().map(value)).collect()
    }
}
