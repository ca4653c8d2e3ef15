//! What a Lease says about its election.

use common::leader::HOLDER_OF_HOLDS;
use jiff::Timestamp;

use crate::facts::{LeaseReading, Read, Unreadable};

/// How old the last renewal of a leader may be at first sight, in seconds. Leaders renew every two seconds.
const FRESH: i64 = 5;

/// The state of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Election<'a> {
    /// The Lease could not be read.
    Unreadable(&'a Unreadable),
    /// There is no Lease.
    Absent,
    /// The Lease has no holder.
    Free,
    /// The Lease is held by the hold, so that nobody leads.
    Held {
        /// When the Lease was created, or last renewed by a leader.
        since: Option<Timestamp>,
        /// When candidates may take the Lease at the earliest.
        ends: Option<Timestamp>,
    },
    /// Somebody leads.
    Led {
        /// The leader.
        holder: &'a str,
        /// Since when it has led, by its own clock.
        since: Option<Timestamp>,
        /// How many seconds ago it renewed the Lease.
        renewed: i64,
        /// Whether the Lease was not renewed between two readings.
        stalled: bool,
    },
    /// The last leader has not renewed the Lease for longer than others wait.
    Expired {
        /// The last leader.
        holder: &'a str,
        /// How many seconds ago it renewed the Lease.
        renewed: i64,
    },
}

impl<'a> Election<'a> {
    /// Since when the present leader has led, by its own clock; nothing if nobody leads.
    pub(super) fn leads_since(&self) -> Option<Timestamp> {
        if let Self::Led { since, .. } = self { *since } else { None }
    }

    /// The state of an election as a Lease shows it.
    pub(super) fn of(reading: &'a Read<Option<LeaseReading>>) -> Self {
        let reading = match reading {
            Err(why) => return Self::Unreadable(why),
            Ok(None) => return Self::Absent,
            Ok(Some(reading)) => reading,
        };
        let Some(spec) = &reading.lease.spec else { return Self::Free };
        let renewed = reading.renewed();
        let duration = i64::from(spec.lease_duration_seconds.unwrap_or_default());
        match spec.holder_identity.as_deref().unwrap_or_default() {
            "" => Self::Free,
            HOLDER_OF_HOLDS => {
                // Over a Lease that was there, the hold leaves the time of the last renewal.
                let created = reading.lease.metadata.creation_timestamp.as_ref().map(|time| time.0);
                let since = created.max(renewed);
                let ends = since.and_then(|since| since.checked_add(jiff::SignedDuration::from_secs(duration)).ok());
                Self::Held { since, ends }
            }
            holder => {
                let age = renewed.map_or(i64::MAX, |renewed| reading.at.as_second() - renewed.as_second());
                let stalled = reading.before.is_some_and(|before| before.renewed == renewed);
                let moved = reading.before.is_some() && !stalled;
                // A renewal seen with our own eyes counts whatever the clocks show.
                if moved || (-FRESH..duration).contains(&age) {
                    Self::Led { holder, since: spec.acquire_time.as_ref().map(|time| time.0), renewed: age, stalled }
                } else {
                    Self::Expired { holder, renewed: age }
                }
            }
        }
    }

    /// Whether somebody leads.
    pub(super) fn is_led(self) -> bool {
        matches!(self, Self::Led { .. })
    }

    /// Whether the hold has the Lease.
    pub(super) fn is_held(self) -> bool {
        matches!(self, Self::Held { .. })
    }
}

/// Whether a Lease has to be read again after a pause, because its last renewal is old or in the future.
pub(crate) fn needs_second_reading(reading: &LeaseReading) -> bool {
    let holder = reading.lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
    let age = reading.renewed().map(|renewed| reading.at.as_second() - renewed.as_second());
    !matches!(holder, None | Some("" | HOLDER_OF_HOLDS)) && age.is_none_or(|age| !(-1..=FRESH).contains(&age))
}

/// The name of the machine or Pod in an identity: client-go and Nonet append `_` and a unique part.
pub(super) fn host(identity: &str) -> &str {
    identity.rsplit_once('_').map_or(identity, |(host, _)| host)
}
