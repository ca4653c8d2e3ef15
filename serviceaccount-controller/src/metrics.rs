//! The metrics of the loops that publish the bundle.

use common::{
    metrics::{Counters, Histograms, Metrics, Stability, exponential_buckets},
    prelude::Refusal,
};
use jiff::SignedDuration;

/// Count and duration of the syncs of a loop, by the HTTP status of their result.
pub(crate) struct SyncMetrics(Counters, Histograms);

/// The label of the metrics.
const CODE: &[&str] = &["code"];

impl SyncMetrics {
    /// Registers the metrics of the ConfigMaps. Upstream gives both the same description.
    pub(crate) fn of_config_maps(metrics: &Metrics) -> Self {
        let (alpha, help) = (Stability::Alpha, "Number of namespace syncs happened in root ca cert publisher.");
        let buckets = exponential_buckets(0.001, 2.0, 15);
        Self(
            metrics.counter("root_ca_cert_publisher_sync_total", alpha, help, CODE),
            metrics.histogram("root_ca_cert_publisher_sync_duration_seconds", alpha, help, CODE, buckets),
        )
    }

    /// Registers the metrics of the ClusterTrustBundles.
    pub(crate) fn of_trust_bundles(metrics: &Metrics) -> Self {
        let (alpha, help) = (Stability::Alpha, "Number of syncs that occurred in cluster trust bundle publisher.");
        let (buckets, time) = (exponential_buckets(0.001, 2.0, 15), "The time it took to sync a cluster trust bundle.");
        Self(
            metrics.counter("clustertrustbundle_publisher_sync_total", alpha, help, CODE),
            metrics.histogram("clustertrustbundle_publisher_sync_duration_seconds", alpha, time, CODE, buckets),
        )
    }

    /// Counts a sync. `refusal` is the reason of a failure.
    pub(crate) fn record(&self, refusal: Option<&Refusal>, duration: SignedDuration) {
        let code = refusal.map_or(200, |refusal| refusal.error.http_status_code()).to_string();
        self.0.with_label_values(&[&code]).inc();
        self.1.with_label_values(&[&code]).observe(duration.as_secs_f64());
    }
}
