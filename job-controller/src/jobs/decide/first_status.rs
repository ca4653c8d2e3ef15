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
//! One status lists a limited number of UIDs, and later writes list the remaining UIDs.

use std::collections::BTreeMap;

use common::{pods::Phase, prelude::*};
use jiff::Timestamp;

use super::{
    conditions,
    failure::{failure_policy_action, is_pod_failed},
    second_status,
};
use crate::{
    jobs::{
        plan::{ControlledPod, FirstStatusWrite, JobResult, PodCountsAfterScaling, PodSummary, ScalingDecision},
        snapshot::Snapshot,
    },
    objects::FailurePolicyAction,
};

/// The effect of a terminated Pod on the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountedAs {
    /// The Pod completes its index.
    Index,
    /// The UID of the Pod is listed as succeeded.
    Success,
    /// The UID of the Pod is listed as failed. The failure policy chose the action; `None` if no rule matches.
    Failure(Option<FailurePolicyAction>),
    /// The failure policy ignores the failure of the Pod.
    Ignored,
    /// The Pod is not counted, or was counted before.
    Nothing,
}

impl CountedAs {
    /// Whether counting the Pod adds a UID or an index to the status.
    fn lengthens_status(self) -> bool {
        matches!(self, Self::Index | Self::Success | Self::Failure(_))
    }
}

/// Decides the first status of a sync, and the finalizers to remove after this status is written.
///
/// Upstream: `pkg/controller/job`, `trackJobStatusAndRemoveFinalizers`.
pub fn decide_first_status(
    snapshot: &Snapshot,
    pod_summary: &PodSummary,
    scaling_decision: &ScalingDecision,
    pod_counts: &PodCountsAfterScaling,
    now: Timestamp,
) -> FirstStatusWrite {
    let job = &*snapshot.job;
    let mut status = job.status.clone();
    status.start_time = pod_summary.start_time;
    let adjusts_suspension = scaling_decision.adjusts_pod_count() && pod_counts.job_end_to_write.is_none();
    let clears_start_time = snapshot.decision_settings.clears_start_time_on_suspend;
    let suspension_change = adjusts_suspension
        .then(|| conditions::set_suspended_condition(&mut status, job.suspend, clears_start_time, now))
        .flatten();
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    status.active = number(pod_counts.active_pod_count);
    status.ready = Some(number(pod_counts.ready_pod_count));
    status.terminating = Some(number(pod_counts.terminating_pod_count));
    let stored = &job.status;
    let mut is_status_changed = suspension_change.is_some()
        || (status.active, status.ready, status.terminating) != (stored.active, stored.ready, stored.terminating);

    // Active Pods that this sync has deleted without counting them have lost their finalizers.
    let was_deleted = |controlled_pod: &ControlledPod| {
        pod_counts.job_end_to_write.is_some()
            && controlled_pod.pod.is_active()
            && scaling_decision.removes_finalizer_before_deletion(controlled_pod)
    };
    let has_finalizer =
        |controlled_pod: &ControlledPod| controlled_pod.still_has_finalizer() && !was_deleted(controlled_pod);
    let with_finalizer = pod_summary.pods.iter().filter(|controlled_pod| has_finalizer(controlled_pod));
    let pod_uids_with_finalizer: HashSet<Uid> = with_finalizer.map(|pod| pod.pod.meta().uid.clone()).collect();
    is_status_changed |= second_status::count_listed_pods_without_finalizer(&mut status, &pod_uids_with_finalizer);

    let failed: HashSet<Uid> = status.uncounted_terminated_pods.failed.iter().cloned().collect();
    let succeeded: HashSet<Uid> = status.uncounted_terminated_pods.succeeded.iter().cloned().collect();
    let (mut untrack, mut indexes, mut actions, mut capped) = (Vec::new(), 0, BTreeMap::new(), false);
    for position in positions_in_counting_order(snapshot, pod_summary) {
        let controlled_pod = &pod_summary.pods[position];
        if !has_finalizer(controlled_pod) || !may_remove_finalizer(snapshot, pod_summary, pod_counts, position) {
            continue;
        }
        let uid = &controlled_pod.pod.meta().uid;
        let is_named = failed.contains(uid) || succeeded.contains(uid);
        let counts = if is_named { CountedAs::Nothing } else { counts_as(snapshot, pod_summary, pod_counts, position) };
        // If the list of UIDs is full, only Pods that would extend the list are left for the next sync.
        if counts.lengthens_status()
            && indexes + status.uncounted_terminated_pods.len() >= snapshot.decision_settings.max_uncounted_pods
        {
            capped = true;
            continue;
        }
        untrack.push(position);
        match counts {
            CountedAs::Nothing => {}
            CountedAs::Index => indexes += 1,
            CountedAs::Success => status.uncounted_terminated_pods.succeeded.push(uid.clone()),
            CountedAs::Failure(action) => {
                if let Some(action) = action {
                    *actions.entry(action).or_insert(0) += 1;
                }
                status.uncounted_terminated_pods.failed.push(uid.clone());
            }
            CountedAs::Ignored => *actions.entry(FailurePolicyAction::Ignore).or_insert(0) += 1,
        }
    }
    is_status_changed |= status.uncounted_terminated_pods.len() != failed.len() + succeeded.len();
    if job.is_indexed() {
        status.completed_indexes = pod_summary.completed_index_set.to_string().into();
        status.succeeded = number(pod_summary.completed_index_set.len());
        status.failed_indexes = pod_summary.failed_index_set.as_ref().map(|set| set.to_string().into());
        is_status_changed |= (&status.completed_indexes, &status.failed_indexes, status.succeeded)
            != (&stored.completed_indexes, &stored.failed_indexes, stored.succeeded);
    }
    if let Some(end) = pod_counts.job_end_to_write.as_ref().filter(|end| end.is_newly_decided) {
        conditions::set_end_condition(&mut status, end.interim_condition_type(), end, now);
        is_status_changed = true;
    }
    FirstStatusWrite {
        status,
        is_status_changed,
        pod_positions_to_remove_finalizer_from: untrack,
        pod_uids_with_finalizer,
        is_uid_list_full: capped,
        pod_counts_by_policy_action: actions,
        suspension_change,
    }
}

/// Returns the positions of all Pods in the order of counting. For an Indexed Job: Pods without an index, then by index.
fn positions_in_counting_order(snapshot: &Snapshot, pod_summary: &PodSummary) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pod_summary.pods.len()).collect();
    if snapshot.job.is_indexed() {
        order.sort_by_key(|position| pod_summary.pods[*position].pod.completion_index);
    }
    order
}

fn may_remove_finalizer(
    snapshot: &Snapshot,
    pod_summary: &PodSummary,
    pod_counts: &PodCountsAfterScaling,
    position: usize,
) -> bool {
    let (job, pod) = (&*snapshot.job, &pod_summary.pods[position].pod);
    job.metadata.is_deleting()
        || pod_counts.job_end_to_write.is_some()
        || pod.phase == Phase::Succeeded
        || (is_pod_failed(job, pod) && !pod_summary.is_predecessor_of_next_pod(position))
}

fn counts_as(
    snapshot: &Snapshot,
    pod_summary: &PodSummary,
    pod_counts: &PodCountsAfterScaling,
    position: usize,
) -> CountedAs {
    let (job, pod) = (&*snapshot.job, &pod_summary.pods[position].pod);
    if !job.accepts_index_of(pod) {
        return CountedAs::Nothing;
    }
    if pod.phase == Phase::Succeeded {
        return match pod.completion_index.filter(|_| job.is_indexed()) {
            // A success does not complete an index that has failed permanently.
            Some(index) if pod_summary.newly_completed_index_set.contains(index) => CountedAs::Index,
            Some(_) => CountedAs::Nothing,
            None => CountedAs::Success,
        };
    }
    // Pods that still run when a Job fails count as failed.
    let fails = pod_counts.job_end_to_write.as_ref().is_some_and(|end| end.job_result == JobResult::Failure);
    if !fails && !is_pod_failed(job, pod) {
        return CountedAs::Nothing;
    }
    match failure_policy_action(job, pod) {
        Some(FailurePolicyAction::Ignore) => CountedAs::Ignored,
        action => CountedAs::Failure(action),
    }
}
