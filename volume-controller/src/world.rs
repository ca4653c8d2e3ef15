//! Builds the objects of the unit tests.

use std::sync::Arc;

use common::prelude::Object;
use serde_json::{Value, json};

use crate::objects::{Claim, Pod, Protected};

/// Decodes an object as a cache does.
pub(crate) fn object<T: Object>(object: &Value) -> Arc<T> {
    let mut object: T = serde_json::from_str(&object.to_string()).unwrap();
    object.drop_unneeded_fields();
    Arc::new(object)
}

/// Returns the metadata of a terminating object with these finalizers.
pub(crate) fn terminating(name: &str, finalizers: &[&str]) -> Value {
    json!({"name": name, "namespace": "shop", "uid": name, "finalizers": finalizers, "deletionTimestamp": "2026-11-30T08:00:00Z"})
}

/// Returns a terminating claim with the finalizer; `owner` is the UID of its controller.
pub(crate) fn held_claim(name: &str, owner: Option<&str>) -> Arc<Claim> {
    let mut metadata = terminating(name, &[Claim::FINALIZER]);
    if let Some(uid) = owner {
        metadata["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod", "name": "other", "uid": "x"},
                {"apiVersion": "v1", "kind": "Pod", "name": "any", "uid": uid, "controller": true}]);
    }
    object(&json!({ "metadata": metadata }))
}

/// Returns a Pod with a node and the UID `NAME-uid`. Its volumes `v0`, `v1` and so on have these sources.
pub(crate) fn pod(name: &str, sources: &[Value], metadata: &Value, phase: &str) -> Arc<Pod> {
    let volumes: Vec<Value> = sources
        .iter()
        .enumerate()
        .map(|(number, source)| {
            let mut volume = source.clone();
            volume["name"] = json!(format!("v{number}"));
            volume
        })
        .collect();
    let mut pod = json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("{name}-uid")},
        "spec": {"nodeName": "node-1", "volumes": volumes}, "status": {"phase": phase}});
    for (field, value) in metadata.as_object().into_iter().flatten() {
        pod["metadata"][field] = value.clone();
    }
    object(&pod)
}

/// Returns the source of a volume with the claim of a user.
pub(crate) fn claim_source(claim: &str) -> Value {
    json!({"persistentVolumeClaim": {"claimName": claim, "readOnly": true}})
}

/// Returns the source of an ephemeral volume.
pub(crate) fn ephemeral_source() -> Value {
    json!({"ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}, "name": "ignored"}, "spec": {"newer": 1}}}})
}
