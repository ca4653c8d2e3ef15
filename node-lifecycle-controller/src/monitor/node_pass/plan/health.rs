//! The plan of a pass over nodes: the result for each examined node, and the actions that follow.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{clock::Instant, controller::SyncPlan, intern::Text};

use crate::{
    disruption::{ClusterDisruption, ZoneState, ZoneStateChange},
    monitor::node_pass::snapshot::NodesToReport,
    objects::Node,
    silence::StaleCondition,
    taints::TaintCause,
};

/// Maximum number of waiting nodes that an explanation lists by name; further waiting nodes are only counted.
const MAX_LISTED_NODES: usize = 10;

/// Action of a pass on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The node has sent no heartbeat for its grace period: these conditions become `Unknown`.
    SetConditionsUnknown(Vec<StaleCondition>),
    /// The `NoExecute` taints of this program are removed: the node is ready, or every zone is fully disrupted.
    RemoveNoExecute,
    /// The taint of this cause replaces a `NoExecute` taint that no longer fits the condition `Ready`, regardless of the rate.
    ReplaceNoExecute(TaintCause),
    /// The node waits for its `NoExecute` taint until the rate limiter of its zone has a token.
    WaitForTaint(TaintCause),
}

/// Decision about one examined node.
#[derive(Clone, Debug)]
pub(crate) struct NodeDecision {
    /// The examined state of the node.
    pub(crate) node: Arc<Node>,
    /// Time at which a pass examines the node even without a change, usually the end of its grace period; `None` for never.
    pub(crate) next_examination_at: Option<Instant>,
    /// `None` if no action is necessary.
    pub(crate) action: Option<Action>,
}

/// Decisions of one pass over nodes.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Reason why the pass makes no decisions about nodes; `None` if it makes decisions.
    pub(crate) outage_reason: Option<String>,
    /// Whether the pass reads Leases to find out whether this process reaches the server, because events are missing.
    pub(crate) reads_leases: bool,
    /// Decisions about the examined nodes; empty if the pass makes no decisions.
    pub(crate) node_decisions: Vec<NodeDecision>,
    /// New states and tainting rates by the key of the zone; only zones with a change.
    pub(crate) zone_changes: BTreeMap<Text, ZoneStateChange>,
    /// Whether every zone is fully disrupted, and whether such a disruption begins or ends with the pass.
    pub(crate) cluster_disruption: ClusterDisruption,
    /// Nodes to record as Events: added, removed, or set to `Unknown` by an unanswered write.
    pub(crate) nodes_to_report: NodesToReport,
    /// Pause before the next pass, unless an action of this pass makes the next pass follow at once.
    pub(crate) next_pass_after: Duration,
}

impl Plan {
    /// Returns the nodes with an action, in the order of their examination.
    pub(crate) fn nodes_with_action(&self) -> impl Iterator<Item = (&Arc<Node>, &Action)> {
        self.node_decisions.iter().filter_map(|judged| judged.action.as_ref().map(|action| (&judged.node, action)))
    }
}

impl Action {
    /// Returns a description of the action for explanations, without the name of the node.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Self::SetConditionsUnknown(_) => "set the conditions to Unknown",
            Self::RemoveNoExecute => "remove the NoExecute taints",
            Self::ReplaceNoExecute(_) => "replace the NoExecute taint",
            Self::WaitForTaint(_) => "wait for the NoExecute taint",
        }
    }
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        let zone = |(zone, change): (&Text, &ZoneStateChange)| {
            let state = if change.state == ZoneState::Initial { "" } else { change.state.as_str() };
            format!("; zone {zone:?} is in state {state}, {} nodes a second are tainted", change.tainting_rate)
        };
        let zones: String = self.zone_changes.iter().map(zone).collect();
        format!("{} nodes were examined{zones}", self.node_decisions.len())
    }

    fn wait_reasons(&self) -> Vec<String> {
        let mut out = Vec::new();
        if let Some(why) = &self.outage_reason {
            out.push(format!("nodes are not judged, because this process is blind: {why}"));
        }
        if self.cluster_disruption.is_total() {
            out.push("no node is tainted, because no node of any zone is ready".to_owned());
        }
        let wait = |(node, action): (&Arc<Node>, &Action)| {
            let Action::WaitForTaint(cause) = action else { return None };
            Some(format!(
                "Node {} waits for its turn to get the NoExecute taint {}",
                node.metadata.name,
                cause.taint_key()
            ))
        };
        let count = self.nodes_with_action().filter_map(wait).count();
        out.extend(self.nodes_with_action().filter_map(wait).take(MAX_LISTED_NODES));
        if count > MAX_LISTED_NODES {
            out.push(format!("and {} more nodes", count - MAX_LISTED_NODES));
        }
        out
    }

    fn requeue_after(&self) -> Option<Duration> {
        Some(self.next_pass_after)
    }

    fn is_notable(&self) -> bool {
        !self.zone_changes.is_empty() || self.nodes_with_action().next().is_some()
    }
}
