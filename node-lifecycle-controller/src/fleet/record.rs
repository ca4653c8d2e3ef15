//! The facts that the node monitor records about one node.

use std::sync::Arc;

use common::{clock::Instant, intern::Text};

use super::{lapse::LapseAttempts, zones::Counted};
use crate::{
    monitor::upkeep::snapshot::Failure,
    objects::{Node, NodeReady, Renewal},
    silence,
};

/// State, zone, heartbeats and writes of a node, as this process knows them.
#[derive(Clone)]
pub(super) struct Record {
    /// Newest known state, from the cache or from an answer of the server.
    pub(super) node: Arc<Node>,
    pub(super) zone: Text,
    /// Time at which this process received the last heartbeat; for a new node, the creation of the record.
    pub(super) heard: Instant,
    /// Time at which this process received the last status report; `None` if none has arrived since the record was created.
    pub(super) reported: Option<Instant>,
    /// Renewal time of the node's Lease when it was last received; `None` if no Lease is known.
    pub(super) lease: Option<Renewal>,
    /// Time after which a pass examines the node even if it has not changed; `None` if there is no such time.
    pub(super) due: Option<Instant>,
    /// Start of the wait for a taint; `None` if the node does not wait.
    pub(super) waits: Option<Instant>,
    /// Whether a pass has reported that the node was added.
    pub(super) is_announced: bool,
    /// Failure of the last change of the node; `None` if the change succeeded or is no longer necessary.
    pub(super) failure: Option<Arc<Failure>>,
    pub(super) lapse: LapseAttempts,
}

/// Difference between two states of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    /// The kubelet has reported a status, which is a heartbeat.
    Report,
    /// Another writer has changed the condition `Ready` without a report of the kubelet.
    Condition,
    /// Neither a report of the kubelet nor a change of `Ready` by another writer.
    Nothing,
}

impl News {
    fn between(known: &Node, node: &Node) -> Self {
        let is_report = match (known.ready(), node.ready()) {
            (_, NodeReady::Absent) => false,
            // The first condition `Ready` comes from the kubelet, except with a reason that only node monitors write.
            (NodeReady::Absent, _) => !silence::is_lapsed(node),
            _ => node.reported() != known.reported(),
        };
        if is_report {
            Self::Report
        } else if node.ready() != known.ready() && !silence::is_lapsed(node) {
            Self::Condition
        } else {
            Self::Nothing
        }
    }
}

impl Record {
    /// Creates the record of a new node. `lease` is the current renewal time of its Lease.
    pub(super) fn new(node: &Arc<Node>, lease: Option<Renewal>, now: Instant) -> Self {
        Self {
            node: Arc::clone(node),
            zone: node.zone(),
            heard: now,
            reported: None,
            lease,
            due: None,
            waits: None,
            is_announced: false,
            failure: None,
            lapse: LapseAttempts::default(),
        }
    }

    /// Stores a new state of the node. If the state shows that an unanswered write of this program has taken effect, returns the
    /// condition `Ready` before that write.
    pub(super) fn see(&mut self, node: &Arc<Node>, now: Instant) -> Option<NodeReady> {
        let news = News::between(&self.node, node);
        (self.node, self.zone) = (Arc::clone(node), node.zone());
        let before = if silence::is_lapsed(node) { self.lapse.lapse_seen() } else { None };
        if before.is_some() {
            self.failure = None;
        }
        if news == News::Report {
            self.heard = now;
            self.lapse.reported();
        }
        if news != News::Nothing {
            self.reported = Some(now);
        }
        before
    }

    /// Returns how the node counts for the state of its zone.
    pub(super) fn counted(&self) -> Counted {
        if self.node.is_excluded() {
            Counted::Excluded
        } else if self.node.ready() == NodeReady::True && !self.lapse.has_failed {
            Counted::Ready
        } else {
            Counted::NotReady
        }
    }

    /// Returns the start of the current grace period: the last heartbeat, or a later write that the server did not accept.
    pub(super) fn patient_since(&self) -> Instant {
        self.lapse.not_taken.map_or(self.heard, |not_taken| not_taken.max(self.heard))
    }
}
