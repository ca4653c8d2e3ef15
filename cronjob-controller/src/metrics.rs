//! The metrics that only the CronJob controller has.

use common::metrics::{Histogram, Metrics, Stability, exponential_buckets};

/// Registers the histogram of the delay from a scheduled time to the creation of the Job, in seconds.
pub(crate) fn register_job_creation_skew(metrics: &Metrics) -> Histogram {
    let skew = metrics.histogram(
        "cronjob_controller_job_creation_skew_duration_seconds",
        Stability::Stable,
        "Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
        &[],
        exponential_buckets(1.0, 2.0, 10),
    );
    skew.with_label_values(&[])
}
