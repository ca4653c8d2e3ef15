//! Whether this process sees what nodes do.
//!
//! A node is judged by the time for which nothing was heard of it. That time says something about the node only if this
//! process would have heard: it was running, it reached the API server, and its watches brought news. Proof of sight is any
//! event of a Lease or a Node and any answer to a read. Where two proofs are further apart than a limit, the process was
//! blind in between, and grace periods of all nodes begin anew with the second one.

use std::time::Duration;

use common::clock::Instant;

/// The age of the last proof from which on a proof is asked for, with the usual flags: longer than the pause between two
/// renewals of a Lease.
const CHECK_AFTER: Duration = Duration::from_secs(12);
/// The time in which the proof that was asked for has to come.
const ANSWER: Duration = Duration::from_secs(3);

/// When the process has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Since when there is proof without a gap.
    since: Option<Instant>,
    /// The last proof.
    last: Option<Instant>,
    /// Whether the process was blind after it had seen.
    was_lost: bool,
    check_after: Duration,
    limit: Duration,
}

impl Sight {
    /// Blind. `period` is the pause between two passes, `grace` the time after which a node counts as silent.
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

    /// Takes note of a proof.
    pub(crate) fn note(&mut self, now: Instant) {
        let is_gap = self.last.is_none_or(|last| now.saturating_duration_since(last) > self.limit);
        if is_gap || self.since.is_none() {
            self.was_lost |= self.last.is_some();
            self.since = Some(now);
        }
        self.last = Some(now);
    }

    /// What was seen so far proves nothing any more.
    pub(crate) fn lose(&mut self) {
        self.since = None;
    }

    /// Since when the process sees without a gap, if it does.
    pub(crate) fn since(&self, now: Instant) -> Option<Instant> {
        let last = self.last?;
        self.since.filter(|_| now.saturating_duration_since(last) <= self.limit)
    }

    /// Whether the process was blind after it had seen: it may remember what is no longer so.
    pub(crate) fn was_lost(&self) -> bool {
        self.was_lost
    }

    /// Whether the last proof is young enough to decide on.
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        let is_young = |last: Instant| now.saturating_duration_since(last) <= self.check_after;
        self.since.is_some() && self.last.is_some_and(is_young)
    }

    /// How long the process has been blind; none if it sees. A process that never saw is blind for no time yet.
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

    #[test]
    fn proofs_without_a_gap_are_one_time_of_sight() {
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

    #[test]
    fn after_a_gap_the_time_of_sight_begins_anew() {
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
