use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// What the library that upstream uses says.
const VECTORS: &str = include_str!("../../testdata/firing-times.jsonl");

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// As a CronJob's schedule and time zone are put together.
fn parse(schedule: &str, zone: &str) -> Result<Schedule, ParseError> {
    if zone.is_empty() { Schedule::parse(schedule) } else { Schedule::parse(&format!("TZ={zone} {schedule}")) }
}

#[test]
fn times_and_errors_are_those_of_the_library_upstream_uses() {
    let mut compared = 0;
    for line in VECTORS.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| vector[key].as_str().unwrap();
        let found = parse(text("schedule"), text("timeZone"));
        if let Some(error) = vector["error"].as_str() {
            assert_eq!(found.unwrap_err().to_string(), error, "{line}");
        } else {
            let schedule = found.unwrap_or_else(|error| panic!("{line}: {error}"));
            let mut from = at(text("from"));
            for next in vector["next"].as_array().unwrap() {
                let found = schedule.next(from);
                if next == "never" {
                    assert_eq!(found, None, "{line}");
                } else {
                    assert_eq!(found, Some(at(next.as_str().unwrap())), "after {from}: {line}");
                    from = found.unwrap();
                }
            }
        }
        compared += 1;
    }
    assert!(compared > 1000, "{compared}");
}

#[test]
fn what_durations_and_zones_are_not_is_said_in_upstreams_words() {
    for (text, error) in [
        ("@every 1d", r#"failed to parse duration @every 1d: time: unknown unit "d" in duration "1d""#),
        ("@every 5", r#"failed to parse duration @every 5: time: missing unit in duration "5""#),
        ("@every ", r#"failed to parse duration @every : time: invalid duration """#),
        ("@every  1h", r#"failed to parse duration @every  1h: time: invalid duration " 1h""#),
        ("TZ=../x 0 0 * * *", "provided bad location ../x: time: invalid location name"),
        ("CRON_TZ=Nowhere 0 0 * * *", "provided bad location Nowhere: unknown time zone Nowhere"),
        (
            "99999999999999999999 * * * *",
            r#"failed to parse int from 99999999999999999999: strconv.Atoi: parsing "99999999999999999999": value out of range"#,
        ),
    ] {
        assert_eq!(Schedule::parse(text).unwrap_err().to_string(), error);
    }
    assert!(Schedule::parse("TZ=UTC").unwrap_err().to_string().starts_with("invalid schedule format: "));
}

#[test]
fn intervals_are_whole_seconds_and_at_least_one() {
    for (text, seconds) in [("1h30m", 5400), ("90.9s", 90), ("10ms", 1), ("-5m", 1), ("+2m", 120), ("0", 1)] {
        let Schedule::Every(interval) = Schedule::parse(&format!("@every {text}")).unwrap() else { panic!("{text}") };
        assert_eq!(interval.as_secs(), seconds, "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_the_parser(text in "[ -~]{0,24}") {
        let _ = Schedule::parse(&text);
    }

    /// What walking from one firing to the next finds, a search has to find as well.
    #[test]
    fn the_latest_firing_is_the_last_of_a_walk(
        schedule in prop::sample::select(vec![
            "* * * * *", "*/7 3-5 * * *", "0 9 * * 1-5", "30 6-16/4 * * 1-5", "0 0 1,15 * *", "15 10 29 2 *",
            "0 0 */2 * 1", "@every 7m", "@every 36h", "5,6,50 0,23 * * 0",
        ]),
        zone in prop::sample::select(vec!["UTC", "America/New_York", "Asia/Kathmandu", "Europe/Berlin"]),
        start in 0i64..50_000_000, length in 1i64..900_000,
    ) {
        let schedule = parse(schedule, zone).unwrap();
        let from = Timestamp::from_second(1_760_000_000 + start).unwrap();
        let now = Timestamp::from_second(from.as_second() + length).unwrap();
        let mut walk = None;
        let mut next = schedule.next(from);
        while let Some(at) = next.filter(|at| *at <= now) {
            walk = Some(at);
            next = schedule.next(at);
        }
        prop_assert_eq!(schedule.latest(from, now), walk);
    }
}
