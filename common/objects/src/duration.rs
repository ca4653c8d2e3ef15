//! Durations in Go's format: `1h30m0s`, `500ms`, `1.5s`.

use std::time::Duration;

/// Units with their length in nanoseconds. [`parse`] accepts all of them, as Go does.
const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// Parses a duration. The error is a message. Negative texts, texts without a unit, and more than 2^63 - 1 ns are errors.
pub fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("{text:?} is not a duration such as 30s, 1m30s or 500ms");
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.starts_with('-') {
        return Err(format!("{text:?} is negative"));
    }
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut nanos = 0u64;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(invalid)?;
        let part = scaled(number, *scale).ok_or_else(invalid)?;
        nanos = nanos.checked_add(part).filter(|n| i64::try_from(*n).is_ok()).ok_or_else(invalid)?;
        if tail.is_empty() {
            return Ok(Duration::from_nanos(nanos));
        }
        rest = tail;
    }
}

/// Converts a decimal number of a unit to nanoseconds. `scale` is the length of the unit in nanoseconds.
fn scaled(number: &str, scale: f64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: u64 = format!("0{whole}").parse().ok()?;
    let share: f64 = format!("0.{fraction}0").parse().ok()?;
    whole.checked_mul(scale as u64)?.checked_add((share * scale) as u64)
}

/// Formats a duration as Go does, for example `1h30m0s`.
pub fn format(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let fraction = |value: u128, unit: u128| {
        let text = format!("{}.{:0width$}", value / unit, value % unit, width = unit.ilog10() as usize);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match nanos {
        ..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => format!("{}µs", fraction(nanos, 1_000)),
        1_000_000..1_000_000_000 => format!("{}ms", fraction(nanos, 1_000_000)),
        _ => {
            let minutes = nanos / 60_000_000_000;
            let seconds = fraction(nanos % 60_000_000_000, 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, m) => format!("{m}m{seconds}s"),
                (h, m) => format!("{h}h{m}m{seconds}s"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("15s", 15_000),
            ("1m30s", 90_000),
            ("12h0m0s", 43_200_000),
            ("1.5s", 1_500),
            (".5s", 500),
            ("1.s", 1_000),
            ("250ms", 250),
            ("+2s", 2_000),
            ("1h1ms", 3_600_001),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("1us"), Ok(Duration::from_micros(1)));
        assert_eq!(parse("7µs"), Ok(Duration::from_micros(7)));
    }

    #[test]
    fn texts_that_are_not_durations_are_rejected() {
        for text in ["", "15", "s", "-1s", "1x", "1.2.3s", "1d", "1 s", "9999999999h", ".s", "+", "1s2", "٣s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (5_000_000, "5ms"),
            (1_000_000_000, "1s"),
            (1_050_000_000, "1.05s"),
            (60_000_000_000, "1m0s"),
            (90_000_000_000, "1m30s"),
            (43_200_000_000_000, "12h0m0s"),
            (3_661_000_000_001, "1h1m1.000000001s"),
        ] {
            assert_eq!(format(Duration::from_nanos(nanos)), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn formatted_durations_can_be_parsed_again(nanos in 0u64..(i64::MAX as u64 / 1024)) {
            // Go's parser computes fractions in floating point, so 1 ns may be lost.
            let back = parse(&format(Duration::from_nanos(nanos))).unwrap().as_nanos() as i128;
            proptest::prop_assert!((back - i128::from(nanos)).abs() <= 1);
        }
    }
}
