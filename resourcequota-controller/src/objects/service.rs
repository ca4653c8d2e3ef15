//! Services, with the ports and load balancers that they use.

use std::borrow::Cow;

use common::{
    prelude::*,
    quantity::Amount,
    wire::{MessageSchema, messages},
};
use serde::{Deserialize, Deserializer};

use super::{CountedObject, CountedUsage, Gates};
use crate::usage::Usage;

/// API resource of Services.
pub const SERVICES: Resource = Resource::namespaced("", "v1", "services", "Service");

/// The fields of a Service that decide what it uses.
#[derive(Debug)]
pub struct Service {
    /// Metadata, which is dropped after the object was counted.
    pub metadata: Meta,
    /// Used `services.nodeports`.
    pub node_ports: usize,
    /// Used `services.loadbalancers`.
    pub load_balancers: usize,
}

impl<'de> Deserialize<'de> for Service {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            metadata: Meta,
            #[serde(borrow, default)]
            spec: Spec<'a>,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Spec<'a> {
            #[serde(rename = "type", borrow)]
            kind: Cow<'a, str>,
            ports: Option<Vec<Port>>,
            allocate_load_balancer_node_ports: Option<bool>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Port {
            #[serde(default)]
            node_port: i64,
        }
        let Wire { metadata, spec } = Wire::deserialize(deserializer)?;
        let ports = spec.ports.unwrap_or_default();
        let with_number = || ports.iter().filter(|port| port.node_port != 0).count();
        let (node_ports, load_balancers) = match &*spec.kind {
            "NodePort" => (ports.len(), 0),
            "LoadBalancer" if spec.allocate_load_balancer_node_ports == Some(false) => (with_number(), 1),
            "LoadBalancer" => (ports.len(), 1),
            _ => (0, 0),
        };
        Ok(Self { metadata, node_ports, load_balancers })
    }
}

impl Object for Service {
    const RESOURCE: Resource = SERVICES;
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::SERVICE);

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl CountedObject for Service {
    fn usage(&self, _: Gates) -> CountedUsage {
        let counts =
            [("services.nodeports", self.node_ports), ("services.loadbalancers", self.load_balancers)].into_iter();
        let counts = counts.filter(|(_, count)| *count > 0);
        let amounts = counts.map(|(name, count)| (Text::new(name), Amount::whole(count as i128))).collect();
        CountedUsage { usage: Usage { amounts, ..Usage::default() }, link: None }
    }
}
