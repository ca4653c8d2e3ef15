//! Validation of cron schedules, with the messages of the real server.
//!
//! Written apart from the parser of cronjob-controller, so that neither hides a mistake of the other.

use std::ops::RangeInclusive;

use jiff::tz::TimeZoneDatabase;

/// What is wrong with a schedule, in the words of the real server.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    if schedule.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let fields = match schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        None => schedule,
        // The original's parser panics without a blank; its caller reports the panic.
        Some(zoned) => {
            let (zone, fields) = zoned
                .split_once(' ')
                .ok_or("invalid schedule format: runtime error: slice bounds out of range [:-1]")?;
            check_zone(zone).map_err(|error| format!("provided bad location {zone}: {error}"))?;
            fields.trim()
        }
    };
    if fields.starts_with('@') { check_descriptor(fields) } else { check_fields(fields) }
}

/// Why there is no time zone of that name.
pub(super) fn check_zone(name: &str) -> Result<(), String> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(());
    }
    if name.contains("..") || name.starts_with('/') || name.starts_with('\\') {
        return Err("time: invalid location name".to_owned());
    }
    // Zones of the binary, whatever the machine has installed: a server carries its own as well. This database ignores case;
    // the files of a real one do not.
    match TimeZoneDatabase::bundled().get(name) {
        Ok(zone) if zone.iana_name() == Some(name) => Ok(()),
        _ => Err(format!("unknown time zone {name}")),
    }
}

fn check_descriptor(text: &str) -> Result<(), String> {
    const KNOWN: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
    match text.strip_prefix("@every ") {
        Some(duration) => {
            go_duration(duration).map_err(|error| format!("failed to parse duration {text}: time: {error}"))
        }
        None if KNOWN.contains(&text) => Ok(()),
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// Go's `time.ParseDuration`, for its errors only.
fn go_duration(text: &str) -> Result<(), String> {
    const UNITS: [(&str, f64); 8] =
        [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
    let invalid = || format!("invalid duration {text:?}");
    let numeric = |c: char| c == '.' || c.is_ascii_digit();
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanoseconds = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c| !numeric(c)).unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().map_err(|_| invalid())?;
        rest = &rest[end..];
        let end = rest.find(numeric).unwrap_or(rest.len());
        let unit = &rest[..end];
        if unit.is_empty() {
            return Err(format!("missing unit in duration {text:?}"));
        }
        let known = UNITS.iter().find(|(name, _)| *name == unit);
        let (_, scale) = known.ok_or_else(|| format!("unknown unit {unit:?} in duration {text:?}"))?;
        nanoseconds += number * scale;
        rest = &rest[end..];
    }
    if nanoseconds > i64::MAX as f64 { Err(invalid()) } else { Ok(()) }
}

fn check_fields(text: &str) -> Result<(), String> {
    const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    const FIELDS: [(RangeInclusive<i64>, &[&str]); 5] =
        [(0..=59, &[]), (0..=23, &[]), (1..=31, &[]), (1..=12, MONTHS), (0..=6, DAYS)];
    let found: Vec<&str> = text.split_whitespace().collect();
    if found.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", found.len(), found.join(" ")));
    }
    for (field, (bounds, names)) in found.iter().zip(FIELDS) {
        for part in field.split(',').filter(|part| !part.is_empty()) {
            check_range(part, &bounds, names)?;
        }
    }
    Ok(())
}

fn check_range(part: &str, bounds: &RangeInclusive<i64>, names: &[&str]) -> Result<(), String> {
    let (range, steps) = part.split_once('/').map_or((part, None), |(range, steps)| (range, Some(steps)));
    let (first, second) = range.split_once('-').map_or((range, None), |(first, second)| (first, Some(second)));
    let wildcard = first == "*" || first == "?";
    let named = |text: &str| {
        let position = names.iter().position(|name| text.eq_ignore_ascii_case(name));
        position.map_or_else(|| go_number(text), |position| Ok(position as i64 + bounds.start()))
    };
    let low = if wildcard { *bounds.start() } else { named(first)? };
    let high = match second {
        _ if wildcard => *bounds.end(),
        Some(second) if second.contains('-') => return Err(format!("too many hyphens: {part}")),
        Some(second) => named(second)?,
        None => low,
    };
    let mut step = 1;
    let mut high = high;
    if let Some(steps) = steps {
        if steps.contains('/') {
            return Err(format!("too many slashes: {part}"));
        }
        step = go_number(steps)?;
        // `5/10` goes on to the end of the field.
        if second.is_none() {
            high = *bounds.end();
        }
    }
    if low < *bounds.start() {
        return Err(format!("beginning of range ({low}) below minimum ({}): {part}", bounds.start()));
    }
    if high > *bounds.end() {
        return Err(format!("end of range ({high}) above maximum ({}): {part}", bounds.end()));
    }
    if low > high {
        return Err(format!("beginning of range ({low}) beyond end of range ({high}): {part}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {part}"));
    }
    Ok(())
}

/// Go's `strconv.Atoi`, and no negative numbers.
fn go_number(text: &str) -> Result<i64, String> {
    let wrong = |why: &str| format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}");
    let unsigned = text.strip_prefix('-').or_else(|| text.strip_prefix('+')).unwrap_or(text);
    if unsigned.is_empty() || unsigned.contains(|c: char| !c.is_ascii_digit()) {
        return Err(wrong("invalid syntax"));
    }
    match text.parse::<i64>() {
        Err(_) => Err(wrong("value out of range")),
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use serde_json::Value;

    use super::{check, check_zone};

    /// The answers of the library that the real server uses.
    const VECTORS: &str = include_str!("../../../../cronjob-controller/testdata/firing-times.jsonl");

    #[test]
    fn refuses_what_the_recorded_library_refuses_in_its_words() {
        let mut refused = 0;
        for line in VECTORS.lines().filter(|line| !line.is_empty()) {
            let line: Value = serde_json::from_str(line).unwrap();
            let schedule = line["schedule"].as_str().unwrap();
            let zone = line["timeZone"].as_str().unwrap_or_default();
            let Some(error) = line["error"].as_str() else {
                assert_eq!(check(schedule), Ok(()), "{schedule}");
                assert_eq!(check_zone(zone), Ok(()), "{zone}");
                continue;
            };
            refused += 1;
            let found = check(schedule).and_then(|()| check_zone(zone)).unwrap_err();
            assert!(error.ends_with(&found), "{schedule} {zone}: {found}, recorded {error}");
        }
        assert!(refused > 20, "{refused} refusals");
    }
}
