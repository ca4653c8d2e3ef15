//! The fields of Nodes, Pods and Leases that this program reads.

mod node;
mod pod;

pub use node::{LEASE_NAMESPACE, LEASES, Lease, NODES, Name, Node, NodeReady, READY, Renewal};
pub use pod::{ByNode, CachedPod, DISRUPTION_TARGET, DisruptedSince, ReadyCondition, TerminatingByNode};
