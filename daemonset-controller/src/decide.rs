//! Pure functions from a [`Snapshot`] to a [`Plan`]: no requests, no clock, no randomness.
//!
//! The decision has two parts. [`node_contribution`](standing::node_contribution) handles one node, and is called only for
//! changed nodes. [`decide`] uses the sums over all nodes, and handles the nodes that need an action.

pub mod eligibility;
pub mod manage;
pub mod recheck;
pub mod revisions;
pub mod rolling;
pub mod standing;
pub mod status;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{explain::BoundedLines, intern::Text, refs::Owner};

use crate::{
    objects::PodRef,
    plan::{DeferredNodes, DeletionReason, Plan, PodCreation, PodDeletion, SelectorProblem, SyncScope},
    snapshot::{Snapshot, SyncTurn},
};

/// Decides the plan of one sync. Upstream: `pkg/controller/daemon`, `syncDaemonSet`.
///
/// A sync does one kind of work on Pods, in this order of priority: adopt orphans, create missing Pods and delete surplus Pods,
/// replace outdated Pods. The sync after an adoption adopts no Pods.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let scope = sync_scope(snapshot);
    let (adopt, orphans) = match scope {
        SyncScope::ClaimsOnly if snapshot.turn == SyncTurn::AdoptsOrphans => (snapshot.orphans_to_adopt.clone(), 0),
        _ => (Vec::new(), snapshot.orphans_to_adopt.len()),
    };
    let mut plan = Plan {
        set: Arc::clone(&snapshot.set),
        selector_problem: selector_problem(snapshot),
        scope,
        revision_hash: snapshot.revisions.current_hash.clone(),
        orphans_to_adopt: adopt,
        deferred_adoptions: orphans,
        creations: Vec::new(),
        deletions: Vec::new(),
        deferred: DeferredNodes::default(),
        status: snapshot.set.status.clone(),
        revisions_to_delete: Vec::new(),
        node_counts: snapshot.nodes.node_counts,
        waiting: BoundedLines::default(),
        due_after: None,
    };
    if plan.selector_problem.is_some() {
        return plan;
    }
    match plan.scope {
        SyncScope::Nothing => {
            plan.waiting.push(|| "the set is being deleted: its Pods are left to the garbage collector".to_owned());
        }
        SyncScope::ClaimsOnly => plan.waiting.push(|| "Pods are counted once the cache shows their owners".to_owned()),
        SyncScope::StatusOnly => {
            let blocked =
                snapshot.stale_cache.as_ref().map(|blocked| blocked.unobserved_write.clone()).unwrap_or_default();
            plan.waiting.push(|| format!("only the status is written: {blocked}"));
            plan.status = status::compute_status(&snapshot.set, &snapshot.nodes.node_counts, false);
        }
        SyncScope::Everything => {
            manage_pods(snapshot, &mut plan);
            let old = &snapshot.revisions.earlier_revisions;
            plan.revisions_to_delete = revisions::surplus_revisions(old, snapshot.set.revision_history_limit, |hash| {
                snapshot.earlier_hashes_in_use.contains(hash)
            });
            let refused = &snapshot.refused_revisions.object_names;
            plan.revisions_to_delete.retain(|revision| !refused.iter().any(|name| **name == *revision.meta.name));
            plan.status = status::compute_status(&snapshot.set, &snapshot.nodes.node_counts, true);
        }
    }
    if plan.scope != SyncScope::Nothing {
        for name in &snapshot.refused_revisions.object_names {
            plan.waiting.push(|| format!("revision {name} stays as it is: the server refused to change it"));
        }
        for name in &snapshot.refused_pods.object_names {
            plan.waiting.push(|| format!("Pod {name} stays as it is: the server refused to change it"));
        }
    }
    plan.due_after = requeue_after(snapshot, &plan);
    plan
}

fn selector_problem(snapshot: &Snapshot) -> Option<SelectorProblem> {
    if snapshot.set.selector.is_empty() {
        return Some(SelectorProblem::EmptySelector);
    }
    snapshot.set.selector.problem().cloned().map(SelectorProblem::InvalidSelector)
}

fn sync_scope(snapshot: &Snapshot) -> SyncScope {
    let Owner { is_deleting: deleting, .. } = &snapshot.owner;
    if *deleting {
        SyncScope::Nothing
    } else if snapshot.stale_cache.is_some() {
        SyncScope::StatusOnly
    } else if !snapshot.pods_to_relabel.is_empty()
        || !snapshot.unlabelled_pods.is_empty()
        || (!snapshot.orphans_to_adopt.is_empty() && snapshot.turn == SyncTurn::AdoptsOrphans)
    {
        SyncScope::ClaimsOnly
    } else {
        SyncScope::Everything
    }
}

/// Adds creations and deletions as upstream's `manage`; if there are none, those of the rolling update as `rollingUpdate`.
fn manage_pods(snapshot: &Snapshot, plan: &mut Plan) {
    let (nodes, held_back) = (&snapshot.nodes, &snapshot.held_back_nodes);
    for node in nodes.create_pod_on.nodes.iter().filter(|node| !held_back.contains(&node.name)) {
        let create = manage::actions_on_node(&node.view(), &nodes.criteria, snapshot.now).creation_reason;
        plan.creations.extend(create.map(|lack| PodCreation { node: node.name.clone(), creation_reason: lack }));
    }
    for node in &nodes.delete_pods_on.nodes {
        let delete = manage::actions_on_node(&node.view(), &nodes.criteria, snapshot.now).pods_to_delete;
        let deletion =
            |(pod, why): (&_, _)| PodDeletion { pod: Arc::clone(pod), node: node.name.clone(), deletion_reason: why };
        plan.deletions.extend(delete.into_iter().map(deletion));
    }
    plan.deferred = DeferredNodes {
        creation_nodes: nodes.create_pod_on.unlisted_count(),
        deletion_nodes: nodes.delete_pods_on.unlisted_count(),
    };
    if plan.creations.is_empty() && plan.deletions.is_empty() {
        rolling::decide_rolling_update(snapshot, plan);
    }
    nodes.cursors.creation_cursor.sort_after_cursor(&mut plan.creations, |creation| &creation.node);
    nodes.cursors.deletion_cursor.sort_after_cursor(&mut plan.deletions, |deletion| &deletion.node);
    let burst = snapshot.decision_settings.burst_replicas;
    plan.deferred.creation_nodes += plan.creations.len().saturating_sub(burst);
    plan.deferred.deletion_nodes += plan.deletions.len().saturating_sub(burst);
    plan.creations.truncate(burst);
    plan.deletions.truncate(burst);
    if snapshot.is_namespace_terminating && !plan.creations.is_empty() {
        // The server refuses all new Pods of the terminating namespace, so later syncs must not create these Pods either.
        plan.creations.clear();
        plan.deferred.creation_nodes = 0;
        plan.waiting.push(|| "no Pods are created: the namespace is terminating".to_owned());
    }
    if plan.creations.is_empty() {
        // All creations that are left are for nodes that wait for an adoption or for the timeout of a lost answer.
        plan.deferred.creation_nodes = 0;
    }
    explain_held_back(snapshot, plan);
    if snapshot.nodes.untargeted_pods > 0 {
        let untargeted = snapshot.nodes.untargeted_pods;
        plan.waiting.push(|| format!("{untargeted} Pods are ignored: they are neither bound nor pinned to a node"));
    }
}

/// Returns the nodes that get no Pod now: an earlier creation for the node got no answer and may take effect, or an orphan on
/// the node is to be adopted first.
pub(crate) fn held_back_node_names<'a>(
    lost_creates: &BTreeMap<Text, Duration>,
    orphans: impl Iterator<Item = &'a PodRef>,
) -> BTreeSet<Text> {
    lost_creates.keys().chain(orphans.map(|pod| pod.target_node())).cloned().collect()
}

fn explain_held_back(snapshot: &Snapshot, plan: &mut Plan) {
    if !snapshot.orphans_to_adopt.is_empty() {
        plan.waiting.push(|| format!("{} Pods are adopted by the next sync", snapshot.orphans_to_adopt.len()));
    }
    for node in snapshot.nodes_with_lost_creation.keys() {
        plan.waiting
            .push(|| format!("node {node}: a request to create a Pod was not answered, and may have created one"));
    }
}

/// Returns the time after which the decision may change without an event; `None` if only an event can change it.
fn requeue_after(snapshot: &Snapshot, plan: &Plan) -> Option<Duration> {
    match (plan.scope, &snapshot.stale_cache) {
        (SyncScope::Nothing, _) => None,
        (SyncScope::StatusOnly, Some(blocked)) => Some(blocked.max_wait),
        _ => {
            let due = snapshot.nodes.due_at.and_then(|due| due.duration_since(snapshot.now).try_into().ok());
            let lost = snapshot.nodes_with_lost_creation.values().min().copied();
            let refused = snapshot.refused_revisions.retry_after.into_iter().chain(snapshot.refused_pods.retry_after);
            due.into_iter().chain(next_failed_pod_deletion(snapshot, plan)).chain(lost).chain(refused).min()
        }
    }
}

/// Returns the time after which a failed Pod is deleted again, in case the deletion of this sync has no effect.
fn next_failed_pod_deletion(snapshot: &Snapshot, plan: &Plan) -> Option<Duration> {
    let failed: BTreeSet<_> = plan
        .deletions
        .iter()
        .filter(|deletion| deletion.deletion_reason == DeletionReason::PodFailed)
        .map(|deletion| &deletion.node)
        .collect();
    let nodes = snapshot.nodes.delete_pods_on.nodes.iter().filter(|node| failed.contains(&node.name));
    nodes.map(|node| node.next_failed_pod_delay).min()
}

#[cfg(test)]
mod tests;
