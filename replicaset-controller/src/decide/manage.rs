//! How many Pods to create, or which to delete.

use std::{fmt, sync::Arc};

use common::pods::{Candidate, Phase, rank_for_deletion};
use jiff::Timestamp;

use super::{Failing, PodRef, Snapshot, rank};
use crate::pod_cache::CachedPod;

/// What is done about the number of Pods.
#[derive(Clone, Debug)]
pub enum Manage {
    /// It is as wanted.
    Nothing,
    /// Nothing may be done now.
    NotAllowed(String),
    /// Pods are missing, and the template makes none that the set could call its own.
    Impossible(&'static str),
    /// Pods are missing, and none is created for a while.
    Later(Failing),
    /// Pods are missing.
    Create {
        /// How many to create now.
        count: usize,
        /// How many are missing.
        missing: usize,
    },
    /// There are too many Pods.
    Delete {
        /// Which to delete now.
        victims: Vec<Victim>,
        /// How many there are too many.
        surplus: usize,
        /// Of each chosen Pod that is ready, its age as a multiple of the age of the youngest ready Pod; none where
        /// there was no choice.
        age_ratios: Vec<u64>,
    },
}

impl Manage {
    /// Whether managing was allowed at all.
    pub fn is_allowed(&self) -> bool {
        !matches!(self, Self::NotAllowed(_) | Self::Later(_))
    }

    /// Whether it changes anything.
    pub fn acts(&self) -> bool {
        matches!(self, Self::Create { .. } | Self::Delete { .. })
    }
}

/// A Pod to delete.
#[derive(Clone, Debug)]
pub struct Victim {
    /// The Pod.
    pub pod: PodRef,
    /// Why this one.
    pub why: Why,
}

/// Why a Pod was chosen before those that stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// All go.
    NoneWanted,
    /// It is on no node yet.
    Unassigned,
    /// It does not run.
    Phase(Phase),
    /// It is not ready.
    NotReady,
    /// Its user minds least.
    Cost(i32),
    /// Its node has the most Pods of its owner.
    Colocated(usize),
    /// It is younger, by magnitude, or was restarted more often, or its uid is smaller.
    Age,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoneWanted => f.write_str("no Pod is wanted"),
            Self::Unassigned => f.write_str("it is not assigned to a node"),
            Self::Phase(phase) => write!(f, "its phase is {phase:?}"),
            Self::NotReady => f.write_str("it is not ready"),
            Self::Cost(cost) => write!(f, "its deletion cost is {cost}"),
            Self::Colocated(n) => write!(f, "its node has {n} Pods of the same owner"),
            Self::Age => f.write_str("it is ranked first by age, restarts and uid"),
        }
    }
}

/// Decides what to do about the number of claimed Pods.
///
/// Never creates and deletes at once, and never more than the burst; a set whose Pods fail creates none until its wait is
/// over. Upstream: `pkg/controller/replicaset`, `manageReplicas`.
pub fn manage(snapshot: &Snapshot, claimed: &[&PodRef]) -> Manage {
    let set = &snapshot.set;
    if set.selector.problem().is_some() {
        return Manage::NotAllowed("its selector cannot be used".to_owned());
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

/// A Pod made from such a template would be given up at once, and another one made, for ever.
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

/// The first rule that puts a Pod before the first one that stays.
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

/// Of each chosen Pod that is ready, its age as a whole multiple of the age of the youngest ready one.
fn age_ratios<'a>(all: &[&PodRef], chosen: impl Iterator<Item = &'a PodRef>, now: Timestamp) -> Vec<u64> {
    let age = |pod: &CachedPod| {
        let created = pod.meta().created.filter(|_| pod.is_ready())?;
        u64::try_from(now.duration_since(created).as_millis().max(0)).ok()
    };
    let youngest = all.iter().filter_map(|pod| age(pod)).min().unwrap_or(0).max(1);
    chosen.filter_map(|pod| age(pod)).map(|age| age / youngest).collect()
}
