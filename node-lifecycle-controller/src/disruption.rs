//! Computes the states of zones, and the rates at which the nodes of each zone are tainted.
//!
//! Upstream: `pkg/controller/nodelifecycle`, `ComputeZoneState`, `handleDisruption`, `setLimiterInZone`.

use std::collections::BTreeMap;

use common::intern::Text;

/// State of a zone, computed from the share of nodes that are not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneState {
    /// No pass has computed the state yet.
    Initial,
    /// The share of nodes that are not ready is below the threshold, or at most 2 nodes are not ready.
    Normal,
    /// The share of nodes that are not ready reaches the threshold, and at least 3 nodes are not ready.
    PartialDisruption,
    /// No counted node of the zone is ready.
    FullDisruption,
}

impl ZoneState {
    /// Returns upstream's name of the state.
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
pub(crate) struct Count {
    /// Nodes with a condition `Ready` that is `True`, without silent nodes whose conditions could not be written.
    pub(crate) ready: usize,
    /// Nodes with another or no condition `Ready`, and silent nodes whose conditions could not be written.
    pub(crate) not_ready: usize,
}

impl Count {
    /// Returns the number of counted nodes, ready or not.
    pub(crate) fn size(self) -> usize {
        self.ready + self.not_ready
    }
}

/// Thresholds for the states of zones, and rates of tainting; set by flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ZoneLimits {
    /// A zone is partially disrupted if at least this share of its nodes, between 0 and 1, is not ready.
    pub(crate) unhealthy_threshold: f32,
    /// A zone with more nodes than this is large.
    pub(crate) large_threshold: i64,
    /// Nodes to taint per second in a zone that is not partially disrupted.
    pub(crate) rate: f32,
    /// Nodes to taint per second in a large zone that is partially disrupted.
    pub(crate) secondary_rate: f32,
}

impl ZoneLimits {
    /// Returns the state of a zone with these numbers of nodes.
    pub(crate) fn state(&self, count: Count) -> ZoneState {
        let Count { ready, not_ready } = count;
        if ready == 0 && not_ready > 0 {
            ZoneState::FullDisruption
        } else if not_ready > 2 && not_ready as f32 / count.size() as f32 >= self.unhealthy_threshold {
            ZoneState::PartialDisruption
        } else {
            ZoneState::Normal
        }
    }

    /// Returns the tainting rate of a zone in this state, in nodes per second.
    pub(crate) fn rate(&self, state: ZoneState, count: Count) -> f32 {
        match state {
            ZoneState::Initial | ZoneState::Normal | ZoneState::FullDisruption => self.rate,
            ZoneState::PartialDisruption if i64::try_from(count.size()).unwrap_or(i64::MAX) > self.large_threshold => {
                self.secondary_rate
            }
            ZoneState::PartialDisruption => 0.0,
        }
    }
}

/// State and tainting rate of a zone after a pass that changed at least one of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ZoneChange {
    pub(crate) state: ZoneState,
    /// Nodes to taint per second.
    pub(crate) rate: f32,
}

/// Whether every zone is fully disrupted, and whether this has just changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disruption {
    /// At least one zone is not fully disrupted.
    None,
    /// Every zone has just become fully disrupted: no further node is tainted, and existing taints are removed.
    Begins,
    /// Every zone is still fully disrupted.
    Lasts,
    /// Every zone was fully disrupted, and at least one zone has just recovered: all grace periods restart.
    Ends,
}

impl Disruption {
    /// Whether every zone is fully disrupted.
    pub(crate) fn is_total(self) -> bool {
        matches!(self, Self::Begins | Self::Lasts)
    }
}

/// State of a zone before a pass, and the numbers of its nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ZoneStanding {
    /// State that the last pass computed; `Initial` before the first pass.
    pub(crate) state: ZoneState,
    pub(crate) count: Count,
}

/// Returns the zones with a new state or rate, and the disruption of the whole cluster. Zones without counted nodes are
/// ignored.
///
/// `was_total` is true if the last pass found every zone fully disrupted.
pub(crate) fn transition(
    zones: &BTreeMap<Text, ZoneStanding>,
    was_total: bool,
    limits: &ZoneLimits,
) -> (BTreeMap<Text, ZoneChange>, Disruption) {
    let counted = || zones.iter().filter(|(_, zone)| zone.count.size() > 0);
    let is_total = counted().all(|(_, zone)| limits.state(zone.count) == ZoneState::FullDisruption);
    if counted().next().is_none() {
        return (BTreeMap::new(), if was_total { Disruption::Lasts } else { Disruption::None });
    }
    let disruption = match (was_total, is_total) {
        (false, false) => Disruption::None,
        (false, true) => Disruption::Begins,
        (true, true) => Disruption::Lasts,
        (true, false) => Disruption::Ends,
    };
    let change = |(name, zone): (&Text, &ZoneStanding)| {
        let state = limits.state(zone.count);
        let rate = if is_total { 0.0 } else { limits.rate(state, zone.count) };
        // A total disruption sets the rate of every zone to 0, so its start and its end change every zone.
        let is_change = state != zone.state || matches!(disruption, Disruption::Begins | Disruption::Ends);
        is_change.then(|| (name.clone(), ZoneChange { state, rate }))
    };
    (counted().filter_map(change).collect(), disruption)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::LIMITS;

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
            let count = Count { ready: size - not_ready, not_ready };
            assert_eq!(LIMITS.state(count), state, "{not_ready} of {size}");
            assert!((LIMITS.rate(state, count) - rate).abs() < f32::EPSILON, "{not_ready} of {size}");
        }
    }

    fn zones(list: &[(&str, ZoneState, usize, usize)]) -> BTreeMap<Text, ZoneStanding> {
        let one = |(name, state, ready, not_ready): &(&str, ZoneState, usize, usize)| {
            (Text::new(name), ZoneStanding { state: *state, count: Count { ready: *ready, not_ready: *not_ready } })
        };
        list.iter().map(one).collect()
    }

    /// Runs `transition`, and formats each change as `zone state rate`.
    fn changes(list: &[(&str, ZoneState, usize, usize)], was_total: bool) -> (Vec<String>, Disruption) {
        let (changes, disruption) = transition(&zones(list), was_total, &LIMITS);
        let one = |(name, change): (&Text, &ZoneChange)| format!("{name} {:?} {}", change.state, change.rate);
        (changes.iter().map(one).collect(), disruption)
    }

    /// NODE-38, NODE-39.
    #[test]
    fn a_total_disruption_begins_lasts_and_ends() {
        use ZoneState::{FullDisruption, Initial, Normal};
        let (a_down, b_down) = (("a", Normal, 0, 2), ("b", Normal, 0, 3));
        let stopped = vec!["a FullDisruption 0".to_owned(), "b FullDisruption 0".to_owned()];
        assert_eq!(changes(&[a_down, b_down], false), (stopped, Disruption::Begins));
        let (a_full, b_full) = (("a", FullDisruption, 0, 2), ("b", FullDisruption, 0, 3));
        assert_eq!(changes(&[a_full, b_full], true), (vec![], Disruption::Lasts));
        let (_, disruption) = changes(&[a_full, b_full, ("c", Initial, 0, 1)], true);
        assert_eq!(disruption, Disruption::Lasts, "a new zone whose nodes are down changes nothing");
        // Zone `b` stays disrupted, and gets its rate back, too.
        let resumed = vec!["a Normal 0.1".to_owned(), "b FullDisruption 0.1".to_owned()];
        assert_eq!(changes(&[("a", FullDisruption, 1, 1), b_full], true), (resumed, Disruption::Ends));
    }

    /// NODE-39.
    #[test]
    fn a_new_zone_with_a_ready_node_ends_a_total_disruption() {
        use ZoneState::{FullDisruption, Initial};
        let (changed, disruption) = changes(&[("a", FullDisruption, 0, 2), ("b", Initial, 1, 0)], true);
        assert_eq!(disruption, Disruption::Ends);
        assert_eq!(changed, ["a FullDisruption 0.1", "b Normal 0.1"]);
    }

    #[test]
    fn zones_with_an_unchanged_state_are_left_out() {
        use ZoneState::{Initial, Normal};
        let (changed, disruption) = changes(&[("a", Normal, 5, 0), ("b", Initial, 5, 0)], false);
        assert_eq!((changed, disruption), (vec!["b Normal 0.1".to_owned()], Disruption::None));
    }

    #[test]
    fn a_cluster_without_counted_nodes_is_not_disrupted() {
        assert_eq!(changes(&[], false), (vec![], Disruption::None));
        assert_eq!(changes(&[("a", ZoneState::Initial, 0, 0)], false), (vec![], Disruption::None));
    }
}
