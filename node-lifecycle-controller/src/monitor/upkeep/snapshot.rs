//! A node, and what the monitor knows of it.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::{disruption::ZoneState, objects::Node};

/// A change of a node that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// What was attempted, and what went wrong.
    pub(crate) error: String,
    /// When that was.
    pub(crate) at: Timestamp,
}

/// What the monitor knows of a node, for explanations.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    /// How long ago the last sign of life was seen.
    pub(crate) heard_ago: Duration,
    /// The time until the node counts as silent; none if it does, or if nothing depends on it.
    pub(crate) silent_in: Option<Duration>,
    /// How long the node has waited for a `NoExecute` taint.
    pub(crate) waiting: Option<Duration>,
    /// The state of its zone.
    pub(crate) zone: ZoneState,
    /// How long the monitor has not seen what nodes do.
    pub(crate) blind_for: Option<Duration>,
    /// The last change of the node that failed, if it is still necessary.
    pub(crate) failure: Option<Arc<Failure>>,
}

/// Everything one sync of a node may look at.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The newest known state of the node.
    pub(crate) node: Arc<Node>,
    /// What the monitor knows of it.
    pub(crate) standing: Standing,
}
