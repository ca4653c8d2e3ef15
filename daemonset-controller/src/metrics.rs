//! What this controller counts besides its queues.

use common::{
    metrics::{Counter, Counters, Metrics, Stability},
    object::Resource,
};

/// The controller's own metric families. Cheap to clone.
#[derive(Clone)]
pub struct ControllerMetrics {
    stale_skips: Counters,
    decided_nodes: Counter,
}

impl ControllerMetrics {
    /// Registers the families.
    pub fn new(metrics: &Metrics) -> Self {
        let decided_nodes = metrics.counter(
            "nonet_daemonset_nodes_decided_total",
            Stability::Alpha,
            "How often what the Pods of one node mean for one DaemonSet was decided",
            &[],
        );
        Self {
            stale_skips: metrics.counter(
                "daemonset_controller_stale_sync_skips_total",
                Stability::Alpha,
                "Syncs put off because a cache did not show this process's own writes yet, by the resource that lagged",
                &["group", "resource"],
            ),
            decided_nodes: decided_nodes.with(&[]),
        }
    }

    /// A sync waits for the cache of `resource` to show this process's own writes.
    pub fn skipped_stale(&self, resource: Resource) {
        self.stale_skips.with(&[resource.group, resource.plural]).inc();
    }

    /// So many nodes were looked at by a sync.
    pub fn decided_nodes(&self, count: u64) {
        self.decided_nodes.inc_by(count);
    }
}
