//! Counts finished Pods, in an order of writes that loses no Pod and counts no Pod twice.
//!
//! ```text
//! write 1: the status lists the UIDs (or indexes) of finished Pods that still have their finalizers
//! write 2: the finalizers of these Pods are removed, in parallel
//! write 3: the status counts the listed UIDs without finalizers, and removes them from the list
//! ```
//!
//! Another process may take over between any two writes. A listed UID is counted after its Pod has lost the finalizer, no
//! matter which process removed the finalizer. A UID in the list is not added again. Indexes stay in the status permanently.
//! One status lists a limited number of UIDs; later writes list the remaining ones.

use std::collections::BTreeMap;

use common::{map::HashSet, meta::Uid, pods::Phase};
use jiff::Timestamp;

use super::{
    conditions,
    failure::{action, is_failed},
    settle, suspend,
};
use crate::{
    jobs::{
        plan::{Manage, Managed, OwnPod, Situation, Tracked, Verdict},
        snapshot::Snapshot,
    },
    objects::Action,
};

/// How a terminated Pod is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// The Pod completes its index.
    Index,
    /// The UID of the Pod is listed as succeeded.
    Success,
    /// The UID of the Pod is listed as failed. The action is that of the failure policy, if a rule matches.
    Failure(Option<Action>),
    /// The failure policy ignores the failure of the Pod.
    Ignored,
    /// The Pod is not counted, or was counted before.
    Nothing,
}

impl Counts {
    /// Whether counting the Pod adds a UID or an index to the status.
    fn lengthens_status(self) -> bool {
        matches!(self, Self::Index | Self::Success | Self::Failure(_))
    }
}

/// Decides the first status of a sync, and the finalizers to remove after this status is written.
///
/// Upstream: `pkg/controller/job`, `trackJobStatusAndRemoveFinalizers`.
pub fn track(
    snapshot: &Snapshot,
    situation: &Situation,
    manage: &Manage,
    managed: &Managed,
    now: Timestamp,
) -> Tracked {
    let job = &*snapshot.job;
    let mut status = job.status.clone();
    status.start_time = situation.start_time;
    let suspension = if manage.scales() && managed.end_to_write.is_none() {
        suspend::set(&mut status, job.suspend, snapshot.limits.clears_start_time, now)
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

    // Active Pods that were deleted without being counted have lost their finalizers.
    let was_deleted =
        |own: &OwnPod| managed.end_to_write.is_some() && own.pod.is_active() && manage.untracks_first(own);
    let is_tracked = |own: &OwnPod| own.has_finalizer() && !was_deleted(own);
    let tracked = situation.pods.iter().filter(|own| is_tracked(own));
    let still_tracked: HashSet<Uid> = tracked.map(|own| own.pod.meta().uid.clone()).collect();
    writes |= settle::settle(&mut status, &still_tracked);

    let failed: HashSet<Uid> = status.named.failed.iter().cloned().collect();
    let succeeded: HashSet<Uid> = status.named.succeeded.iter().cloned().collect();
    let (mut untrack, mut indexes, mut actions, mut capped) = (Vec::new(), 0, BTreeMap::new(), false);
    for position in in_order(snapshot, situation) {
        let own = &situation.pods[position];
        if !is_tracked(own) || !may_untrack(snapshot, situation, managed, position) {
            continue;
        }
        let uid = &own.pod.meta().uid;
        let is_named = failed.contains(uid) || succeeded.contains(uid);
        let counts = if is_named { Counts::Nothing } else { counts_as(snapshot, situation, managed, position) };
        // When the list of UIDs is full, only Pods that would extend it have to wait.
        if counts.lengthens_status() && indexes + status.named.len() >= snapshot.limits.named_pods {
            capped = true;
            continue;
        }
        untrack.push(position);
        match counts {
            Counts::Nothing => {}
            Counts::Index => indexes += 1,
            Counts::Success => status.named.succeeded.push(uid.clone()),
            Counts::Failure(action) => {
                if let Some(action) = action {
                    *actions.entry(action).or_insert(0) += 1;
                }
                status.named.failed.push(uid.clone());
            }
            Counts::Ignored => *actions.entry(Action::Ignore).or_insert(0) += 1,
        }
    }
    writes |= status.named.len() != failed.len() + succeeded.len();
    if job.is_indexed() {
        status.completed_indexes = situation.completed.to_string().into();
        status.succeeded = number(situation.completed.len());
        status.failed_indexes = situation.failed_indexes.as_ref().map(|set| set.to_string().into());
        writes |= (&status.completed_indexes, &status.failed_indexes, status.succeeded)
            != (&stored.completed_indexes, &stored.failed_indexes, stored.succeeded);
    }
    if let Some(end) = managed.end_to_write.as_ref().filter(|end| end.is_new) {
        conditions::set_end(&mut status, end.interim(), end, now);
        writes = true;
    }
    Tracked { status, writes, untrack, still_tracked, capped, actions, suspension }
}

/// Returns the positions of Pods in counting order: by index, Pods without an index first.
fn in_order(snapshot: &Snapshot, situation: &Situation) -> Vec<usize> {
    let mut order: Vec<usize> = (0..situation.pods.len()).collect();
    if snapshot.job.is_indexed() {
        order.sort_by_key(|position| situation.pods[*position].pod.index);
    }
    order
}

/// Whether the finalizer of this Pod may be removed after the status is written.
fn may_untrack(snapshot: &Snapshot, situation: &Situation, managed: &Managed, position: usize) -> bool {
    let (job, pod) = (&*snapshot.job, &situation.pods[position].pod);
    job.metadata.is_deleting()
        || managed.end_to_write.is_some()
        || pod.phase == Phase::Succeeded
        || (is_failed(job, pod) && !situation.is_predecessor(position))
}

fn counts_as(snapshot: &Snapshot, situation: &Situation, managed: &Managed, position: usize) -> Counts {
    let (job, pod) = (&*snapshot.job, &situation.pods[position].pod);
    if !job.has_index_of(pod) {
        return Counts::Nothing;
    }
    if pod.phase == Phase::Succeeded {
        return match pod.index.filter(|_| job.is_indexed()) {
            // An index that has failed permanently stays failed.
            Some(index) if situation.newly_completed.contains(index) => Counts::Index,
            Some(_) => Counts::Nothing,
            None => Counts::Success,
        };
    }
    // Pods that still run when a Job fails count as failed.
    let fails = managed.end_to_write.as_ref().is_some_and(|end| end.verdict == Verdict::Failure);
    if !fails && !is_failed(job, pod) {
        return Counts::Nothing;
    }
    match action(job, pod) {
        Some(Action::Ignore) => Counts::Ignored,
        action => Counts::Failure(action),
    }
}
