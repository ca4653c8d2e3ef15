//! The plan of a pass over nodes: the result for each examined node, and the actions that follow.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{clock::Instant, controller::Explain, intern::Text};

use crate::{
    disruption::{Disruption, ZoneChange, ZoneState},
    monitor::rounds::snapshot::Reports,
    objects::Node,
    silence::Lapsed,
    taints::Cause,
};

/// Maximum number of waiting nodes that an explanation lists by name; further waiting nodes are only counted.
const LISTED: usize = 10;

/// Action of a pass on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The node is silent: these conditions become `Unknown`.
    Lapse(Vec<Lapsed>),
    /// The `NoExecute` taints of this program are removed: the node is ready, or every zone is fully disrupted.
    Relieve,
    /// The taint of this cause replaces a `NoExecute` taint that no longer fits the condition `Ready`, regardless of the rate.
    Swap(Cause),
    /// The node waits until its zone has a token to taint it.
    Wait(Cause),
}

/// Result of the examination of one node.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// The examined state of the node.
    pub(crate) node: Arc<Node>,
    /// Time at which the node is due for the next pass, usually the end of its grace period; `None` if no time is set.
    pub(crate) due: Option<Instant>,
    /// `None` if no action is necessary.
    pub(crate) action: Option<Action>,
}

/// Decisions of one pass over nodes.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Reason why the process is blind and judges no node; `None` otherwise.
    pub(crate) blind: Option<String>,
    /// Whether the pass reads Leases, because an answer is evidence of a live view of nodes.
    pub(crate) checks: bool,
    /// Results for the examined nodes; empty if the pass judges no node.
    pub(crate) judged: Vec<Judged>,
    /// New states and rates of the zones whose state or rate changes, by the key of the zone.
    pub(crate) zones: BTreeMap<Text, ZoneChange>,
    /// Whether every zone is fully disrupted, and whether this begins or ends with the pass.
    pub(crate) disruption: Disruption,
    /// Nodes to record as Events: added, removed, or set to `Unknown` by a write whose answer was lost.
    pub(crate) reports: Reports,
    /// Pause before the next pass, unless an action of this pass makes the next pass follow at once.
    pub(crate) pause: Duration,
}

impl Plan {
    /// Returns the nodes with an action, in the order of their examination.
    pub(crate) fn actions(&self) -> impl Iterator<Item = (&Arc<Node>, &Action)> {
        self.judged.iter().filter_map(|judged| judged.action.as_ref().map(|action| (&judged.node, action)))
    }
}

impl Action {
    /// Returns a description of the action for explanations, without the name of the node.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Self::Lapse(_) => "set the conditions to Unknown",
            Self::Relieve => "remove the NoExecute taints",
            Self::Swap(_) => "replace the NoExecute taint",
            Self::Wait(_) => "wait for the NoExecute taint",
        }
    }
}

impl Explain for Plan {
    fn situation(&self) -> String {
        let zone = |(zone, change): (&Text, &ZoneChange)| {
            let state = if change.state == ZoneState::Initial { "" } else { change.state.as_str() };
            format!("; zone {zone:?} is in state {state}, {} nodes a second are tainted", change.rate)
        };
        let zones: String = self.zones.iter().map(zone).collect();
        format!("{} nodes were examined{zones}", self.judged.len())
    }

    fn waiting(&self) -> Vec<String> {
        let mut out = Vec::new();
        if let Some(why) = &self.blind {
            out.push(format!("nodes are not judged, because this process is blind: {why}"));
        }
        if self.disruption.is_total() {
            out.push("no node is tainted, because no node of any zone is ready".to_owned());
        }
        let wait = |(node, action): (&Arc<Node>, &Action)| {
            let Action::Wait(cause) = action else { return None };
            Some(format!("Node {} waits for its turn to get the NoExecute taint {}", node.metadata.name, cause.key()))
        };
        let count = self.actions().filter_map(wait).count();
        out.extend(self.actions().filter_map(wait).take(LISTED));
        if count > LISTED {
            out.push(format!("and {} more nodes", count - LISTED));
        }
        out
    }

    fn requeue_after(&self) -> Option<Duration> {
        Some(self.pause)
    }

    fn is_notable(&self) -> bool {
        !self.zones.is_empty() || self.actions().next().is_some()
    }
}
