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
const CHECK_AFTER: Duration = Duration::from_secs(12);
/// Time within which the requested evidence must arrive before the process counts as blind.
const ANSWER: Duration = Duration::from_secs(3);

/// The evidence that this process has a live view of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Start of the current live view; `None` before the first evidence, and while earlier evidence is not valid.
    since: Option<Instant>,
    /// Time of the last evidence of a live view.
    last: Option<Instant>,
    /// Whether the process has been blind after a live view.
    was_lost: bool,
    check_after: Duration,
    limit: Duration,
}

impl Sight {
    /// Creates the state of a process without evidence, which is blind. `period` is the pause between two passes, `grace` the
    /// shortest grace period of a node.
    pub(crate) fn new(period: Duration, grace: Duration) -> Self {
        let check_after = CHECK_AFTER.min(grace / 4).max(period);
        Self {
            since: None,
            last: None,
            was_lost: false,
            check_after,
            limit: check_after + period + ANSWER.min(grace / 10),
        }
    }

    /// Records evidence of a live view that arrived at `now`.
    pub(crate) fn note(&mut self, now: Instant) {
        let is_gap = self.last.is_none_or(|last| now.saturating_duration_since(last) > self.limit);
        if is_gap || self.since.is_none() {
            self.was_lost |= self.last.is_some();
            self.since = Some(now);
        }
        self.last = Some(now);
    }

    /// Ends the live view: evidence from before this call is no longer valid.
    pub(crate) fn lose(&mut self) {
        self.since = None;
    }

    /// Returns the start of the current live view; `None` if the process is blind at `now`.
    pub(crate) fn since(&self, now: Instant) -> Option<Instant> {
        let last = self.last?;
        self.since.filter(|_| now.saturating_duration_since(last) <= self.limit)
    }

    /// Whether the process has been blind after a live view, so that its records of nodes may be outdated.
    pub(crate) fn was_lost(&self) -> bool {
        self.was_lost
    }

    /// Whether the last evidence is recent enough for decisions.
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        let is_young = |last: Instant| now.saturating_duration_since(last) <= self.check_after;
        self.since.is_some() && self.last.is_some_and(is_young)
    }

    /// Returns how long the process has been blind: zero if it never had a live view, `None` if it has one.
    pub(crate) fn blind_for(&self, now: Instant) -> Option<Duration> {
        match self.since(now) {
            Some(_) => None,
            None => Some(self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::start;

    fn sight() -> (Sight, impl Fn(u64) -> Instant) {
        let start = start();
        let at = move |seconds| start + Duration::from_secs(seconds);
        (Sight::new(Duration::from_secs(5), Duration::from_secs(50)), at)
    }

    /// NODE-15.
    #[test]
    fn evidence_without_a_gap_is_one_live_view() {
        let (mut sight, at) = sight();
        assert_eq!((sight.since(at(0)), sight.is_fresh(at(0))), (None, false), "a new process is blind");
        for second in [0, 10, 30, 50] {
            sight.note(at(second));
        }
        assert_eq!((sight.since(at(70)), sight.was_lost()), (Some(at(0)), false));
        assert_eq!(sight.blind_for(at(70)), None);
        assert_eq!(sight.blind_for(at(71)), Some(Duration::from_secs(21)));
        assert!(sight.is_fresh(at(62)) && !sight.is_fresh(at(63)));
    }

    /// NODE-15, NODE-18.
    #[test]
    fn a_gap_restarts_the_live_view() {
        let (mut sight, at) = sight();
        sight.note(at(0));
        sight.note(at(21));
        assert_eq!(sight.since(at(21)), Some(at(21)));
        assert!(sight.was_lost());
        sight.lose();
        assert_eq!((sight.since(at(22)), sight.is_fresh(at(22))), (None, false));
        sight.note(at(23));
        assert_eq!(sight.since(at(24)), Some(at(23)));
    }

    #[test]
    fn the_limits_are_shorter_than_the_grace_period() {
        for (period, grace) in [(5, 50), (1, 4), (2, 10), (5, 40)] {
            let sight = Sight::new(Duration::from_secs(period), Duration::from_secs(grace));
            assert!(sight.limit < Duration::from_secs(grace), "{period} {grace}: {:?}", sight.limit);
            assert!(sight.check_after + Duration::from_secs(period) < sight.limit, "{period} {grace}");
        }
    }
}
