//! Whether the API server takes a cron schedule, and what it says when it does not.

use super::errors::quoted;

/// A field of a schedule: its bounds and the names of its values.
struct Bounds {
    min: i64,
    max: i64,
    names: &'static [(&'static str, i64)],
}

const MONTHS: &[(&str, i64)] = &[
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("may", 5),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("oct", 10),
    ("nov", 11),
    ("dec", 12),
];
const DAYS: &[(&str, i64)] = &[("sun", 0), ("mon", 1), ("tue", 2), ("wed", 3), ("thu", 4), ("fri", 5), ("sat", 6)];

/// Minute, hour, day of the month, month, day of the week.
const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds { min: 1, max: 12, names: MONTHS },
    Bounds { min: 0, max: 6, names: DAYS },
];

/// Whether a time zone of this name is known, spelt exactly so.
pub(super) fn is_zone(name: &str) -> bool {
    name == "UTC" || jiff::tz::db().get(name).is_ok_and(|zone| zone.iana_name() == Some(name))
}

/// Reads a schedule; the error is the real server's.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let (_, zoned) = schedule.split_once('=').unwrap_or_default();
        let Some((zone, fields)) = zoned.split_once(' ') else {
            return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
        };
        if !zone.is_empty() && zone != "Local" && !is_zone(zone) {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        rest = fields.trim();
    }
    if rest.starts_with('@') {
        return check_descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let found = fields.len();
        return Err(format!("expected exactly 5 fields, found {found}: [{}]", fields.join(" ")));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            check_range(range, bounds)?;
        }
    }
    Ok(())
}

fn check_range(range: &str, bounds: &Bounds) -> Result<(), String> {
    let range_and_step: Vec<&str> = range.split('/').collect();
    let ends: Vec<&str> = range_and_step[0].split('-').collect();
    let (start, mut end) = if matches!(ends[0], "*" | "?") {
        (bounds.min, bounds.max)
    } else {
        let start = number_or_name(ends[0], bounds.names)?;
        match ends[..] {
            [_] => (start, start),
            [_, end] => (start, number_or_name(end, bounds.names)?),
            _ => return Err(format!("too many hyphens: {range}")),
        }
    };
    let step = match range_and_step[..] {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if ends.len() == 1 {
                end = bounds.max;
            }
            step
        }
        _ => return Err(format!("too many slashes: {range}")),
    };
    let Bounds { min, max, .. } = bounds;
    if start < *min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {range}"));
    }
    if end > *max {
        return Err(format!("end of range ({end}) above maximum ({max}): {range}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn number_or_name(text: &str, names: &[(&str, i64)]) -> Result<i64, String> {
    match names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
        Some((_, number)) => Ok(*number),
        None => number(text),
    }
}

fn number(text: &str) -> Result<i64, String> {
    let parsed: i64 = text.parse().map_err(|_| {
        let digits = text.trim_start_matches(['+', '-']);
        let out_of_range = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let why = if out_of_range { "value out of range" } else { "invalid syntax" };
        format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {why}", quoted(text))
    })?;
    if parsed < 0 {
        return Err(format!("negative number ({parsed}) not allowed: {text}"));
    }
    Ok(parsed)
}

fn check_descriptor(descriptor: &str) -> Result<(), String> {
    match descriptor {
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => Ok(()),
        _ => match descriptor.strip_prefix("@every ") {
            Some(duration) => {
                check_duration(duration).map_err(|wrong| format!("failed to parse duration {descriptor}: {wrong}"))
            }
            None => Err(format!("unrecognized descriptor: {descriptor}")),
        },
    }
}

/// Reads a duration as Go writes it: `1h30m`.
fn check_duration(text: &str) -> Result<(), String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let digits = number.bytes().filter(u8::is_ascii_digit).count();
        if digits == 0 || number.len() - digits > 1 || digits > 18 {
            return Err(invalid());
        }
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(text)));
        }
        if !["ns", "us", "µs", "μs", "ms", "s", "m", "h"].contains(&unit) {
            return Err(format!("time: unknown unit {} in duration {}", quoted(unit), quoted(text)));
        }
        rest = tail;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_proper_schedules() {
        let proper =
            ["* * * * *", "1-59/2 */6 1,15 JAN,jul ?", "@hourly", "@every 1h30m", "5/15 * * * MON-FRI", ", * * * *"];
        for schedule in proper {
            assert_eq!(check(schedule), Ok(()), "{schedule}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        let table = [
            ("61 * * * *", "end of range (61) above maximum (59): 61"),
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("0 0 L * *", r#"failed to parse int from L: strconv.Atoi: parsing "L": invalid syntax"#),
            ("@reboot", "unrecognized descriptor: @reboot"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("@every 5", r#"failed to parse duration @every 5: time: missing unit in duration "5""#),
            ("@every 5x", r#"failed to parse duration @every 5x: time: unknown unit "x" in duration "5x""#),
            ("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
            ("TZ=Mars/Base 0 0 * * *", "provided bad location Mars/Base: unknown time zone Mars/Base"),
        ];
        for (schedule, wrong) in table {
            assert_eq!(check(schedule), Err(wrong.to_owned()), "{schedule}");
        }
    }

    #[test]
    fn knows_time_zones_by_their_exact_names() {
        assert!(is_zone("Europe/Paris") && is_zone("Etc/UTC") && is_zone("UTC"));
        assert!(!is_zone("europe/paris") && !is_zone("Mars/Base"));
    }
}
