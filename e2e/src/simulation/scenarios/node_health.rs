//! Nodes that renew their Leases, fall silent and come back, under the loops that judge them and act on their Pods.
//!
//! Whether a node was cut off is written on it as an annotation, so that each write of a controller can be held against it.

use std::time::Duration;

use common::clock::Instant;
use node_lifecycle_controller::DEFINITION;
use serde_json::{Value, json};

use crate::simulation::{
    json::{at, condition, is_deleting, name, text},
    scenario::{Invariant, Promise, SILENT, Scenario, Step, Suite, What, after, settled},
    world::{Logged, World},
};

/// The health of nodes, with taint eviction and Pod garbage collection.
pub(super) const SUITE: Suite = Suite {
    name: "node-health",
    programs: &[&DEFINITION],
    tunes: &[],
    gates: &[],
    scenarios,
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[],
};

const CONTROLLER: &str = "node-lifecycle-controller";
const NODES: &str = "nodes";
const PODS: &str = "pods";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The grace period, less the time that may have passed since the last renewal when a node was cut off, and a moment.
const LEAST_SILENCE: Duration = Duration::from_secs(38);

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant { name: "living-nodes-are-not-judged", spec: "node-lifecycle 16.6", check: living_nodes_are_not_judged },
    Invariant {
        name: "living-nodes-are-not-tainted",
        spec: "node-lifecycle 16.6",
        check: living_nodes_are_not_tainted,
    },
    Invariant { name: "pods-stay-on-living-nodes", spec: "node-lifecycle 16.9", check: pods_stay_on_living_nodes },
    Invariant { name: "taints-of-others-stay", spec: "node-lifecycle 16.2", check: taints_of_others_stay },
    Invariant { name: "one-cause-at-a-time", spec: "node-lifecycle 16.3", check: one_cause_at_a_time },
];

pub(super) const PROMISES: &[Promise] = &[
    Promise { name: "silent-nodes-are-marked", spec: "node-lifecycle 5, 6", check: silent_nodes_are_marked },
    Promise { name: "living-nodes-are-clean", spec: "node-lifecycle 16.7", check: living_nodes_are_clean },
    Promise { name: "pods-leave-silent-nodes", spec: "node-lifecycle 9", check: pods_leave_silent_nodes },
];

fn pod(pod: &str, node: &str, tolerations: Value) -> Step {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod},
        "spec": {"nodeName": node, "tolerations": tolerations, "containers": [{"name": "c", "image": "img:1"}]}});
    after(0.1, What::Create(pod))
}

/// Pods on a node that tolerate its loss not at all, for a minute and for ever.
fn pods(node: &str) -> Vec<Step> {
    let for_seconds = |seconds: u32| {
        let one = |key| json!({"key": key, "effect": "NoExecute", "operator": "Exists", "tolerationSeconds": seconds});
        json!([one(UNREACHABLE), one(NOT_READY)])
    };
    vec![
        pod(&format!("{node}-never"), node, for_seconds(0)),
        pod(&format!("{node}-while"), node, for_seconds(60)),
        pod(&format!("{node}-ever"), node, json!([{"operator": "Exists"}])),
    ]
}

fn silence(node: &str) -> What {
    What::Silence(node.to_owned())
}

fn restore(node: &str) -> What {
    What::Restore(node.to_owned())
}

fn scenarios() -> Vec<Scenario> {
    let all = ["node-0", "node-1", "node-2"];
    let with_pods = |steps: Vec<Step>| all.into_iter().flat_map(pods).chain(steps).collect::<Vec<_>>();
    vec![
        Scenario {
            name: "one-node",
            about: "a node falls silent, its Pods leave as they tolerate, and it comes back",
            steps: with_pods(vec![after(5.0, silence("node-1")), settled(restore("node-1"))]),
        },
        Scenario {
            name: "one-node-for-good",
            about: "a node falls silent and stays so",
            steps: with_pods(vec![after(5.0, silence("node-1"))]),
        },
        Scenario {
            name: "every-node",
            about: "every node falls silent at once and comes back: no Pod leaves",
            steps: with_pods(vec![
                after(5.0, silence("node-0")),
                after(0.0, silence("node-1")),
                after(0.0, silence("node-2")),
                settled(restore("node-0")),
                after(0.0, restore("node-1")),
                after(0.0, restore("node-2")),
            ]),
        },
        Scenario {
            name: "late-heartbeats",
            about: "nodes that are silent for most of a grace period again and again",
            steps: with_pods(vec![
                after(5.0, silence("node-0")),
                after(30.0, restore("node-0")),
                after(11.0, silence("node-0")),
                after(30.0, restore("node-0")),
                after(11.0, silence("node-1")),
                after(30.0, restore("node-1")),
            ]),
        },
    ]
}

fn is_silent(node: &Value) -> bool {
    at(node, "/metadata/annotations").is_some_and(|annotations| annotations.get(SILENT).is_some())
}

/// How long a node has been cut off; none if it is not.
fn silent_for(world: &World, node: &str) -> Option<Duration> {
    let mut since: Option<Instant> = None;
    for logged in world.log().iter().filter(|logged| logged.resource() == NODES && logged.write.name == node) {
        match logged.after() {
            Some(state) if is_silent(&state) => _ = since.get_or_insert(logged.at),
            _ => since = None,
        }
    }
    since.map(|since| world.now().saturating_duration_since(since))
}

/// Whether a node has been silent for long enough to be judged, or was until a moment ago: what is on its way still arrives.
fn may_be_judged(world: &World, node: &str) -> bool {
    match silent_for(world, node) {
        Some(time) => time >= LEAST_SILENCE,
        None => world.recently(NODES, "", node).any(|state| is_silent(state)),
    }
}

fn taints(node: &Value) -> Vec<Value> {
    at(node, "/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn has_taint(node: &Value, key: &str, effect: &str) -> bool {
    taints(node).iter().any(|taint| taint["key"] == key && taint["effect"] == effect)
}

fn is_ours(taint: &Value) -> bool {
    taint["key"].as_str().is_some_and(|key| key.starts_with("node.kubernetes.io/"))
}

/// The node before and after a write of the controller.
fn changed_node(logged: &Logged) -> Option<(std::sync::Arc<Value>, std::sync::Arc<Value>)> {
    let is_its = logged.by(CONTROLLER) && logged.resource() == NODES;
    is_its.then(|| logged.before().zip(logged.after())).flatten()
}

fn living_nodes_are_not_judged(world: &World, logged: &Logged) -> Result<(), String> {
    let Some((before, after)) = changed_node(logged) else { return Ok(()) };
    let ready = |node: &Value| condition(node, "Ready", "status").to_owned();
    if ready(&before) == ready(&after) || may_be_judged(world, name(&after)) {
        return Ok(());
    }
    Err(format!("{} becomes {} and was cut off for {:?}", name(&after), ready(&after), silent_for(world, name(&after))))
}

fn living_nodes_are_not_tainted(world: &World, logged: &Logged) -> Result<(), String> {
    let Some((before, after)) = changed_node(logged) else { return Ok(()) };
    let evicts = |node: &Value| [UNREACHABLE, NOT_READY].iter().any(|key| has_taint(node, key, "NoExecute"));
    if evicts(&before) || !evicts(&after) || may_be_judged(world, name(&after)) {
        return Ok(());
    }
    Err(format!("{} is tainted and was cut off for {:?}", name(&after), silent_for(world, name(&after))))
}

fn pods_stay_on_living_nodes(world: &World, logged: &Logged) -> Result<(), String> {
    let is_eviction = logged.by(CONTROLLER) && logged.resource() == PODS && logged.deletes();
    let Some(pod) = logged.before().filter(|_| is_eviction) else { return Ok(()) };
    let node = text(&pod, "/spec/nodeName");
    if may_be_judged(world, node) { Ok(()) } else { Err(format!("{} is evicted from {node}, which lives", name(&pod))) }
}

fn taints_of_others_stay(_: &World, logged: &Logged) -> Result<(), String> {
    let Some((before, after)) = changed_node(logged) else { return Ok(()) };
    let others = |node: &Value| taints(node).into_iter().filter(|taint| !is_ours(taint)).collect::<Vec<_>>();
    if others(&before) == others(&after) { Ok(()) } else { Err(format!("a taint of {} is lost", name(&after))) }
}

fn one_cause_at_a_time(_: &World, logged: &Logged) -> Result<(), String> {
    let Some((_, after)) = changed_node(logged) else { return Ok(()) };
    let has_both = has_taint(&after, UNREACHABLE, "NoExecute") && has_taint(&after, NOT_READY, "NoExecute");
    if has_both { Err(format!("{} has both causes", name(&after))) } else { Ok(()) }
}

/// Whether no node is left that renews its Lease: then nothing is tainted with `NoExecute`.
fn all_are_silent(world: &World) -> bool {
    world.list(NODES).all(|node| is_silent(node))
}

fn silent_nodes_are_marked(world: &World) -> Result<(), String> {
    let evicts = !all_are_silent(world);
    for node in world.list(NODES).filter(|node| is_silent(node)) {
        let is_marked = condition(node, "Ready", "status") == "Unknown" && has_taint(node, UNREACHABLE, "NoSchedule");
        if !is_marked || has_taint(node, UNREACHABLE, "NoExecute") != evicts {
            return Err(format!("{} is silent, with {:?}", name(node), taints(node)));
        }
    }
    Ok(())
}

fn living_nodes_are_clean(world: &World) -> Result<(), String> {
    for node in world.list(NODES).filter(|node| !is_silent(node)) {
        if condition(node, "Ready", "status") != "True" || taints(node).iter().any(is_ours) {
            return Err(format!("{} lives, with {:?}", name(node), taints(node)));
        }
    }
    Ok(())
}

fn pods_leave_silent_nodes(world: &World) -> Result<(), String> {
    if all_are_silent(world) {
        return Ok(());
    }
    let silent: Vec<&str> = world.list(NODES).filter(|node| is_silent(node)).map(|node| name(node)).collect();
    let stays = |pod: &&std::sync::Arc<Value>| {
        silent.contains(&text(pod, "/spec/nodeName")) && !name(pod).ends_with("-ever") && !is_deleting(pod)
    };
    world.list(PODS).find(stays).map_or(Ok(()), |pod| Err(format!("{} stays", name(pod))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::impostor::{Act, violated};

    fn unknown() -> What {
        let conditions = json!([{"type": "Ready", "status": "Unknown"}]);
        What::MergeStatus(NODES.to_owned(), "node-1".to_owned(), json!({"status": {"conditions": conditions}}))
    }

    fn taint(keys: &[&str]) -> What {
        let taints: Vec<Value> = keys.iter().map(|key| json!({"key": key, "effect": "NoExecute"})).collect();
        What::merge(NODES, "node-1", json!({"spec": {"taints": taints}}))
    }

    fn impostor(what: fn() -> What) -> Act {
        Act::impostor(CONTROLLER, move |_| what())
    }

    #[test]
    fn a_living_node_that_is_judged_or_tainted_is_noticed() {
        assert_eq!(violated(&SUITE, &[]).unwrap(), Vec::<&str>::new());
        let judged = violated(&SUITE, &[impostor(unknown)]).unwrap();
        assert!(
            judged.contains(&"living-nodes-are-not-judged") && judged.contains(&"living-nodes-are-clean"),
            "{judged:?}"
        );
        let tainted = violated(&SUITE, &[impostor(|| taint(&[UNREACHABLE]))]).unwrap();
        assert!(tainted.contains(&"living-nodes-are-not-tainted"), "{tainted:?}");
        let both = violated(&SUITE, &[impostor(|| taint(&[UNREACHABLE, NOT_READY]))]).unwrap();
        assert!(both.contains(&"one-cause-at-a-time"), "{both:?}");
    }

    #[test]
    fn a_judgement_that_comes_too_soon_is_noticed_and_one_in_time_is_not() {
        let silence = || Act::user(|_| silence("node-1"));
        let soon = violated(&SUITE, &[silence(), impostor(unknown)]).unwrap();
        assert!(soon.contains(&"living-nodes-are-not-judged"), "{soon:?}");
        let other = || Act::user(|_| What::merge(NODES, "node-0", json!({"metadata": {"labels": {"a": "b"}}})));
        let in_time = violated(&SUITE, &[silence(), other(), impostor(unknown)]).unwrap();
        assert!(!in_time.contains(&"living-nodes-are-not-judged"), "{in_time:?}");
    }

    #[test]
    fn a_lost_taint_and_a_pod_that_is_evicted_from_a_living_node_are_noticed() {
        let mark = Act::user(|_| taint(&["example.com/x"]));
        let lost = violated(&SUITE, &[mark, impostor(|| taint(&[]))]).unwrap();
        assert_eq!(lost, ["taints-of-others-stay"]);
        let create = || pods("node-1").into_iter().map(|step| Act::user(move |_| step.what.clone()));
        let mut acts: Vec<Act> = create().collect();
        acts.push(impostor(|| What::delete_now(PODS, "node-1-while")));
        assert_eq!(violated(&SUITE, &acts).unwrap(), ["pods-stay-on-living-nodes"]);
    }

    #[test]
    fn a_controller_that_does_nothing_breaks_the_promises_about_silent_nodes() {
        let mut acts: Vec<Act> = pods("node-1").into_iter().map(|step| Act::user(move |_| step.what.clone())).collect();
        acts.push(Act::user(|_| silence("node-1")));
        assert_eq!(violated(&SUITE, &acts).unwrap(), ["pods-leave-silent-nodes", "silent-nodes-are-marked"]);
    }
}
