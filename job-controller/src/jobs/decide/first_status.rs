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
    conditions, end,
    failure::{failure_policy_action, is_pod_failed},
    second_status,
};
use crate::{
    jobs::{
        plan::{ControlledPod, FirstStatusWrite, JobEnd, JobResult, PodSummary, PodWrites, ScalingDecision},
        snapshot::Snapshot,
    },
    objects::{CachedPod, FailurePolicyAction},
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

/// Decides the first status of a sync after `pod_writes`, and the finalizers to remove after this status is written.
///
/// Upstream: `pkg/controller/job`, `trackJobStatusAndRemoveFinalizers`.
pub fn decide_first_status(
    snapshot: &Snapshot,
    pod_summary: &PodSummary,
    scaling_decision: &ScalingDecision,
    pod_writes: &PodWrites,
    now: Timestamp,
) -> FirstStatusWrite {
    let job = &*snapshot.job;
    let active_pod_count = (pod_summary.active_pod_positions.len() + pod_writes.created_pod_count)
        .saturating_sub(pod_writes.deleted_pod_count);
    let job_end_to_write = end::job_end_to_write(snapshot, pod_summary, scaling_decision, pod_writes, active_pod_count);
    let mut status = job.status.declared.clone();
    status.start_time = pod_summary.start_time;
    let adjusts_suspension = scaling_decision.adjusts_pod_count() && job_end_to_write.is_none();
    let clears_start_time = snapshot.decision_settings.clears_start_time_on_suspend;
    let suspension_change = adjusts_suspension
        .then(|| conditions::set_suspended_condition(&mut status, job.suspend, clears_start_time, now))
        .flatten();
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    status.active = number(active_pod_count);
    status.ready = Some(number(pod_summary.ready_pod_count.saturating_sub(pod_writes.deleted_ready_pod_count)));
    status.terminating = Some(number(pod_summary.terminating_pod_count + pod_writes.deleted_pod_count));
    let stored = &job.status;
    let mut is_status_changed = suspension_change.is_some()
        || (status.active, status.ready, status.terminating) != (stored.active, stored.ready, stored.terminating);

    // Active Pods that this sync has deleted without counting them have lost their finalizers.
    let was_deleted = |controlled_pod: &ControlledPod| {
        job_end_to_write.is_some()
            && controlled_pod.pod.is_active()
            && scaling_decision.removes_finalizer_before_deletion(controlled_pod)
    };
    let has_finalizer =
        |controlled_pod: &ControlledPod| controlled_pod.still_has_finalizer() && !was_deleted(controlled_pod);
    let pods_with_finalizer = pod_summary.pods.iter().filter(|controlled_pod| has_finalizer(controlled_pod));
    let pod_uids_with_finalizer: HashSet<Uid> =
        pods_with_finalizer.map(|controlled_pod| controlled_pod.pod.meta().uid.clone()).collect();
    is_status_changed |= second_status::count_listed_pods_without_finalizer(&mut status, &pod_uids_with_finalizer);

    let failed: HashSet<Uid> = status.uncounted_terminated_pods.failed.iter().cloned().collect();
    let succeeded: HashSet<Uid> = status.uncounted_terminated_pods.succeeded.iter().cloned().collect();
    let mut pod_positions_to_remove_finalizer_from = Vec::new();
    let mut pod_counts_by_policy_action = BTreeMap::new();
    let (mut new_index_count, mut is_uid_list_full) = (0, false);
    let mut positions: Vec<usize> = (0..pod_summary.pods.len()).collect();
    if job.is_indexed() {
        // Pods without an index come first.
        positions.sort_by_key(|position| pod_summary.pods[*position].pod.completion_index);
    }
    for position in positions {
        let controlled_pod = &pod_summary.pods[position];
        if !has_finalizer(controlled_pod)
            || !may_remove_finalizer(snapshot, pod_summary, job_end_to_write.as_ref(), position)
        {
            continue;
        }
        let uid = &controlled_pod.pod.meta().uid;
        let is_named = failed.contains(uid) || succeeded.contains(uid);
        let counted_as = if is_named {
            CountedAs::Nothing
        } else {
            counts_as(snapshot, pod_summary, job_end_to_write.as_ref(), &controlled_pod.pod)
        };
        // If the list of UIDs is full, only Pods that would extend the list are left for the next sync.
        if counted_as.lengthens_status()
            && new_index_count + status.uncounted_terminated_pods.len() >= snapshot.decision_settings.max_uncounted_pods
        {
            is_uid_list_full = true;
            continue;
        }
        pod_positions_to_remove_finalizer_from.push(position);
        match counted_as {
            CountedAs::Nothing => {}
            CountedAs::Index => new_index_count += 1,
            CountedAs::Success => status.uncounted_terminated_pods.succeeded.push(uid.clone()),
            CountedAs::Failure(action) => {
                if let Some(action) = action {
                    *pod_counts_by_policy_action.entry(action).or_insert(0) += 1;
                }
                status.uncounted_terminated_pods.failed.push(uid.clone());
            }
            CountedAs::Ignored => {
                *pod_counts_by_policy_action.entry(FailurePolicyAction::Ignore).or_insert(0) += 1;
            }
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
    if let Some(job_end) = job_end_to_write.as_ref().filter(|job_end| job_end.is_newly_decided) {
        conditions::set_end_condition(&mut status, job_end.interim_condition_type(), job_end, now);
        is_status_changed = true;
    }
    FirstStatusWrite {
        status,
        is_status_changed,
        pod_positions_to_remove_finalizer_from,
        pod_uids_with_finalizer,
        is_uid_list_full,
        pod_counts_by_policy_action,
        job_end_to_write,
        suspension_change,
    }
}

fn may_remove_finalizer(
    snapshot: &Snapshot,
    pod_summary: &PodSummary,
    job_end_to_write: Option<&JobEnd>,
    position: usize,
) -> bool {
    let (job, pod) = (&*snapshot.job, &pod_summary.pods[position].pod);
    job.metadata.is_deleting()
        || job_end_to_write.is_some()
        || pod.phase == Phase::Succeeded
        || (is_pod_failed(job, pod) && !pod_summary.is_predecessor_of_next_pod(position))
}

fn counts_as(
    snapshot: &Snapshot,
    pod_summary: &PodSummary,
    job_end_to_write: Option<&JobEnd>,
    pod: &CachedPod,
) -> CountedAs {
    let job = &*snapshot.job;
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
    let fails = job_end_to_write.is_some_and(|job_end| job_end.job_result == JobResult::Failure);
    if !fails && !is_pod_failed(job, pod) {
        return CountedAs::Nothing;
    }
    match failure_policy_action(job, pod) {
        Some(FailurePolicyAction::Ignore) => CountedAs::Ignored,
        action => CountedAs::Failure(action),
    }
}
