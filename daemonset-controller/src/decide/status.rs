//! Computes `status` from the counts of all nodes.

use crate::{
    objects::{DaemonSet, DaemonSetStatus},
    snapshot::nodes::NodeCounts,
};

/// Returns the status with these counts. `manages` is true if the sync also creates and deletes Pods. Otherwise the observed
/// generation does not change.
///
/// Upstream: `pkg/controller/daemon`, `storeDaemonSetStatus`.
pub fn compute_status(set: &DaemonSet, tally: &NodeCounts, manages: bool) -> DaemonSetStatus {
    let observed = set.status.observed_generation;
    DaemonSetStatus {
        current_number_scheduled: tally.current,
        number_misscheduled: tally.misscheduled,
        desired_number_scheduled: tally.desired,
        number_ready: tally.ready,
        observed_generation: if manages { set.metadata.generation.max(observed) } else { observed },
        updated_number_scheduled: tally.updated,
        number_available: tally.available,
        number_unavailable: tally.desired - tally.available,
        collision_count: set.status.collision_count,
    }
}
