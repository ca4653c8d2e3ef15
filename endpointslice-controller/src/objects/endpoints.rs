//! Endpoints: the predecessor of slices, with one object per Service.

use std::sync::Arc;

use common::{
    events::ObjectRef,
    intern::Text,
    json::null_as_default,
    meta::{Key, Meta, OwnerRefs, Uid},
    object::{Object, Resource},
    wire::{MessageSchema, messages},
};
use serde::{Deserialize, Serialize};

use super::TargetRef;

/// The resource `endpoints` of the core API group.
pub const ENDPOINTS: Resource =
    Resource { group: "", version: "v1", plural: "endpoints", kind: "Endpoints", is_namespaced: true };

/// The fields of an Endpoints object that the loops read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Endpoints {
    /// Metadata with all labels and annotations, without owners and finalizers.
    pub metadata: Meta,
    /// Addresses grouped by their ports.
    #[serde(deserialize_with = "null_as_default")]
    pub subsets: Vec<Subset>,
}

/// The label key that excludes Endpoints from mirroring, with the value `true`.
const SKIP_MIRROR_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The annotation key of Endpoints that serve as a leader election lock.
const LEADER_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";
impl Endpoints {
    /// True if neither the label `skip-mirror` nor a leader election lock excludes the Endpoints from mirroring.
    pub fn is_mirrorable(&self) -> bool {
        self.metadata.labels.get(SKIP_MIRROR_LABEL) != Some("true") && !self.is_leader_election_lock()
    }

    /// Whether the Endpoints serve as a leader election lock, without addresses.
    pub fn is_leader_election_lock(&self) -> bool {
        self.metadata.annotations.get(LEADER_ANNOTATION).is_some()
    }
}

/// Builds the reference to Endpoints for Events; without a UID if the Endpoints do not exist.
pub(crate) fn endpoints_object_ref(key: &Key, endpoints: Option<&Endpoints>) -> ObjectRef {
    match endpoints {
        Some(endpoints) => ObjectRef::new(ENDPOINTS, &endpoints.metadata),
        None => ObjectRef::without_version(ENDPOINTS, &key.namespace, &key.name, Uid::default()),
    }
}

/// A group of addresses with the same ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subset {
    /// Addresses that clients may use.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<EndpointAddress>,
    /// Addresses that clients should not use yet.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub not_ready_addresses: Vec<EndpointAddress>,
    /// Ports of all addresses of the subset.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<SubsetPort>,
}

impl Subset {
    /// Iterates over the addresses with their readiness, ready ones first.
    pub(crate) fn addresses_with_readiness(&self) -> impl Iterator<Item = (&EndpointAddress, bool)> {
        let ready = self.addresses.iter().map(|address| (address, true));
        ready.chain(self.not_ready_addresses.iter().map(|address| (address, false)))
    }
}

/// One address of a subset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointAddress {
    /// The IP address as its writer spelled it, possibly invalid.
    pub ip: Arc<str>,
    /// The DNS name within the domain of the Service.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "str::is_empty")]
    pub hostname: Text,
    /// The name of the Node behind the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Text>,
    /// The object behind the address, usually a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
}

/// Name, number and protocol of a port of a subset.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubsetPort {
    /// Empty for an unnamed port.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "str::is_empty")]
    pub name: Text,
    /// The number of the port on all addresses of the subset.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "str::is_empty")]
    pub protocol: Text,
    /// The application protocol, for example `http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Text>,
}

impl Object for Endpoints {
    const RESOURCE: Resource = ENDPOINTS;
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::ENDPOINTS);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.owners = OwnerRefs::default();
        self.metadata.finalizers = Box::default();
    }
}
