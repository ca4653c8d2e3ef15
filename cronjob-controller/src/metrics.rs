//! What this controller counts besides its queue.

use common::metrics::{Histogram, Metrics, Stability, exponential_buckets};
use jiff::SignedDuration;

/// The controller's own metric.
#[derive(Clone, Debug)]
pub(crate) struct ControllerMetrics {
    skew: Histogram,
}

impl ControllerMetrics {
    /// Registers it.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let skew = metrics.histogram(
            "cronjob_controller_job_creation_skew_duration_seconds",
            Stability::Stable,
            "Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
            &[],
            exponential_buckets(1.0, 2.0, 10),
        );
        Self { skew: skew.with(&[]) }
    }

    /// A Job was created that much after its time.
    pub(crate) fn started(&self, late: SignedDuration) {
        self.skew.observe(late.as_secs_f64());
    }
}
