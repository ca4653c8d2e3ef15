//! Pure functions from a [`Snapshot`] to a [`Plan`]: no requests, no clock, no randomness.
//!
//! The decision has two parts. [`compute_node_contribution`](contribution::compute_node_contribution) handles one node, and is
//! called only for changed nodes. [`decide`] uses the sums over all nodes, and handles the nodes that need an action.

pub mod contribution;
pub mod eligibility;
pub mod manage;
pub mod recheck;
pub mod revisions;
pub mod rolling;
pub mod status;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{consistency::STALE_CACHE_RECHECK_INTERVAL, explain::BoundedLines, prelude::*};

use crate::{
    objects::SharedPod,
    plan::{DeferredNodeCounts, DeletionReason, Plan, PodCreation, PodDeletion, SelectorProblem, SyncScope},
    snapshot::{FirstTask, Snapshot},
};

/// Decides what one sync writes. Upstream: `pkg/controller/daemon`, `syncDaemonSet`.
///
/// A sync does one kind of work on Pods, in this order of priority: adopt orphans, create missing Pods and delete surplus Pods,
/// replace outdated Pods. The sync after an adoption adopts no Pods.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let scope = sync_scope(snapshot);
    let (adopt, orphans) = match scope {
        SyncScope::ClaimsOnly if snapshot.first_task == FirstTask::AdoptOrphans => {
            (snapshot.orphans_to_adopt.clone(), 0)
        }
        _ => (Vec::new(), snapshot.orphans_to_adopt.len()),
    };
    let mut plan = Plan {
        set: Arc::clone(&snapshot.set),
        selector_problem: selector_problem(snapshot),
        sync_scope: scope,
        revision_hash: snapshot.revisions.current_hash.clone(),
        orphans_to_adopt: adopt,
        deferred_adoption_count: orphans,
        pod_creations: Vec::new(),
        pod_creation_pause: None,
        pod_deletions: Vec::new(),
        deferred_node_counts: DeferredNodeCounts::default(),
        status: snapshot.set.status.clone(),
        revisions_to_delete: Vec::new(),
        node_counts: snapshot.actionable_nodes.node_counts,
        waiting_reasons: BoundedLines::default(),
        requeue_after: None,
    };
    if plan.selector_problem.is_some() {
        return plan;
    }
    match plan.sync_scope {
        SyncScope::Nothing => {
            plan.waiting_reasons
                .push(|| "the set is being deleted: its Pods are left to the garbage collector".to_owned());
        }
        SyncScope::ClaimsOnly => {
            plan.waiting_reasons.push(|| "Pods are counted once the cache shows their owners".to_owned());
        }
        SyncScope::StatusOnly => {
            let pending_write =
                snapshot.pending_writes.as_ref().map(|pending_writes| &*pending_writes.description).unwrap_or_default();
            plan.waiting_reasons.push(|| format!("only the status is written: {pending_write}"));
            plan.status = status::compute_status(&snapshot.set, &snapshot.actionable_nodes.node_counts, false);
        }
        SyncScope::Everything => {
            manage_pods(snapshot, &mut plan);
            let old = &snapshot.revisions.earlier_revisions;
            plan.revisions_to_delete = revisions::surplus_revisions(old, snapshot.set.revision_history_limit, |hash| {
                snapshot.earlier_revision_hashes_on_pods.contains(hash)
            });
            let refused = &snapshot.denied_revision_changes.object_names;
            plan.revisions_to_delete.retain(|revision| !refused.iter().any(|name| **name == *revision.meta.name));
            plan.status = status::compute_status(&snapshot.set, &snapshot.actionable_nodes.node_counts, true);
        }
    }
    if plan.sync_scope != SyncScope::Nothing {
        for name in &snapshot.denied_revision_changes.object_names {
            plan.waiting_reasons.push(|| format!("revision {name} stays as it is: the server refused to change it"));
        }
        for name in &snapshot.denied_pod_changes.object_names {
            plan.waiting_reasons.push(|| format!("Pod {name} stays as it is: the server refused to change it"));
        }
    }
    plan.requeue_after = requeue_after(snapshot, &plan);
    plan
}

fn selector_problem(snapshot: &Snapshot) -> Option<SelectorProblem> {
    if snapshot.set.selector.is_empty() {
        return Some(SelectorProblem::EmptySelector);
    }
    snapshot.set.selector.validation_error().cloned().map(SelectorProblem::InvalidSelector)
}

fn sync_scope(snapshot: &Snapshot) -> SyncScope {
    if snapshot.owner.is_deleting {
        SyncScope::Nothing
    } else if snapshot.pending_writes.is_some() {
        SyncScope::StatusOnly
    } else if !snapshot.pods_to_relabel.is_empty()
        || !snapshot.pods_without_hash_label.is_empty()
        || (!snapshot.orphans_to_adopt.is_empty() && snapshot.first_task == FirstTask::AdoptOrphans)
    {
        SyncScope::ClaimsOnly
    } else {
        SyncScope::Everything
    }
}

/// Adds creations and deletions as upstream's `manage`; if there are none, those of the rolling update as `rollingUpdate`.
fn manage_pods(snapshot: &Snapshot, plan: &mut Plan) {
    let (nodes, held_back) = (&snapshot.actionable_nodes, &snapshot.nodes_with_delayed_pod_creation);
    for node in nodes.nodes_needing_pod.nodes.iter().filter(|node| !held_back.contains(&node.name)) {
        let create =
            manage::decide_actions_on_node(&node.as_node_view(), &nodes.pod_criteria, snapshot.now).creation_reason;
        plan.pod_creations
            .extend(create.map(|lack| PodCreation { node_name: node.name.clone(), creation_reason: lack }));
    }
    for node in &nodes.nodes_with_pods_to_delete.nodes {
        let delete =
            manage::decide_actions_on_node(&node.as_node_view(), &nodes.pod_criteria, snapshot.now).pods_to_delete;
        let deletion = |(pod, why): (&_, _)| PodDeletion {
            pod: Arc::clone(pod),
            node_name: node.name.clone(),
            deletion_reason: why,
        };
        plan.pod_deletions.extend(delete.into_iter().map(deletion));
    }
    plan.deferred_node_counts = DeferredNodeCounts {
        creation_node_count: nodes.nodes_needing_pod.unlisted_count(),
        deletion_node_count: nodes.nodes_with_pods_to_delete.unlisted_count(),
    };
    if plan.pod_creations.is_empty() && plan.pod_deletions.is_empty() {
        rolling::decide_rolling_update(snapshot, plan);
    }
    nodes
        .refused_node_cursors
        .creation_cursor
        .sort_after_cursor(&mut plan.pod_creations, |creation| &creation.node_name);
    nodes
        .refused_node_cursors
        .deletion_cursor
        .sort_after_cursor(&mut plan.pod_deletions, |deletion| &deletion.node_name);
    let burst = snapshot.decision_settings.burst_replicas;
    plan.deferred_node_counts.creation_node_count += plan.pod_creations.len().saturating_sub(burst);
    plan.deferred_node_counts.deletion_node_count += plan.pod_deletions.len().saturating_sub(burst);
    plan.pod_creations.truncate(burst);
    plan.pod_deletions.truncate(burst);
    if let Some(pause) = snapshot.pod_creation_pause.filter(|_| !plan.pod_creations.is_empty()) {
        // The pause holds for all new Pods, so the next sync must not create these Pods either.
        plan.pod_creations.clear();
        plan.deferred_node_counts.creation_node_count = 0;
        plan.pod_creation_pause = Some(pause);
        plan.waiting_reasons.push(|| format!("no Pods are created: {pause}"));
    }
    if plan.pod_creations.is_empty() {
        // All creations that are left are for nodes that wait for an adoption or for the timeout of a lost answer.
        plan.deferred_node_counts.creation_node_count = 0;
    }
    explain_delayed_creations(snapshot, plan);
    if snapshot.actionable_nodes.pods_without_node_count > 0 {
        let untargeted = snapshot.actionable_nodes.pods_without_node_count;
        plan.waiting_reasons
            .push(|| format!("{untargeted} Pods are ignored: they are neither bound nor pinned to a node"));
    }
}

/// Returns the nodes that get no Pod now, because a creation for the node got no answer and may still take effect, or because
/// an orphan on the node is to be adopted first.
pub(crate) fn nodes_with_delayed_pod_creation<'a>(
    lost_creates: &BTreeMap<Text, Duration>,
    orphans: impl Iterator<Item = &'a SharedPod>,
) -> BTreeSet<Text> {
    lost_creates.keys().chain(orphans.map(|pod| pod.target_node())).cloned().collect()
}

fn explain_delayed_creations(snapshot: &Snapshot, plan: &mut Plan) {
    if !snapshot.orphans_to_adopt.is_empty() {
        plan.waiting_reasons.push(|| format!("{} Pods are adopted by the next sync", snapshot.orphans_to_adopt.len()));
    }
    for node in snapshot.nodes_with_unanswered_pod_creation.keys() {
        plan.waiting_reasons
            .push(|| format!("node {node}: a request to create a Pod was not answered, and may have created one"));
    }
}

/// Returns the time after which the decision may change without an event; `None` if only an event can change it.
fn requeue_after(snapshot: &Snapshot, plan: &Plan) -> Option<Duration> {
    match (plan.sync_scope, &snapshot.pending_writes) {
        (SyncScope::Nothing, _) => None,
        (SyncScope::StatusOnly, Some(pending_writes)) => {
            Some(pending_writes.max_wait.min(STALE_CACHE_RECHECK_INTERVAL))
        }
        _ => {
            let due = snapshot
                .actionable_nodes
                .next_change_at
                .and_then(|due| due.duration_since(snapshot.now).try_into().ok());
            let lost = snapshot.nodes_with_unanswered_pod_creation.values().min().copied();
            let refused =
                snapshot.denied_revision_changes.retry_after.into_iter().chain(snapshot.denied_pod_changes.retry_after);
            let paused = plan.pod_creation_pause.and_then(|pause| pause.requeue_after());
            let failed = next_failed_pod_deletion(snapshot, plan);
            due.into_iter().chain(failed).chain(lost).chain(refused).chain(paused).min()
        }
    }
}

/// Returns the time after which a failed Pod is deleted again, in case the deletion of this sync has no effect.
fn next_failed_pod_deletion(snapshot: &Snapshot, plan: &Plan) -> Option<Duration> {
    let failed: BTreeSet<_> = plan
        .pod_deletions
        .iter()
        .filter(|deletion| deletion.deletion_reason == DeletionReason::PodFailed)
        .map(|deletion| &deletion.node_name)
        .collect();
    let nodes =
        snapshot.actionable_nodes.nodes_with_pods_to_delete.nodes.iter().filter(|node| failed.contains(&node.name));
    nodes.map(|node| node.next_failed_pod_delay).min()
}

#[cfg(test)]
mod tests;
