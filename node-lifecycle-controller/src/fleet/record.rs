//! What is remembered of one node.

use std::{sync::Arc, time::Duration};

use common::{clock::Instant, intern::Text};

use crate::{
    decide::upkeep::Failure,
    objects::{Node, NodeReady},
};

use super::Renewal;

/// How long the conditions of a silent node are not written again after the server has denied that for the first time.
pub(super) const DENIED: Duration = Duration::from_secs(5);

/// A write that the server denied for what it holds.
#[derive(Clone, Copy)]
pub(super) struct Denied {
    /// The next attempt comes no earlier.
    pub(super) until: Instant,
    pub(super) pause: Duration,
}

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
    /// The entry in the list of deadlines.
    pub(super) due: Option<Instant>,
    /// Since when it waits for a taint.
    pub(super) waits: Option<Instant>,
    /// Whether its arrival was reported.
    pub(super) is_announced: bool,
    /// The last change of it that failed, until one succeeds or none is necessary.
    pub(super) failure: Option<Arc<Failure>>,
    /// Whether it was found silent, this could not be written, and nothing has been heard of it since.
    pub(super) is_doubted: bool,
    /// When the server took no write about its silence. It may not have taken a heartbeat either.
    pub(super) spared: Option<Instant>,
    /// Its condition before a write about its silence that was not answered.
    pub(super) unanswered: Option<NodeReady>,
    /// The last write about its silence, if the server denied it.
    pub(super) denied: Option<Denied>,
}

impl Record {
    pub(super) fn counts(&self) -> bool {
        !self.node.is_excluded()
    }

    /// When its grace period began.
    pub(super) fn patient_since(&self) -> Instant {
        self.spared.map_or(self.heard, |spared| spared.max(self.heard))
    }

    pub(super) fn counts_as_ready(&self) -> bool {
        self.node.ready() == NodeReady::True && !self.is_doubted
    }
}
