//! Decides the plan of a Job from its snapshot. Pure: no requests, no clock, no randomness.
//!
//! A sync decides in several steps, because later writes depend on the results of earlier requests:
//!
//! 1. [`decide()`] counts the Pods ([`Situation`]). It decides whether the Job ends ([`end`]), how its Pods are scheduled
//!    ([`gang`]), and which Pods to create or delete ([`Manage`]). [`decide_adopting`] decides again if the server refuses some
//!    adoptions, and [`gang::gang`] if the Workload or the `PodGroup` already exists.
//! 2. After Pods are created or deleted, [`manage::managed`] and [`track::track`] decide the first status, and which Pods lose
//!    their finalizers after the status is written.
//! 3. After these finalizers are removed, [`settle::conclude`] decides the second status, and whether it contains the end.
//! 4. [`requeue::requeue`] decides when the Job is synced again.

pub mod backoff;
mod conditions;
pub mod end;
pub mod failure;
pub mod gang;
pub mod manage;
pub mod requeue;
pub mod settle;
pub mod situation;
pub mod suspend;
pub mod track;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use super::{
    plan::{LeftAlone, Manage, Plan, Situation, SyncPlan},
    snapshot::{PodRef, Snapshot},
};
use crate::objects::{Job, Mode};

/// Decides the plan of one sync. Upstream: `pkg/controller/job`, `syncJob`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let sync = match left_alone(&snapshot.job) {
        Some(why) => Err(why),
        None => Ok(decide_adopting(snapshot, &snapshot.claims.adopt)),
    };
    Plan { job: Arc::clone(&snapshot.job), untrack_uncounted: untrack_uncounted(snapshot, sync.as_ref().err()), sync }
}

/// Decides how to sync a Job that adopts only the Pods in `adopted`.
pub fn decide_adopting(snapshot: &Snapshot, adopted: &[PodRef]) -> SyncPlan {
    let situation = Situation::new(snapshot, situation::own_pods(snapshot, adopted));
    let gang = gang::gang(snapshot, &situation, snapshot.scheduling.as_ref());
    let manage = manage::manage(snapshot, &situation);
    let managed = manage::managed(snapshot, &situation, &manage, &manage.as_planned(&situation));
    let tracked = track::track(snapshot, &situation, &manage, &managed, snapshot.now);
    let requeue_after = requeue_after(snapshot, &situation, &manage);
    SyncPlan { situation, gang, manage, managed, tracked, requeue_after }
}

/// Returns the shortest time until the active deadline, the next postponed Pod, or the end of the wait for stale caches.
fn requeue_after(snapshot: &Snapshot, situation: &Situation, manage: &Manage) -> Option<Duration> {
    let deadline = if situation.decided_end.is_none() { end::time_left(snapshot, situation) } else { None };
    let postponed = match manage {
        Manage::Postpone { wait, .. } => Some(*wait),
        Manage::Create { wait, .. } => *wait,
        _ => None,
    };
    let unseen = snapshot.unseen_writes.as_ref().map(|unseen| unseen.at_most);
    [deadline, postponed, unseen].into_iter().flatten().min()
}

/// Returns the Pods that carry the finalizer and are not counted, because they belong to a terminating Job.
///
/// A terminating Job releases no Pod, so that the garbage collector still finds its dependents. If the labels of a Pod have
/// changed, upstream therefore keeps the finalizer of the Pod, and a foreground deletion waits for the Pod forever.
fn untrack_uncounted(snapshot: &Snapshot, left_alone: Option<&LeftAlone>) -> Vec<PodRef> {
    if !snapshot.job.metadata.is_deleting() {
        return Vec::new();
    }
    let selected = match left_alone {
        // Another controller counts the Pods, or the orphan loop removes the finalizers of a finished Job.
        Some(LeftAlone::ManagedBy(_) | LeftAlone::Finished) => return Vec::new(),
        Some(LeftAlone::UnknownCompletionMode | LeftAlone::Selector(_)) => snapshot.claims.keep.as_slice(),
        None => &[],
    };
    let pods = snapshot.unselected.iter().chain(selected);
    pods.filter(|pod| pod.tracked && !snapshot.untracked_here.contains(&pod.meta().uid)).cloned().collect()
}

fn left_alone(job: &Job) -> Option<LeftAlone> {
    if let Some(by) = &job.managed_by {
        return Some(LeftAlone::ManagedBy(by.to_string()));
    }
    if job.is_finished() {
        return Some(LeftAlone::Finished);
    }
    if job.mode == Mode::Unknown {
        return Some(LeftAlone::UnknownCompletionMode);
    }
    job.selector.problem().map(|problem| LeftAlone::Selector(problem.clone()))
}
