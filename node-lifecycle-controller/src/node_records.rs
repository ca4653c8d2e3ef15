//! The records of all nodes, the nodes to examine next, and the zones with the nodes that wait for a taint.
//!
//! The cost of an event or a heartbeat does not grow with the number of nodes of the cluster. The cost of a pass of the node
//! monitor is proportional to the number of nodes that changed or have reached their deadline.

mod record;
mod schedule;
mod zones;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::prelude::*;

use crate::{
    disruption::{ClusterDisruption, ZoneSettings, ZoneState, zone_changes_and_cluster_disruption},
    monitor::{
        health::decide::{self as health, Action, ExaminedNode, HealthSnapshot, NodeDecision, NodesToReport},
        tainting::decide::{ZoneWithWaitingNodes, tainted_node_share},
        taints_and_labels::decide::{NodeChangeFailure, Snapshot as NodeSnapshot},
    },
    objects::{Node, NodeName, NodeReadyStatus, RenewTime},
    server_contact::ServerContact,
    silence::{self, GracePeriods},
    taints::{self, TaintCause},
};

use record::NodeRecord;
use schedule::ExaminationSchedule;
use zones::{Zone, ZoneNodeCounter, Zones};

/// Records of all nodes of the cluster, which the node monitor and the taint eviction share.
pub(crate) struct NodeRecords {
    pub(crate) server_contact: ServerContact,
    grace_periods: GracePeriods,
    records: HashMap<NodeName, NodeRecord>,
    schedule: ExaminationSchedule,
    tainted_nodes: BTreeSet<NodeName>,
    pub(crate) zones: Zones,
    /// Nodes that the next pass records as Events: added, removed, or set to `Unknown` by an unanswered write.
    nodes_to_report: NodesToReport,
    /// End of the last total disruption, when all grace periods restarted; `None` before the first end.
    grace_period_restart: Option<Instant>,
    /// Whether the last pass found every zone fully disrupted.
    was_total_disruption: bool,
}

impl NodeRecords {
    pub(crate) fn new(server_contact: ServerContact, grace_periods: GracePeriods, zone_settings: ZoneSettings) -> Self {
        Self {
            server_contact,
            grace_periods,
            records: HashMap::default(),
            schedule: ExaminationSchedule::default(),
            tainted_nodes: BTreeSet::new(),
            zones: Zones::new(zone_settings),
            nodes_to_report: NodesToReport::default(),
            grace_period_restart: None,
            was_total_disruption: false,
        }
    }

    /// Records a state of a node, unless a newer state is recorded. If `is_of_set` is true, the state comes from a list and is
    /// always recorded, because the data of the server may have been restored from a backup.
    ///
    /// `renew_time` is the current renewal time of the node's Lease; only a node without a record needs it.
    pub(crate) fn record_node(
        &mut self,
        node: &Arc<Node>,
        renew_time: Option<RenewTime>,
        is_of_set: bool,
        now: Instant,
    ) {
        let meta = &node.metadata;
        let known = self.records.get(&meta.name).filter(|known| known.node.metadata.uid == meta.uid);
        let record = match known {
            Some(known) if !is_of_set && known.node.metadata.resource_version > meta.resource_version => return,
            Some(known) => {
                let mut record = known.clone();
                if record.record_node_state(node, now) == Some(NodeReadyStatus::True) {
                    self.nodes_to_report.nodes_set_unknown.push((Arc::clone(&meta.name), meta.uid.clone()));
                }
                record
            }
            None => {
                self.remove_node(&meta.name);
                self.nodes_to_report.added_nodes.insert(Arc::clone(&meta.name), meta.uid.clone());
                NodeRecord::new(node, renew_time, now)
            }
        };
        self.schedule.changed_nodes.insert(Arc::clone(&meta.name));
        self.store_record(record, now);
    }

    /// Replaces the record of a node, and updates the zones and the set of tainted nodes.
    fn store_record(&mut self, mut record: NodeRecord, now: Instant) {
        let name = Arc::clone(&record.node.metadata.name);
        self.zones.add_node(&record.zone_key, record.zone_node_counter(), now);
        if let Some(old) = self.records.remove(&name) {
            // A waiting node loses its place in the queue of its zone if it moves to another zone or no longer needs its taint.
            let needs = TaintCause::for_node(&record.node)
                .is_some_and(|cause| !taints::has_taint_of_cause(&record.node, cause));
            if old.zone_key != record.zone_key || !needs {
                self.zones.remove_waiting_node(&old.zone_key, &name, record.waiting_for_taint_since.take());
            }
            self.zones.remove_node(&old.zone_key, old.zone_node_counter());
        }
        if taints::has_monitor_taint(&record.node) {
            self.tainted_nodes.insert(Arc::clone(&name));
        } else {
            self.tainted_nodes.remove(&name);
        }
        self.records.insert(name, record);
    }

    /// Removes the record of a node that was deleted or cannot be decoded.
    pub(crate) fn remove_node(&mut self, name: &NodeName) {
        let Some(mut record) = self.records.remove(name) else { return };
        self.zones.remove_waiting_node(&record.zone_key, name, record.waiting_for_taint_since);
        self.zones.remove_node(&record.zone_key, record.zone_node_counter());
        self.tainted_nodes.remove(name);
        self.schedule.changed_nodes.remove(name);
        self.schedule.set_examination_deadline(name, &mut record.examination_deadline, None);
        self.nodes_to_report.added_nodes.remove(name);
        if record.is_addition_reported {
            self.nodes_to_report.removed_nodes.push((Arc::clone(name), record.node.metadata.uid.clone()));
        }
    }

    /// Records a renewal of a node's Lease. A renewal time that differs from the last one is a heartbeat, even if the clock of
    /// the node is wrong.
    pub(crate) fn record_lease_renewal(&mut self, name: &str, renew_time: RenewTime, now: Instant) {
        if !self.is_new_lease_renewal(name, renew_time) {
            return;
        }
        self.update_record(name, |record| {
            record.lease_renewal = Some(renew_time);
            record.last_heartbeat = now;
            record.condition_writes.record_heartbeat();
        });
        // A node without a deadline may have had no heartbeat for its grace period, so the next pass examines it.
        if self.records.get(name).is_some_and(|record| record.examination_deadline.is_none()) {
            self.examine_in_next_pass(name);
        }
    }

    /// Changes the record of a node, and updates the counters of its zone.
    fn update_record(&mut self, name: &str, change: impl FnOnce(&mut NodeRecord)) {
        let Some(record) = self.records.get_mut(name) else { return };
        let before = record.zone_node_counter();
        change(record);
        self.zones.move_node_count(&record.zone_key, before, record.zone_node_counter());
    }

    /// Adds a node to the next pass, even if its deadline has not passed; ignores a node without a record.
    pub(crate) fn examine_in_next_pass(&mut self, name: &str) {
        if let Some(record) = self.records.get(name) {
            self.schedule.changed_nodes.insert(Arc::clone(&record.node.metadata.name));
        }
    }

    /// Restarts the grace period of a node after a failed write of `Unknown` conditions. Until the next heartbeat, the node
    /// counts as not ready in its zone: otherwise a zone with failed nodes and failed writes would appear healthy, and its
    /// nodes would be tainted.
    ///
    /// `is_unanswered` is true if the answer to the write was lost, so that the write may have taken effect.
    pub(crate) fn restart_grace_period(&mut self, name: &str, is_unanswered: bool, now: Instant) {
        self.update_record(name, |record| {
            let writes = &mut record.condition_writes;
            (writes.has_failed_write_since_heartbeat, writes.last_unaccepted_write_at) = (true, Some(now));
            if is_unanswered {
                writes.ready_before_unanswered = Some(record.node.ready_status());
            }
        });
        self.examine_in_next_pass(name);
    }

    /// Records that the server denied a write of `Unknown` conditions because of its content. Other writes and heartbeats may
    /// still succeed, so the grace period does not restart. The pause before the next attempt grows up to the grace period.
    pub(crate) fn record_denied_condition_write(&mut self, name: &str, now: Instant) {
        let grace = self.grace_periods;
        self.update_record(name, |record| {
            record.condition_writes.record_denied_write(grace.for_node(&record.node), now);
        });
        self.examine_in_next_pass(name);
    }

    /// Records that the conditions of a node without heartbeats were set to `Unknown`.
    pub(crate) fn record_successful_condition_write(&mut self, name: &str) {
        self.update_record(name, |record| record.condition_writes.ready_before_unanswered = None);
    }

    /// Records the result of a change of a node: the failure, or `None` after a success.
    pub(crate) fn record_node_change_result(&mut self, name: &str, failure: Option<NodeChangeFailure>) {
        self.update_record(name, |record| record.last_change_failure = failure.map(Arc::new));
    }

    /// Returns at most `most` nodes with a failed last change, sorted by name.
    pub(crate) fn nodes_with_failed_change(&self, most: usize) -> Vec<(NodeName, Arc<NodeChangeFailure>)> {
        let failure = |(name, record): (&NodeName, &NodeRecord)| {
            Some((Arc::clone(name), Arc::clone(record.last_change_failure.as_ref()?)))
        };
        let mut failures: Vec<_> = self.records.iter().filter_map(failure).collect();
        failures.sort_by(|(a, _), (b, _)| a.cmp(b));
        failures.truncate(most);
        failures
    }

    /// Returns the newest recorded state of a node; `None` if the node has no record.
    pub(crate) fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.records.get(name).map(|record| &record.node)
    }

    /// Whether this renewal time of the node's Lease differs from the recorded one; if so, it is a heartbeat.
    pub(crate) fn is_new_lease_renewal(&self, name: &str, renew_time: RenewTime) -> bool {
        self.records.get(name).is_some_and(|record| record.lease_renewal != Some(renew_time))
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the number of nodes with a `NoExecute` taint of this program.
    pub(crate) fn tainted_node_count(&self) -> usize {
        self.tainted_nodes.len()
    }

    /// Returns the share of nodes that have a taint, or wait for one in a zone with a positive tainting rate.
    pub(crate) fn expected_tainted_node_share(&self) -> f64 {
        tainted_node_share(self.tainted_nodes.len() + self.zones.taintable_waiting_node_count(), self.records.len())
    }

    /// Returns the snapshot of a pass without changing the records. `watch_error` is the error of a watch; `pass_period`
    /// is the pause between two passes.
    pub(crate) fn health_snapshot(
        &self,
        now: Instant,
        watch_error: Option<String>,
        pass_period: Duration,
    ) -> HealthSnapshot {
        let examined = self.schedule.due_nodes(now).into_iter().filter_map(|name| self.records.get(name));
        let examined = examined.map(|record| ExaminedNode {
            node: Arc::clone(&record.node),
            // The first pass that examines a node counts as a heartbeat, as in upstream.
            grace_period_start: if record.is_addition_reported { record.grace_period_start() } else { now },
            condition_write_denied_until: record.condition_writes.denied_until,
            is_waiting_for_taint: record.waiting_for_taint_since.is_some(),
            is_counted_as_ready: record.zone_node_counter() == ZoneNodeCounter::Ready,
        });
        HealthSnapshot {
            now,
            server_contact: self.server_contact,
            watch_error,
            grace_periods_restarted_at: self.grace_period_restart,
            grace_periods: self.grace_periods,
            examined_nodes: examined.collect(),
            zones: self.zones.zone_statuses(),
            was_total_disruption: self.was_total_disruption,
            zone_settings: self.zones.settings,
            nodes_to_report: self.nodes_to_report.clone(),
            pass_period,
        }
    }

    /// Applies the plan of a pass to the records, the schedule and the zones.
    pub(crate) fn apply_health_plan(&mut self, plan: &health::Plan, now: Instant) {
        // Only the reports of this pass are removed: nodes may have been added and removed since its snapshot.
        self.nodes_to_report.remove_reported(&plan.nodes_to_report);
        for (name, uid) in &plan.nodes_to_report.added_nodes {
            if let Some(record) = self.records.get_mut(name).filter(|record| record.node.metadata.uid == *uid) {
                record.is_addition_reported = true;
                record.last_heartbeat = now;
            }
        }
        self.zones.apply_zone_changes(&plan.zone_changes, now);
        for decision in &plan.node_decisions {
            self.apply_node_decision(decision, now);
        }
        match plan.cluster_disruption {
            ClusterDisruption::TotalBegins => {
                self.schedule.changed_nodes.extend(self.tainted_nodes.iter().cloned());
            }
            ClusterDisruption::TotalEnds => self.grace_period_restart = Some(now),
            ClusterDisruption::NotTotal | ClusterDisruption::TotalLasts => {}
        }
        self.was_total_disruption = plan.cluster_disruption.is_total();
    }

    fn apply_node_decision(&mut self, NodeDecision { node, next_examination_at, action }: &NodeDecision, now: Instant) {
        let name = &node.metadata.name;
        // A node that has changed since the snapshot of this pass is examined again by the next pass.
        let Some(record) = self.records.get_mut(name).filter(|record| Arc::ptr_eq(&record.node, node)) else { return };
        self.schedule.set_examination_deadline(name, &mut record.examination_deadline, *next_examination_at);
        match action {
            // Every pass examines the node until the action has taken effect.
            Some(Action::SetConditionsUnknown(_) | Action::RemoveNoExecute | Action::ReplaceNoExecute(_)) => {
                self.schedule.changed_nodes.insert(Arc::clone(name));
                return;
            }
            Some(Action::WaitForTaint(_)) => {
                record.waiting_for_taint_since = Some(now);
                self.zones.add_waiting_node(&record.zone_key, name, now);
            }
            None if record.waiting_for_taint_since.is_none()
                && !record.condition_writes.has_failed_write_since_heartbeat =>
            {
                record.last_change_failure = None;
            }
            None => {}
        }
        self.schedule.changed_nodes.remove(name);
    }

    /// Returns the zones with waiting nodes, each with the node that has waited longest.
    pub(crate) fn zones_with_waiting_nodes(&self, now: Instant) -> Vec<ZoneWithWaitingNodes> {
        let waiting = |(name, zone): (&Text, &Zone)| {
            let (_, first) = zone.waiting_nodes.first()?;
            let record = self.records.get(first)?;
            let has_new_heartbeat = silence::is_marked_unknown_by_monitor(&record.node)
                && self.remaining_grace_period(record, now).is_some();
            Some(ZoneWithWaitingNodes {
                zone_key: name.clone(),
                node: Arc::clone(&record.node),
                is_taint_unnecessary: has_new_heartbeat || TaintCause::for_node(&record.node).is_none(),
                waiting_node_count: zone.waiting_nodes.len(),
                limiter: zone.limiter,
            })
        };
        self.zones.by_name.iter().filter_map(waiting).collect()
    }

    /// Returns the rest of a node's grace period; `None` if the grace period has passed without a heartbeat.
    fn remaining_grace_period(&self, record: &NodeRecord, now: Instant) -> Option<Duration> {
        self.remaining_grace_period_since(record, record.grace_period_start(), now)
    }

    fn remaining_grace_period_since(&self, record: &NodeRecord, start: Instant, now: Instant) -> Option<Duration> {
        let from =
            self.server_contact.contact_start(now).into_iter().chain(self.grace_period_restart).max().unwrap_or(now);
        let at = self.grace_periods.grace_period_end(&record.node, start, from);
        (at >= now).then(|| at - now)
    }

    /// Ends the wait of a node for its taint, and makes the next pass examine the node.
    pub(crate) fn stop_waiting_for_taint(&mut self, name: &NodeName) {
        let Some(record) = self.records.get_mut(name) else { return };
        self.zones.remove_waiting_node(&record.zone_key, name, record.waiting_for_taint_since.take());
        self.schedule.changed_nodes.insert(Arc::clone(name));
    }

    /// Moves a node that could not be tainted to the end of the queue of its zone. Does nothing if the node has
    /// recovered meanwhile and no longer waits.
    pub(crate) fn move_to_end_of_taint_queue(&mut self, name: &NodeName, now: Instant) {
        let Some(record) = self.records.get_mut(name).filter(|record| record.waiting_for_taint_since.is_some()) else {
            return;
        };
        self.zones.remove_waiting_node(&record.zone_key, name, record.waiting_for_taint_since.replace(now));
        self.zones.add_waiting_node(&record.zone_key, name, now);
    }

    /// Whether a node has sent no heartbeat for a grace period in which this process received other events or answers.
    pub(crate) fn has_exceeded_grace_period(&self, name: &str, now: Instant) -> bool {
        self.records.get(name).is_some_and(|record| self.remaining_grace_period(record, now).is_none())
    }

    /// Returns the minimum time until this program can confirm its taints on a node; `None` if the taints are confirmed.
    ///
    /// A taint for missing heartbeats is confirmed if the grace period has passed without a heartbeat. A taint for a reported
    /// problem is confirmed by a report that arrived after the last gap in the received events, or if events have arrived for a
    /// whole grace period since that gap. Without a gap since its start, the process trusts the reports that it found at its
    /// start.
    pub(crate) fn time_until_taint_confirmation(&self, name: &str, now: Instant) -> Option<Duration> {
        // While no event arrives, no taint can be confirmed, because events must first arrive for a whole grace period.
        let (Some(record), Some(contact_start)) = (self.records.get(name), self.server_contact.contact_start(now))
        else {
            return Some(self.grace_periods.node_monitor_grace_period);
        };
        match record.node.ready_status() {
            NodeReadyStatus::False | NodeReadyStatus::Unknown
                if !silence::is_marked_unknown_by_monitor(&record.node) =>
            {
                let is_news = !self.server_contact.was_interrupted
                    || record.last_status_report.is_some_and(|reported| reported >= contact_start);
                let grace_period_end = contact_start + self.grace_periods.for_node(&record.node);
                let remaining = grace_period_end.saturating_duration_since(now);
                Some(remaining).filter(|remaining| !is_news && !remaining.is_zero())
            }
            _ => {
                let last_sign = record.last_status_report.unwrap_or(record.last_heartbeat).max(record.last_heartbeat);
                self.remaining_grace_period_since(record, last_sign, now)
            }
        }
    }

    /// Whether a node may be tainted now. The node, its zone and the other zones may have changed since the node was chosen.
    pub(crate) fn may_be_tainted(&self, name: &str, now: Instant) -> bool {
        let Some(record) = self.records.get(name).filter(|_| self.server_contact.contact_start(now).is_some()) else {
            return false;
        };
        let (changes, disruption) = zone_changes_and_cluster_disruption(
            &self.zones.zone_statuses(),
            self.was_total_disruption,
            &self.zones.settings,
        );
        let rate = changes.get(&record.zone_key).map(|change| change.tainting_rate);
        let rate = rate.or_else(|| Some(self.zones.by_name.get(&record.zone_key)?.limiter.rate)).unwrap_or_default();
        let is_cause =
            !silence::is_marked_unknown_by_monitor(&record.node) || self.remaining_grace_period(record, now).is_none();
        is_cause && rate > 0.0 && !disruption.is_total()
    }

    /// Returns the state of a node and the facts that `/debug/explain` shows; `outage`: time without decisions about nodes.
    pub(crate) fn node_snapshot(&self, name: &str, now: Instant, outage: Option<Duration>) -> Option<NodeSnapshot> {
        let record = self.records.get(name)?;
        Some(NodeSnapshot {
            node: Arc::clone(&record.node),
            time_since_last_heartbeat: now.saturating_duration_since(record.last_heartbeat),
            remaining_grace_period: self
                .remaining_grace_period(record, now)
                .filter(|_| record.node.ready_status() != NodeReadyStatus::Unknown),
            time_waited_for_taint: record.waiting_for_taint_since.map(|since| now.saturating_duration_since(since)),
            zone_state: self.zones.by_name.get(&record.zone_key).map_or(ZoneState::Initial, |zone| zone.state),
            outage_duration: outage,
            last_change_failure: record.last_change_failure.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
