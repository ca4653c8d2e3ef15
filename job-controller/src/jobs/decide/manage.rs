//! Decides how many Pods to create, or which Pods to delete.

use std::{collections::BTreeMap, time::Duration};

use common::{pods::deletion_order_without_ranks, prelude::*};

use super::failure::is_pod_failure_counted;
use crate::{
    jobs::{
        plan::{
            ControlledPod, DeletionReason, IndexFailureCounts, JobResult, NewPod, PodSummary, PodToDelete,
            ScalingDecision,
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
    let all_active_pods = |deletion_reason: DeletionReason| {
        let positions = pod_summary.active_pod_positions.iter();
        positions.map(|position| PodToDelete { pod_position: *position, deletion_reason }).collect()
    };
    match (pod_summary.decided_job_end.as_ref().map(|end| end.job_result), &snapshot.pending_writes) {
        // If the cache is stale, an active Pod may in fact have failed, and deleting the Pod now would lose the failure.
        (Some(JobResult::Success), Some(pending_writes)) if pending_writes.stale_resource.is_some() => {
            return ScalingDecision::NotAllowed(pending_writes.description.clone());
        }
        (Some(JobResult::Success), _) => {
            return ScalingDecision::DeleteUncounted(all_active_pods(DeletionReason::JobEnds));
        }
        (Some(JobResult::Failure), _) => {
            return ScalingDecision::DeleteAsFailed(all_active_pods(DeletionReason::JobEnds));
        }
        (None, _) => {}
    }
    if job.metadata.is_deleting() {
        return ScalingDecision::JobTerminating;
    }
    if let Some(pending_writes) = &snapshot.pending_writes {
        return ScalingDecision::NotAllowed(pending_writes.description.clone());
    }
    if job.suspend {
        return ScalingDecision::DeleteSuspended(all_active_pods(DeletionReason::JobSuspended));
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
    let mut delete = |pod_position: usize, deletion_reason: DeletionReason| {
        pods_to_delete.push(PodToDelete { pod_position, deletion_reason });
    };
    let mut rest = pod_summary.active_pod_positions.clone();
    let active = rest.len();
    if job.is_indexed() {
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for position in rest.drain(..) {
            match pod_summary.pods[position].pod.completion_index.filter(|index| *index < job.index_count()) {
                Some(index) => groups.entry(index).or_default().push(position),
                None => delete(position, DeletionReason::InvalidIndex),
            }
        }
        for group in groups.into_values() {
            let mut ranked = if group.len() > 1 { rank(&group) } else { group };
            rest.extend(ranked.pop());
            for position in ranked {
                delete(position, DeletionReason::DuplicateIndex);
            }
        }
    }
    let missing = surplus.saturating_sub(active - rest.len());
    if missing > 0 {
        for position in rank(&rest).into_iter().take(missing) {
            delete(position, DeletionReason::TooManyPods);
        }
    }
    pods_to_delete
}

fn decide_creates(snapshot: &Snapshot, pod_summary: &PodSummary, missing_pods: usize) -> ScalingDecision {
    let (job, decision_settings, now) = (&*snapshot.job, &snapshot.decision_settings, snapshot.now);
    let count = missing_pods.min(decision_settings.max_pods_per_sync);
    let postpone = |remaining_backoff: Duration| ScalingDecision::PostponeCreate {
        missing_pods,
        remaining_backoff: remaining_backoff.max(decision_settings.sync_batch_period),
    };
    if job.backoff_limit_per_index.is_none() {
        let remaining_backoff = pod_summary.failure_record.remaining_backoff(decision_settings, now);
        if !remaining_backoff.is_zero() {
            return postpone(remaining_backoff);
        }
    }
    if !job.is_indexed() {
        let pods = vec![NewPod::default(); count];
        return ScalingDecision::Create { pods, missing_pods, remaining_backoff: None };
    }
    let mut taken: HashSet<u32> = pod_summary
        .active_pod_positions
        .iter()
        .filter_map(|position| pod_summary.pods[*position].pod.completion_index)
        .collect();
    if job.replaces_pods_only_when_finished() {
        let terminating = pod_summary.pods.iter().filter(|controlled| controlled.pod.is_terminating());
        taken.extend(terminating.filter_map(|controlled| controlled.pod.completion_index));
    }
    let mut unavailable = pod_summary.completed_index_set.clone().with_indexes(taken);
    if let Some(failed) = &pod_summary.failed_index_set {
        unavailable = unavailable.union(failed);
    }
    let mut pods = Vec::new();
    let mut shortest_backoff = None::<Duration>;
    for index in unavailable.missing_indexes(job.index_count()) {
        if pods.len() == count {
            break;
        }
        if job.backoff_limit_per_index.is_none() {
            pods.push(NewPod { completion_index: Some(index), index_failure_counts: None });
            continue;
        }
        // The back-off of an index delays no other index.
        let predecessor =
            pod_summary.predecessor_position_by_index.get(&index).map(|position| &pod_summary.pods[*position]);
        let backoff = predecessor.map_or(Duration::ZERO, |predecessor| {
            let failures = predecessor.pod.total_index_failure_count().saturating_add(1);
            FailureRecord { failure_count_since_success: failures, last_failure_at: Some(predecessor.finished_at) }
                .remaining_backoff(decision_settings, now)
        });
        if backoff.is_zero() {
            let index_failure_counts = Some(inherited_failures(job, predecessor));
            pods.push(NewPod { completion_index: Some(index), index_failure_counts });
        } else {
            shortest_backoff = Some(shortest_backoff.map_or(backoff, |shortest| shortest.min(backoff)));
        }
    }
    match (pods.is_empty(), shortest_backoff) {
        (true, None) => ScalingDecision::NoIndexLeft { missing_pods },
        (true, Some(shortest_backoff)) => postpone(shortest_backoff),
        (false, shortest_backoff) => ScalingDecision::Create {
            pods,
            missing_pods,
            remaining_backoff: shortest_backoff.map(|backoff| backoff.max(decision_settings.sync_batch_period)),
        },
    }
}

/// Returns the failure counters of a new Pod: the counters of the Pod that it replaces, plus the failure of that Pod.
fn inherited_failures(job: &Job, controlled_pod: Option<&ControlledPod>) -> IndexFailureCounts {
    let Some(ControlledPod { pod, .. }) = controlled_pod else { return IndexFailureCounts::default() };
    let counted = is_pod_failure_counted(job, pod);
    IndexFailureCounts {
        failure_count: pod.index_failure_count.saturating_add(u32::from(counted)),
        ignored_failure_count: pod.index_ignored_failure_count.saturating_add(u32::from(!counted)),
    }
}
