//! Failed writes of the conditions of a silent node.

use std::time::Duration;

use common::clock::Instant;

use crate::objects::NodeReady;

/// Pause after the first denied write of the conditions of a silent node; doubles with each further one.
const DENIED: Duration = Duration::from_secs(5);

/// Results of the attempts to set the conditions of a silent node to `Unknown`.
#[derive(Clone, Default)]
pub(super) struct LapseAttempts {
    /// Whether an attempt has failed since the last heartbeat: the node counts as not ready, although its condition is `True`.
    pub(super) has_failed: bool,
    /// Last time the server accepted no such write. It may have rejected heartbeats as well.
    pub(super) not_taken: Option<Instant>,
    /// The condition `Ready` before a write whose answer was lost and whose effect is unknown.
    unanswered: Option<NodeReady>,
    /// The pause after the last write, if the server denied it because of its content.
    denied: Option<Pause>,
}

#[derive(Clone, Copy)]
struct Pause {
    until: Instant,
    length: Duration,
}

impl LapseAttempts {
    /// Records that the server accepted no write. `unanswered` is the condition `Ready` before the write, if it may have taken
    /// effect.
    pub(super) fn not_taken(&mut self, unanswered: Option<NodeReady>, now: Instant) {
        self.has_failed = true;
        self.not_taken = Some(now);
        self.unanswered = unanswered.or(self.unanswered);
    }

    /// Records that the server denied a write. The pauses between such attempts grow up to `longest`.
    pub(super) fn denied(&mut self, longest: Duration, now: Instant) {
        let length = self.denied.map_or(DENIED, |denied| denied.length * 2).min(longest);
        self.has_failed = true;
        self.denied = Some(Pause { until: now + length, length });
    }

    /// Earliest time of the next attempt; `None` if it need not wait.
    pub(super) fn denied_until(&self) -> Option<Instant> {
        self.denied.map(|denied| denied.until)
    }

    /// Records an answered write, which makes the effect of an earlier unanswered one irrelevant.
    pub(super) fn succeeded(&mut self) {
        self.unanswered = None;
    }

    /// Records that the conditions of the node have lapsed. If this is the effect of an unanswered write, the server accepts
    /// writes, and the condition `Ready` before that write is returned.
    pub(super) fn lapse_seen(&mut self) -> Option<NodeReady> {
        let before = self.unanswered.take()?;
        (self.not_taken, self.has_failed) = (None, false);
        Some(before)
    }

    /// Records a heartbeat.
    pub(super) fn heard(&mut self) {
        (self.has_failed, self.denied) = (false, None);
    }

    /// Records a report of the kubelet. The report is a heartbeat, and shows that no unanswered write has taken effect.
    pub(super) fn reported(&mut self) {
        self.heard();
        self.unanswered = None;
    }
}
