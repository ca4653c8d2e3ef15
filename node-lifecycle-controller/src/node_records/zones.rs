//! The zones of nodes: counters of ready and other nodes, and the nodes that wait for a taint.

use std::collections::{BTreeMap, BTreeSet};

use common::prelude::*;

use crate::{
    disruption::{NodeCounts, ZoneSettings, ZoneState, ZoneStateChange, ZoneStatus},
    objects::NodeName,
    rate::TaintRateLimiter,
};

/// The counter of a zone that includes a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ZoneNodeCounter {
    /// A label of the node excludes it from the state of its zone.
    Excluded,
    Ready,
    NotReady,
}

/// Counters, state, tainting rate and waiting nodes of one zone.
pub(super) struct Zone {
    node_counts: NodeCounts,
    excluded: usize,
    pub(super) state: ZoneState,
    pub(super) limiter: TaintRateLimiter,
    /// Nodes that wait for a taint, ordered by the start of their wait.
    pub(super) waiting_nodes: BTreeSet<(Instant, NodeName)>,
    /// Whether a pass has counted the zone, so that its metrics exist.
    is_in_metrics: bool,
}

impl Zone {
    fn new(settings: &ZoneSettings, now: Instant) -> Self {
        Self {
            node_counts: NodeCounts::default(),
            excluded: 0,
            state: ZoneState::Initial,
            limiter: TaintRateLimiter::new(settings.eviction_rate, now),
            waiting_nodes: BTreeSet::new(),
            is_in_metrics: false,
        }
    }

    fn counter(&mut self, counter: ZoneNodeCounter) -> &mut usize {
        match counter {
            ZoneNodeCounter::Excluded => &mut self.excluded,
            ZoneNodeCounter::Ready => &mut self.node_counts.ready,
            ZoneNodeCounter::NotReady => &mut self.node_counts.not_ready,
        }
    }
}

/// All zones that have nodes.
pub(crate) struct Zones {
    pub(super) settings: ZoneSettings,
    pub(super) by_name: BTreeMap<Text, Zone>,
    /// Zones that have metrics, and that lost their last node after the last pass of the node monitor.
    vanished: BTreeSet<Text>,
}

impl Zones {
    pub(super) fn new(settings: ZoneSettings) -> Self {
        Self { settings, by_name: BTreeMap::new(), vanished: BTreeSet::new() }
    }

    /// Counts a node in its zone, and creates the zone for its first node.
    pub(super) fn add_node(&mut self, name: &Text, counter: ZoneNodeCounter, now: Instant) {
        let zone = self.by_name.entry(name.clone()).or_insert_with(|| Zone::new(&self.settings, now));
        *zone.counter(counter) += 1;
        self.vanished.remove(name);
    }

    /// Removes a node from the counters of its zone, and the zone itself after its last node.
    pub(super) fn remove_node(&mut self, name: &Text, counter: ZoneNodeCounter) {
        let Some(zone) = self.by_name.get_mut(name) else { return };
        let count = zone.counter(counter);
        *count = count.saturating_sub(1);
        if zone.node_counts.total() + zone.excluded == 0 {
            if zone.is_in_metrics {
                self.vanished.insert(name.clone());
            }
            self.by_name.remove(name);
        }
    }

    pub(super) fn move_node_count(&mut self, zone: &Text, old_counter: ZoneNodeCounter, new_counter: ZoneNodeCounter) {
        if let Some(zone) = self.by_name.get_mut(zone) {
            *zone.counter(old_counter) -= 1;
            *zone.counter(new_counter) += 1;
        }
    }

    pub(super) fn add_waiting_node(&mut self, zone: &Text, name: &NodeName, since: Instant) {
        if let Some(zone) = self.by_name.get_mut(zone) {
            zone.waiting_nodes.insert((since, name.clone()));
        }
    }

    /// Ends the wait of a node that has waited since `since`; does nothing if `since` is `None`.
    pub(super) fn remove_waiting_node(&mut self, zone: &Text, name: &NodeName, since: Option<Instant>) {
        if let (Some(since), Some(zone)) = (since, self.by_name.get_mut(zone)) {
            zone.waiting_nodes.remove(&(since, name.clone()));
        }
    }

    pub(crate) fn zone_statuses(&self) -> BTreeMap<Text, ZoneStatus> {
        let status = |zone: &Zone| ZoneStatus { state: zone.state, node_counts: zone.node_counts };
        self.by_name.iter().map(|(name, zone)| (name.clone(), status(zone))).collect()
    }

    pub(crate) fn waiting_node_count(&self) -> usize {
        self.by_name.values().map(|zone| zone.waiting_nodes.len()).sum()
    }

    /// Returns the number of nodes that wait in zones with a positive tainting rate.
    pub(super) fn taintable_waiting_node_count(&self) -> usize {
        let zones = self.by_name.values().filter(|zone| zone.limiter.rate > 0.0);
        zones.map(|zone| zone.waiting_nodes.len()).sum()
    }

    /// Returns the zones that have lost their last node since the last call.
    pub(crate) fn take_vanished_zones(&mut self) -> BTreeSet<Text> {
        std::mem::take(&mut self.vanished)
    }

    /// Applies the new states and tainting rates that a pass has decided.
    pub(super) fn apply_zone_changes(&mut self, changes: &BTreeMap<Text, ZoneStateChange>, now: Instant) {
        self.by_name.values_mut().for_each(|zone| zone.is_in_metrics = true);
        for (name, change) in changes {
            if let Some(zone) = self.by_name.get_mut(name) {
                zone.state = change.state;
                zone.limiter.set_rate(change.tainting_rate, now);
            }
        }
    }

    /// Uses up the token of a zone's limiter, because a node of the zone was chosen for tainting.
    pub(crate) fn take_taint_token(&mut self, zone: &Text, now: Instant) {
        if let Some(zone) = self.by_name.get_mut(zone) {
            zone.limiter.take_token(now);
        }
    }
}
