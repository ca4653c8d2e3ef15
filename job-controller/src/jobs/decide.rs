//! Decides the plan of a Job from its snapshot. Pure: no requests, no clock, no randomness.
//!
//! A sync decides in several steps, because later writes depend on the results of earlier requests:
//!
//! 1. [`decide()`] takes stock of the Pods ([`Situation`]), and decides whether the Job ends ([`end`]), how Pods are scheduled
//!    ([`gang`]) and which Pods to create or delete ([`Manage`]). [`decide_adopting`] repeats this if some adoptions were
//!    refused, and [`gang::gang`] decides again if the objects of the gang already exist;
//! 2. [`manage::managed`] and [`track::track`], after Pods were created or deleted: the first status, and the Pods whose
//!    finalizers are removed after the status is written;
//! 3. [`settle::conclude`], after those finalizers are removed: the second status, and the end;
//! 4. [`requeue::requeue`]: when the Job is synced again.

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

/// Decides how to sync a Job if only `adopted` of the Pods to adopt are adopted.
pub fn decide_adopting(snapshot: &Snapshot, adopted: &[PodRef]) -> SyncPlan {
    let situation = Situation::new(snapshot, situation::own_pods(snapshot, adopted));
    let gang = gang::gang(snapshot, &situation, snapshot.scheduling.as_ref());
    let manage = manage::manage(snapshot, &situation);
    let managed = manage::managed(snapshot, &situation, &manage, &manage.as_planned(&situation));
    let tracked = track::track(snapshot, &situation, &manage, &managed, snapshot.now);
    let requeue_after = requeue_after(snapshot, &situation, &manage);
    SyncPlan { situation, gang, manage, managed, tracked, requeue_after }
}

/// Returns the time until the active deadline, the next postponed Pod, or the end of the wait for own writes, whichever is first.
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

/// Returns the Pods with the finalizer that a terminating Job does not count.
///
/// A terminating Job releases no Pod, so that its dependents stay known to the garbage collector. Upstream therefore keeps the
/// finalizer of a Pod whose labels have changed, and a foreground deletion waits for that Pod forever.
fn untrack_uncounted(snapshot: &Snapshot, left_alone: Option<&LeftAlone>) -> Vec<PodRef> {
    if !snapshot.job.metadata.is_deleting() {
        return Vec::new();
    }
    let selected = match left_alone {
        // Another controller counts the Pods, or the loop of orphans removes the finalizers after the Job has finished.
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
