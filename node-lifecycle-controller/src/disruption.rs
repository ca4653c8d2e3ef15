//! The states of zones, and the rates at which their nodes are tainted.
//!
//! Upstream: `pkg/controller/nodelifecycle`, `ComputeZoneState`, `handleDisruption`, `setLimiterInZone`.

use std::collections::BTreeMap;

use common::intern::Text;

/// How many nodes of a zone are not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneState {
    /// Not computed yet.
    Initial,
    /// Few.
    Normal,
    /// Many.
    PartialDisruption,
    /// All.
    FullDisruption,
}

impl ZoneState {
    /// The name that upstream gives to the state.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Initial => "Initial",
            Self::Normal => "Normal",
            Self::PartialDisruption => "PartialDisruption",
            Self::FullDisruption => "FullDisruption",
        }
    }
}

/// The nodes of a zone that count: excluded nodes do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Nodes whose condition `Ready` is `True`.
    pub(crate) ready: usize,
    /// All others.
    pub(crate) not_ready: usize,
}

impl Count {
    /// All nodes.
    pub(crate) fn size(self) -> usize {
        self.ready + self.not_ready
    }
}

/// Thresholds and rates, as flags set them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ZoneLimits {
    /// The share of nodes that are not ready from which on a zone is partially disrupted.
    pub(crate) unhealthy_threshold: f32,
    /// A zone with more nodes than this is large.
    pub(crate) large_threshold: i64,
    /// Nodes a second in zones that are not partially disrupted.
    pub(crate) rate: f32,
    /// Nodes a second in large zones that are partially disrupted.
    pub(crate) secondary_rate: f32,
}

impl ZoneLimits {
    /// The state of a zone.
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

    /// The rate of a zone in that state.
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

/// What becomes of a zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ZoneChange {
    /// Its new state.
    pub(crate) state: ZoneState,
    /// Its new rate.
    pub(crate) rate: f32,
}

/// Whether every zone is fully disrupted, and whether that has just changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disruption {
    /// Not every zone is.
    None,
    /// Every zone is, since now: no node is tainted, and taints that are there are removed.
    Begins,
    /// Every zone still is.
    Lasts,
    /// Not every zone is any longer: grace periods begin anew.
    Ends,
}

impl Disruption {
    /// Whether every zone is fully disrupted.
    pub(crate) fn is_total(self) -> bool {
        matches!(self, Self::Begins | Self::Lasts)
    }
}

/// The known state of a zone and its nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ZoneStanding {
    /// The state that was computed last.
    pub(crate) state: ZoneState,
    /// The nodes that count.
    pub(crate) count: Count,
}

/// The new states of all zones, and the state of all together. Zones without a node that counts have no part in it.
///
/// `was_total`: whether the last computation found every zone fully disrupted. A zone that changes nothing is left out.
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
        // A total disruption stopped zones whose state did not change.
        let is_change = state != zone.state || matches!(disruption, Disruption::Begins | Disruption::Ends);
        is_change.then(|| (name.clone(), ZoneChange { state, rate }))
    };
    (counted().filter_map(change).collect(), disruption)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::LIMITS;

    /// The table of the specification.
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

    /// What changes, as `zone state rate`.
    fn changes(list: &[(&str, ZoneState, usize, usize)], was_total: bool) -> (Vec<String>, Disruption) {
        let (changes, disruption) = transition(&zones(list), was_total, &LIMITS);
        let one = |(name, change): (&Text, &ZoneChange)| format!("{name} {:?} {}", change.state, change.rate);
        (changes.iter().map(one).collect(), disruption)
    }

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
        // The zone that stays disrupted gets its rate back, too.
        let resumed = vec!["a Normal 0.1".to_owned(), "b FullDisruption 0.1".to_owned()];
        assert_eq!(changes(&[("a", FullDisruption, 1, 1), b_full], true), (resumed, Disruption::Ends));
    }

    #[test]
    fn a_new_zone_with_a_ready_node_ends_a_total_disruption() {
        use ZoneState::{FullDisruption, Initial};
        let (changed, disruption) = changes(&[("a", FullDisruption, 0, 2), ("b", Initial, 1, 0)], true);
        assert_eq!(disruption, Disruption::Ends);
        assert_eq!(changed, ["a FullDisruption 0.1", "b Normal 0.1"]);
    }

    #[test]
    fn zones_whose_state_stays_are_left_alone() {
        use ZoneState::{Initial, Normal};
        let (changed, disruption) = changes(&[("a", Normal, 5, 0), ("b", Initial, 5, 0)], false);
        assert_eq!((changed, disruption), (vec!["b Normal 0.1".to_owned()], Disruption::None));
    }

    #[test]
    fn a_cluster_without_a_node_that_counts_is_in_no_disruption() {
        assert_eq!(changes(&[], false), (vec![], Disruption::None));
        assert_eq!(changes(&[("a", ZoneState::Initial, 0, 0)], false), (vec![], Disruption::None));
    }
}
