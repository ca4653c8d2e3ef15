//! The facts that the node monitor records about one node.

use std::sync::Arc;

use common::prelude::*;

use super::{lapse::UnknownConditionWrites, zones::ZoneNodeCounter};
use crate::{
    monitor::taints_and_labels::decide::NodeChangeFailure,
    objects::{Node, NodeReadyStatus, RenewTime},
    silence,
};

/// State, zone, heartbeats and writes of a node, as this process knows them.
#[derive(Clone)]
pub(super) struct NodeRecord {
    /// The state that was received last, from the cache or in an answer of the server.
    pub(super) node: Arc<Node>,
    pub(super) zone_key: Text,
    /// Time at which this process received the last heartbeat; for a new node, the creation of the record.
    pub(super) last_heartbeat: Instant,
    /// Time at which this process received the last status report; `None` if none has arrived since the record was created.
    pub(super) last_status_report: Option<Instant>,
    /// Renewal time of the node's Lease when it was last received; `None` if no Lease is known.
    pub(super) lease_renewal: Option<RenewTime>,
    /// Time after which a pass examines the node even if it has not changed; `None` if there is no such time.
    pub(super) examination_deadline: Option<Instant>,
    /// Start of the wait for a taint; `None` if the node does not wait.
    pub(super) waiting_for_taint_since: Option<Instant>,
    /// Whether a pass has reported that the node was added.
    pub(super) is_addition_reported: bool,
    /// Failure of the last change of the node; `None` if the change succeeded or is no longer necessary.
    pub(super) last_change_failure: Option<Arc<NodeChangeFailure>>,
    pub(super) condition_writes: UnknownConditionWrites,
}

/// Activity of the kubelet or of another writer that a new state of a node shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StateDifference {
    /// The kubelet has reported a status, which is a heartbeat.
    KubeletReport,
    /// Another writer has changed the condition `Ready` without a report of the kubelet.
    ForeignReadyChange,
    /// Neither a report of the kubelet nor a change of `Ready` by another writer.
    NoActivity,
}

impl StateDifference {
    fn between(known: &Node, node: &Node) -> Self {
        let is_report = match (known.ready_status(), node.ready_status()) {
            (_, NodeReadyStatus::Missing) => false,
            // The first condition `Ready` comes from the kubelet, except with a reason that only node monitors write.
            (NodeReadyStatus::Missing, _) => !silence::is_marked_unknown_by_monitor(node),
            _ => node.last_heartbeat_time() != known.last_heartbeat_time(),
        };
        if is_report {
            Self::KubeletReport
        } else if node.ready_status() != known.ready_status() && !silence::is_marked_unknown_by_monitor(node) {
            Self::ForeignReadyChange
        } else {
            Self::NoActivity
        }
    }
}

impl NodeRecord {
    /// Creates the record of a new node, with its creation as the first heartbeat. `renew_time` is that of its Lease.
    pub(super) fn new(node: &Arc<Node>, renew_time: Option<RenewTime>, now: Instant) -> Self {
        Self {
            node: Arc::clone(node),
            zone_key: node.zone_key(),
            last_heartbeat: now,
            last_status_report: None,
            lease_renewal: renew_time,
            examination_deadline: None,
            waiting_for_taint_since: None,
            is_addition_reported: false,
            last_change_failure: None,
            condition_writes: UnknownConditionWrites::default(),
        }
    }

    /// Stores a new state of the node. If the state shows that an unanswered write of this program has taken effect, returns the
    /// condition `Ready` before that write.
    pub(super) fn record_node_state(&mut self, node: &Arc<Node>, now: Instant) -> Option<NodeReadyStatus> {
        let news = StateDifference::between(&self.node, node);
        (self.node, self.zone_key) = (Arc::clone(node), node.zone_key());
        let before = if silence::is_marked_unknown_by_monitor(node) {
            self.condition_writes.resolve_unanswered_write()
        } else {
            None
        };
        if before.is_some() {
            self.last_change_failure = None;
        }
        if news == StateDifference::KubeletReport {
            self.last_heartbeat = now;
            self.condition_writes.record_status_report();
        }
        if news != StateDifference::NoActivity {
            self.last_status_report = Some(now);
        }
        before
    }

    /// Returns the counter of the zone that includes the node.
    pub(super) fn zone_node_counter(&self) -> ZoneNodeCounter {
        if self.node.is_excluded_from_zone_state() {
            ZoneNodeCounter::Excluded
        } else if self.node.ready_status() == NodeReadyStatus::True
            && !self.condition_writes.has_failed_write_since_heartbeat
        {
            ZoneNodeCounter::Ready
        } else {
            ZoneNodeCounter::NotReady
        }
    }

    /// Returns the start of the current grace period: the last heartbeat, or a later write that the server did not accept.
    pub(super) fn grace_period_start(&self) -> Instant {
        self.condition_writes
            .last_unaccepted_write_at
            .map_or(self.last_heartbeat, |not_taken| not_taken.max(self.last_heartbeat))
    }
}
