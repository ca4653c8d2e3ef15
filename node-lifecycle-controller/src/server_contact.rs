//! Tracks whether this process can receive heartbeats of nodes.
//!
//! The node monitor decides about a node by the time since its last heartbeat. This time is meaningful only while the process
//! can receive heartbeats: it is running, it reaches the API server, and its watches deliver events. The evidence is any event
//! of a Lease or a Node, and any answer to a read. If the time between two of these exceeds a limit, heartbeats may have been
//! missed in between, and the grace periods of all nodes restart with the second one.

use std::time::Duration;

use common::prelude::Instant;

/// With default flags, a pass reads Leases if no event and no answer has arrived for this time, which is longer than the
/// interval between two renewals of a Lease.
const CHECK_EVIDENCE_AFTER: Duration = Duration::from_secs(12);
/// Time within which a read of Leases must be answered; after a longer time, heartbeats may have been missed.
const EVIDENCE_TIMEOUT: Duration = Duration::from_secs(3);

/// Whether this process can receive heartbeats, and since when, as shown by events and answers of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerContact {
    /// Start of the time without a long gap between events or answers; `None` before the first one, and after a failure.
    uninterrupted_since: Option<Instant>,
    /// Time of the last event of a node or Lease, or answer of the server.
    last_contact: Option<Instant>,
    /// Whether heartbeats may have been missed since the first event or answer, so that recorded reports may be outdated.
    pub(crate) was_interrupted: bool,
    check_after: Duration,
    max_contact_gap: Duration,
}

impl ServerContact {
    /// Creates the state before the first event or answer. `period` is the pause between two passes, `grace` the shortest grace
    /// period of a node.
    pub(crate) fn new(period: Duration, grace: Duration) -> Self {
        let check_after = CHECK_EVIDENCE_AFTER.min(grace / 4).max(period);
        Self {
            uninterrupted_since: None,
            last_contact: None,
            was_interrupted: false,
            check_after,
            max_contact_gap: check_after + period + EVIDENCE_TIMEOUT.min(grace / 10),
        }
    }

    /// Records an event or an answer that arrived at `now`.
    pub(crate) fn record_contact(&mut self, now: Instant) {
        if self.contact_start(now).is_none() {
            self.was_interrupted |= self.last_contact.is_some();
            self.uninterrupted_since = Some(now);
        }
        self.last_contact = Some(now);
    }

    /// Records that heartbeats may have been missed, so all events and answers before this call no longer count.
    pub(crate) fn record_interruption(&mut self) {
        self.uninterrupted_since = None;
    }

    /// Returns the age of the last event or answer, zero before the first one.
    fn contact_age(&self, now: Instant) -> Duration {
        self.last_contact.map_or(Duration::ZERO, |last| now.saturating_duration_since(last))
    }

    /// Returns the time since when this process can receive heartbeats; `None` if it may miss heartbeats at `now`.
    pub(crate) fn contact_start(&self, now: Instant) -> Option<Instant> {
        self.uninterrupted_since.filter(|_| self.contact_age(now) <= self.max_contact_gap)
    }

    /// Whether the last event or answer is recent enough for decisions; otherwise a pass reads Leases first.
    pub(crate) fn has_recent_contact(&self, now: Instant) -> bool {
        self.uninterrupted_since.is_some() && self.contact_age(now) <= self.check_after
    }

    /// Returns the age of the last event or answer, zero before the first one; `None` if this process can receive heartbeats.
    pub(crate) fn time_without_contact(&self, now: Instant) -> Option<Duration> {
        self.contact_start(now).is_none().then(|| self.contact_age(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::start_time;

    fn server_contact() -> (ServerContact, impl Fn(u64) -> Instant) {
        let start = start_time();
        let at = move |seconds| start + Duration::from_secs(seconds);
        (ServerContact::new(Duration::from_secs(5), Duration::from_secs(50)), at)
    }

    /// NODE-15.
    #[test]
    fn evidence_without_a_gap_is_one_live_view() {
        let (mut server_contact, at) = server_contact();
        assert_eq!(
            (server_contact.contact_start(at(0)), server_contact.has_recent_contact(at(0))),
            (None, false),
            "a new process is blind"
        );
        for second in [0, 10, 30, 50] {
            server_contact.record_contact(at(second));
        }
        assert_eq!((server_contact.contact_start(at(70)), server_contact.was_interrupted), (Some(at(0)), false));
        assert_eq!(server_contact.time_without_contact(at(70)), None);
        assert_eq!(server_contact.time_without_contact(at(71)), Some(Duration::from_secs(21)));
        assert!(server_contact.has_recent_contact(at(62)) && !server_contact.has_recent_contact(at(63)));
    }

    /// NODE-15, NODE-18.
    #[test]
    fn a_gap_restarts_the_live_view() {
        let (mut server_contact, at) = server_contact();
        server_contact.record_contact(at(0));
        server_contact.record_contact(at(21));
        assert_eq!(server_contact.contact_start(at(21)), Some(at(21)));
        assert!(server_contact.was_interrupted);
        server_contact.record_interruption();
        assert_eq!((server_contact.contact_start(at(22)), server_contact.has_recent_contact(at(22))), (None, false));
        server_contact.record_contact(at(23));
        assert_eq!(server_contact.contact_start(at(24)), Some(at(23)));
    }

    #[test]
    fn the_limits_are_shorter_than_the_grace_period() {
        for (period, grace) in [(5, 50), (1, 4), (2, 10), (5, 40)] {
            let [period, grace] = [period, grace].map(Duration::from_secs);
            let ServerContact { check_after, max_contact_gap, .. } = ServerContact::new(period, grace);
            assert!(max_contact_gap < grace, "{period:?} {grace:?}: {max_contact_gap:?}");
            assert!(check_after + period < max_contact_gap, "{period:?} {grace:?}");
        }
    }
}
