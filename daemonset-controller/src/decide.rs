//! Pure functions from a [`Snapshot`] to a [`Plan`]: no requests, no clock, no randomness.
//!
//! The decision has two parts. [`standing`](standing::standing) judges one node, and is called only for changed nodes.
//! [`decide`] judges the sum over all nodes, and those nodes that need an action.

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

use common::{explain::Lines, intern::Text, refs::Owner};

use crate::{
    objects::PodRef,
    plan::{Creation, Deferred, Deletion, Plan, Problem, Scope, Why},
    snapshot::{Snapshot, Turn},
};

/// Decides the plan of one sync. Upstream: `pkg/controller/daemon`, `syncDaemonSet`.
///
/// A sync does one kind of work on Pods, in this order of priority: adopt orphans, create missing Pods and delete surplus Pods,
/// replace outdated Pods. The sync after an adoption adopts no Pods.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let scope = scope(snapshot);
    let (adopt, orphans) = match scope {
        Scope::Claims if snapshot.turn == Turn::Adopts => (snapshot.adopt.clone(), 0),
        _ => (Vec::new(), snapshot.adopt.len()),
    };
    let mut plan = Plan {
        set: Arc::clone(&snapshot.set),
        problem: problem(snapshot),
        scope,
        hash: snapshot.revisions.hash.clone(),
        adopt,
        orphans,
        creates: Vec::new(),
        deletes: Vec::new(),
        deferred: Deferred::default(),
        status: snapshot.set.status.clone(),
        forget: Vec::new(),
        tally: snapshot.nodes.tally,
        waiting: Lines::default(),
        due: None,
    };
    if plan.problem.is_some() {
        return plan;
    }
    match plan.scope {
        Scope::Nothing => {
            plan.waiting.push(|| "the set is being deleted: its Pods are left to the garbage collector".to_owned());
        }
        Scope::Claims => plan.waiting.push(|| "Pods are counted once the cache shows their owners".to_owned()),
        Scope::Status => {
            let blocked = snapshot.blocked.as_ref().map(|blocked| blocked.why.clone()).unwrap_or_default();
            plan.waiting.push(|| format!("only the status is written: {blocked}"));
            plan.status = status::status(&snapshot.set, &snapshot.nodes.tally, false);
        }
        Scope::Everything => {
            manage_pods(snapshot, &mut plan);
            let old = &snapshot.revisions.old;
            plan.forget = revisions::surplus(old, snapshot.set.history, |hash| snapshot.live_hashes.contains(hash));
            let refused = &snapshot.refused_revisions.names;
            plan.forget.retain(|revision| !refused.iter().any(|name| **name == *revision.meta.name));
            plan.status = status::status(&snapshot.set, &snapshot.nodes.tally, true);
        }
    }
    if plan.scope != Scope::Nothing {
        for name in &snapshot.refused_revisions.names {
            plan.waiting.push(|| format!("revision {name} stays as it is: the server refused to change it"));
        }
        for name in &snapshot.refused_pods.names {
            plan.waiting.push(|| format!("Pod {name} stays as it is: the server refused to change it"));
        }
    }
    plan.due = requeue_after(snapshot, &plan);
    plan
}

fn problem(snapshot: &Snapshot) -> Option<Problem> {
    if snapshot.set.selector.is_empty() {
        return Some(Problem::SelectsEverything);
    }
    snapshot.set.selector.problem().cloned().map(Problem::Selector)
}

fn scope(snapshot: &Snapshot) -> Scope {
    let Owner { deleting, .. } = &snapshot.owner;
    if *deleting {
        Scope::Nothing
    } else if snapshot.blocked.is_some() {
        Scope::Status
    } else if !snapshot.relabel.is_empty()
        || !snapshot.unlabelled.is_empty()
        || (!snapshot.adopt.is_empty() && snapshot.turn == Turn::Adopts)
    {
        Scope::Claims
    } else {
        Scope::Everything
    }
}

/// Decides creations and deletions as upstream's `manage`; if there are none, the rolling update as `rollingUpdate`.
fn manage_pods(snapshot: &Snapshot, plan: &mut Plan) {
    let (nodes, held_back) = (&snapshot.nodes, &snapshot.held_back);
    for node in nodes.create.nodes.iter().filter(|node| !held_back.contains(&node.name)) {
        let create = manage::on_node(&node.view(), &nodes.criteria, snapshot.now).create;
        plan.creates.extend(create.map(|lack| Creation { node: node.name.clone(), lack }));
    }
    for node in &nodes.delete.nodes {
        let delete = manage::on_node(&node.view(), &nodes.criteria, snapshot.now).delete;
        let deletion = |(pod, why): (&_, _)| Deletion { pod: Arc::clone(pod), node: node.name.clone(), why };
        plan.deletes.extend(delete.into_iter().map(deletion));
    }
    plan.deferred = Deferred { creates: nodes.create.unlisted(), deletes: nodes.delete.unlisted() };
    if plan.creates.is_empty() && plan.deletes.is_empty() {
        rolling::update(snapshot, plan);
    }
    nodes.cursors.create.order(&mut plan.creates, |creation| &creation.node);
    nodes.cursors.delete.order(&mut plan.deletes, |deletion| &deletion.node);
    let burst = snapshot.limits.burst;
    plan.deferred.creates += plan.creates.len().saturating_sub(burst);
    plan.deferred.deletes += plan.deletes.len().saturating_sub(burst);
    plan.creates.truncate(burst);
    plan.deletes.truncate(burst);
    if snapshot.terminating_namespace && !plan.creates.is_empty() {
        // The server refuses all new Pods of the namespace, so these creations are not left to later syncs either.
        plan.creates.clear();
        plan.deferred.creates = 0;
        plan.waiting.push(|| "no Pods are created: the namespace is terminating".to_owned());
    }
    if plan.creates.is_empty() {
        // The deferred creations are all on held-back nodes, which wait for an adoption or for the timeout of a lost answer.
        plan.deferred.creates = 0;
    }
    explain_held_back(snapshot, plan);
    if snapshot.nodes.untargeted > 0 {
        let untargeted = snapshot.nodes.untargeted;
        plan.waiting.push(|| format!("{untargeted} Pods are ignored: they are neither bound nor pinned to a node"));
    }
}

/// Returns the held-back nodes, which get no Pod now: a creation with a lost answer may have created one there, or an orphan on
/// the node waits for its adoption.
pub(crate) fn held_back<'a>(
    lost_creates: &BTreeMap<Text, Duration>,
    orphans: impl Iterator<Item = &'a PodRef>,
) -> BTreeSet<Text> {
    lost_creates.keys().chain(orphans.map(|pod| pod.target())).cloned().collect()
}

fn explain_held_back(snapshot: &Snapshot, plan: &mut Plan) {
    if !snapshot.adopt.is_empty() {
        plan.waiting.push(|| format!("{} Pods are adopted by the next sync", snapshot.adopt.len()));
    }
    for node in snapshot.lost_creates.keys() {
        plan.waiting
            .push(|| format!("node {node}: a request to create a Pod was not answered, and may have created one"));
    }
}

/// Returns the time from the snapshot until the decision may change without an event; `None` without such a time.
fn requeue_after(snapshot: &Snapshot, plan: &Plan) -> Option<Duration> {
    match (plan.scope, &snapshot.blocked) {
        (Scope::Nothing, _) => None,
        (Scope::Status, Some(blocked)) => Some(blocked.at_most),
        _ => {
            let due = snapshot.nodes.due.and_then(|due| due.duration_since(snapshot.now).try_into().ok());
            let lost = snapshot.lost_creates.values().min().copied();
            let refused = snapshot.refused_revisions.retry.into_iter().chain(snapshot.refused_pods.retry);
            due.into_iter().chain(next_failure(snapshot, plan)).chain(lost).chain(refused).min()
        }
    }
}

/// Returns the time from the snapshot until a failed Pod is deleted again, if the deletion of this sync has no effect.
fn next_failure(snapshot: &Snapshot, plan: &Plan) -> Option<Duration> {
    let failed: BTreeSet<_> =
        plan.deletes.iter().filter(|deletion| deletion.why == Why::Failed).map(|deletion| &deletion.node).collect();
    let nodes = snapshot.nodes.delete.nodes.iter().filter(|node| failed.contains(&node.name));
    nodes.map(|node| node.failed_delay).min()
}

#[cfg(test)]
mod tests;
