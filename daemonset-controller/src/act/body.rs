//! The bodies of new Pods. All Pods of a sync share a template, and a node affinity pins each Pod to its node.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    json::null_as_default,
    meta::OwnerRef,
    refs::Owner,
    wire::{self, RawFields, RawMessage, messages},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::objects::{DaemonSet, REVISION_HASH_LABEL, TEMPLATE_GENERATION_LABEL, automatic_tolerations};

/// Greatest length of a Pod's name that the API server accepts, in bytes.
const MAX_POD_NAME_BYTES: usize = 253;

/// The parsed template from which a sync makes all new Pods of a DaemonSet.
#[derive(Debug)]
pub(super) struct PodBodyTemplate {
    /// The prefix of the Pods' names, for `metadata.generateName`: the name of the DaemonSet and a dash.
    pub(super) generate_name: Arc<str>,
    pub(super) approximate_pod_bytes: usize,
    metadata: Metadata,
    spec: RawMessage,
    affinity: RawMessage,
    node_affinity: RawMessage,
    /// The tolerations of the template, and those that every daemon Pod gets.
    tolerations: Vec<RawMessage>,
}

/// A new Pod that is pinned to one node.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewPodBody<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: &'a Metadata,
    spec: Spec<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    generate_name: Arc<str>,
    labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finalizers: Option<Vec<String>>,
    owner_references: [OwnerRef; 1],
}

#[derive(Serialize)]
struct Spec<'a> {
    #[serde(flatten)]
    others: RawFields<'a>,
    affinity: Affinity<'a>,
    tolerations: &'a [RawMessage],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Affinity<'a> {
    #[serde(flatten)]
    others: RawFields<'a>,
    node_affinity: NodeAffinity<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeAffinity<'a> {
    #[serde(flatten)]
    others: RawFields<'a>,
    required_during_scheduling_ignored_during_execution: Value,
}

/// The parts of a template that differ in the Pods of a DaemonSet, or are compared.
#[derive(Deserialize)]
struct TemplateParts {
    metadata: Option<TemplateMetadata>,
    spec: Option<RawMessage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TemplateMetadata {
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecParts {
    #[serde(default, deserialize_with = "null_as_default")]
    host_network: bool,
    affinity: Option<RawMessage>,
    tolerations: Option<Vec<RawMessage>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AffinityParts {
    node_affinity: Option<RawMessage>,
}

impl PodBodyTemplate {
    /// Reads the template of a DaemonSet. `hash` is the hash of the current revision. The error names a value that the API
    /// server's validation refuses.
    ///
    /// Upstream: `pkg/controller/daemon/util`, `CreatePodTemplate`; `pkg/controller`, `GetPodFromTemplate`.
    pub(super) fn new(set: &DaemonSet, owner: &Owner, hash: &str) -> Result<Self, wire::Error> {
        let TemplateParts { metadata, spec } = set.template.decode(&messages::POD_TEMPLATE_SPEC)?;
        let TemplateMetadata { labels, annotations, finalizers } = metadata.unwrap_or_default();
        let spec = spec.unwrap_or_default();
        let SpecParts { host_network, affinity, tolerations } = spec.decode(&messages::POD_SPEC)?;
        let affinity = affinity.unwrap_or_default();
        let AffinityParts { node_affinity } = affinity.decode(&messages::AFFINITY)?;
        let tolerations = with_automatic_tolerations(&spec, tolerations.unwrap_or_default(), host_network)?;
        let name = &set.metadata.name;
        let dash = if name.len() < MAX_POD_NAME_BYTES { "-" } else { "" };
        let generate_name: Arc<str> = format!("{name}{dash}").into();
        let mut labels = labels.unwrap_or_default();
        labels.insert(REVISION_HASH_LABEL.to_owned(), hash.to_owned());
        if let Some(generation) = set.template_generation() {
            labels.insert(TEMPLATE_GENERATION_LABEL.to_owned(), generation.to_string());
        }
        let owner_references = [owner.controller_reference()];
        Ok(Self {
            approximate_pod_bytes: set.template.len(),
            metadata: Metadata {
                generate_name: Arc::clone(&generate_name),
                labels,
                annotations,
                finalizers,
                owner_references,
            },
            generate_name,
            spec,
            affinity,
            node_affinity: node_affinity.unwrap_or_default(),
            tolerations,
        })
    }

    /// Returns a Pod with a required node affinity that matches only the node with this name.
    ///
    /// The decision to run a Pod on the node has already checked the required terms of the template. The pin replaces them.
    pub(super) fn pod_body_for_node(&self, node: &str) -> NewPodBody<'_> {
        const REQUIRED: &[&str] = &["requiredDuringSchedulingIgnoredDuringExecution"];
        let pin = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let node_affinity = NodeAffinity {
            others: self.node_affinity.fields_without(&messages::NODE_AFFINITY, REQUIRED),
            required_during_scheduling_ignored_during_execution: json!({"nodeSelectorTerms": [{"matchFields": [pin]}]}),
        };
        let affinity =
            Affinity { others: self.affinity.fields_without(&messages::AFFINITY, &["nodeAffinity"]), node_affinity };
        let others = self.spec.fields_without(&messages::POD_SPEC, &["affinity", "tolerations"]);
        let spec = Spec { others, affinity, tolerations: &self.tolerations };
        NewPodBody { api_version: "v1", kind: "Pod", metadata: &self.metadata, spec }
    }
}

/// Adds the tolerations that every daemon Pod gets. Such a toleration replaces a toleration of the template with the same key,
/// operator, effect and value. The `tolerationSeconds` of the replaced toleration are lost.
///
/// Upstream: `pkg/apis/core/v1/helper`, `AddOrUpdateTolerationInPodSpec`.
fn with_automatic_tolerations(
    raw_spec: &RawMessage,
    mut raw_tolerations: Vec<RawMessage>,
    host_network: bool,
) -> Result<Vec<RawMessage>, wire::Error> {
    #[derive(Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Toleration {
        #[serde(deserialize_with = "null_as_default")]
        key: String,
        #[serde(deserialize_with = "null_as_default")]
        operator: String,
        #[serde(deserialize_with = "null_as_default")]
        value: String,
        #[serde(deserialize_with = "null_as_default")]
        effect: String,
    }
    let known = raw_tolerations.iter().map(|raw| raw.decode(&messages::TOLERATION));
    let known: Vec<Toleration> = known.collect::<Result<_, _>>()?;
    for (key, effect) in automatic_tolerations(host_network) {
        let own = json!({"key": key, "operator": "Exists", "effect": effect});
        let own = raw_spec.encode_in_same_format(&messages::TOLERATION, &own)?;
        let is_same = |known: &Toleration| {
            (&*known.key, &*known.operator, &*known.value, &*known.effect) == (key, "Exists", "", effect)
        };
        if !known.iter().any(is_same) {
            raw_tolerations.push(own);
            continue;
        }
        let same = raw_tolerations.iter_mut().zip(&known).filter(|(_, known)| is_same(known));
        same.for_each(|(toleration, _)| toleration.clone_from(&own));
    }
    Ok(raw_tolerations)
}

#[cfg(test)]
mod tests;
