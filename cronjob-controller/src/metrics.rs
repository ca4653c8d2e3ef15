//! The metric families of this controller.

use common::metrics::{Histogram, Metrics, Stability, exponential_buckets};
use jiff::SignedDuration;

/// The metric of this controller.
#[derive(Clone, Debug)]
pub(crate) struct ControllerMetrics {
    skew: Histogram,
}

impl ControllerMetrics {
    /// Registers the metric.
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

    /// Records the time between the scheduled time of a Job and its creation.
    pub(crate) fn observe_skew(&self, skew: SignedDuration) {
        self.skew.observe(skew.as_secs_f64());
    }
}
