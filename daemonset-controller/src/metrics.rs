//! The counter of decisions about nodes.

use common::metrics::{Counter, Metrics, Stability};

/// Registers the number of decisions about the Pods of one node for one DaemonSet.
pub(crate) fn register_decided_nodes(metrics: &Metrics) -> Counter {
    let help = "Number of decisions about the Pods of one node for one DaemonSet";
    metrics.counter("nonet_daemonset_nodes_decided_total", Stability::Alpha, help, &[]).with_label_values(&[])
}
