//! The status of a set, and the time of the next availability check.

use std::time::Duration;

use common::pods::time_until_next_available_pod;
use jiff::Timestamp;

use super::ordinals::PodsByOrdinal;
use crate::{
    objects::{StatefulSet, Status},
    snapshot::SharedPod,
};

/// Counts the Pods in range and out of range. For a terminating set, counts all Pods.
pub fn count_pods(ordinals: &PodsByOrdinal<'_>) -> Status {
    let set = ordinals.set();
    let revisions = ordinals.revisions;
    let mut status = Status {
        current_revision: revisions.current_revision.name.clone(),
        update_revision: revisions.update_revision.name.clone(),
        observed_generation: set.metadata.generation,
        collision_count: Some(revisions.collision_count),
        ..Status::default()
    };
    let numbered = ordinals.pods_in_range().chain(ordinals.condemned_pods.iter().map(|(_, pod)| pod));
    let pods: Vec<&SharedPod> =
        if ordinals.snapshot.owner.is_deleting { ordinals.claimed_pods.iter().collect() } else { numbered.collect() };
    for pod in pods {
        let terminating = pod.meta().is_deleting();
        let ready = pod.is_running_and_ready();
        status.replicas += 1;
        status.ready_replicas += i32::from(ready);
        status.available_replicas += i32::from(ready && pod.is_available(set.min_ready_seconds, ordinals.snapshot.now));
        status.current_replicas += i32::from(!terminating && ordinals.has_current_revision(pod));
        status.updated_replicas += i32::from(!terminating && ordinals.has_update_revision(pod));
    }
    status
}

/// Returns the status after the work on Pods. Lowers `currentReplicas` by the number of Pods of the current revision that were
/// deleted for an update, and makes the update revision the current one if the rollout is complete.
///
/// Upstream subtracts every deletion, regardless of the revision, and may get below zero, which the server refuses. It completes
/// a rollout (`completeRollingUpdate`) only with `RollingUpdate` before Kubernetes 1.37.
pub fn status_after_work(set: &StatefulSet, status_before_work: &Status, deletions: i32) -> Status {
    let mut status = status_before_work.clone();
    status.current_replicas = status.current_replicas.saturating_sub(deletions).max(0);
    if [status.updated_replicas, status.ready_replicas, set.replicas] == [status.replicas; 3] {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
    status
}

/// Returns the time from `now` until the next ready Pod becomes available; `None` if no ready Pod is unavailable.
///
/// `at` is the time at which the status counted the available Pods. With a later time, a Pod that becomes available in between
/// would be neither counted nor checked again.
pub fn time_to_next_availability(
    set: &StatefulSet,
    claimed_pods: &[SharedPod],
    status: &Status,
    at: Timestamp,
    now: Timestamp,
) -> Option<Duration> {
    if set.min_ready_seconds == 0 || status.ready_replicas == status.available_replicas {
        return None;
    }
    let wait = time_until_next_available_pod(claimed_pods.iter().map(|pod| &***pod), set.min_ready_seconds, at);
    let passed = Duration::try_from(now.duration_since(at)).unwrap_or_default();
    let usual = Duration::from_secs(u64::from(set.min_ready_seconds.unsigned_abs()));
    Some(wait.map_or(usual, |wait| wait.saturating_sub(passed)))
}
