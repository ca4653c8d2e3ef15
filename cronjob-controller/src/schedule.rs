//! The schedule of a CronJob: five fields or a descriptor, in a time zone, and when it fires.
//!
//! The dialect is that of robfig/cron v3 with its standard parser, which API servers validate with; no crate speaks it
//! exactly (Sunday is 0 and not 7, `*/2` in a day field is a restriction and `*` is none, `@every`). So are the firing times,
//! down to what happens around the days on which clocks change: upstream and we must agree on the name of a Job, which is its
//! time.

mod next;
mod parse;
mod zone;

use std::{fmt, time::Duration};

use jiff::{Timestamp, tz::TimeZone};

pub use zone::{UnknownZone, lookup as zone};

/// Why a schedule cannot be read, in the words of upstream's parser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// When a Job is due.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// At the times that fields name.
    Fields {
        /// Which.
        fields: Fields,
        /// Where.
        zone: TimeZone,
    },
    /// Again and again after the same time, which is whole seconds.
    Every(Duration),
}

/// The values of the five fields: bit `n` is set if the value `n` is allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    minute: u64,
    hour: u64,
    day_of_month: u64,
    month: u64,
    day_of_week: u64,
    /// Whether a day field is unrestricted, so that only the other one counts.
    day_of_month_star: bool,
    day_of_week_star: bool,
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { minute, hour, day_of_month, month, day_of_week, .. } = self;
        write!(f, "Fields({minute:x} {hour:x} {day_of_month:x} {month:x} {day_of_week:x})")
    }
}

impl Schedule {
    /// Reads a schedule; a prefix `TZ=...` names its zone, otherwise it is in the zone of the process.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::schedule(text)
    }

    /// The first time after `after` at which it fires; none within five years.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Fields { fields, zone } => next::next(fields, zone, after),
            Self::Every(interval) => {
                let whole = Timestamp::from_second(next::second(after)).ok()?;
                whole.checked_add(*interval).ok()
            }
        }
    }

    /// The last time after `after` and not after `now` at which it fires, if there is one.
    ///
    /// Upstream extrapolates from the distance of the first two and loses runs of schedules that are not regular.
    pub fn latest(&self, after: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let first = self.next(after).filter(|first| *first <= now)?;
        if let Self::Every(interval) = self {
            let (first, now, interval) = (first.as_second(), next::second(now), interval.as_secs() as i64);
            return Timestamp::from_second(first + (now - first) / interval * interval).ok();
        }
        // `early` is followed by a firing that is not after `now`, `late` is not.
        let (mut early, mut late, mut latest) = (next::second(after), next::second(now), first);
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

#[cfg(test)]
mod tests;
