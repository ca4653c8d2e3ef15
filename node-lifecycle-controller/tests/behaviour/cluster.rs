//! A sandbox with nodes that renew their Leases, and all loops of this program.

use std::time::Duration;

use common::{
    clock::Clock,
    settings::{Settings, TuneValue},
};
use jiff::Timestamp;
use sandbox::{Sandbox, loops::Loops, nodes::Nodes};
use serde_json::{Value, json};

/// What the controllers are known as to the sandbox.
pub(crate) const ME: &str = "controllers";
/// Where Pods are.
pub(crate) const NS: &str = "shop";
pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

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
