//! Endpoints: the predecessor of slices, one object per Service.

use std::sync::Arc;

use common::{
    events::ObjectRef,
    intern::Text,
    json::null_as_default,
    meta::{Key, Meta, Owners, Uid},
    object::{Object, Resource},
    wire::{Message, messages},
};
use serde::{Deserialize, Serialize};

use super::TargetRef;

/// Endpoints on the API server.
pub const ENDPOINTS: Resource =
    Resource { group: "", version: "v1", plural: "endpoints", kind: "Endpoints", namespaced: true };

/// The Endpoints of a Service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Endpoints {
    /// Its metadata, all labels and annotations included.
    pub metadata: Meta,
    /// Addresses with the ports they have.
    #[serde(deserialize_with = "null_as_default")]
    pub subsets: Vec<Subset>,
}

/// The label of Endpoints that are not to be mirrored.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The annotation of Endpoints that are a lock and have no addresses.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
impl Endpoints {
    /// Whether they may be mirrored.
    pub fn is_mirrorable(&self) -> bool {
        self.metadata.labels.get(SKIP_MIRROR) != Some("true") && !self.is_lock()
    }

    /// Whether they are a lock and have no addresses.
    pub fn is_lock(&self) -> bool {
        self.metadata.annotations.get(LEADER).is_some()
    }
}

/// The Endpoints of that key, as Events name them; `endpoints` if they are there.
pub(crate) fn object_ref(key: &Key, endpoints: Option<&Endpoints>) -> ObjectRef {
    match endpoints {
        Some(endpoints) => ObjectRef::new(ENDPOINTS, &endpoints.metadata),
        None => ObjectRef::bare(ENDPOINTS, &key.namespace, &key.name, Uid::default()),
    }
}

/// Addresses that all have the same ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subset {
    /// The ready ones.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    /// The others.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub not_ready_addresses: Vec<Address>,
    /// Their ports.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<SubsetPort>,
}

impl Subset {
    /// The addresses, each with whether it is ready; ready ones come first.
    pub(crate) fn states(&self) -> impl Iterator<Item = (&Address, bool)> {
        let ready = self.addresses.iter().map(|address| (address, true));
        ready.chain(self.not_ready_addresses.iter().map(|address| (address, false)))
    }
}

/// An address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Address {
    /// The address, as it was written.
    pub ip: Arc<str>,
    /// Its name in the DNS domain of the Service.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "str::is_empty")]
    pub hostname: Text,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Text>,
    /// The object behind it, usually a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
}

/// A port of a subset.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubsetPort {
    /// Its name.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "str::is_empty")]
    pub name: Text,
    /// Its number.
    pub port: i32,
    /// Its protocol.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "str::is_empty")]
    pub protocol: Text,
    /// The application protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Text>,
}

impl Object for Endpoints {
    const RESOURCE: Resource = ENDPOINTS;
    type Indexes = ();
    const PROTOBUF: Option<&'static Message> = Some(&messages::ENDPOINTS);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.owners = Owners::default();
        self.metadata.finalizers = Box::default();
    }
}
