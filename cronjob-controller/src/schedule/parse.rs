//! Parses schedules. The errors have upstream's order and wording, because they appear in Events.

use std::time::Duration;

use common::duration;

use super::{
    Schedule,
    fields::{CronFields, FieldValues},
    zone::ZoneRules,
};

/// Why a schedule cannot be parsed, in the words of upstream's parser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub(super) String);

/// One of the five fields: the range of its values, and the names that stand for values.
struct Field {
    least: u64,
    most: u64,
    names: &'static [&'static str],
}

const MINUTE: Field = Field { least: 0, most: 59, names: &[] };
const HOUR: Field = Field { least: 0, most: 23, names: &[] };
const DAY_OF_MONTH: Field = Field { least: 1, most: 31, names: &[] };
const MONTH: Field = Field {
    least: 1,
    most: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const DAY_OF_WEEK: Field = Field { least: 0, most: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

impl Schedule {
    /// Parses five fields, or a descriptor such as `@hourly` or `@every 5m`.
    ///
    /// A prefix `TZ=...` or `CRON_TZ=...` names the time zone; without a prefix, the zone of the process applies.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Err(ParseError("empty spec string".to_owned()));
        }
        let mut rest = text;
        let mut zone = None;
        if let Some(prefixed) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
            // Without a blank, upstream's parser panics, and its callers turn the panic into this error.
            let panic = "invalid schedule format: runtime error: slice bounds out of range [:-1]";
            let (name, fields) = prefixed.split_once(' ').ok_or_else(|| ParseError(panic.to_owned()))?;
            let bad_location = |error| ParseError(format!("provided bad location {name}: {error}"));
            zone = Some(ZoneRules::find_by_name(name).map_err(bad_location)?);
            rest = fields.trim();
        }
        if rest.starts_with('@') { parse_descriptor(rest, zone) } else { parse_fields(rest, zone) }
    }
}

fn parse_fields(text: &str, zone: Option<ZoneRules>) -> Result<Schedule, ParseError> {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day_of_month, month, day_of_week] = parts[..] else {
        let found = parts.len();
        return Err(ParseError(format!("expected exactly 5 fields, found {found}: [{}]", parts.join(" "))));
    };
    // Fields are parsed from left to right, so that the first error is reported.
    let minute_bits = field(minute, &MINUTE)?.values;
    let hour_bits = field(hour, &HOUR)?.values;
    let day_of_month = field(day_of_month, &DAY_OF_MONTH)?;
    let month_bits = field(month, &MONTH)?.values;
    let day_of_week = field(day_of_week, &DAY_OF_WEEK)?;
    let fields = CronFields::new(&FieldValues {
        minute_bits,
        hour_bits,
        day_of_month_bits: day_of_month.values,
        month_bits,
        day_of_week_bits: day_of_week.values,
        has_unrestricted_day_field: day_of_month.is_star || day_of_week.is_star,
    })?;
    Ok(Schedule::Cron { fields, zone: zone.unwrap_or_else(ZoneRules::process_zone) })
}

fn parse_descriptor(text: &str, zone: Option<ZoneRules>) -> Result<Schedule, ParseError> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let Some(duration) = text.strip_prefix("@every ") else {
                return Err(ParseError(format!("unrecognized descriptor: {text}")));
            };
            return every(duration).map_err(|error| ParseError(format!("failed to parse duration {text}: {error}")));
        }
    };
    parse_fields(fields, zone)
}

/// Parses the duration of `@every`. The interval is rounded down to whole seconds, and is at least one second.
fn every(text: &str) -> Result<Schedule, String> {
    let (sign, unsigned) = text.split_at(usize::from(text.starts_with(['-', '+'])));
    let duration = duration::parse(unsigned).map_err(|_| duration_error(text, unsigned))?;
    let seconds = if sign == "-" { 0 } else { duration.as_secs() };
    Ok(Schedule::Interval(Duration::from_secs(seconds.max(1))))
}

/// Returns the error message of Go for a malformed duration.
fn duration_error(text: &str, unsigned: &str) -> String {
    let invalid = format!("time: invalid duration {text:?}");
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut rest = unsigned;
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
        if !number.contains(|c: char| c.is_ascii_digit()) || number.matches('.').count() > 1 {
            return invalid;
        }
        let (unit, tail) = tail.split_at(tail.find(is_number).unwrap_or(tail.len()));
        match unit {
            "" => return format!("time: missing unit in duration {text:?}"),
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => rest = tail,
            _ => return format!("time: unknown unit {unit:?} in duration {text:?}"),
        }
    }
    invalid
}

/// The values that a field, or one item of its list, allows.
#[derive(Clone, Copy, Default)]
struct Allowed {
    /// Bit `n` is set if the value `n` is allowed.
    values: u64,
    /// Whether an item of the field is `*` or `?` without a step, so that the field counts as unrestricted.
    is_star: bool,
}

fn field(text: &str, field: &Field) -> Result<Allowed, ParseError> {
    let mut allowed = Allowed::default();
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let more = range(item, field)?;
        allowed.values |= more.values;
        allowed.is_star |= more.is_star;
    }
    Ok(allowed)
}

/// Parses one item of a field: `low[-high][/step]`, where `*` or `?` stands for the whole range.
fn range(item: &str, field: &Field) -> Result<Allowed, ParseError> {
    let parts: Vec<&str> = item.split('/').collect();
    let bounds: Vec<&str> = parts[0].split('-').collect();
    let everything = matches!(bounds[0], "*" | "?");
    let (low, mut high) = if everything {
        (field.least, field.most)
    } else {
        let low = value(bounds[0], field.names)?;
        match bounds[..] {
            [_] => (low, low),
            [_, high] => (low, value(high, field.names)?),
            _ => return Err(ParseError(format!("too many hyphens: {item}"))),
        }
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            // `low/step` continues to the maximum of the field.
            if bounds.len() == 1 {
                high = field.most;
            }
            step
        }
        _ => return Err(ParseError(format!("too many slashes: {item}"))),
    };
    let Field { least, most, .. } = field;
    if low < *least {
        return Err(ParseError(format!("beginning of range ({low}) below minimum ({least}): {item}")));
    }
    if high > *most {
        return Err(ParseError(format!("end of range ({high}) above maximum ({most}): {item}")));
    }
    if low > high {
        return Err(ParseError(format!("beginning of range ({low}) beyond end of range ({high}): {item}")));
    }
    if step == 0 {
        return Err(ParseError(format!("step of range should be a positive number: {item}")));
    }
    let values =
        (low..=high).step_by(usize::try_from(step).unwrap_or(usize::MAX)).fold(0, |values, value| values | 1 << value);
    Ok(Allowed { values, is_star: everything && step == 1 })
}

/// Parses a number, or a name such as `jan`.
fn value(text: &str, names: &[&str]) -> Result<u64, ParseError> {
    if let Some(at) = names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        // Months are counted from 1, days of the week from 0.
        return Ok(at as u64 + u64::from(names.len() == 12));
    }
    number(text)
}

fn number(text: &str) -> Result<u64, ParseError> {
    let syntax = |why| ParseError(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}"));
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(syntax("invalid syntax"));
    }
    let number: i64 = text.parse().map_err(|_| syntax("value out of range"))?;
    if number < 0 {
        return Err(ParseError(format!("negative number ({number}) not allowed: {text}")));
    }
    Ok(number.unsigned_abs())
}
