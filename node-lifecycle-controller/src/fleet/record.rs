//! What is remembered of one node.

use std::sync::Arc;

use common::{clock::Instant, intern::Text};

use super::{lapse::LapseAttempts, zones::Counted};
use crate::{
    monitor::upkeep::snapshot::Failure,
    objects::{Node, NodeReady, Renewal},
    silence,
};

/// What is known of a node.
#[derive(Clone)]
pub(super) struct Record {
    /// The newest known state: of the cache, or of an answer to a write.
    pub(super) node: Arc<Node>,
    pub(super) zone: Text,
    /// When the last sign of life was seen.
    pub(super) heard: Instant,
    /// When the last report of its status was seen; none if its status has not changed since the node is known here.
    pub(super) reported: Option<Instant>,
    /// The Lease as it was seen last.
    pub(super) lease: Option<Renewal>,
    /// The entry in the schedule.
    pub(super) due: Option<Instant>,
    /// Since when it waits for a taint.
    pub(super) waits: Option<Instant>,
    /// Whether its arrival was reported.
    pub(super) is_announced: bool,
    /// The last change of it that failed, until one succeeds or none is necessary.
    pub(super) failure: Option<Arc<Failure>>,
    /// What became of the writes about its silence.
    pub(super) lapse: LapseAttempts,
}

/// What another state of a node shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    /// A report of the kubelet, which is a sign of life.
    Report,
    /// Another condition `Ready` that no report came with. This program has not written it.
    Condition,
    /// Nothing that the kubelet did.
    Nothing,
}

impl News {
    fn between(known: &Node, node: &Node) -> Self {
        let is_report = match (known.ready(), node.ready()) {
            (_, NodeReady::Absent) => false,
            // A first report is one of the kubelet unless this program, or another one like it, wrote it.
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
    /// A node that was not known; `lease` is the Lease that is there.
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

    /// Takes over another state of the node. Returns the condition `Ready` before a write of this program that was not answered, if
    /// that state shows that the write has taken effect.
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

    /// How it counts for its zone.
    pub(super) fn counted(&self) -> Counted {
        if self.node.is_excluded() {
            Counted::Excluded
        } else if self.node.ready() == NodeReady::True && !self.lapse.has_failed {
            Counted::Ready
        } else {
            Counted::NotReady
        }
    }

    /// When its grace period began.
    pub(super) fn patient_since(&self) -> Instant {
        self.lapse.not_taken.map_or(self.heard, |not_taken| not_taken.max(self.heard))
    }
}
