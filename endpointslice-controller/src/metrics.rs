//! Metrics that the loops `slices` and `mirroring` both have: changes of slices, and totals over all Services.

use common::{
    metrics::{Counters, Gauge, Metrics, Stability},
    prelude::*,
};
use parking_lot::Mutex;

use crate::plan::SyncCounts;

/// Registers the counter of written slices, with the label `operation`: `create`, `update` or `delete`.
pub(crate) fn register_slice_change_counter(metrics: &Metrics, name: &'static str) -> Counters {
    metrics.counter(name, Stability::Alpha, "Number of EndpointSlice changes", &["operation"])
}

/// Gauges with totals over all Services, or over all mirrored Endpoints.
pub(crate) struct EndpointAndSliceGauges {
    desired: Gauge,
    slices: Gauge,
    enough: Gauge,
    known: Mutex<HashMap<NamespacedName, SyncCounts>>,
}

impl EndpointAndSliceGauges {
    /// Registers three gauges with these names: wanted endpoints, wanted slices, and the minimum number of slices for them.
    pub(crate) fn new(metrics: &Metrics, stability: Stability, [desired, slices, enough]: [&'static str; 3]) -> Self {
        let gauge = |name, help| metrics.gauge(name, stability, help, &[]).with_label_values(&[]);
        Self {
            desired: gauge(desired, "Number of endpoints desired"),
            slices: gauge(slices, "Number of EndpointSlices"),
            enough: gauge(enough, "Number of EndpointSlices that would exist with perfect endpoint allocation"),
            known: Mutex::default(),
        }
    }

    /// Sets the counts with which one Service contributes to the totals, in place of the counts of its previous sync.
    pub(crate) fn set_counts_of_service(&self, key: &NamespacedName, counts: impl IntoIterator<Item = SyncCounts>) {
        let mut sum = SyncCounts::default();
        for one in counts {
            sum.wanted_endpoint_count += one.wanted_endpoint_count;
            sum.wanted_slice_count += one.wanted_slice_count;
            sum.min_slice_count += one.min_slice_count;
        }
        let old = self.known.lock().insert(key.clone(), sum);
        self.replace_contribution(old.unwrap_or_default(), sum);
    }

    /// Subtracts the counts of one Service from the totals; does nothing if the Service has not contributed.
    pub(crate) fn remove_counts_of_service(&self, key: &NamespacedName) {
        let old = self.known.lock().remove(key);
        self.replace_contribution(old.unwrap_or_default(), SyncCounts::default());
    }

    fn replace_contribution(&self, old: SyncCounts, new: SyncCounts) {
        self.desired.inc_by(new.wanted_endpoint_count as f64 - old.wanted_endpoint_count as f64);
        self.slices.inc_by(new.wanted_slice_count as f64 - old.wanted_slice_count as f64);
        self.enough.inc_by(new.min_slice_count as f64 - old.min_slice_count as f64);
    }
}
