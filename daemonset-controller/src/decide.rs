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

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::{consistency::STALE_CACHE_RECHECK_INTERVAL, explain::BoundedLines, prelude::*};

use crate::{
    plan::{DeferredNodeCounts, Plan, SelectorProblem, SyncScope},
    snapshot::{
        FirstTask, PodsToChange, Snapshot,
        nodes::{NodePods, RefusedNodeCursors},
    },
};

/// Decides what one sync writes. Upstream: `pkg/controller/daemon`, `syncDaemonSet`.
///
/// A sync does one kind of work on Pods, in this order of priority: adopt orphans, create missing Pods and delete surplus Pods,
/// replace outdated Pods. The sync after an adoption adopts no Pods.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let scope = sync_scope(snapshot);
    let orphans = &snapshot.pods_to_change.orphans_to_adopt;
    let adopts = scope == SyncScope::ClaimsOnly && snapshot.first_task == FirstTask::AdoptOrphans;
    let mut plan = Plan {
        set: Arc::clone(&snapshot.set),
        selector_problem: selector_problem(snapshot),
        sync_scope: scope,
        revision_hash: snapshot.revisions.current_hash.clone(),
        orphans_to_adopt: if adopts { orphans.clone() } else { Vec::new() },
        deferred_adoption_count: if adopts { 0 } else { orphans.len() },
        pod_creations: Vec::new(),
        pod_creation_pause: None,
        pod_deletions: Vec::new(),
        deferred_node_counts: DeferredNodeCounts::default(),
        status: snapshot.set.status.declared.clone(),
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
            let reason = "the set is being deleted: its Pods are left to the garbage collector";
            plan.waiting_reasons.push(|| reason.to_owned());
        }
        SyncScope::ClaimsOnly => {
            plan.waiting_reasons.push(|| "Pods are counted once the cache shows their owners".to_owned());
        }
        SyncScope::StatusOnly => {
            if let Some(PendingWrites { description, .. }) = &snapshot.pending_writes {
                plan.waiting_reasons.push(|| format!("only the status is written: {description}"));
            }
            plan.status = status::compute_status(&snapshot.set, &snapshot.actionable_nodes.node_counts, false);
        }
        SyncScope::Everything => {
            manage_pods(snapshot, &mut plan);
            let is_live = |hash: &str| snapshot.earlier_revision_hashes_on_pods.contains(hash);
            plan.revisions_to_delete = revisions::surplus_revisions(
                &snapshot.revisions.earlier_revisions,
                snapshot.set.revision_history_limit,
                is_live,
            );
            let denied = &snapshot.denied_revision_changes.object_names;
            plan.revisions_to_delete.retain(|revision| !denied.iter().any(|name| **name == *revision.meta.name));
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
        return SyncScope::Nothing;
    }
    if snapshot.pending_writes.is_some() {
        return SyncScope::StatusOnly;
    }
    let PodsToChange { orphans_to_adopt, pods_to_relabel, pods_without_hash_label, .. } = &snapshot.pods_to_change;
    let adopts = !orphans_to_adopt.is_empty() && snapshot.first_task == FirstTask::AdoptOrphans;
    let is_claims_only = adopts || !pods_to_relabel.is_empty() || !pods_without_hash_label.is_empty();
    if is_claims_only { SyncScope::ClaimsOnly } else { SyncScope::Everything }
}

/// Adds creations and deletions as upstream's `manage`; if there are none, those of the rolling update as `rollingUpdate`.
fn manage_pods(snapshot: &Snapshot, plan: &mut Plan) {
    let nodes = &snapshot.actionable_nodes;
    let (criteria, now) = (&nodes.pod_criteria, snapshot.now);
    let is_free = |node: &&NodePods| !nodes.delayed_pod_creations.nodes.contains(&node.name);
    for node in nodes.nodes_needing_pod.nodes.iter().filter(is_free) {
        let actions = manage::decide_actions_on_node(&node.as_node_view(), criteria, now);
        plan.pod_creations.extend(actions.creation_reason.map(|reason| node.creation(reason)));
    }
    for node in &nodes.nodes_with_pods_to_delete.nodes {
        let actions = manage::decide_actions_on_node(&node.as_node_view(), criteria, now);
        plan.pod_deletions.extend(actions.pods_to_delete.into_iter().map(|(pod, reason)| node.deletion(pod, reason)));
    }
    plan.deferred_node_counts = DeferredNodeCounts {
        creation_node_count: nodes.nodes_needing_pod.unlisted_count(),
        deletion_node_count: nodes.nodes_with_pods_to_delete.unlisted_count(),
    };
    if plan.pod_creations.is_empty() && plan.pod_deletions.is_empty() {
        rolling::decide_rolling_update(snapshot, plan);
    }
    let RefusedNodeCursors { creation_cursor, deletion_cursor } = &nodes.refused_node_cursors;
    creation_cursor.sort_after_cursor(&mut plan.pod_creations, |creation| &creation.node_name);
    deletion_cursor.sort_after_cursor(&mut plan.pod_deletions, |deletion| &deletion.node_name);
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
    let orphans = &snapshot.pods_to_change.orphans_to_adopt;
    if !orphans.is_empty() {
        plan.waiting_reasons.push(|| format!("{} Pods are adopted by the next sync", orphans.len()));
    }
    for node in nodes.delayed_pod_creations.unanswered.keys() {
        plan.waiting_reasons
            .push(|| format!("node {node}: a request to create a Pod was not answered, and may have created one"));
    }
    let count = nodes.pods_without_node_count;
    if count > 0 {
        plan.waiting_reasons.push(|| format!("{count} Pods are ignored: they are neither bound nor pinned to a node"));
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
            let next_change_at = snapshot.actionable_nodes.next_change_at;
            let due = next_change_at.and_then(|due| due.duration_since(snapshot.now).try_into().ok());
            let lost = snapshot.actionable_nodes.delayed_pod_creations.unanswered.values().min().copied();
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
    let failed: BTreeSet<_> = plan.deletions_of_failed_pods().map(|deletion| &deletion.node_name).collect();
    let nodes = snapshot.actionable_nodes.nodes_with_pods_to_delete.nodes.iter();
    nodes.filter(|node| failed.contains(&node.name)).map(|node| node.next_failed_pod_delay).min()
}

#[cfg(test)]
mod tests;
