//! EndpointSlices, with their ports and labels.

use std::{fmt, sync::Arc};

use common::{
    json::null_as_default,
    meta::ReplaceableMeta,
    prelude::*,
    store::StoreIndex,
    wire::{MessageSchema, RawMessage, WithUndeclared, messages},
};
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    Endpoint, MANAGED_BY_LABEL, MANAGED_BY_MIRRORING, MANAGED_BY_SLICE_CONTROLLER, SERVICE_NAME_LABEL, SERVICES,
    Service, TRIGGER_TIME_ANNOTATION,
};

/// The resource `endpointslices` of `discovery.k8s.io`.
pub const ENDPOINT_SLICES: Resource = Resource::namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice");

/// The address type of a slice, one IP family.
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
    /// Returns the value of `addressType` in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        }
    }

    /// Returns the address type with this name in `spec.ipFamilies`; `None` for an unknown name.
    pub(crate) fn of_ip_family(family: &str) -> Option<Self> {
        [Self::Ipv4, Self::Ipv6].into_iter().find(|address_type| address_type.as_str() == family)
    }

    /// Returns the text that explanations show as the kind of a slice with this address type.
    pub(crate) fn slice_description(self) -> &'static str {
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

/// A port that all endpoints of a slice have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlicePort {
    /// Empty for an unnamed port.
    #[serde(deserialize_with = "null_as_default")]
    pub name: Text,
    /// The port number; `None` means all ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(deserialize_with = "null_as_default")]
    pub protocol: Text,
    /// The application protocol, for example `http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Text>,
}

/// An EndpointSlice written by a loop of this crate.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
pub struct Slice {
    /// Metadata without finalizers. A slice that is not mirrored has only the annotation with the trigger time.
    pub metadata: ReplaceableMeta,
    /// The address type as the API writes it, possibly one that this crate does not know.
    pub address_type: Text,
    /// The endpoints of the slice; empty for the only slice of a Service without endpoints.
    #[serde(deserialize_with = "null_as_default")]
    pub endpoints: Vec<Endpoint>,
    /// The ports, which are the same for all endpoints in the slice.
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Arc<[SlicePort]>,
    /// All other fields of the slice, which an update sends back.
    #[serde(skip)]
    pub undeclared: RawMessage,
}

impl<'de> Deserialize<'de> for Slice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(transparent)]
        struct Declared(#[serde(with = "Slice")] Slice);
        let WithUndeclared { declared: Declared(slice), undeclared } = WithUndeclared::deserialize(deserializer)?;
        Ok(Self { undeclared, ..slice })
    }
}

impl Slice {
    /// Returns the name of the Service from the label [`SERVICE_NAME_LABEL`]; `None` if the label is missing or empty.
    pub fn service_name(&self) -> Option<&str> {
        self.metadata.labels.get(SERVICE_NAME_LABEL).filter(|name| !name.is_empty())
    }

    /// Whether the label [`MANAGED_BY_LABEL`] names this writer.
    pub fn is_managed_by(&self, writer: &str) -> bool {
        self.metadata.labels.get(MANAGED_BY_LABEL) == Some(writer)
    }

    /// Whether an owner reference has the UID of this Service.
    pub(crate) fn is_owned_by(&self, service: &Service) -> bool {
        self.metadata.owners.iter().any(|owner| {
            owner.kind == SERVICES.kind()
                && owner.api_version == SERVICES.version()
                && owner.uid == service.metadata.uid
        })
    }

    /// Whether the slice has this address type.
    pub fn has_address_type(&self, address_type: AddressType) -> bool {
        self.address_type == address_type.as_str()
    }
}

impl Object for Slice {
    const RESOURCE: Resource = ENDPOINT_SLICES;
    type Indexes = (SlicesByService,);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::ENDPOINT_SLICE);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.finalizers = Box::default();
        // Only the mirroring loop compares all annotations of its slices.
        if !self.is_managed_by(MANAGED_BY_MIRRORING) {
            self.metadata.annotations.retain(|key| key == TRIGGER_TIME_ANNOTATION);
        }
    }

    /// Whether a loop of this crate writes the slice for a Service; the cache omits all other slices.
    fn is_cached(&self) -> bool {
        self.service_name().is_some()
            && (self.is_managed_by(MANAGED_BY_SLICE_CONTROLLER) || self.is_managed_by(MANAGED_BY_MIRRORING))
    }
}
/// The index of slices by the namespace and name of their Service.
#[derive(Clone, Copy, Debug)]
pub struct SlicesByService;

impl StoreIndex<Slice> for SlicesByService {
    fn value(meta: &Meta, _: Option<&Slice>) -> Option<IndexValue> {
        meta.labels.get(SERVICE_NAME_LABEL).map(|name| service_index_value(&meta.namespace, name))
    }
}

/// Returns the value under which [`SlicesByService`] lists the slices of this Service.
pub(crate) fn service_index_value(namespace: &str, name: &str) -> IndexValue {
    IndexValue::Text(Text::new(&format!("{namespace}/{name}")))
}
