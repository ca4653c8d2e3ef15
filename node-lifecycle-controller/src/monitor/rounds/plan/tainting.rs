//! The plan to taint waiting nodes.

use std::{sync::Arc, time::Duration};

use common::{controller::Explain, intern::Text};

use crate::{
    flags::NODE_TAINT_MAX_SHARE,
    objects::{Name, Node},
    taints::Cause,
};

/// A node that gets a `NoExecute` taint now.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// The known state of the node.
    pub(crate) node: Arc<Node>,
    /// Key of the node's zone.
    pub(crate) zone: Text,
    /// Cause by the known state; the live state decides in the end.
    pub(crate) cause: Cause,
}

/// Actions of a round.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Nodes to taint.
    pub(crate) chosen: Vec<Chosen>,
    /// Nodes that no longer wait.
    pub(crate) over: Vec<Name>,
    /// Message of the alarm that precedes the taints; `None` for no alarm.
    pub(crate) alarm: Option<String>,
    /// Whether the share of tainted nodes is above the share of the alarm.
    pub(crate) is_alarmed: bool,
    /// Number of nodes that wait because of the limit.
    pub(crate) held: usize,
    /// Number of all waiting nodes.
    pub(crate) waiting: usize,
    /// Number of nodes that wait in zones with a positive tainting rate.
    pub(crate) expected: usize,
    /// Pause before the next round; `None` if no further round is necessary.
    pub(crate) pause: Option<Duration>,
}

impl Explain for Plan {
    fn situation(&self) -> String {
        let alarm = self.alarm.as_ref().map_or_else(String::new, |alarm| format!("; {alarm}"));
        format!("{} nodes wait for a NoExecute taint{alarm}", self.waiting)
    }

    fn waiting(&self) -> Vec<String> {
        let held = (self.held > 0)
            .then(|| format!("{} nodes are not tainted because of --{}", self.held, NODE_TAINT_MAX_SHARE.name));
        held.into_iter().collect()
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.pause
    }

    fn is_notable(&self) -> bool {
        self.alarm.is_some()
    }
}
