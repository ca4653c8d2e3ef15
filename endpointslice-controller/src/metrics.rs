//! Metrics that the loops `slices` and `mirroring` both have: changes of slices, and totals over all Services.

use common::{
    map::HashMap,
    meta::Key,
    metrics::{Counters, Gauge, Metrics, Stability},
};
use parking_lot::Mutex;

use crate::plan::Counts;

/// Registers the counter of slice changes, by operation.
pub(crate) fn changes(metrics: &Metrics, name: &'static str) -> Counters {
    metrics.counter(name, Stability::Alpha, "Number of EndpointSlice changes", &["operation"])
}

/// Gauges with totals over all Services, or over all mirrored Endpoints.
pub(crate) struct Shares {
    desired: Gauge,
    slices: Gauge,
    enough: Gauge,
    known: Mutex<HashMap<Key, Counts>>,
}

impl Shares {
    /// Registers the gauges of endpoints, of slices, and of the minimal number of slices, with these names.
    pub(crate) fn new(metrics: &Metrics, stability: Stability, [desired, slices, enough]: [&'static str; 3]) -> Self {
        let gauge = |name, help| metrics.gauge(name, stability, help, &[]).with(&[]);
        Self {
            desired: gauge(desired, "Number of endpoints desired"),
            slices: gauge(slices, "Number of EndpointSlices"),
            enough: gauge(enough, "Number of EndpointSlices that would exist with perfect endpoint allocation"),
            known: Mutex::default(),
        }
    }

    /// Replaces the contribution of a Service to the totals.
    pub(crate) fn set(&self, key: &Key, counts: impl IntoIterator<Item = Counts>) {
        let mut sum = Counts::default();
        for one in counts {
            sum.endpoints += one.endpoints;
            sum.slices += one.slices;
            sum.enough += one.enough;
        }
        let old = self.known.lock().insert(key.clone(), sum);
        self.exchange(old.unwrap_or_default(), sum);
    }

    /// Removes the contribution of a Service from the totals.
    pub(crate) fn forget(&self, key: &Key) {
        let old = self.known.lock().remove(key);
        self.exchange(old.unwrap_or_default(), Counts::default());
    }

    fn exchange(&self, old: Counts, new: Counts) {
        self.desired.inc_by(new.endpoints as f64 - old.endpoints as f64);
        self.slices.inc_by(new.slices as f64 - old.slices as f64);
        self.enough.inc_by(new.enough as f64 - old.enough as f64);
    }
}
