//! Metrics of the mirroring loop, without the metrics of its queue.

use common::{
    metrics::{Counters, Histogram, Metrics, Stability, exponential_buckets},
    prelude::*,
};

use super::decide::Plan;
use crate::{
    metrics::{EndpointAndSliceGauges, register_slice_change_counter},
    plan::SyncCounts,
};

/// The metrics of upstream's `pkg/controller/endpointslicemirroring`.
pub(super) struct MirroringMetrics {
    added: Histogram,
    updated: Histogram,
    removed: Histogram,
    skipped: Histogram,
    pub(super) sync_duration_seconds: Histogram,
    pub(super) slice_changes: Counters,
    shares: EndpointAndSliceGauges,
}

impl MirroringMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let histogram = |name, help| {
            metrics
                .histogram(name, Stability::Alpha, help, &[], exponential_buckets(2.0, 2.0, 15))
                .with_label_values(&[])
        };
        Self {
            added: histogram(
                "endpoint_slice_mirroring_controller_endpoints_added_per_sync",
                "Number of endpoints added on each Endpoints sync",
            ),
            updated: histogram(
                "endpoint_slice_mirroring_controller_endpoints_updated_per_sync",
                "Number of endpoints updated on each Endpoints sync",
            ),
            removed: histogram(
                "endpoint_slice_mirroring_controller_endpoints_removed_per_sync",
                "Number of endpoints removed on each Endpoints sync",
            ),
            skipped: histogram(
                "endpoint_slice_mirroring_controller_addresses_skipped_per_sync",
                "Number of addresses skipped on each Endpoints sync due to being invalid or exceeding MaxEndpointsPerSubset",
            ),
            sync_duration_seconds: metrics
                .histogram(
                    "endpoint_slice_mirroring_controller_endpoints_sync_duration",
                    Stability::Alpha,
                    "Duration of syncEndpoints() in seconds",
                    &[],
                    exponential_buckets(0.001, 2.0, 15),
                )
                .with_label_values(&[]),
            slice_changes: register_slice_change_counter(metrics, "endpoint_slice_mirroring_controller_changes"),
            shares: EndpointAndSliceGauges::new(
                metrics,
                Stability::Alpha,
                [
                    "endpoint_slice_mirroring_controller_endpoints_desired",
                    "endpoint_slice_mirroring_controller_num_endpoint_slices",
                    "endpoint_slice_mirroring_controller_desired_endpoint_slices",
                ],
            ),
        }
    }

    /// Records the counts of one sync. If the Endpoints are not mirrored, removes their counts from the totals.
    pub(super) fn record_sync_counts(&self, key: &NamespacedName, plan: &Plan) {
        if !plan.are_endpoints_mirrored {
            return self.shares.remove_counts_of_service(key);
        }
        let counts = plan.slice_writes.iter().map(|writes| writes.sync_counts);
        let sum = |of: fn(SyncCounts) -> usize| counts.clone().map(of).sum::<usize>() as f64;
        self.added.observe(sum(|counts| counts.added_endpoint_count));
        self.removed.observe(sum(|counts| counts.removed_endpoint_count));
        self.updated.observe(plan.updated_endpoint_count as f64);
        self.skipped.observe(plan.skipped_address_count as f64);
        self.shares.set_counts_of_service(key, counts);
    }
}
