//! The snapshot of one node: its state, and facts of the node monitor for explanations.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::{disruption::ZoneState, objects::Node};

/// A failed change of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeChangeFailure {
    /// Description of the attempted change, followed by its error.
    pub(crate) error: String,
    pub(crate) failed_at: Timestamp,
}

/// The monitor's facts about a node, for explanations.
#[derive(Clone, Debug)]
pub(crate) struct NodeFacts {
    /// Age of the newest heartbeat of the node at the time of the snapshot.
    pub(crate) time_since_last_heartbeat: Duration,
    /// Rest of the grace period; `None` if it has passed or the condition `Ready` is already `Unknown`.
    pub(crate) remaining_grace_period: Option<Duration>,
    /// Time for which the node has waited for a `NoExecute` taint; `None` if it does not wait.
    pub(crate) time_waited_for_taint: Option<Duration>,
    /// State of the node's zone, which decides the rate of `NoExecute` taints.
    pub(crate) zone_state: ZoneState,
    /// Time for which passes have made no decisions about nodes; `None` if they make decisions.
    pub(crate) outage_duration: Option<Duration>,
    /// The last failed change of the node, if the change is still necessary.
    pub(crate) last_change_failure: Option<Arc<NodeChangeFailure>>,
}

/// Everything that one sync of a node reads.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The state of the node in the cache or in a later answer of the server.
    pub(crate) node: Arc<Node>,
    pub(crate) node_facts: NodeFacts,
}
