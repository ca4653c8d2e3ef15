//! The plan to taint waiting nodes.

use std::{sync::Arc, time::Duration};

use common::{controller::Explain, intern::Text};

use crate::{
    flags::NODE_TAINT_MAX_SHARE,
    objects::{Name, Node},
    taints::Cause,
};

/// A node that this round taints.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// The newest recorded state of the node.
    pub(crate) node: Arc<Node>,
    /// Key of the zone, made of the region and zone labels of the node.
    pub(crate) zone: Text,
    /// Cause of the taint by the recorded state; the written taint follows from the state on the server.
    pub(crate) cause: Cause,
}

/// Decisions of one round of tainting.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Nodes to taint now, at most one of each zone.
    pub(crate) chosen: Vec<Chosen>,
    /// Nodes that stop waiting, because they no longer need a taint.
    pub(crate) over: Vec<Name>,
    /// Message of the alarm that precedes the taints; `None` for no alarm.
    pub(crate) alarm: Option<String>,
    /// Whether the share of tainted and waiting nodes is above the flag `--node-taint-alarm-share`.
    pub(crate) is_alarmed: bool,
    /// Number of nodes that are not tainted because of the flag `--node-taint-max-share`.
    pub(crate) held: usize,
    /// Number of nodes that wait for a taint, in all zones.
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
