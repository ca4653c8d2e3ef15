//! Decides how many Pods to create, or which Pods to delete.

use std::sync::Arc;

use common::pods::{Candidate, Phase, rank_for_deletion};
use jiff::Timestamp;

use super::rank;
use crate::{
    plan::{Manage, Victim, Why},
    pod_cache::CachedPod,
    snapshot::{PodRef, Snapshot},
};

/// Decides what to do about the number of claimed Pods.
///
/// A plan never both creates and deletes, and never exceeds `burst-replicas`. A set with failing Pods creates none during its
/// back-off. Upstream: `pkg/controller/replicaset`, `manageReplicas`.
pub fn manage(snapshot: &Snapshot, claimed: &[&PodRef]) -> Manage {
    let set = &snapshot.set;
    if set.selector.problem().is_some() {
        return Manage::NotAllowed("its selector is invalid".to_owned());
    }
    if snapshot.owner.deleting {
        return Manage::NotAllowed("it is being deleted".to_owned());
    }
    if let Some(blocked) = &snapshot.blocked {
        return Manage::NotAllowed(blocked.why.clone());
    }
    if claimed.len() < set.replicas {
        let missing = set.replicas - claimed.len();
        if snapshot.terminating_namespace {
            return Manage::NotAllowed("its namespace is terminating".to_owned());
        }
        return match (template_problem(snapshot), snapshot.failing) {
            (Some(problem), _) => Manage::Impossible(problem),
            (None, Some(failing)) => Manage::Later(failing),
            (None, None) => Manage::Create { count: missing.min(snapshot.limits.burst), missing },
        };
    }
    let surplus = claimed.len() - set.replicas;
    if surplus == 0 { Manage::Nothing } else { choose(snapshot, claimed, surplus) }
}

/// Returns the reason why a Pod from the template would not belong to the set, so that replacements would be created for ever.
fn template_problem(snapshot: &Snapshot) -> Option<&'static str> {
    let labels = &snapshot.set.template_labels;
    if labels.is_empty() {
        return Some("no labels");
    }
    (!snapshot.set.selector.matches(labels)).then_some("the selector does not match the labels of the template")
}

fn choose(snapshot: &Snapshot, claimed: &[&PodRef], surplus: usize) -> Manage {
    let count = surplus.min(snapshot.limits.burst);
    if count >= claimed.len() {
        let victims = claimed.iter().map(|pod| Victim { pod: Arc::clone(pod), why: Why::NoneWanted }).collect();
        return Manage::Delete { victims, surplus, age_ratios: Vec::new() };
    }
    let cost = |pod: &CachedPod| if snapshot.limits.deletion_cost { pod.deletion_cost() } else { 0 };
    let colocated = |pod: &CachedPod| snapshot.colocated.get(&pod.node).copied().unwrap_or(0);
    let mut candidates: Vec<Candidate<'_>> =
        claimed.iter().map(|pod| Candidate { pod, cost: cost(pod), colocated: colocated(pod) }).collect();
    let order = if snapshot.limits.reranks {
        rank::rerank(&mut candidates, snapshot.now)
    } else {
        rank_for_deletion(&candidates, snapshot.now)
    };
    let (chosen, kept) = order.split_at(count.min(order.len()));
    let kept = kept.first().map(|at| &candidates[*at]);
    let victim = |at: &usize| Victim { pod: Arc::clone(claimed[*at]), why: why(&candidates[*at], kept) };
    let victims = chosen.iter().map(victim).collect();
    let age_ratios = age_ratios(claimed, chosen.iter().map(|at| claimed[*at]), snapshot.now);
    Manage::Delete { victims, surplus, age_ratios }
}

/// Returns the first rule that ranks the chosen Pod before the first Pod that stays.
fn why(chosen: &Candidate<'_>, kept: Option<&Candidate<'_>>) -> Why {
    let Some(kept) = kept else { return Why::NoneWanted };
    let (a, b) = (chosen.pod, kept.pod);
    if a.node.is_empty() && !b.node.is_empty() {
        Why::Unassigned
    } else if a.phase != b.phase && a.phase != Phase::Running {
        Why::Phase(a.phase)
    } else if !a.is_ready() && b.is_ready() {
        Why::NotReady
    } else if chosen.cost < kept.cost {
        Why::Cost(chosen.cost)
    } else if chosen.colocated > kept.colocated {
        Why::Colocated(chosen.colocated)
    } else {
        Why::Age
    }
}

/// Returns the ages of the chosen ready Pods, as whole multiples of the youngest ready Pod's age.
fn age_ratios<'a>(all: &[&PodRef], chosen: impl Iterator<Item = &'a PodRef>, now: Timestamp) -> Vec<u64> {
    let age = |pod: &CachedPod| {
        let created = pod.meta().created.filter(|_| pod.is_ready())?;
        u64::try_from(now.duration_since(created).as_millis().max(0)).ok()
    };
    let youngest = all.iter().filter_map(|pod| age(pod)).min().unwrap_or(0).max(1);
    chosen.filter_map(|pod| age(pod)).map(|age| age / youngest).collect()
}
