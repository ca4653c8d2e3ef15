//! Nodes, and the Pods on them.

use std::time::Duration;

use common::settings::TunableValue;
use serde_json::{Value, json};

use super::{
    Operation::{Delete, Status, Update},
    Pace, Situation, meet,
    place::{Place, stray},
};

/// No node is judged by its Lease in these hours: nobody renews any.
const PATIENT: &[(&str, TunableValue)] =
    &[("node-monitor-grace-period", TunableValue::Duration(Duration::from_hours(10)))];
/// Pod garbage collection begins a pass every 20 s.
const PASSES: Pace = Pace::Every(Duration::from_secs(20));
/// The node monitor begins a pass every 5 s.
const ROUNDS: Pace = Pace::Every(Duration::from_secs(5));
/// The node that Pods have to leave.
const TAINTED: &str = "tainted";
/// The node that says that it is not ready.
const UNREADY: &str = "unready";

fn node(name: &str, taints: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints}})
}

fn conditions(of: &[(&str, &str)]) -> Value {
    let time = "1970-01-01T00:00:00Z";
    let condition = |(kind, status): &(&str, &str)| json!({"type": kind, "status": status, "lastHeartbeatTime": time, "lastTransitionTime": time});
    json!({"conditions": of.iter().map(condition).collect::<Vec<_>>()})
}

/// A Pod on a node, with tolerations.
fn pod_on(node: &str, tolerations: Value) -> Value {
    let mut pod = stray("web");
    pod["spec"]["nodeName"] = json!(node);
    pod["spec"]["tolerations"] = tolerations;
    pod
}

/// A node that has run out of memory.
async fn pressed(place: Place) {
    place.create(node(&place.name, json!([]))).await;
    place.status("nodes", &place.name, conditions(&[("Ready", "True"), ("MemoryPressure", "True")])).await;
}

/// A Pod that is ready, on a node that is not.
async fn ready_on_unready(place: Place) {
    place.create(pod_on(UNREADY, json!([{"operator": "Exists"}]))).await;
    place.status("pods", "web", json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})).await;
}

#[test]
fn pods_and_nodes() {
    let situation = Situation::new("", Delete, "pods");
    meet(
        node_lifecycle_controller::LOOPS,
        PATIENT,
        |place| {
            Box::pin(async move {
                let taint = json!([{"key": "sim.example.com/leave", "effect": "NoExecute"}]);
                place.create(node(TAINTED, taint)).await;
                place.status("nodes", TAINTED, conditions(&[("Ready", "True")])).await;
                place.create(node(UNREADY, json!([]))).await;
                place.status("nodes", UNREADY, conditions(&[("Ready", "False")])).await;
            })
        },
        &[
            Situation {
                name: "pressure",
                on_conflict: 5,
                events: 0,
                operation: Update,
                resource: "nodes",
                then: |place| Box::pin(pressed(place)),
                ..situation
            },
            Situation {
                name: "evict",
                writes: 5,
                then: |place| Box::pin(async move { drop(place.create(pod_on(TAINTED, json!([]))).await) }),
                ..situation
            },
            Situation {
                name: "evict-condition",
                writes: 5,
                operation: Status,
                then: |place| Box::pin(async move { drop(place.create(pod_on(TAINTED, json!([]))).await) }),
                ..situation
            },
            Situation {
                name: "orphan",
                on_conflict: 3,
                events: 0,
                pace: PASSES,
                then: |place| {
                    Box::pin(
                        async move { drop(place.create(pod_on("no-node", json!([{"operator": "Exists"}]))).await) },
                    )
                },
                ..situation
            },
            Situation {
                name: "orphan-phase",
                on_conflict: 3,
                events: 0,
                operation: Status,
                pace: PASSES,
                then: |place| {
                    Box::pin(
                        async move { drop(place.create(pod_on("no-node", json!([{"operator": "Exists"}]))).await) },
                    )
                },
                ..situation
            },
            Situation {
                name: "unready",
                on_conflict: 5,
                events: 0,
                operation: Status,
                then: |place| Box::pin(ready_on_unready(place)),
                ..situation
            },
        ],
    );
}

/// Nodes that renew their Leases, so that those that do not are the minority.
const WELL: usize = 20;

/// Makes nodes that stay well for as long as the test runs.
async fn well(place: Place) {
    for number in 0..WELL {
        let name = format!("well-{number}");
        place.create(node(&name, json!([]))).await;
        place.status("nodes", &name, conditions(&[("Ready", "True")])).await;
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40}});
        let leases = place.at("kube-node-lease");
        leases.create(lease).await;
        tokio::spawn(async move {
            loop {
                leases.renew(&name).await;
            }
        });
    }
}

#[test]
fn silent_nodes() {
    let situation = Situation {
        pace: ROUNDS,
        // A pass tries a node five times. It reads the Lease first, and the node before each try.
        on_conflict: 5,
        reads: 1 + 5,
        events: 0,
        then: |place| {
            Box::pin(async move {
                place.create(node(&place.name, json!([]))).await;
                place.status("nodes", &place.name, conditions(&[("Ready", "True")])).await;
            })
        },
        ..Situation::new("", Status, "nodes")
    };
    meet(
        node_lifecycle_controller::LOOPS,
        &[],
        |place| Box::pin(well(place)),
        &[Situation { name: "silent", ..situation }],
    );
}
