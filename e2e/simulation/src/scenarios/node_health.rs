//! Nodes that renew their Leases, fall silent, report that they are not ready and come back, under the loops that judge them and
//! act on their Pods.

use std::time::Duration;

use node_lifecycle_controller::DEFINITION;
use serde_json::{Value, json};

use super::{
    node_health_invariants::{INVARIANTS, OF_ZONES, PROMISES},
    node_lifecycle_invariants::OF_EVICTION,
};
use crate::{
    json::name,
    scenario::{Interference, Scenario, Step, Suite, What, after, settled, tainted},
    world::World,
};

/// The health of nodes, with taint eviction and Pod garbage collection. Each node has a zone of its own.
pub(super) const SUITE: Suite = Suite {
    name: "node-health",
    programs: &[&DEFINITION],
    tunes: &[],
    gates: &[],
    scenarios,
    invariants: &[INVARIANTS, OF_ZONES, OF_EVICTION],
    promises: &[PROMISES],
    interferences: INTERFERENCES,
};

/// What operators and nodes do at any moment.
pub(super) const INTERFERENCES: &[Interference] = &[
    Interference { name: "blink", act: blink },
    Interference { name: "unready", act: unready },
    Interference { name: "cordon", act: cordon },
];

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// How long the controller is paused, and the API server is away.
const AWAY: Duration = Duration::from_mins(10);

/// How long the API server is away that returns a moment after five minutes are over of which 200 seconds had passed.
const UNTIL_DUE: Duration = Duration::from_secs(103);

pub(super) fn ready(node: &str, value: bool) -> What {
    What::Condition(node.to_owned(), "Ready", value)
}

fn pod(pod: &str, node: &str, tolerations: &Value) -> Step {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod},
        "spec": {"nodeName": node, "tolerations": tolerations, "containers": [{"name": "c", "image": "img:1"}]}});
    after(0.1, What::Create(pod))
}

/// Pods on a node that tolerate its loss not at all, for a minute and for ever.
pub(super) fn pods(node: &str) -> Vec<Step> {
    let for_seconds = |seconds: u32| {
        let one = |key| json!({"key": key, "effect": "NoExecute", "operator": "Exists", "tolerationSeconds": seconds});
        json!([one(UNREACHABLE), one(NOT_READY)])
    };
    vec![
        pod(&format!("{node}-never"), node, &for_seconds(0)),
        pod(&format!("{node}-while"), node, &for_seconds(60)),
        pod(&format!("{node}-ever"), node, &json!([{"operator": "Exists"}])),
    ]
}

/// A Pod on a node that says nothing of taints: admission lets it tolerate the loss of the node for five minutes.
pub(super) fn usual_pod(node: &str) -> Step {
    pod(&format!("{node}-usual"), node, &json!([]))
}

pub(super) fn silence(node: &str) -> What {
    What::Silence(node.to_owned())
}

pub(super) fn restore(node: &str) -> What {
    What::Restore(node.to_owned())
}

/// A node by chance, if it is heard of.
fn living(world: &World, luck: u64) -> Option<String> {
    let names: Vec<&str> = world.list("nodes").map(|node| name(node)).collect();
    let node = names.get(usize::try_from(luck).unwrap_or(0).checked_rem(names.len())?)?;
    (world.silence(node, world.now()) < Duration::from_secs(15)).then(|| (*node).to_owned())
}

/// A node says nothing for a part of its grace period.
fn blink(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(node) = living(world, luck) else { return Vec::new() };
    vec![(Duration::ZERO, silence(&node)), (Duration::from_secs(5 + luck % 30), restore(&node))]
}

/// A node reports for a while that it is not ready.
fn unready(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(node) = living(world, luck) else { return Vec::new() };
    let ready = |value| What::Condition(node.clone(), "Ready", value);
    vec![(Duration::ZERO, ready(false)), (Duration::from_secs(1 + luck % 90), ready(true))]
}

/// An operator cordons a node for a while.
fn cordon(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(node) = living(world, luck) else { return Vec::new() };
    let unschedulable = |value| What::merge("nodes", &node, json!({"spec": {"unschedulable": value}}));
    vec![(Duration::ZERO, unschedulable(json!(true))), (Duration::from_secs(1 + luck % 90), unschedulable(Value::Null))]
}

// A fault may keep a Pod on its node for a minute and a half longer, or let another process act than the one that is paused.
// Where what a Pod does then would depend on it, the steps keep that distance from the end of what it tolerates.
fn scenarios() -> Vec<Scenario> {
    let all = ["node-0", "node-1", "node-2"];
    let with_pods = |steps: Vec<Step>| all.into_iter().flat_map(pods).chain(steps).collect::<Vec<_>>();
    let with_pods_of =
        |nodes: &[&str], steps: Vec<Step>| nodes.iter().flat_map(|node| pods(node)).chain(steps).collect::<Vec<_>>();
    vec![
        Scenario {
            name: "one-node",
            about: "a node falls silent, its Pods leave as they tolerate, and it comes back",
            steps: with_pods(vec![after(5.0, silence("node-1")), settled(restore("node-1"))]),
        },
        Scenario {
            name: "one-node-for-good",
            about: "a node falls silent and stays so",
            steps: with_pods(vec![usual_pod("node-1"), after(5.0, silence("node-1"))]),
        },
        Scenario {
            name: "untainted-in-time",
            about: "a node comes back just before its Pods have to leave, and falls silent again",
            steps: with_pods_of(
                &["node-1"],
                vec![
                    usual_pod("node-1"),
                    after(5.0, silence("node-1")),
                    tainted("node-1", 290.0, restore("node-1")),
                    settled(silence("node-1")),
                ],
            ),
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
        Scenario {
            name: "paused",
            about: "the controller is paused while a node is silent, which is back when it goes on; another one is lost then",
            // Its Pod stays also if it is another process that is paused, and this one finds the node silent.
            steps: with_pods_of(
                &["node-2"],
                vec![
                    usual_pod("node-1"),
                    after(5.0, silence("node-1")),
                    after(20.0, What::Pause(AWAY)),
                    after(200.0, restore("node-1")),
                    after(700.0, silence("node-2")),
                ],
            ),
        },
        Scenario {
            name: "paused-after-taint",
            about: "the controller is paused while Pods wait for their end on a tainted node, which is back when it goes on",
            steps: with_pods_of(
                &["node-1"],
                vec![
                    usual_pod("node-1"),
                    after(5.0, silence("node-1")),
                    tainted("node-1", 200.0, What::Pause(AWAY)),
                    after(50.0, restore("node-1")),
                    after(900.0, silence("node-1")),
                ],
            ),
        },
        Scenario {
            name: "outage",
            about: "the API server is away while a node is silent, which is lost when the server is back",
            steps: with_pods_of(
                &["node-1", "node-2"],
                vec![
                    after(5.0, silence("node-1")),
                    after(20.0, What::Outage(AWAY)),
                    // A process that takes over begins the tolerated minute anew, and may do so after each of several faults.
                    tainted("node-1", 900.0, restore("node-1")),
                    after(60.0, silence("node-2")),
                ],
            ),
        },
        Scenario {
            name: "renews-only",
            about: "a lost node renews its Lease before its Pods have to leave, and reports its status much later",
            steps: vec![
                usual_pod("node-1"),
                after(5.0, silence("node-1")),
                tainted("node-1", 60.0, What::RenewOnly("node-1".to_owned())),
                after(1200.0, restore("node-1")),
            ],
        },
        Scenario {
            name: "outage-after-taint",
            about: "the API server is away when the Pods of a lost node have to leave, and the node reports soon after its return",
            steps: vec![
                usual_pod("node-1"),
                after(5.0, silence("node-1")),
                tainted("node-1", 200.0, What::Outage(UNTIL_DUE)),
                after(UNTIL_DUE.as_secs_f64() + 10.0, restore("node-1")),
            ],
        },
        Scenario {
            name: "not-ready",
            about: "a node reports that it is not ready, its Pods leave as they tolerate, and it is ready again",
            steps: with_pods_of(&["node-1"], vec![after(5.0, ready("node-1", false)), settled(ready("node-1", true))]),
        },
        Scenario {
            name: "not-ready-and-silent",
            about: "a node reports that it is not ready, falls silent, and comes back ready",
            steps: vec![
                usual_pod("node-1"),
                after(5.0, ready("node-1", false)),
                tainted("node-1", 20.0, silence("node-1")),
                after(120.0, ready("node-1", true)),
                after(1.0, restore("node-1")),
            ],
        },
    ]
}
