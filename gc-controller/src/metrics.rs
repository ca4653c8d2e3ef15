//! Metrics of the collector, except the metrics of its queues.

use common::metrics::{Counter, Gauge, Gauges, Metrics, QueueMetrics, Stability};

/// Metric families of the garbage collector. Cheap to clone.
#[derive(Clone)]
pub struct ControllerMetrics {
    /// Number of failed runs of discovery, plus the number of timeouts of initial lists.
    pub resource_sync_errors: Counter,
    /// Counts changes of the graph. The metric has the name of upstream's queue for such changes.
    pub graph_change_metrics: QueueMetrics,
    /// 1 for each resource with a failing watch, 0 for each other watched resource.
    pub failing_resources: Gauges,
    /// Number of nodes in the graph, including virtual nodes, which no active monitor has seen.
    pub graph_nodes: Gauge,
    /// Number of objects that wait for a kind to be served or listed.
    pub parked_objects: Gauge,
}

impl ControllerMetrics {
    /// Registers the metric families.
    pub fn new(metrics: &Metrics) -> Self {
        let gauge = |name, help, labels| metrics.gauge(name, Stability::Alpha, help, labels);
        let waits = "Objects that wait until a kind is served or until all objects of a kind are known";
        let fails = "1 if the watch of a resource that can be collected fails, 0 otherwise";
        let sync_errors = metrics.counter(
            "garbagecollector_controller_resources_sync_error_total",
            Stability::Alpha,
            "Number of garbage collector resources sync errors",
            &[],
        );
        Self {
            resource_sync_errors: sync_errors.with_label_values(&[]),
            graph_change_metrics: metrics.queue_metrics("garbage_collector_graph_changes"),
            failing_resources: gauge("nonet_gc_resource_failing", fails, &["group", "resource"]),
            graph_nodes: gauge("nonet_gc_graph_nodes", "Objects in the graph of owners", &[]).with_label_values(&[]),
            parked_objects: gauge("nonet_gc_objects_parked", waits, &[]).with_label_values(&[]),
        }
    }
}
