//! The request bodies for the objects that a set creates: Pods, claims, revisions.

use std::collections::BTreeSet;

use common::{pods::PODS, prelude::*, revision::body::NewRevision, wire::messages};
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    decide::revisions,
    objects::{
        PERSISTENT_VOLUME_CLAIMS, POD_INDEX_LABEL, POD_NAME_LABEL, REVISION_HASH_LABEL, REVISION_LABEL, StatefulSet,
        VolumeClaimTemplate,
    },
    snapshot::Snapshot,
};

fn object(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// Makes the Pod of an ordinal from the template of a revision; `None` if the template is malformed. Upstream:
/// `newStatefulSetPod`, `updateStorage`.
pub(super) fn build_pod(
    set: &StatefulSet,
    owner: &Owner,
    ordinal: i32,
    mut template: Value,
    revision: &str,
) -> Option<Value> {
    let name = set.pod_name(ordinal);
    let mut metadata = template.get_mut("metadata").map(Value::take).unwrap_or_default();
    let mut metadata = std::mem::take(object(&mut metadata)?);
    metadata.retain(|field, _| matches!(field.as_str(), "labels" | "annotations" | "finalizers"));
    let labels = object(metadata.entry("labels").or_insert(Value::Null))?;
    for (key, value) in
        [(POD_NAME_LABEL, name.as_str()), (POD_INDEX_LABEL, &ordinal.to_string()), (REVISION_LABEL, revision)]
    {
        labels.insert(key.to_owned(), value.into());
    }
    metadata.insert("generateName".to_owned(), format!("{}-", set.metadata.name).into());
    metadata.insert("name".to_owned(), name.as_str().into());
    metadata.insert("namespace".to_owned(), set.metadata.namespace.as_str().into());
    metadata.insert("ownerReferences".to_owned(), json!([owner.controller_reference()]));
    let mut spec = template.get_mut("spec").map(Value::take).unwrap_or_default();
    let spec_fields = object(&mut spec)?;
    spec_fields.insert("hostname".to_owned(), name.into());
    spec_fields.insert("subdomain".to_owned(), set.service_name.as_str().into());
    if set.service_name.is_empty() {
        spec_fields.remove("subdomain");
    }
    if !set.volume_claim_templates.is_empty() {
        let own = set.volume_claim_templates.iter().map(
            |claim| json!({"name": claim.name, "persistentVolumeClaim": {"claimName": set.volume_claim_name(claim, ordinal)}}),
        );
        let names: BTreeSet<&str> = set.volume_claim_templates.iter().map(|claim| claim.name.as_str()).collect();
        let is_own = |volume: &Value| volume["name"].as_str().is_some_and(|name| names.contains(name));
        let others = spec_fields.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
        let volumes = own.chain(others.into_iter().filter(|volume| !is_own(volume))).collect();
        spec_fields.insert("volumes".to_owned(), volumes);
    }
    Some(json!({"apiVersion": PODS.version(), "kind": PODS.kind(), "metadata": metadata, "spec": spec}))
}

/// Returns the labels with the Pod's name and ordinal. The ordinal is omitted if its digits exceed an `i32`.
pub(super) fn identity_labels(name: &str, ordinal: Option<i32>) -> Value {
    let mut labels = json!({POD_NAME_LABEL: name});
    if let Some(ordinal) = ordinal {
        labels[POD_INDEX_LABEL] = json!(ordinal.to_string());
    }
    labels
}

/// Makes the volume claim `name` from its template; `None` if the template is malformed. Upstream: `getPersistentVolumeClaims`.
pub(super) fn build_volume_claim(set: &StatefulSet, template: &VolumeClaimTemplate, name: &str) -> Option<Value> {
    let mut claim: Value = template.raw.decode(&messages::PERSISTENT_VOLUME_CLAIM).ok()?;
    let fields = claim.as_object_mut()?;
    fields.insert("apiVersion".to_owned(), PERSISTENT_VOLUME_CLAIMS.version().into());
    fields.insert("kind".to_owned(), PERSISTENT_VOLUME_CLAIMS.kind().into());
    fields.remove("status");
    let metadata = object(fields.entry("metadata").or_insert(Value::Null))?;
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("namespace".to_owned(), set.metadata.namespace.as_str().into());
    let labels = object(metadata.entry("labels").or_insert(Value::Null))?;
    for (key, value) in set.selector.match_labels().iter() {
        labels.insert(key.to_owned(), value.into());
    }
    if labels.is_empty() {
        metadata.remove("labels");
    }
    Some(claim)
}

/// Makes the revision `name` of the set's template. The server stores the bytes of `data` as they are sent.
///
/// The hash in the label is the hash before any collision of this sync. Upstream: `newRevision`, `NewControllerRevision`.
pub(super) fn build_revision(
    snapshot: &Snapshot,
    number: i64,
    collisions: i32,
    name: &str,
) -> serde_json::Result<Box<RawValue>> {
    let hash = revisions::template_hash(&snapshot.template, collisions);
    let annotations = &snapshot.set.metadata.annotations;
    NewRevision { name, revision: number, hash_label: (REVISION_HASH_LABEL, &hash), annotations }
        .creation_request_body(&snapshot.owner, &snapshot.template)
}

#[cfg(test)]
mod tests;
