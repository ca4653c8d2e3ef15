//! Which Pods go, and why.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc, time::Duration};

use common::{
    controller::{Explain, Explanation},
    intern::Text,
    pods::Phase,
};

use crate::objects::{CachedPod, Node};

/// The taint with which an operator says that a node is dead, and nothing on it runs any more.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// How many Pods are named one by one.
const NAMED: usize = 10;

/// What a pass looks at.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Pods that have ended, that are going, or whose node is missing.
    pub pods: Vec<Arc<CachedPod>>,
    /// The nodes of such Pods.
    pub nodes: Vec<Arc<Node>>,
    /// Nodes that Pods name and that are not there.
    pub missing: BTreeSet<Text>,
    /// Those of them that have been missing for long enough.
    pub due: BTreeSet<Text>,
    /// How many Pods that have ended are kept; all if this is not positive.
    pub threshold: i64,
    /// How long after a pass the next one begins.
    pub period: Duration,
}

/// Why a Pod goes, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It has ended, and too many others have.
    Terminated,
    /// It is going, on a node that is out of service.
    OutOfService,
    /// Its node is gone.
    Orphaned,
    /// It is going, and has no node that could end it.
    Unscheduled,
}

impl Reason {
    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }
}

/// A Pod that goes.
#[derive(Clone, Debug)]
pub struct Victim {
    /// The Pod.
    pub pod: Arc<CachedPod>,
    /// Why.
    pub reason: Reason,
}

/// A node that seems to be gone, and the Pods that go if it is.
#[derive(Clone, Debug)]
pub struct Gone {
    /// Its name.
    pub node: Text,
    /// Its Pods.
    pub pods: Vec<Victim>,
}

/// What a pass does, in this order.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Pods that have ended.
    pub terminated: Vec<Victim>,
    /// Pods on nodes that are out of service.
    pub out_of_service: Vec<Victim>,
    /// Pods of nodes that are gone, if the server agrees.
    pub gone: Vec<Gone>,
    /// Pods without a node.
    pub unscheduled: Vec<Victim>,
    /// Nodes that are missing, and have not been for long enough.
    pub quarantined: Vec<Text>,
    /// How many Pods have ended, and how many may have.
    pub ended: (usize, i64),
    /// How long after this pass the next one begins.
    pub requeue_after: Duration,
}

/// Whether a Pod is neither waiting nor running, nor said to be of an unknown state.
pub(crate) fn is_over(pod: &CachedPod) -> bool {
    !matches!(pod.phase, Phase::Pending | Phase::Running | Phase::Unknown)
}

/// Decides what a pass does. Upstream: `pkg/controller/podgc`, `gc`.
pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    let Snapshot { pods, nodes, missing, due, threshold, period } = snapshot;
    let victim = |reason: Reason| move |pod: &Arc<CachedPod>| Victim { pod: Arc::clone(pod), reason };
    let over: Vec<&Arc<CachedPod>> = pods.iter().filter(|pod| is_over(pod)).collect();
    let excess =
        if *threshold > 0 { over.len().saturating_sub(usize::try_from(*threshold).unwrap_or(usize::MAX)) } else { 0 };
    let ended = (over.len(), *threshold);
    let terminated = oldest_first(over).into_iter().take(excess).map(victim(Reason::Terminated)).collect();
    let is_dead = |name: &str| {
        let node = nodes.iter().find(|node| &*node.metadata.name == name);
        node.is_some_and(|node| !node.is_ready() && node.taints().iter().any(|taint| taint.key == OUT_OF_SERVICE))
    };
    let going = || pods.iter().filter(|pod| pod.meta.is_deleting());
    let dead = going().filter(|pod| !pod.node.is_empty() && is_dead(&pod.node)).collect();
    let of = |node: &Text| pods.iter().filter(|pod| pod.node == *node).map(victim(Reason::Orphaned)).collect();
    Plan {
        terminated,
        out_of_service: oldest_first(dead).into_iter().map(victim(Reason::OutOfService)).collect(),
        gone: due.iter().map(|node| Gone { node: node.clone(), pods: of(node) }).collect(),
        unscheduled: going().filter(|pod| pod.node.is_empty()).map(victim(Reason::Unscheduled)).collect(),
        quarantined: missing.difference(due).cloned().collect(),
        ended,
        requeue_after: *period,
    }
}

/// Who was thrown out goes first, then who is older; names decide among equals.
fn oldest_first(mut pods: Vec<&Arc<CachedPod>>) -> Vec<&Arc<CachedPod>> {
    let is_evicted = |pod: &CachedPod| pod.phase == Phase::Failed && pod.evicted;
    pods.sort_by_key(|pod| (Reverse(is_evicted(pod)), pod.meta.created, Arc::clone(&pod.meta.name)));
    pods
}

impl Explain for Plan {
    fn explain(&self) -> Explanation {
        let (ended, kept) = self.ended;
        let situation = match kept {
            1.. => format!("{ended} Pods have ended, {kept} are kept"),
            _ => "all Pods that have ended are kept".to_owned(),
        };
        let missing = |node: &Text| format!("Node {node} is missing; if it still is after 40s, its Pods go");
        let gone = self.gone.iter().flat_map(|gone| &gone.pods);
        let all = self.terminated.iter().chain(&self.out_of_service).chain(gone).chain(&self.unscheduled);
        let count = all.clone().count();
        let mut actions: Vec<String> = all.take(NAMED).map(Victim::to_string).collect();
        if count > NAMED {
            actions.push(format!("... and {} more", count - NAMED));
        }
        Explanation { situation, waiting: self.quarantined.iter().map(missing).collect(), actions }
    }

    fn acts(&self) -> bool {
        let gone = self.gone.iter().any(|gone| !gone.pods.is_empty());
        gone || !(self.terminated.is_empty() && self.out_of_service.is_empty() && self.unscheduled.is_empty())
    }

    fn requeue_after(&self) -> Option<Duration> {
        Some(self.requeue_after)
    }
}

impl std::fmt::Display for Victim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let why = match self.reason {
            Reason::Terminated => "too many Pods have ended",
            Reason::OutOfService => "it is going, and its node is out of service",
            Reason::Orphaned => "its node is gone",
            Reason::Unscheduled => "it is going and has no node",
        };
        write!(f, "remove Pod {}: {why}", self.pod.meta.key())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, hours: i64, change: Value) -> Arc<CachedPod> {
        let created = jiff::Timestamp::from_second(1_800_000_000 - 3600 * hours).unwrap().to_string();
        let mut json = json!({"metadata": {"name": name, "namespace": "shop", "creationTimestamp": created}});
        for (section, value) in change.as_object().unwrap() {
            for (field, value) in value.as_object().unwrap() {
                json[section][field] = value.clone();
            }
        }
        Arc::new(serde_json::from_str(&json.to_string()).unwrap())
    }

    fn node(name: &str, ready: &str, taints: Value) -> Arc<Node> {
        let json = json!({"metadata": {"name": name}, "spec": {"taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        Arc::new(serde_json::from_str(&json.to_string()).unwrap())
    }

    fn names(victims: &[Victim]) -> Vec<String> {
        victims.iter().map(|victim| victim.pod.meta.name.to_string()).collect()
    }

    fn ended() -> Vec<Arc<CachedPod>> {
        let over = || json!({"status": {"phase": "Succeeded"}});
        let thrown_out = json!({"status": {"phase": "Failed", "reason": "Evicted"}});
        vec![pod("a", 5, over()), pod("b", 4, over()), pod("c", 1, thrown_out), pod("d", 2, over())]
    }

    #[test]
    fn the_oldest_of_too_many_go_and_before_them_who_was_thrown_out() {
        for (threshold, going) in [(2, &["c", "a"][..]), (0, &[]), (-1, &[]), (4, &[]), (3, &["c"])] {
            let plan = decide(&Snapshot { pods: ended(), threshold, ..Snapshot::default() });
            assert_eq!(names(&plan.terminated), going, "{threshold}");
        }
    }

    #[test]
    fn pods_that_run_or_wait_are_not_over() {
        let phase = |phase: &str| pod("p", 1, json!({"status": {"phase": phase}}));
        let pods = ["Pending", "Running", "Unknown", ""].map(phase).to_vec();
        let plan = decide(&Snapshot { pods, threshold: 1, ..Snapshot::default() });
        assert!(plan.terminated.is_empty(), "one has no phase, and one may stay");
        assert_eq!(plan.ended, (1, 1));
    }

    #[test]
    fn pods_that_are_going_go_from_nodes_that_are_out_of_service() {
        let out = json!([{"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}]);
        let nodes =
            vec![node("dead", "Unknown", out.clone()), node("alive", "True", out), node("lost", "Unknown", json!([]))];
        let on = |name: &str, node: &str, going: bool| {
            let going = if going { json!({"deletionTimestamp": "2026-11-21T09:00:00Z"}) } else { json!({}) };
            pod(name, 1, json!({"metadata": going, "spec": {"nodeName": node}}))
        };
        let pods = vec![on("a", "dead", true), on("b", "dead", false), on("c", "alive", true), on("d", "lost", true)];
        let plan = decide(&Snapshot { pods, nodes, ..Snapshot::default() });
        assert_eq!(names(&plan.out_of_service), ["a"]);
        assert!(plan.unscheduled.is_empty() && plan.gone.is_empty());
    }

    #[test]
    fn pods_of_nodes_that_are_gone_go_and_those_that_never_had_one() {
        let pods = vec![
            pod("a", 1, json!({"spec": {"nodeName": "gone"}})),
            pod("b", 1, json!({"spec": {"nodeName": "fresh"}})),
            pod("c", 1, json!({"metadata": {"deletionTimestamp": "2026-11-21T09:00:00Z"}})),
        ];
        let set = |names: &[&str]| names.iter().map(|name| Text::new(name)).collect::<BTreeSet<_>>();
        let (missing, due) = (set(&["gone", "fresh"]), set(&["gone"]));
        let plan = decide(&Snapshot { pods, missing, due, ..Snapshot::default() });
        assert_eq!((plan.gone.len(), &*plan.gone[0].node), (1, "gone"));
        assert_eq!(names(&plan.gone[0].pods), ["a"]);
        assert_eq!(names(&plan.unscheduled), ["c"]);
        assert_eq!(plan.quarantined, ["fresh"]);
        assert!(plan.acts() && plan.explain().waiting[0].contains("fresh"));
    }
}
