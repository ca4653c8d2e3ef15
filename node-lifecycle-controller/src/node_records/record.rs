//! The facts that the node monitor records about one node, with failed attempts to set its conditions to `Unknown`.

use std::{sync::Arc, time::Duration};

use common::prelude::*;

use super::zones::ZoneNodeCounter;
use crate::{
    monitor::taints_and_labels::decide::NodeChangeFailure,
    objects::{Node, NodeReadyStatus, RenewTime},
    silence,
};

/// Pause after the server denied a write of `Unknown` conditions for the first time; each further denial doubles the pause.
const FIRST_DENIED_PAUSE: Duration = Duration::from_secs(5);

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
        let is_from_monitor = silence::is_marked_unknown_by_monitor(node);
        let is_kubelet_report = match (self.node.ready_status(), node.ready_status()) {
            (_, NodeReadyStatus::Missing) => false,
            // The first condition `Ready` comes from the kubelet, except with a reason that only node monitors write.
            (NodeReadyStatus::Missing, _) => !is_from_monitor,
            _ => node.last_heartbeat_time() != self.node.last_heartbeat_time(),
        };
        let is_foreign_change = node.ready_status() != self.node.ready_status() && !is_from_monitor;
        (self.node, self.zone_key) = (Arc::clone(node), node.zone_key());
        let writes = &mut self.condition_writes;
        let before = writes.ready_before_unanswered.take_if(|_| is_from_monitor);
        if before.is_some() {
            (writes.last_unaccepted_write_at, writes.has_failed_write_since_heartbeat) = (None, false);
            self.last_change_failure = None;
        }
        if is_kubelet_report {
            self.last_heartbeat = now;
            writes.record_heartbeat();
            // The report shows that no unanswered write has taken effect.
            writes.ready_before_unanswered = None;
        }
        if is_kubelet_report || is_foreign_change {
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
        self.condition_writes.last_unaccepted_write_at.unwrap_or(self.last_heartbeat).max(self.last_heartbeat)
    }
}

/// The outcomes of the writes that set the conditions of a node without heartbeats to `Unknown`.
#[derive(Clone, Default)]
pub(super) struct UnknownConditionWrites {
    /// Whether an attempt has failed since the last heartbeat; if so, the node counts as not ready for its zone.
    pub(super) has_failed_write_since_heartbeat: bool,
    /// Time of the last failed attempt, except denials because of the content. Heartbeats may have failed for the same reason.
    pub(super) last_unaccepted_write_at: Option<Instant>,
    /// The condition `Ready` before a write that the server did not answer, so that its effect is unknown.
    pub(super) ready_before_unanswered: Option<NodeReadyStatus>,
    /// Earliest time of the next write, if the server denied the last write because of its content.
    pub(super) denied_until: Option<Instant>,
    /// The pause that ends at `denied_until`.
    denied_pause: Duration,
}

impl UnknownConditionWrites {
    /// Records that the server denied a write because of its content. The pause before the next attempt doubles up to
    /// `longest`.
    pub(super) fn record_denied_write(&mut self, longest: Duration, now: Instant) {
        let pause = if self.denied_until.is_some() { self.denied_pause * 2 } else { FIRST_DENIED_PAUSE };
        self.has_failed_write_since_heartbeat = true;
        self.denied_pause = pause.min(longest);
        self.denied_until = Some(now + self.denied_pause);
    }

    /// Records a heartbeat, after which earlier failed writes no longer count.
    pub(super) fn record_heartbeat(&mut self) {
        (self.has_failed_write_since_heartbeat, self.denied_until) = (false, None);
    }
}
