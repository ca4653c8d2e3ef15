//! The passes of the node monitor: over nodes that changed or reached their deadline, and over nodes that wait for a taint.

mod act;
pub(crate) mod decide;
mod observe;
pub(crate) mod plan;
pub(crate) mod snapshot;

use std::{fmt, sync::Arc, time::Duration};

use common::{
    clock::Instant,
    controller::{Controller, Observation},
    events::InvolvedObject,
    informer::AnyInformer,
    io::{Io, Requeue, SyncError},
    meta::Uid,
    queue::{Priority, Queue, QueueKey},
};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    memory::NodeMonitor,
    notes::{MonitorNote, MonitorQuery},
    outage::OutageChange,
};

use plan::{Plan, health, tainting};
use snapshot::{HealthSnapshot, Snapshot, TaintShareLimits, TaintedNodeShare, TaintingSnapshot};

/// The kind of a pass. Each kind is one key in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PassKind {
    /// Finds nodes without heartbeats, among the nodes that changed or have reached their deadline.
    Health,
    /// Taints nodes that wait for a `NoExecute` taint, at the rate of their zone.
    Tainting,
}

impl PassKind {
    pub(super) const ALL: [Self; 2] = [Self::Health, Self::Tainting];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Tainting => "tainting",
        }
    }
}

impl fmt::Display for PassKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl QueueKey for PassKind {
    const FORM: &'static str = "`health` or `tainting`";

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|round| round.as_str() == text)
    }

    fn tenant(&self) -> &'static str {
        ""
    }
}

/// The loop that checks the health of nodes and taints waiting nodes.
pub(crate) struct NodePassController {
    pub(super) monitor: Arc<NodeMonitor>,
    pub(super) queue: Queue<PassKind>,
    pub(super) share_limits: TaintShareLimits,
    /// Whether the alarm about tainted nodes was raised and their share still exceeds the flag `--node-taint-alarm-share`.
    pub(super) is_taint_alarm_active: Mutex<bool>,
}

impl Controller for NodePassController {
    type Key = PassKind;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = MonitorNote;

    fn observe(&self, round: &PassKind, _: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        Ok(Observation::Ready(self.observe(*round)))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(_: &Snapshot, plan: &Plan, io: Io<'_, MonitorNote>) -> Result<Requeue, SyncError> {
        act::act(plan, io).await
    }

    fn synced_object(_: &Snapshot) -> (InvolvedObject, Uid) {
        (InvolvedObject::default(), Uid::default())
    }

    fn apply_memory_note(&self, snapshot: &Snapshot, note: MonitorNote) {
        match (note, snapshot) {
            (MonitorNote::PassFinished, Snapshot::Health(snapshot)) => {
                let took = self.monitor.context.clock.monotonic_now().saturating_duration_since(snapshot.now);
                self.monitor.metrics.pass_duration.observe(took.as_secs_f64());
            }
            (note, _) => self.monitor.apply_note(note),
        }
    }

    fn observe_again(&self, _: &Snapshot, question: MonitorQuery) -> Option<bool> {
        Some(self.monitor.answer_query(question))
    }

    fn record_plan(&self, snapshot: &Snapshot, plan: &Plan) {
        match (snapshot, plan) {
            (Snapshot::Health(snapshot), Plan::Health(plan)) => self.record_health(snapshot, plan),
            (Snapshot::Tainting(snapshot), Plan::Tainting(plan)) => self.record_tainting(snapshot, plan),
            _ => {}
        }
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        self.monitor.informers()
    }
}

impl NodePassController {
    fn record_health(&self, snapshot: &HealthSnapshot, plan: &health::Plan) {
        let unseen_for = self.monitor.node_records.lock().server_contact.time_without_contact(snapshot.now);
        self.monitor.heartbeats.record_contact_problem(snapshot.watch_error.is_some());
        let mut fleet = self.monitor.node_records.lock();
        fleet.apply_health_plan(plan, snapshot.now);
        self.monitor.metrics.update_zones(&fleet.zones.zone_statuses(), &fleet.zones.take_vanished_zones());
        self.monitor.metrics.examined_nodes_total.inc_by(plan.node_decisions.len() as u64);
        let waiting = fleet.zones.waiting_node_count();
        if waiting > 0 {
            self.queue.add(PassKind::Tainting, Priority::Normal);
        } else {
            self.monitor.metrics.nodes_blocked_by_max_share.set(0.0);
        }
        let share = TaintedNodeShare {
            tainted_node_count: fleet.tainted_node_count() + fleet.zones.taintable_waiting_node_count(),
            total_node_count: fleet.len(),
        };
        self.monitor.metrics.tainted_node_share.set(share.fraction());
        if !share.is_above_alarm_share(self.share_limits.alarm_share) {
            *self.is_taint_alarm_active.lock() = false;
        }
        drop(fleet);
        self.record_outage(plan.outage_reason.as_deref(), unseen_for, snapshot.now);
    }

    /// Logs when passes cease to make decisions about nodes and when they resume, and counts each time that they cease.
    fn record_outage(&self, blind: Option<&str>, unseen_for: Option<Duration>, now: Instant) {
        match self.monitor.outage.record_pass(blind.is_some(), unseen_for, now) {
            Some(OutageChange::Began) => {
                self.monitor.metrics.outages_total.inc();
                let why = blind.unwrap_or_default();
                tracing::warn!(
                    logger = "node-controller",
                    why,
                    "Nodes are not judged, because there is no live view of them"
                );
            }
            Some(OutageChange::Ended) => {
                tracing::info!(logger = "node-controller", "Nodes are judged again, and all grace periods restart");
            }
            None => {}
        }
    }

    fn record_tainting(&self, snapshot: &TaintingSnapshot, plan: &tainting::Plan) {
        let mut fleet = self.monitor.node_records.lock();
        for chosen in &plan.nodes_to_taint {
            fleet.zones.take_taint_token(&chosen.zone_key, snapshot.now);
        }
        for name in &plan.nodes_no_longer_waiting_for_taint {
            fleet.stop_waiting_for_taint(name);
        }
        let mut is_alarmed = self.is_taint_alarm_active.lock();
        *is_alarmed = plan.alarm_message.is_some() || (*is_alarmed && plan.exceeds_alarm_share);
        let share = TaintedNodeShare {
            tainted_node_count: snapshot.tainted_node_count + plan.taintable_waiting_node_count,
            total_node_count: snapshot.total_node_count,
        };
        self.monitor.metrics.tainted_node_share.set(share.fraction());
        self.monitor.metrics.nodes_blocked_by_max_share.set(plan.blocked_by_max_share_count as f64);
    }
}
