//! Writes of the conditions of a silent node that have not succeeded.

use std::time::Duration;

use common::clock::Instant;

use crate::objects::NodeReady;

/// How long the conditions of a silent node are not written again after the server has denied that for the first time.
const DENIED: Duration = Duration::from_secs(5);

/// What became of the attempts to set the conditions of a silent node to `Unknown`.
#[derive(Clone, Default)]
pub(super) struct LapseAttempts {
    /// Whether one has failed since the last sign of life: the node is not ready, although its condition says so.
    pub(super) has_failed: bool,
    /// When the server last took no such write. It may not have taken a heartbeat either.
    pub(super) not_taken: Option<Instant>,
    /// The condition `Ready` before a write that was not answered and whose effect has not been seen.
    unanswered: Option<NodeReady>,
    /// The pause after the last write, if the server denied it for what it holds.
    denied: Option<Pause>,
}

#[derive(Clone, Copy)]
struct Pause {
    until: Instant,
    length: Duration,
}

impl LapseAttempts {
    /// The server took no write. `unanswered`: the condition `Ready` before it, if it may have taken effect.
    pub(super) fn not_taken(&mut self, unanswered: Option<NodeReady>, now: Instant) {
        self.has_failed = true;
        self.not_taken = Some(now);
        self.unanswered = unanswered.or(self.unanswered);
    }

    /// The server denied a write. The pauses between such attempts grow up to `longest`.
    pub(super) fn denied(&mut self, longest: Duration, now: Instant) {
        let length = self.denied.map_or(DENIED, |denied| denied.length * 2).min(longest);
        self.has_failed = true;
        self.denied = Some(Pause { until: now + length, length });
    }

    /// The next attempt comes no earlier; `None` if it need not wait.
    pub(super) fn denied_until(&self) -> Option<Instant> {
        self.denied.map(|denied| denied.until)
    }

    /// A write was answered: what became of an earlier one without an answer does not matter.
    pub(super) fn succeeded(&mut self) {
        self.unanswered = None;
    }

    /// The node is seen with lapsed conditions. If that is the effect of a write without an answer, the server takes writes; returns the
    /// condition `Ready` before it.
    pub(super) fn lapse_seen(&mut self) -> Option<NodeReady> {
        let before = self.unanswered.take()?;
        (self.not_taken, self.has_failed) = (None, false);
        Some(before)
    }

    /// A sign of life was seen.
    pub(super) fn heard(&mut self) {
        (self.has_failed, self.denied) = (false, None);
    }

    /// The kubelet has reported: a sign of life that also shows that no write without an answer has taken effect.
    pub(super) fn reported(&mut self) {
        self.heard();
        self.unanswered = None;
    }
}
