//! The zones of nodes: counters of ready and other nodes, and the nodes that wait for a taint.

use std::collections::{BTreeMap, BTreeSet};

use common::{clock::Instant, intern::Text};

use crate::{
    disruption::{Count, ZoneChange, ZoneLimits, ZoneStanding, ZoneState},
    objects::Name,
    rate::Limiter,
};

/// How a node counts for the state of its zone.
#[derive(Clone, Copy)]
pub(super) enum Counted {
    /// A label of the node excludes it from the state of its zone.
    Excluded,
    Ready,
    NotReady,
}

/// Counters, state, tainting rate and waiting nodes of one zone.
pub(super) struct Zone {
    count: Count,
    excluded: usize,
    state: ZoneState,
    pub(super) limiter: Limiter,
    /// Nodes that wait for a taint, ordered by the start of their wait.
    pub(super) waiting: BTreeSet<(Instant, Name)>,
    /// Whether a pass has counted the zone, so that its metrics exist.
    is_reported: bool,
}

impl Zone {
    fn new(limits: &ZoneLimits, now: Instant) -> Self {
        let limiter = Limiter::new(limits.rate, now);
        let (count, waiting) = (Count::default(), BTreeSet::new());
        Self { count, excluded: 0, state: ZoneState::Initial, limiter, waiting, is_reported: false }
    }

    fn counter(&mut self, counted: Counted) -> &mut usize {
        match counted {
            Counted::Excluded => &mut self.excluded,
            Counted::Ready => &mut self.count.ready,
            Counted::NotReady => &mut self.count.not_ready,
        }
    }
}

/// All zones that have nodes.
pub(crate) struct Zones {
    pub(super) limits: ZoneLimits,
    by_name: BTreeMap<Text, Zone>,
    /// Zones with metrics that have lost their last node since the last pass.
    vanished: BTreeSet<Text>,
}

impl Zones {
    pub(super) fn new(limits: ZoneLimits) -> Self {
        Self { limits, by_name: BTreeMap::new(), vanished: BTreeSet::new() }
    }

    /// Counts a node in its zone, and creates the zone for its first node.
    pub(super) fn enter(&mut self, name: &Text, counted: Counted, now: Instant) {
        let zone = self.by_name.entry(name.clone()).or_insert_with(|| Zone::new(&self.limits, now));
        *zone.counter(counted) += 1;
        self.vanished.remove(name);
    }

    /// Removes a node from the counters of its zone, and the zone itself after its last node.
    pub(super) fn leave(&mut self, name: &Text, counted: Counted) {
        let Some(zone) = self.by_name.get_mut(name) else { return };
        let count = zone.counter(counted);
        *count = count.saturating_sub(1);
        if zone.count.size() + zone.excluded == 0 {
            if zone.is_reported {
                self.vanished.insert(name.clone());
            }
            self.by_name.remove(name);
        }
    }

    /// Moves a node of a zone from one counter to another.
    pub(super) fn recount(&mut self, zone: &Text, from: Counted, to: Counted) {
        if let Some(zone) = self.by_name.get_mut(zone) {
            *zone.counter(from) -= 1;
            *zone.counter(to) += 1;
        }
    }

    /// Adds a node of a zone to the nodes that wait for a taint.
    pub(super) fn wait(&mut self, zone: &Text, name: &Name, since: Instant) {
        if let Some(zone) = self.by_name.get_mut(zone) {
            zone.waiting.insert((since, name.clone()));
        }
    }

    /// Ends the wait of a node that has waited since `since`; does nothing if `since` is `None`.
    pub(super) fn end_wait(&mut self, zone: &Text, name: &Name, since: Option<Instant>) {
        if let (Some(since), Some(zone)) = (since, self.by_name.get_mut(zone)) {
            zone.waiting.remove(&(since, name.clone()));
        }
    }

    pub(super) fn get(&self, zone: &Text) -> Option<&Zone> {
        self.by_name.get(zone)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Text, &Zone)> {
        self.by_name.iter()
    }

    pub(super) fn state(&self, zone: &Text) -> ZoneState {
        self.by_name.get(zone).map_or(ZoneState::Initial, |zone| zone.state)
    }

    pub(crate) fn standings(&self) -> BTreeMap<Text, ZoneStanding> {
        let standing = |zone: &Zone| ZoneStanding { state: zone.state, count: zone.count };
        self.by_name.iter().map(|(name, zone)| (name.clone(), standing(zone))).collect()
    }

    /// Returns the number of nodes that wait for a taint, in all zones.
    pub(crate) fn waiting(&self) -> usize {
        self.by_name.values().map(|zone| zone.waiting.len()).sum()
    }

    /// Returns the number of nodes that wait in zones with a positive tainting rate.
    pub(crate) fn expected(&self) -> usize {
        let zones = self.by_name.values().filter(|zone| zone.limiter.rate() > 0.0);
        zones.map(|zone| zone.waiting.len()).sum()
    }

    /// Returns the zones that have lost their last node since the last call.
    pub(crate) fn take_vanished(&mut self) -> BTreeSet<Text> {
        std::mem::take(&mut self.vanished)
    }

    /// Applies the new states and tainting rates that a pass has decided.
    pub(super) fn passed(&mut self, changes: &BTreeMap<Text, ZoneChange>, now: Instant) {
        self.by_name.values_mut().for_each(|zone| zone.is_reported = true);
        for (name, change) in changes {
            if let Some(zone) = self.by_name.get_mut(name) {
                zone.state = change.state;
                zone.limiter.set_rate(change.rate, now);
            }
        }
    }

    /// Uses up the token of a zone's limiter, because a node of the zone was chosen for tainting.
    pub(crate) fn spend(&mut self, zone: &Text, now: Instant) {
        if let Some(zone) = self.by_name.get_mut(zone) {
            zone.limiter.take(now);
        }
    }
}
