//! The two kinds this crate serves with one implementation, and all that tells them apart.

use common::{intern::Labels, object::Resource, selector::Selector, settings::WorkersFlag};
use serde::Deserialize as _;
use serde_json::Value;

/// One of the kinds. Upstream serves the second through conversions around the first; here the differences are these.
pub trait Kind: Send + Sync + Sized + 'static {
    /// Where its objects live; also the kind and apiVersion in references to them.
    const RESOURCE: Resource;
    /// Name of its work queue in metrics.
    const QUEUE: &'static str;
    /// How many of its objects are synced at once.
    const WORKERS: WorkersFlag;
    /// Whether Pods of siblings (sets of one owner) on the same node count when Pods to delete are ranked.
    const RANKS_BY_COLOCATION: bool;
    /// Whether its status counts terminating Pods.
    const COUNTS_TERMINATING: bool;
    /// Whether it waits for its caches to show its own writes, where the gate for that is on.
    const READS_OWN_WRITES: bool;

    /// Compiles `spec.selector`.
    fn selector(value: &Value) -> Selector;
}

/// `apps/v1` ReplicaSets.
pub enum ReplicaSets {}

impl Kind for ReplicaSets {
    const RESOURCE: Resource =
        Resource { group: "apps", version: "v1", plural: "replicasets", kind: "ReplicaSet", namespaced: true };
    const QUEUE: &'static str = "replicaset";
    const WORKERS: WorkersFlag =
        WorkersFlag::new("concurrent-replicaset-syncs", 5, "How many ReplicaSets are synced at once");
    const RANKS_BY_COLOCATION: bool = true;
    const COUNTS_TERMINATING: bool = true;
    const READS_OWN_WRITES: bool = true;

    fn selector(value: &Value) -> Selector {
        Selector::from_value(value)
    }
}

/// `v1` ReplicationControllers.
pub enum ReplicationControllers {}

impl Kind for ReplicationControllers {
    const RESOURCE: Resource = Resource {
        group: "",
        version: "v1",
        plural: "replicationcontrollers",
        kind: "ReplicationController",
        namespaced: true,
    };
    const QUEUE: &'static str = "replicationmanager";
    const WORKERS: WorkersFlag =
        WorkersFlag::new("concurrent-rc-syncs", 5, "How many ReplicationControllers are synced at once");
    const RANKS_BY_COLOCATION: bool = false;
    const COUNTS_TERMINATING: bool = false;
    const READS_OWN_WRITES: bool = false;

    /// The selector is a plain map of labels. One that is none at all selects nothing, which the reader of the object
    /// refuses.
    fn selector(value: &Value) -> Selector {
        Labels::deserialize(value).map_or_else(|_| Selector::from_value(&Value::Bool(false)), Selector::from_map)
    }
}
