//! The caches of the controllers, and the recorded objects that they read.

use std::sync::Arc;

use allocation_counter::{AllocationInfo, measure};
use common::{
    api::{Api, WireFormat},
    clock::Clock,
    gate::closed_write_gate,
    informer::{LabelFilterSink, Sink, StoreAndHandlers, apply_watch_frame},
    metrics::{HiddenObjectMetrics, Metrics},
    object::Object,
};
use sandbox::{Sandbox, recorded};
use serde_json::{Value, json};

/// Both formats, as paths of guards name them.
pub(crate) const FORMATS: [(&str, WireFormat); 2] = [("protobuf", WireFormat::Protobuf), ("json", WireFormat::Json)];

/// The cache of a kind with its indexes and without handlers.
pub(crate) fn cached<K: Object>() -> StoreAndHandlers<K> {
    StoreAndHandlers::new(Arc::default(), Vec::new())
}

/// The same behind the selector of a label. Needs a runtime.
pub(crate) fn filtered<K: Object>(label: &'static str) -> LabelFilterSink<StoreAndHandlers<K>> {
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
    let sandbox = Sandbox::builder().clock(clock.clone()).build();
    let (_, gate) = closed_write_gate(clock.clone());
    let api = Api::new(sandbox.client("guards"), clock, gate, "guards");
    LabelFilterSink::new(&api, HiddenObjectMetrics::new(&Metrics::default(), K::RESOURCE), label, cached())
}

/// What the informer allocates for one frame.
pub(crate) fn cost<S: Sink>(sink: &S, format: WireFormat, frame: &[u8]) -> AllocationInfo {
    let mut result = Ok(());
    let cost = measure(|| result = apply_watch_frame(sink, format, frame));
    assert_eq!(result, Ok(()));
    cost
}

/// The kind of a guarded cache in the paths of guards, and an object of it with an owner of that kind.
pub(crate) fn recorded_object(plural: &str, owner: &str) -> (&'static str, Value) {
    let recorded = |name: &str| recorded::object(plural, name).unwrap();
    let owned = |name: &str| {
        let mut object = recorded(name);
        object["metadata"]["ownerReferences"][0]["kind"] = json!(owner);
        object
    };
    match plural {
        "pods" => ("pod", pod(owner)),
        "jobs" => ("job", owned("cron-1")),
        "controllerrevisions" => ("revision", owned("web-1")),
        "nodes" => ("node", recorded("node-1")),
        "leases" => {
            let mut lease = recorded("node-1");
            lease["metadata"]["namespace"] = json!("kube-node-lease");
            ("lease", lease)
        }
        "endpointslices" => ("slice", slice()),
        "replicasets" => ("replicaset", replica_set(owner)),
        plural => panic!("no guard has recorded {plural}"),
    }
}

/// A ReplicaSet with the metadata and the template of the recorded Pod, and a controller of that kind.
fn replica_set(controller: &str) -> Value {
    let mut pod = pod(controller);
    let labels = json!({"app": "web"});
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": pod["metadata"].take(),
        "spec": {"replicas": 3, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"].take()}},
        "status": {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "observedGeneration": 1}})
}

/// The recorded Pod, running, with a controller of that kind and labels as the controller gives them.
fn pod(controller: &str) -> Value {
    let mut pod = recorded::object("pods", "web-0").unwrap();
    pod["metadata"]["ownerReferences"][1]["kind"] = json!(controller);
    pod["metadata"]["finalizers"] =
        if controller == "Job" { json!(["batch.kubernetes.io/job-tracking"]) } else { json!([]) };
    let labels = &mut pod["metadata"]["labels"];
    let (label, value) = match controller {
        "ReplicaSet" => ("pod-template-hash", "7c99d5cb8d"),
        "StatefulSet" => ("statefulset.kubernetes.io/pod-name", "web-0"),
        "DaemonSet" => ("controller-revision-hash", "7c99d5cb8d"),
        _ => ("batch.kubernetes.io/job-name", "web"),
    };
    labels[label] = json!(value);
    pod
}

/// A recorded EndpointSlice, with twenty endpoints.
fn slice() -> Value {
    let mut slice = recorded::object("endpointslices", "web-abc").unwrap();
    let endpoint = |number: usize| {
        let mut endpoint = slice["endpoints"][0].clone();
        endpoint["addresses"] = json!([format!("10.1.0.{number}")]);
        endpoint["targetRef"]["name"] = json!(format!("web-{number}"));
        endpoint["targetRef"]["uid"] = json!(format!("6cf4650e-2d99-4df3-af2a-{number:012x}"));
        endpoint
    };
    slice["endpoints"] = (0..20).map(endpoint).collect();
    slice
}

/// The same object at another version.
pub(crate) fn at(mut object: Value, version: usize) -> Value {
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    object
}

/// Another object that has everything else in common. Its version follows the number.
pub(crate) fn numbered(mut object: Value, number: usize) -> Value {
    let metadata = &mut object["metadata"];
    metadata["name"] = json!(format!("{}-{number:05}", metadata["name"].as_str().unwrap()));
    metadata["uid"] = json!(format!("2ff731ae-b0d1-491c-a286-{number:012x}"));
    at(object, number + 1)
}
