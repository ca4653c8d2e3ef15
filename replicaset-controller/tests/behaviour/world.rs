//! The environment of the tests: the sandbox (an API server in memory) with three nodes, and the loops under test.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use common::{clock::Clock, settings::OperatorSettings};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use sandbox::{Builder, Change, ConnectionCut, ResponseBody, Sandbox, Write, loops::Loops, nodes::Nodes};
use serde_json::{Value, json};
use tower::Service as _;

/// Identity of the loops under test at the sandbox.
pub(crate) const CONTROLLER_IDENTITY: &str = "controllers";
pub(crate) const NAMESPACE: &str = "shop";
/// Plural resource name and API group, as the sandbox logs them; the core group has no suffix.
pub(crate) const REPLICA_SET_RESOURCE: &str = "replicasets.apps";
pub(crate) const REPLICATION_CONTROLLER_RESOURCE: &str = "replicationcontrollers";

/// A function that sees each request before the server and may answer it.
pub(crate) type RequestFilter = Arc<dyn Fn(&Request<Bytes>) -> Option<Response<ResponseBody>> + Send + Sync>;

pub(crate) struct TestCluster {
    pub(crate) sandbox: Sandbox,
    pub(crate) clock: Clock,
    pub(crate) loops: Option<Loops>,
    _nodes: Nodes,
    filter: Option<RequestFilter>,
    settings: OperatorSettings,
}

pub(crate) struct TestClusterSetup {
    pub(crate) builder: Builder,
    pub(crate) settings: OperatorSettings,
    pub(crate) filter: Option<RequestFilter>,
}

impl Default for TestClusterSetup {
    fn default() -> Self {
        Self { builder: Sandbox::builder(), settings: OperatorSettings::new(), filter: None }
    }
}

impl TestCluster {
    pub(crate) async fn new() -> Self {
        Self::with_setup(TestClusterSetup::default()).await
    }

    pub(crate) async fn with_setup(setup: TestClusterSetup) -> Self {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
        let sandbox = setup.builder.clock(clock.clone()).build();
        let nodes = Nodes::builder().count(3).heartbeat(None).start(sandbox.client("nodes"), clock.clone());
        nodes.ready().await;
        sandbox
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
            .await
            .unwrap();
        let mut world =
            Self { sandbox, clock, loops: None, _nodes: nodes, filter: setup.filter, settings: setup.settings };
        world.start_loops();
        world.wait_until_settled().await;
        world.clear_logs();
        world
    }

    /// Starts the loops as a new process.
    pub(crate) fn start_loops(&mut self) {
        self.loops =
            Some(Loops::start(&self.client(), &self.clock, self.settings.clone(), replicaset_controller::LOOPS));
    }

    /// Starts the loops as a new process in shadow mode, and clears the logs of requests and writes.
    pub(crate) fn start_shadow(&mut self) {
        self.settings = self.settings.clone().with_shadow_mode(true);
        self.start_loops();
        self.clear_logs();
    }

    /// Drops the loops without a shutdown, as a crash of the process does: no sync is finished, and no Lease is released.
    pub(crate) fn crash_loops(&mut self) {
        self.loops = None;
    }

    fn client(&self) -> kube::Client {
        let Some(filter) = self.filter.clone() else { return self.sandbox.client(CONTROLLER_IDENTITY) };
        let inner = self.sandbox.service(CONTROLLER_IDENTITY);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (filter, mut inner) = (Arc::clone(&filter), inner.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.map_err(|_| ConnectionCut)?.to_bytes();
                let request = Request::from_parts(parts, body);
                match filter(&request) {
                    Some(answer) => Ok::<_, ConnectionCut>(answer),
                    None => inner.call(request.map(Full::new)).await,
                }
            }
        });
        kube::Client::new(service, "default")
    }

    pub(crate) async fn wait_seconds(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until nothing has been written for two seconds.
    pub(crate) async fn wait_until_settled(&self) {
        for _ in 0..2000 {
            let writes = self.sandbox.writes().count();
            self.wait_seconds(2).await;
            if self.sandbox.writes().count() == writes {
                return;
            }
        }
        panic!("writes never stop: {:#?}", self.loops.as_ref().map(|l| l.explain(None)));
    }

    /// Clears the logs of requests and writes.
    pub(crate) fn clear_logs(&self) {
        self.sandbox.requests().clear();
        self.sandbox.writes().clear();
    }

    /// Returns the count of requests of the loops under test since the last [`TestCluster::clear_logs`].
    pub(crate) fn request_count(&self, verb: &str, resource: &str) -> u64 {
        self.sandbox.requests().count(Some(CONTROLLER_IDENTITY), Some(verb), Some(resource))
    }

    /// Returns the writes of the loops under test, except Events, since the last [`TestCluster::clear_logs`].
    pub(crate) fn own_writes(&self) -> Vec<Arc<Write>> {
        let all = self.sandbox.writes().all();
        all.into_iter().filter(|w| w.identity == CONTROLLER_IDENTITY && w.resource != "events").collect()
    }

    pub(crate) async fn create_object(&self, object: Value) -> Value {
        self.sandbox.create(object).await.unwrap()
    }

    pub(crate) async fn merge_patch(&self, resource: &str, name: &str, patch: Value) -> Value {
        self.sandbox.merge(resource, Some(NAMESPACE), name, None, patch).await.unwrap()
    }

    pub(crate) async fn get_object(&self, resource: &str, name: &str) -> Value {
        self.sandbox.get(resource, Some(NAMESPACE), name).await.unwrap()
    }

    /// Changes an unused annotation, so that the event enqueues the set.
    pub(crate) async fn touch_annotation(&self, resource: &str, name: &str) {
        let text = self.clock.now().to_string();
        self.merge_patch(resource, name, json!({"metadata": {"annotations": {"poke": text}}})).await;
    }

    pub(crate) async fn set_replicas(&self, name: &str, replicas: usize) {
        self.merge_patch(REPLICA_SET_RESOURCE, name, json!({"spec": {"replicas": replicas}})).await;
    }

    pub(crate) async fn list_pods(&self) -> Vec<Value> {
        self.sandbox.list("pods", Some(NAMESPACE)).await.unwrap()
    }

    /// Returns the names of the Pods that have not finished and are not terminating.
    pub(crate) async fn active_pod_names(&self) -> BTreeSet<String> {
        let live = |pod: &Value| {
            pod["metadata"]["deletionTimestamp"].is_null()
                && !["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or(""))
        };
        self.list_pods().await.iter().filter(|pod| live(pod)).map(|pod| object_name(pod).to_owned()).collect()
    }

    /// Returns the Events as "type reason message", sorted; a series of equal Events is one line.
    pub(crate) async fn event_texts(&self) -> Vec<String> {
        let events = self.sandbox.list("events", Some(NAMESPACE)).await.unwrap();
        let mut out: Vec<String> = events
            .iter()
            .map(|e| {
                format!(
                    "{} {} {}",
                    e["type"].as_str().unwrap(),
                    e["reason"].as_str().unwrap(),
                    e["message"].as_str().unwrap()
                )
            })
            .collect();
        out.sort();
        out
    }

    pub(crate) async fn conditions_of_set(&self, set: &str) -> Vec<Value> {
        self.get_object(REPLICA_SET_RESOURCE, set).await["status"]["conditions"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the maximum count of Pods that existed at one time and were not terminating, from the log of writes.
    pub(crate) fn max_live_pod_count(&self) -> usize {
        let (mut live, mut peak) = (BTreeSet::new(), 0);
        for write in self.sandbox.writes().all().iter().filter(|w| w.resource == "pods") {
            let going = write.after().is_none_or(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
            if going || write.change == Change::Deleted {
                live.remove(&write.name);
            } else {
                live.insert(write.name.clone());
            }
            peak = peak.max(live.len());
        }
        peak
    }
}

/// Returns a refusal in the form of an API server's answer.
pub(crate) fn refusal_response(code: u16, reason: &str, message: &str, causes: &Value) -> Response<ResponseBody> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "details": {"causes": causes}, "code": code});
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never: Infallible| match never {}).boxed_unsync();
    Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

pub(crate) fn object_name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

pub(crate) fn pod_spec() -> Value {
    json!({"containers": [{"name": "c", "image": "img:1"}]})
}

/// Returns a ReplicaSet that selects `app=<name>`.
pub(crate) fn replica_set(name: &str, replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec()}},
    })
}

/// Returns a ReplicationController that selects `app=<name>`.
pub(crate) fn replication_controller(name: &str, replicas: usize) -> Value {
    let mut rc = replica_set(name, replicas);
    rc["apiVersion"] = json!("v1");
    rc["kind"] = json!("ReplicationController");
    rc["spec"]["selector"] = json!({"app": name});
    rc
}

/// Returns a Pod without a controller and with this value of the label `app`.
pub(crate) fn orphan_pod(name: &str, app: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": app}}, "spec": pod_spec()})
}

pub(crate) fn owner_names(pod: &Value) -> Vec<String> {
    let refs = pod["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    refs.iter().map(|r| format!("{} {}", r["kind"].as_str().unwrap(), r["name"].as_str().unwrap())).collect()
}
