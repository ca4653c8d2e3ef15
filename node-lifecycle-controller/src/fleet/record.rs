//! The record of one node.

use std::sync::Arc;

use common::{clock::Instant, intern::Text};

use super::{lapse::LapseAttempts, zones::Counted};
use crate::{
    monitor::upkeep::snapshot::Failure,
    objects::{Node, NodeReady, Renewal},
    silence,
};

/// Known facts about a node.
#[derive(Clone)]
pub(super) struct Record {
    /// Newest known state, from the cache or from an answer to a write.
    pub(super) node: Arc<Node>,
    pub(super) zone: Text,
    /// Time at which the last heartbeat was seen.
    pub(super) heard: Instant,
    /// Time at which the last status report was seen; `None` if the status has not changed since the record was created.
    pub(super) reported: Option<Instant>,
    /// Renewal of the Lease that was seen last.
    pub(super) lease: Option<Renewal>,
    /// Deadline of the node in the schedule.
    pub(super) due: Option<Instant>,
    /// Start of the wait for a taint; `None` if the node does not wait.
    pub(super) waits: Option<Instant>,
    /// Whether a pass has reported that the node was added.
    pub(super) is_announced: bool,
    /// The last failed change, until a change succeeds or is unnecessary.
    pub(super) failure: Option<Arc<Failure>>,
    /// Attempts to set the conditions of the silent node to `Unknown`.
    pub(super) lapse: LapseAttempts,
}

/// Difference between two states of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    /// A report of the kubelet, which is a heartbeat.
    Report,
    /// A new condition `Ready` without a report; this program did not write it.
    Condition,
    /// No activity of the kubelet.
    Nothing,
}

impl News {
    fn between(known: &Node, node: &Node) -> Self {
        let is_report = match (known.ready(), node.ready()) {
            (_, NodeReady::Absent) => false,
            // A first report comes from the kubelet unless its reason shows that this program, or an equivalent one, wrote it.
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
    /// Creates the record of a new node. `lease` is the current renewal of its Lease.
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

    /// How the node counts for its zone.
    pub(super) fn counted(&self) -> Counted {
        if self.node.is_excluded() {
            Counted::Excluded
        } else if self.node.ready() == NodeReady::True && !self.lapse.has_failed {
            Counted::Ready
        } else {
            Counted::NotReady
        }
    }

    /// Time at which the grace period began.
    pub(super) fn patient_since(&self) -> Instant {
        self.lapse.not_taken.map_or(self.heard, |not_taken| not_taken.max(self.heard))
    }
}
