//! What the collector counts besides its queues.

use common::metrics::{Counter, Gauge, Gauges, Metrics, QueueMetrics, Stability};

/// The controller's own metric families.
#[derive(Clone)]
pub struct ControllerMetrics {
    /// Rounds of discovery that failed, or left a resource without its objects.
    pub sync_errors: Counter,
    /// The changes that monitors bring, as upstream's queue of them.
    pub changes: QueueMetrics,
    /// Resources that are watched, and whether it fails.
    pub failing: Gauges,
    /// Nodes of the graph.
    pub nodes: Gauge,
    /// Objects that wait for a kind.
    pub parked: Gauge,
}

impl ControllerMetrics {
    /// Registers the families.
    pub fn new(metrics: &Metrics) -> Self {
        let gauge = |name, help, labels| metrics.gauge(name, Stability::Alpha, help, labels);
        let waits = "Objects that wait for a kind that is not served, or not all of whose objects are known";
        let fails = "Whether objects of a resource that can be collected cannot be watched";
        let sync_errors = metrics.counter(
            "garbagecollector_controller_resources_sync_error_total",
            Stability::Alpha,
            "Number of garbage collector resources sync errors",
            &[],
        );
        Self {
            sync_errors: sync_errors.with(&[]),
            changes: metrics.queue("garbage_collector_graph_changes"),
            failing: gauge("nonet_gc_resource_failing", fails, &["group", "resource"]),
            nodes: gauge("nonet_gc_graph_nodes", "Objects in the graph of owners", &[]).with(&[]),
            parked: gauge("nonet_gc_objects_parked", waits, &[]).with(&[]),
        }
    }
}
