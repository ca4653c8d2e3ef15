//! What is read of Nodes, Pods and Leases.

mod node;
mod pod;

pub use node::{LEASE_NAMESPACE, LEASES, Lease, NODES, Node, NodeReady, READY};
pub use pod::{ByNode, CachedPod, DisruptedSince, ReadyCondition, TerminatingByNode};

/// Condition of a Pod: it goes because of something that happened to where it runs.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
