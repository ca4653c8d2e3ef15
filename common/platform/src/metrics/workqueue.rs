//! `workqueue_*`: depth, latency and retries of one work queue.

use std::time::Duration;

use super::{Counter, Gauge, Histogram, Metrics, Stability::Beta, exponential_buckets};

const LABELS: &[&str] = &["name"];

/// Depth, latencies and retries of one work queue. Cheap to clone.
///
/// Upstream: `client-go/util/workqueue`, registered in `component-base/metrics/prometheus/workqueue`.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    depth: Gauge,
    adds: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
    unfinished: Gauge,
    longest: Gauge,
    retries: Counter,
}

impl QueueMetrics {
    pub(super) fn new(metrics: &Metrics, name: &str) -> Self {
        let label = &[name];
        let counter = |name, help| metrics.counter(name, Beta, help, LABELS).with_label_values(label);
        let gauge = |name, help| metrics.gauge(name, Beta, help, LABELS).with_label_values(label);
        let buckets = || exponential_buckets(1e-8, 10.0, 10);
        let histogram = |name, help| metrics.histogram(name, Beta, help, LABELS, buckets()).with_label_values(label);
        Self {
            depth: gauge("workqueue_depth", "Current depth of workqueue"),
            adds: counter("workqueue_adds_total", "Total number of adds handled by workqueue"),
            queue_duration: histogram(
                "workqueue_queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested.",
            ),
            work_duration: histogram(
                "workqueue_work_duration_seconds",
                "How long in seconds processing an item from workqueue takes.",
            ),
            unfinished: gauge(
                "workqueue_unfinished_work_seconds",
                "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.",
            ),
            longest: gauge(
                "workqueue_longest_running_processor_seconds",
                "How many seconds has the longest running processor for workqueue been running.",
            ),
            retries: counter("workqueue_retries_total", "Total number of retries handled by workqueue"),
        }
    }

    /// Creates metrics that no endpoint serves, for queues without a name.
    pub fn unserved() -> Self {
        Self::new(&Metrics::new(), "")
    }

    /// Counts a key that has become dirty, which means that a worker must sync it.
    pub fn count_added_key(&self) {
        self.depth.inc();
        self.adds.inc();
    }

    /// Records that a worker took a key, and how long the key had waited.
    pub fn record_queue_time(&self, queued: Duration) {
        self.depth.dec();
        self.queue_duration.observe(queued.as_secs_f64());
    }

    /// Records that a worker finished a key, and how long the sync took.
    pub fn record_work_time(&self, worked: Duration) {
        self.work_duration.observe(worked.as_secs_f64());
    }

    /// Counts a key that was added with a delay, for any reason.
    pub fn count_retry(&self) {
        self.retries.inc();
    }

    /// Returns the number of dirty keys, which workers still have to sync.
    pub fn depth(&self) -> f64 {
        self.depth.get()
    }

    /// Sets the processing times of the keys that workers are processing now: their sum, and the longest. Meant for
    /// [`Metrics::run_before_each_scrape`].
    pub fn set_unfinished_work(&self, unfinished: Duration, longest: Duration) {
        self.unfinished.set(unfinished.as_secs_f64());
        self.longest.set(longest.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// COMMON-82.
    #[test]
    fn every_step_of_a_key_is_counted() {
        let metrics = Metrics::new();
        let queue = metrics.queue_metrics("replicaset");
        queue.count_added_key();
        queue.count_added_key();
        queue.record_queue_time(Duration::from_millis(2));
        queue.record_work_time(Duration::from_secs(20));
        queue.count_retry();
        queue.set_unfinished_work(Duration::from_secs(3), Duration::from_secs(2));
        let text = metrics.render_prometheus();
        for line in [
            "# HELP workqueue_adds_total [BETA] Total number of adds handled by workqueue",
            "# TYPE workqueue_adds_total counter",
            "workqueue_adds_total{name=\"replicaset\"} 2",
            "workqueue_depth{name=\"replicaset\"} 1",
            "workqueue_retries_total{name=\"replicaset\"} 1",
            "workqueue_unfinished_work_seconds{name=\"replicaset\"} 3",
            "workqueue_longest_running_processor_seconds{name=\"replicaset\"} 2",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"1e-08\"} 0",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"9.999999999999999e-06\"} 0",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"0.01\"} 1",
            "workqueue_work_duration_seconds_bucket{name=\"replicaset\",le=\"10\"} 0",
            "workqueue_work_duration_seconds_bucket{name=\"replicaset\",le=\"+Inf\"} 1",
            "workqueue_work_duration_seconds_sum{name=\"replicaset\"} 20",
            "workqueue_work_duration_seconds_count{name=\"replicaset\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\nis not in\n{text}");
        }
    }
}
