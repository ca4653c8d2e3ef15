//! Endpoints in a slice, with conditions, target and hints.

use std::sync::{Arc, LazyLock};

use common::{json::null_as_default, prelude::*};
use serde::{Deserialize, Deserializer, Serialize};

use super::Pod;

/// One element of the field `endpoints` of an EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// IP addresses, sorted as texts when they are decoded, because their order has no meaning.
    #[serde(deserialize_with = "sorted")]
    pub addresses: Box<[Box<str>]>,
    /// The conditions `ready`, `serving` and `terminating`, each of which may be absent.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: EndpointConditions,
    /// The DNS name within the domain of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Text>,
    /// The object that the endpoint represents, usually a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// The name of the Node that runs the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Text>,
    /// The topology zone of the Node that runs the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Text>,
    /// The zones and nodes with the clients that should use the endpoint; `None` for all clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Box<Hints>>,
}

/// Deserializes a list of texts, and sorts the list; `null` gives an empty list.
fn sorted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[Box<str>]>, D::Error> {
    let mut texts: Box<[Box<str>]> = null_as_default(deserializer)?;
    texts.sort_unstable();
    Ok(texts)
}

/// The conditions of an endpoint. An absent condition is different from a false one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// Whether clients may send new requests to the endpoint; `None` means unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Whether the endpoint can answer requests, even while the Pod is terminating.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// Whether the Pod of the endpoint is terminating.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// A reference to the object that an endpoint represents, usually a Pod.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetRef {
    /// The kind of the object, usually `Pod`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub kind: Text,
    /// Empty for an object without a namespace.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: Text,
    /// `metadata.name` of the object.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: Arc<str>,
    /// `metadata.uid` of the object.
    #[serde(skip_serializing_if = "Uid::is_empty")]
    pub uid: Uid,
    /// The API group and version of the object. This program never writes the field.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub api_version: Text,
    /// The version of the object at the time of the reference. This program never writes the field.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub resource_version: Text,
    /// The path of a part of the object; empty for the whole object. This program never writes the field.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub field_path: Text,
}

impl TargetRef {
    /// References a Pod by kind, namespace, name and UID.
    pub fn from_pod(pod: &Pod) -> Self {
        static POD: LazyLock<TargetRef> =
            LazyLock::new(|| TargetRef { kind: Text::new("Pod"), ..TargetRef::default() });
        let Meta { namespace, name, uid, .. } = &pod.metadata;
        Self { namespace: namespace.clone(), name: Arc::clone(name), uid: uid.clone(), ..POD.clone() }
    }
}

impl PartialEq for TargetRef {
    /// Compares all fields except `resource_version`.
    fn eq(&self, other: &Self) -> bool {
        (&self.kind, &self.namespace, &self.name, &self.uid, &self.api_version, &self.field_path)
            == (&other.kind, &other.namespace, &other.name, &other.uid, &other.api_version, &other.field_path)
    }
}

/// The field `hints` of an endpoint: it tells clients in which zones and on which nodes to use the endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hints {
    /// The zones of the clients that should use the endpoint; empty for all zones.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "<[Hint]>::is_empty")]
    pub for_zones: Box<[Hint]>,
    /// The nodes of the clients that should use the endpoint; empty for all nodes.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "<[Hint]>::is_empty")]
    pub for_nodes: Box<[Hint]>,
}

/// A reference to a zone or a node by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hint {
    /// The value of the zone label, or the name of the Node.
    pub name: Text,
}

impl Hints {
    /// Builds hints for a zone, for a node, or for both; returns `None` if both arguments are `None`.
    pub fn new(zone: Option<&Text>, node: Option<&Text>) -> Option<Box<Self>> {
        let hint = |name: Option<&Text>| name.map(|name| Hint { name: name.clone() }).into_iter().collect();
        (zone.is_some() || node.is_some()).then(|| Box::new(Self { for_zones: hint(zone), for_nodes: hint(node) }))
    }
}

/// The fields that distinguish endpoints: addresses, hostname, and namespace and name of the target. All other fields of an
/// endpoint can change.
pub type EndpointIdentity<'a> = (&'a [Box<str>], &'a str, &'a str, &'a str);

impl Endpoint {
    /// Returns the addresses, the hostname, and the namespace and name of the target.
    pub fn identity(&self) -> EndpointIdentity<'_> {
        let (namespace, name) = self.target_ref.as_ref().map_or(("", ""), |target| (&*target.namespace, &*target.name));
        (&self.addresses, self.hostname.as_deref().unwrap_or_default(), namespace, name)
    }

    /// Whether two states of one endpoint are equal, ignoring hints and the fields of the [`EndpointIdentity`].
    pub fn has_same_content(&self, other: &Self) -> bool {
        self.conditions == other.conditions
            && self.node_name == other.node_name
            && self.zone == other.zone
            && self.target_ref == other.target_ref
    }

    /// Whether the condition `ready` is true; false if the condition is absent.
    pub fn is_ready(&self) -> bool {
        self.conditions.ready == Some(true)
    }

    /// Returns the hinted zones; empty without hints.
    pub fn zone_hints(&self) -> &[Hint] {
        self.hints.as_deref().map_or(&[], |hints| &hints.for_zones)
    }

    /// Returns the hinted nodes; empty without hints.
    pub fn node_hints(&self) -> &[Hint] {
        self.hints.as_deref().map_or(&[], |hints| &hints.for_nodes)
    }

    /// Whether the hints name exactly this zone and this node; `None` requires that there is no hint for a zone or a node.
    pub fn is_hinted_only_to(&self, zone: Option<&Text>, node: Option<&Text>) -> bool {
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
