//! The records of all nodes, the schedule of passes, and the zones with the nodes that wait for a taint.
//!
//! The cost of an event or a heartbeat does not grow with the number of nodes of the cluster. The cost of a pass is
//! proportional to the number of nodes that changed or whose deadline has passed.

mod lapse;
mod record;
mod schedule;
mod zones;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::{clock::Instant, intern::Text, map::HashMap};

use crate::{
    disruption::{Disruption, ZoneLimits, transition},
    monitor::{
        rounds::{
            plan::health::{self, Action, Judged},
            snapshot::{Examined, HealthSnapshot, Reports, WaitingZone},
        },
        upkeep::snapshot::{Failure, Standing},
    },
    objects::{Name, Node, NodeReady, Renewal},
    sight::Sight,
    silence::{self, Grace},
    taints::{self, Cause},
};

use record::Record;
use schedule::Schedule;
use zones::{Zone, Zones};

/// Records of all nodes of the cluster, which the node monitor and the taint eviction share.
pub(crate) struct Fleet {
    pub(crate) sight: Sight,
    grace: Grace,
    records: HashMap<Name, Record>,
    schedule: Schedule,
    tainted: BTreeSet<Name>,
    pub(crate) zones: Zones,
    /// Nodes that were added, were removed or became silent, and that no pass has reported yet.
    unreported: Reports,
    /// End of the last total disruption, when all grace periods restarted; `None` before the first end.
    grace_from: Option<Instant>,
    /// Whether the last pass found every zone fully disrupted.
    was_total: bool,
}

impl Fleet {
    pub(crate) fn new(sight: Sight, grace: Grace, limits: ZoneLimits) -> Self {
        Self {
            sight,
            grace,
            records: HashMap::default(),
            schedule: Schedule::default(),
            tainted: BTreeSet::new(),
            zones: Zones::new(limits),
            unreported: Reports::default(),
            grace_from: None,
            was_total: false,
        }
    }

    /// Records a state of a node, and ignores a state older than the recorded one. A state from a full set, the result of a
    /// list, is always recorded, because the data of the server may have been restored from a backup.
    ///
    /// `lease` is the current renewal time of the node's Lease; only a node without a record needs it.
    pub(crate) fn see(&mut self, node: &Arc<Node>, lease: Option<Renewal>, is_of_set: bool, now: Instant) {
        let meta = &node.metadata;
        let known = self.records.get(&meta.name).filter(|known| known.node.metadata.uid == meta.uid);
        let record = match known {
            Some(known) if !is_of_set && known.node.metadata.resource_version > meta.resource_version => return,
            Some(known) => {
                let mut record = known.clone();
                if record.see(node, now) == Some(NodeReady::True) {
                    self.unreported.lapsed.push((Arc::clone(&meta.name), meta.uid.clone()));
                }
                record
            }
            None => {
                self.forget(&meta.name);
                self.unreported.arrived.insert(Arc::clone(&meta.name), meta.uid.clone());
                Record::new(node, lease, now)
            }
        };
        self.schedule.touch(&meta.name);
        self.put(record, now);
    }

    /// Stores a record in place of the old record of the node.
    fn put(&mut self, mut record: Record, now: Instant) {
        let name = Arc::clone(&record.node.metadata.name);
        self.zones.enter(&record.zone, record.counted(), now);
        if let Some(old) = self.records.remove(&name) {
            // A waiting node loses its place in the queue of its zone if it moves to another zone or no longer needs its taint.
            let needs = Cause::of(&record.node).is_some_and(|cause| !taints::has_cause(&record.node, cause));
            if old.zone != record.zone || !needs {
                self.zones.end_wait(&old.zone, &name, record.waits.take());
            }
            self.zones.leave(&old.zone, old.counted());
        }
        if taints::has_any_cause(&record.node) {
            self.tainted.insert(Arc::clone(&name));
        } else {
            self.tainted.remove(&name);
        }
        self.records.insert(name, record);
    }

    /// Removes the record of a node that was deleted or cannot be decoded.
    pub(crate) fn forget(&mut self, name: &Name) {
        let Some(mut record) = self.records.remove(name) else { return };
        self.zones.end_wait(&record.zone, name, record.waits);
        self.zones.leave(&record.zone, record.counted());
        self.tainted.remove(name);
        self.schedule.examined(name);
        self.schedule.set_deadline(name, &mut record.due, None);
        self.unreported.arrived.remove(name);
        if record.is_announced {
            self.unreported.departed.push((Arc::clone(name), record.node.metadata.uid.clone()));
        }
    }

    /// Records a renewal of a node's Lease. A renewal time that differs from the last one is a heartbeat, even if the clock of
    /// the node is wrong.
    pub(crate) fn renewed(&mut self, name: &str, renewal: Renewal, now: Instant) {
        if !self.is_news(name, renewal) {
            return;
        }
        self.update(name, |record| {
            record.lease = Some(renewal);
            record.heard = now;
            record.lapse.heard();
        });
        // A node without a deadline may have been silent, so the next pass examines it.
        if self.records.get(name).is_some_and(|record| record.due.is_none()) {
            self.touch(name);
        }
    }

    /// Changes the record of a node, and updates the counters of its zone.
    fn update(&mut self, name: &str, change: impl FnOnce(&mut Record)) {
        let Some(record) = self.records.get_mut(name) else { return };
        let before = record.counted();
        change(record);
        self.zones.recount(&record.zone, before, record.counted());
    }

    /// Makes the next pass examine a node.
    pub(crate) fn touch(&mut self, name: &str) {
        if let Some(record) = self.records.get(name) {
            self.schedule.touch(&record.node.metadata.name);
        }
    }

    /// Restarts the grace period of a silent node after a failed write of its conditions. Until its next heartbeat, the node
    /// counts as not ready in its zone: otherwise failed writes could make a zone of silent nodes appear healthy enough to be
    /// tainted.
    ///
    /// `is_unanswered` is true if the answer to the write was lost, so that the write may have taken effect.
    pub(crate) fn spare(&mut self, name: &str, is_unanswered: bool, now: Instant) {
        self.update(name, |record| record.lapse.not_taken(is_unanswered.then(|| record.node.ready()), now));
        self.touch(name);
    }

    /// Records that the server denied a write of the conditions of a silent node because of its content. Other writes and
    /// heartbeats may still succeed, so the grace period does not restart. The pause before the next attempt grows up to the
    /// grace period.
    pub(crate) fn deny(&mut self, name: &str, now: Instant) {
        let grace = self.grace;
        self.update(name, |record| record.lapse.denied(grace.of(&record.node), now));
        self.touch(name);
    }

    /// Records that the conditions of a silent node were written.
    pub(crate) fn was_lapsed(&mut self, name: &str) {
        self.update(name, |record| record.lapse.succeeded());
    }

    /// Records the result of a change of a node: the failure, or `None` after a success.
    pub(crate) fn note_write(&mut self, name: &str, failure: Option<Failure>) {
        self.update(name, |record| record.failure = failure.map(Arc::new));
    }

    /// Returns at most `most` nodes whose last change failed, sorted by name.
    pub(crate) fn failures(&self, most: usize) -> Vec<(Name, Arc<Failure>)> {
        let failure = |(name, record): (&Name, &Record)| Some((Arc::clone(name), Arc::clone(record.failure.as_ref()?)));
        let mut failures: Vec<_> = self.records.iter().filter_map(failure).collect();
        failures.sort_by(|(a, _), (b, _)| a.cmp(b));
        failures.truncate(most);
        failures
    }

    /// Returns the newest recorded state of a node; `None` if the node has no record.
    pub(crate) fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.records.get(name).map(|record| &record.node)
    }

    /// Whether this renewal time of the node's Lease differs from the recorded one, and so is a heartbeat.
    pub(crate) fn is_news(&self, name: &str, renewal: Renewal) -> bool {
        self.records.get(name).is_some_and(|record| record.lease != Some(renewal))
    }

    /// Returns the number of nodes with a record.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the number of nodes with a `NoExecute` taint of this program.
    pub(crate) fn tainted(&self) -> usize {
        self.tainted.len()
    }

    /// Returns the snapshot of a pass without changing the records. `trouble` is the error of a watch, `period` the pause between
    /// two passes.
    pub(crate) fn pass(&self, now: Instant, trouble: Option<String>, period: Duration) -> HealthSnapshot {
        let examined = self.schedule.due(now).into_iter().filter_map(|name| self.records.get(name));
        let examined = examined.map(|record| Examined {
            node: Arc::clone(&record.node),
            // The first pass that examines a node counts as a heartbeat, as in upstream.
            heard: if record.is_announced { record.patient_since() } else { now },
            denied_until: record.lapse.denied_until(),
            waits: record.waits.is_some(),
            counts: !record.node.is_excluded() && !record.lapse.has_failed,
        });
        HealthSnapshot {
            now,
            sight: self.sight,
            trouble,
            grace_from: self.grace_from,
            grace: self.grace,
            examined: examined.collect(),
            zones: self.zones.standings(),
            was_total: self.was_total,
            limits: self.zones.limits,
            reports: self.unreported.clone(),
            period,
        }
    }

    /// Applies the plan of a pass to the records, the schedule and the zones.
    pub(crate) fn passed(&mut self, plan: &health::Plan, now: Instant) {
        // Only the reports of this pass are removed: nodes may have been added and removed since its snapshot.
        self.unreported.remove(&plan.reports);
        for (name, uid) in &plan.reports.arrived {
            if let Some(record) = self.records.get_mut(name).filter(|record| record.node.metadata.uid == *uid) {
                record.is_announced = true;
                record.heard = now;
            }
        }
        self.zones.passed(&plan.zones, now);
        for judged in &plan.judged {
            self.judged(judged, now);
        }
        match plan.disruption {
            Disruption::Begins => self.tainted.iter().for_each(|name| self.schedule.touch(name)),
            Disruption::Ends => self.grace_from = Some(now),
            Disruption::None | Disruption::Lasts => {}
        }
        self.was_total = plan.disruption.is_total();
    }

    fn judged(&mut self, Judged { node, due, action }: &Judged, now: Instant) {
        let name = &node.metadata.name;
        // A node that has changed since the snapshot of this pass is examined again by the next pass.
        let Some(record) = self.records.get_mut(name).filter(|record| Arc::ptr_eq(&record.node, node)) else { return };
        self.schedule.set_deadline(name, &mut record.due, *due);
        match action {
            // Every pass examines the node until the action has taken effect.
            Some(Action::Lapse(_) | Action::Relieve | Action::Swap(_)) => return self.schedule.touch(name),
            Some(Action::Wait(_)) => {
                record.waits = Some(now);
                self.zones.wait(&record.zone, name, now);
            }
            None if record.waits.is_none() && !record.lapse.has_failed => record.failure = None,
            None => {}
        }
        self.schedule.examined(name);
    }

    /// Returns the zones with waiting nodes, each with the node that has waited longest.
    pub(crate) fn waiting_zones(&self, now: Instant) -> Vec<WaitingZone> {
        let waiting = |(name, zone): (&Text, &Zone)| {
            let (_, first) = zone.waiting.first()?;
            let record = self.records.get(first)?;
            let is_heard = silence::is_lapsed(&record.node) && self.silent_in(record, now).is_some();
            let is_over = is_heard || Cause::of(&record.node).is_none();
            let (node, count) = (Arc::clone(&record.node), zone.waiting.len());
            Some(WaitingZone { zone: name.clone(), node, is_over, count, limiter: zone.limiter })
        };
        self.zones.iter().filter_map(waiting).collect()
    }

    /// Returns the time until a node counts as silent; `None` if the node is already silent.
    fn silent_in(&self, record: &Record, now: Instant) -> Option<Duration> {
        self.silent_after(record, record.patient_since(), now)
    }

    fn silent_after(&self, record: &Record, heard: Instant, now: Instant) -> Option<Duration> {
        let from = self.sight.since(now).into_iter().chain(self.grace_from).max().unwrap_or(now);
        let at = self.grace.end(&record.node, heard, from);
        (at >= now).then(|| at - now)
    }

    /// Ends the wait of a node for its taint, and makes the next pass examine the node.
    pub(crate) fn release(&mut self, name: &Name) {
        let Some(record) = self.records.get_mut(name) else { return };
        self.zones.end_wait(&record.zone, name, record.waits.take());
        self.schedule.touch(name);
    }

    /// Moves a node that could not be tainted behind the other waiting nodes of its zone. Does nothing if the node has
    /// recovered meanwhile and no longer waits.
    pub(crate) fn postpone(&mut self, name: &Name, now: Instant) {
        let Some(record) = self.records.get_mut(name).filter(|record| record.waits.is_some()) else { return };
        self.zones.end_wait(&record.zone, name, record.waits.replace(now));
        self.zones.wait(&record.zone, name, now);
    }

    /// True if this process has received events or answers for a whole grace period, but no heartbeat of this node.
    pub(crate) fn is_silent(&self, name: &str, now: Instant) -> bool {
        self.records.get(name).is_some_and(|record| self.silent_in(record, now).is_none())
    }

    /// Returns the minimum time until the taints of this program on a node can be confirmed; `None` if they are confirmed.
    ///
    /// During a live view, events or answers arrive without a long gap. A taint because of silence is confirmed while the node
    /// is silent. A taint because the node reports that it is not ready is confirmed by a report in the current live view, or
    /// when the view has lasted for a grace period. A process that has never lost its live view trusts the reports that it
    /// found at its start.
    pub(crate) fn unconfirmed_for(&self, name: &str, now: Instant) -> Option<Duration> {
        // While nothing arrives, no taint can be confirmed: events must first arrive for a whole grace period.
        let (Some(record), Some(since)) = (self.records.get(name), self.sight.since(now)) else {
            return Some(self.grace.monitor);
        };
        match record.node.ready() {
            NodeReady::False | NodeReady::Unknown if !silence::is_lapsed(&record.node) => {
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

    /// Whether a node may be tainted now. The node, its zone and the other zones may have changed since the node was chosen.
    pub(crate) fn may_be_tainted(&self, name: &str, now: Instant) -> bool {
        let Some(record) = self.records.get(name).filter(|_| self.sight.since(now).is_some()) else { return false };
        let (changes, disruption) = transition(&self.zones.standings(), self.was_total, &self.zones.limits);
        let rate = changes.get(&record.zone).map(|change| change.rate);
        let rate = rate.or_else(|| Some(self.zones.get(&record.zone)?.limiter.rate())).unwrap_or_default();
        let is_cause = !silence::is_lapsed(&record.node) || self.silent_in(record, now).is_none();
        is_cause && rate > 0.0 && !disruption.is_total()
    }

    /// Returns the facts about a node that `/debug/explain` shows. `blind_for` is the time for which no node has been judged.
    pub(crate) fn standing(&self, name: &str, now: Instant, blind_for: Option<Duration>) -> Option<Standing> {
        let record = self.records.get(name)?;
        Some(Standing {
            heard_ago: now.saturating_duration_since(record.heard),
            silent_in: self.silent_in(record, now).filter(|_| record.node.ready() != NodeReady::Unknown),
            waiting: record.waits.map(|since| now.saturating_duration_since(since)),
            zone: self.zones.state(&record.zone),
            blind_for,
            failure: record.failure.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
