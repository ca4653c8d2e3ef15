//! What a Node waits for, and when its Pods are evicted.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

use super::{
    pod,
    scope::{Scope, age, name},
    storage::list,
    tree::{Branch, Weight, with_thousands},
};
use crate::facts::to_one_line;

/// Returns the branch of a Node.
pub(super) async fn branch(scope: &Scope, object: &Node) -> Branch {
    let called = name(&object.metadata);
    let mut branch = Branch::new("Node", called);
    let conditions = object.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    match ready {
        Some(ready) if ready.status == "True" => branch.say("kubelet", "Ready"),
        Some(ready) => {
            let since = ready
                .last_transition_time
                .as_ref()
                .map(|time| format!(" for {}", scope.since(time.0)))
                .unwrap_or_default();
            let message = to_one_line(ready.message.as_deref().unwrap_or_default());
            branch.say("status", format!("not ready{since}: {message}"));
            if ready.status == "Unknown" {
                branch.blame(
                    Weight::Fails,
                    format!("the kubelet of node {called} does not report any more"),
                    ["see whether the machine runs, and its kubelet: systemctl status kubelet".to_owned()],
                );
            } else {
                branch.blame(
                    Weight::Fails,
                    format!("the kubelet of node {called} reports that it is not ready: {message}"),
                    ["see the log of the kubelet: journalctl -u kubelet".to_owned()],
                );
            }
        }
        None => {
            branch.say("status", "its kubelet has never reported");
            branch.blame(
                Weight::Fails,
                format!("the kubelet of node {called} has never reported"),
                ["see the log of the kubelet: journalctl -u kubelet".to_owned()],
            );
        }
    }
    for condition in conditions.iter().filter(|condition| condition.type_ != "Ready" && condition.status == "True") {
        let message = to_one_line(condition.message.as_deref().unwrap_or_default());
        branch.say("kubelet", format!("{}: {message}", condition.type_));
        if condition.type_.ends_with("Pressure") {
            branch.blame(
                Weight::Fails,
                format!("node {called} has {}: {message}", condition.type_),
                ["free resources of the node, or add a node; the kubelet evicts Pods".to_owned()],
            );
        }
    }
    let nodes = scope.list::<Node>().await;
    let is_unready = |node: &Node| {
        node.status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten())
            .any(|condition| condition.type_ == "Ready" && condition.status != "True")
    };
    let unready = nodes.iter().filter(|node| is_unready(node)).count();
    if unready == nodes.len() && unready > 1 {
        branch.say("list", format!("none of the {unready} nodes is ready, so the node controller evicts nothing"));
        branch.blame(
            Weight::Blocks,
            "no node of the cluster is ready: the fault lies in the network or in the control plane",
            ["see whether the kubelets reach the API server; no Pod is evicted meanwhile".to_owned()],
        );
    }
    let taints: Vec<Taint> = object.spec.iter().flat_map(|spec| spec.taints.clone().unwrap_or_default()).collect();
    for taint in &taints {
        let since = taint.time_added.as_ref().map(|time| format!(" for {}", scope.since(time.0))).unwrap_or_default();
        branch.say("spec", format!("taint {}:{}{since}", taint.key, taint.effect));
    }
    if object.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        branch.say("spec", "cordoned: no new Pods");
        branch.blame(Weight::Rests, format!("node {called} is cordoned"), [format!("kubectl uncordon {called}")]);
    }
    let pods = scope.reader.list::<Pod>(None, &format!("spec.nodeName={called}")).await;
    evictions(scope, &taints, &pods, &mut branch);
    branch
}

/// Adds which Pods are evicted when, because of taints with the effect `NoExecute`.
fn evictions(scope: &Scope, taints: &[Taint], pods: &[Pod], branch: &mut Branch) {
    let evicting: Vec<&Taint> = taints.iter().filter(|taint| taint.effect == "NoExecute").collect();
    let running: Vec<&Pod> = pods.iter().filter(|pod| !matches!(pod::phase(pod), "Succeeded" | "Failed")).collect();
    branch.say("list", format!("{} Pods", with_thousands(running.len())));
    if evicting.is_empty() {
        return;
    }
    let mut by_time: BTreeMap<Option<Timestamp>, Vec<String>> = BTreeMap::new();
    for pod in running {
        let tolerations = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
        let tolerations: Vec<_> = tolerations.collect();
        let mut due: Option<Timestamp> = None;
        for taint in &evicting {
            let tolerates = |toleration: &&&Toleration| {
                let is_effect =
                    toleration.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == taint.effect);
                let exists = toleration.operator.as_deref() == Some("Exists");
                let is_key = toleration.key.as_deref().is_none_or(str::is_empty) && exists
                    || toleration.key.as_deref() == Some(&taint.key);
                is_effect
                    && is_key
                    && (exists
                        || toleration.value.as_deref().unwrap_or_default()
                            == taint.value.as_deref().unwrap_or_default())
            };
            let added = taint.time_added.as_ref().map_or(scope.now, |time| time.0);
            let matching: Vec<_> = tolerations.iter().filter(tolerates).collect();
            let end = match matching.iter().filter_map(|toleration| toleration.toleration_seconds).min() {
                _ if matching.is_empty() => Some(added),
                Some(seconds) => added.checked_add(SignedDuration::from_secs(seconds.max(0))).ok(),
                None => None,
            };
            due = match (due, end) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        let called = format!("{}/{}", pod.metadata.namespace.as_deref().unwrap_or_default(), name(&pod.metadata));
        by_time.entry(due).or_default().push(called);
    }
    for (due, names) in by_time {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = match due {
            None => format!("stays: {}", list(&names)),
            Some(due) if due > scope.now => {
                format!("evicted in {}: {}", age(due.duration_since(scope.now)), list(&names))
            }
            Some(due) => format!("to be evicted since {}: {}", age(scope.now.duration_since(due)), list(&names)),
        };
        branch.say("taint eviction controller", text);
    }
}
