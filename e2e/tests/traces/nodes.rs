//! A run of the node lifecycle controllers: a node falls silent and comes back, another is tainted and cordoned by a user, and
//! a third reports that it is not ready.
//!
//! The recording has no kubelet that ends Pods in its own way here: what is compared is what the controllers write.

use std::time::Duration;

use common::{
    clock::Clock,
    settings::{OperatorSettings, TunableValue},
};
use e2e::{
    loops::Loops,
    sandbox::{ADMIN, Change, Sandbox},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Step, recorded,
    signature::{EventText, Signature},
};

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
        let object = &step.object;
        let name = object["metadata"]["name"].as_str().unwrap();
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
                    let is_deleting = !object["metadata"]["deletionTimestamp"].is_null();
                    let target = list(&json!([target]), &["status", "reason", "message"]);
                    story.push(
                        format!("{name} is"),
                        format!("Ready {}, target {target:?}, {is_deleting}", ready["status"]),
                    );
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
    events.sort();
    story.set("events", events);
    story
}

/// These fields of all entries of a list.
fn list(entries: &Value, fields: &[&str]) -> Vec<String> {
    let entry = |entry: &Value| fields.iter().filter_map(|f| entry[*f].as_str()).collect::<Vec<_>>().join(" ");
    entries.as_array().into_iter().flatten().map(entry).collect()
}

/// A cluster without kubelets, in which the test does what others did in the recording.
struct Replay {
    sandbox: Sandbox,
    clock: Clock,
    began: Timestamp,
}

impl Replay {
    async fn put_status(&self, resource: &str, object: &Value) {
        let namespace = (resource == "pods").then_some(NS);
        let name = object["metadata"]["name"].as_str().unwrap();
        let mut status = object["status"].clone();
        // What only controllers write is theirs to write.
        if let Some(all) = status["conditions"].as_array_mut() {
            all.retain(|condition| condition["type"] != "DisruptionTarget");
        }
        let status = json!({ "status": status });
        self.sandbox.merge(resource, namespace, name, Some("status"), status).await.unwrap();
    }

    /// A node as it was before anything happened.
    async fn node(&self, index: usize) {
        let name = format!("node-{index}");
        let labels = json!({"beta.kubernetes.io/os": "linux", "kubernetes.io/os": "linux",
            "topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": format!("z{}", index % 3)});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok",
                "lastHeartbeatTime": "2026-11-21T10:23:05Z", "lastTransitionTime": "2026-11-21T10:23:05Z"}]}});
        self.sandbox.create(node).await.unwrap();
        self.sandbox.merge("nodes", None, &name, None, json!({"spec": {"taints": null}})).await.unwrap();
    }

    /// The heartbeats of all nodes but the silent one, until a time of the recording.
    async fn until(&self, second: f64) {
        loop {
            let passed = self.clock.now().duration_since(self.began).as_secs_f64();
            if passed >= second {
                return;
            }
            for node in (0..6)
                .map(|index| format!("node-{index}"))
                .filter(|node| node != SILENT || !(10.0..48.0).contains(&passed))
            {
                let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": node, "namespace": "kube-node-lease"},
                    "spec": {"renewTime": self.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()}});
                self.sandbox.apply(lease).await.unwrap();
            }
            self.clock.sleep(Duration::from_secs_f64((second - passed).min(1.0))).await;
        }
    }

    /// A Pod as its kubelet left it, on its node.
    async fn pod(&self, ready: &Value) {
        let (metadata, spec) = (&ready["metadata"], &ready["spec"]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": metadata["name"], "namespace": NS},
            "spec": {"nodeName": spec["nodeName"], "tolerations": spec["tolerations"], "containers": spec["containers"]}});
        self.sandbox.create(pod).await.unwrap();
        // A kubelet needs a moment to start it.
        self.clock.sleep(Duration::from_millis(10)).await;
        self.put_status("pods", ready).await;
    }

    async fn change_node(&self, state: &Value) {
        let name = state["metadata"]["name"].as_str().unwrap();
        let before = self.sandbox.get("nodes", None, name).await.unwrap();
        if before["status"]["conditions"] == state["status"]["conditions"] {
            let spec =
                json!({"spec": {"taints": state["spec"]["taints"], "unschedulable": state["spec"]["unschedulable"]}});
            self.sandbox.merge("nodes", None, name, None, spec).await.unwrap();
        } else {
            self.put_status("nodes", state).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_a_tainted_node_and_a_node_that_is_not_ready() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/goldens/traces/node-down.jsonl")).unwrap();
    let times: Vec<f64> =
        text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["t"].as_f64().unwrap()).collect();
    let steps = recorded("node-down");
    let clock = Clock::simulated("2026-11-21T10:23:13Z".parse().unwrap(), 42);
    let sandbox = Sandbox::builder().clock(clock.clone()).build();
    for namespace in [NS, "kube-node-lease"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let _ = sandbox.create(namespace).await;
    }
    let replay = Replay { sandbox, began: clock.now(), clock };
    for index in 0..6 {
        replay.node(index).await;
    }
    let seconds = |seconds| TunableValue::Duration(Duration::from_secs(seconds));
    let settings = OperatorSettings::new()
        .with_tunable("node-monitor-period", seconds(2))
        .with_tunable("node-monitor-grace-period", seconds(8));
    let client = replay.sandbox.client("controllers");
    let _loops = Loops::start(&client, &replay.clock, settings, node_lifecycle_controller::LOOPS);
    let mut known = std::collections::BTreeSet::new();
    for (step, second) in steps.iter().zip(times) {
        let (object, name) = (&step.object, step.object["metadata"]["name"].as_str().unwrap());
        let is_ready = |c: &Value| c["type"] == "Ready" && c["status"] == "True";
        let is_new = step.resource == "pods"
            && object["status"]["conditions"].as_array().is_some_and(|c| c.iter().any(is_ready));
        let is_by_others =
            step.resource == "nodes" && BY_OTHERS.iter().any(|v| object["metadata"]["resourceVersion"] == *v);
        if is_by_others || is_new && known.insert(name) {
            replay.until(second).await;
            if is_by_others { replay.change_node(object).await } else { replay.pod(object).await }
        }
    }
    replay.until(90.0).await;
    let writes = replay.sandbox.writes().all();
    let ours: Vec<Step> = writes
        .iter()
        .filter(|write| write.identity == "controllers" || write.identity == ADMIN)
        .filter(|write| write.resource != "nodes" || write.at > replay.began)
        .map(|write| Step {
            resource: write.resource.clone(),
            created: write.change == Change::Added && write.resource != "events",
            removed: write.change == Change::Deleted,
            object: write.after().or_else(|| write.before()).map_or(Value::Null, |object| (*object).clone()),
        })
        .filter(|step| step.resource != "events" || step.object["metadata"]["namespace"] == NS)
        .collect();
    let theirs = story(&steps);
    assert!(theirs.len() > 8 && theirs.values("node-2 is").len() == 6, "{theirs:#?}");
    story(&ours).assert_same(&theirs);
}
