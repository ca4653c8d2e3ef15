//! What the status tells.

use std::time::Duration;

use common::pods::next_availability_check;
use jiff::Timestamp;

use super::situation::Situation;
use crate::{
    objects::{StatefulSet, Status, Update},
    snapshot::PodRef,
};

/// Counts the Pods as they are now: those that are wanted and those that are condemned; of a set that is being deleted, all.
pub fn count(situation: &Situation<'_>) -> Status {
    let set = situation.set();
    let revisions = situation.revisions;
    let mut status = Status {
        current_revision: revisions.current.name.clone(),
        update_revision: revisions.update.name.clone(),
        observed_generation: set.metadata.generation,
        collision_count: Some(revisions.collisions),
        ..Status::default()
    };
    let numbered = situation.present().chain(situation.condemned.iter().map(|(_, pod)| pod));
    let pods: Vec<&PodRef> =
        if situation.snapshot.owner.deleting { situation.claimed.iter().collect() } else { numbered.collect() };
    for pod in pods {
        let terminating = pod.meta().is_deleting();
        let ready = pod.is_running_and_ready();
        status.replicas += 1;
        status.ready_replicas += i32::from(ready);
        status.available_replicas +=
            i32::from(ready && pod.is_available(set.min_ready_seconds, situation.snapshot.now));
        status.current_replicas += i32::from(!terminating && situation.is_current(pod));
        status.updated_replicas += i32::from(!terminating && situation.is_updated(pod));
    }
    status
}

/// The same after so many Pods of the current revision were deleted to be replaced.
///
/// Upstream subtracts every deletion, whatever the revision, and may get below zero, which the server refuses.
pub fn lowered(counted: &Status, deletions: i32) -> Status {
    Status { current_replicas: counted.current_replicas.saturating_sub(deletions).max(0), ..counted.clone() }
}

/// The same, with the rollout completed if it is. Upstream: `completeRollingUpdate`.
pub fn complete(set: &StatefulSet, status: &Status) -> Status {
    let done = matches!(set.update, Update::Rolling(_))
        && status.updated_replicas == status.replicas
        && status.ready_replicas == status.replicas
        && status.replicas == set.replicas;
    let mut status = status.clone();
    if done {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
    status
}

/// How long after `now` the next Pod becomes available by the passing of time.
///
/// `at` is the time at which the status counted the available Pods: with another one, a Pod that became available in between would
/// be neither counted nor waited for.
pub fn next_check(
    set: &StatefulSet,
    claimed: &[PodRef],
    status: &Status,
    at: Timestamp,
    now: Timestamp,
) -> Option<Duration> {
    if set.min_ready_seconds == 0 || status.ready_replicas == status.available_replicas {
        return None;
    }
    let wait = next_availability_check(claimed.iter().map(|pod| &***pod), set.min_ready_seconds, at);
    let passed = Duration::try_from(now.duration_since(at)).unwrap_or_default();
    let usual = Duration::from_secs(u64::from(set.min_ready_seconds.unsigned_abs()));
    Some(wait.map_or(usual, |wait| wait.saturating_sub(passed)))
}
