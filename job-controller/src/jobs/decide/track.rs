//! Counting what has ended: the order of writes in which nothing is lost and nothing counted twice.
//!
//! ```text
//! write 1: the status names the uids of Pods that ended (or their indexes), their finalizers are still there
//! write 2: those finalizers go, in parallel
//! write 3: the status counts the uids whose finalizers are gone, and names them no more
//! ```
//!
//! Between any two writes the Job may change hands: a uid that is named is counted once its Pod has no finalizer any
//! more, whoever saw to that, and is not named again as long as it has one. Indexes are named once and for all. At most
//! so many are dealt with at once that the list stays small; the rest follows.

use std::collections::BTreeMap;

use common::{
    conditions::{self, TRUE},
    map::HashSet,
    meta::Uid,
    pods::Phase,
};
use jiff::Timestamp;

use super::{
    failure::{action, is_failed},
    manage::Managed,
    settle,
    suspend::{self, job_condition, put},
};
use crate::{
    jobs::{
        plan::{Claimed, Situation, Tracked, Verdict},
        snapshot::Snapshot,
    },
    objects::Action,
};

/// What a terminated Pod counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// As the first success of its index.
    Index,
    /// As a success.
    Success,
    /// As a failure, and what the Job's failure policy says of it.
    Failure(Option<Action>),
    /// As a failure that does not count.
    Ignored,
    /// As nothing: it was counted before, or does not count.
    Nothing,
}

impl Counts {
    /// Whether the status gets longer.
    fn is_named(self) -> bool {
        matches!(self, Self::Index | Self::Success | Self::Failure(_))
    }
}

/// Decides on the first status and on the finalizers that may go then.
///
/// Upstream: `pkg/controller/job`, `trackJobStatusAndRemoveFinalizers`.
pub fn track(snapshot: &Snapshot, situation: &Situation, managed: &Managed, at: Timestamp) -> Tracked {
    let job = &*snapshot.job;
    let mut status = job.status.clone();
    status.start_time = situation.start_time;
    let suspension = if managed.scaled && managed.end.is_none() {
        suspend::set(&mut status, job.suspend, snapshot.limits.clears_start_time, at)
    } else {
        None
    };
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    status.active = number(managed.active);
    status.ready = Some(number(managed.ready));
    status.terminating = Some(number(managed.terminating));
    let stored = &job.status;
    let mut writes = suspension.is_some()
        || (status.active, status.ready, status.terminating) != (stored.active, stored.ready, stored.terminating);

    // Who was spared has no finalizer any more.
    let is_open = |c: &Claimed| c.is_uncounted() && !(managed.end.is_some() && managed.spared && c.pod.is_active());
    let uncounted: HashSet<Uid> =
        situation.pods.iter().filter(|c| is_open(c)).map(|c| c.pod.meta().uid.clone()).collect();
    writes |= settle::settle(&mut status, &uncounted);

    let failed: HashSet<Uid> = status.uncounted.failed.iter().cloned().collect();
    let succeeded: HashSet<Uid> = status.uncounted.succeeded.iter().cloned().collect();
    let (mut release, mut indexes, mut actions, mut capped) = (Vec::new(), 0, BTreeMap::new(), false);
    for position in in_order(snapshot, situation) {
        let claimed = &situation.pods[position];
        if !is_open(claimed) || !may_go(snapshot, situation, managed, position) {
            continue;
        }
        let uid = &claimed.pod.meta().uid;
        let known = failed.contains(uid) || succeeded.contains(uid);
        let counts = if known { Counts::Nothing } else { counts_as(snapshot, situation, managed, position) };
        // The list is full: whoever would make it longer has to wait, and nobody else.
        if counts.is_named() && indexes + status.uncounted.len() >= snapshot.limits.uncounted {
            capped = true;
            continue;
        }
        release.push(position);
        match counts {
            Counts::Nothing => {}
            Counts::Index => indexes += 1,
            Counts::Success => status.uncounted.succeeded.push(uid.clone()),
            Counts::Failure(action) => {
                if let Some(action) = action {
                    *actions.entry(action).or_insert(0) += 1;
                }
                status.uncounted.failed.push(uid.clone());
            }
            Counts::Ignored => *actions.entry(Action::Ignore).or_insert(0) += 1,
        }
    }
    writes |= status.uncounted.len() != failed.len() + succeeded.len();
    if job.is_indexed() {
        status.completed_indexes = situation.completed.to_string().into();
        status.succeeded = number(situation.completed.len());
        status.failed_indexes = situation.given_up.as_ref().map(|set| set.to_string().into());
        writes |= (&status.completed_indexes, &status.failed_indexes, status.succeeded)
            != (&stored.completed_indexes, &stored.failed_indexes, stored.succeeded);
    }
    if let Some(end) = managed.end.as_ref().filter(|end| end.is_new) {
        debug_assert!(conditions::get(&status.conditions, end.interim()).is_none_or(|c| !c.is_true()));
        put(&mut status.conditions, job_condition(end.interim(), TRUE, &end.reason, &end.message, at));
        writes = true;
    }
    Tracked {
        status,
        writes,
        release,
        uncounted,
        capped,
        actions,
        end: managed.end.clone(),
        terminating: managed.terminating,
        suspension,
    }
}

/// Positions of the Pods in the order in which they are counted: by index, those without one first.
fn in_order(snapshot: &Snapshot, situation: &Situation) -> Vec<usize> {
    let mut order: Vec<usize> = (0..situation.pods.len()).collect();
    if snapshot.job.is_indexed() {
        order.sort_by_key(|at| situation.pods[*at].pod.index);
    }
    order
}

/// Whether the finalizer of that Pod may go once the status is written.
fn may_go(snapshot: &Snapshot, situation: &Situation, managed: &Managed, at: usize) -> bool {
    let (job, pod) = (&*snapshot.job, &situation.pods[at].pod);
    job.metadata.is_deleting()
        || managed.end.is_some()
        || pod.phase == Phase::Succeeded
        || (is_failed(job, pod) && !situation.is_kept(at))
}

fn counts_as(snapshot: &Snapshot, situation: &Situation, managed: &Managed, at: usize) -> Counts {
    let (job, pod) = (&*snapshot.job, &situation.pods[at].pod);
    if !job.has_index_of(pod) {
        return Counts::Nothing;
    }
    if pod.phase == Phase::Succeeded {
        return match pod.index.filter(|_| job.is_indexed()) {
            // An index that was given up stays so.
            Some(index) if situation.completed.contains(index) && !situation.before.contains(index) => Counts::Index,
            Some(_) => Counts::Nothing,
            None => Counts::Success,
        };
    }
    // Whoever still runs when a Job fails has failed with it.
    let fails = managed.end.as_ref().is_some_and(|end| end.verdict == Verdict::Failure);
    if !fails && !is_failed(job, pod) {
        return Counts::Nothing;
    }
    match action(job, pod) {
        Some(Action::Ignore) => Counts::Ignored,
        action => Counts::Failure(action),
    }
}
