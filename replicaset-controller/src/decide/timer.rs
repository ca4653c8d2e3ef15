//! Decides when to sync again because a Pod becomes available without an event.

use std::time::Duration;

use common::pods::time_until_next_available_pod;
use jiff::Timestamp;

use crate::{
    objects::Status,
    plan::PodChanges,
    snapshot::{SharedPod, Snapshot},
};

/// Returns the time from `now` until the next ready Pod becomes available. `None` if the status, which was computed at `at`,
/// counts all ready Pods as available.
///
/// If no ready Pod has a transition time, the result is `minReadySeconds`, in this sync and in later ones.
/// Upstream: `pkg/controller/replicaset`, the end of `syncReplicaSet`.
pub fn time_until_next_available(
    snapshot: &Snapshot,
    claimed: &[&SharedPod],
    status: &Status,
    at: Timestamp,
    now: Timestamp,
) -> Option<Duration> {
    let min_ready = snapshot.set.min_ready_seconds;
    if min_ready == 0 || status.ready_replicas == status.available_replicas {
        return None;
    }
    let full = Duration::from_secs(u64::from(min_ready.unsigned_abs()));
    let passed = Duration::try_from(now.duration_since(at)).unwrap_or_default();
    let next = time_until_next_available_pod(claimed.iter().map(|pod| &***(*pod)), min_ready, at);
    Some(next.map_or(full, |wait| wait.saturating_sub(passed)))
}

/// Returns the time until the first of these events: a Pod becomes available, the pause of creations or the back-off after
/// failed Pods ends, or this process stops waiting for its caches to show its writes.
pub fn requeue_after(snapshot: &Snapshot, manage: &PodChanges, available_in: Option<Duration>) -> Option<Duration> {
    let allowed = match manage {
        PodChanges::CreationPaused(pause) => pause.requeue_after(),
        PodChanges::DelayedAfterFailures(failing) => Some(failing.remaining_delay),
        _ => None,
    };
    let blocked = snapshot.pending_writes.as_ref().map(|blocked| blocked.max_wait);
    [available_in, allowed, blocked].into_iter().flatten().min()
}
