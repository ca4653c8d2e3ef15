//! Tracks whether this process has a live view of nodes, that is, whether it can receive their heartbeats.
//!
//! A node is judged by the time since its last heartbeat. This time is meaningful only while the process can receive
//! heartbeats: it is running, it reaches the API server, and its watches deliver events. Evidence of a live view is any event
//! of a Lease or a Node, and any answer to a read. If the time between two pieces of evidence exceeds a limit, the process was
//! blind in between, and the grace periods of all nodes restart with the second piece.

use std::time::Duration;

use common::clock::Instant;

/// Age of the last evidence at which a pass requests new evidence, with default flags. The age is longer than the interval
/// between two renewals of a Lease.
const CHECK_EVIDENCE_AFTER: Duration = Duration::from_secs(12);
/// Time within which the requested evidence must arrive before the process counts as blind.
const EVIDENCE_TIMEOUT: Duration = Duration::from_secs(3);

/// The evidence that this process has a live view of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveView {
    /// Start of the current live view; `None` before the first evidence, and while earlier evidence is not valid.
    evidence_since: Option<Instant>,
    /// Time of the last evidence of a live view.
    last_evidence: Option<Instant>,
    /// Whether the process has been blind after a live view.
    was_lost: bool,
    check_after: Duration,
    max_evidence_gap: Duration,
}

impl LiveView {
    /// Creates the state of a process without evidence, which is blind. `period` is the pause between two passes, `grace` the
    /// shortest grace period of a node.
    pub(crate) fn new(period: Duration, grace: Duration) -> Self {
        let check_after = CHECK_EVIDENCE_AFTER.min(grace / 4).max(period);
        Self {
            evidence_since: None,
            last_evidence: None,
            was_lost: false,
            check_after,
            max_evidence_gap: check_after + period + EVIDENCE_TIMEOUT.min(grace / 10),
        }
    }

    /// Records evidence of a live view that arrived at `now`.
    pub(crate) fn record_evidence(&mut self, now: Instant) {
        let is_gap = self.last_evidence.is_none_or(|last| now.saturating_duration_since(last) > self.max_evidence_gap);
        if is_gap || self.evidence_since.is_none() {
            self.was_lost |= self.last_evidence.is_some();
            self.evidence_since = Some(now);
        }
        self.last_evidence = Some(now);
    }

    /// Ends the live view: evidence from before this call is no longer valid.
    pub(crate) fn invalidate(&mut self) {
        self.evidence_since = None;
    }

    /// Returns the start of the current live view; `None` if the process is blind at `now`.
    pub(crate) fn live_since(&self, now: Instant) -> Option<Instant> {
        let last = self.last_evidence?;
        self.evidence_since.filter(|_| now.saturating_duration_since(last) <= self.max_evidence_gap)
    }

    /// Whether the process has been blind after a live view, so that its records of nodes may be outdated.
    pub(crate) fn has_been_blind(&self) -> bool {
        self.was_lost
    }

    /// Whether the last evidence is recent enough for decisions.
    pub(crate) fn has_fresh_evidence(&self, now: Instant) -> bool {
        let is_young = |last: Instant| now.saturating_duration_since(last) <= self.check_after;
        self.evidence_since.is_some() && self.last_evidence.is_some_and(is_young)
    }

    /// Returns how long the process has been blind: zero if it never had a live view, `None` if it has one.
    pub(crate) fn blind_for(&self, now: Instant) -> Option<Duration> {
        match self.live_since(now) {
            Some(_) => None,
            None => Some(self.last_evidence.map_or(Duration::ZERO, |last| now.saturating_duration_since(last))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::start_time;

    fn sight() -> (LiveView, impl Fn(u64) -> Instant) {
        let start = start_time();
        let at = move |seconds| start + Duration::from_secs(seconds);
        (LiveView::new(Duration::from_secs(5), Duration::from_secs(50)), at)
    }

    /// NODE-15.
    #[test]
    fn evidence_without_a_gap_is_one_live_view() {
        let (mut sight, at) = sight();
        assert_eq!((sight.live_since(at(0)), sight.has_fresh_evidence(at(0))), (None, false), "a new process is blind");
        for second in [0, 10, 30, 50] {
            sight.record_evidence(at(second));
        }
        assert_eq!((sight.live_since(at(70)), sight.has_been_blind()), (Some(at(0)), false));
        assert_eq!(sight.blind_for(at(70)), None);
        assert_eq!(sight.blind_for(at(71)), Some(Duration::from_secs(21)));
        assert!(sight.has_fresh_evidence(at(62)) && !sight.has_fresh_evidence(at(63)));
    }

    /// NODE-15, NODE-18.
    #[test]
    fn a_gap_restarts_the_live_view() {
        let (mut sight, at) = sight();
        sight.record_evidence(at(0));
        sight.record_evidence(at(21));
        assert_eq!(sight.live_since(at(21)), Some(at(21)));
        assert!(sight.has_been_blind());
        sight.invalidate();
        assert_eq!((sight.live_since(at(22)), sight.has_fresh_evidence(at(22))), (None, false));
        sight.record_evidence(at(23));
        assert_eq!(sight.live_since(at(24)), Some(at(23)));
    }

    #[test]
    fn the_limits_are_shorter_than_the_grace_period() {
        for (period, grace) in [(5, 50), (1, 4), (2, 10), (5, 40)] {
            let sight = LiveView::new(Duration::from_secs(period), Duration::from_secs(grace));
            assert!(
                sight.max_evidence_gap < Duration::from_secs(grace),
                "{period} {grace}: {:?}",
                sight.max_evidence_gap
            );
            assert!(sight.check_after + Duration::from_secs(period) < sight.max_evidence_gap, "{period} {grace}");
        }
    }
}
