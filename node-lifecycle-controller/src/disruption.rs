//! Computes the states of zones, and the rates at which the nodes of each zone are tainted.
//!
//! Upstream: `pkg/controller/nodelifecycle`, `ComputeZoneState`, `handleDisruption`, `setLimiterInZone`.

use std::collections::BTreeMap;

use common::prelude::Text;

/// State of a zone, computed from the share of nodes that are not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneState {
    /// No pass of the node monitor has computed the state yet.
    Initial,
    /// The share of nodes that are not ready is below the threshold, or at most 2 nodes are not ready.
    Normal,
    /// The share of nodes that are not ready reaches the threshold, and at least 3 nodes are not ready.
    PartialDisruption,
    /// No node of the zone is ready, except nodes that a label excludes from the counts.
    FullDisruption,
}

impl ZoneState {
    /// Returns the name that upstream gives to the state, for example `FullDisruption`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Initial => "Initial",
            Self::Normal => "Normal",
            Self::PartialDisruption => "PartialDisruption",
            Self::FullDisruption => "FullDisruption",
        }
    }
}

/// Numbers of nodes in a zone. Nodes with the label `node.kubernetes.io/exclude-disruption` are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeCounts {
    /// Nodes with the condition `Ready` `True`, except nodes for which a write of the condition `Unknown` failed.
    pub(crate) ready: usize,
    /// Nodes with another or no condition `Ready`, and nodes for which a write of the condition `Unknown` failed.
    pub(crate) not_ready: usize,
}

impl NodeCounts {
    /// Returns the number of all nodes except those with the label `node.kubernetes.io/exclude-disruption`.
    pub(crate) fn total(self) -> usize {
        self.ready + self.not_ready
    }
}

/// Thresholds for the states of zones, and rates of tainting; set by flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ZoneSettings {
    /// A zone is partially disrupted if at least this share of its nodes, between 0 and 1, is not ready.
    pub(crate) unhealthy_zone_threshold: f32,
    /// Number of nodes above which a zone is large. In a smaller zone that is partially disrupted, no node is tainted.
    pub(crate) large_zone_threshold: i64,
    /// Nodes to taint per second in a zone that is not partially disrupted.
    pub(crate) eviction_rate: f32,
    /// Nodes to taint per second in a large zone that is partially disrupted.
    pub(crate) secondary_eviction_rate: f32,
}

impl ZoneSettings {
    /// Computes the state of a zone from its node counts; never returns `Initial`.
    pub(crate) fn state_for_counts(&self, count: NodeCounts) -> ZoneState {
        let NodeCounts { ready, not_ready } = count;
        if ready == 0 && not_ready > 0 {
            ZoneState::FullDisruption
        } else if not_ready > 2 && not_ready as f32 / count.total() as f32 >= self.unhealthy_zone_threshold {
            ZoneState::PartialDisruption
        } else {
            ZoneState::Normal
        }
    }

    /// Returns the tainting rate of a zone in this state, in nodes per second.
    pub(crate) fn tainting_rate(&self, state: ZoneState, count: NodeCounts) -> f32 {
        let is_large = i64::try_from(count.total()).unwrap_or(i64::MAX) > self.large_zone_threshold;
        match state {
            ZoneState::Initial | ZoneState::Normal | ZoneState::FullDisruption => self.eviction_rate,
            ZoneState::PartialDisruption if is_large => self.secondary_eviction_rate,
            ZoneState::PartialDisruption => 0.0,
        }
    }
}

/// State and tainting rate of a zone after a pass that changed at least one of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ZoneStateChange {
    pub(crate) state: ZoneState,
    /// Nodes to taint per second.
    pub(crate) tainting_rate: f32,
}

/// Whether every zone is fully disrupted, and whether this has just changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterDisruption {
    /// At least one zone is not fully disrupted.
    NotTotal,
    /// Every zone has just become fully disrupted: no further node is tainted, and existing taints are removed.
    TotalBegins,
    /// Every zone is still fully disrupted.
    TotalLasts,
    /// Every zone was fully disrupted, and at least one zone has just recovered: all grace periods restart.
    TotalEnds,
}

impl ClusterDisruption {
    /// Whether every zone is fully disrupted.
    pub(crate) fn is_total(self) -> bool {
        matches!(self, Self::TotalBegins | Self::TotalLasts)
    }
}

/// State of a zone before a pass of the node monitor, and the current node counts of the zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ZoneStatus {
    /// State that the last pass computed; `Initial` before the first pass.
    pub(crate) state: ZoneState,
    pub(crate) node_counts: NodeCounts,
}

/// Returns the zones with a new state or rate, and the disruption of the whole cluster. Ignores a zone if all its nodes are
/// excluded by a label.
///
/// `was_total` is true if the last pass found every zone fully disrupted.
pub(crate) fn zone_changes_and_cluster_disruption(
    zones: &BTreeMap<Text, ZoneStatus>,
    was_total: bool,
    settings: &ZoneSettings,
) -> (BTreeMap<Text, ZoneStateChange>, ClusterDisruption) {
    let counted = || zones.iter().filter(|(_, zone)| zone.node_counts.total() > 0);
    let is_full =
        |(_, zone): (&Text, &ZoneStatus)| settings.state_for_counts(zone.node_counts) == ZoneState::FullDisruption;
    let is_total = if counted().next().is_none() { was_total } else { counted().all(is_full) };
    let disruption = match (was_total, is_total) {
        (false, false) => ClusterDisruption::NotTotal,
        (false, true) => ClusterDisruption::TotalBegins,
        (true, true) => ClusterDisruption::TotalLasts,
        (true, false) => ClusterDisruption::TotalEnds,
    };
    let change = |(name, zone): (&Text, &ZoneStatus)| {
        let state = settings.state_for_counts(zone.node_counts);
        let rate = if is_total { 0.0 } else { settings.tainting_rate(state, zone.node_counts) };
        // A total disruption sets the rate of every zone to 0, so its start and its end change every zone.
        let is_change =
            state != zone.state || matches!(disruption, ClusterDisruption::TotalBegins | ClusterDisruption::TotalEnds);
        is_change.then(|| (name.clone(), ZoneStateChange { state, tainting_rate: rate }))
    };
    (counted().filter_map(change).collect(), disruption)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::ZONE_SETTINGS;

    /// The specification's table of zone states and rates.
    /// NODE-32, NODE-33.
    #[test]
    fn the_share_of_nodes_that_are_not_ready_decides() {
        use ZoneState::{FullDisruption, Normal, PartialDisruption};
        for (not_ready, size, state, rate) in [
            (1, 1, FullDisruption, 0.1),
            (2, 3, Normal, 0.1),
            (3, 6, Normal, 0.1),
            (3, 5, PartialDisruption, 0.0),
            (11, 20, PartialDisruption, 0.0),
            (28, 50, PartialDisruption, 0.0),
            (29, 51, PartialDisruption, 0.01),
            (33, 60, PartialDisruption, 0.01),
            (0, 5, Normal, 0.1),
            (1000, 1000, FullDisruption, 0.1),
        ] {
            let count = NodeCounts { ready: size - not_ready, not_ready };
            assert_eq!(ZONE_SETTINGS.state_for_counts(count), state, "{not_ready} of {size}");
            assert!((ZONE_SETTINGS.tainting_rate(state, count) - rate).abs() < f32::EPSILON, "{not_ready} of {size}");
        }
    }

    fn zones(list: &[(&str, ZoneState, usize, usize)]) -> BTreeMap<Text, ZoneStatus> {
        let status = |&(name, state, ready, not_ready): &(&str, ZoneState, usize, usize)| {
            (Text::new(name), ZoneStatus { state, node_counts: NodeCounts { ready, not_ready } })
        };
        list.iter().map(status).collect()
    }

    /// Runs `zone_changes_and_cluster_disruption`, and formats each change as `zone state rate`.
    fn changes(list: &[(&str, ZoneState, usize, usize)], was_total: bool) -> (Vec<String>, ClusterDisruption) {
        let (changes, disruption) = zone_changes_and_cluster_disruption(&zones(list), was_total, &ZONE_SETTINGS);
        let lines = changes.iter().map(|(name, change)| format!("{name} {:?} {}", change.state, change.tainting_rate));
        (lines.collect(), disruption)
    }

    /// NODE-38, NODE-39.
    #[test]
    fn a_total_disruption_begins_lasts_and_ends() {
        use ZoneState::{FullDisruption, Initial, Normal};
        let (a_down, b_down) = (("a", Normal, 0, 2), ("b", Normal, 0, 3));
        let stopped = vec!["a FullDisruption 0".to_owned(), "b FullDisruption 0".to_owned()];
        assert_eq!(changes(&[a_down, b_down], false), (stopped, ClusterDisruption::TotalBegins));
        let (a_full, b_full) = (("a", FullDisruption, 0, 2), ("b", FullDisruption, 0, 3));
        assert_eq!(changes(&[a_full, b_full], true), (vec![], ClusterDisruption::TotalLasts));
        let (_, disruption) = changes(&[a_full, b_full, ("c", Initial, 0, 1)], true);
        assert_eq!(disruption, ClusterDisruption::TotalLasts, "a new zone whose nodes are down changes nothing");
        // Zone `b` is still fully disrupted, but nodes of this zone may be tainted again, as in zone `a`.
        let resumed = vec!["a Normal 0.1".to_owned(), "b FullDisruption 0.1".to_owned()];
        assert_eq!(changes(&[("a", FullDisruption, 1, 1), b_full], true), (resumed, ClusterDisruption::TotalEnds));
    }

    /// NODE-39.
    #[test]
    fn a_new_zone_with_a_ready_node_ends_a_total_disruption() {
        use ZoneState::{FullDisruption, Initial};
        let (changed, disruption) = changes(&[("a", FullDisruption, 0, 2), ("b", Initial, 1, 0)], true);
        assert_eq!(disruption, ClusterDisruption::TotalEnds);
        assert_eq!(changed, ["a FullDisruption 0.1", "b Normal 0.1"]);
    }

    #[test]
    fn zones_with_an_unchanged_state_are_left_out() {
        use ZoneState::{Initial, Normal};
        let (changed, disruption) = changes(&[("a", Normal, 5, 0), ("b", Initial, 5, 0)], false);
        assert_eq!((changed, disruption), (vec!["b Normal 0.1".to_owned()], ClusterDisruption::NotTotal));
    }

    #[test]
    fn a_cluster_without_counted_nodes_is_not_disrupted() {
        assert_eq!(changes(&[], false), (vec![], ClusterDisruption::NotTotal));
        assert_eq!(changes(&[("a", ZoneState::Initial, 0, 0)], false), (vec![], ClusterDisruption::NotTotal));
    }
}
