//! The snapshot of one Pod: the Pod, and the readiness of its node.

use std::sync::Arc;

use crate::objects::{CachedPod, NodeReadyStatus};

/// Everything that one sync of a Pod reads.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) pod: Arc<CachedPod>,
    /// The condition `Ready` of the Pod's node; `None` if the node is unknown.
    pub(crate) node_ready_status: Option<NodeReadyStatus>,
}
