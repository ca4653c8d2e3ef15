//! A sandbox and the loops under test. Nobody plays the nodes: what becomes of them is what a test says.

use std::time::Duration;

use common::{clock::Clock, runtime::LoopDefinition, settings::Settings};
use node_lifecycle_controller::{eviction, garbage};
use sandbox::{Builder, Sandbox, loops::Loops};
use serde_json::{Value, json};

/// What the controllers are known as to the sandbox.
pub(crate) const ME: &str = "controllers";
/// Where everything happens.
pub(crate) const NS: &str = "shop";

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
    pub(crate) fn plans(&self, key: &str) -> Vec<(jiff::Timestamp, Vec<String>)> {
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
