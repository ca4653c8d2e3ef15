//! Records failed attempts to set the conditions of a node without heartbeats to `Unknown`.

use std::time::Duration;

use common::prelude::Instant;

use crate::objects::NodeReadyStatus;

/// Pause after the server denied a write of `Unknown` conditions for the first time; each further denial doubles the pause.
const FIRST_DENIED_PAUSE: Duration = Duration::from_secs(5);

/// The outcomes of the writes that set the conditions of a node without heartbeats to `Unknown`.
#[derive(Clone, Default)]
pub(super) struct UnknownConditionWrites {
    /// Whether an attempt has failed since the last heartbeat; if so, the node counts as not ready for its zone.
    pub(super) has_failed_write_since_heartbeat: bool,
    /// Time of the last failed attempt, except denials because of the content. Heartbeats may have failed for the same reason.
    pub(super) last_unaccepted_write_at: Option<Instant>,
    /// The condition `Ready` before a write that the server did not answer, so that its effect is unknown.
    ready_before_unanswered: Option<NodeReadyStatus>,
    /// The pause before the next write, if the server denied the last write because of its content.
    denied_pause: Option<AttemptPause>,
}

#[derive(Clone, Copy)]
struct AttemptPause {
    until: Instant,
    length: Duration,
}

impl UnknownConditionWrites {
    /// Records that the server did not accept a write. `ready_before` is the condition `Ready` before the write; it is set if
    /// the answer was lost, so that the write may have taken effect.
    pub(super) fn record_unaccepted_write(&mut self, ready_before: Option<NodeReadyStatus>, now: Instant) {
        self.has_failed_write_since_heartbeat = true;
        self.last_unaccepted_write_at = Some(now);
        self.ready_before_unanswered = ready_before.or(self.ready_before_unanswered);
    }

    /// Records that the server denied a write because of its content. The pause before the next attempt doubles up to
    /// `longest`.
    pub(super) fn record_denied_write(&mut self, longest: Duration, now: Instant) {
        let length = self.denied_pause.map_or(FIRST_DENIED_PAUSE, |denied| denied.length * 2).min(longest);
        self.has_failed_write_since_heartbeat = true;
        self.denied_pause = Some(AttemptPause { until: now + length, length });
    }

    /// Returns the earliest time of the next write; `None` if no pause is necessary.
    pub(super) fn next_write_attempt_at(&self) -> Option<Instant> {
        self.denied_pause.map(|denied| denied.until)
    }

    /// Records a successful write. Whether a previous unanswered write took effect no longer matters.
    pub(super) fn record_successful_write(&mut self) {
        self.ready_before_unanswered = None;
    }

    /// Records that the conditions of the node are now `Unknown`. If this is the effect of an unanswered write, the server
    /// accepts writes, and the function returns the condition `Ready` before that write.
    pub(super) fn resolve_unanswered_write(&mut self) -> Option<NodeReadyStatus> {
        let before = self.ready_before_unanswered.take()?;
        (self.last_unaccepted_write_at, self.has_failed_write_since_heartbeat) = (None, false);
        Some(before)
    }

    /// Records a heartbeat, after which failed writes before it no longer count.
    pub(super) fn record_heartbeat(&mut self) {
        (self.has_failed_write_since_heartbeat, self.denied_pause) = (false, None);
    }

    /// Records a status report of the kubelet. A report is a heartbeat, and shows that no unanswered write has taken effect.
    pub(super) fn record_status_report(&mut self) {
        self.record_heartbeat();
        self.ready_before_unanswered = None;
    }
}
