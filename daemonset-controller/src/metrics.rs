//! Metrics of the work on nodes.

use common::metrics::{Counter, Metrics, Stability};

/// The number of node decisions. Cheap to clone.
#[derive(Clone)]
pub struct ControllerMetrics {
    decided_nodes: Counter,
}

impl ControllerMetrics {
    /// Registers the metric families.
    pub fn new(metrics: &Metrics) -> Self {
        let decided_nodes = metrics.counter(
            "nonet_daemonset_nodes_decided_total",
            Stability::Alpha,
            "Number of decisions about the Pods of one node for one DaemonSet",
            &[],
        );
        Self { decided_nodes: decided_nodes.with(&[]) }
    }

    /// Adds the number of nodes that a sync has decided.
    pub fn decided_nodes(&self, count: u64) {
        self.decided_nodes.inc_by(count);
    }
}
