//! The next time that fields name, as robfig/cron finds it.
//!
//! The search walks: months, days, hours, minutes, each by calendar or by the clock, and starts over when it wraps. Where
//! clocks change, the way decides the result: times in a spring gap do not fire, times in an autumn overlap fire twice, and
//! around a midnight that does not exist whole days may be lost or gained. All of it is kept, since a time that only one side
//! of a hand-over knows would be a Job too many or too few.

use jiff::{Timestamp, civil, tz::TimeZone};

use super::Fields;

/// How many years are searched.
const HORIZON: i16 = 5;
const MINUTE: i64 = 60;
const HOUR: i64 = 3600;

/// An instant, in whole seconds, and what clocks in the zone show.
#[derive(Clone, Copy)]
struct Moment {
    at: i64,
    wall: civil::DateTime,
}

pub(super) fn next(fields: &Fields, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    // Nothing would be found, minute by minute.
    if fields.minute == 0 || fields.hour == 0 || fields.month == 0 {
        return None;
    }
    let clock = Clock(zone);
    let mut t = clock.at(second(after) + 1)?;
    let limit = t.wall.year().checked_add(HORIZON)?;
    // Whether the search has left its start: from then on it is at the beginning of whatever it walks by.
    let mut touched = false;
    'wrap: loop {
        if t.wall.year() > limit {
            return None;
        }
        while !has(fields.month, t.wall.month()) {
            if !std::mem::replace(&mut touched, true) {
                t = clock.date(t.wall.date().first_of_month(), civil::Time::midnight())?;
            }
            let following = t.wall.date().last_of_month().tomorrow().ok()?;
            let day = t.wall.day().min(following.days_in_month());
            t = clock.date(following.with().day(day).build().ok()?, t.wall.time())?;
            if t.wall.month() == 1 {
                continue 'wrap;
            }
        }
        while !fields.allow_day(t.wall.date()) {
            if !std::mem::replace(&mut touched, true) {
                t = clock.date(t.wall.date(), civil::Time::midnight())?;
            }
            t = clock.date(t.wall.date().tomorrow().ok()?, t.wall.time())?;
            // Midnight did not exist.
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
        while !has(fields.hour, t.wall.hour()) {
            if !std::mem::replace(&mut touched, true) {
                t = clock.date(t.wall.date(), civil::time(t.wall.hour(), 0, 0, 0))?;
            }
            t = clock.at(t.at + HOUR)?;
            if t.wall.hour() == 0 {
                continue 'wrap;
            }
        }
        while !has(fields.minute, t.wall.minute()) {
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
        return Timestamp::from_second(t.at).ok();
    }
}

/// The second an instant is in.
pub(super) fn second(at: Timestamp) -> i64 {
    at.as_nanosecond().div_euclid(1_000_000_000) as i64
}

fn has(bits: u64, value: i8) -> bool {
    bits & (1 << value) != 0
}

impl Fields {
    /// With a day field that is unrestricted both have to match, otherwise one of them.
    fn allow_day(&self, date: civil::Date) -> bool {
        let of_month = has(self.day_of_month, date.day());
        let of_week = has(self.day_of_week, date.weekday().to_sunday_zero_offset());
        if self.day_of_month_star || self.day_of_week_star { of_month && of_week } else { of_month || of_week }
    }
}

/// Clocks of a zone.
struct Clock<'a>(&'a TimeZone);

impl Clock<'_> {
    /// What clocks show at an instant.
    fn at(&self, at: i64) -> Option<Moment> {
        let wall = self.0.to_datetime(Timestamp::from_second(at).ok()?);
        Some(Moment { at, wall })
    }

    fn offset(&self, at: i64) -> Option<i64> {
        Some(i64::from(self.0.to_offset(Timestamp::from_second(at).ok()?).seconds()))
    }

    /// When clocks show this. Of a time that does not exist, or exists twice, Go's choice.
    fn date(&self, date: civil::Date, time: civil::Time) -> Option<Moment> {
        let utc = civil::DateTime::from_parts(date, time).to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
        let at = match self.offset(utc)? {
            0 => utc,
            offset => utc - self.offset(utc - offset)?,
        };
        self.at(at)
    }
}
