//! The wall-clock times that the five fields of a schedule allow, in the form of rules of the crate `cron`.
//!
//! Each field arrives as a set of values and is formatted as a list of numbers, which means the same in every dialect. Three
//! differences to the crate remain, and this module handles them:
//!
//! - A rule of the crate requires both day fields to match. If a schedule restricts both day fields, one match is enough, so the
//!   schedule becomes two rules.
//! - The crate counts days of the week from 1.
//! - The crate has no empty list. A rule in which a field allows no value never fires, and is left out.

use chrono::{Datelike as _, NaiveDate, NaiveDateTime, TimeDelta};
use cron::{Schedule as Rule, TimeUnitSpec as _};

use super::parse::ParseError;

/// The values that each field allows: bit `n` is set if the value `n` is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldValues {
    pub(super) minute_bits: u64,
    pub(super) hour_bits: u64,
    pub(super) day_of_month_bits: u64,
    pub(super) month_bits: u64,
    /// Days of the week, counted from Sunday as 0.
    pub(super) day_of_week_bits: u64,
    /// Whether at least one day field is unrestricted. A date then has to match both day fields.
    pub(super) has_unrestricted_day_field: bool,
}

/// The wall-clock times at which a schedule fires.
#[derive(Clone, Debug)]
pub struct CronFields {
    /// A time is allowed if one of the rules allows it. All rules have equal minutes, hours and months.
    rules: Vec<Rule>,
}

const EVERY_DAY_OF_MONTH: u64 = 0xffff_fffe;
const EVERY_DAY_OF_WEEK: u64 = 0x7f;

impl CronFields {
    pub(super) fn new(values: &FieldValues) -> Result<Self, ParseError> {
        let FieldValues { minute_bits, hour_bits, day_of_month_bits, month_bits, day_of_week_bits, .. } = *values;
        let day_bits: &[(u64, u64)] = if values.has_unrestricted_day_field {
            &[(day_of_month_bits, day_of_week_bits)]
        } else {
            &[(day_of_month_bits, EVERY_DAY_OF_WEEK), (EVERY_DAY_OF_MONTH, day_of_week_bits)]
        };
        let mut rules = Vec::with_capacity(day_bits.len());
        for (day_of_month_bits, day_of_week_bits) in day_bits {
            let fields = [minute_bits, hour_bits, *day_of_month_bits, month_bits];
            if fields.contains(&0) || *day_of_week_bits == 0 {
                continue;
            }
            let [minutes, hours, days_of_month, months] = fields.map(|bits| list(bits, 0));
            let days_of_week = list(*day_of_week_bits, 1);
            let expression = format!("0 {minutes} {hours} {days_of_month} {months} {days_of_week}");
            rules.push(expression.parse().map_err(|error| ParseError(format!("{expression}: {error}")))?);
        }
        Ok(Self { rules })
    }

    /// Whether some field allows no value, so that the schedule never fires.
    pub(super) fn never_matches(&self) -> bool {
        self.rules.is_empty()
    }

    pub(super) fn allows_month(&self, month: u32) -> bool {
        self.rules.first().is_some_and(|rule| rule.months().includes(month))
    }

    pub(super) fn allows_date(&self, date: NaiveDate) -> bool {
        let weekday = date.weekday().number_from_sunday();
        self.rules.iter().any(|rule| rule.days_of_month().includes(date.day()) && rule.days_of_week().includes(weekday))
    }

    pub(super) fn allows_hour(&self, hour: u32) -> bool {
        self.rules.first().is_some_and(|rule| rule.hours().includes(hour))
    }

    pub(super) fn allows_minute(&self, minute: u32) -> bool {
        self.rules.first().is_some_and(|rule| rule.minutes().includes(minute))
    }

    /// Returns the first allowed wall-clock time at or after `from`, between the years 1970 and 2100.
    pub(super) fn next_allowed_wall_time(&self, from: NaiveDateTime) -> Option<NaiveDateTime> {
        let before = from.checked_sub_signed(TimeDelta::seconds(1))?.and_utc();
        self.rules.iter().filter_map(|rule| rule.after(&before).next()).min().map(|time| time.naive_utc())
    }
}

/// Formats the values of a field as a list of numbers, each with `offset` added.
fn list(bits: u64, offset: u32) -> String {
    let values = (0..u64::BITS).filter(|value| bits & (1 << value) != 0);
    values.map(|value| (value + offset).to_string()).collect::<Vec<_>>().join(",")
}
