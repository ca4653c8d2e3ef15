//! Metrics of one name, told apart by their labels.

use std::sync::Arc;

use prometheus_client::metrics::{
    family::{Family, MetricConstructor},
    histogram::Histogram,
};

use super::{Counter, Gauge, limits::Allowed};

type Labels = Vec<(&'static str, String)>;

/// The names of labels, and the values they may have.
#[derive(Clone, Debug)]
struct Names {
    names: &'static [&'static str],
    allowed: Allowed,
}

impl Names {
    fn with(&self, values: &[&str]) -> Labels {
        debug_assert_eq!(self.names.len(), values.len(), "one value per label: {:?}", self.names);
        let value = |(position, value): (usize, &&str)| self.allowed.value(position, value).to_owned();
        self.names.iter().copied().zip(values.iter().enumerate().map(value)).collect()
    }
}

/// Counters of one name.
#[derive(Clone, Debug)]
pub struct Counters {
    names: Names,
    family: Family<Labels, Counter>,
}

impl Counters {
    pub(super) fn new(names: &'static [&'static str], allowed: Allowed) -> Self {
        Self { names: Names { names, allowed }, family: Family::default() }
    }

    pub(super) fn family(&self) -> Family<Labels, Counter> {
        self.family.clone()
    }

    /// The counter with these label values, in the order of the label names. Keep it where it is used often.
    pub fn with(&self, values: &[&str]) -> Counter {
        self.family.get_or_create_owned(&self.names.with(values))
    }

    /// Serves the counter with these label values no longer.
    pub fn remove(&self, values: &[&str]) {
        self.family.remove(&self.names.with(values));
    }

    /// Begins anew. Counters handed out before are served no longer.
    pub fn clear(&self) {
        self.family.clear();
    }
}

/// Gauges of one name.
#[derive(Clone, Debug)]
pub struct Gauges {
    names: Names,
    family: Family<Labels, Gauge>,
}

impl Gauges {
    pub(super) fn new(names: &'static [&'static str], allowed: Allowed) -> Self {
        Self { names: Names { names, allowed }, family: Family::default() }
    }

    pub(super) fn family(&self) -> Family<Labels, Gauge> {
        self.family.clone()
    }

    /// The gauge with these label values, in the order of the label names. Keep it where it is used often.
    pub fn with(&self, values: &[&str]) -> Gauge {
        self.family.get_or_create_owned(&self.names.with(values))
    }

    /// Serves the gauge with these label values no longer.
    pub fn remove(&self, values: &[&str]) {
        self.family.remove(&self.names.with(values));
    }

    /// Serves none any longer.
    pub fn clear(&self) {
        self.family.clear();
    }
}

/// Histograms of one name.
#[derive(Clone, Debug)]
pub struct Histograms {
    names: Names,
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
    pub(super) fn new(
        names: &'static [&'static str],
        allowed: Allowed,
        buckets: impl IntoIterator<Item = f64>,
    ) -> Self {
        let buckets = Buckets(buckets.into_iter().collect());
        Self { names: Names { names, allowed }, family: Family::new_with_constructor(buckets) }
    }

    pub(super) fn family(&self) -> Family<Labels, Histogram, Buckets> {
        self.family.clone()
    }

    /// The histogram with these label values, in the order of the label names. Keep it where it is used often.
    pub fn with(&self, values: &[&str]) -> Histogram {
        self.family.get_or_create_owned(&self.names.with(values))
    }
}
