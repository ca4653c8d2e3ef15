//! Metrics of the mirroring loop, without the metrics of its queue.

use common::{
    meta::Key,
    metrics::{Counters, Histogram, Metrics, Stability, exponential_buckets},
};

use super::act::MirroringTotals;
use crate::{
    metrics::{TotalGauges, register_slice_changes},
    plan::SyncCounts,
};

/// The metrics of upstream's `pkg/controller/endpointslicemirroring`.
pub(super) struct MirroringMetrics {
    added: Histogram,
    updated: Histogram,
    removed: Histogram,
    skipped: Histogram,
    pub(super) sync_duration: Histogram,
    pub(super) slice_changes: Counters,
    shares: TotalGauges,
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
            sync_duration: metrics
                .histogram(
                    "endpoint_slice_mirroring_controller_endpoints_sync_duration",
                    Stability::Alpha,
                    "Duration of syncEndpoints() in seconds",
                    &[],
                    exponential_buckets(0.001, 2.0, 15),
                )
                .with_label_values(&[]),
            slice_changes: register_slice_changes(metrics, "endpoint_slice_mirroring_controller_changes"),
            shares: TotalGauges::new(
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

    /// Records the counts of one sync; `None` removes the counts of these Endpoints from the totals.
    pub(super) fn record_plan(&self, key: &Key, totals: Option<&MirroringTotals>) {
        let Some(MirroringTotals { counts, updated_endpoints: updated, skipped_addresses: skipped }) = totals else {
            return self.shares.remove_contribution(key);
        };
        let sum = |of: fn(&SyncCounts) -> usize| counts.iter().map(of).sum::<usize>() as f64;
        self.added.observe(sum(|counts| counts.endpoints_added));
        self.removed.observe(sum(|counts| counts.endpoints_removed));
        self.updated.observe(*updated as f64);
        self.skipped.observe(*skipped as f64);
        self.shares.set_contribution(key, counts.iter().copied());
    }
}
