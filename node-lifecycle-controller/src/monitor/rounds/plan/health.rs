//! The plan of a pass: findings about nodes, and the actions that follow.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{clock::Instant, controller::Explain, intern::Text};

use crate::{
    disruption::{Disruption, ZoneChange, ZoneState},
    monitor::rounds::snapshot::Reports,
    objects::Node,
    silence::Lapsed,
    taints::Cause,
};

/// Number of nodes that an explanation lists individually.
const LISTED: usize = 10;

/// Action on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The node is silent: these conditions become `Unknown`.
    Lapse(Vec<Lapsed>),
    /// The `NoExecute` taints are removed, so that Pods may stay.
    Relieve,
    /// The `NoExecute` taint no longer fits the condition `Ready`: the taint of this cause replaces it, regardless of the rate.
    Swap(Cause),
    /// The node waits until its zone has a token to taint it.
    Wait(Cause),
}

/// Findings of a pass about one node.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// The examined state of the node.
    pub(crate) node: Arc<Node>,
    /// Time at which the node is examined again, usually the end of its grace period; `None` if there is no such time.
    pub(crate) due: Option<Instant>,
    /// Action on the node; `None` if none is necessary.
    pub(crate) action: Option<Action>,
}

/// Findings and actions of a pass.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Why no node is judged; `None` if nodes are judged.
    pub(crate) blind: Option<String>,
    /// Whether the pass requests evidence of a live view.
    pub(crate) checks: bool,
    /// The examined nodes; empty while the process is blind.
    pub(crate) judged: Vec<Judged>,
    /// Zones whose state or rate changes.
    pub(crate) zones: BTreeMap<Text, ZoneChange>,
    /// Whether every zone is fully disrupted.
    pub(crate) disruption: Disruption,
    /// Added, removed and lapsed nodes to report.
    pub(crate) reports: Reports,
    /// Pause before the next pass.
    pub(crate) pause: Duration,
}

impl Plan {
    /// Returns the nodes with an action, in the order of their examination.
    pub(crate) fn actions(&self) -> impl Iterator<Item = (&Arc<Node>, &Action)> {
        self.judged.iter().filter_map(|judged| judged.action.as_ref().map(|action| (&judged.node, action)))
    }
}

impl Action {
    /// Describes the action without the node.
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
