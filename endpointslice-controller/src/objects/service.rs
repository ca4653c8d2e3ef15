//! Services, with selector, ports and traffic distribution.

use common::{
    intern::Labels,
    intstr::IntOrString,
    json::null_as_default,
    meta::OwnerRefs,
    prelude::*,
    wire::{MessageSchema, messages},
};
use serde::Deserialize;

/// The resource `services` of the core API group.
pub const SERVICES: Resource = Resource::namespaced("", "v1", "services", "Service");

/// The keys of the two annotations that enable hints by zone capacity. `topology-aware-hints` is older and takes precedence.
const TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

/// The fields of a Service that its endpoints depend on.
#[derive(Clone, Debug, Deserialize)]
pub struct Service {
    /// Metadata with all labels, but with only the two annotations that enable hints by zone capacity.
    pub metadata: Meta,
    /// Empty if the object has no `spec`.
    #[serde(default)]
    pub spec: ServiceSpec,
}

/// The fields of `spec` that the endpoints of a Service depend on.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// `spec.type`, for example `ClusterIP` or `ExternalName`.
    #[serde(rename = "type")]
    pub kind: Text,
    /// The labels of selected Pods; an empty selector selects no Pod.
    pub selector: Labels,
    /// An IP address, the text `None` for a headless Service, or empty.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Text,
    /// `IPv4`, `IPv6` or both, in order of preference.
    #[serde(deserialize_with = "null_as_default")]
    pub ip_families: Box<[Text]>,
    /// The ports on which clients reach the Service; a headless Service may have none.
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Box<[ServicePort]>,
    /// Whether the endpoints of unready Pods are published as ready.
    #[serde(deserialize_with = "null_as_default")]
    pub publish_not_ready_addresses: bool,
    /// The preference for endpoints close to the client, for example `PreferSameZone`; `None` for no preference.
    pub traffic_distribution: Option<Text>,
}

/// A port in `spec.ports`: clients connect to `port`, and the Pods listen on `target_port`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// Empty for an unnamed port.
    pub name: Text,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Text,
    /// The number of the port at the cluster IP.
    pub port: i32,
    /// The port of the Pods: a number, or the name of a container port.
    pub target_port: Option<IntOrString>,
    /// The application protocol, for example `http`.
    pub app_protocol: Option<Text>,
}

impl Service {
    /// Whether the Service has a selector that applies; the selector of an `ExternalName` Service does not.
    pub fn has_applicable_selector(&self) -> bool {
        self.spec.kind != "ExternalName" && !self.spec.selector.is_empty()
    }

    /// Whether the cluster IP is `None` or empty.
    pub fn is_headless(&self) -> bool {
        matches!(self.spec.cluster_ip.as_str(), "" | "None")
    }

    /// Whether an annotation enables hints by zone capacity.
    pub fn has_topology_hints_enabled(&self) -> bool {
        let annotations = &self.metadata.annotations;
        let mode = annotations.get(TOPOLOGY_AWARE_HINTS).or_else(|| annotations.get(TOPOLOGY_MODE));
        matches!(mode, Some("Auto" | "auto"))
    }
}

impl Object for Service {
    const RESOURCE: Resource = SERVICES;
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::SERVICE);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.annotations.retain(|key| key == TOPOLOGY_AWARE_HINTS || key == TOPOLOGY_MODE);
        self.metadata.owners = OwnerRefs::default();
        self.metadata.finalizers = Box::default();
    }
}
