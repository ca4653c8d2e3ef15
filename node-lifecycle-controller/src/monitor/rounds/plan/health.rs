//! What a pass finds out about nodes and does with them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{clock::Instant, controller::Explain, intern::Text};

use crate::{
    disruption::{Disruption, ZoneChange, ZoneState},
    monitor::rounds::snapshot::Reports,
    objects::Node,
    silence::Lapsed,
    taints::Cause,
};

/// How many nodes an explanation lists one by one.
const LISTED: usize = 10;

/// What happens to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It has been silent for too long: these conditions become `Unknown`.
    Lapse(Vec<Lapsed>),
    /// Pods may stay there again.
    Relieve,
    /// Its taint does not fit its condition any more: this one takes its place, whatever the rate.
    Swap(Cause),
    /// It waits for its turn to be tainted.
    Wait(Cause),
}

/// What a pass finds out about a node.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// The node.
    pub(crate) node: Arc<Node>,
    /// When it counts as silent if nothing is heard of it; none if nothing depends on that.
    pub(crate) due: Option<Instant>,
    /// What happens to it.
    pub(crate) action: Option<Action>,
}

/// What a pass does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Why nothing is decided about nodes, if nothing is.
    pub(crate) blind: Option<String>,
    /// Whether proof of sight is asked for.
    pub(crate) checks: bool,
    /// The nodes that were looked at; none while the process is blind.
    pub(crate) judged: Vec<Judged>,
    /// Zones whose state or rate changes.
    pub(crate) zones: BTreeMap<Text, ZoneChange>,
    /// Whether every zone is fully disrupted.
    pub(crate) disruption: Disruption,
    /// What is reported of nodes that came, went, or fell silent.
    pub(crate) reports: Reports,
    /// The pause before the next pass.
    pub(crate) pause: Duration,
}

impl Plan {
    /// Nodes with an action, in the order in which they were looked at.
    pub(crate) fn actions(&self) -> impl Iterator<Item = (&Arc<Node>, &Action)> {
        self.judged.iter().filter_map(|judged| judged.action.as_ref().map(|action| (&judged.node, action)))
    }
}

impl Action {
    /// What is done, without the node.
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
        format!("{} nodes were looked at{zones}", self.judged.len())
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
