//! EndpointSlices.

use std::{fmt, sync::Arc};

use common::{
    intern::Text,
    json::null_as_default,
    meta::Meta,
    object::{Object, Resource},
    store::{Index, IndexValue},
    wire::{Message, messages},
};
use serde::{Deserialize, Serialize};

use super::{CONTROLLER, Endpoint, MANAGED_BY, MIRRORING, SERVICE_NAME, SERVICES, Service, TRIGGER_TIME};

/// EndpointSlices on the API server.
pub const ENDPOINT_SLICES: Resource = Resource {
    group: "discovery.k8s.io",
    version: "v1",
    plural: "endpointslices",
    kind: "EndpointSlice",
    namespaced: true,
};

/// The address type of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum AddressType {
    /// IPv4 addresses.
    #[default]
    #[serde(rename = "IPv4")]
    Ipv4,
    /// IPv6 addresses.
    #[serde(rename = "IPv6")]
    Ipv6,
}

impl AddressType {
    /// The value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        }
    }

    /// The kind of its slices in explanations.
    pub(crate) fn slice_kind(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4 EndpointSlice",
            Self::Ipv6 => "IPv6 EndpointSlice",
        }
    }
}

impl fmt::Display for AddressType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A port of a slice. A port without a name is called `""`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Port {
    /// Its name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: Text,
    /// Its number; none stands for every one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Its protocol.
    #[serde(deserialize_with = "null_as_default")]
    pub protocol: Text,
    /// The application protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Text>,
}

/// An EndpointSlice that one of the loops of this crate writes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Slice {
    /// Its metadata.
    pub metadata: Meta,
    /// The type of its addresses, as the API has it.
    pub address_type: Text,
    /// Its endpoints.
    #[serde(deserialize_with = "null_as_default")]
    pub endpoints: Vec<Endpoint>,
    /// Its ports.
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Arc<[Port]>,
}

impl Slice {
    /// The name of its Service, if it says so.
    pub fn service(&self) -> Option<&str> {
        self.metadata.labels.get(SERVICE_NAME).filter(|name| !name.is_empty())
    }

    /// Whether its label names that writer.
    pub fn is_managed_by(&self, writer: &str) -> bool {
        self.metadata.labels.get(MANAGED_BY) == Some(writer)
    }

    /// Whether it belongs to this very Service.
    pub(crate) fn is_owned_by(&self, service: &Service) -> bool {
        self.metadata.owners.iter().any(|owner| {
            owner.kind == SERVICES.kind && owner.api_version == SERVICES.version && owner.uid == service.metadata.uid
        })
    }

    /// Whether its addresses are of that type.
    pub fn is_of(&self, kind: AddressType) -> bool {
        self.address_type == kind.as_str()
    }
}

impl Object for Slice {
    const RESOURCE: Resource = ENDPOINT_SLICES;
    type Indexes = (ByService,);
    const PROTOBUF: Option<&'static Message> = Some(&messages::ENDPOINT_SLICE);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.finalizers = Box::default();
        // Mirrored slices are compared with all their annotations.
        if !self.is_managed_by(MIRRORING) {
            self.metadata.annotations.retain(|key| key == TRIGGER_TIME);
        }
    }

    /// Keeps slices that a loop of this crate writes for a Service, and no others.
    fn keep(&self) -> bool {
        self.service().is_some() && (self.is_managed_by(CONTROLLER) || self.is_managed_by(MIRRORING))
    }
}
/// Files slices under their Service.
#[derive(Clone, Copy, Debug)]
pub struct ByService;

impl Index<Slice> for ByService {
    fn value(meta: &Meta, _: Option<&Slice>) -> Option<IndexValue> {
        meta.labels.get(SERVICE_NAME).map(|name| service_value(&meta.namespace, name))
    }
}

/// What slices of that Service are filed under.
pub(crate) fn service_value(namespace: &str, name: &str) -> IndexValue {
    IndexValue::Text(Text::new(&format!("{namespace}/{name}")))
}
