//! What is read of Nodes, Pods and Leases.

mod node;
mod pod;

pub use node::{LEASE_NAMESPACE, LEASES, Lease, NODES, Node, NodeReady, READY};
pub use pod::{CachedPod, DisruptedSince, ReadyCondition};
pub(crate) use pod::{by_node, ended, terminating_by_node};

/// Condition of a Pod: it goes because of something that happened to where it runs.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
