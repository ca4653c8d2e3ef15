//! Pods, with addresses, ports and readiness.

use std::{net::IpAddr, sync::Arc};

use common::{
    conditions::{TRUE, seconds},
    meta::{Annotations, OwnerRefs},
    name_sorted_list::NameSortedList,
    pods::{PODS, Phase},
    prelude::*,
    wire::{MessageSchema, messages},
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::Service;
use crate::address;

/// A Pod, reduced to the fields that endpoints are made from.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    /// Metadata with labels, without annotations, owners and finalizers.
    pub metadata: Meta,
    /// `spec.nodeName`; empty before the Pod is scheduled.
    pub node_name: Text,
    /// `spec.hostname`; empty by default.
    pub hostname: Text,
    /// `spec.subdomain`: the name of the headless Service that gives the hostname its DNS name; empty by default.
    pub subdomain: Text,
    /// Named ports, sorted by name and protocol. Equal ones are in the order of the Pod, sidecars last.
    pub named_ports: Box<[PodPort]>,
    /// Whether the Pod has finished: its phase is `Succeeded` or `Failed`.
    pub is_finished: bool,
    /// Whether the condition `Ready` is `True`.
    pub is_ready: bool,
    /// The last transition time of the condition `Ready`; `None` if the condition or its time is missing.
    pub readiness_changed_at: Option<Timestamp>,
    /// Whether `status.podIP` or `status.podIPs` has an address, valid or not.
    pub has_address: bool,
    /// `status.podIP`, the first address of the Pod; `None` if the address is missing or invalid.
    pub pod_ip: Option<IpAddr>,
    /// The valid addresses of `status.podIPs`, in their order; empty for a finished Pod.
    pub pod_ips: Box<[IpAddr]>,
}

/// The Pods of a Service or of a label set, sorted by name.
pub type NameSortedPods = NameSortedList<Arc<Pod>>;

/// A named port of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPort {
    /// The port name, which Services refer to.
    pub name: Text,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Text,
    /// `containerPort`.
    pub number: i32,
}

impl Pod {
    /// Whether the Pod has an address and has not finished. An unready Pod is eligible, too.
    pub fn is_eligible_for_endpoints(&self) -> bool {
        !self.is_finished && self.has_address
    }

    /// Returns the Pod's hostname if the Pod's subdomain is the name of this Service.
    pub fn hostname_in_domain_of(&self, service: &Service) -> Option<&Text> {
        let is_named = !self.hostname.is_empty() && *self.subdomain == *service.metadata.name;
        is_named.then_some(&self.hostname)
    }

    /// Returns the number of the port with this name and protocol; `None` if the Pod has no such port.
    pub fn named_port_number(&self, name: &str, protocol: &str) -> Option<i32> {
        let first = self.named_ports.partition_point(|port| (&*port.name, &*port.protocol) < (name, protocol));
        let port = self.named_ports.get(first)?;
        (port.name == *name && port.protocol == *protocol).then_some(port.number)
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    metadata: Meta,
    spec: Option<WireSpec>,
    status: Option<WireStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    node_name: Text,
    hostname: Text,
    subdomain: Text,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    restart_policy: Option<Text>,
    ports: Option<Vec<ContainerPort>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerPort {
    name: Text,
    protocol: Option<Text>,
    #[serde(rename = "containerPort")]
    number: i32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    phase: Text,
    conditions: Option<Vec<ReadyCondition>>,
    #[serde(rename = "podIP")]
    pod_ip: Text,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<PodIp>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReadyCondition {
    #[serde(rename = "type")]
    kind: Text,
    status: Text,
    #[serde(deserialize_with = "seconds::deserialize")]
    last_transition_time: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodIp {
    ip: Text,
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Wire { metadata, spec, status } = Wire::deserialize(deserializer)?;
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        let is_sidecar = |container: &Container| container.restart_policy.as_deref() == Some("Always");
        let containers = spec.containers.into_iter().flatten();
        let containers = containers.chain(spec.init_containers.into_iter().flatten().filter(is_sidecar));
        let named = containers.flat_map(|container| container.ports.unwrap_or_default());
        let ports = named.filter(|port| !port.name.is_empty()).map(|port| PodPort {
            name: port.name,
            protocol: port.protocol.unwrap_or_else(|| Text::new("TCP")),
            number: port.number,
        });
        let mut ports: Box<[PodPort]> = ports.collect();
        // The sort is stable, so ports with the same name and protocol remain in the order of the Pod.
        ports.sort_by(|a, b| (&a.name, &a.protocol).cmp(&(&b.name, &b.protocol)));
        let ready = status.conditions.into_iter().flatten().find(|condition| condition.kind == "Ready");
        let ips = status.pod_ips.unwrap_or_default();
        Ok(Self {
            metadata,
            node_name: spec.node_name,
            hostname: spec.hostname,
            subdomain: spec.subdomain,
            named_ports: ports,
            is_finished: Phase::parse(&status.phase).is_terminal(),
            is_ready: ready.as_ref().is_some_and(|ready| ready.status == TRUE),
            readiness_changed_at: ready.and_then(|ready| ready.last_transition_time),
            has_address: !status.pod_ip.is_empty() || !ips.is_empty(),
            pod_ip: address::parse_ip(&status.pod_ip),
            pod_ips: ips.iter().filter_map(|entry| address::parse_ip(&entry.ip)).collect(),
        })
    }
}

impl Object for Pod {
    const RESOURCE: Resource = PODS;
    /// Excludes Pods without an address, which have no endpoints.
    const FIELD_SELECTOR: &'static str = "status.podIP!=";
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::POD);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.annotations = Annotations::default();
        self.metadata.owners = OwnerRefs::default();
        self.metadata.finalizers = Box::default();
        // Of a finished Pod, the loops read only the time when it became unready.
        if self.is_finished {
            (self.named_ports, self.pod_ips) = Default::default();
        }
    }
}
