//! The fields of Nodes, Pods and Leases that this program reads.

mod node;
mod pod;

pub use node::{
    LEASES, Lease, NODE_LEASE_NAMESPACE, NODES, Node, NodeName, NodeReadyStatus, READY_CONDITION, RenewTime,
};
pub use pod::{
    CachedPod, DISRUPTION_TARGET_CONDITION, DisruptionTime, PodReadyStatus, PodsByNode, TerminatingPodsByNode,
};
