//! The bodies of new Pods. All Pods of a sync share a template, and a node affinity pins each Pod to its node.

use std::{collections::BTreeMap, sync::Arc};

use common::{pods::PODS, refs::Owner};
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use crate::objects::{DaemonSet, HASH_LABEL, TEMPLATE_GENERATION_LABEL, automatic_tolerations};

/// Greatest length of a Pod's name that the API server accepts, in bytes.
const LONGEST_NAME: usize = 253;

/// The members of a JSON object by name. Their values stay unparsed.
type Members = BTreeMap<String, Box<RawValue>>;

/// The parsed template from which a sync makes all new Pods of a DaemonSet.
#[derive(Debug)]
pub(super) struct PodSource {
    /// The prefix of the Pods' names, for `metadata.generateName`: the name of the DaemonSet and a dash.
    generate_name: Arc<str>,
    /// Approximate size of one Pod, in bytes.
    size: usize,
    metadata: Box<RawValue>,
    /// The members of `spec` without `affinity`.
    spec: Members,
    /// The members of `spec.affinity` without `nodeAffinity`.
    affinity: Members,
    /// The members of `spec.affinity.nodeAffinity` without the required terms.
    node_affinity: Members,
}

/// The JSON of a new Pod that is pinned to one node.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewPod<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: &'a RawValue,
    spec: Spec<'a>,
}

#[derive(Serialize)]
struct Spec<'a> {
    #[serde(flatten)]
    others: &'a Members,
    affinity: Affinity<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Affinity<'a> {
    #[serde(flatten)]
    others: &'a Members,
    node_affinity: NodeAffinity<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeAffinity<'a> {
    #[serde(flatten)]
    others: &'a Members,
    required_during_scheduling_ignored_during_execution: Value,
}

/// Splits a JSON object into its members. JSON `null` has no members.
fn members(raw: &RawValue) -> serde_json::Result<Members> {
    Ok(serde_json::from_str::<Option<_>>(raw.get())?.unwrap_or_default())
}

impl PodSource {
    /// Parses the template of a DaemonSet. `hash` is the hash of the current revision. The error names a value that the API
    /// server's validation refuses.
    ///
    /// Upstream: `pkg/controller/daemon/util`, `CreatePodTemplate`; `pkg/controller`, `GetPodFromTemplate`.
    pub(super) fn new(set: &DaemonSet, owner: &Owner, hash: &str) -> serde_json::Result<Self> {
        let take = |from: &mut Members, name| from.remove(name).map_or(Ok(Members::new()), |part| members(&part));
        let mut template: Members = serde_json::from_str(set.template.text())?;
        let metadata = take(&mut template, "metadata")?;
        let mut spec = take(&mut template, "spec")?;
        let mut affinity = take(&mut spec, "affinity")?;
        let mut node_affinity = take(&mut affinity, "nodeAffinity")?;
        let host_network = spec.get("hostNetwork").is_some_and(|value| value.get() == "true");
        let tolerations = spec.remove("tolerations").map(|value| serde_json::from_str(value.get())).transpose()?;
        let tolerations = with_automatic_tolerations(tolerations.flatten().unwrap_or_default(), host_network);
        spec.insert("tolerations".to_owned(), serde_json::value::to_raw_value(&tolerations)?);
        let name = &set.metadata.name;
        let dash = if name.len() < LONGEST_NAME { "-" } else { "" };
        let generate_name: Arc<str> = format!("{name}{dash}").into();
        let metadata = metadata_of(set, owner, hash, &generate_name, &metadata)?;
        let parts = [&spec, &affinity, &node_affinity].into_iter().flatten();
        let size = metadata.get().len() + parts.map(|(name, value)| name.len() + value.get().len()).sum::<usize>();
        // The pin replaces the required terms of the template, which the decision about the node has already checked.
        node_affinity.remove("requiredDuringSchedulingIgnoredDuringExecution");
        Ok(Self { generate_name, size, metadata, spec, affinity, node_affinity })
    }

    pub(super) fn generate_name(&self) -> &Arc<str> {
        &self.generate_name
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Returns the Pod for the node with this name.
    pub(super) fn pod(&self, node: &str) -> NewPod<'_> {
        let pin = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let node_affinity = NodeAffinity {
            others: &self.node_affinity,
            required_during_scheduling_ignored_during_execution: json!({"nodeSelectorTerms": [{"matchFields": [pin]}]}),
        };
        let affinity = Affinity { others: &self.affinity, node_affinity };
        let spec = Spec { others: &self.spec, affinity };
        NewPod { api_version: PODS.version, kind: PODS.kind, metadata: &self.metadata, spec }
    }
}

fn metadata_of(
    set: &DaemonSet,
    owner: &Owner,
    hash: &str,
    generate_name: &str,
    template: &Members,
) -> serde_json::Result<Box<RawValue>> {
    let labels = template.get("labels").map(|labels| serde_json::from_str::<Option<Map<String, Value>>>(labels.get()));
    let mut labels = labels.transpose()?.flatten().unwrap_or_default();
    labels.insert(HASH_LABEL.to_owned(), hash.into());
    if let Some(generation) = set.template_generation() {
        labels.insert(TEMPLATE_GENERATION_LABEL.to_owned(), generation.to_string().into());
    }
    let mut metadata: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
    metadata.insert("generateName", serde_json::value::to_raw_value(generate_name)?);
    metadata.insert("labels", serde_json::value::to_raw_value(&labels)?);
    metadata.insert("ownerReferences", serde_json::value::to_raw_value(&[owner.controller_ref()])?);
    for field in ["annotations", "finalizers"] {
        if let Some(value) = template.get(field).filter(|value| value.get() != "null") {
            metadata.insert(field, value.clone());
        }
    }
    serde_json::value::to_raw_value(&metadata)
}

/// Adds the tolerations that every daemon Pod gets. Such a toleration replaces a toleration of the template with the same key,
/// operator, effect and value, so the replaced toleration loses its `tolerationSeconds`.
///
/// Upstream: `pkg/apis/core/v1/helper`, `AddOrUpdateTolerationInPodSpec`.
fn with_automatic_tolerations(mut tolerations: Vec<Value>, host_network: bool) -> Vec<Value> {
    let text = |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
    for (key, effect) in automatic_tolerations(host_network) {
        let own = json!({"key": key, "operator": "Exists", "effect": effect});
        let is_same = |known: &Value| {
            ["key", "operator", "effect", "value"].iter().all(|field| text(known, field) == text(&own, field))
        };
        let mut replaced = false;
        for known in tolerations.iter_mut().filter(|known| is_same(known)) {
            known.clone_from(&own);
            replaced = true;
        }
        if !replaced {
            tolerations.push(own);
        }
    }
    tolerations
}

#[cfg(test)]
mod tests;
