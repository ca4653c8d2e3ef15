//! Rolling updates: the replacement of outdated Pods within `maxUnavailable` and `maxSurge`.

use std::collections::BTreeSet;

use common::{
    intern::Text,
    intstr::{IntOrString, Round},
};

use crate::{
    objects::{DaemonSet, Update},
    plan::{Creation, Deletion, Lack, Plan, Why},
    snapshot::{
        Snapshot,
        nodes::{Criteria, NodePods, Replacement, Tally},
    },
};

/// Returns the properties of a DaemonSet that decide whether a Pod is current, available or replaced. `hash` is the hash of the
/// current revision, `same_hashes` are the hashes of its duplicates, and `desired` is the number of nodes on which a Pod should
/// run.
pub fn criteria(set: &DaemonSet, hash: &str, same_hashes: &BTreeSet<Text>, desired: i32) -> Criteria {
    Criteria {
        hash: Text::new(hash),
        same_hashes: same_hashes.clone(),
        template_generation: set.template_generation().map(|generation| Text::new(&generation.to_string())),
        min_ready_seconds: set.min_ready_seconds,
        allows_surge: set.allows_surge(),
        replacement: Limits::replacement(set, desired),
    }
}

/// The limits of a rolling update as numbers of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Greatest number of nodes without an available Pod; 0 with `OnDelete`.
    pub max_unavailable: i32,
    /// Greatest number of nodes with a new Pod beside the outdated one; 0 with `OnDelete`.
    pub max_surge: i32,
}

impl Limits {
    /// Converts the limits in the spec to numbers of nodes. A percentage is relative to `desired`, the number of nodes on which
    /// a Pod should run, and is rounded up. The error names a value that the API server's validation refuses.
    ///
    /// Upstream: `pkg/controller/daemon`, `updatedDesiredNodeCounts`.
    pub fn new(set: &DaemonSet, desired: i32) -> Result<Self, String> {
        let Update::Rolling { max_unavailable, max_surge } = &set.update else {
            return Ok(Self { max_unavailable: 0, max_surge: 0 });
        };
        let resolve = |field: &str, value: &Option<IntOrString>, absent: i32| match value {
            Some(value) => value
                .resolve(desired, Round::Up)
                .map(|n| n.max(0))
                .map_err(|error| format!("spec.updateStrategy.rollingUpdate.{field}: {error}")),
            None => Ok(absent),
        };
        let max_unavailable = resolve("maxUnavailable", max_unavailable, 1)?;
        let max_surge = resolve("maxSurge", max_surge, 0)?;
        // With both limits zero, a rollout would never progress.
        let blocked = desired > 0 && max_unavailable == 0 && max_surge == 0;
        Ok(Self { max_unavailable: if blocked { 1 } else { max_unavailable }, max_surge })
    }

    /// Returns the order of creation and deletion: a new Pod is created first if `maxSurge` is at least one node.
    pub fn replacement(set: &DaemonSet, desired: i32) -> Replacement {
        match (&set.update, Self::new(set, desired)) {
            (Update::OnDelete, _) => Replacement::OnDelete,
            (Update::Rolling { .. }, Ok(limits)) if limits.max_surge > 0 => Replacement::CreateFirst,
            (Update::Rolling { .. }, _) => Replacement::DeleteFirst,
        }
    }

    /// Returns on how many further nodes an available outdated Pod may be replaced.
    pub fn candidates(&self, tally: &Tally, replacement: Replacement) -> usize {
        let limit = match replacement {
            Replacement::OnDelete => 0,
            Replacement::DeleteFirst => self.max_unavailable,
            Replacement::CreateFirst => self.max_surge,
        };
        usize::try_from(limit.saturating_sub(tally.blocking)).unwrap_or(0)
    }
}

/// Returns how many nodes on which no Pod should run may lose their available Pod: the surplus of serving nodes (nodes with an
/// available Pod) over the nodes on which a Pod should run.
pub fn sunsets(tally: &Tally) -> usize {
    usize::try_from(tally.serving.saturating_sub(tally.desired)).unwrap_or(0)
}

/// Adds the replacements of outdated Pods to the plan. Held-back nodes get no Pod, and other nodes are updated instead.
///
/// Upstream: `pkg/controller/daemon`, `rollingUpdate`.
pub fn update(snapshot: &Snapshot, plan: &mut Plan) {
    let nodes = &snapshot.nodes;
    let (tally, criteria) = (&nodes.tally, &nodes.criteria);
    if criteria.replacement == Replacement::OnDelete {
        if tally.updated < tally.current {
            let outdated = tally.current - tally.updated;
            plan.waiting.push(|| format!("{outdated} outdated Pods are replaced when users delete them (OnDelete)"));
        }
        return;
    }
    let limits = match Limits::new(&snapshot.set, tally.desired) {
        Ok(limits) => limits,
        Err(error) => {
            plan.waiting.push(|| format!("outdated Pods are not replaced: {error}"));
            return;
        }
    };
    let unseen = if criteria.replacement == Replacement::CreateFirst { snapshot.unseen_second_pods } else { 0 };
    let room = limits.candidates(tally, criteria.replacement).saturating_sub(unseen);
    explain_wait(snapshot, limits, room, plan);
    let deferred = room.min(nodes.candidates.count).saturating_sub(nodes.candidates.nodes.len());
    let deferred = deferred + nodes.replace.unlisted();
    plan.deferred.deletes += nodes.remove.unlisted();
    match criteria.replacement {
        Replacement::OnDelete => {}
        Replacement::DeleteFirst => {
            plan.deferred.deletes += deferred;
            plan.deletes
                .extend(nodes.replace.nodes.iter().filter_map(|node| outdated(node, criteria, Why::Unavailable)));
            let chosen = nodes.candidates.nodes.iter().take(room);
            plan.deletes.extend(chosen.filter_map(|node| outdated(node, criteria, Why::Outdated)));
        }
        Replacement::CreateFirst => {
            plan.deferred.creates += deferred;
            plan.deletes.extend(nodes.remove.nodes.iter().filter_map(|node| outdated(node, criteria, Why::Replaced)));
            let sunset = nodes.sunset.nodes.iter().take(sunsets(tally));
            plan.deletes.extend(sunset.filter_map(|node| outdated(node, criteria, Why::NotEligible)));
            let create = |node: &NodePods, lack| Creation { node: node.name.clone(), lack };
            let is_free = |node: &&NodePods| !snapshot.held_back.contains(&node.name);
            let unavailable = nodes.replace.nodes.iter().filter(is_free);
            plan.creates.extend(unavailable.map(|node| create(node, Lack::OldUnavailable)));
            let chosen = nodes.candidates.nodes.iter().filter(is_free).take(room);
            plan.creates.extend(chosen.map(|node| create(node, Lack::Outdated)));
        }
    }
}

fn outdated(node: &NodePods, criteria: &Criteria, why: Why) -> Option<Deletion> {
    let pod = node.view().outdated(criteria)?;
    Some(Deletion { pod: pod.clone(), node: node.name.clone(), why })
}

/// Adds the reasons why outdated Pods are not replaced now to the explanation.
fn explain_wait(snapshot: &Snapshot, limits: Limits, room: usize, plan: &mut Plan) {
    let (nodes, tally) = (&snapshot.nodes, &snapshot.nodes.tally);
    let waiting = nodes.candidates.count.saturating_sub(room);
    if waiting > 0 {
        let blocking = tally.blocking;
        plan.waiting.push(|| match nodes.criteria.replacement {
            Replacement::CreateFirst => format!(
                "{waiting} outdated Pods wait: maxSurge is {}, and on {blocking} nodes a new Pod is not available yet",
                limits.max_surge
            ),
            _ => format!(
                "{waiting} outdated Pods wait: maxUnavailable is {}, and {blocking} nodes have no available Pod",
                limits.max_unavailable
            ),
        });
    }
    let sunset = nodes.sunset.count.saturating_sub(sunsets(tally));
    if sunset > 0 {
        plan.waiting.push(|| {
            format!(
                "{sunset} Pods stay on nodes where no Pod should run until enough other nodes have an available Pod"
            )
        });
    }
    if waiting > 0 || tally.blocking > 0 {
        for node in &nodes.blocking.nodes {
            plan.waiting.push(|| describe(node));
        }
    }
}

/// Returns a line of the explanation that says why a node counts against the limit of the rolling update.
fn describe(node: &NodePods) -> String {
    let name = &node.name;
    let present: Vec<_> = node.pods.iter().filter(|pod| !pod.is_leaving()).collect();
    match present.iter().find(|pod| !pod.meta().is_deleting()) {
        None if present.is_empty() => format!("node {name} has no Pod"),
        None => format!("node {name}: Pod {} is terminating", present[0].meta().name),
        Some(pod) if !pod.is_bound() => format!("node {name}: Pod {} is not scheduled", pod.meta().name),
        Some(pod) if !pod.is_ready() => format!("node {name}: Pod {} is not ready", pod.meta().name),
        Some(pod) => format!("node {name}: Pod {} is not available yet, or the node has several Pods", pod.meta().name),
    }
}

#[cfg(test)]
mod tests;
