//! Derives from one or two readings of a Lease whether its election has a leader, no leader, or a hold.

use std::time::Duration;

use common::process::leader::HAND_OVER_HOLDER_IDENTITY;
use jiff::Timestamp;

use crate::facts::{FactError, FactResult, LeaseReading, MANAGER_LEASE};

/// Age of kube-controller-manager's last renewal up to which one reading is enough, in seconds. It renews every two seconds.
const FRESH_RENEWAL_SECONDS: i64 = 5;

/// Age of the last renewal, in seconds, from which on a stalled leader is dead, although its Lease has not expired.
const DEAD_LEADER_SECONDS: i64 = 60;

/// The state of a leader election, derived from its Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaderElectionState<'a> {
    /// The Lease could not be read.
    Unreadable(&'a FactError),
    /// The Lease does not exist.
    Absent,
    /// The Lease has no holder.
    NoHolder,
    /// The Lease has the holder `held-for-hand-over`, so that no process leads until the Lease is released.
    HeldForHandOver {
        /// The later of two times: the creation of the Lease, and its last renewal by a leader.
        since: Option<Timestamp>,
        /// Time from which on programs other than Nonet may take the Lease.
        ends: Option<Timestamp>,
        /// Whether a process has led with this Lease.
        has_been_led: bool,
    },
    /// The last renewal is younger than the duration of the Lease, or a second reading shows a new renewal.
    Led {
        /// Identity of the leader.
        holder: &'a str,
        /// Start of the term, by the clock of the leader.
        since: Option<Timestamp>,
        /// Age of the last renewal, in seconds.
        renewal_age_seconds: i64,
        /// Whether the Lease was read twice and both readings show the same renewal.
        is_stalled: bool,
    },
    /// The last renewal is older than the duration of the Lease, and no second reading shows a new renewal.
    Expired {
        /// Identity of the last leader.
        holder: &'a str,
        /// Age of the last renewal, in seconds; `i64::MAX` without a renewal, negative for a time in the future.
        renewal_age_seconds: i64,
    },
}

impl<'a> LeaderElectionState<'a> {
    /// Returns the start of the current term, by the clock of the leader; `None` without a leader.
    pub(super) fn leader_since(&self) -> Option<Timestamp> {
        if let Self::Led { since, .. } = self { *since } else { None }
    }

    /// Derives the state of an election from a reading of its Lease.
    pub(super) fn from_reading(reading: &'a FactResult<Option<LeaseReading>>) -> Self {
        let reading = match reading {
            Err(why) => return Self::Unreadable(why),
            Ok(None) => return Self::Absent,
            Ok(Some(reading)) => reading,
        };
        let Some(spec) = &reading.lease.spec else { return Self::NoHolder };
        let renewed = reading.renew_time();
        let duration = i64::from(spec.lease_duration_seconds.unwrap_or_default());
        match spec.holder_identity.as_deref().unwrap_or_default() {
            "" => Self::NoHolder,
            HAND_OVER_HOLDER_IDENTITY => {
                // A hold that is applied to an existing Lease keeps the time of the last renewal.
                let created = reading.lease.metadata.creation_timestamp.as_ref().map(|time| time.0);
                let since = created.max(renewed);
                let ends = since.and_then(|since| since.checked_add(jiff::SignedDuration::from_secs(duration)).ok());
                let has_been_led = spec.acquire_time.is_some() || spec.lease_transitions.is_some_and(|count| count > 0);
                Self::HeldForHandOver { since, ends, has_been_led }
            }
            holder => {
                let age = renewed.map_or(i64::MAX, |renewed| reading.read_at.as_second() - renewed.as_second());
                let is_same = reading.first_reading.is_some_and(|before| before.renew_time == renewed);
                let moved = reading.first_reading.is_some() && !is_same;
                let stalled = is_same && age > fresh_renewal_seconds(reading);
                // A renewal in the future shows a wrong clock.
                let earliest = if is_of_manager(reading) { -FRESH_RENEWAL_SECONDS } else { -duration };
                // A renewal between two readings proves a leader, even if the clocks differ.
                if moved || (earliest..duration).contains(&age) {
                    Self::Led {
                        holder,
                        since: spec.acquire_time.as_ref().map(|time| time.0),
                        renewal_age_seconds: age,
                        is_stalled: stalled,
                    }
                } else {
                    Self::Expired { holder, renewal_age_seconds: age }
                }
            }
        }
    }

    /// Whether the Lease has a holder that renews it; false for a hold, which has a holder but no leader.
    pub(super) fn has_leader(self) -> bool {
        let Self::Led { renewal_age_seconds, is_stalled, .. } = self else { return false };
        !is_stalled || renewal_age_seconds < DEAD_LEADER_SECONDS
    }

    /// Whether the holder is `held-for-hand-over`, which keeps every process from leading.
    pub(super) fn is_held_for_hand_over(self) -> bool {
        matches!(self, Self::HeldForHandOver { .. })
    }
}

fn is_of_manager(reading: &LeaseReading) -> bool {
    reading.lease.metadata.name.as_deref() == Some(MANAGER_LEASE)
}

/// Returns the age in seconds up to which a renewal is not late. A leader of Nonet renews a Lease of 15 s after 8 s, and one of
/// 60 s, which it writes while it is idle and alone, after 45 s.
fn fresh_renewal_seconds(reading: &LeaseReading) -> i64 {
    let duration = reading.lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
    if is_of_manager(reading) { FRESH_RENEWAL_SECONDS } else { (i64::from(duration) * 4 / 5).min(DEAD_LEADER_SECONDS) }
}

/// Returns the pause before a second reading: a little longer than a leader needs to renew a Lease of 15 s.
pub(crate) fn pause_before_second_reading(reading: &LeaseReading) -> Duration {
    Duration::from_millis(if is_of_manager(reading) { 2_600 } else { 8_600 })
}

/// Whether a held Lease must be read again after a pause: the last renewal is missing, in the future, or late.
pub(crate) fn needs_second_reading(reading: &LeaseReading) -> bool {
    let holder = reading.lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
    let age = reading.renew_time().map(|renewed| reading.read_at.as_second() - renewed.as_second());
    !matches!(holder, None | Some("" | HAND_OVER_HOLDER_IDENTITY))
        && age.is_none_or(|age| !(-1..=fresh_renewal_seconds(reading)).contains(&age))
}

/// Returns the name of the machine or Pod in an identity. client-go and Nonet append `_` and a unique part to that name.
pub(super) fn host_of_identity(identity: &str) -> &str {
    identity.rsplit_once('_').map_or(identity, |(host, _)| host)
}
