//! Services.

use common::{
    intern::{Labels, Text},
    intstr::IntOrString,
    json::null_as_default,
    meta::{Meta, Owners},
    object::{Object, Resource},
    wire::{Message, messages},
};
use serde::Deserialize;

/// Services on the API server.
pub const SERVICES: Resource =
    Resource { group: "", version: "v1", plural: "services", kind: "Service", namespaced: true };

/// The annotations that ask for hints by the capacity of zones; the older one wins.
const TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

/// A Service.
#[derive(Clone, Debug, Deserialize)]
pub struct Service {
    /// Its metadata; of the annotations only those that ask for hints.
    pub metadata: Meta,
    /// Its specification.
    #[serde(default)]
    pub spec: Spec,
}

/// The specification of a Service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// `ClusterIP`, `ExternalName`, ...
    #[serde(rename = "type")]
    pub kind: Text,
    /// The labels of the Pods that it selects; an empty selector selects none.
    pub selector: Labels,
    /// Its IP, empty or `None`.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Text,
    /// Its IP families.
    #[serde(deserialize_with = "null_as_default")]
    pub ip_families: Box<[Text]>,
    /// Its ports.
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Box<[ServicePort]>,
    /// Whether Pods count as ready in any case.
    #[serde(deserialize_with = "null_as_default")]
    pub publish_not_ready_addresses: bool,
    /// Which endpoints clients should prefer.
    pub traffic_distribution: Option<Text>,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// Its name, which may be empty.
    pub name: Text,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Text,
    /// The port of the Service itself.
    pub port: i32,
    /// The port of Pods: a number, or the name of one of theirs.
    pub target_port: Option<IntOrString>,
    /// The application protocol.
    pub app_protocol: Option<Text>,
}

impl Service {
    /// Whether the endpoints of this Service are found by its selector.
    pub fn selects(&self) -> bool {
        self.spec.kind != "ExternalName" && !self.spec.selector.is_empty()
    }

    /// Whether it has no IP of its own.
    pub fn is_headless(&self) -> bool {
        matches!(self.spec.cluster_ip.as_str(), "" | "None")
    }

    /// Whether hints by the capacity of zones are asked for.
    pub fn wants_topology_hints(&self) -> bool {
        let annotations = &self.metadata.annotations;
        let mode = annotations.get(TOPOLOGY_AWARE_HINTS).or_else(|| annotations.get(TOPOLOGY_MODE));
        matches!(mode, Some("Auto" | "auto"))
    }
}

impl Object for Service {
    const RESOURCE: Resource = SERVICES;
    type Indexes = ();
    const PROTOBUF: Option<&'static Message> = Some(&messages::SERVICE);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.annotations.retain(|key| key == TOPOLOGY_AWARE_HINTS || key == TOPOLOGY_MODE);
        self.metadata.owners = Owners::default();
        self.metadata.finalizers = Box::default();
    }
}
