//! Computes the status: the counts of Pods at the start of a sync, and the condition `ReplicaFailure`.

use super::failure;
use crate::{
    objects::Status,
    plan::PodChangesOutcome,
    snapshot::{SharedPod, Snapshot},
};

/// Returns the status at the time of the snapshot, after Pods were created or deleted with this outcome.
///
/// The counts do not reflect the creations and deletions of this sync. Upstream: `pkg/controller/replicaset`,
/// `calculateStatus`.
pub fn compute_status(snapshot: &Snapshot, claimed_pods: &[&SharedPod], outcome: &PodChangesOutcome) -> Status {
    let (set, now) = (&snapshot.set, snapshot.now);
    let count =
        |counts: &dyn Fn(&SharedPod) -> bool| to_replica_count(claimed_pods.iter().filter(|pod| counts(pod)).count());
    Status {
        replicas: to_replica_count(claimed_pods.len()),
        fully_labeled_replicas: count(&|pod| pod.meta().labels.contains_all(&set.template_labels)),
        ready_replicas: count(&|pod| pod.is_ready()),
        available_replicas: count(&|pod| pod.is_available(set.min_ready_seconds, now)),
        terminating_replicas: snapshot
            .decision_settings
            .counts_terminating_pods
            .then_some(to_replica_count(snapshot.terminating_pod_count)),
        observed_generation: set.metadata.generation,
        conditions: failure::updated_conditions(&set.status.conditions, outcome, now),
    }
}

fn to_replica_count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
