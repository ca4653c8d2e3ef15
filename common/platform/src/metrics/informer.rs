//! `informer_*` and `nonet_informer_*`: the metrics of one cache, and of hidden objects, which exist but lack the label by which they are watched.

use std::time::Duration;

use super::{Counter, Counters, Gauge, Histogram, Metrics, Stability::Alpha};
use crate::{meta::ResourceVersion, object::Resource};

const LABELS: &[&str] = &["group", "name", "resource", "version"];
/// Value of the label `name`. Upstream sets it to the name of the process, which dashboards rely on.
const NAME: &str = "kube-controller-manager";
const LATENCIES: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Number of queued objects, latency of the handlers, version and failures of one cache. Cheap to clone.
///
/// Upstream: `client-go/tools/cache`, registered in `component-base/metrics/prometheus/clientgo/fifo`.
#[derive(Clone, Debug)]
pub struct InformerMetrics {
    queued: Gauge,
    latency: Histogram,
    version: Gauge,
    failures: Counter,
}

impl InformerMetrics {
    pub(super) fn new(metrics: &Metrics, resource: &Resource) -> Self {
        let labels = &[resource.group(), NAME, resource.plural(), resource.version()];
        let gauge = |name, help| metrics.gauge(name, Alpha, help, LABELS).with_label_values(labels);
        let latency = "Time taken to process events after popping from the queue.";
        Self {
            queued: gauge("informer_queued_items", "Number of items currently queued in the FIFO."),
            latency: metrics
                .histogram("informer_processing_latency_seconds", Alpha, latency, LABELS, LATENCIES)
                .with_label_values(labels),
            version: gauge(
                "informer_store_resource_version",
                "The 15 least significant digits of the resource version of the store.",
            ),
            failures: metrics
                .counter(
                    "nonet_informer_failures_total",
                    Alpha,
                    "Lists and watches that failed, so that the informer tried again after a pause, by resource",
                    &["group", "resource"],
                )
                .with_label_values(&[resource.group(), resource.plural()]),
        }
    }

    /// Creates metrics that no endpoint serves.
    pub fn unserved(resource: &Resource) -> Self {
        Self::new(&Metrics::new(), resource)
    }

    /// Sets the number of objects that were read but are not in the cache yet, because their list is incomplete.
    pub fn set_queued_object_count(&self, objects: usize) {
        self.queued.set(objects as f64);
    }

    /// Records the time that the handlers took for the changes of one watch event or of one complete list.
    pub fn record_handling_time(&self, took: Duration) {
        self.latency.observe(took.as_secs_f64());
    }

    /// Counts a list or watch that failed.
    pub fn count_failure(&self) {
        self.failures.inc();
    }

    /// Sets the version that the cache has reached. Meant for [`Metrics::run_before_each_scrape`].
    pub fn set_store_version(&self, version: ResourceVersion) {
        self.version.set(version.last_15_digits() as f64);
    }
}

/// Metrics of hidden objects, which exist but lack the label by which they are watched. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HiddenObjectMetrics {
    resource: Resource,
    objects: Gauge,
    reads: Counters,
}

impl HiddenObjectMetrics {
    /// Registers the metrics with the group and plural name of `resource` as labels.
    pub fn new(metrics: &Metrics, resource: Resource) -> Self {
        let objects = "Objects that lack the label by which they are watched and that may still exist";
        let reads = "Reads of objects that the watch does not show, by result: gone, hidden, visible, foreign or error";
        Self {
            objects: metrics
                .gauge("nonet_informer_hidden_objects", Alpha, objects, &["group", "resource"])
                .with_label_values(&[resource.group(), resource.plural()]),
            resource,
            reads: metrics.counter("nonet_informer_hidden_reads_total", Alpha, reads, &["group", "resource", "result"]),
        }
    }

    /// Sets the number of objects that lack the label and may still exist.
    pub fn set_hidden_object_count(&self, objects: usize) {
        self.objects.set(objects as f64);
    }

    /// Counts a read of an object that the watch does not show; `result` is the value of the last label.
    pub fn count_hidden_object_read(&self, result: &'static str) {
        self.reads.with_label_values(&[self.resource.group(), self.resource.plural(), result]).inc();
    }
}
