//! Pods.

use std::net::IpAddr;

use common::{
    conditions::{TRUE, seconds},
    intern::Text,
    meta::{Annotations, Meta, Owners},
    object::{Object, Resource},
    pods::{PODS, Phase},
    wire::{Message, messages},
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::Service;
use crate::address;

/// A Pod: how it is reached, and whether it is ready.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    /// Its metadata: names, labels, uid and deletion timestamp.
    pub metadata: Meta,
    /// The node it is assigned to; empty if none.
    pub node: Text,
    /// Its hostname; empty if it has none of its own.
    pub hostname: Text,
    /// The domain of its hostname; empty if none.
    pub subdomain: Text,
    /// Its named ports, sorted by name and protocol; of several the first one in the Pod comes first. Containers come before
    /// sidecars.
    pub ports: Box<[PodPort]>,
    /// Whether its phase is terminal.
    pub is_over: bool,
    /// Whether its condition `Ready` is `True`.
    pub is_ready: bool,
    /// When that condition last changed.
    pub ready_changed: Option<Timestamp>,
    /// Whether it has an address at all, valid or not.
    pub has_address: bool,
    /// The first address, by the older field `podIP`.
    pub ip: Option<IpAddr>,
    /// Its valid addresses, in order.
    pub ips: Box<[IpAddr]>,
}

/// A port of a container that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPort {
    /// Its name.
    pub name: Text,
    /// Its protocol.
    pub protocol: Text,
    /// Its number.
    pub number: i32,
}

impl Pod {
    /// Whether the Pod has, or may have, endpoints.
    pub fn is_eligible(&self) -> bool {
        !self.is_over && self.has_address
    }

    /// Its name in the DNS domain of a Service, if it has one there.
    pub fn hostname_in(&self, service: &Service) -> Option<&Text> {
        let is_named = !self.hostname.is_empty() && *self.subdomain == *service.metadata.name;
        is_named.then_some(&self.hostname)
    }

    /// The number of the port with that name and protocol.
    pub fn port(&self, name: &str, protocol: &str) -> Option<i32> {
        let first = self.ports.partition_point(|port| (&*port.name, &*port.protocol) < (name, protocol));
        let port = self.ports.get(first)?;
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
        // The sort is stable: the first of several ports with the same name and protocol stays the first.
        ports.sort_by(|a, b| (&a.name, &a.protocol).cmp(&(&b.name, &b.protocol)));
        let ready = status.conditions.into_iter().flatten().find(|condition| condition.kind == "Ready");
        let ips = status.pod_ips.unwrap_or_default();
        Ok(Self {
            metadata,
            node: spec.node_name,
            hostname: spec.hostname,
            subdomain: spec.subdomain,
            ports,
            is_over: Phase::parse(&status.phase).is_terminal(),
            is_ready: ready.as_ref().is_some_and(|ready| ready.status == TRUE),
            ready_changed: ready.and_then(|ready| ready.last_transition_time),
            has_address: !status.pod_ip.is_empty() || !ips.is_empty(),
            ip: address::parse(&status.pod_ip),
            ips: ips.iter().filter_map(|entry| address::parse(&entry.ip)).collect(),
        })
    }
}

impl Object for Pod {
    const RESOURCE: Resource = PODS;
    /// Pods without an address have no endpoints.
    const FIELD_SELECTOR: &'static str = "status.podIP!=";
    type Indexes = ();
    const PROTOBUF: Option<&'static Message> = Some(&messages::POD);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.annotations = Annotations::default();
        self.metadata.owners = Owners::default();
        self.metadata.finalizers = Box::default();
        // Only the time at which a finished Pod became unready is still needed.
        if self.is_over {
            (self.ports, self.ips) = Default::default();
        }
    }
}
