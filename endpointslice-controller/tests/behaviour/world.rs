//! A sandbox and the loops under test, without kubelets: tests set the status of Pods.

use std::time::Duration;

use common::{
    clock::Clock,
    settings::{OperatorSettings, TunableValue},
};
use sandbox::{Sandbox, loops::Loops};
use serde_json::{Value, json};

/// The name under which the sandbox records the requests of the loops.
pub(crate) const CONTROLLER_IDENTITY: &str = "controllers";
/// The namespace of all objects in the tests.
pub(crate) const NAMESPACE: &str = "shop";
pub(crate) const SLICE_RESOURCE: &str = "endpointslices.discovery.k8s.io";
pub(crate) const TRIGGER_TIME_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

pub(crate) struct TestCluster {
    pub(crate) sandbox: Sandbox,
    pub(crate) clock: Clock,
    settings: OperatorSettings,
    loops: Option<Loops>,
}

/// Builds the Service `web`, which selects Pods with `app: web` and their port 8080, with these additional fields in `spec`.
pub(crate) fn web_service(spec: &Value) -> Value {
    let mut service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": NAMESPACE, "labels": {"tier": "a"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}});
    for (key, value) in spec.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    service
}

impl TestCluster {
    pub(crate) async fn new() -> Self {
        Self::with_settings(OperatorSettings::new()).await
    }

    /// Creates a cluster in which a slice is full at `most` endpoints, and every sync remembers the slice of each Pod.
    pub(crate) async fn with_slice_size(most: u64) -> Self {
        let settings = OperatorSettings::new().with_tunable("max-endpoints-per-slice", TunableValue::Count(most));
        Self::with_settings(settings.with_tunable("endpointslice-min-pods-of-packing", TunableValue::Count(1))).await
    }

    /// Creates a cluster with the nodes `n0` to `n3`, alternating between the zones `z0` and `z1`.
    pub(crate) async fn with_settings(settings: OperatorSettings) -> Self {
        let clock = Clock::simulated("2026-03-01T10:00:00Z".parse().unwrap(), 7);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        sandbox
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
            .await
            .unwrap();
        let mut world = Self { sandbox, clock, settings, loops: None };
        for index in 0..4 {
            world.put_node(index, "True").await;
        }
        world.start_loops();
        world.wait_seconds(1).await;
        world
    }

    /// Creates the Node `n<index>`, or changes the status of its condition `Ready`.
    pub(crate) async fn put_node(&self, index: usize, ready: &str) {
        let name = format!("n{index}");
        let labels = json!({"topology.kubernetes.io/zone": format!("z{}", index % 2)});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
        if self.sandbox.get("nodes", None, &name).await.is_err() {
            self.sandbox.create(node).await.unwrap();
        }
        let status = json!({"status": {"allocatable": {"cpu": "2", "pods": "100"},
            "capacity": {"cpu": "2", "pods": "100"}, "conditions": [{"type": "Ready", "status": ready}]}});
        self.sandbox.merge("nodes", None, &name, Some("status"), status).await.unwrap();
    }

    /// Starts loops with empty caches and without memories, as a new process would.
    pub(crate) fn start_loops(&mut self) {
        let client = self.sandbox.client(CONTROLLER_IDENTITY);
        self.loops = Some(Loops::start(&client, &self.clock, self.settings.clone(), endpointslice_controller::LOOPS));
    }

    /// Drops the loops without a shutdown, as a crash of the process would.
    pub(crate) fn crash(&mut self) {
        self.loops = None;
    }

    pub(crate) async fn wait_seconds(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) async fn create_object(&self, object: Value) -> Value {
        self.sandbox.create(object).await.unwrap()
    }

    /// Creates the ready Pod `p<index>` on the node `n<index % 4>`, with the address `10.1.0.<index + 1>`.
    pub(crate) async fn create_pod(&self, index: usize) {
        self.create_pod_with(index, json!({}), true).await;
    }

    pub(crate) async fn create_pods(&self, indexes: std::ops::Range<usize>) {
        for index in indexes {
            self.create_pod(index).await;
        }
    }

    /// Creates the Pod `p<index>` like [`Self::create_pod`], but ready or unready, and with these additional fields in `spec`.
    pub(crate) async fn create_pod_with(&self, index: usize, more: Value, ready: bool) {
        let name = format!("p{index:03}");
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "web"}},
            "spec": {"nodeName": format!("n{}", index % 4), "containers": [{"name": "c", "image": "img:1"}]}});
        for (key, value) in more.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        self.sandbox.create(pod).await.unwrap();
        let ip = format!("10.1.{}.{}", index / 250, index % 250 + 1);
        let status = json!({"status": {"phase": "Running", "podIP": ip,
            "podIPs": [{"ip": ip}, {"ip": format!("fd00::{:x}", index + 1)}]}});
        self.sandbox.merge("pods", Some(NAMESPACE), &name, Some("status"), status).await.unwrap();
        self.set_pod_ready(index, ready).await;
    }

    /// Sets the condition `Ready` of the Pod `p<index>`, with the current time as its transition time.
    pub(crate) async fn set_pod_ready(&self, index: usize, ready: bool) {
        let now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let status = if ready { "True" } else { "False" };
        let conditions = json!([{"type": "Ready", "status": status, "lastTransitionTime": now}]);
        let patch = json!({"status": {"conditions": conditions}});
        self.sandbox.merge("pods", Some(NAMESPACE), &format!("p{index:03}"), Some("status"), patch).await.unwrap();
    }

    /// Deletes the object at an API path without a grace period. `NS` in the path stands for the namespace.
    pub(crate) async fn delete_path(&self, path: &str) {
        let path = path.replacen("NS", NAMESPACE, 1);
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        self.sandbox.send(http::Method::DELETE, &path, "application/json", Some(&options)).await.unwrap();
    }

    pub(crate) async fn delete_pod(&self, index: usize) {
        self.delete_path(&format!("/api/v1/namespaces/NS/pods/p{index:03}")).await;
    }

    pub(crate) async fn patch_object(&self, resource: &str, name: &str, patch: Value) {
        self.sandbox.merge(resource, Some(NAMESPACE), name, None, patch).await.unwrap();
    }

    pub(crate) async fn list_slices(&self) -> Vec<Value> {
        self.sandbox.list(SLICE_RESOURCE, Some(NAMESPACE)).await.unwrap()
    }

    /// Returns the only slice; panics if there is no slice or more than one.
    pub(crate) async fn only_slice(&self) -> Value {
        let mut slices = self.list_slices().await;
        assert_eq!(slices.len(), 1, "{slices:#?}");
        slices.remove(0)
    }

    /// Returns the number of endpoints in each slice, largest first.
    pub(crate) async fn slice_sizes(&self) -> Vec<usize> {
        let slices = self.list_slices().await;
        let mut sizes: Vec<usize> = slices.iter().map(|slice| endpoints_in(slice).len()).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes
    }

    /// Returns the count of requests with this verb and resource that the loops have sent.
    pub(crate) fn request_count(&self, verb: &str, resource: &str) -> u64 {
        self.sandbox.requests().count(Some(CONTROLLER_IDENTITY), Some(verb), Some(resource))
    }

    /// Returns the count of requests with which the loops have written slices.
    pub(crate) fn slice_write_count(&self) -> u64 {
        ["create", "patch", "update", "delete"].iter().map(|verb| self.request_count(verb, SLICE_RESOURCE)).sum()
    }

    /// Returns all Events as type, reason and message, sorted.
    pub(crate) async fn events(&self) -> Vec<String> {
        let events = self.sandbox.list("events", Some(NAMESPACE)).await.unwrap();
        let text = |e: &Value, field: &str| e[field].as_str().unwrap_or_default().to_owned();
        let mut out: Vec<String> = events
            .iter()
            .map(|e| format!("{} {} {}", text(e, "type"), text(e, "reason"), text(e, "message")))
            .collect();
        out.sort();
        out
    }

    /// Returns the times at which the loops acted on a key, with the actions.
    pub(crate) fn acted_plans(&self, key: &str) -> Vec<(jiff::Timestamp, Vec<String>)> {
        self.loops.as_ref().unwrap().plans(key)
    }

    pub(crate) fn explain(&self, key: &str) -> Value {
        self.loops.as_ref().unwrap().explain(Some(key))[0].clone()
    }
}

/// Returns the endpoints of a slice; empty if the field `endpoints` is missing.
pub(crate) fn endpoints_in(slice: &Value) -> Vec<Value> {
    slice["endpoints"].as_array().cloned().unwrap_or_default()
}

/// Returns the names of the Pods in a slice, in the order of its endpoints.
pub(crate) fn pod_names_in(slice: &Value) -> Vec<String> {
    endpoints_in(slice).iter().map(|e| e["targetRef"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}
