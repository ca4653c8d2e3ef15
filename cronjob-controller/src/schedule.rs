//! The schedule of a CronJob: five fields or a descriptor, in a time zone, and the times at which it fires.
//!
//! The dialect is that of robfig/cron v3 with its standard parser, which API servers validate schedules with. The firing times
//! are those of the same library, including the days on which clocks change: the name of a Job is derived from its scheduled
//! time, so two controllers that disagree about a time would create a Job too many or too few at a hand-over.
//!
//! ```text
//! parse.rs ──► fields.rs ──► next.rs ◄── zone.rs
//!  dialect      cron          chrono      chrono-tz, or the system's rules
//! ```
//!
//! The crate `cron` holds the sets of allowed values and finds the next wall-clock time in them. [`next`] maps it to an instant,
//! and walks as robfig/cron does where clocks change nearby. Times outside of this module are jiff's, as everywhere else in this
//! project; inside of it they are Unix seconds and chrono's dates.

mod error;
mod fields;
mod next;
mod parse;
mod zone;

use std::time::Duration;

use jiff::Timestamp;

use self::zone::second;
pub use self::{
    error::ParseError,
    fields::Fields,
    zone::{UnknownZone, Zone},
};

/// A schedule that has been read.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// Fires at the wall-clock times that the fields allow.
    Fields {
        /// The allowed wall-clock times.
        fields: Fields,
        /// The zone of the clock.
        zone: Zone,
    },
    /// Fires at a constant distance from the time before, in whole seconds, at least one.
    Every(Duration),
}

impl Schedule {
    /// The first time after `after` at which the schedule fires, if there is one within five years.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = second(after);
        let next = match self {
            Self::Fields { fields, zone } => next::next(fields, zone, after)?,
            Self::Every(interval) => after.checked_add(seconds(*interval))?,
        };
        Timestamp::from_second(next).ok()
    }

    /// The first firing in a later minute than `firing`.
    ///
    /// The name of a Job is derived from a minute, so that the later one of two firings within a minute cannot get a Job.
    pub fn next_in_another_minute(&self, firing: Timestamp) -> Option<Timestamp> {
        let Self::Every(interval) = self else { return self.next(firing) };
        let (firing, interval) = (second(firing), seconds(*interval));
        let rest_of_minute = 60 - firing.rem_euclid(60);
        let steps = rest_of_minute.saturating_add(interval - 1) / interval;
        Timestamp::from_second(firing.checked_add(steps.max(1).checked_mul(interval)?)?).ok()
    }

    /// The last time after `after`, and not after `now`, at which the schedule fires.
    ///
    /// Takes a number of steps that grows with the logarithm of the distance between the two. Upstream extrapolates from the
    /// first two firings instead, and so loses runs of schedules whose firings are not equally spaced.
    pub fn latest(&self, after: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let first = self.next(after).filter(|first| *first <= now)?;
        if let Self::Every(interval) = self {
            let (first, now, interval) = (first.as_second(), second(now), seconds(*interval));
            return Timestamp::from_second(first + (now - first) / interval * interval).ok();
        }
        // A firing that is not after `now` follows `early`; none follows `late`.
        let mut early = second(after);
        let mut late = second(now);
        let mut latest = first;
        while late - early > 1 {
            let middle = early + (late - early) / 2;
            match Timestamp::from_second(middle).ok().and_then(|from| self.next(from)).filter(|next| *next <= now) {
                Some(next) => {
                    latest = latest.max(next);
                    early = middle.max(next.as_second()).min(late);
                }
                None => late = middle,
            }
        }
        Some(latest)
    }
}

/// The length of an interval in seconds, at least one.
fn seconds(interval: Duration) -> i64 {
    i64::try_from(interval.as_secs()).unwrap_or(i64::MAX).max(1)
}

#[cfg(test)]
mod tests;
