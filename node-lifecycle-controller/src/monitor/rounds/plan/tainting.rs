//! Which nodes get a `NoExecute` taint now.

use std::{sync::Arc, time::Duration};

use common::{controller::Explain, intern::Text};

use crate::{
    flags::NODE_TAINT_MAX_SHARE,
    objects::{Name, Node},
    taints::Cause,
};

/// A node that is tainted.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// The node.
    pub(crate) node: Arc<Node>,
    /// Its zone.
    pub(crate) zone: Text,
    /// The cause as it is known; what the server says counts.
    pub(crate) cause: Cause,
}

/// What a round does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Nodes that are tainted.
    pub(crate) chosen: Vec<Chosen>,
    /// Nodes that no longer wait.
    pub(crate) over: Vec<Name>,
    /// The alarm to raise before anything is done.
    pub(crate) alarm: Option<String>,
    /// Whether the share of tainted nodes is above the alarm.
    pub(crate) is_alarmed: bool,
    /// Nodes that wait because of the cap.
    pub(crate) held: usize,
    /// All nodes that wait.
    pub(crate) waiting: usize,
    /// Those of them whose zone lets nodes be tainted now.
    pub(crate) expected: usize,
    /// The pause before the next round, if there has to be one.
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
