//! The test world: a sandbox with nodes, a ReplicaSet controller, and the loop under test.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{clock::Clock, settings::OperatorSettings};
use sandbox::{Builder, Change, Sandbox, Write, loops::Loops, nodes::Nodes, replica_sets::ReplicaSets};
use serde_json::{Value, json};

/// Identity of the loop under test, by which the sandbox counts its requests and writes.
pub(crate) const CONTROLLER_IDENTITY: &str = "deployments";
pub(crate) const NAMESPACE: &str = "shop";
pub(crate) const DEPLOYMENTS: &str = "deployments.apps";
pub(crate) const REPLICA_SETS: &str = "replicasets.apps";

pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) clock: Clock,
    pub(crate) loops: Option<Loops>,
    pub(crate) replica_set_controller: Option<ReplicaSets>,
    settings: OperatorSettings,
    _nodes: Nodes,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with_sandbox(Sandbox::builder(), OperatorSettings::new()).await
    }

    pub(crate) async fn with_sandbox(builder: Builder, settings: OperatorSettings) -> Self {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
        let sandbox = builder.clock(clock.clone()).build();
        let nodes = Nodes::builder().count(3).heartbeat(None).start(sandbox.client("nodes"), clock.clone());
        nodes.ready().await;
        sandbox
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
            .await
            .unwrap();
        let neighbours = Some(ReplicaSets::start(&sandbox, "replicasets"));
        let mut world =
            Self { sandbox, clock, loops: None, replica_set_controller: neighbours, settings, _nodes: nodes };
        world.start();
        world.settle().await;
        world.clear_logs();
        world
    }

    /// Starts the loop as a new process.
    pub(crate) fn start(&mut self) {
        let client = self.sandbox.client(CONTROLLER_IDENTITY);
        self.loops = Some(Loops::start(&client, &self.clock, self.settings.clone(), deployment_controller::LOOPS));
    }

    /// Starts the loop as a new process in shadow mode, and clears the logs of requests and writes.
    pub(crate) fn start_shadow(&mut self) {
        self.settings = self.settings.clone().with_shadow_mode(true);
        self.start();
        self.clear_logs();
    }

    /// Drops the loop without a shutdown, so that its requests in flight are dropped, too.
    pub(crate) fn crash(&mut self) {
        self.loops = None;
    }

    pub(crate) async fn wait(&self, seconds: f64) {
        self.clock.sleep(Duration::from_secs_f64(seconds)).await;
    }

    /// Waits until nothing has been written for three seconds.
    pub(crate) async fn settle(&self) {
        for _ in 0..2000 {
            let writes = self.sandbox.writes().count();
            self.wait(3.0).await;
            if self.sandbox.writes().count() == writes {
                return;
            }
        }
        panic!("writes never stop: {:#}", self.explain());
    }

    pub(crate) fn clear_logs(&self) {
        self.sandbox.requests().clear();
        self.sandbox.writes().clear();
    }

    /// Returns the number of requests that the loop under test has sent.
    pub(crate) fn request_count(&self, verb: &str, resource: &str) -> u64 {
        self.sandbox.requests().count(Some(CONTROLLER_IDENTITY), Some(verb), Some(resource))
    }

    /// Returns the writes of the loop under test without Events, as "verb resource name".
    pub(crate) fn own_writes(&self) -> Vec<String> {
        self.ours()
            .iter()
            .map(|w| {
                let sub = w.subresource.as_ref().map(|s| format!("/{s}")).unwrap_or_default();
                format!("{} {}{sub} {}", w.verb, w.resource, w.name)
            })
            .collect()
    }

    fn ours(&self) -> Vec<Arc<Write>> {
        let all = self.sandbox.writes().all();
        all.into_iter().filter(|w| w.identity == CONTROLLER_IDENTITY && w.resource != "events").collect()
    }

    /// Returns the sizes that ReplicaSets got, in order. The ReplicaSets are called a, b, c, ... in the order of their first
    /// write.
    pub(crate) fn size_history(&self) -> Vec<String> {
        let (mut names, mut known, mut out) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for write in self.sandbox.writes().all().iter().filter(|w| w.resource == "replicasets") {
            let Some(after) = write.after() else { continue };
            let next = char::from(b'a' + names.len() as u8);
            let letter = *names.entry(write.name.clone()).or_insert(next);
            let size = after["spec"]["replicas"].as_i64().unwrap();
            if known.insert(letter, size) != Some(size) {
                out.push(format!("{letter} {size}"));
            }
        }
        out
    }

    /// Returns the maximum number of Pods at one time, and the minimum number of ready Pods after `replicas` were ready once.
    pub(crate) fn pod_count_extremes(&self, replicas: usize) -> (usize, usize) {
        let (mut live, mut ready) = (BTreeSet::new(), BTreeSet::new());
        let (mut most, mut fewest, mut complete) = (0, usize::MAX, false);
        for write in self.sandbox.writes().all().iter().filter(|w| w.resource == "pods") {
            let pod = write.after().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
            let is_ready = pod.as_ref().is_some_and(|pod| sandbox::nodes::is_ready(pod));
            if pod.is_none() || write.change == Change::Deleted {
                live.remove(&write.name);
                ready.remove(&write.name);
            } else {
                live.insert(write.name.clone());
                if is_ready {
                    ready.insert(write.name.clone())
                } else {
                    ready.remove(&write.name)
                };
            }
            most = most.max(live.len());
            complete |= ready.len() >= replicas;
            if complete {
                fewest = fewest.min(ready.len());
            }
        }
        (most, fewest)
    }

    pub(crate) async fn create_object(&self, object: Value) -> Value {
        self.sandbox.create(object).await.unwrap()
    }

    /// Sends a merge patch of Deployment `web`.
    pub(crate) async fn patch_web(&self, patch: Value) -> Value {
        self.sandbox.merge(DEPLOYMENTS, Some(NAMESPACE), "web", None, patch).await.unwrap()
    }

    pub(crate) async fn set_image(&self, image: &str) {
        self.patch_web(json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})).await;
    }

    pub(crate) async fn set_replicas(&self, replicas: usize) {
        self.patch_web(json!({"spec": {"replicas": replicas}})).await;
    }

    pub(crate) async fn get_web(&self) -> Value {
        self.sandbox.get(DEPLOYMENTS, Some(NAMESPACE), "web").await.unwrap()
    }

    /// Returns the ReplicaSets in the order of their creation.
    pub(crate) async fn list_sets(&self) -> Vec<Value> {
        let mut sets = self.sandbox.list(REPLICA_SETS, Some(NAMESPACE)).await.unwrap();
        let number = |set: &Value, of: &str| set["metadata"][of].as_str().unwrap_or_default().to_owned();
        sets.sort_by_key(|set| (number(set, "creationTimestamp"), revision_of(set)));
        sets
    }

    pub(crate) async fn list_pods(&self) -> Vec<Value> {
        self.sandbox.list("pods", Some(NAMESPACE)).await.unwrap()
    }

    /// Returns reason, status and message of a condition of `web`.
    pub(crate) async fn condition(&self, kind: &str) -> (String, String, String) {
        let web = self.get_web().await;
        let empty = Value::Null;
        let condition = sandbox::nodes::condition(&web, kind).unwrap_or(&empty);
        let text = |of: &str| condition[of].as_str().unwrap_or_default().to_owned();
        (text("reason"), text("status"), text("message"))
    }

    /// Returns reason and message of the Events about Deployments, sorted by the names of the Events.
    pub(crate) async fn deployment_events(&self) -> Vec<String> {
        let mut events = self.sandbox.list("events", Some(NAMESPACE)).await.unwrap();
        events.retain(|event| event["involvedObject"]["kind"] == "Deployment");
        events.sort_by_key(|event| event["metadata"]["name"].as_str().unwrap().to_owned());
        let text = |event: &Value, of: &str| event[of].as_str().unwrap().to_owned();
        events.iter().map(|event| format!("{} {}", text(event, "reason"), text(event, "message"))).collect()
    }

    pub(crate) fn explain(&self) -> Value {
        let explained = self.loops.as_ref().map(|loops| loops.explain(Some("shop/web")));
        explained.map_or(Value::Null, |explained| explained[0].clone())
    }

    /// Returns the failed syncs of the loop under test, by class of error.
    pub(crate) fn failed_syncs(&self) -> Vec<String> {
        let text = self.loops.as_ref().unwrap().metrics().render_prometheus();
        text.lines().filter(|line| line.starts_with("nonet_sync_errors_total{")).map(str::to_owned).collect()
    }
}

pub(crate) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

pub(crate) fn revision_of(object: &Value) -> i64 {
    let text = object["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str();
    text.map_or(0, |text| text.parse().unwrap())
}

pub(crate) fn size_of_set(set: &Value) -> i64 {
    set["spec"]["replicas"].as_i64().unwrap()
}

/// Returns Deployment `web` with maxSurge and maxUnavailable 25% and `minReadySeconds` 1.
pub(crate) fn web_deployment(replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": NAMESPACE, "labels": {"app": "web"}},
        "spec": {
            "replicas": replicas, "minReadySeconds": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "img:1"}]}},
        },
    })
}
