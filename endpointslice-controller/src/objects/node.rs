//! Nodes, reduced to their zone, readiness and CPU capacity.

use common::{
    conditions::{Condition, is_true},
    intern::Labels,
    meta::{Annotations, OwnerRefs},
    prelude::*,
    quantity::Quantity,
    wire::{MessageSchema, messages},
};
use serde::{Deserialize, Deserializer};

use super::ZONE_LABEL;

/// The resource `nodes` of the core API group.
pub const NODES: Resource = Resource::cluster_scoped("", "v1", "nodes", "Node");

/// The keys of the labels with which a Node does not count in the CPU capacity of its zone.
const EXCLUDED_NODE_LABELS: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// The fields of a Node from which the CPU capacity of each zone is computed.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Metadata; labels, annotations, owner references and finalizers are not kept in the cache.
    pub metadata: Meta,
    /// The value of the label [`ZONE_LABEL`]; empty without the label.
    pub zone: Text,
    /// Whether the CPU of the Node counts in the capacity of its zone; false for control plane nodes.
    pub is_counted_in_zone_capacity: bool,
    /// Whether the condition `Ready` is `True`.
    pub is_ready: bool,
    /// CPU in `status.allocatable`, in thousandths of a core; 0 if the status has no value.
    pub allocatable_millicores: i64,
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
        let cpu = status.allocatable.and_then(|allocatable| allocatable.cpu);
        Ok(Self {
            zone: Text::new(metadata.labels.get(ZONE_LABEL).unwrap_or_default()),
            is_counted_in_zone_capacity: EXCLUDED_NODE_LABELS.iter().all(|label| metadata.labels.get(label).is_none()),
            is_ready: is_true(&status.conditions.unwrap_or_default(), "Ready"),
            allocatable_millicores: cpu.map_or(0, |cpu| cpu.milli_value()),
            metadata,
        })
    }
}

impl Object for Node {
    const RESOURCE: Resource = NODES;
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::NODE);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.labels = Labels::empty();
        self.metadata.annotations = Annotations::default();
        self.metadata.owners = OwnerRefs::default();
        self.metadata.finalizers = Box::default();
    }
}
