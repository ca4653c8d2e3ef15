//! Parses the schedule of a CronJob, five fields or a descriptor in a time zone, and computes the times at which it fires.
//!
//! The dialect is that of robfig/cron v3 with its standard parser, which API servers use to validate schedules. The firing
//! times equal those of the same library, including the days of clock changes. The name of a Job is derived from its scheduled
//! time, so a controller with other firing times would skip or repeat a Job at a take-over.
//!
//! ```text
//! parse.rs ──► fields.rs ──► next.rs ◄── zone.rs
//!  dialect      cron          chrono      chrono-tz, or the system's rules
//! ```
//!
//! The crate `cron` stores the sets of allowed values and finds the next wall-clock time in them. [`next`] maps that time to an
//! instant, and follows the search of robfig/cron near clock changes. Other modules represent times as jiff's timestamps; this
//! module computes with Unix seconds and chrono's dates.

mod fields;
mod next;
mod parse;
mod zone;

use std::time::Duration;

use jiff::Timestamp;

use self::zone::to_unix_second;
pub use self::{
    fields::CronFields,
    parse::ParseError,
    zone::{UnknownTimeZone, ZoneRules},
};

/// The firing times of a CronJob, parsed from `spec.schedule` and `spec.timeZone`.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// The schedule fires at the wall-clock times that the fields allow.
    Cron {
        /// The allowed wall-clock times.
        fields: CronFields,
        /// The time zone of the wall-clock times.
        zone: ZoneRules,
    },
    /// The schedule fires at a constant interval: whole seconds, at least one.
    Interval(Duration),
}

impl Schedule {
    /// Returns the first firing after `after`; `None` without a firing within five years.
    pub fn next_firing_after(&self, after: Timestamp) -> Option<Timestamp> {
        let after = to_unix_second(after);
        let next = match self {
            Self::Cron { fields, zone } => next::next_firing_second(fields, zone, after)?,
            Self::Interval(interval) => after.checked_add(seconds(*interval))?,
        };
        Timestamp::from_second(next).ok()
    }

    /// Returns the first firing in a later minute than the minute of `firing`.
    ///
    /// The name of a Job is derived from the minute, so only the first of two firings in a minute can get a Job.
    pub fn next_firing_in_later_minute(&self, firing: Timestamp) -> Option<Timestamp> {
        let Self::Interval(interval) = self else { return self.next_firing_after(firing) };
        let (firing, interval) = (to_unix_second(firing), seconds(*interval));
        let rest_of_minute = 60 - firing.rem_euclid(60);
        let steps = rest_of_minute.saturating_add(interval - 1) / interval;
        Timestamp::from_second(firing.checked_add(steps.max(1).checked_mul(interval)?)?).ok()
    }

    /// Returns the last firing after `after` and at or before `now`.
    ///
    /// The number of steps grows with the logarithm of the time between `after` and `now`. Upstream extrapolates from the first
    /// two firings instead, and misses runs of schedules with irregular firings.
    pub fn latest_firing(&self, after: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let first = self.next_firing_after(after).filter(|first| *first <= now)?;
        if let Self::Interval(interval) = self {
            let (first, now, interval) = (first.as_second(), to_unix_second(now), seconds(*interval));
            return Timestamp::from_second(first + (now - first) / interval * interval).ok();
        }
        // Invariant: of the firings up to `now`, at least one lies after `early`, and none lies after `late`.
        let mut early = to_unix_second(after);
        let mut late = to_unix_second(now);
        let mut latest = first;
        while late - early > 1 {
            let middle = early + (late - early) / 2;
            match Timestamp::from_second(middle)
                .ok()
                .and_then(|from| self.next_firing_after(from))
                .filter(|next| *next <= now)
            {
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

/// Returns an interval in whole seconds, at least one.
fn seconds(interval: Duration) -> i64 {
    i64::try_from(interval.as_secs()).unwrap_or(i64::MAX).max(1)
}

#[cfg(test)]
mod tests;
