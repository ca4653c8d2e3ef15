//! What this controller counts besides its queues.

use common::metrics::{Counter, Metrics, Stability};

/// The controller's own metric families. Cheap to clone.
#[derive(Clone)]
pub struct ControllerMetrics {
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
        Self { decided_nodes: decided_nodes.with(&[]) }
    }

    /// So many nodes were looked at by a sync.
    pub fn decided_nodes(&self, count: u64) {
        self.decided_nodes.inc_by(count);
    }
}
