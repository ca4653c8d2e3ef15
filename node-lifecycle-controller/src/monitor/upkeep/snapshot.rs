//! The snapshot of one node: its state, and facts of the node monitor for explanations.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::{disruption::ZoneState, objects::Node};

/// A failed change of a node.
#[derive(Clone, Debug)]
pub(crate) struct ChangeFailure {
    /// Description of the attempted change, followed by its error.
    pub(crate) error: String,
    pub(crate) failed_at: Timestamp,
}

/// The monitor's facts about a node, for explanations.
#[derive(Clone, Debug)]
pub(crate) struct NodeFacts {
    /// Time since the last heartbeat.
    pub(crate) last_heartbeat_ago: Duration,
    /// Rest of the grace period; `None` if it has passed or the condition `Ready` is already `Unknown`.
    pub(crate) time_until_silent: Option<Duration>,
    /// Time for which the node has waited for a `NoExecute` taint; `None` if it does not wait.
    pub(crate) waited_for_taint: Option<Duration>,
    /// State of the node's zone, which decides the rate of `NoExecute` taints.
    pub(crate) zone_state: ZoneState,
    /// Time for which passes have made no decisions about nodes; `None` if they make decisions.
    pub(crate) blind_for: Option<Duration>,
    /// The last failed change of the node, if the change is still necessary.
    pub(crate) last_failure: Option<Arc<ChangeFailure>>,
}

/// Everything that one sync of a node reads.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// Newest known state of the node.
    pub(crate) node: Arc<Node>,
    pub(crate) facts: NodeFacts,
}
