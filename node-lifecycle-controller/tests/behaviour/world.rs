//! The sandbox with the loops under test. In one fixture, the test creates the nodes; in the other fixture, nodes renew their
//! Leases.

use std::time::Duration;

use common::{
    clock::Clock,
    runtime::LoopDefinition,
    settings::{OperatorSettings, TunableValue},
};
use jiff::Timestamp;
use node_lifecycle_controller::{eviction, garbage};
use sandbox::{Builder, Sandbox, loops::Loops, nodes::Nodes};
use serde_json::{Value, json};

/// Identity under which the loops under test send requests to the sandbox.
pub(crate) const ME: &str = "controllers";
/// Namespace of the Pods in the tests.
pub(crate) const NS: &str = "shop";
pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Namespace of the Leases of nodes.
const LEASES: &str = "kube-node-lease";

/// Renews a Lease named `witness` every ten seconds, so that the loops assume that they can receive heartbeats.
async fn witness(sandbox: Sandbox, clock: Clock) {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "witness", "namespace": LEASES}});
    sandbox.create(lease).await.unwrap();
    loop {
        let renewed = json!({"spec": {"renewTime": clock.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()}});
        sandbox.merge("leases.coordination.k8s.io", Some(LEASES), "witness", None, renewed).await.unwrap();
        clock.sleep(Duration::from_secs(10)).await;
    }
}

/// The loops that delete Pods, without the node monitor.
const LOOPS: &[LoopDefinition] = &[eviction::TAINT_EVICTION_LOOP, garbage::POD_GARBAGE_COLLECTOR_LOOP];

pub(crate) struct PodLoopsWorld {
    pub(crate) sandbox: Sandbox,
    pub(crate) clock: Clock,
    settings: OperatorSettings,
    definitions: &'static [LoopDefinition],
    loops: Option<Loops>,
}

/// Builds a `NoExecute` taint with this key and without a value.
pub(crate) fn no_execute_taint(key: &str) -> Value {
    json!({"key": key, "effect": "NoExecute"})
}

/// Builds a toleration of every taint: for `seconds`, or without a limit for `None`.
pub(crate) fn tolerate_all(seconds: Option<i64>) -> Value {
    let mut toleration = json!({"operator": "Exists"});
    if let Some(seconds) = seconds {
        toleration["effect"] = json!("NoExecute");
        toleration["tolerationSeconds"] = json!(seconds);
    }
    toleration
}

impl PodLoopsWorld {
    pub(crate) async fn new() -> Self {
        Self::with(OperatorSettings::new()).await
    }

    pub(crate) async fn with(settings: OperatorSettings) -> Self {
        Self::build(settings, Sandbox::builder(), LOOPS).await
    }

    /// Creates a world that runs only these loops.
    pub(crate) async fn with_loops(loops: &'static [LoopDefinition]) -> Self {
        Self::build(OperatorSettings::new(), Sandbox::builder(), loops).await
    }

    /// Creates a server that accepts tolerations with the operators `Lt` and `Gt`. `is_known` enables the feature gate of the
    /// loops.
    pub(crate) async fn with_comparison_gate(is_known: bool) -> Self {
        let gate = eviction::TAINT_TOLERATION_COMPARISON_OPERATORS.name;
        Self::build(
            OperatorSettings::new().with_feature_gate(gate, is_known),
            Sandbox::builder().gate(gate, true),
            LOOPS,
        )
        .await
    }

    async fn build(settings: OperatorSettings, sandbox: Builder, definitions: &'static [LoopDefinition]) -> Self {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
        let sandbox = sandbox.clock(clock.clone()).build();
        sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})).await.unwrap();
        tokio::spawn(witness(sandbox.clone(), clock.clone()));
        let mut world = Self { sandbox, clock, settings, definitions, loops: None };
        world.start();
        world.wait(1).await;
        world
    }

    /// Starts the loops with empty memory, as in a new process.
    pub(crate) fn start(&mut self) {
        let client = self.sandbox.client(ME);
        self.loops = Some(Loops::start(&client, &self.clock, self.settings.clone(), self.definitions));
    }

    /// Stops the loops without a shutdown; their memory is lost.
    pub(crate) fn crash(&mut self) {
        self.loops = None;
    }

    pub(crate) async fn wait(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Creates a ready node with these taints.
    pub(crate) async fn node(&self, name: &str, taints: Value) {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints}});
        self.sandbox.create(node).await.unwrap();
        // Removes the taints that admission adds to a new node.
        self.taint(name, taints).await;
        self.set_ready(name, "True").await;
    }

    /// Writes the condition `Ready` of a node, as its kubelet.
    pub(crate) async fn set_ready(&self, node: &str, ready: &str) {
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
        self.sandbox.merge("nodes", None, node, Some("status"), status).await.unwrap();
    }

    pub(crate) async fn taint(&self, node: &str, taints: Value) {
        self.sandbox.merge("nodes", None, node, None, json!({"spec": {"taints": taints}})).await.unwrap();
    }

    /// Creates a Pod on a node. Admission may add tolerations of five minutes for the taints of the node monitor.
    pub(crate) async fn pod(&self, name: &str, node: &str, tolerations: Value) -> Value {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NS},
            "spec": {"nodeName": node, "tolerations": tolerations, "containers": [{"name": "c", "image": "img:1"}]}});
        self.sandbox.create(pod).await.unwrap()
    }

    /// Adds a toleration to a Pod, as a user.
    pub(crate) async fn tolerate(&self, pod: &str, toleration: Value) {
        let mut all = self.get(pod).await.unwrap()["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        all.insert(0, toleration);
        let patch = json!({"spec": {"tolerations": all}});
        self.sandbox.merge("pods", Some(NS), pod, None, patch).await.unwrap();
    }

    pub(crate) async fn status(&self, pod: &str, status: Value) {
        self.sandbox.merge("pods", Some(NS), pod, Some("status"), json!({ "status": status })).await.unwrap();
    }

    /// Returns the Pod; `None` if it does not exist.
    pub(crate) async fn get(&self, pod: &str) -> Option<Value> {
        self.sandbox.get("pods", Some(NS), pod).await.ok()
    }

    /// Whether the Pod is terminating or does not exist.
    pub(crate) async fn is_terminating_or_deleted(&self, pod: &str) -> bool {
        self.get(pod).await.is_none_or(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
    }

    /// Deletes an object, as a user.
    pub(crate) async fn delete(&self, resource: &str, namespace: Option<&str>, name: &str) {
        self.sandbox.delete(resource, namespace, name).await.unwrap();
    }

    /// Deletes a Pod with a grace period of 0.
    pub(crate) async fn delete_now(&self, pod: &str) {
        let path = format!("/api/v1/namespaces/{NS}/pods/{pod}");
        let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        self.sandbox.send(http::Method::DELETE, &path, "application/json", Some(&now)).await.unwrap();
    }

    /// Returns the number of requests of the loops with this verb and resource.
    pub(crate) fn asked(&self, verb: &str, resource: &str) -> u64 {
        self.sandbox.requests().count(Some(ME), Some(verb), Some(resource))
    }

    /// Returns the messages of the Events in the namespace `shop`, sorted.
    pub(crate) async fn event_messages(&self) -> Vec<String> {
        let events = self.sandbox.list("events", Some(NS)).await.unwrap();
        let mut notes: Vec<String> = events.iter().map(|e| e["message"].as_str().unwrap().to_owned()).collect();
        notes.sort();
        notes
    }

    /// Returns the plans for a key in the order of time, each with the time of the decision and the actions.
    pub(crate) fn plans(&self, key: &str) -> Vec<(Timestamp, Vec<String>)> {
        self.loops.as_ref().unwrap().plans(key)
    }

    pub(crate) fn explain(&self, key: &str) -> String {
        self.loops.as_ref().unwrap().explain(Some(key)).to_string()
    }
}

/// Returns the condition of type `kind`; null if it is missing.
pub(crate) fn condition(pod: &Value, kind: &str) -> Value {
    let list = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    list.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

/// A sandbox with nodes that renew their Leases, and all loops of this program.
pub(crate) struct Cluster {
    pub(crate) sandbox: Sandbox,
    pub(crate) clock: Clock,
    pub(crate) nodes: Nodes,
    settings: OperatorSettings,
    loops: Option<Loops>,
}

impl Cluster {
    /// Creates a cluster of `count` nodes `node-0`, `node-1` and so on, distributed over the zones z0, z1 and z2 in turn.
    pub(crate) async fn new(count: u32) -> Self {
        Self::with(count, OperatorSettings::new()).await
    }

    /// Creates a cluster of `count` nodes in the zone `z`.
    pub(crate) async fn of_one_zone(count: u32, settings: OperatorSettings) -> Self {
        let mut cluster = Self::without_controllers(count, settings).await;
        for node in 0..count {
            cluster.label(&format!("node-{node}"), json!({"topology.kubernetes.io/zone": "z"})).await;
        }
        cluster.start();
        cluster.wait(2).await;
        cluster
    }

    pub(crate) async fn with(count: u32, settings: OperatorSettings) -> Self {
        let mut cluster = Self::without_controllers(count, settings).await;
        cluster.start();
        cluster.wait(2).await;
        cluster
    }

    pub(crate) async fn without_controllers(count: u32, settings: OperatorSettings) -> Self {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})).await.unwrap();
        let nodes = Nodes::builder().count(count).without_scheduler().start(sandbox.client("nodes"), clock.clone());
        nodes.ready().await;
        let this = Self { sandbox, clock, nodes, settings, loops: None };
        this.wait(1).await;
        this
    }

    /// Starts the loops with empty memory, as in a new process.
    pub(crate) fn start(&mut self) {
        let client = self.sandbox.client(ME);
        self.loops = Some(Loops::start(&client, &self.clock, self.settings.clone(), node_lifecycle_controller::LOOPS));
    }

    /// Stops the loops without a shutdown; their memory is lost.
    pub(crate) fn crash(&mut self) {
        self.loops = None;
    }

    pub(crate) fn loops(&self) -> &Loops {
        self.loops.as_ref().unwrap()
    }

    pub(crate) async fn wait(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until `is_true` holds for a node, and returns the seconds until then; panics after `most` seconds.
    pub(crate) async fn until(&self, node: &str, most: u64, is_true: impl Fn(&Value) -> bool) -> u64 {
        let began = self.clock.now();
        loop {
            let seconds = u64::try_from(self.clock.now().duration_since(began).as_secs()).unwrap();
            if is_true(&self.node(node).await) {
                return seconds;
            }
            assert!(seconds < most, "{node} after {most} s: {}", self.node(node).await);
            self.clock.sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn label(&self, node: &str, labels: Value) {
        self.sandbox.merge("nodes", None, node, None, json!({"metadata": {"labels": labels}})).await.unwrap();
    }

    pub(crate) async fn node(&self, node: &str) -> Value {
        self.sandbox.get("nodes", None, node).await.unwrap()
    }

    /// Creates a Pod on a node. Admission adds tolerations of five minutes for the taints `not-ready` and `unreachable`.
    pub(crate) async fn pod(&self, name: &str, node: &str) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NS},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "img:1"}]}});
        self.sandbox.create(pod).await.unwrap();
    }

    pub(crate) async fn get_pod(&self, name: &str) -> Option<Value> {
        self.sandbox.get("pods", Some(NS), name).await.ok()
    }

    /// Returns the number of requests of the loops with this verb and resource.
    pub(crate) fn asked(&self, verb: &str, resource: &str) -> u64 {
        self.sandbox.requests().count(Some(ME), Some(verb), Some(resource))
    }

    pub(crate) fn metric(&self, name: &str) -> String {
        metric(self.loops(), name)
    }

    /// Returns the writes of the loops to a node after `since`: the seconds since that time, and the state of the written node.
    pub(crate) fn node_writes(&self, node: &str, since: Timestamp) -> Vec<(i64, Value)> {
        let all = self.sandbox.writes().all();
        let is_of = |write: &&std::sync::Arc<sandbox::Write>| {
            write.identity == ME && write.resource == "nodes" && write.name == node && write.at > since
        };
        let of = all.iter().filter(is_of);
        of.filter_map(|write| Some((write.at.duration_since(since).as_secs(), (*write.after()?).clone()))).collect()
    }

    /// Returns type, reason and message of the Events in a namespace, sorted.
    pub(crate) async fn events(&self, namespace: &str) -> Vec<String> {
        let events = self.sandbox.list("events", Some(namespace)).await.unwrap();
        let line = |e: &Value| {
            format!(
                "{} {} {}",
                e["type"].as_str().unwrap(),
                e["reason"].as_str().unwrap(),
                e["message"].as_str().unwrap()
            )
        };
        let mut lines: Vec<String> = events.iter().map(line).collect();
        lines.sort();
        lines
    }

    /// Returns the names of nodes that have a `NoExecute` taint.
    pub(crate) async fn tainted_nodes(&self) -> Vec<String> {
        let nodes = self.sandbox.list("nodes", None).await.unwrap();
        let evicted = nodes.iter().filter(|node| !taints(node, "NoExecute").is_empty());
        evicted.map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the number of nodes with the condition `Ready` `Unknown`.
    pub(crate) async fn unknown_count(&self) -> usize {
        let nodes = self.sandbox.list("nodes", None).await.unwrap();
        nodes.iter().filter(|node| status(node, "Ready") == "Unknown").count()
    }
}

/// Returns the value of a metric as text. `name` contains the labels, if the metric has labels.
pub(crate) fn metric(loops: &Loops, name: &str) -> String {
    let text = loops.metrics().render_prometheus();
    let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line.map_or_else(|| panic!("{name}: {text}"), |line| line[name.len() + 1..].to_owned())
}

/// Returns the default settings, changed by these flags.
pub(crate) fn flags(flags: &[(&str, TunableValue)]) -> OperatorSettings {
    flags.iter().fold(OperatorSettings::new(), |settings, (name, value)| settings.with_tunable(name, *value))
}

/// Returns the status of a condition; `none` if it is missing.
pub(crate) fn status<'a>(object: &'a Value, kind: &str) -> &'a str {
    let list = object["status"]["conditions"].as_array();
    let condition = list.and_then(|list| list.iter().find(|condition| condition["type"] == kind));
    condition.and_then(|condition| condition["status"].as_str()).unwrap_or("none")
}

/// Returns the keys of the taints with this effect.
pub(crate) fn taints(node: &Value, effect: &str) -> Vec<String> {
    let list = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let of = list.iter().filter(|taint| taint["effect"] == effect);
    of.map(|taint| taint["key"].as_str().unwrap().to_owned()).collect()
}
