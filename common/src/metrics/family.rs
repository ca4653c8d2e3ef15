//! Metrics of one name, told apart by their labels.

use std::sync::Arc;

use prometheus_client::metrics::{
    family::{Family, MetricConstructor},
    histogram::Histogram,
};

use super::{Counter, Gauge};

type Labels = Vec<(&'static str, String)>;

fn labels(names: &'static [&'static str], values: &[&str]) -> Labels {
    debug_assert_eq!(names.len(), values.len(), "one value per label: {names:?}");
    names.iter().copied().zip(values.iter().map(|v| (*v).to_owned())).collect()
}

/// Counters of one name.
#[derive(Clone, Debug)]
pub struct Counters {
    names: &'static [&'static str],
    family: Family<Labels, Counter>,
}

impl Counters {
    pub(super) fn new(names: &'static [&'static str]) -> Self {
        Self { names, family: Family::default() }
    }

    pub(super) fn family(&self) -> Family<Labels, Counter> {
        self.family.clone()
    }

    /// The counter with these label values, in the order of the label names. Keep it where it is used often.
    pub fn with(&self, values: &[&str]) -> Counter {
        self.family.get_or_create_owned(&labels(self.names, values))
    }
}

/// Gauges of one name.
#[derive(Clone, Debug)]
pub struct Gauges {
    names: &'static [&'static str],
    family: Family<Labels, Gauge>,
}

impl Gauges {
    pub(super) fn new(names: &'static [&'static str]) -> Self {
        Self { names, family: Family::default() }
    }

    pub(super) fn family(&self) -> Family<Labels, Gauge> {
        self.family.clone()
    }

    /// The gauge with these label values, in the order of the label names. Keep it where it is used often.
    pub fn with(&self, values: &[&str]) -> Gauge {
        self.family.get_or_create_owned(&labels(self.names, values))
    }

    /// Serves the gauge with these label values no longer.
    pub fn remove(&self, values: &[&str]) {
        self.family.remove(&labels(self.names, values));
    }
}

/// Histograms of one name.
#[derive(Clone, Debug)]
pub struct Histograms {
    names: &'static [&'static str],
    family: Family<Labels, Histogram, Buckets>,
}

/// Upper bounds of buckets.
#[derive(Clone, Debug)]
pub(super) struct Buckets(Arc<[f64]>);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

impl Histograms {
    pub(super) fn new(names: &'static [&'static str], buckets: impl IntoIterator<Item = f64>) -> Self {
        let buckets = Buckets(buckets.into_iter().collect());
        Self { names, family: Family::new_with_constructor(buckets) }
    }

    pub(super) fn family(&self) -> Family<Labels, Histogram, Buckets> {
        self.family.clone()
    }

    /// The histogram with these label values, in the order of the label names. Keep it where it is used often.
    pub fn with(&self, values: &[&str]) -> Histogram {
        self.family.get_or_create_owned(&labels(self.names, values))
    }
}
