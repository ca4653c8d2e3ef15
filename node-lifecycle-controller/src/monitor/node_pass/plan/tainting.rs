//! The plan to taint waiting nodes.

use std::{sync::Arc, time::Duration};

use common::{controller::SyncPlan, intern::Text};

use crate::{
    flags::NODE_TAINT_MAX_SHARE,
    objects::{Node, NodeName},
    taints::TaintCause,
};

/// A node that the pass taints, at the rate of its zone.
#[derive(Clone, Debug)]
pub(crate) struct NodeToTaint {
    /// The newest recorded state of the node.
    pub(crate) node: Arc<Node>,
    /// Key of the zone, made of the region and zone labels of the node.
    pub(crate) zone_key: Text,
    /// Cause of the taint by the recorded state; the written taint follows from the state on the server.
    pub(crate) cause: TaintCause,
}

/// Decisions about the nodes that wait for a `NoExecute` taint.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Nodes to taint now, at most one of each zone.
    pub(crate) nodes_to_taint: Vec<NodeToTaint>,
    /// Nodes that stop waiting, because they no longer need a taint.
    pub(crate) nodes_no_longer_waiting_for_taint: Vec<NodeName>,
    /// Message of the alarm that precedes the taints; `None` for no alarm.
    pub(crate) alarm_message: Option<String>,
    /// Whether the share of tainted and waiting nodes is above the flag `--node-taint-alarm-share`.
    pub(crate) exceeds_alarm_share: bool,
    /// Number of nodes that are not tainted because of the flag `--node-taint-max-share`.
    pub(crate) blocked_by_max_share_count: usize,
    /// Number of nodes that wait for a taint, in all zones.
    pub(crate) waiting_node_count: usize,
    /// Number of nodes that wait in zones with a positive tainting rate.
    pub(crate) taintable_waiting_node_count: usize,
    /// Pause before the next tainting pass; `None` if no further pass is necessary.
    pub(crate) next_pass_after: Option<Duration>,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        let alarm = self.alarm_message.as_ref().map_or_else(String::new, |alarm| format!("; {alarm}"));
        format!("{} nodes wait for a NoExecute taint{alarm}", self.waiting_node_count)
    }

    fn wait_reasons(&self) -> Vec<String> {
        let held = (self.blocked_by_max_share_count > 0).then(|| {
            format!(
                "{} nodes are not tainted because of --{}",
                self.blocked_by_max_share_count, NODE_TAINT_MAX_SHARE.name
            )
        });
        held.into_iter().collect()
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.next_pass_after
    }

    fn is_notable(&self) -> bool {
        self.alarm_message.is_some()
    }
}
