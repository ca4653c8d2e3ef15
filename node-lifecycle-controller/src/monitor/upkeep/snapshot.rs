//! A node, and the monitor's facts about it.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::{disruption::ZoneState, objects::Node};

/// A failed change of a node.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// The attempted change and its error.
    pub(crate) error: String,
    /// Time of the failure.
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
    /// State of the node's zone.
    pub(crate) zone: ZoneState,
    /// How long no node has been judged; `None` if nodes are judged.
    pub(crate) blind_for: Option<Duration>,
    /// The last failed change of the node, if the change is still necessary.
    pub(crate) failure: Option<Arc<Failure>>,
}

/// Everything that one sync of a node reads.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// Newest known state of the node.
    pub(crate) node: Arc<Node>,
    /// The monitor's facts about the node.
    pub(crate) standing: Standing,
}
