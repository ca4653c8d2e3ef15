//! Which Pods a pass of the Pod garbage collector removes, and why.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{clock::Instant, controller::Explain, duration, intern::Text, pods::Phase};

use crate::objects::{CachedPod, Node};

use super::quarantine::Quarantine;

/// The most missing nodes whose Pods are removed in one pass. If more are due, the next pass follows at once.
pub const NODES_PER_PASS: usize = 100;
/// The pause before a pass that takes up what the last one left.
const AT_ONCE: Duration = Duration::from_millis(1);

/// The part of the caches that a pass can act on.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The first of the ended Pods that are to be removed, in their order.
    pub ended: Vec<Arc<CachedPod>>,
    /// The number of Pods that have ended.
    pub ended_count: usize,
    /// How many Pods that have ended are kept; all if the number is not positive.
    pub threshold: i64,
    /// Nodes that are out of service, each with its terminating Pods.
    pub terminating: Vec<(Arc<Node>, Vec<Arc<CachedPod>>)>,
    /// Terminating Pods without a node.
    pub unscheduled: Vec<Arc<CachedPod>>,
    /// Nodes that Pods name and that do not exist.
    pub missing: BTreeSet<Text>,
    /// Nodes whose quarantine is over, at most [`NODES_PER_PASS`], each with its Pods.
    pub pods_of_due: BTreeMap<Text, Vec<Arc<CachedPod>>>,
    /// The quarantine as the last pass left it.
    pub quarantine: Quarantine,
    /// How long a node is in quarantine.
    pub quarantine_period: Duration,
    /// The pause before the next pass.
    pub period: Duration,
    /// The time of the pass.
    pub now: Instant,
}

/// The reason of a removal, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The Pod has ended, and more Pods have ended than are kept.
    Terminated,
    /// The Pod is terminating on a node that is out of service.
    OutOfService,
    /// The node of the Pod does not exist.
    Orphaned,
    /// The Pod is terminating and has no node whose kubelet could finish it.
    Unscheduled,
}

impl Reason {
    /// The value of the metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }

    /// Whether the reason for which `judged` is removed is true of its live state as well.
    pub fn still_holds(self, judged: &CachedPod, live: &CachedPod) -> bool {
        let holds = match self {
            Self::Terminated => live.has_ended(),
            Self::OutOfService | Self::Unscheduled => live.meta.is_deleting() && live.node == judged.node,
            Self::Orphaned => live.node == judged.node,
        };
        holds && live.meta.uid == judged.meta.uid
    }
}

/// A Pod to remove.
#[derive(Clone, Debug)]
pub struct Victim {
    /// The Pod.
    pub pod: Arc<CachedPod>,
    /// The reason.
    pub reason: Reason,
}

/// A node that is read from the server before its Pods are removed.
#[derive(Clone, Debug)]
pub struct OfNode {
    /// The name of the node.
    pub node: Text,
    /// The Pods to remove if the server confirms the state of the node.
    pub pods: Vec<Victim>,
}

/// What a pass does, in this order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The first of the Pods that have ended.
    pub terminated: Vec<Victim>,
    /// How many of these are removed in all.
    pub excess: usize,
    /// Terminating Pods on nodes that are out of service.
    pub out_of_service: Vec<OfNode>,
    /// Pods of nodes that do not exist.
    pub orphaned: Vec<OfNode>,
    /// Terminating Pods without a node.
    pub unscheduled: Vec<Victim>,
    /// The quarantine as this pass leaves it.
    pub quarantine: Quarantine,
    /// Nodes that are missing and whose quarantine is not over.
    pub quarantined: Vec<Text>,
    /// How long a node is in quarantine.
    pub quarantine_period: Duration,
    /// The pause before the next pass, if this pass takes up all nodes that are due.
    pub period: Duration,
    /// Whether more nodes are due than one pass takes up.
    pub is_partial: bool,
    /// The number of Pods that have ended.
    pub ended_count: usize,
    /// How many of them are kept; all if the number is not positive.
    pub threshold: i64,
}

/// By how much the number of Pods that have ended exceeds the threshold.
pub(crate) fn excess(ended_count: usize, threshold: i64) -> usize {
    match usize::try_from(threshold) {
        Ok(0) | Err(_) => 0,
        Ok(threshold) => ended_count.saturating_sub(threshold),
    }
}

/// Decides what a pass removes. Upstream: `pkg/controller/podgc`, `gc`.
pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    let Snapshot { missing, quarantine, quarantine_period, now, threshold, ended_count, .. } = snapshot;
    let out_of_service = snapshot.terminating.iter().filter(|(node, _)| node.is_out_of_service());
    let out_of_service = out_of_service.map(|(node, pods)| OfNode {
        node: Text::new(&node.metadata.name),
        pods: victims(pods.clone(), Reason::OutOfService),
    });
    let orphaned = snapshot.pods_of_due.iter();
    let orphaned = orphaned
        .map(|(node, pods)| OfNode { node: node.clone(), pods: victims(pods.clone(), Reason::Orphaned) })
        .collect();
    let due: BTreeSet<&Text> = quarantine.due(missing, *now, *quarantine_period).collect();
    Plan {
        terminated: victims(snapshot.ended.clone(), Reason::Terminated),
        excess: excess(*ended_count, *threshold),
        out_of_service: out_of_service.collect(),
        orphaned,
        unscheduled: victims(snapshot.unscheduled.clone(), Reason::Unscheduled),
        quarantine: quarantine.next(missing, snapshot.pods_of_due.keys(), *now),
        quarantined: missing.iter().filter(|node| !due.contains(node)).cloned().collect(),
        quarantine_period: *quarantine_period,
        period: snapshot.period,
        is_partial: due.len() > snapshot.pods_of_due.len(),
        ended_count: *ended_count,
        threshold: *threshold,
    }
}

fn victims(pods: Vec<Arc<CachedPod>>, reason: Reason) -> Vec<Victim> {
    pods.into_iter().map(|pod| Victim { pod, reason }).collect()
}

/// Evicted Pods come first, then older Pods; names decide between Pods of the same age.
pub(crate) fn removal_order(a: &Arc<CachedPod>, b: &Arc<CachedPod>) -> Ordering {
    let is_evicted = |pod: &CachedPod| pod.phase == Phase::Failed && pod.evicted;
    let order = Reverse(is_evicted(a)).cmp(&Reverse(is_evicted(b)));
    let order = order.then_with(|| a.meta.created.cmp(&b.meta.created));
    order.then_with(|| a.meta.name.cmp(&b.meta.name)).then_with(|| a.meta.namespace.as_str().cmp(&b.meta.namespace))
}

impl Plan {
    /// The pause before the next pass.
    pub(crate) fn pause(&self) -> Duration {
        if self.is_partial { AT_ONCE } else { self.period }
    }
}

impl Explain for Plan {
    fn situation(&self) -> String {
        match self.threshold {
            1.. => format!("{} Pods have ended, {} are kept", self.ended_count, self.threshold),
            _ => "all Pods that have ended are kept".to_owned(),
        }
    }

    fn waiting(&self) -> Vec<String> {
        let period = duration::format(self.quarantine_period);
        let missing =
            |node: &Text| format!("Node {node} is missing; its Pods are removed if it is still missing after {period}");
        self.quarantined.iter().map(missing).collect()
    }

    fn requeue_after(&self) -> Option<Duration> {
        Some(self.pause())
    }
}

impl Victim {
    /// Why it is removed, with its namespace: one pass removes Pods of many.
    pub(crate) fn why(&self) -> String {
        let why = match self.reason {
            Reason::Terminated => "more Pods have ended than are kept",
            Reason::OutOfService => "it is terminating, and its node is out of service",
            Reason::Orphaned => "its node does not exist",
            Reason::Unscheduled => "it is terminating and has no node",
        };
        format!("{why} (namespace {})", self.pod.meta.namespace)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, hours: i64, change: Value) -> Arc<CachedPod> {
        let created = jiff::Timestamp::from_second(1_800_000_000 - 3600 * hours).unwrap().to_string();
        let mut json =
            json!({"metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": created}});
        for (section, value) in change.as_object().unwrap() {
            for (field, value) in value.as_object().unwrap() {
                json[section][field] = value.clone();
            }
        }
        Arc::new(serde_json::from_str(&json.to_string()).unwrap())
    }

    fn node(name: &str, ready: &str, taint: &str) -> Arc<Node> {
        let json = json!({"metadata": {"name": name}, "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        Arc::new(serde_json::from_str(&json.to_string()).unwrap())
    }

    fn terminating() -> Value {
        json!({"metadata": {"deletionTimestamp": "2026-11-21T09:00:00Z"}})
    }

    fn names(victims: &[Victim]) -> Vec<String> {
        victims.iter().map(|victim| victim.pod.meta.name.to_string()).collect()
    }

    fn set(names: &[&str]) -> BTreeSet<Text> {
        names.iter().map(|name| Text::new(name)).collect()
    }

    fn empty() -> Snapshot {
        Snapshot {
            ended: Vec::new(),
            ended_count: 0,
            threshold: 0,
            terminating: Vec::new(),
            unscheduled: Vec::new(),
            missing: BTreeSet::new(),
            pods_of_due: BTreeMap::new(),
            quarantine: Quarantine::default(),
            quarantine_period: Duration::from_secs(40),
            period: Duration::from_secs(20),
            now: common::clock::Clock::system().instant(),
        }
    }

    fn ended() -> Vec<Arc<CachedPod>> {
        let over = || json!({"status": {"phase": "Succeeded"}});
        let evicted = |phase: &str| json!({"status": {"phase": phase, "reason": "Evicted"}});
        vec![
            pod("d", 2, over()),
            pod("a", 5, over()),
            pod("c", 1, evicted("Failed")),
            pod("b", 5, over()),
            pod("e", 1, evicted("Succeeded")),
        ]
    }

    /// What a pass takes up of these Pods.
    fn with_ended(mut pods: Vec<Arc<CachedPod>>, threshold: i64) -> Snapshot {
        let ended_count = pods.len();
        pods.sort_by(removal_order);
        pods.truncate(excess(ended_count, threshold));
        Snapshot { ended: pods, ended_count, threshold, ..empty() }
    }

    /// What an explanation says is done.
    fn actions(plan: &Plan) -> Vec<String> {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let forecast = common::sequence::forecast(&mut crate::sequence::garbage::sequence(plan), now);
        forecast.account.map(|account| account.lines()).unwrap_or_default()
    }

    #[test]
    fn the_oldest_of_too_many_ended_pods_are_removed_after_the_evicted_ones() {
        for (threshold, removed) in [
            (4, &["c"][..]),
            (3, &["c", "a"]),
            (2, &["c", "a", "b"]),
            (1, &["c", "a", "b", "d"]),
            (5, &[]),
            (6, &[]),
            (0, &[]),
            (-1, &[]),
            (i64::MIN, &[]),
            (i64::MAX, &[]),
        ] {
            let plan = decide(&with_ended(ended(), threshold));
            assert_eq!(names(&plan.terminated), removed, "{threshold}");
            assert!(plan.terminated.iter().all(|victim| victim.reason == Reason::Terminated));
            assert_eq!(!actions(&plan).is_empty(), !removed.is_empty());
        }
    }

    #[test]
    fn pods_of_the_same_age_and_name_are_removed_in_the_order_of_their_namespaces() {
        let over = || json!({"status": {"phase": "Succeeded"}});
        let mut other = over();
        other["metadata"] = json!({"namespace": "bazaar"});
        let pods = vec![pod("a", 1, over()), pod("a", 1, other)];
        let plan = decide(&with_ended(pods, 1));
        assert_eq!(plan.terminated[0].pod.meta.namespace.as_str(), "bazaar");
    }

    #[test]
    fn only_pods_that_wait_run_or_are_unknown_have_not_ended() {
        for (phase, expected) in [
            ("Pending", false),
            ("Running", false),
            ("Unknown", false),
            ("", true),
            ("Succeeded", true),
            ("Failed", true),
        ] {
            assert_eq!(pod("p", 1, json!({"status": {"phase": phase}})).has_ended(), expected, "{phase:?}");
        }
    }

    #[test]
    fn terminating_pods_are_removed_from_nodes_that_are_out_of_service() {
        let taint = "node.kubernetes.io/out-of-service";
        for (ready, taint, removed) in
            [("Unknown", taint, true), ("False", taint, true), ("True", taint, false), ("Unknown", "other", false)]
        {
            let pods = vec![pod("a", 1, terminating())];
            let plan = decide(&Snapshot { terminating: vec![(node("n", ready, taint), pods)], ..empty() });
            assert_eq!(plan.out_of_service.len(), usize::from(removed), "{ready} {taint}");
            assert_eq!(!actions(&plan).is_empty(), removed);
        }
    }

    #[test]
    fn pods_of_missing_nodes_and_unscheduled_terminating_pods_are_removed() {
        let (missing, origin) = (set(&["gone", "fresh"]), empty().now);
        let quarantine = Quarantine::default().next(&set(&["gone"]), [].iter(), origin);
        let now = origin + Duration::from_secs(40);
        let pods_of_due = BTreeMap::from([(Text::new("gone"), vec![pod("a", 1, json!({}))])]);
        let unscheduled = vec![pod("c", 1, terminating())];
        let plan = decide(&Snapshot { unscheduled, missing, pods_of_due, quarantine, now, ..empty() });
        assert_eq!((plan.orphaned.len(), &*plan.orphaned[0].node), (1, "gone"));
        assert_eq!(names(&plan.orphaned[0].pods), ["a"]);
        assert_eq!(names(&plan.unscheduled), ["c"]);
        assert_eq!(plan.quarantined, ["fresh"]);
        assert_eq!(plan.requeue_after(), Some(Duration::from_secs(20)));
        let waiting = plan.waiting();
        assert!(waiting[0].contains("fresh") && waiting[0].ends_with("after 40s"));
        let deletions = actions(&plan).into_iter().filter(|action| action.starts_with("delete"));
        assert_eq!(deletions.count(), 2);
        let period = plan.quarantine_period;
        assert_eq!(plan.quarantine.due(&set(&["gone"]), now, period).count(), 0, "its quarantine begins anew");
    }

    #[test]
    fn a_pass_that_takes_up_some_of_the_due_nodes_is_followed_at_once() {
        let origin = empty().now;
        let missing = set(&["a", "b"]);
        let quarantine = Quarantine::default().next(&missing, [].iter(), origin);
        let now = origin + Duration::from_secs(40);
        let pods_of_due = BTreeMap::from([(Text::new("a"), Vec::new())]);
        let plan = decide(&Snapshot { missing: missing.clone(), pods_of_due, quarantine, now, ..empty() });
        assert_eq!(plan.requeue_after(), Some(AT_ONCE));
        let due: Vec<&Text> = plan.quarantine.due(&missing, now, plan.quarantine_period).collect();
        assert_eq!(due, [&Text::new("b")]);
    }

    #[test]
    fn a_reason_holds_for_the_live_state_of_the_same_pod_only() {
        let judged = pod("p", 1, json!({"spec": {"nodeName": "n"}}));
        let live = |change: Value| pod("p", 1, change);
        let on_node = || live(json!({"spec": {"nodeName": "n"}}));
        let mut terminating_there = terminating();
        terminating_there["spec"] = json!({"nodeName": "n"});
        let ended = || live(json!({"status": {"phase": "Failed"}}));
        let running = || live(json!({"status": {"phase": "Running"}}));
        for (reason, live, expected) in [
            (Reason::Orphaned, on_node(), true),
            (Reason::Orphaned, running(), false),
            (Reason::OutOfService, live(terminating_there.clone()), true),
            (Reason::OutOfService, on_node(), false),
            (Reason::Unscheduled, live(terminating()), false),
            (Reason::Unscheduled, live(terminating_there), true),
            (Reason::Terminated, ended(), true),
            (Reason::Terminated, running(), false),
        ] {
            assert_eq!(reason.still_holds(&judged, &live), expected, "{reason:?} {live:?}");
            let mut another = CachedPod::clone(&live);
            another.meta.uid = common::meta::Uid::new("another");
            assert!(!reason.still_holds(&judged, &another), "{reason:?}");
        }
    }

    #[test]
    fn an_explanation_lists_a_few_pods_and_counts_the_rest() {
        let unscheduled: Vec<_> = (0..12).map(|n| pod(&format!("p{n}"), 1, terminating())).collect();
        let plan = decide(&Snapshot { unscheduled, ..empty() });
        let actions = actions(&plan);
        assert_eq!((actions.len(), actions[10].as_str()), (11, "... and 14 more"));
        assert_eq!(actions[0], "set the phase Failed of Pod p0: it is terminating and has no node (namespace shop)");
    }
}
