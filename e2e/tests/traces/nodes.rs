//! A run of the node lifecycle controllers: a node falls silent and comes back, another is tainted and cordoned by a user, and
//! a third reports that it is not ready.
//!
//! The recording has no kubelet that ends Pods in its own way here: what is compared is what the controllers write.

use std::{collections::BTreeSet, time::Duration};

use common::settings::{OperatorSettings, TunableValue};
use e2e::sandbox::{ADMIN, Sandbox};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Step, recorded, recording,
    signature::{EventText, Signature},
};
use crate::world::{World, name};

const NS: &str = "node-down";
/// The node that falls silent.
const SILENT: &str = "node-2";
/// What users and kubelets did to nodes, by the versions that this made.
const BY_OTHERS: [&str; 4] = ["417", "454", "490", "502"];

/// What the nodes and the Pods of a run went through because of controllers, and the Events about Pods.
fn story(steps: &[Step]) -> Signature {
    let mut story = Signature::default();
    let mut events = Vec::new();
    for step in steps {
        let (object, name) = (&step.object, step.name());
        match step.resource.as_str() {
            "nodes" if !step.created => {
                let taints = list(&object["spec"]["taints"], &["key", "value", "effect"]);
                let conditions = list(&object["status"]["conditions"], &["type", "status", "reason", "message"]);
                story.push(format!("{name} is"), format!("{taints:?} {conditions:?}"));
            }
            "pods" if !step.created && !step.removed && object["metadata"]["deletionGracePeriodSeconds"] != 0 => {
                let of = |kind: &str| {
                    let all = object["status"]["conditions"].as_array();
                    all.and_then(|all| all.iter().find(|c| c["type"] == kind)).cloned().unwrap_or_default()
                };
                let (ready, target) = (of("Ready"), of("DisruptionTarget"));
                if !ready.is_null() {
                    let target = list(&json!([target]), &["status", "reason", "message"]);
                    let state = format!("Ready {}, target {target:?}, {}", ready["status"], step.is_terminating());
                    story.push(format!("{name} is"), state);
                }
            }
            "events" => {
                let EventText { about, note, component } = EventText::of(object);
                if !matches!(component, "node-controller" | "taint-eviction-controller") {
                    continue;
                }
                let about = list(&json!([about]), &["apiVersion", "kind", "namespace", "name"]);
                let text = format!("{} {} {component}: {note:?}", object["type"], object["reason"]);
                events.push(format!("{about:?} {text}"));
            }
            _ => {}
        }
    }
    story.tally("events", events);
    story
}

/// These fields of all entries of a list.
fn list(entries: &Value, fields: &[&str]) -> Vec<String> {
    let entry = |entry: &Value| fields.iter().filter_map(|f| entry[*f].as_str()).collect::<Vec<_>>().join(" ");
    entries.as_array().into_iter().flatten().map(entry).collect()
}

/// A cluster without kubelets, in which the test does what others did in the recording.
struct Replay {
    world: World,
    began: Timestamp,
}

impl Replay {
    async fn put_status(&self, resource: &str, object: &Value) {
        let mut status = object["status"].clone();
        // What only controllers write is theirs to write.
        if let Some(all) = status["conditions"].as_array_mut() {
            all.retain(|condition| condition["type"] != "DisruptionTarget");
        }
        let (namespace, status) = ((resource == "pods").then_some(NS), json!({ "status": status }));
        self.world.sandbox.merge(resource, namespace, name(object), Some("status"), status).await.unwrap();
    }

    async fn put_spec(&self, node: &str, spec: Value) {
        self.world.sandbox.merge("nodes", None, node, None, json!({ "spec": spec })).await.unwrap();
    }

    /// A node as it was before anything happened.
    async fn node(&self, index: usize) {
        let name = format!("node-{index}");
        let labels = json!({"beta.kubernetes.io/os": "linux", "kubernetes.io/os": "linux",
            "topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": format!("z{}", index % 3)});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok",
                "lastHeartbeatTime": "2026-11-21T10:23:05Z", "lastTransitionTime": "2026-11-21T10:23:05Z"}]}});
        self.world.sandbox.create(node).await.unwrap();
        self.put_spec(&name, json!({"taints": null})).await;
    }

    /// The heartbeats of all nodes but the silent one, until a time of the recording.
    async fn until(&self, second: f64) {
        let clock = &self.world.clock;
        loop {
            let passed = clock.now().duration_since(self.began).as_secs_f64();
            if passed >= second {
                return;
            }
            let is_silent = (10.0..48.0).contains(&passed);
            for node in (0..6).map(|index| format!("node-{index}")).filter(|node| node != SILENT || !is_silent) {
                let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": node, "namespace": "kube-node-lease"},
                    "spec": {"renewTime": clock.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()}});
                self.world.sandbox.apply(lease).await.unwrap();
            }
            self.world.pass((second - passed).min(1.0)).await;
        }
    }

    /// A Pod as its kubelet left it, on its node.
    async fn pod(&self, ready: &Value) {
        let spec = &ready["spec"];
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": ready["metadata"]["name"]},
            "spec": {"nodeName": spec["nodeName"], "tolerations": spec["tolerations"], "containers": spec["containers"]}});
        self.world.create(pod).await;
        // A kubelet needs a moment to start it.
        self.world.pass(0.01).await;
        self.put_status("pods", ready).await;
    }

    async fn change_node(&self, state: &Value) {
        let before = self.world.sandbox.get("nodes", None, name(state)).await.unwrap();
        if before["status"]["conditions"] == state["status"]["conditions"] {
            let spec = &state["spec"];
            let spec = json!({"taints": spec["taints"], "unschedulable": spec["unschedulable"]});
            self.put_spec(name(state), spec).await;
        } else {
            self.put_status("nodes", state).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_a_tainted_node_and_a_node_that_is_not_ready() {
    let time = |line: &str| serde_json::from_str::<Value>(line).unwrap()["t"].as_f64().unwrap();
    let times: Vec<f64> = recording(NS).lines().map(time).collect();
    let steps = recorded(NS);
    let world = World::new(NS, "2026-11-21T10:23:13Z", Sandbox::builder()).await;
    world.create_namespace("kube-node-lease").await;
    let mut replay = Replay { began: world.clock.now(), world };
    for index in 0..6 {
        replay.node(index).await;
    }
    let seconds = |seconds| TunableValue::Duration(Duration::from_secs(seconds));
    let settings = OperatorSettings::new()
        .with_tunable("node-monitor-period", seconds(2))
        .with_tunable("node-monitor-grace-period", seconds(8));
    replay.world.start_loops("controllers", settings, node_lifecycle_controller::LOOPS);
    let mut known = BTreeSet::new();
    for (step, second) in steps.iter().zip(times) {
        let object = &step.object;
        let is_ready = |c: &Value| c["type"] == "Ready" && c["status"] == "True";
        let is_new = step.resource == "pods"
            && object["status"]["conditions"].as_array().is_some_and(|c| c.iter().any(is_ready));
        let is_by_others =
            step.resource == "nodes" && BY_OTHERS.iter().any(|v| object["metadata"]["resourceVersion"] == *v);
        if is_by_others || is_new && known.insert(step.name()) {
            replay.until(second).await;
            if is_by_others { replay.change_node(object).await } else { replay.pod(object).await }
        }
    }
    replay.until(90.0).await;
    let writes = replay.world.sandbox.writes().all();
    let ours: Vec<Step> = writes
        .iter()
        .filter(|write| write.identity == "controllers" || write.identity == ADMIN)
        .filter(|write| write.resource != "nodes" || write.at > replay.began)
        .filter(|write| write.resource != "events" || write.namespace == NS)
        .map(|write| Step::written(write))
        .collect();
    let theirs = story(&steps);
    assert!(theirs.len() > 8 && theirs.values("node-2 is").len() == 6, "{theirs:#?}");
    story(&ours).assert_same(&theirs);
}
