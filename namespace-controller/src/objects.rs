//! The fields of Namespaces that the controller reads and changes.

use std::collections::BTreeSet;

use common::{
    head::ObjectHead,
    partial_object::PartialObject,
    prelude::*,
    wire::{MessageSchema, messages},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// API resource of Namespaces.
pub const NAMESPACES: Resource = Resource::cluster_scoped("", "v1", "namespaces", "Namespace");
/// The entry in `spec.finalizers` that this controller removes.
const FINALIZER: &str = "kubernetes";

/// The metadata of a terminating Namespace. Other Namespaces are not cached.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Namespace(pub PartialObject);

impl Object for Namespace {
    const RESOURCE: Resource = NAMESPACES;
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::NAMESPACE);
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not general enough over lifetimes")]
    const HEAD_FILTER: Option<fn(&ObjectHead<'_>) -> bool> = Some(|head| head.is_deleting());

    fn meta(&self) -> &Meta {
        &self.0.metadata
    }
}

/// Returns the entries in `spec.finalizers` of a Namespace as the server sent it, sorted and unique.
pub fn finalizers_of(live: &Value) -> BTreeSet<&str> {
    live["spec"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Sets `status.phase` to `Terminating`. Returns whether this is a change.
pub fn set_terminating(live: &mut Value) -> bool {
    std::mem::replace(&mut live["status"]["phase"], json!("Terminating")) != "Terminating"
}

/// Removes the finalizer of this controller from the spec. Returns whether it was there.
pub fn remove_finalizer(live: &mut Value) -> bool {
    let mut finalizers = finalizers_of(live);
    let is_removed = finalizers.remove(FINALIZER);
    live["spec"]["finalizers"] = json!(finalizers);
    is_removed
}
