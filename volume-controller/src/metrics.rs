//! The metrics of the loop of ephemeral volumes.

use common::metrics::{Counter, Metrics, Stability};

/// Counts the creations of claims.
pub(crate) struct CreationMetrics {
    creations: Counter,
    failures: Counter,
}

impl CreationMetrics {
    /// Registers the metrics. Upstream gives both the same description.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let (alpha, help) = (Stability::Alpha, "Number of PersistentVolumeClaim creation requests");
        let creations = metrics.counter("ephemeral_volume_controller_create_total", alpha, help, &[]);
        let failures = metrics.counter("ephemeral_volume_controller_create_failures_total", alpha, help, &[]);
        Self { creations: creations.with_label_values(&[]), failures: failures.with_label_values(&[]) }
    }

    /// Counts a POST.
    pub(crate) fn record(&self, has_failed: bool) {
        self.creations.inc();
        if has_failed {
            self.failures.inc();
        }
    }
}
