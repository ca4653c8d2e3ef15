//! Decides how many Pods to create, or which Pods to delete.

use std::sync::Arc;

use common::pods::{DeletionCandidate, Phase, rank_for_deletion};
use jiff::Timestamp;

use super::rank;
use crate::{
    plan::{DeletionReason, PodChanges, PodDeletion},
    pod_cache::CachedPod,
    snapshot::{SharedPod, Snapshot},
};

/// Decides which Pods to create or delete, so that the set gets `spec.replicas` Pods.
///
/// A plan never both creates and deletes, and never exceeds `burst-replicas`. During a pause of creations, and during the
/// back-off after failed Pods, no Pods are created. Upstream: `pkg/controller/replicaset`, `manageReplicas`.
pub fn decide_pod_changes(snapshot: &Snapshot, claimed_pods: &[&SharedPod]) -> PodChanges {
    let set = &snapshot.set;
    if set.selector.validation_error().is_some() {
        return PodChanges::NotAllowed("its selector is invalid".to_owned());
    }
    if snapshot.owner.is_deleting {
        return PodChanges::NotAllowed("it is being deleted".to_owned());
    }
    if let Some(pending_writes) = &snapshot.pending_writes {
        return PodChanges::NotAllowed(pending_writes.description.clone());
    }
    if claimed_pods.len() < set.replicas {
        let missing_pod_count = set.replicas - claimed_pods.len();
        if let Some(pause) = snapshot.pod_creation_pause {
            return PodChanges::CreationPaused(pause);
        }
        return match (template_problem(snapshot), snapshot.failed_pod_backoff) {
            (Some(problem), _) => PodChanges::UnusableTemplate(problem),
            (None, Some(backoff)) => PodChanges::DelayedAfterFailures(backoff),
            (None, None) => PodChanges::Create {
                pods_to_create_count: missing_pod_count.min(snapshot.decision_settings.burst_replicas),
                missing_pod_count,
            },
        };
    }
    let surplus_pod_count = claimed_pods.len() - set.replicas;
    if surplus_pod_count == 0 {
        PodChanges::NoChange
    } else {
        choose_pods_to_delete(snapshot, claimed_pods, surplus_pod_count)
    }
}

/// Returns the reason why the set would not own a Pod of its template, so syncs would create Pods without end.
fn template_problem(snapshot: &Snapshot) -> Option<&'static str> {
    let labels = &snapshot.set.template_labels;
    if labels.is_empty() {
        return Some("no labels");
    }
    (!snapshot.set.selector.matches(labels)).then_some("the selector does not match the labels of the template")
}

fn choose_pods_to_delete(snapshot: &Snapshot, claimed_pods: &[&SharedPod], surplus_pod_count: usize) -> PodChanges {
    let decision_settings = &snapshot.decision_settings;
    let count = surplus_pod_count.min(decision_settings.burst_replicas);
    let deletion =
        |pod: &SharedPod, deletion_reason: DeletionReason| PodDeletion { pod: Arc::clone(pod), deletion_reason };
    if count >= claimed_pods.len() {
        let pod_deletions = claimed_pods.iter().map(|pod| deletion(pod, DeletionReason::AllPodsDeleted)).collect();
        return PodChanges::Delete { pod_deletions, surplus_pod_count, age_ratios: Vec::new() };
    }
    let cost = |pod: &CachedPod| if decision_settings.uses_deletion_cost { pod.deletion_cost() } else { 0 };
    let colocated = |pod: &CachedPod| snapshot.colocated_pod_counts_by_node.get(&pod.node_name).copied().unwrap_or(0);
    let mut candidates: Vec<DeletionCandidate<'_>> = claimed_pods
        .iter()
        .map(|pod| DeletionCandidate { pod, deletion_cost: cost(pod), colocated_pod_count: colocated(pod) })
        .collect();
    let order = if decision_settings.reranks_remaining_pods {
        rank::rank_with_decreasing_pod_counts(&mut candidates, snapshot.now)
    } else {
        rank_for_deletion(&candidates, snapshot.now)
    };
    let (chosen, kept) = order.split_at(count.min(order.len()));
    let kept_candidate = kept.first().map(|at| &candidates[*at]);
    let chosen_deletion = |at: &usize| deletion(claimed_pods[*at], deletion_reason(&candidates[*at], kept_candidate));
    let age_ratios = age_ratios(claimed_pods, chosen.iter().map(|at| claimed_pods[*at]), snapshot.now);
    PodChanges::Delete { pod_deletions: chosen.iter().map(chosen_deletion).collect(), surplus_pod_count, age_ratios }
}

/// Returns the first rule that ranks the chosen Pod before the first Pod that is kept.
fn deletion_reason(
    candidate: &DeletionCandidate<'_>,
    kept_candidate: Option<&DeletionCandidate<'_>>,
) -> DeletionReason {
    let Some(kept_candidate) = kept_candidate else { return DeletionReason::AllPodsDeleted };
    let (a, b) = (candidate.pod, kept_candidate.pod);
    if a.node_name.is_empty() && !b.node_name.is_empty() {
        DeletionReason::NotAssignedToNode
    } else if a.phase != b.phase && a.phase != Phase::Running {
        DeletionReason::PhaseNotRunning(a.phase)
    } else if !a.is_ready() && b.is_ready() {
        DeletionReason::NotReady
    } else if candidate.deletion_cost < kept_candidate.deletion_cost {
        DeletionReason::LowerDeletionCost(candidate.deletion_cost)
    } else if candidate.colocated_pod_count > kept_candidate.colocated_pod_count {
        DeletionReason::ColocatedPods(candidate.colocated_pod_count)
    } else {
        DeletionReason::AgeRestartsOrUid
    }
}

/// Returns the ages of the chosen ready Pods, as whole multiples of the youngest ready Pod's age.
fn age_ratios<'a>(
    claimed_pods: &[&SharedPod],
    chosen_pods: impl Iterator<Item = &'a SharedPod>,
    now: Timestamp,
) -> Vec<u64> {
    let age = |pod: &CachedPod| {
        let created = pod.meta().creation_timestamp.filter(|_| pod.is_ready())?;
        u64::try_from(now.duration_since(created).as_millis().max(0)).ok()
    };
    let youngest = claimed_pods.iter().filter_map(|pod| age(pod)).min().unwrap_or(0).max(1);
    chosen_pods.filter_map(|pod| age(pod)).map(|age| age / youngest).collect()
}
