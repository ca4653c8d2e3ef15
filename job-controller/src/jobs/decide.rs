//! Deciding: a snapshot in, a plan out. Pure: no requests, no clock, no randomness.
//!
//! A sync decides in three steps, because what is written depends on how requests went:
//!
//! 1. [`decide()`]: what the Pods mean ([`Situation`]), whether the Job ends ([`end`]), which Pods to create or delete
//!    ([`Manage`]);
//! 2. [`track::track`], once that was tried: the first status, and the Pods whose finalizer may go once it is written;
//! 3. [`settle`], once those finalizers are gone: the second status.

pub mod backoff;
pub mod end;
pub mod failure;
pub mod gang;
pub mod manage;
pub mod settle;
pub mod situation;
pub mod suspend;
pub mod track;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use super::{
    plan::{Gang, LeftAlone, Manage, Plan, Situation},
    snapshot::{PodRef, Snapshot},
};
use crate::objects::{Job, Mode};

/// Decides what one sync does. Upstream: `pkg/controller/job`, `syncJob`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    decide_adopting(snapshot, &snapshot.claims.adopt)
}

/// The same where, of the Pods to adopt, only these are adopted.
pub fn decide_adopting(snapshot: &Snapshot, adopted: &[PodRef]) -> Plan {
    let left_alone = left_alone(&snapshot.job);
    let is_synced = left_alone.is_none();
    let pods = if is_synced { situation::claimed(snapshot, adopted) } else { Vec::new() };
    let situation = Situation::new(snapshot, pods);
    let gang =
        if is_synced { gang::gang(snapshot, &situation, snapshot.scheduling.as_ref()) } else { Gang::Ordinary(None) };
    let manage = if is_synced { manage::manage(snapshot, &situation) } else { Manage::Nothing };
    let managed = manage::managed(snapshot, &situation, &manage, &manage.as_planned(&situation));
    Plan {
        job: Arc::clone(&snapshot.job),
        adopt: snapshot.claims.adopt.clone(),
        release: snapshot.claims.release.clone(),
        untrack: to_untrack(snapshot, left_alone.as_ref()),
        tracked: track::track(snapshot, &situation, &managed, snapshot.now),
        requeue_after: if is_synced { requeue_after(snapshot, &situation, &manage) } else { None },
        left_alone,
        situation,
        gang,
        manage,
    }
}

/// How long until the active deadline passes, a postponed Pod may be created, or this process stops waiting for its own
/// writes, whichever is first.
fn requeue_after(snapshot: &Snapshot, situation: &Situation, manage: &Manage) -> Option<Duration> {
    let deadline = if situation.end.is_none() { end::time_left(snapshot, situation) } else { None };
    let postponed = match manage {
        Manage::Postpone { wait, .. } => Some(*wait),
        Manage::Create { wait, .. } => *wait,
        _ => None,
    };
    let blocked = snapshot.blocked.as_ref().map(|blocked| blocked.at_most);
    [deadline, postponed, blocked].into_iter().flatten().min()
}

/// The Pods that a Job which is being deleted does not count, and that still carry the finalizer.
///
/// A Job that is being deleted releases no Pod, so that its dependents stay known to the garbage collector. Upstream therefore
/// leaves the finalizer of a Pod whose labels have changed, and a foreground deletion waits for that Pod for ever.
fn to_untrack(snapshot: &Snapshot, left_alone: Option<&LeftAlone>) -> Vec<PodRef> {
    if !snapshot.job.metadata.is_deleting() {
        return Vec::new();
    }
    let claimed = match left_alone {
        // Another controller counts the Pods, or takes their finalizers once the Job has finished.
        Some(LeftAlone::ManagedBy(_) | LeftAlone::Finished) => return Vec::new(),
        Some(LeftAlone::UnknownCompletionMode | LeftAlone::Selector(_)) => snapshot.claims.keep.as_slice(),
        None => &[],
    };
    let pods = snapshot.unselected.iter().chain(claimed);
    pods.filter(|pod| pod.tracked && !snapshot.processed.contains(&pod.meta().uid)).cloned().collect()
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
