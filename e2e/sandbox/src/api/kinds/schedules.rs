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
        Some(duration) => common::duration::parse(duration.strip_prefix('-').unwrap_or(duration))
            .map(|_| ())
            .map_err(|_| format!("failed to parse duration {text}: time: invalid duration {duration:?}")),
        None if KNOWN.contains(&text) => Ok(()),
        None => Err(format!("unrecognized descriptor: {text}")),
    }
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
