//! A Pod, and whether its node is ready.

use std::sync::Arc;

use crate::objects::{CachedPod, NodeReady};

/// Everything one sync of a Pod may look at.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The Pod.
    pub(crate) pod: Arc<CachedPod>,
    /// Whether its node is ready; none if nothing is known of the node.
    pub(crate) node: Option<NodeReady>,
}
