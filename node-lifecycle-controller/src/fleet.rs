//! What is remembered of nodes: one record for each node, the schedule of passes, and the zones with the nodes that wait there.
//!
//! An event of a node and a heartbeat cost a lookup; a pass costs what has changed or is due.

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

/// All nodes.
pub(crate) struct Fleet {
    pub(crate) sight: Sight,
    grace: Grace,
    records: HashMap<Name, Record>,
    schedule: Schedule,
    tainted: BTreeSet<Name>,
    pub(crate) zones: Zones,
    /// What passes have not reported yet.
    unreported: Reports,
    /// Grace periods begin no earlier than this.
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

    /// Takes note of a state of a node. One older than what is known is ignored, unless it is of a full set: the data of a server
    /// may have been restored.
    ///
    /// `lease`: the Lease that is there, for a node that was not known.
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

    /// Puts a record in the place of the one of that node.
    fn put(&mut self, mut record: Record, now: Instant) {
        let name = Arc::clone(&record.node.metadata.name);
        self.zones.enter(&record.zone, record.counted(), now);
        if let Some(old) = self.records.remove(&name) {
            // A node that changed its zone or needs its taint no longer loses its place.
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

    /// Forgets a node.
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

    /// Takes note of a Lease. Any renewal but the last one seen is a sign of life, whatever the clock of the node says.
    pub(crate) fn renewed(&mut self, name: &str, renewal: Renewal, now: Instant) {
        if !self.is_news(name, renewal) {
            return;
        }
        self.update(name, |record| {
            record.lease = Some(renewal);
            record.heard = now;
            record.lapse.heard();
        });
        // The node may have been found silent.
        if self.records.get(name).is_some_and(|record| record.due.is_none()) {
            self.touch(name);
        }
    }

    /// Changes what is remembered of a node, and how the node counts for its zone.
    fn update(&mut self, name: &str, change: impl FnOnce(&mut Record)) {
        let Some(record) = self.records.get_mut(name) else { return };
        let before = record.counted();
        change(record);
        self.zones.recount(&record.zone, before, record.counted());
    }

    /// Examines a node again with the next pass.
    pub(crate) fn touch(&mut self, name: &str) {
        if let Some(record) = self.records.get(name) {
            self.schedule.touch(&record.node.metadata.name);
        }
    }

    /// Gives a node that was found silent its whole grace period again, because its conditions could not be written. Its zone
    /// counts it as not ready until something is heard of it: otherwise a failed write could let a zone of silent nodes seem
    /// healthy enough to be tainted.
    ///
    /// `is_unanswered`: the write may have taken effect.
    pub(crate) fn spare(&mut self, name: &str, is_unanswered: bool, now: Instant) {
        self.update(name, |record| record.lapse.not_taken(is_unanswered.then(|| record.node.ready()), now));
        self.touch(name);
    }

    /// The server denies the conditions of a silent node, for what they are: it takes those of other nodes, and heartbeats. They
    /// are written again after a pause that grows up to a grace period.
    pub(crate) fn deny(&mut self, name: &str, now: Instant) {
        let grace = self.grace;
        self.update(name, |record| record.lapse.denied(grace.of(&record.node), now));
        self.touch(name);
    }

    /// The conditions of a silent node were written.
    pub(crate) fn was_lapsed(&mut self, name: &str) {
        self.update(name, |record| record.lapse.succeeded());
    }

    /// Takes note of a change of a node that failed, or that succeeded.
    pub(crate) fn note_write(&mut self, name: &str, failure: Option<Failure>) {
        self.update(name, |record| record.failure = failure.map(Arc::new));
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

    /// What a pass decides on. Changes nothing. `trouble`: what is wrong with a watch; `period`: the pause between two passes.
    pub(crate) fn pass(&self, now: Instant, trouble: Option<String>, period: Duration) -> HealthSnapshot {
        let examined = self.schedule.due(now).into_iter().filter_map(|name| self.records.get(name));
        let examined = examined.map(|record| Examined {
            node: Arc::clone(&record.node),
            // The first pass that examines a node counts as a sign of life, as upstream has it.
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

    /// Takes over what a pass has decided.
    pub(crate) fn passed(&mut self, plan: &health::Plan, now: Instant) {
        // Nodes may have come and gone since the snapshot of the pass.
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
        // A node that has changed since is examined again.
        let Some(record) = self.records.get_mut(name).filter(|record| Arc::ptr_eq(&record.node, node)) else { return };
        self.schedule.set_deadline(name, &mut record.due, *due);
        match action {
            // It is examined until the action has had its effect.
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

    /// Zones with nodes that wait, each with the one that has waited longest.
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

    /// The time until a node counts as silent; none if it does.
    fn silent_in(&self, record: &Record, now: Instant) -> Option<Duration> {
        self.silent_after(record, record.patient_since(), now)
    }

    fn silent_after(&self, record: &Record, heard: Instant, now: Instant) -> Option<Duration> {
        let from = self.sight.since(now).into_iter().chain(self.grace_from).max().unwrap_or(now);
        let at = self.grace.end(&record.node, heard, from);
        (at >= now).then(|| at - now)
    }

    /// A node waits no longer; the next pass examines it.
    pub(crate) fn release(&mut self, name: &Name) {
        let Some(record) = self.records.get_mut(name) else { return };
        self.zones.end_wait(&record.zone, name, record.waits.take());
        self.schedule.touch(name);
    }

    /// Lets a node whose turn could not be used wait behind the others of its zone. A node that has recovered while its taint was
    /// on its way waits no longer.
    pub(crate) fn postpone(&mut self, name: &Name, now: Instant) {
        let Some(record) = self.records.get_mut(name).filter(|record| record.waits.is_some()) else { return };
        self.zones.end_wait(&record.zone, name, record.waits.replace(now));
        self.zones.wait(&record.zone, name, now);
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
        // A process that sees nothing now has to see for a grace period.
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

    /// Whether a node may get its taint, by what its zone and all zones are now: since its turn came, others may have failed.
    pub(crate) fn may_be_tainted(&self, name: &str, now: Instant) -> bool {
        let Some(record) = self.records.get(name).filter(|_| self.sight.since(now).is_some()) else { return false };
        let (changes, disruption) = transition(&self.zones.standings(), self.was_total, &self.zones.limits);
        let rate = changes.get(&record.zone).map(|change| change.rate);
        let rate = rate.or_else(|| Some(self.zones.get(&record.zone)?.limiter.rate())).unwrap_or_default();
        let is_cause = !silence::is_lapsed(&record.node) || self.silent_in(record, now).is_none();
        is_cause && rate > 0.0 && !disruption.is_total()
    }

    /// What is known of a node, for explanations. `blind_for`: how long no node has been judged.
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
