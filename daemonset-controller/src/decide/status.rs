//! Computes `status` from the counts of all nodes.

use crate::{
    objects::{DaemonSet, DaemonSetStatus},
    snapshot::nodes::NodeCounts,
};

/// Returns the status with these counts. `manages` is true if the sync also creates and deletes Pods. Otherwise the observed
/// generation does not change.
///
/// Upstream: `pkg/controller/daemon`, `storeDaemonSetStatus`.
pub fn compute_status(set: &DaemonSet, node_counts: &NodeCounts, manages: bool) -> DaemonSetStatus {
    let observed = set.status.observed_generation;
    DaemonSetStatus {
        current_number_scheduled: node_counts.current,
        number_misscheduled: node_counts.misscheduled,
        desired_number_scheduled: node_counts.desired,
        number_ready: node_counts.ready,
        observed_generation: if manages { set.metadata.generation.max(observed) } else { observed },
        updated_number_scheduled: node_counts.updated,
        number_available: node_counts.available,
        number_unavailable: node_counts.desired - node_counts.available,
        collision_count: set.status.collision_count,
    }
}
