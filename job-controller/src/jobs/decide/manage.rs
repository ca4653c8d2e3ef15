//! Decides how many Pods to create, or which Pods to delete.

use std::{collections::BTreeMap, time::Duration};

use common::{pods::deletion_order_without_ranks, prelude::*};

use super::{end, failure::is_pod_failure_counted};
use crate::{
    jobs::{
        plan::{
            ControlledPod, DeletionReason, IndexFailureCounts, JobEnd, JobResult, NewPod, PodCountsAfterScaling,
            PodSummary, PodToDelete, PodWrites, ScalingDecision,
        },
        snapshot::{FailureRecord, Snapshot},
    },
    objects::Job,
};

/// Decides which Pods to create or delete. One plan never does both.
///
/// Upstream: `pkg/controller/job`, `manageJob` and `deleteActivePods`.
pub fn decide_scaling(snapshot: &Snapshot, pod_summary: &PodSummary) -> ScalingDecision {
    let job = &*snapshot.job;
    let all = |why: DeletionReason| {
        pod_summary
            .active_pod_positions
            .iter()
            .map(|position| PodToDelete { pod_position: *position, deletion_reason: why })
            .collect()
    };
    match (&pod_summary.decided_job_end, &snapshot.pending_writes) {
        // If the cache is stale, an active Pod may in fact have failed, and deleting the Pod now would lose the failure.
        (Some(end), Some(unseen)) if end.job_result == JobResult::Success && unseen.has_stale_objects => {
            return ScalingDecision::NotAllowed(unseen.description.clone());
        }
        (Some(end), _) if end.job_result == JobResult::Success => {
            return ScalingDecision::DeleteUncounted(all(DeletionReason::JobEnds));
        }
        (Some(_), _) => return ScalingDecision::DeleteAsFailed(all(DeletionReason::JobEnds)),
        (None, _) => {}
    }
    if job.metadata.is_deleting() {
        return ScalingDecision::JobTerminating;
    }
    if let Some(unseen) = &snapshot.pending_writes {
        return ScalingDecision::NotAllowed(unseen.description.clone());
    }
    if job.suspend {
        return ScalingDecision::DeleteSuspended(all(DeletionReason::JobSuspended));
    }
    let (active, wanted) = (pod_summary.active_pod_positions.len(), wanted_active_pods(job, pod_summary));
    let mut pods_to_delete = select_pods_to_delete(job, pod_summary, active.saturating_sub(wanted));
    if !pods_to_delete.is_empty() {
        pods_to_delete.truncate(snapshot.decision_settings.max_pods_per_sync);
        return ScalingDecision::ScaleDown(pods_to_delete);
    }
    let not_replaced = if job.replaces_pods_only_when_finished() { pod_summary.terminating_pod_count } else { 0 };
    let missing = wanted.saturating_sub(active + not_replaced);
    match (missing, snapshot.pod_creation_pause) {
        (0, _) => ScalingDecision::NoChange,
        (_, Some(pause)) => ScalingDecision::CreationPaused(pause),
        (_, None) => decide_creates(snapshot, pod_summary, missing),
    }
}

/// Without `spec.completions`, no new Pods are wanted after the first success.
fn wanted_active_pods(job: &Job, pod_summary: &PodSummary) -> usize {
    let parallelism = job.parallelism as usize;
    match job.completions {
        Some(completions) => (completions as usize).saturating_sub(pod_summary.success_count).min(parallelism),
        None if pod_summary.success_count > 0 => pod_summary.active_pod_positions.len(),
        None => parallelism,
    }
}

/// Selects the Pods to delete: every Pod with an invalid or duplicate index, and further Pods until `surplus` are selected.
fn select_pods_to_delete(job: &Job, pod_summary: &PodSummary, surplus: usize) -> Vec<PodToDelete> {
    let pod = |position: usize| &**pod_summary.pods[position].pod;
    let rank = |group: &[usize]| {
        let pods: Vec<&common::pods::Pod> = group.iter().map(|position| pod(*position)).collect();
        deletion_order_without_ranks(&pods).into_iter().map(|ranked| group[ranked]).collect::<Vec<usize>>()
    };
    let mut pods_to_delete = Vec::new();
    let mut rest = pod_summary.active_pod_positions.clone();
    if job.is_indexed() {
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for position in rest.drain(..) {
            match pod_summary.pods[position].pod.completion_index.filter(|index| *index < job.index_count()) {
                Some(index) => groups.entry(index).or_default().push(position),
                None => {
                    pods_to_delete.push(PodToDelete { pod_position: position, deletion_reason: DeletionReason::InvalidIndex });
                }
            }
        }
        for group in groups.into_values() {
            let mut ranked = if group.len() > 1 { rank(&group) } else { group };
            rest.extend(ranked.pop());
            pods_to_delete.extend(ranked.into_iter().map(|position| PodToDelete {
                pod_position: position,
                deletion_reason: DeletionReason::DuplicateIndex,
            }));
        }
    }
    if pods_to_delete.len() < surplus {
        let more = rank(&rest).into_iter().take(surplus - pods_to_delete.len());
        pods_to_delete.extend(
            more.map(|position| PodToDelete { pod_position: position, deletion_reason: DeletionReason::TooManyPods }),
        );
    }
    pods_to_delete
}

fn decide_creates(snapshot: &Snapshot, pod_summary: &PodSummary, missing: usize) -> ScalingDecision {
    let (job, limits, now) = (&*snapshot.job, &snapshot.decision_settings, snapshot.now);
    let count = missing.min(limits.max_pods_per_sync);
    if job.backoff_limit_per_index.is_none() {
        let wait = pod_summary.failure_record.remaining_backoff(limits, now);
        if !wait.is_zero() {
            return ScalingDecision::PostponeCreate {
                missing_pods: missing,
                remaining_backoff: wait.max(limits.sync_batch_period),
            };
        }
    }
    if !job.is_indexed() {
        return ScalingDecision::Create {
            pods: vec![NewPod::default(); count],
            missing_pods: missing,
            remaining_backoff: None,
        };
    }
    let mut taken: HashSet<u32> = pod_summary
        .active_pod_positions
        .iter()
        .filter_map(|position| pod_summary.pods[*position].pod.completion_index)
        .collect();
    if job.replaces_pods_only_when_finished() {
        let terminating = pod_summary.pods.iter().filter(|own| own.pod.is_terminating());
        taken.extend(terminating.filter_map(|own| own.pod.completion_index));
    }
    let mut unavailable = pod_summary.completed_index_set.clone().with_indexes(taken);
    if let Some(failed) = &pod_summary.failed_index_set {
        unavailable = unavailable.union(failed);
    }
    let (mut pods, mut wait) = (Vec::new(), None::<Duration>);
    for index in unavailable.missing_indexes(job.index_count()) {
        if pods.len() == count {
            break;
        }
        if job.backoff_limit_per_index.is_none() {
            pods.push(NewPod { completion_index: Some(index), index_failure_counts: None });
            continue;
        }
        // The back-off of an index delays no other index.
        let last = pod_summary.predecessor_position_by_index.get(&index).map(|position| &pod_summary.pods[*position]);
        let delay = last.map_or(Duration::ZERO, |last| {
            let failures = last.pod.total_index_failure_count().saturating_add(1);
            FailureRecord { failure_count_since_success: failures, last_failure_at: Some(last.finished_at) }
                .remaining_backoff(limits, now)
        });
        if delay.is_zero() {
            pods.push(NewPod {
                completion_index: Some(index),
                index_failure_counts: Some(inherited_failures(job, last)),
            });
        } else {
            wait = Some(wait.map_or(delay, |shortest| shortest.min(delay)));
        }
    }
    let wait = wait.map(|wait| wait.max(limits.sync_batch_period));
    match (pods.is_empty(), wait) {
        (true, None) => ScalingDecision::NoIndexLeft { missing_pods: missing },
        (true, Some(wait)) => ScalingDecision::PostponeCreate { missing_pods: missing, remaining_backoff: wait },
        (false, wait) => ScalingDecision::Create { pods, missing_pods: missing, remaining_backoff: wait },
    }
}

/// Returns the failure counters of a new Pod: the counters of the Pod that it replaces, plus the failure of that Pod.
fn inherited_failures(job: &Job, last: Option<&ControlledPod>) -> IndexFailureCounts {
    let Some(ControlledPod { pod, .. }) = last else { return IndexFailureCounts::default() };
    let counted = is_pod_failure_counted(job, pod);
    IndexFailureCounts {
        failure_count: pod.index_failure_count.saturating_add(u32::from(counted)),
        ignored_failure_count: pod.index_ignored_failure_count.saturating_add(u32::from(!counted)),
    }
}

/// Returns the Pod counts after `writes`, and the end of the Job if the status may announce the end.
pub fn pod_counts_after_scaling(
    snapshot: &Snapshot,
    pod_summary: &PodSummary,
    scaling_decision: &ScalingDecision,
    writes: &PodWrites,
) -> PodCountsAfterScaling {
    let job = &*snapshot.job;
    let active =
        (pod_summary.active_pod_positions.len() + writes.created_pod_count).saturating_sub(writes.deleted_pod_count);
    let end_to_write = match scaling_decision {
        // After the end of the Job, a Pod that is not deleted yet, or that the cache does not show yet, would never be counted.
        ScalingDecision::DeleteAsFailed(pods_to_delete) | ScalingDecision::DeleteUncounted(pods_to_delete) => {
            let clear = writes.deleted_pod_count == pods_to_delete.len() && snapshot.pending_writes.is_none();
            pod_summary.decided_job_end.clone().filter(|_| clear)
        }
        _ if pod_summary.decided_job_end.is_some() => None,
        _ => end::is_job_complete(job, pod_summary, active).then(JobEnd::for_reached_completions),
    };
    PodCountsAfterScaling {
        active_pod_count: active,
        ready_pod_count: pod_summary.ready_pod_count.saturating_sub(writes.deleted_ready_pod_count),
        terminating_pod_count: pod_summary.terminating_pod_count + writes.deleted_pod_count,
        job_end_to_write: end_to_write,
    }
}
