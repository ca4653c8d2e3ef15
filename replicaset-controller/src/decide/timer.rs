//! Decides when to sync again because a Pod becomes available without an event.

use std::time::Duration;

use common::pods::time_until_next_available_pod;
use jiff::Timestamp;

use crate::{
    objects::Status,
    plan::PodChanges,
    snapshot::{SharedPod, Snapshot},
};

/// Returns the time from `now` until the next ready Pod becomes available. `None` if the status of this sync counts all ready
/// Pods as available.
///
/// If no ready Pod has a transition time, the result is `minReadySeconds`, in this sync and in later ones.
/// Upstream: `pkg/controller/replicaset`, the end of `syncReplicaSet`.
pub fn time_until_next_available(
    snapshot: &Snapshot,
    claimed_pods: &[&SharedPod],
    status: &Status,
    now: Timestamp,
) -> Option<Duration> {
    let min_ready_seconds = snapshot.set.min_ready_seconds;
    if min_ready_seconds == 0 || status.ready_replicas == status.available_replicas {
        return None;
    }
    let passed = Duration::try_from(now.duration_since(snapshot.now)).unwrap_or_default();
    let pods = claimed_pods.iter().map(|pod| &***(*pod));
    match time_until_next_available_pod(pods, min_ready_seconds, snapshot.now) {
        Some(wait) => Some(wait.saturating_sub(passed)),
        None => Some(Duration::from_secs(u64::from(min_ready_seconds.unsigned_abs()))),
    }
}

/// Returns the time until the first of these events: a Pod becomes available, the pause of creations or the back-off after
/// failed Pods ends, or this process stops waiting for its caches to show its writes.
pub fn requeue_after(
    snapshot: &Snapshot,
    pod_changes: &PodChanges,
    time_until_next_available: Option<Duration>,
) -> Option<Duration> {
    let delay_of_creations = match pod_changes {
        PodChanges::CreationPaused(pause) => pause.requeue_after(),
        PodChanges::DelayedAfterFailures(backoff) => Some(backoff.remaining_delay),
        _ => None,
    };
    let max_wait = snapshot.pending_writes.as_ref().map(|pending_writes| pending_writes.max_wait);
    [time_until_next_available, delay_of_creations, max_wait].into_iter().flatten().min()
}
