//! Decides how many Pods to create, or which Pods to delete.

use std::{collections::BTreeMap, time::Duration};

use common::{map::HashSet, pods::deletion_order_without_ranks};

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
pub fn decide_scaling(snapshot: &Snapshot, situation: &PodSummary) -> ScalingDecision {
    let job = &*snapshot.job;
    let all = |why: DeletionReason| {
        situation
            .active_pod_positions
            .iter()
            .map(|position| PodToDelete { pod_position: *position, deletion_reason: why })
            .collect()
    };
    match (&situation.decided_job_end, &snapshot.unseen_writes) {
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
    if let Some(unseen) = &snapshot.unseen_writes {
        return ScalingDecision::NotAllowed(unseen.description.clone());
    }
    if job.suspend {
        return ScalingDecision::DeleteSuspended(all(DeletionReason::JobSuspended));
    }
    let (active, wanted) = (situation.active_pod_positions.len(), wanted_active_pods(job, situation));
    let mut victims = select_pods_to_delete(job, situation, active.saturating_sub(wanted));
    if !victims.is_empty() {
        victims.truncate(snapshot.decision_settings.max_pods_per_sync);
        return ScalingDecision::ScaleDown(victims);
    }
    let not_replaced = if job.replaces_pods_only_when_finished() { situation.terminating_pod_count } else { 0 };
    let missing = wanted.saturating_sub(active + not_replaced);
    match (missing, snapshot.pod_creation_pause) {
        (0, _) => ScalingDecision::NoChange,
        (_, Some(pause)) => ScalingDecision::CreationPaused(pause),
        (_, None) => decide_creates(snapshot, situation, missing),
    }
}

/// Without `spec.completions`, no new Pods are wanted after the first success.
fn wanted_active_pods(job: &Job, situation: &PodSummary) -> usize {
    let parallelism = job.parallelism as usize;
    match job.completions {
        Some(completions) => (completions as usize).saturating_sub(situation.success_count).min(parallelism),
        None if situation.success_count > 0 => situation.active_pod_positions.len(),
        None => parallelism,
    }
}

/// Selects the Pods to delete: every Pod with an invalid or duplicate index, and further Pods until `surplus` are selected.
fn select_pods_to_delete(job: &Job, situation: &PodSummary, surplus: usize) -> Vec<PodToDelete> {
    let pod = |position: usize| &**situation.pods[position].pod;
    let rank = |group: &[usize]| {
        let pods: Vec<&common::pods::Pod> = group.iter().map(|position| pod(*position)).collect();
        deletion_order_without_ranks(&pods).into_iter().map(|ranked| group[ranked]).collect::<Vec<usize>>()
    };
    let mut victims = Vec::new();
    let mut rest = situation.active_pod_positions.clone();
    if job.is_indexed() {
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for position in rest.drain(..) {
            match situation.pods[position].pod.completion_index.filter(|index| *index < job.index_count()) {
                Some(index) => groups.entry(index).or_default().push(position),
                None => {
                    victims.push(PodToDelete { pod_position: position, deletion_reason: DeletionReason::InvalidIndex });
                }
            }
        }
        for group in groups.into_values() {
            let mut ranked = if group.len() > 1 { rank(&group) } else { group };
            rest.extend(ranked.pop());
            victims.extend(ranked.into_iter().map(|position| PodToDelete {
                pod_position: position,
                deletion_reason: DeletionReason::DuplicateIndex,
            }));
        }
    }
    if victims.len() < surplus {
        let more = rank(&rest).into_iter().take(surplus - victims.len());
        victims.extend(
            more.map(|position| PodToDelete { pod_position: position, deletion_reason: DeletionReason::TooManyPods }),
        );
    }
    victims
}

fn decide_creates(snapshot: &Snapshot, situation: &PodSummary, missing: usize) -> ScalingDecision {
    let (job, limits, now) = (&*snapshot.job, &snapshot.decision_settings, snapshot.now);
    let count = missing.min(limits.max_pods_per_sync);
    if job.backoff_limit_per_index.is_none() {
        let wait = situation.failure_record.remaining_backoff(limits, now);
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
    let mut taken: HashSet<u32> = situation
        .active_pod_positions
        .iter()
        .filter_map(|position| situation.pods[*position].pod.completion_index)
        .collect();
    if job.replaces_pods_only_when_finished() {
        let terminating = situation.pods.iter().filter(|own| own.pod.is_terminating());
        taken.extend(terminating.filter_map(|own| own.pod.completion_index));
    }
    let mut unavailable = situation.completed_index_set.clone().with_indexes(taken);
    if let Some(failed) = &situation.failed_index_set {
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
        let last = situation.predecessor_position_by_index.get(&index).map(|position| &situation.pods[*position]);
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
    situation: &PodSummary,
    manage: &ScalingDecision,
    writes: &PodWrites,
) -> PodCountsAfterScaling {
    let job = &*snapshot.job;
    let active =
        (situation.active_pod_positions.len() + writes.created_pod_count).saturating_sub(writes.deleted_pod_count);
    let end_to_write = match manage {
        // After the end of the Job, a Pod that is not deleted yet, or that the cache does not show yet, would never be counted.
        ScalingDecision::DeleteAsFailed(victims) | ScalingDecision::DeleteUncounted(victims) => {
            let clear = writes.deleted_pod_count == victims.len() && snapshot.unseen_writes.is_none();
            situation.decided_job_end.clone().filter(|_| clear)
        }
        _ if situation.decided_job_end.is_some() => None,
        _ => end::is_job_complete(job, situation, active).then(JobEnd::for_reached_completions),
    };
    PodCountsAfterScaling {
        active_pod_count: active,
        ready_pod_count: situation.ready_pod_count.saturating_sub(writes.deleted_ready_pod_count),
        terminating_pod_count: situation.terminating_pod_count + writes.deleted_pod_count,
        job_end_to_write: end_to_write,
    }
}
