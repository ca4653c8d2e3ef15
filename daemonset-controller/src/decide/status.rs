use crate::{
    objects::{DaemonSet, Status},
    snapshot::nodes::Tally,
};

/// Returns the status with these counts. `manages` is true if the sync also creates and deletes Pods. Otherwise the observed
/// generation does not change.
///
/// Upstream: `pkg/controller/daemon`, `storeDaemonSetStatus`.
pub fn status(set: &DaemonSet, tally: &Tally, manages: bool) -> Status {
    let observed = set.status.observed_generation;
    Status {
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
