//! The Pods of a DaemonSet: one source for all nodes, and what pins each of them to its node.

use std::{collections::BTreeMap, sync::Arc};

use common::{pods::PODS, refs::Owner};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value, json, value::RawValue};

use crate::objects::{DaemonSet, HASH_LABEL, TEMPLATE_GENERATION_LABEL, automatic_tolerations};

/// The longest name of a Pod, in bytes.
const LONGEST_NAME: usize = 253;

/// What the Pods of one sync are made from. The template is parsed once, however many Pods there are.
#[derive(Debug)]
pub struct PodSource {
    /// The beginning of the names.
    generate_name: Arc<str>,
    metadata: Box<RawValue>,
    /// The specification without the node affinity.
    spec: BTreeMap<String, Box<RawValue>>,
    /// The members of `affinity` besides `nodeAffinity`.
    affinity: BTreeMap<String, Box<RawValue>>,
    /// The members of `affinity.nodeAffinity` besides what is required.
    node_affinity: BTreeMap<String, Box<RawValue>>,
}

/// The Pod for one node.
#[derive(Clone, Copy, Debug)]
pub struct PodFor<'a> {
    source: &'a PodSource,
    node: &'a str,
}

/// Reads an object, or null, by its members.
fn members(raw: &RawValue) -> serde_json::Result<BTreeMap<String, Box<RawValue>>> {
    Ok(serde_json::from_str::<Option<_>>(raw.get())?.unwrap_or_default())
}

impl PodSource {
    /// The source of the Pods of a set whose current revision has that hash. The error says what the API server's validation would
    /// have refused.
    ///
    /// Upstream: `pkg/controller/daemon/util`, `CreatePodTemplate`; `pkg/controller`, `GetPodFromTemplate`.
    pub fn new(set: &DaemonSet, owner: &Owner, hash: &str) -> serde_json::Result<Self> {
        let mut template: BTreeMap<String, Box<RawValue>> = serde_json::from_str(set.template.text())?;
        let mut part = |name: &str| template.remove(name).map_or(Ok(BTreeMap::new()), |part| members(&part));
        let (metadata, mut spec) = (part("metadata")?, part("spec")?);
        let mut affinity = spec.remove("affinity").map_or(Ok(BTreeMap::new()), |affinity| members(&affinity))?;
        let node_affinity = affinity.remove("nodeAffinity").map_or(Ok(BTreeMap::new()), |node| members(&node))?;
        let host_network = spec.get("hostNetwork").is_some_and(|value| value.get() == "true");
        let tolerations = spec.remove("tolerations").map(|value| serde_json::from_str(value.get())).transpose()?;
        let tolerations = with_automatic_tolerations(tolerations.flatten().unwrap_or_default(), host_network);
        spec.insert("tolerations".to_owned(), serde_json::value::to_raw_value(&tolerations)?);
        let name = &set.metadata.name;
        let dash = if name.len() < LONGEST_NAME { "-" } else { "" };
        let generate_name: Arc<str> = format!("{name}{dash}").into();
        let metadata = metadata_of(set, owner, hash, &generate_name, &metadata)?;
        Ok(Self { generate_name, metadata, spec, affinity, node_affinity })
    }

    /// The beginning of the names of the Pods.
    pub fn generate_name(&self) -> &Arc<str> {
        &self.generate_name
    }

    /// About how many bytes one Pod has.
    pub fn size(&self) -> usize {
        let parts = [&self.spec, &self.affinity, &self.node_affinity].into_iter().flatten();
        self.metadata.get().len() + parts.map(|(name, value)| name.len() + value.get().len()).sum::<usize>()
    }

    /// The Pod for a node.
    pub fn pod<'a>(&'a self, node: &'a str) -> PodFor<'a> {
        PodFor { source: self, node }
    }
}

fn metadata_of(
    set: &DaemonSet,
    owner: &Owner,
    hash: &str,
    generate_name: &str,
    template: &BTreeMap<String, Box<RawValue>>,
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

/// The tolerations of a template and those that every daemon Pod gets. Each toleration of the template that equals one of those is
/// replaced in its place, so that it has no time limit.
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

impl Serialize for PodFor<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut pod = serializer.serialize_map(Some(4))?;
        pod.serialize_entry("apiVersion", PODS.version)?;
        pod.serialize_entry("kind", PODS.kind)?;
        pod.serialize_entry("metadata", &self.source.metadata)?;
        pod.serialize_entry("spec", &Spec(*self))?;
        pod.end()
    }
}

struct Spec<'a>(PodFor<'a>);

impl Serialize for Spec<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let source = self.0.source;
        let mut spec = serializer.serialize_map(None)?;
        for (name, value) in &source.spec {
            spec.serialize_entry(name, value)?;
        }
        spec.serialize_entry("affinity", &Affinity(self.0))?;
        spec.end()
    }
}

struct Affinity<'a>(PodFor<'a>);

impl Serialize for Affinity<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut affinity = serializer.serialize_map(None)?;
        for (name, value) in &self.0.source.affinity {
            affinity.serialize_entry(name, value)?;
        }
        affinity.serialize_entry("nodeAffinity", &NodeAffinity(self.0))?;
        affinity.end()
    }
}

struct NodeAffinity<'a>(PodFor<'a>);

impl Serialize for NodeAffinity<'_> {
    /// The terms of the template are not needed any more: that the node meets them was decided before.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
        let mut affinity = serializer.serialize_map(None)?;
        for (name, value) in self.0.source.node_affinity.iter().filter(|(name, _)| *name != REQUIRED) {
            affinity.serialize_entry(name, value)?;
        }
        let pin = json!({"key": "metadata.name", "operator": "In", "values": [self.0.node]});
        affinity.serialize_entry(REQUIRED, &json!({"nodeSelectorTerms": [{"matchFields": [pin]}]}))?;
        affinity.end()
    }
}

#[cfg(test)]
mod tests;
