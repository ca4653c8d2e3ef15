//! Metrics of the loop `endpointslice-controller`, without the metrics of its queue.

use common::{
    metrics::{Counter, Counters, Gauges, Histogram, Histograms, Metrics, Stability, exponential_buckets},
    prelude::*,
};
use parking_lot::Mutex;

use super::decide::{Plan, distribution::HintPolicy};
use crate::metrics::{EndpointAndSliceGauges, register_slice_change_counter};

/// The default bucket bounds of the Prometheus client, for histograms without bounds in upstream.
const DEFAULT_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The metrics of upstream's `pkg/controller/endpointslice`.
pub(super) struct SliceMetrics {
    added: Histogram,
    removed: Histogram,
    shares: EndpointAndSliceGauges,
    pub(super) slice_changes: Counters,
    changed: Histograms,
    pub(super) succeeded_syncs: Counter,
    pub(super) stale_syncs: Counter,
    pub(super) failed_syncs: Counter,
    distributions: Gauges,
    distribution_of: Mutex<HashMap<NamespacedName, &'static str>>,
}

impl SliceMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let many = || exponential_buckets(2.0, 2.0, 15);
        let histogram = |name, help| metrics.histogram(name, Stability::Beta, help, &[], many()).with_label_values(&[]);
        let syncs = metrics.counter(
            "endpoint_slice_controller_syncs",
            Stability::Alpha,
            "Number of EndpointSlice syncs",
            &["result"],
        );
        Self {
            added: histogram(
                "endpoint_slice_controller_endpoints_added_per_sync",
                "Number of endpoints added on each Service sync",
            ),
            removed: histogram(
                "endpoint_slice_controller_endpoints_removed_per_sync",
                "Number of endpoints removed on each Service sync",
            ),
            shares: EndpointAndSliceGauges::new(
                metrics,
                Stability::Beta,
                [
                    "endpoint_slice_controller_endpoints_desired",
                    "endpoint_slice_controller_num_endpoint_slices",
                    "endpoint_slice_controller_desired_endpoint_slices",
                ],
            ),
            slice_changes: register_slice_change_counter(metrics, "endpoint_slice_controller_changes"),
            changed: metrics.histogram(
                "endpoint_slice_controller_endpointslices_changed_per_sync",
                Stability::Alpha,
                "Number of EndpointSlices changed on each Service sync",
                &["topology", "traffic_distribution"],
                DEFAULT_BUCKETS,
            ),
            succeeded_syncs: syncs.with_label_values(&["success"]),
            stale_syncs: syncs.with_label_values(&["stale"]),
            failed_syncs: syncs.with_label_values(&["error"]),
            distributions: metrics.gauge(
                "endpoint_slice_controller_services_count_by_traffic_distribution",
                Stability::Beta,
                "Number of Services using some specific trafficDistribution",
                &["traffic_distribution"],
            ),
            distribution_of: Mutex::default(),
        }
    }

    /// Records the counts that one sync of a Service has planned.
    pub(super) fn record_sync_counts(&self, key: &NamespacedName, plan: &Plan) {
        let counts = plan.slice_writes.iter().map(|writes| writes.sync_counts);
        for counts in counts.clone() {
            self.added.observe(counts.added_endpoint_count as f64);
            self.removed.observe(counts.removed_endpoint_count as f64);
        }
        self.shares.set_counts_of_service(key, counts);
        self.set_distribution(key, plan.traffic_distribution);
    }

    /// Records the number of writes, after all slices of an address type have been written.
    pub(super) fn record_slice_write_count(&self, plan: &Plan, writes: usize) {
        let topology = if plan.hint_policy == HintPolicy::ByCapacity { "Auto" } else { "Disabled" };
        self.changed.with_label_values(&[topology, plan.traffic_distribution.unwrap_or("")]).observe(writes as f64);
    }

    pub(super) fn forget_service(&self, key: &NamespacedName) {
        self.shares.remove_counts_of_service(key);
        self.set_distribution(key, None);
    }

    fn set_distribution(&self, key: &NamespacedName, new: Option<&'static str>) {
        let mut known = self.distribution_of.lock();
        if let Some(old) = known.remove(key) {
            self.distributions.with_label_values(&[old]).dec();
        }
        if let Some(new) = new {
            self.distributions.with_label_values(&[new]).inc();
            known.insert(key.clone(), new);
        }
    }
}
