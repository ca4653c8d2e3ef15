//! The counter of decisions about nodes.

use common::metrics::{Counter, Metrics, Stability};

/// The metrics of the DaemonSet loop. Clones share the counters.
#[derive(Clone)]
pub struct ControllerMetrics {
    decided_nodes: Counter,
}

impl ControllerMetrics {
    /// Registers the metrics of this crate.
    pub fn new(metrics: &Metrics) -> Self {
        let decided_nodes = metrics.counter(
            "nonet_daemonset_nodes_decided_total",
            Stability::Alpha,
            "Number of decisions about the Pods of one node for one DaemonSet",
            &[],
        );
        Self { decided_nodes: decided_nodes.with_label_values(&[]) }
    }

    /// Adds `count` to the number of decisions about a node.
    pub fn add_node_decisions(&self, count: u64) {
        self.decided_nodes.inc_by(count);
    }
}
