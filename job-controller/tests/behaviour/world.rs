//! An API server in memory (the sandbox) with nodes that run Pods, and the loops under test.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use common::{prelude::*, settings::OperatorSettings};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use sandbox::{Builder, Change, ConnectionCut, ResponseBody, Sandbox, Write, loops::Loops, nodes::Nodes};
use serde_json::{Value, json};
use tower::Service as _;

/// The identity of the loops under test, as the sandbox records it for each request.
pub(crate) const CONTROLLER_IDENTITY: &str = "controllers";
/// The namespace of all objects in these tests.
pub(crate) const NAMESPACE: &str = "shop";
pub(crate) const JOBS_RESOURCE: &str = "jobs.batch";
pub(crate) const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The annotation and label key of the completion index.
pub(crate) const COMPLETION_INDEX_KEY: &str = "batch.kubernetes.io/job-completion-index";

/// A function that receives each request before the server does, and may answer it instead of the server.
pub(crate) type RequestFilter = Arc<dyn Fn(&Request<Bytes>) -> Option<Response<ResponseBody>> + Send + Sync>;

pub(crate) struct TestCluster {
    pub(crate) sandbox: Sandbox,
    pub(crate) clock: Clock,
    pub(crate) loops: Option<Loops>,
    _nodes: Nodes,
    filter: Option<RequestFilter>,
    settings: OperatorSettings,
}

pub(crate) struct ClusterSetup {
    pub(crate) builder: Builder,
    pub(crate) settings: OperatorSettings,
    pub(crate) filter: Option<RequestFilter>,
}

impl Default for ClusterSetup {
    fn default() -> Self {
        Self { builder: Sandbox::builder(), settings: OperatorSettings::new(), filter: None }
    }
}

impl TestCluster {
    pub(crate) async fn new() -> Self {
        Self::with_setup(ClusterSetup::default()).await
    }

    pub(crate) async fn with_setup(setup: ClusterSetup) -> Self {
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
        world.start();
        world.wait_until_settled().await;
        world.reset_counts();
        world
    }

    /// Starts new loops, as a new process would.
    pub(crate) fn start(&mut self) {
        self.loops = Some(Loops::start(&self.client(), &self.clock, self.settings.clone(), job_controller::LOOPS));
    }

    /// Sets a feature gate for the next start of the loops.
    pub(crate) fn set_gate(&mut self, gate: &str, on: bool) {
        self.settings = self.settings.clone().with_feature_gate(gate, on);
    }

    /// Starts new loops that decide and write nothing (shadow mode), and resets the counts of requests and writes.
    pub(crate) fn start_shadow_loops(&mut self) {
        self.settings = self.settings.clone().with_shadow_mode(true);
        self.start();
        self.reset_counts();
    }

    /// Drops the loops without a shutdown, as if the process had crashed.
    pub(crate) fn crash_loops(&mut self) {
        self.loops = None;
    }

    /// Whether a filter answers some requests instead of the server.
    pub(crate) fn has_filter(&self) -> bool {
        self.filter.is_some()
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
        panic!("the loops do not settle: {:#?}", self.loops.as_ref().map(|l| l.explain(None)));
    }

    /// Empties the logs of requests and writes, so that a test counts only later requests and writes.
    pub(crate) fn reset_counts(&self) {
        self.sandbox.requests().clear();
        self.sandbox.writes().clear();
    }

    /// Returns the number of requests of the loops with this verb and resource.
    pub(crate) fn request_count(&self, verb: &str, resource: &str) -> u64 {
        self.sandbox.requests().count(Some(CONTROLLER_IDENTITY), Some(verb), Some(resource))
    }

    /// Returns the writes of the loops, except Events.
    pub(crate) fn writes_of_loops(&self) -> Vec<Arc<Write>> {
        let all = self.sandbox.writes().all();
        all.into_iter().filter(|w| w.identity == CONTROLLER_IDENTITY && w.resource != "events").collect()
    }

    pub(crate) async fn create_object(&self, object: Value) -> Value {
        self.sandbox.create(object).await.unwrap()
    }

    pub(crate) async fn merge(&self, resource: &str, name: &str, patch: Value) -> Value {
        self.sandbox.merge(resource, Some(NAMESPACE), name, None, patch).await.unwrap()
    }

    pub(crate) async fn get(&self, resource: &str, name: &str) -> Value {
        self.sandbox.get(resource, Some(NAMESPACE), name).await.unwrap()
    }

    /// Deletes a Job with this propagation policy, such as `Foreground`.
    pub(crate) async fn delete_job(&self, job: &str, propagation: &str) {
        let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}");
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation});
        self.sandbox.send(http::Method::DELETE, &path, "application/json", Some(&options)).await.unwrap();
    }

    /// Merges these fields into the `spec` of a Job.
    pub(crate) async fn patch_job_spec(&self, job: &str, spec: Value) {
        self.merge(JOBS_RESOURCE, job, json!({ "spec": spec })).await;
    }

    /// Changes an irrelevant annotation, so that the Job is enqueued.
    pub(crate) async fn touch_job(&self, job: &str) {
        let text = self.clock.now().to_string();
        self.merge(JOBS_RESOURCE, job, json!({"metadata": {"annotations": {"poke": text}}})).await;
    }

    pub(crate) async fn job_status(&self, job: &str) -> Value {
        self.get(JOBS_RESOURCE, job).await["status"].clone()
    }

    /// Returns the type and reason of each condition that is `True`.
    pub(crate) async fn conditions(&self, job: &str) -> Vec<String> {
        let status = self.job_status(job).await;
        let list = status["conditions"].as_array().cloned().unwrap_or_default();
        let text = |c: &Value, field: &str| c[field].as_str().unwrap_or_default().to_owned();
        let shown = list.iter().filter(|c| c["status"] == "True");
        shown.map(|c| format!("{} {}", text(c, "type"), text(c, "reason"))).collect()
    }

    /// Merges these fields into the status of a Pod, as its kubelet would.
    pub(crate) async fn patch_pod_status(&self, pod: &str, status: Value) {
        self.sandbox.merge("pods", Some(NAMESPACE), pod, Some("status"), json!({ "status": status })).await.unwrap();
    }

    pub(crate) async fn pods(&self) -> Vec<Value> {
        self.sandbox.list("pods", Some(NAMESPACE)).await.unwrap()
    }

    /// Returns the names of Pods that are neither finished nor terminating.
    pub(crate) async fn active_pod_names(&self) -> BTreeSet<String> {
        let live = |pod: &Value| {
            pod["metadata"]["deletionTimestamp"].is_null()
                && !["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or(""))
        };
        self.pods().await.iter().filter(|pod| live(pod)).map(|pod| name(pod).to_owned()).collect()
    }

    /// Returns all Events as type, reason and message, sorted; repeated Events occur once.
    pub(crate) async fn events(&self) -> Vec<String> {
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

    /// Returns the maximal number of Pods that existed at the same time and were not terminating, from the log of writes.
    pub(crate) fn max_live_pods(&self) -> usize {
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

/// Builds an answer of the server with this HTTP code and a `Status` as its body.
pub(crate) fn error_response(code: u16, reason: &str, message: &str, causes: &Value) -> Response<ResponseBody> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "details": {"causes": causes}, "code": code});
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never: Infallible| match never {}).boxed_unsync();
    Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Builds a Job with one completion and the annotations `sim/<name>: <value>` for its Pods.
pub(crate) fn job(name: &str, script: &[(&str, &str)]) -> Value {
    let script: serde_json::Map<String, Value> =
        script.iter().map(|(key, value)| (format!("sim/{key}"), json!(value))).collect();
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"template": {"metadata": {"annotations": script},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}},
    })
}

/// Builds a Job with additional fields in its `spec`.
pub(crate) fn job_with_spec(name: &str, script: &[(&str, &str)], spec: Value) -> Value {
    let mut job = job(name, script);
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    job
}

/// Builds a Pod with these labels and without a controller.
pub(crate) fn orphan_pod(name: &str, labels: Value, script: &[(&str, &str)]) -> Value {
    let template = job("x", script)["spec"]["template"].clone();
    let annotations = template["metadata"]["annotations"].clone();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "annotations": annotations},
        "spec": template["spec"]})
}

pub(crate) fn finalizers(pod: &Value) -> Vec<&str> {
    pod["metadata"]["finalizers"]
        .as_array()
        .map_or_else(Vec::new, |list| list.iter().filter_map(Value::as_str).collect())
}
