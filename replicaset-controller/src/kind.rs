//! ReplicaSets and ReplicationControllers as kinds of sets, and all differences between them.

use common::{
    intern::Labels,
    object::Resource,
    selector::Selector,
    settings::WorkersFlag,
    wire::{MessageSchema, messages},
};
use serde::Deserialize as _;
use serde_json::Value;

/// A kind of set: ReplicaSet or ReplicationController. Upstream converts ReplicationControllers to ReplicaSets instead.
pub trait SetKind: Send + Sync + Sized + 'static {
    /// Resource of the sets; also the kind and apiVersion in owner references.
    const RESOURCE: Resource;
    /// Schema of a set in protobuf.
    const PROTOBUF_SCHEMA: &'static MessageSchema;
    /// Name of the work queue in metrics.
    const QUEUE_NAME: &'static str;
    /// The flag with the count of workers that sync sets of this kind.
    const WORKERS_FLAG: WorkersFlag;
    /// Whether Pods of siblings (sets with the same owner) on a Pod's node affect the Pod's rank for deletion.
    const RANKS_BY_COLOCATION: bool;
    /// Whether the status counts terminating Pods.
    const COUNTS_TERMINATING_PODS: bool;
    /// Whether a sync waits for the caches to show this process's writes, if the feature gate is on.
    const WAITS_FOR_OWN_WRITES: bool;

    /// Compiles `spec.selector`: a label selector for ReplicaSets, a map of labels for ReplicationControllers.
    fn compile_selector(value: &Value) -> Selector;
}

/// ReplicaSets of `apps/v1`, which a Deployment may own.
#[derive(Debug)]
pub enum ReplicaSets {}

impl SetKind for ReplicaSets {
    const RESOURCE: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
    const PROTOBUF_SCHEMA: &'static MessageSchema = &messages::REPLICA_SET;
    const QUEUE_NAME: &'static str = "replicaset";
    const WORKERS_FLAG: WorkersFlag =
        WorkersFlag::new("concurrent-replicaset-syncs", 5, "How many ReplicaSets are synced at once");
    const RANKS_BY_COLOCATION: bool = true;
    const COUNTS_TERMINATING_PODS: bool = true;
    const WAITS_FOR_OWN_WRITES: bool = true;

    fn compile_selector(value: &Value) -> Selector {
        Selector::from_value(value)
    }
}

/// ReplicationControllers of `v1`: no ranking by co-location, no count of terminating Pods, no wait for their status writes.
#[derive(Debug)]
pub enum ReplicationControllers {}

impl SetKind for ReplicationControllers {
    const RESOURCE: Resource = Resource::namespaced("", "v1", "replicationcontrollers", "ReplicationController");
    const PROTOBUF_SCHEMA: &'static MessageSchema = &messages::REPLICATION_CONTROLLER;
    const QUEUE_NAME: &'static str = "replicationmanager";
    const WORKERS_FLAG: WorkersFlag =
        WorkersFlag::new("concurrent-rc-syncs", 5, "How many ReplicationControllers are synced at once");
    const RANKS_BY_COLOCATION: bool = false;
    const COUNTS_TERMINATING_PODS: bool = false;
    const WAITS_FOR_OWN_WRITES: bool = false;

    /// The selector is a plain map of labels. Any other value compiles to a malformed selector, which is reported and matches
    /// nothing.
    fn compile_selector(value: &Value) -> Selector {
        Labels::deserialize(value).map_or_else(|_| Selector::from_value(&Value::Bool(false)), Selector::from_map)
    }
}
