//! One endpoint of a slice.

use std::sync::{Arc, LazyLock};

use common::{intern::Text, json::null_as_default, meta::Uid};
use serde::{Deserialize, Deserializer, Serialize};

use super::Pod;

/// An endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Its addresses, sorted as texts: their order says nothing.
    #[serde(deserialize_with = "sorted")]
    pub addresses: Box<[Box<str>]>,
    /// Whether clients can use it.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Conditions,
    /// Its name in the DNS domain of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Text>,
    /// The object behind it, usually a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Text>,
    /// Its zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Text>,
    /// The zones and nodes whose clients should use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Box<Hints>>,
}

/// Reads a list of texts and sorts it.
fn sorted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[Box<str>]>, D::Error> {
    let mut texts: Box<[Box<str>]> = null_as_default(deserializer)?;
    texts.sort_unstable();
    Ok(texts)
}

/// The conditions of an endpoint. An absent condition is not the same as a false one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Clients may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// It answers requests, terminating or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// It is terminating.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// A reference to the object behind an endpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetRef {
    /// Its kind.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub kind: Text,
    /// Its namespace.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: Text,
    /// Its name.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: Arc<str>,
    /// Its uid.
    #[serde(skip_serializing_if = "Uid::is_empty")]
    pub uid: Uid,
    /// Group and version. Never written by this program.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub api_version: Text,
    /// Version of the object. Never written by this program.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub resource_version: Text,
    /// A part of the object. Never written by this program.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub field_path: Text,
}

impl TargetRef {
    /// A reference to a Pod.
    pub fn to_pod(pod: &Pod) -> Self {
        static POD: LazyLock<Text> = LazyLock::new(|| Text::new("Pod"));
        static EMPTY: LazyLock<Text> = LazyLock::new(Text::default);
        Self {
            kind: POD.clone(),
            namespace: pod.metadata.namespace.clone(),
            name: Arc::clone(&pod.metadata.name),
            uid: pod.metadata.uid.clone(),
            api_version: EMPTY.clone(),
            resource_version: EMPTY.clone(),
            field_path: EMPTY.clone(),
        }
    }
}

impl PartialEq for TargetRef {
    /// The version of the object aside.
    fn eq(&self, other: &Self) -> bool {
        (&self.kind, &self.namespace, &self.name, &self.uid, &self.api_version, &self.field_path)
            == (&other.kind, &other.namespace, &other.name, &other.uid, &other.api_version, &other.field_path)
    }
}

/// The zones and nodes whose clients should use an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hints {
    /// The zones.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "<[Hint]>::is_empty")]
    pub for_zones: Box<[Hint]>,
    /// The nodes.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "<[Hint]>::is_empty")]
    pub for_nodes: Box<[Hint]>,
}

/// A zone or a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hint {
    /// Its name.
    pub name: Text,
}

impl Hints {
    /// Hints to a zone, a node or both; none if there is neither.
    pub fn new(zone: Option<&Text>, node: Option<&Text>) -> Option<Box<Self>> {
        let hint = |name: Option<&Text>| name.map(|name| Hint { name: name.clone() }).into_iter().collect();
        (zone.is_some() || node.is_some()).then(|| Box::new(Self { for_zones: hint(zone), for_nodes: hint(node) }))
    }
}

/// The fields that identify an endpoint: two states with the same identity are the same endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity<'a> {
    addresses: &'a [Box<str>],
    hostname: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl Endpoint {
    /// The fields that identify it.
    pub fn identity(&self) -> Identity<'_> {
        let (namespace, name) = self.target_ref.as_ref().map_or(("", ""), |target| (&*target.namespace, &*target.name));
        Identity { addresses: &self.addresses, hostname: self.hostname.as_deref().unwrap_or(""), namespace, name }
    }

    /// Whether another state of the same endpoint says the same, hints aside.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.conditions == other.conditions
            && self.node_name == other.node_name
            && self.zone == other.zone
            && self.target_ref == other.target_ref
    }

    /// Whether clients may use it.
    pub fn is_ready(&self) -> bool {
        self.conditions.ready == Some(true)
    }

    /// The zones that should use it.
    pub fn zone_hints(&self) -> &[Hint] {
        self.hints.as_deref().map_or(&[], |hints| &hints.for_zones)
    }

    /// The nodes that should use it.
    pub fn node_hints(&self) -> &[Hint] {
        self.hints.as_deref().map_or(&[], |hints| &hints.for_nodes)
    }

    /// Whether its hints name exactly this zone and this node.
    pub fn is_hinted_to(&self, zone: Option<&Text>, node: Option<&Text>) -> bool {
        let names = |hints: &[Hint], wanted: Option<&Text>| match (hints, wanted) {
            ([], None) => true,
            ([only], Some(wanted)) => only.name == *wanted,
            _ => false,
        };
        names(self.zone_hints(), zone) && names(self.node_hints(), node)
    }
}

#[cfg(test)]
mod tests;
