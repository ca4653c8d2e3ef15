//! Deciding: a snapshot in, a plan out. Pure: no requests, no clock, no randomness.
//!
//! A sync decides in three steps, because what is written depends on how requests went:
//!
//! 1. [`decide`]: what the Pods mean ([`Situation`]), whether the Job ends ([`end`]), which Pods to create or delete
//!    ([`Manage`]);
//! 2. [`track::track`], once that was tried: the first status, and the Pods whose finalizer may go once it is written;
//! 3. [`settle`], once those finalizers are gone: the second status.

pub mod backoff;
pub mod end;
pub mod explain;
pub mod gang;
pub mod manage;
pub mod settle;
pub mod situation;
pub mod suspend;
pub mod track;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod world;

use std::{sync::Arc, time::Duration};

use common::{
    map::{HashMap, HashSet},
    meta::Uid,
    refs::{Claims, Owner},
    selector::SelectorError,
};
use jiff::Timestamp;

pub use backoff::Record;
pub use end::{End, Verdict};
pub use gang::Gang;
pub use manage::{Manage, Managed, NewPod, Outcome};
pub use situation::{Claimed, Situation};

use crate::objects::{CachedPod, Job, Mode};

/// A cached Pod.
pub type PodRef = Arc<CachedPod>;

/// Everything one sync may look at.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Job.
    pub job: Arc<Job>,
    /// The Job as an owner of Pods.
    pub owner: Owner,
    /// Its Pods: kept, to be adopted, to be released.
    pub claims: Claims<PodRef>,
    /// Pods that the Job controls but does not claim, because its selector does not match them and it is being deleted.
    pub unselected: Vec<PodRef>,
    /// Pods whose finalizer was removed, though the cache does not show it yet: they have been dealt with.
    pub processed: Arc<HashSet<Uid>>,
    /// When Pods ended whose node says that this is yet to come: when that was seen first.
    pub ends: Arc<HashMap<Uid, Timestamp>>,
    /// Failures of Pods since the last success.
    pub backoff: Record,
    /// Workloads and groups of the Job's Pods; none if nobody asks (gate `WorkloadWithJob`).
    pub scheduling: Option<gang::Known>,
    /// Whether the Job's namespace terminates: the server refuses every Pod.
    pub terminating_namespace: bool,
    /// Why Pods may be neither created nor deleted now: something this process did is not seen yet.
    pub blocked: Option<Blocked>,
    /// How far a sync may go.
    pub limits: Limits,
    /// The time of the sync.
    pub now: Timestamp,
}

/// Why nothing is created or deleted for the time being.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// What is waited for.
    pub why: String,
    /// How long at most.
    pub at_most: Duration,
    /// Whether the Pods may be in another state than it seems.
    pub is_stale: bool,
}

/// What the operator has set, as far as decisions depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most uids one status names as being counted.
    pub uncounted: usize,
    /// The most Pods one sync creates or deletes.
    pub pods: usize,
    /// The replacement of a failed Pod waits that long at first.
    pub failure_backoff: Duration,
    /// And never longer than that.
    pub failure_backoff_max: Duration,
    /// Events of Pods are gathered for that long.
    pub batch: Duration,
    /// Whether suspending a Job clears its start (gate `MutableSchedulingDirectivesForSuspendedJobs`).
    pub clears_start_time: bool,
}

/// What one sync does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The Job it is about.
    pub job: Arc<Job>,
    /// Why the Job is left alone, if it is.
    pub left_alone: Option<LeftAlone>,
    /// Pods to adopt.
    pub adopt: Vec<PodRef>,
    /// Pods to release.
    pub release: Vec<PodRef>,
    /// Pods that lose their finalizer uncounted, because the Job is being deleted and does not count them.
    pub untrack: Vec<PodRef>,
    /// What the Pods mean, if every adoption succeeds.
    pub situation: Situation,
    /// How Pods are scheduled, if every adoption succeeds.
    pub gang: Gang,
    /// What is done about the number of Pods, if every adoption succeeds.
    pub manage: Manage,
    /// What the status becomes first, if everything goes well.
    pub tracked: track::Tracked,
    /// When the passing of time may change the decision, if every adoption succeeds.
    pub requeue_after: Option<Duration>,
}

/// Why a Job is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftAlone {
    /// It has finished.
    Finished,
    /// Somebody else manages it.
    ManagedBy(String),
    /// Its completion mode is of a later version.
    UnknownCompletionMode,
    /// Its selector breaks the rules.
    Selector(SelectorError),
}

/// Decides what one sync does. Upstream: `pkg/controller/job`, `syncJob`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let job = &snapshot.job;
    let left_alone = left_alone(job);
    let claims = &snapshot.claims;
    let pods = if left_alone.is_some() { Vec::new() } else { situation::claimed(snapshot, &claims.adopt) };
    let situation = Situation::new(snapshot, pods);
    let gang = match &left_alone {
        None => gang::gang(snapshot, &situation, snapshot.scheduling.as_ref()),
        Some(_) => Gang::Ordinary(None),
    };
    let manage = if left_alone.is_some() { Manage::Nothing } else { manage::manage(snapshot, &situation) };
    let managed = manage::managed(snapshot, &situation, &manage, &manage.as_planned(&situation));
    let tracked = track::track(snapshot, &situation, &managed, snapshot.now);
    let untrack = to_untrack(snapshot, left_alone.as_ref());
    let requeue_after = if left_alone.is_some() { None } else { requeue_after(snapshot, &situation, &manage) };
    Plan {
        job: Arc::clone(job),
        left_alone,
        adopt: claims.adopt.clone(),
        release: claims.release.clone(),
        untrack,
        situation,
        gang,
        manage,
        tracked,
        requeue_after,
    }
}

/// How long until the active deadline passes, a postponed Pod may be created, or this process stops waiting for its own
/// writes, whichever is first.
pub fn requeue_after(snapshot: &Snapshot, situation: &Situation, manage: &Manage) -> Option<Duration> {
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
