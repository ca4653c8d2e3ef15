//! The bodies of new Pods. All Pods of a sync share a template, and a node affinity pins each Pod to its node.

use std::{collections::BTreeMap, sync::Arc};

use common::refs::Owner;
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use crate::objects::{DaemonSet, REVISION_HASH_LABEL, TEMPLATE_GENERATION_LABEL, automatic_tolerations};

/// Greatest length of a Pod's name that the API server accepts, in bytes.
const MAX_POD_NAME_BYTES: usize = 253;

/// The members of a JSON object by name. Their values stay unparsed.
type JsonMembers = BTreeMap<String, Box<RawValue>>;

/// The parsed template from which a sync makes all new Pods of a DaemonSet.
#[derive(Debug)]
pub(super) struct PodBodyTemplate {
    /// The prefix of the Pods' names, for `metadata.generateName`: the name of the DaemonSet and a dash.
    pub(super) generate_name: Arc<str>,
    pub(super) approximate_pod_bytes: usize,
    metadata: Box<RawValue>,
    /// The members of `spec` without `affinity`.
    spec: JsonMembers,
    /// The members of `spec.affinity` without `nodeAffinity`.
    affinity: JsonMembers,
    /// The members of `spec.affinity.nodeAffinity` without the required terms.
    node_affinity: JsonMembers,
}

/// The JSON of a new Pod that is pinned to one node.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewPodBody<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: &'a RawValue,
    spec: Spec<'a>,
}

#[derive(Serialize)]
struct Spec<'a> {
    #[serde(flatten)]
    others: &'a JsonMembers,
    affinity: Affinity<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Affinity<'a> {
    #[serde(flatten)]
    others: &'a JsonMembers,
    node_affinity: NodeAffinity<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeAffinity<'a> {
    #[serde(flatten)]
    others: &'a JsonMembers,
    required_during_scheduling_ignored_during_execution: Value,
}

/// Splits a JSON object into its members. JSON `null` has no members.
fn split_json_members(raw: &RawValue) -> serde_json::Result<JsonMembers> {
    Ok(serde_json::from_str::<Option<_>>(raw.get())?.unwrap_or_default())
}

impl PodBodyTemplate {
    /// Parses the template of a DaemonSet. `hash` is the hash of the current revision. The error names a value that the API
    /// server's validation refuses.
    ///
    /// Upstream: `pkg/controller/daemon/util`, `CreatePodTemplate`; `pkg/controller`, `GetPodFromTemplate`.
    pub(super) fn new(set: &DaemonSet, owner: &Owner, hash: &str) -> serde_json::Result<Self> {
        let take = |members: &mut JsonMembers, name| {
            members.remove(name).map_or(Ok(JsonMembers::new()), |part| split_json_members(&part))
        };
        let mut template: JsonMembers = serde_json::from_str(set.template.text())?;
        let metadata = take(&mut template, "metadata")?;
        let mut spec = take(&mut template, "spec")?;
        let mut affinity = take(&mut spec, "affinity")?;
        let mut node_affinity = take(&mut affinity, "nodeAffinity")?;
        let host_network = spec.get("hostNetwork").is_some_and(|value| value.get() == "true");
        let tolerations = spec.remove("tolerations").map(|value| serde_json::from_str(value.get())).transpose()?;
        let tolerations = with_automatic_tolerations(tolerations.flatten().unwrap_or_default(), host_network);
        spec.insert("tolerations".to_owned(), serde_json::value::to_raw_value(&tolerations)?);
        let name = &set.metadata.name;
        let dash = if name.len() < MAX_POD_NAME_BYTES { "-" } else { "" };
        let generate_name: Arc<str> = format!("{name}{dash}").into();
        let metadata = pod_metadata_json(set, owner, hash, &generate_name, &metadata)?;
        let parts = [&spec, &affinity, &node_affinity].into_iter().flatten();
        let approximate_pod_bytes =
            metadata.get().len() + parts.map(|(name, value)| name.len() + value.get().len()).sum::<usize>();
        // The decision to run a Pod on the node has already checked the required terms of the template. The pin replaces them.
        node_affinity.remove("requiredDuringSchedulingIgnoredDuringExecution");
        Ok(Self { generate_name, approximate_pod_bytes, metadata, spec, affinity, node_affinity })
    }

    /// Returns a Pod with a required node affinity that matches only the node with this name.
    pub(super) fn pod_body_for_node(&self, node: &str) -> NewPodBody<'_> {
        let pin = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let node_affinity = NodeAffinity {
            others: &self.node_affinity,
            required_during_scheduling_ignored_during_execution: json!({"nodeSelectorTerms": [{"matchFields": [pin]}]}),
        };
        let affinity = Affinity { others: &self.affinity, node_affinity };
        let spec = Spec { others: &self.spec, affinity };
        NewPodBody { api_version: "v1", kind: "Pod", metadata: &self.metadata, spec }
    }
}

fn pod_metadata_json(
    set: &DaemonSet,
    owner: &Owner,
    hash: &str,
    generate_name: &str,
    template_members: &JsonMembers,
) -> serde_json::Result<Box<RawValue>> {
    let labels = template_members.get("labels");
    let labels = labels.map(|labels| serde_json::from_str::<Option<Map<String, Value>>>(labels.get()));
    let mut labels = labels.transpose()?.flatten().unwrap_or_default();
    labels.insert(REVISION_HASH_LABEL.to_owned(), hash.into());
    if let Some(generation) = set.template_generation() {
        labels.insert(TEMPLATE_GENERATION_LABEL.to_owned(), generation.to_string().into());
    }
    let mut metadata: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
    metadata.insert("generateName", serde_json::value::to_raw_value(generate_name)?);
    metadata.insert("labels", serde_json::value::to_raw_value(&labels)?);
    metadata.insert("ownerReferences", serde_json::value::to_raw_value(&[owner.controller_reference()])?);
    for field in ["annotations", "finalizers"] {
        if let Some(value) = template_members.get(field).filter(|value| value.get() != "null") {
            metadata.insert(field, value.clone());
        }
    }
    serde_json::value::to_raw_value(&metadata)
}

/// Adds the tolerations that every daemon Pod gets. Such a toleration replaces a toleration of the template with the same key,
/// operator, effect and value. The `tolerationSeconds` of the replaced toleration are lost.
///
/// Upstream: `pkg/apis/core/v1/helper`, `AddOrUpdateTolerationInPodSpec`.
fn with_automatic_tolerations(mut tolerations: Vec<Value>, host_network: bool) -> Vec<Value> {
    let text = |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
    for (key, effect) in automatic_tolerations(host_network) {
        let own = json!({"key": key, "operator": "Exists", "effect": effect});
        let is_same = |known: &Value| {
            ["key", "operator", "effect", "value"].iter().all(|field| text(known, field) == text(&own, field))
        };
        if !tolerations.iter().any(is_same) {
            tolerations.push(own);
            continue;
        }
        tolerations.iter_mut().filter(|known| is_same(known)).for_each(|known| known.clone_from(&own));
    }
    tolerations
}

#[cfg(test)]
mod tests;
