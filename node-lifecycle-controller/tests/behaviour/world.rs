//! A sandbox and the loops under test: a [`World`] without nodes of its own, whose nodes are what a test says, and a [`Cluster`] whose
//! nodes renew their Leases.

use std::time::Duration;

use common::{
    clock::Clock,
    runtime::LoopDefinition,
    settings::{Settings, TuneValue},
};
use jiff::Timestamp;
use node_lifecycle_controller::{eviction, garbage};
use sandbox::{Builder, Sandbox, loops::Loops, nodes::Nodes};
use serde_json::{Value, json};

/// What the controllers are known as to the sandbox.
pub(crate) const ME: &str = "controllers";
/// Where everything happens.
pub(crate) const NS: &str = "shop";
pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Where Leases of nodes are.
const LEASES: &str = "kube-node-lease";

/// Renews the Lease of a node that has no other part in a test: the loops see that they are not cut off.
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

/// The loops that act on Pods. Here nobody judges the nodes.
const LOOPS: &[LoopDefinition] = &[eviction::TAINT_EVICTION, garbage::POD_GARBAGE_COLLECTOR];

pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) clock: Clock,
    settings: Settings,
    definitions: &'static [LoopDefinition],
    loops: Option<Loops>,
}

/// A taint that Pods leave for.
pub(crate) fn leave(key: &str) -> Value {
    json!({"key": key, "effect": "NoExecute"})
}

/// A toleration of every taint, for so many seconds or for ever.
pub(crate) fn every(seconds: Option<i64>) -> Value {
    let mut toleration = json!({"operator": "Exists"});
    if let Some(seconds) = seconds {
        toleration["effect"] = json!("NoExecute");
        toleration["tolerationSeconds"] = json!(seconds);
    }
    toleration
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(Settings::new()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        Self::build(settings, Sandbox::builder(), LOOPS).await
    }

    /// A world with these loops alone.
    pub(crate) async fn of(loops: &'static [LoopDefinition]) -> Self {
        Self::build(Settings::new(), Sandbox::builder(), loops).await
    }

    /// A server that knows tolerations which compare numbers, and loops that know them or do not.
    pub(crate) async fn where_tolerations_compare(is_known: bool) -> Self {
        let gate = eviction::COMPARISON.name;
        Self::build(Settings::new().with_gate(gate, is_known), Sandbox::builder().gate(gate, true), LOOPS).await
    }

    async fn build(settings: Settings, sandbox: Builder, definitions: &'static [LoopDefinition]) -> Self {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
        let sandbox = sandbox.clock(clock.clone()).build();
        sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})).await.unwrap();
        tokio::spawn(witness(sandbox.clone(), clock.clone()));
        let mut world = Self { sandbox, clock, settings, definitions, loops: None };
        world.start();
        world.wait(1).await;
        world
    }

    /// Starts the loops anew, as another process.
    pub(crate) fn start(&mut self) {
        let client = self.sandbox.client(ME);
        self.loops = Some(Loops::start(&client, &self.clock, self.settings.clone(), self.definitions));
    }

    /// Ends the loops as a crash would.
    pub(crate) fn crash(&mut self) {
        self.loops = None;
    }

    pub(crate) async fn wait(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// A node that is ready and has these taints.
    pub(crate) async fn node(&self, name: &str, taints: Value) {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints}});
        self.sandbox.create(node).await.unwrap();
        // What admission adds to a new node has no part in this.
        self.taint(name, taints).await;
        self.report(name, "True").await;
    }

    /// The node says whether it is ready.
    pub(crate) async fn report(&self, node: &str, ready: &str) {
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
        self.sandbox.merge("nodes", None, node, Some("status"), status).await.unwrap();
    }

    pub(crate) async fn taint(&self, node: &str, taints: Value) {
        self.sandbox.merge("nodes", None, node, None, json!({"spec": {"taints": taints}})).await.unwrap();
    }

    /// A Pod on a node, with nothing but these tolerations.
    pub(crate) async fn pod(&self, name: &str, node: &str, tolerations: Value) -> Value {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NS},
            "spec": {"nodeName": node, "tolerations": tolerations, "containers": [{"name": "c", "image": "img:1"}]}});
        self.sandbox.create(pod).await.unwrap()
    }

    /// A user adds a toleration to a Pod.
    pub(crate) async fn tolerate(&self, pod: &str, toleration: Value) {
        let mut all = self.get(pod).await.unwrap()["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        all.insert(0, toleration);
        let patch = json!({"spec": {"tolerations": all}});
        self.sandbox.merge("pods", Some(NS), pod, None, patch).await.unwrap();
    }

    pub(crate) async fn status(&self, pod: &str, status: Value) {
        self.sandbox.merge("pods", Some(NS), pod, Some("status"), json!({ "status": status })).await.unwrap();
    }

    /// The Pod, if it is there.
    pub(crate) async fn get(&self, pod: &str) -> Option<Value> {
        self.sandbox.get("pods", Some(NS), pod).await.ok()
    }

    /// Whether the Pod is gone or going.
    pub(crate) async fn is_going(&self, pod: &str) -> bool {
        self.get(pod).await.is_none_or(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
    }

    /// A user deletes it.
    pub(crate) async fn delete(&self, resource: &str, namespace: Option<&str>, name: &str) {
        self.sandbox.delete(resource, namespace, name).await.unwrap();
    }

    /// It goes at once.
    pub(crate) async fn delete_now(&self, pod: &str) {
        let path = format!("/api/v1/namespaces/{NS}/pods/{pod}");
        let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        self.sandbox.send(http::Method::DELETE, &path, "application/json", Some(&now)).await.unwrap();
    }

    /// How many requests of the loops there were.
    pub(crate) fn asked(&self, verb: &str, resource: &str) -> u64 {
        self.sandbox.requests().count(Some(ME), Some(verb), Some(resource))
    }

    /// The notes of events, sorted.
    pub(crate) async fn notes(&self) -> Vec<String> {
        let events = self.sandbox.list("events", Some(NS)).await.unwrap();
        let mut notes: Vec<String> = events.iter().map(|e| e["message"].as_str().unwrap().to_owned()).collect();
        notes.sort();
        notes
    }

    /// When the loops decided to act on a key, and how.
    pub(crate) fn plans(&self, key: &str) -> Vec<(Timestamp, Vec<String>)> {
        self.loops.as_ref().unwrap().plans(key)
    }

    pub(crate) fn explain(&self, key: &str) -> String {
        self.loops.as_ref().unwrap().explain(Some(key)).to_string()
    }
}

/// The condition of that type.
pub(crate) fn condition(pod: &Value, kind: &str) -> Value {
    let list = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    list.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

/// A sandbox with nodes that renew their Leases, and all loops of this program.
pub(crate) struct Cluster {
    pub(crate) sandbox: Sandbox,
    pub(crate) clock: Clock,
    pub(crate) nodes: Nodes,
    settings: Settings,
    loops: Option<Loops>,
}

impl Cluster {
    /// A cluster of `count` nodes, `node-0` and so on, that are in the zones z0, z1 and z2 in turn.
    pub(crate) async fn new(count: u32) -> Self {
        Self::with(count, Settings::new()).await
    }

    /// A cluster in which all nodes are in the same zone.
    pub(crate) async fn of_one_zone(count: u32, settings: Settings) -> Self {
        let mut cluster = Self::without_controllers(count, settings).await;
        for node in 0..count {
            cluster.label(&format!("node-{node}"), json!({"topology.kubernetes.io/zone": "z"})).await;
        }
        cluster.start();
        cluster.wait(2).await;
        cluster
    }

    pub(crate) async fn with(count: u32, settings: Settings) -> Self {
        let mut cluster = Self::without_controllers(count, settings).await;
        cluster.start();
        cluster.wait(2).await;
        cluster
    }

    pub(crate) async fn without_controllers(count: u32, settings: Settings) -> Self {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})).await.unwrap();
        let nodes = Nodes::builder().count(count).without_scheduler().start(sandbox.client("nodes"), clock.clone());
        nodes.ready().await;
        let this = Self { sandbox, clock, nodes, settings, loops: None };
        this.wait(1).await;
        this
    }

    /// Starts the loops anew, as another process.
    pub(crate) fn start(&mut self) {
        let client = self.sandbox.client(ME);
        self.loops = Some(Loops::start(&client, &self.clock, self.settings.clone(), node_lifecycle_controller::LOOPS));
    }

    /// Ends the loops as a crash would.
    pub(crate) fn crash(&mut self) {
        self.loops = None;
    }

    pub(crate) fn loops(&self) -> &Loops {
        self.loops.as_ref().unwrap()
    }

    pub(crate) async fn wait(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// The seconds until something is true of a node, at most `most`.
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

    /// A Pod on a node that tolerates both taints for five minutes, as admission has it.
    pub(crate) async fn pod(&self, name: &str, node: &str) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NS},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "img:1"}]}});
        self.sandbox.create(pod).await.unwrap();
    }

    pub(crate) async fn get_pod(&self, name: &str) -> Option<Value> {
        self.sandbox.get("pods", Some(NS), name).await.ok()
    }

    /// How many requests of the loops there were.
    pub(crate) fn asked(&self, verb: &str, resource: &str) -> u64 {
        self.sandbox.requests().count(Some(ME), Some(verb), Some(resource))
    }

    /// The value of a metric without labels.
    pub(crate) fn metric(&self, name: &str) -> String {
        metric(self.loops(), name)
    }

    /// The writes of the loops to nodes, as the time in seconds since `since` and the state after it.
    pub(crate) fn node_writes(&self, node: &str, since: Timestamp) -> Vec<(i64, Value)> {
        let all = self.sandbox.writes().all();
        let is_of = |write: &&std::sync::Arc<sandbox::Write>| {
            write.identity == ME && write.resource == "nodes" && write.name == node && write.at > since
        };
        let of = all.iter().filter(is_of);
        of.filter_map(|write| Some((write.at.duration_since(since).as_secs(), (*write.after()?).clone()))).collect()
    }

    /// Reason and message of the Events about nodes.
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

    /// The names of nodes that have a `NoExecute` taint of ours.
    pub(crate) async fn evicted_nodes(&self) -> Vec<String> {
        let nodes = self.sandbox.list("nodes", None).await.unwrap();
        let evicted = nodes.iter().filter(|node| !taints(node, "NoExecute").is_empty());
        evicted.map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// How many nodes are `Unknown`.
    pub(crate) async fn unknown_count(&self) -> usize {
        let nodes = self.sandbox.list("nodes", None).await.unwrap();
        nodes.iter().filter(|node| status(node, "Ready") == "Unknown").count()
    }
}

/// The value of a metric without labels.
pub(crate) fn metric(loops: &Loops, name: &str) -> String {
    let text = loops.metrics().prometheus();
    let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line.map_or_else(|| panic!("{name}: {text}"), |line| line[name.len() + 1..].to_owned())
}

/// Settings with the flags of an operator.
pub(crate) fn flags(flags: &[(&str, TuneValue)]) -> Settings {
    flags.iter().fold(Settings::new(), |settings, (name, value)| settings.with_tune(name, *value))
}

/// The status of a condition.
pub(crate) fn status<'a>(object: &'a Value, kind: &str) -> &'a str {
    let list = object["status"]["conditions"].as_array();
    let condition = list.and_then(|list| list.iter().find(|condition| condition["type"] == kind));
    condition.and_then(|condition| condition["status"].as_str()).unwrap_or("none")
}

/// The keys of the taints of an effect.
pub(crate) fn taints(node: &Value, effect: &str) -> Vec<String> {
    let list = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let of = list.iter().filter(|taint| taint["effect"] == effect);
    of.map(|taint| taint["key"].as_str().unwrap().to_owned()).collect()
}
