//! `informer_*`: the metrics of one cache.

use std::time::Duration;

use super::{Counters, Gauge, Histogram, Metrics, Stability::Alpha};
use crate::{meta::Version, object::Resource};

const LABELS: &[&str] = &["group", "name", "resource", "version"];
/// Whose informers they are. Upstream's are all of one process, and dashboards know them by its name.
const NAME: &str = "kube-controller-manager";
const LATENCIES: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The metrics of one cache. Cheap to clone.
///
/// Upstream: `client-go/tools/cache`, registered in `component-base/metrics/prometheus/clientgo/fifo`.
#[derive(Clone, Debug)]
pub struct InformerMetrics {
    queued: Gauge,
    latency: Histogram,
    version: Gauge,
}

impl InformerMetrics {
    pub(super) fn new(metrics: &Metrics, resource: Resource) -> Self {
        let labels = &[resource.group, NAME, resource.plural, resource.version];
        let gauge = |name, help| metrics.gauge(name, Alpha, help, LABELS).with(labels);
        let latency = "Time taken to process events after popping from the queue.";
        Self {
            queued: gauge("informer_queued_items", "Number of items currently queued in the FIFO."),
            latency: metrics
                .histogram("informer_processing_latency_seconds", Alpha, latency, LABELS, LATENCIES)
                .with(labels),
            version: gauge(
                "informer_store_resource_version",
                "The 15 least significant digits of the resource version of the store.",
            ),
        }
    }

    /// Metrics that nobody serves.
    pub fn unserved(resource: Resource) -> Self {
        Self::new(&Metrics::new(), resource)
    }

    /// This many objects were read and are not in the cache yet: those of a set that is still coming.
    pub fn queued(&self, objects: usize) {
        self.queued.set(objects as f64);
    }

    /// The handlers took this long for what one line, or one set, has changed.
    pub fn handled(&self, took: Duration) {
        self.latency.observe(took.as_secs_f64());
    }

    /// The cache is at this version. Meant for [`Metrics::before_scrape`].
    pub fn version(&self, version: Version) {
        self.version.set(version.last_digits() as f64);
    }
}

/// The metrics of the objects that have left the label selector of a watch. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HiddenMetrics {
    resource: Resource,
    objects: Gauge,
    reads: Counters,
}

impl HiddenMetrics {
    /// The metrics for a resource.
    pub fn new(metrics: &Metrics, resource: Resource) -> Self {
        let objects = "Objects that lack the label by which they are watched and that may still exist";
        let reads = "Reads of objects that the watch does not show, by result: gone, hidden, visible, foreign or error";
        Self {
            resource,
            objects: metrics
                .gauge("nonet_informer_hidden_objects", Alpha, objects, &["group", "resource"])
                .with(&[resource.group, resource.plural]),
            reads: metrics.counter("nonet_informer_hidden_reads_total", Alpha, reads, &["group", "resource", "result"]),
        }
    }

    /// There are so many hidden objects.
    pub fn hidden(&self, objects: usize) {
        self.objects.set(objects as f64);
    }

    /// An object was read.
    pub fn read(&self, result: &'static str) {
        self.reads.with(&[self.resource.group, self.resource.plural, result]).inc();
    }
}
