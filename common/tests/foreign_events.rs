//! The head of an object (its name, version and owners, decoded first) shows whether another controller owns the object.

use common::{
    head::ObjectHead,
    meta::Meta,
    object::{EncodedObject, Object, Resource},
    pods::{PODS, Pod},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// A Pod. It concerns the controller under test if its own controller is a DaemonSet, or if it has no controller.
#[derive(Deserialize)]
struct DaemonPod(Pod);

impl Object for DaemonPod {
    const RESOURCE: Resource = PODS;
    type Indexes = ();
    const HEAD_FILTER: Option<fn(&ObjectHead<'_>) -> bool> =
        Some(|head| head.controller_kind().is_none_or(|kind| kind == "DaemonSet"));

    fn meta(&self) -> &Meta {
        &self.0.meta
    }
}

fn pod(owners: &Value) -> String {
    let metadata = json!({"name": "web-7c99d5cb8d-abcde", "namespace": "shop", "resourceVersion": "1",
        "ownerReferences": owners});
    // The fields are in the order in which API servers write them.
    format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{metadata},"status":{{"phase":"Running"}}}}"#)
}

fn owner(kind: &str, controller: bool) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "30f731ae-b0d1-491c-a286-da4a1c1a8b15", "controller": controller})
}

#[test]
fn an_object_of_another_controller_is_foreign() {
    let owners = [owner("Node", false), owner("ReplicaSet", true), owner("DaemonSet", true)];
    let pod = pod(&json!(owners));
    let head = EncodedObject::Json(&pod).head_if_filtered_out::<DaemonPod>().unwrap();
    assert_eq!((head.name(), head.controller_kind()), ("web-7c99d5cb8d-abcde", Some("ReplicaSet")));
}

#[test]
fn an_object_that_may_concern_this_controller_is_not_foreign() {
    for owners in [json!(null), json!([]), json!([owner("DaemonSet", true)]), json!([owner("ReplicaSet", false)])] {
        assert!(EncodedObject::Json(&pod(&owners)).head_if_filtered_out::<DaemonPod>().is_none(), "{owners}");
    }
    // If several owners are marked as the controller, the first one is the controller, as in every other lookup.
    let owners = [owner("Node", false), owner("DaemonSet", true), owner("ReplicaSet", true)];
    assert!(EncodedObject::Json(&pod(&json!(owners))).head_if_filtered_out::<DaemonPod>().is_none());
    for unusual in [
        r#"{"spec":{},"metadata":{"name":"a","resourceVersion":"1","ownerReferences":[{"kind":"ReplicaSet","controller":true}]}}"#,
        r#"{"kind":"Pod","metadata":{"resourceVersion":"1","ownerReferences":[{"kind":"ReplicaSet","controller":true}]}}"#,
        r#"{"kind":"Pod","metadata":{"name":"a","resourceVersion":"1","ownerReferences":{"kind":"ReplicaSet"}}}"#,
        r#"{"kind":"P\"od","metadata":null}"#,
        "null",
        "",
    ] {
        assert!(EncodedObject::Json(unusual).head_if_filtered_out::<DaemonPod>().is_none(), "{unusual}");
    }
}
