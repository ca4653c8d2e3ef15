//! What is remembered of nodes: one record for each node, the deadlines of nodes, and zones with the nodes that wait there.
//!
//! An event of a node and a heartbeat cost a lookup; a pass costs what has changed or is due. A heartbeat does not move the
//! deadline of its node in the list: an early deadline is put right when it comes up, once in a grace period.

mod record;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{clock::Instant, intern::Text, map::HashMap, meta::Uid};
use jiff::Timestamp;

use crate::{
    decide::{
        health::{self, Action, Examined, Grace, Judged},
        rate::Limiter,
        sight::Sight,
        tainting::{Head, WaitingZone},
        taints,
        upkeep::{Failure, Standing},
        zones::{self, Count, Disruption, ZoneLimits, ZoneStanding, ZoneState},
    },
    objects::{Node, NodeReady},
};

use record::{DENIED, Denied, Record};

/// Name of a node.
pub(crate) type Name = Arc<str>;

/// The renewal of a Lease: none if the Lease has no time.
pub(crate) type Renewal = Option<Timestamp>;

/// A zone.
struct Zone {
    count: Count,
    excluded: usize,
    state: ZoneState,
    limiter: Limiter,
    waiting: BTreeSet<(Instant, Name)>,
    /// Whether a pass has told of it.
    is_told: bool,
}

impl Zone {
    fn is_empty(&self) -> bool {
        self.count.size() == 0 && self.excluded == 0
    }
}

/// All nodes.
pub(crate) struct Fleet {
    pub(crate) sight: Sight,
    grace: Grace,
    limits: ZoneLimits,
    records: HashMap<Name, Record>,
    deadlines: BTreeSet<(Instant, Name)>,
    /// Nodes that the next pass looks at.
    changed: BTreeSet<Name>,
    tainted: BTreeSet<Name>,
    zones: BTreeMap<Text, Zone>,
    /// Zones that passes have told of and that have lost their last node, since the last pass.
    vanished: BTreeSet<Text>,
    arrived: BTreeMap<Name, Uid>,
    departed: Vec<(Name, Uid)>,
    /// Nodes whose conditions were written without an answer.
    lapsed: Vec<(Name, Uid)>,
    /// Grace periods begin no earlier than this.
    grace_from: Option<Instant>,
    is_total: bool,
}

/// What a pass looks at.
pub(crate) struct Due {
    pub(crate) examined: Vec<Examined>,
    pub(crate) zones: BTreeMap<Text, ZoneStanding>,
    pub(crate) was_total: bool,
    pub(crate) grace_from: Option<Instant>,
    pub(crate) arrived: Vec<(Name, Uid)>,
    pub(crate) departed: Vec<(Name, Uid)>,
    pub(crate) lapsed: Vec<(Name, Uid)>,
}

impl Fleet {
    pub(crate) fn new(sight: Sight, grace: Grace, limits: ZoneLimits) -> Self {
        Self {
            sight,
            grace,
            limits,
            records: HashMap::default(),
            deadlines: BTreeSet::new(),
            changed: BTreeSet::new(),
            tainted: BTreeSet::new(),
            zones: BTreeMap::new(),
            vanished: BTreeSet::new(),
            arrived: BTreeMap::new(),
            departed: Vec::new(),
            lapsed: Vec::new(),
            grace_from: None,
            is_total: false,
        }
    }

    /// Takes note of a state of a node. One older than what is known is ignored, unless it is of a full set: the data of a server
    /// may have been restored.
    ///
    /// `lease`: the Lease that is there, for a node that was not known.
    pub(crate) fn see(&mut self, node: &Arc<Node>, lease: Option<Renewal>, is_of_set: bool, now: Instant) {
        let name = &node.metadata.name;
        let zone = node.zone();
        let known = self.records.get(name).filter(|known| known.node.metadata.uid == node.metadata.uid);
        let record = match known {
            Some(known) if !is_of_set && known.node.metadata.resource_version > node.metadata.resource_version => {
                return;
            }
            Some(known) => {
                // A first report is one of the kubelet unless this program, or another one like it, wrote it.
                let is_heard = match (known.node.ready(), node.ready()) {
                    (_, NodeReady::Absent) => false,
                    (NodeReady::Absent, _) => !health::is_lapsed(node),
                    _ => node.reported() != known.node.reported(),
                };
                let is_reported = node.ready() != known.node.ready() && !health::is_lapsed(node);
                let mut record = Record { node: Arc::clone(node), zone, ..known.clone() };
                if is_heard {
                    (record.heard, record.is_doubted, record.denied) = (now, false, None);
                }
                if is_heard || is_reported {
                    record.reported = Some(now);
                }
                if health::is_lapsed(node)
                    && let Some(before) = record.unanswered.take()
                {
                    // The write has taken effect, so the server takes writes.
                    (record.spared, record.is_doubted, record.failure) = (None, false, None);
                    if before == NodeReady::True {
                        self.lapsed.push((Arc::clone(name), node.metadata.uid.clone()));
                    }
                } else if is_heard {
                    record.unanswered = None;
                }
                record
            }
            None => {
                self.forget(name);
                self.arrived.insert(Arc::clone(name), node.metadata.uid.clone());
                Record {
                    node: Arc::clone(node),
                    zone,
                    heard: now,
                    reported: None,
                    lease,
                    due: None,
                    waits: None,
                    is_announced: false,
                    failure: None,
                    is_doubted: false,
                    spared: None,
                    unanswered: None,
                    denied: None,
                }
            }
        };
        self.changed.insert(Arc::clone(name));
        self.put(record, now);
    }

    /// Puts a record in the place of the one of that node.
    fn put(&mut self, mut record: Record, now: Instant) {
        let name = Arc::clone(&record.node.metadata.name);
        if let Some(old) = self.records.remove(&name) {
            self.uncount(&old);
            // A node that changed its zone or needs its taint no longer loses its place.
            let needs = taints::Cause::of(&record.node).is_some_and(|cause| !taints::has_cause(&record.node, cause));
            if old.zone != record.zone || !needs {
                self.unqueue(&old.zone, &name, old.waits);
                record.waits = None;
            }
            if old.zone != record.zone {
                self.drop_if_empty(&old.zone);
            }
        }
        if taints::has_any_cause(&record.node) {
            self.tainted.insert(Arc::clone(&name));
        } else {
            self.tainted.remove(&name);
        }
        let limits = &self.limits;
        let zone = self.zones.entry(record.zone.clone()).or_insert_with(|| {
            let limiter = Limiter::new(limits.rate, now);
            let (count, waiting) = (Count::default(), BTreeSet::new());
            Zone { count, excluded: 0, state: ZoneState::Initial, limiter, waiting, is_told: false }
        });
        self.vanished.remove(&record.zone);
        *counted(zone, &record) += 1;
        self.records.insert(name, record);
    }

    fn uncount(&mut self, record: &Record) {
        if let Some(zone) = self.zones.get_mut(&record.zone) {
            let count = counted(zone, record);
            *count = count.saturating_sub(1);
        }
    }

    fn drop_if_empty(&mut self, zone: &Text) {
        if self.zones.get(zone).is_some_and(Zone::is_empty)
            && let Some(empty) = self.zones.remove(zone)
            && empty.is_told
        {
            self.vanished.insert(zone.clone());
        }
    }

    fn unqueue(&mut self, zone: &Text, name: &Name, waits: Option<Instant>) {
        if let (Some(since), Some(zone)) = (waits, self.zones.get_mut(zone)) {
            zone.waiting.remove(&(since, Arc::clone(name)));
        }
    }

    /// Forgets a node.
    pub(crate) fn forget(&mut self, name: &Name) {
        let Some(record) = self.records.remove(name) else { return };
        self.uncount(&record);
        self.unqueue(&record.zone, name, record.waits);
        self.drop_if_empty(&record.zone);
        self.tainted.remove(name);
        self.changed.remove(name);
        if let Some(due) = record.due {
            self.deadlines.remove(&(due, Arc::clone(name)));
        }
        self.arrived.remove(name);
        if record.is_announced {
            self.departed.push((Arc::clone(name), record.node.metadata.uid.clone()));
        }
    }

    /// Takes note of a Lease. Any renewal but the last one seen is a sign of life, whatever the clock of the node says.
    pub(crate) fn renewed(&mut self, name: &str, renewal: Renewal, now: Instant) {
        let Some(record) = self.records.get_mut(name) else { return };
        if record.lease.replace(renewal) == Some(renewal) {
            return;
        }
        (record.heard, record.denied) = (now, None);
        // The node may have been found silent.
        if record.due.is_none() {
            self.changed.insert(Arc::clone(&record.node.metadata.name));
        }
        self.doubt(name, false);
    }

    /// Counts a node as not ready for its zone, or as what its condition says.
    fn doubt(&mut self, name: &str, is_doubted: bool) {
        let Some(record) = self.records.get_mut(name).filter(|record| record.is_doubted != is_doubted) else { return };
        let Some(zone) = self.zones.get_mut(&record.zone) else { return };
        *counted(zone, record) -= 1;
        record.is_doubted = is_doubted;
        *counted(zone, record) += 1;
    }

    /// Looks at a node again with the next pass.
    pub(crate) fn touch(&mut self, name: &str) {
        if let Some(record) = self.records.get(name) {
            self.changed.insert(Arc::clone(&record.node.metadata.name));
        }
    }

    /// Gives a node that was found silent its whole grace period again, because its conditions could not be written. Its zone
    /// counts it as not ready until something is heard of it: otherwise a failed write could let a zone of silent nodes seem
    /// healthy enough to be tainted.
    ///
    /// `is_unanswered`: the write may have taken effect.
    pub(crate) fn spare(&mut self, name: &str, is_unanswered: bool, now: Instant) {
        if let Some(record) = self.records.get_mut(name) {
            record.spared = Some(now);
            if is_unanswered {
                record.unanswered = Some(record.node.ready());
            }
        }
        self.doubt(name, true);
        self.touch(name);
    }

    /// The server denies the conditions of a silent node, for what they are: it takes those of other nodes, and heartbeats. They
    /// are written again after a pause that grows up to a grace period.
    pub(crate) fn deny(&mut self, name: &str, now: Instant) {
        if let Some(record) = self.records.get_mut(name) {
            let pause = record.denied.map_or(DENIED, |denied| denied.pause * 2).min(self.grace.of(&record.node));
            record.denied = Some(Denied { until: now + pause, pause });
        }
        self.doubt(name, true);
        self.touch(name);
    }

    /// The conditions of a silent node were written: what became of an earlier write without an answer does not matter.
    pub(crate) fn was_lapsed(&mut self, name: &str) {
        if let Some(record) = self.records.get_mut(name) {
            record.unanswered = None;
        }
    }

    /// Takes note of a change of a node that failed, or that succeeded.
    pub(crate) fn note_write(&mut self, name: &str, failure: Option<Failure>) {
        if let Some(record) = self.records.get_mut(name) {
            record.failure = failure.map(Arc::new);
        }
    }

    /// Nodes whose last change failed, at most this many.
    pub(crate) fn failures(&self, most: usize) -> Vec<(Name, Arc<Failure>)> {
        let failure = |(name, record): (&Name, &Record)| Some((Arc::clone(name), Arc::clone(record.failure.as_ref()?)));
        let mut failures: Vec<_> = self.records.iter().filter_map(failure).collect();
        failures.sort_by(|(a, _), (b, _)| a.cmp(b));
        failures.truncate(most);
        failures
    }

    /// The newest known state of a node.
    pub(crate) fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.records.get(name).map(|record| &record.node)
    }

    /// Whether a renewal of the node's Lease is another one than the last that was seen.
    pub(crate) fn is_news(&self, name: &str, renewal: Renewal) -> bool {
        self.records.get(name).is_some_and(|record| record.lease != Some(renewal))
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// How many nodes Pods have to leave for a cause of this program.
    pub(crate) fn tainted(&self) -> usize {
        self.tainted.len()
    }

    /// How many nodes wait for a taint.
    pub(crate) fn waiting(&self) -> usize {
        self.zones.values().map(|zone| zone.waiting.len()).sum()
    }

    /// How many of them are in a zone where nodes are tainted now.
    pub(crate) fn expected(&self) -> usize {
        let zones = self.zones.values().filter(|zone| zone.limiter.rate() > 0.0);
        zones.map(|zone| zone.waiting.len()).sum()
    }

    /// What a pass has to look at. Changes nothing.
    pub(crate) fn due(&self, now: Instant) -> Due {
        let expired = self.deadlines.iter().take_while(|(due, _)| *due < now).map(|(_, name)| name);
        let names: BTreeSet<&Name> = self.changed.iter().chain(expired).collect();
        let examined = names.into_iter().filter_map(|name| self.records.get(name)).map(|record| Examined {
            node: Arc::clone(&record.node),
            // The first pass that looks at a node counts as a sign of life, as upstream has it.
            heard: if record.is_announced { record.patient_since() } else { now },
            denied_until: record.denied.map(|denied| denied.until),
            waits: record.waits.is_some(),
            counts: record.counts() && !record.is_doubted,
        });
        Due {
            examined: examined.collect(),
            zones: self.standings(),
            was_total: self.is_total,
            grace_from: self.grace_from,
            arrived: self.arrived.iter().map(|(name, uid)| (Arc::clone(name), uid.clone())).collect(),
            departed: self.departed.clone(),
            lapsed: self.lapsed.clone(),
        }
    }

    /// All zones.
    pub(crate) fn standings(&self) -> BTreeMap<Text, ZoneStanding> {
        let standing = |zone: &Zone| ZoneStanding { state: zone.state, count: zone.count };
        self.zones.iter().map(|(name, zone)| (name.clone(), standing(zone))).collect()
    }

    /// The zones that have no node any more, once.
    pub(crate) fn take_vanished(&mut self) -> BTreeSet<Text> {
        std::mem::take(&mut self.vanished)
    }

    /// Takes over what a pass has decided.
    pub(crate) fn passed(&mut self, plan: &health::Plan, now: Instant) {
        // Nodes may have come and gone since the pass looked at them.
        for (name, uid) in &plan.arrived {
            if self.arrived.get(name) == Some(uid) {
                self.arrived.remove(name);
            }
            if let Some(record) = self.records.get_mut(name).filter(|record| record.node.metadata.uid == *uid) {
                record.is_announced = true;
                record.heard = now;
            }
        }
        self.departed.drain(..plan.departed.len().min(self.departed.len()));
        self.lapsed.drain(..plan.lapsed.len().min(self.lapsed.len()));
        self.zones.values_mut().for_each(|zone| zone.is_told = true);
        for (name, change) in &plan.zones {
            if let Some(zone) = self.zones.get_mut(name) {
                zone.state = change.state;
                zone.limiter.set_rate(change.rate, now);
            }
        }
        for judged in &plan.judged {
            self.judged(judged, now);
        }
        match plan.disruption {
            Disruption::Begins => self.changed.extend(self.tainted.iter().cloned()),
            Disruption::Ends => self.grace_from = Some(now),
            Disruption::None | Disruption::Lasts => {}
        }
        self.is_total = plan.disruption.is_total();
    }

    fn judged(&mut self, Judged { node, due, action }: &Judged, now: Instant) {
        let name = &node.metadata.name;
        // A node that has changed since is looked at again.
        let Some(record) = self.records.get_mut(name).filter(|record| Arc::ptr_eq(&record.node, node)) else { return };
        if let Some(old) = record.due.take() {
            self.deadlines.remove(&(old, Arc::clone(name)));
        }
        record.due = *due;
        if let Some(due) = due {
            self.deadlines.insert((*due, Arc::clone(name)));
        }
        match action {
            // It is looked at until the action has had its effect.
            Some(Action::Lapse(_) | Action::Relieve | Action::Swap(_)) => {
                self.changed.insert(Arc::clone(name));
                return;
            }
            Some(Action::Wait(_)) => {
                record.waits = Some(now);
                if let Some(zone) = self.zones.get_mut(&record.zone) {
                    zone.waiting.insert((now, Arc::clone(name)));
                }
            }
            None if record.waits.is_none() && !record.is_doubted => record.failure = None,
            None => {}
        }
        self.changed.remove(name);
    }

    /// Zones with nodes that wait, each with the one that has waited longest.
    pub(crate) fn heads(&self, now: Instant) -> Vec<WaitingZone> {
        let head = |(name, zone): (&Text, &Zone)| {
            let (_, first) = zone.waiting.first()?;
            let record = self.records.get(first)?;
            let is_heard = health::is_lapsed(&record.node) && self.silent_in(record, now).is_some();
            let is_over = is_heard || taints::Cause::of(&record.node).is_none();
            let head = Head { node: Arc::clone(&record.node), is_over };
            Some(WaitingZone { zone: name.clone(), head, count: zone.waiting.len(), limiter: zone.limiter })
        };
        self.zones.iter().filter_map(head).collect()
    }

    /// The time until a node counts as silent; none if it does.
    fn silent_in(&self, record: &Record, now: Instant) -> Option<Duration> {
        self.silent_after(record, record.patient_since(), now)
    }

    fn silent_after(&self, record: &Record, heard: Instant, now: Instant) -> Option<Duration> {
        let from = self.sight.since(now).into_iter().chain(self.grace_from).max().unwrap_or(now);
        let at = health::silent_at(&record.node, heard, from, self.grace);
        (at >= now).then(|| at - now)
    }

    /// Takes the token for a node of a zone.
    pub(crate) fn spend(&mut self, zone: &Text, now: Instant) {
        if let Some(zone) = self.zones.get_mut(zone) {
            zone.limiter.take(now);
        }
    }

    /// A node waits no longer; the next pass looks at it.
    pub(crate) fn release(&mut self, name: &Name) {
        let Some(record) = self.records.get_mut(name) else { return };
        let (waits, zone) = (record.waits.take(), record.zone.clone());
        self.unqueue(&zone, name, waits);
        self.touch(name);
    }

    /// Lets a node whose turn could not be used wait behind the others of its zone. A node that has recovered while its taint was
    /// on its way waits no longer.
    pub(crate) fn postpone(&mut self, name: &Name, now: Instant) {
        let Some(record) = self.records.get_mut(name) else { return };
        let Some(zone) = self.zones.get_mut(&record.zone) else { return };
        let Some(since) = record.waits else { return };
        record.waits = Some(now);
        zone.waiting.remove(&(since, Arc::clone(name)));
        zone.waiting.insert((now, Arc::clone(name)));
    }

    /// Whether nothing has been heard of a node for its grace period, while this process would have heard.
    pub(crate) fn is_silent(&self, name: &str, now: Instant) -> bool {
        self.records.get(name).is_some_and(|record| self.silent_in(record, now).is_none())
    }

    /// For how long at least it is doubtful whether a node is as the taints of this program say; `None` if all that this process
    /// hears confirms it. A node that is said to be silent, or whose taint is left from such a time, is silent; and a node that
    /// says itself that it is not ready has said so since this process sees, or has had a grace period to say otherwise. What a
    /// process finds when it starts is no memory of a time before it was blind.
    pub(crate) fn unconfirmed_for(&self, name: &str, now: Instant) -> Option<Duration> {
        // Who sees nothing now has to see for a grace period.
        let (Some(record), Some(since)) = (self.records.get(name), self.sight.since(now)) else {
            return Some(self.grace.monitor);
        };
        match record.node.ready() {
            NodeReady::False | NodeReady::Unknown if !health::is_lapsed(&record.node) => {
                let is_news = !self.sight.was_lost() || record.reported.is_some_and(|reported| reported >= since);
                let left = (since + self.grace.of(&record.node)).saturating_duration_since(now);
                Some(left).filter(|left| !is_news && !left.is_zero())
            }
            _ => {
                let heard = record.reported.map_or(record.heard, |reported| reported.max(record.heard));
                self.silent_after(record, heard, now)
            }
        }
    }

    /// Whether a node may get its taint, by what its zone and all zones are now: since its turn came, others may have failed.
    pub(crate) fn may_be_tainted(&self, name: &str, now: Instant) -> bool {
        let Some(record) = self.records.get(name).filter(|_| self.sight.since(now).is_some()) else { return false };
        let (changes, disruption) = zones::decide(&self.standings(), self.is_total, &self.limits);
        let rate = changes.get(&record.zone).map(|change| change.rate);
        let rate = rate.or_else(|| Some(self.zones.get(&record.zone)?.limiter.rate())).unwrap_or_default();
        let is_cause = !health::is_lapsed(&record.node) || self.silent_in(record, now).is_none();
        is_cause && rate > 0.0 && !disruption.is_total()
    }

    /// What is known of a node, for explanations. `blind_for`: how long no node has been judged.
    pub(crate) fn standing(&self, name: &str, now: Instant, blind_for: Option<Duration>) -> Option<Standing> {
        let record = self.records.get(name)?;
        Some(Standing {
            heard_ago: now.saturating_duration_since(record.heard),
            silent_in: self.silent_in(record, now).filter(|_| record.node.ready() != NodeReady::Unknown),
            waiting: record.waits.map(|since| now.saturating_duration_since(since)),
            zone: self.zones.get(&record.zone).map_or(ZoneState::Initial, |zone| zone.state),
            blind_for,
            failure: record.failure.clone(),
        })
    }
}

/// Where a record is counted.
fn counted<'a>(zone: &'a mut Zone, record: &Record) -> &'a mut usize {
    if !record.counts() {
        &mut zone.excluded
    } else if record.counts_as_ready() {
        &mut zone.count.ready
    } else {
        &mut zone.count.not_ready
    }
}

#[cfg(test)]
mod tests;
