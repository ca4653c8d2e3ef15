//! The snapshot of one node: its state, and facts of the node monitor for explanations.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::{disruption::ZoneState, objects::Node};

/// A failed change of a node.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Description of the attempted change, followed by its error.
    pub(crate) error: String,
    pub(crate) at: Timestamp,
}

/// The monitor's facts about a node, for explanations.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    /// Time since the last heartbeat.
    pub(crate) heard_ago: Duration,
    /// Time until the node counts as silent; `None` if it is silent or already `Unknown`.
    pub(crate) silent_in: Option<Duration>,
    /// How long the node has waited for a `NoExecute` taint; `None` if it does not wait.
    pub(crate) waiting: Option<Duration>,
    /// State of the node's zone, which decides the rate of `NoExecute` taints.
    pub(crate) zone: ZoneState,
    /// How long this process has judged no node; `None` if it judges nodes.
    pub(crate) blind_for: Option<Duration>,
    /// The last failed change of the node, if the change is still necessary.
    pub(crate) failure: Option<Arc<Failure>>,
}

/// Everything that one sync of a node reads.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// Newest known state of the node.
    pub(crate) node: Arc<Node>,
    pub(crate) standing: Standing,
}
