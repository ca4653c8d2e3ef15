//! Computes the status: the counts of Pods at the start of a sync, and the condition `ReplicaFailure`.

use jiff::Timestamp;

use super::failure;
use crate::{
    objects::Status,
    plan::PodChangesOutcome,
    snapshot::{SharedPod, Snapshot},
};

/// Returns the status at `now`, after Pods were created or deleted with the result `managed`.
///
/// The counts do not reflect the creations and deletions of this sync. Upstream: `pkg/controller/replicaset`,
/// `calculateStatus`.
pub fn compute_status(
    snapshot: &Snapshot,
    claimed: &[&SharedPod],
    managed: &PodChangesOutcome,
    now: Timestamp,
) -> Status {
    let set = &snapshot.set;
    let stored = &set.status;
    let count =
        |counts: &dyn Fn(&SharedPod) -> bool| to_replica_count(claimed.iter().filter(|pod| counts(pod)).count());
    Status {
        replicas: to_replica_count(claimed.len()),
        fully_labeled_replicas: count(&|pod| pod.meta().labels.contains_all(&set.template_labels)),
        ready_replicas: count(&|pod| pod.is_ready()),
        available_replicas: count(&|pod| pod.is_available(set.min_ready_seconds, now)),
        terminating_replicas: snapshot
            .decision_settings
            .counts_terminating_pods
            .then_some(to_replica_count(snapshot.terminating_pod_count)),
        observed_generation: set.metadata.generation,
        conditions: failure::updated_conditions(&stored.conditions, managed, now),
    }
}

fn to_replica_count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
