//! The memory that the loops of the node monitor share.

use std::{sync::Arc, time::Duration};

use common::{api, duration, prelude::*};
use parking_lot::Mutex;

use super::{
    health::decide::NodesToReport,
    metrics::MonitorMetrics,
    outage::MonitorOutage,
    tainting::{TaintingPassKey, decide::TaintShareLimits},
    taints_and_labels::decide::NodeChangeFailure,
};
use crate::{caches::Caches, heartbeats::Heartbeats, node_records::NodeRecords, objects::NODES};

/// The records, caches and metrics that the loops of the node monitor share.
pub(crate) struct NodeMonitor {
    pub(crate) context: LoopContext,
    pub(crate) node_records: Arc<Mutex<NodeRecords>>,
    pub(crate) metrics: MonitorMetrics,
    pub(crate) caches: Caches,
    pub(crate) heartbeats: Arc<Heartbeats>,
    pub(crate) outage: Arc<MonitorOutage>,
    pub(crate) share_limits: TaintShareLimits,
    /// Whether the alarm about tainted nodes was raised and their share still exceeds the flag `--node-taint-alarm-share`.
    pub(crate) is_taint_alarm_active: Mutex<bool>,
    /// The queue of the tainting passes. A health pass adds their key while nodes wait for a taint.
    pub(crate) tainting_queue: Queue<TaintingPassKey>,
}

impl NodeMonitor {
    pub(super) fn now(&self) -> Instant {
        self.context.clock.monotonic_now()
    }

    /// Returns the reason why passes make no decisions about nodes; `None` if they make decisions.
    pub(super) fn outage_reason(&self) -> Option<String> {
        let outage_duration = self.outage.outage_duration();
        let outage =
            outage_duration.map(|time| format!("blind for {}", duration::format(Duration::from_secs(time.as_secs()))));
        match (self.heartbeats.contact_problem(), outage) {
            (Some(problem), Some(outage)) => Some(format!("{outage}: {problem}")),
            (problem, outage) => problem.or(outage),
        }
    }

    /// Records that the server answered a read, so that this process can receive heartbeats.
    pub(super) fn record_server_contact(&self) {
        self.node_records.lock().server_contact.record_contact(self.now());
    }

    /// Creates the Events of nodes that were added, removed, or set to `Unknown` by an unanswered write.
    pub(super) fn report_nodes(&self, nodes: &NodesToReport) {
        for (name, uid) in &nodes.added_nodes {
            let message = format!("Node {name} event: Registered Node {name} in Controller");
            self.report_event(name, uid, "RegisteredNode", message);
        }
        for (name, uid) in &nodes.removed_nodes {
            let message = format!("Node {name} event: Removing Node {name} from Controller");
            self.report_event(name, uid, "RemovingNode", message);
        }
        for (name, uid) in &nodes.nodes_set_unknown {
            self.record_not_ready(name, uid);
        }
    }

    /// Records that the condition `Ready` of a node is no longer `True`, and creates an Event.
    pub(super) fn record_not_ready(&self, name: &str, uid: &Uid) {
        self.node_records.lock().record_successful_condition_write(name);
        self.report_event(name, uid, "NodeNotReady", format!("Node {name} status is now: NodeNotReady"));
    }

    fn report_event(&self, name: &str, uid: &Uid, reason: &'static str, message: String) {
        let node = InvolvedObject::without_version(NODES, "", name, uid.clone());
        self.context.recorder.record_event(&node, EventType::Normal, reason, message);
    }

    /// Counts a failed change of a node, and stores it for explanations until a change succeeds.
    pub(super) fn record_change_result(&self, name: &str, what: &str, error: Option<&api::Error>) {
        let failure = error.map(|error| {
            self.metrics.count_failed_write(error);
            NodeChangeFailure { error: format!("{what}: {error}"), failed_at: self.context.clock.now() }
        });
        self.node_records.lock().record_node_change_result(name, failure);
    }
}
