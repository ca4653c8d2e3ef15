//! Nodes, with their zone and CPU capacity.

use common::{
    conditions::{Condition, is_true},
    intern::{Labels, Text},
    meta::{Annotations, Meta, Owners},
    object::{Object, Resource},
    quantity::Quantity,
    wire::{Message, messages},
};
use serde::{Deserialize, Deserializer};

use super::ZONE;

/// The resource `nodes` of the core API group.
pub const NODES: Resource = Resource { group: "", version: "v1", plural: "nodes", kind: "Node", namespaced: false };

/// The keys of labels that exclude a Node from the capacity of its zone.
const EXCLUDED: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// A Node, reduced to its zone and its capacity.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Metadata without labels, annotations, owners and finalizers.
    pub metadata: Meta,
    /// The value of the label [`ZONE`]; empty without the label.
    pub zone: Text,
    /// Whether the capacity counts for the zone; false for control plane nodes.
    pub counts: bool,
    /// Whether the condition `Ready` is `True`.
    pub is_ready: bool,
    /// Allocatable CPU in millicores.
    pub cpu: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire {
    metadata: Meta,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    allocatable: Option<Allocatable>,
    conditions: Option<Vec<Condition>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Allocatable {
    cpu: Option<Quantity>,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Wire { metadata, status } = Wire::deserialize(deserializer)?;
        let status = status.unwrap_or_default();
        Ok(Self {
            zone: Text::new(metadata.labels.get(ZONE).unwrap_or_default()),
            counts: EXCLUDED.iter().all(|label| metadata.labels.get(label).is_none()),
            is_ready: is_true(&status.conditions.unwrap_or_default(), "Ready"),
            cpu: status.allocatable.and_then(|allocatable| allocatable.cpu).map_or(0, |cpu| cpu.milli()),
            metadata,
        })
    }
}

impl Object for Node {
    const RESOURCE: Resource = NODES;
    type Indexes = ();
    const PROTOBUF: Option<&'static Message> = Some(&messages::NODE);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.labels = Labels::empty();
        self.metadata.annotations = Annotations::default();
        self.metadata.owners = Owners::default();
        self.metadata.finalizers = Box::default();
    }
}
