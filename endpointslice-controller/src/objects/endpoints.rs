//! Endpoints objects, the predecessor of EndpointSlices. Each Service has at most one.

use std::sync::Arc;

use common::{
    json::null_as_default,
    meta::{OwnerRefs, ReplaceableMeta},
    prelude::*,
    wire::{MessageSchema, RawMessage, WithUndeclared, messages},
};
use serde::{Deserialize, Deserializer, Serialize};

use super::TargetRef;

/// The resource `endpoints` of the core API group.
pub const ENDPOINTS: Resource = Resource::namespaced("", "v1", "endpoints", "Endpoints");

/// The fields of an Endpoints object that the loops read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, remote = "Self")]
pub struct Endpoints {
    /// Metadata with all labels and annotations; owner references and finalizers are kept undecoded only.
    pub metadata: ReplaceableMeta,
    /// Groups of addresses; all addresses of a group have the same ports.
    #[serde(deserialize_with = "null_as_default")]
    pub subsets: Vec<Subset>,
    /// All other fields, which an update sends back.
    #[serde(skip)]
    pub undeclared: RawMessage,
}

impl<'de> Deserialize<'de> for Endpoints {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(transparent)]
        struct Declared(#[serde(with = "Endpoints")] Endpoints);
        let WithUndeclared { declared: Declared(endpoints), undeclared } = WithUndeclared::deserialize(deserializer)?;
        Ok(Self { undeclared, ..endpoints })
    }
}

/// The label key that excludes Endpoints from mirroring, with the value `true`.
const SKIP_MIRROR_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The annotation key of Endpoints that serve as a leader election lock.
const LEADER_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";
impl Endpoints {
    /// Whether the Endpoints have no label `skip-mirror` with the value `true`, and are not a leader election lock.
    pub fn is_mirrorable(&self) -> bool {
        self.metadata.labels.get(SKIP_MIRROR_LABEL) != Some("true") && !self.is_leader_election_lock()
    }

    /// Whether the Endpoints have the annotation of a leader election lock. Such Endpoints belong to no Service.
    pub fn is_leader_election_lock(&self) -> bool {
        self.metadata.annotations.get(LEADER_ANNOTATION).is_some()
    }
}

/// Builds the reference to Endpoints that Events contain; without a UID if the Endpoints do not exist.
pub(crate) fn endpoints_object_ref(key: &NamespacedName, endpoints: Option<&Endpoints>) -> InvolvedObject {
    match endpoints {
        Some(endpoints) => InvolvedObject::new(ENDPOINTS, &endpoints.metadata),
        None => InvolvedObject::without_version(ENDPOINTS, &key.namespace, &key.name, Uid::default()),
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
    /// Ports that every address of the subset has; may be empty for a headless Service.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<SubsetPort>,
}

impl Subset {
    /// Iterates over the addresses, ready addresses first; the bool is true for a ready address.
    pub(crate) fn addresses_with_readiness(&self) -> impl Iterator<Item = (&EndpointAddress, bool)> {
        let ready = self.addresses.iter().map(|address| (address, true));
        ready.chain(self.not_ready_addresses.iter().map(|address| (address, false)))
    }
}

/// One IP address in a subset, with the object and the Node to which it belongs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointAddress {
    /// The IP address as its writer spelled it, possibly invalid.
    pub ip: Arc<str>,
    /// The DNS name within the domain of the Service.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "str::is_empty")]
    pub hostname: Text,
    /// The name of the Node on which the Pod with this address runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Text>,
    /// The object to which the address belongs, usually a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
}

/// One port that all addresses of a subset have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubsetPort {
    /// The name of the port; empty for an unnamed port.
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
