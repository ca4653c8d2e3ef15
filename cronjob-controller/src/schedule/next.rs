//! Computes the next instant at which fields in a time zone fire, as robfig/cron does.
//!
//! Without clock changes, this is the next allowed wall-clock time. Around clock changes, the instant depends on the search of
//! robfig/cron. That search steps through months, days, hours and minutes, by the calendar or by the clock, and restarts when a
//! unit wraps. Times in a spring gap do not fire, and times in an autumn overlap fire twice. Around a missing midnight, or a
//! clock change of half an hour, days are skipped or repeated. This module finds the same instants.

use chrono::{DateTime, Datelike as _, Days, NaiveDate, NaiveDateTime, NaiveTime, Timelike as _};

use super::{fields::CronFields, zone::ZoneRules};

/// Maximum number of calendar years that a search covers, as in robfig/cron.
const HORIZON: i32 = 5;
const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;
/// Time in seconds within which the clocks of a zone never change twice, from 1970 on.
pub(super) const MIN_SECONDS_BETWEEN_CLOCK_CHANGES: i64 = 5 * DAY;
/// Margin in seconds before and after the range of a search, in which a clock change may affect the firing that is found.
const MARGIN: i64 = 2 * DAY;
/// Years in which a search can start so that its result stays within the years that the crate `cron` supports.
const YEARS: std::ops::Range<i32> = 1971..2095;

/// An instant in Unix seconds, with the wall-clock time at that instant.
#[derive(Clone, Copy)]
struct Moment {
    at: i64,
    wall: NaiveDateTime,
}

/// Returns the first Unix second after `after` at which the fields fire; `None` without a firing within five years.
pub(super) fn next_firing_second(fields: &CronFields, zone: &ZoneRules, after: i64) -> Option<i64> {
    if fields.never_matches() {
        return None;
    }
    let clock = WallClock(zone);
    let first_moment = clock.at(after.checked_add(1)?)?;
    next_in_steady_time(fields, &clock, first_moment).or_else(|| walk(fields, &clock, first_moment))
}

/// Returns the instant of the next allowed wall-clock time; `None` if a clock change nearby makes [`walk`] necessary.
fn next_in_steady_time(fields: &CronFields, clock: &WallClock<'_>, first_moment: Moment) -> Option<i64> {
    let Moment { at, wall: first_wall } = first_moment;
    if !YEARS.contains(&first_wall.year()) {
        return None;
    }
    let wall = fields.next_allowed_wall_time(first_wall).filter(|wall| wall.year() <= first_wall.year() + HORIZON)?;
    let next = at + (wall - first_wall).num_seconds();
    // If the month of the first moment is not allowed, [`walk`] begins at the first day of that month.
    let first_day = if fields.allows_month(first_wall.month()) { first_wall.day() } else { 1 };
    let begin = at - i64::from(first_wall.day() - first_day) * DAY;
    clock.is_steady(begin - MARGIN, next + MARGIN).then_some(next)
}

/// Searches only with [`walk`], and never with [`next_in_steady_time`].
#[cfg(test)]
pub(super) fn next_firing_second_by_walk(fields: &CronFields, zone: &ZoneRules, after: i64) -> Option<i64> {
    let clock = WallClock(zone);
    let start = clock.at(after.checked_add(1)?)?;
    if fields.never_matches() { None } else { walk(fields, &clock, start) }
}

/// Searches for the next firing step by step, as robfig/cron does.
fn walk(fields: &CronFields, clock: &WallClock<'_>, first_moment: Moment) -> Option<i64> {
    let mut t = first_moment;
    let limit = t.wall.year() + HORIZON;
    // Whether the search has left its start. From then on, each step leads to the beginning of a month, day, hour or minute.
    let mut touched = false;
    'wrap: loop {
        if t.wall.year() > limit {
            return None;
        }
        while !fields.allows_month(t.wall.month()) {
            if !std::mem::replace(&mut touched, true) {
                t = clock.date(t.wall.date().with_day(1)?, NaiveTime::MIN)?;
            }
            t = clock.date(next_month(t.wall.date())?, t.wall.time())?;
            if t.wall.month() == 1 {
                continue 'wrap;
            }
        }
        while !fields.allows_date(t.wall.date()) {
            if !std::mem::replace(&mut touched, true) {
                t = clock.date(t.wall.date(), NaiveTime::MIN)?;
            }
            t = clock.date(t.wall.date().succ_opt()?, t.wall.time())?;
            // The hour is not 0 if midnight does not exist on this day.
            let hour = i64::from(t.wall.hour());
            if hour > 12 {
                t = clock.at(t.at + (24 - hour) * HOUR)?;
            } else if hour > 0 {
                t = clock.at(t.at - hour * HOUR)?;
            }
            if t.wall.day() == 1 {
                continue 'wrap;
            }
        }
        while !fields.allows_hour(t.wall.hour()) {
            if !std::mem::replace(&mut touched, true) {
                t = clock.date(t.wall.date(), NaiveTime::from_hms_opt(t.wall.hour(), 0, 0)?)?;
            }
            t = clock.at(t.at + HOUR)?;
            if t.wall.hour() == 0 {
                continue 'wrap;
            }
        }
        while !fields.allows_minute(t.wall.minute()) {
            if !std::mem::replace(&mut touched, true) {
                t = clock.at(t.at - t.at.rem_euclid(MINUTE))?;
            }
            t = clock.at(t.at + MINUTE)?;
            if t.wall.minute() == 0 {
                continue 'wrap;
            }
        }
        while t.wall.second() != 0 {
            touched = true;
            t = clock.at(t.at + 1)?;
            if t.wall.second() == 0 {
                continue 'wrap;
            }
        }
        return Some(t.at);
    }
}

/// Returns the same day one month later, as Go counts: a day beyond the end of that month continues into the month after it.
fn next_month(date: NaiveDate) -> Option<NaiveDate> {
    let first = date.with_day(1)?.checked_add_months(chrono::Months::new(1))?;
    first.checked_add_days(Days::new(u64::from(date.day() - 1)))
}

/// Conversions between instants and the wall-clock times of a zone.
struct WallClock<'a>(&'a ZoneRules);

impl WallClock<'_> {
    /// Returns the wall-clock time at an instant.
    fn at(&self, at: i64) -> Option<Moment> {
        let shown = at.checked_add(self.0.utc_offset_seconds_at(at)?)?;
        Some(Moment { at, wall: DateTime::from_timestamp(shown, 0)?.naive_utc() })
    }

    /// Returns the instant of a wall-clock time. For a time that does not exist, or exists twice, the result equals Go's.
    fn date(&self, date: NaiveDate, time: NaiveTime) -> Option<Moment> {
        let utc = date.and_time(time).and_utc().timestamp();
        let at = match self.0.utc_offset_seconds_at(utc)? {
            0 => utc,
            offset => utc - self.0.utc_offset_seconds_at(utc - offset)?,
        };
        self.at(at)
    }

    /// Whether the zone has one constant offset from UTC between two instants.
    fn is_steady(&self, from: i64, to: i64) -> bool {
        let offset = self.0.utc_offset_seconds_at(from);
        let mut at = from;
        while at < to {
            at = to.min(at + MIN_SECONDS_BETWEEN_CLOCK_CHANGES);
            if self.0.utc_offset_seconds_at(at) != offset {
                return false;
            }
        }
        offset.is_some()
    }
}
