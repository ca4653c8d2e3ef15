use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

use chrono::{DateTime, Datelike as _, NaiveDateTime, Timelike as _};
use proptest::prelude::*;
use serde_json::Value;

use super::*;

thread_local! {
    static LOOKUPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts a lookup of the offset of a zone. Tests measure the cost of a search by the number of lookups.
pub(super) fn count_offset_lookup() {
    LOOKUPS.set(LOOKUPS.get() + 1);
}

/// Runs `work`, and returns its result with the number of offset lookups that were made.
fn lookups<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = LOOKUPS.get();
    let result = work();
    (result, LOOKUPS.get() - before)
}

/// Firing times and errors that robfig/cron, the cron library of upstream, computed.
const VECTORS: &str = include_str!("../../testdata/firing-times.jsonl");

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Parses a schedule in a time zone, which becomes the prefix `TZ=` as in the controller.
fn parse(schedule: &str, zone: &str) -> Result<Schedule, ParseError> {
    if zone.is_empty() { Schedule::parse(schedule) } else { Schedule::parse(&format!("TZ={zone} {schedule}")) }
}

/// Replaces the zone rules of the system in a schedule by the rules in the binary.
fn with_bundled_zone(schedule: Schedule, name: &str) -> Schedule {
    match schedule {
        Schedule::Cron { fields, .. } if !matches!(name, "" | "Local") => {
            Schedule::Cron { fields, zone: ZoneRules::find_bundled_rules(name).unwrap() }
        }
        other => other,
    }
}

/// CRONJOB-12, CRONJOB-14, CRONJOB-17.
#[test]
fn times_and_errors_equal_those_of_robfig_cron() {
    let mut compared = 0;
    for line in VECTORS.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| vector[key].as_str().unwrap();
        let found = parse(text("schedule"), text("timeZone"));
        compared += 1;
        if let Some(error) = vector["error"].as_str() {
            assert_eq!(found.unwrap_err().to_string(), error, "{line}");
            continue;
        }
        let schedule = found.unwrap_or_else(|error| panic!("{line}: {error}"));
        let bundled = with_bundled_zone(schedule.clone(), text("timeZone"));
        let mut from = at(text("from"));
        for next in vector["next"].as_array().unwrap() {
            let expected = (next != "never").then(|| at(next.as_str().unwrap()));
            assert_eq!(schedule.next_firing_after(from), expected, "after {from}: {line}");
            assert_eq!(bundled.next_firing_after(from), expected, "after {from}, with the rules of the binary: {line}");
            from = expected.unwrap_or(from);
        }
    }
    assert_eq!(compared, 1123);
}

/// Firing times around clock changes, computed with robfig/cron.
///
/// The test [`every_kind_of_clock_change_has_firing_times_to_compare_with`] checks that the rows cover each kind of change.
const CLOCK_CHANGES: &str = include_str!("../../testdata/clock-changes.txt");

/// CRONJOB-15, CRONJOB-16.
#[test]
fn times_around_clock_changes_equal_those_of_robfig_cron() {
    let mut compared = 0;
    for line in CLOCK_CHANGES.lines().filter(|line| !line.starts_with('#')) {
        let [zone, text, after, firings] = line.split(" | ").collect::<Vec<_>>()[..] else { panic!("{line}") };
        let schedule = with_bundled_zone(parse(text, zone).unwrap(), zone);
        let mut from = at(after);
        for firing in firings.split(' ') {
            let found = schedule.next_firing_after(from);
            if firing == "never" {
                assert_eq!(found, None, "{line}");
            } else {
                assert_eq!(found, Some(at(firing)), "after {from}: {line}");
                from = found.unwrap();
            }
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared}");
}

/// Kind of a clock change: the seconds by which clocks are put forward, and the second of the day when that happens.
///
/// Apart from the date, only these two numbers affect the search of robfig/cron: the search begins each day at a wall-clock
/// time and counts hours and minutes from that time. Two changes of the same kind therefore have the same effect.
type Kind = (i64, i64);

/// Clock changes before this time do not matter, because a search begins at the creation or the last run of a CronJob.
const KINDS_FROM: &str = "2024-01-01T00:00:00Z";

/// Returns the clock changes between two Unix seconds. Each has the first second after the change.
fn clock_changes(zone: &ZoneRules, from: i64, until: i64) -> Vec<(i64, Kind)> {
    const DAY: i64 = 86_400;
    let offset = |at: i64| zone.utc_offset_seconds_at(at).unwrap();
    let mut changes = Vec::new();
    // Clocks do not change twice within a day.
    for start in (from..until).step_by(DAY as usize) {
        let (mut before, mut after) = (start, until.min(start + DAY));
        let (old, new) = (offset(before), offset(after));
        if old == new {
            continue;
        }
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            if offset(middle) == old { before = middle } else { after = middle }
        }
        changes.push((after, (new - old, (after + old).rem_euclid(DAY))));
    }
    changes
}

/// Returns the kinds of the clock changes of a zone from [`KINDS_FROM`] to 2100.
fn kinds(zone: &ZoneRules) -> BTreeSet<Kind> {
    let (from, until) = (at(KINDS_FROM).as_second(), at("2100-01-01T00:00:00Z").as_second());
    clock_changes(zone, from, until).into_iter().map(|(_, kind)| kind).collect()
}

/// Checks that [`CLOCK_CHANGES`] has a row for each kind of clock change and each unit by which a search steps.
/// CRONJOB-16.
#[test]
fn every_kind_of_clock_change_has_firing_times_to_compare_with() {
    // A row belongs to a change if it starts at most two months before the change, which is early enough to step by months.
    const AHEAD: i64 = 62 * 86_400;
    let mut held: BTreeMap<Kind, BTreeSet<&str>> = BTreeMap::new();
    for line in CLOCK_CHANGES.lines().filter(|line| !line.starts_with('#')) {
        let [zone, text, after, firings] = line.split(" | ").collect::<Vec<_>>()[..] else { panic!("{line}") };
        let [_, hour, day, month, weekday] = text.split(' ').collect::<Vec<_>>()[..] else { continue };
        let walked_by = match (hour, day, month, weekday) {
            ("*", "*", "*", "*") => "minutes",
            (_, "*", "*", "*") => "hours",
            (_, _, "*", _) => "days",
            _ => "months",
        };
        let Some(last) = firings.split(' ').rfind(|firing| *firing != "never") else { continue };
        let (after, last) = (at(after).as_second(), at(last).as_second());
        for (_, kind) in clock_changes(&ZoneRules::find_bundled_rules(zone).unwrap(), after, last.min(after + AHEAD)) {
            held.entry(kind).or_default().insert(walked_by);
        }
    }
    let mut there: BTreeMap<Kind, &str> = BTreeMap::new();
    for zone in &chrono_tz::TZ_VARIANTS {
        for kind in kinds(&ZoneRules::Bundled(*zone)) {
            there.entry(kind).or_insert(zone.name());
        }
    }
    assert_eq!(there.len(), 18, "the rules of the binary have another number of kinds: {there:?}");
    for (kind, zone) in there {
        let held = held.get(&kind).into_iter().flatten().copied().collect::<Vec<_>>();
        assert_eq!(held, ["days", "hours", "minutes", "months"], "{kind:?}, as in {zone}");
    }
}

#[test]
fn the_zones_of_the_properties_have_every_kind_of_clock_change() {
    let all = chrono_tz::TZ_VARIANTS.iter().flat_map(|zone| kinds(&ZoneRules::Bundled(*zone)));
    let named = [PLAIN_ZONES, ODD_ZONES].concat();
    let named = named.into_iter().flat_map(|name| kinds(&ZoneRules::find_bundled_rules(name).unwrap()));
    assert_eq!(named.collect::<BTreeSet<Kind>>(), all.collect::<BTreeSet<Kind>>());
    for zone in PLAIN_ZONES {
        let is_plain = |(shift, second): &Kind| {
            shift.abs() == 3600 && (3600..=23 * 3600).contains(second) && (3600..86_400).contains(&(second + shift))
        };
        assert!(kinds(&ZoneRules::find_bundled_rules(zone).unwrap()).iter().all(is_plain), "{zone}");
    }
}

/// CRONJOB-18, CRONJOB-19.
#[test]
fn legacy_zone_names_are_known_without_the_rules_of_the_system() {
    for (name, offset) in [("US/Eastern", -5), ("EST5EDT", -5), ("Etc/GMT+5", -5), ("Asia/Calcutta", 5), ("GB", 0)] {
        let zone = ZoneRules::find_bundled_rules(name).unwrap();
        assert_eq!(zone.utc_offset_seconds_at(1_772_323_200).unwrap() / 3600, offset, "{name}");
        assert!(ZoneRules::find_by_name(name).is_ok(), "{name}");
    }
    for name in ["us/eastern", "Nowhere", "EASTERN"] {
        assert_eq!(ZoneRules::find_by_name(name).unwrap_err(), UnknownTimeZone::NoRules(name.to_owned()));
    }
}

/// If two offsets within `MIN_SECONDS_BETWEEN_CLOCK_CHANGES` are equal, clocks did not change between them. The module `next`
/// relies on this.
#[test]
fn clocks_of_a_zone_do_not_change_twice_within_days() {
    const DAY: i64 = 86_400;
    let end = at("2100-01-01T00:00:00Z").as_second();
    for zone in &chrono_tz::TZ_VARIANTS {
        let rules = ZoneRules::Bundled(*zone);
        let mut last_change = None;
        let mut offset = rules.utc_offset_seconds_at(0);
        for day in (0..end).step_by(DAY as usize) {
            let next = rules.utc_offset_seconds_at(day);
            if next != offset {
                let since = last_change.map_or(i64::MAX, |last| day - last);
                assert!(since > next::MIN_SECONDS_BETWEEN_CLOCK_CHANGES, "{zone}: {since} s before {day}");
                (last_change, offset) = (Some(day), next);
            }
        }
    }
    for name in jiff::tz::db().available() {
        let zone = jiff::tz::TimeZone::get(name.as_str()).unwrap();
        let mut last: Option<(i64, jiff::tz::Offset)> = None;
        for change in zone.following(Timestamp::UNIX_EPOCH).take_while(|change| change.timestamp().as_second() < end) {
            let (time, offset) = (change.timestamp().as_second(), change.offset());
            if let Some((_, before)) = last
                && before == offset
            {
                continue;
            }
            let since = last.map_or(i64::MAX, |(last, _)| time - last);
            assert!(since > next::MIN_SECONDS_BETWEEN_CLOCK_CHANGES, "{}: {since} s before {time}", name.as_str());
            last = Some((time, offset));
        }
    }
}

/// The allowed values of each field, where an empty list allows all: a slow reference for the search.
#[derive(Clone, Debug)]
struct Wanted {
    minutes: Vec<u32>,
    hours: Vec<u32>,
    days: Vec<u32>,
    months: Vec<u32>,
    weekdays: Vec<u32>,
}

impl Wanted {
    fn text(&self) -> String {
        let field = |values: &[u32]| match values {
            [] => "*".to_owned(),
            _ => values.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        };
        let fields = [&self.minutes, &self.hours, &self.days, &self.months, &self.weekdays];
        fields.map(|values| field(values)).join(" ")
    }

    fn allows(&self, wall: NaiveDateTime) -> bool {
        let has = |values: &[u32], value| values.is_empty() || values.contains(&value);
        let day = has(&self.days, wall.day());
        let weekday = has(&self.weekdays, wall.weekday().num_days_from_sunday());
        let is_either = !self.days.is_empty() && !self.weekdays.is_empty();
        has(&self.minutes, wall.minute())
            && has(&self.hours, wall.hour())
            && has(&self.months, wall.month())
            && if is_either { day || weekday } else { day && weekday }
    }

    /// Returns the first minute after `after` and before `until` at which clocks show an allowed time.
    fn next(&self, zone: &ZoneRules, after: i64, until: i64) -> Option<i64> {
        let first = (after.div_euclid(60) + 1) * 60;
        (first..until).step_by(60).find(|minute| {
            let shown = minute + zone.utc_offset_seconds_at(*minute).unwrap();
            self.allows(DateTime::from_timestamp(shown, 0).unwrap().naive_utc())
        })
    }
}

prop_compose! {
    fn wanted()(
        minutes in prop::collection::vec(0u32..60, 0..4), hours in prop::collection::vec(0u32..24, 0..4),
        days in prop::collection::vec(1u32..32, 0..3), months in prop::collection::vec(1u32..13, 0..5),
        weekdays in prop::collection::vec(0u32..7, 0..3),
    ) -> Wanted {
        Wanted { minutes, hours, days, months, weekdays }
    }
}

/// Zones in which clocks change by one hour and not at midnight. Every instant with an allowed wall-clock time is a firing.
const PLAIN_ZONES: &[&str] =
    &["UTC", "America/New_York", "Europe/Berlin", "Europe/London", "Asia/Kolkata", "Australia/Sydney", "Asia/Tokyo"];
/// Zones in which clocks change at or across midnight, by more or less than an hour, or at another time of day than in
/// [`PLAIN_ZONES`]. In Kathmandu, clocks changed at midnight by a part of an hour once, at the start of 1986.
const ODD_ZONES: &[&str] = &[
    "Africa/Cairo",
    "Asia/Beirut",
    "America/Santiago",
    "America/Havana",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "America/Asuncion",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "Pacific/Apia",
    "Asia/Tehran",
    "Atlantic/Azores",
    "America/Nuuk",
    "Antarctica/Troll",
    "Asia/Famagusta",
    "Pacific/Chatham",
    "Pacific/Easter",
];

/// Returns a Unix second between 1975 and 2090; if `near`, a second at most a few days from a clock change of the zone.
fn instant(zone: &ZoneRules, year: i64, near: bool) -> i64 {
    const DAY: i64 = 86_400;
    let start = year * 31_556_952 + 157_766_400;
    if !near {
        return start;
    }
    let changed = (0..400)
        .map(|day| start + day * DAY)
        .find(|day| zone.utc_offset_seconds_at(*day) != zone.utc_offset_seconds_at(day + DAY));
    changed.map_or(start, |day| day - 2 * DAY + year % 7 * 40_000)
}

/// CRONJOB-12, CRONJOB-19.
#[test]
fn malformed_durations_and_zones_have_upstreams_errors() {
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

/// CRONJOB-13.
#[test]
fn intervals_are_whole_seconds_and_at_least_one() {
    for (text, seconds) in [("1h30m", 5400), ("90.9s", 90), ("10ms", 1), ("-5m", 1), ("+2m", 120), ("0", 1)] {
        let Schedule::Interval(interval) = Schedule::parse(&format!("@every {text}")).unwrap() else {
            panic!("{text}")
        };
        assert_eq!(interval.as_secs(), seconds, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// CRONJOB-14.
    #[test]
    fn the_next_firing_is_the_first_minute_with_an_allowed_time(
        wanted in wanted(), zone in prop::sample::select(PLAIN_ZONES), year in 0i64..115, near in any::<bool>(),
        seconds in 0i64..3_000_000,
    ) {
        let zone = ZoneRules::find_bundled_rules(zone).unwrap();
        let after = instant(&zone, year, near) + seconds;
        // The reference implementation checks every minute, so the test compares only the firings within 40 days.
        let until = after + 40 * 86_400;
        let Schedule::Cron { fields, .. } = Schedule::parse(&wanted.text()).unwrap() else { unreachable!() };
        let found = next::next_firing_second(&fields, &zone, after);
        let expected = wanted.next(&zone, after, until);
        prop_assert_eq!(found.filter(|found| *found < until), expected, "{} after {}", wanted.text(), after);
    }

    #[test]
    fn without_clock_changes_odd_zones_fire_at_allowed_times(
        wanted in wanted(), zone in prop::sample::select(ODD_ZONES), year in 0i64..115, seconds in 0i64..3_000_000,
    ) {
        let zone = ZoneRules::find_bundled_rules(zone).unwrap();
        let after = instant(&zone, year, false) + seconds;
        let until = after + 20 * 86_400;
        // A search may begin at the first day of the month, so earlier clock changes in the month matter, too.
        let changes = (after - 33 * 86_400..until + 86_400).step_by(86_400)
            .any(|at| zone.utc_offset_seconds_at(at) != zone.utc_offset_seconds_at(after));
        prop_assume!(!changes);
        let Schedule::Cron { fields, .. } = Schedule::parse(&wanted.text()).unwrap() else { unreachable!() };
        let found = next::next_firing_second(&fields, &zone, after);
        prop_assert_eq!(found.filter(|found| *found < until), wanted.next(&zone, after, until));
    }

    /// The shortcut through the crate `cron` finds the same firings as the search of robfig/cron.
    /// CRONJOB-16.
    #[test]
    fn the_shortcut_and_the_walk_agree(
        wanted in wanted(), zone in prop::sample::select([PLAIN_ZONES, ODD_ZONES].concat()), year in 0i64..115,
        near in any::<bool>(), seconds in 0i64..3_000_000,
    ) {
        let zone = ZoneRules::find_bundled_rules(zone).unwrap();
        let Schedule::Cron { fields, .. } = Schedule::parse(&wanted.text()).unwrap() else { unreachable!() };
        let mut after = instant(&zone, year, near) + seconds;
        for _ in 0..5 {
            let found = next::next_firing_second(&fields, &zone, after);
            prop_assert_eq!(found, next::next_firing_second_by_walk(&fields, &zone, after), "{} after {}", wanted.text(), after);
            let Some(found) = found else { break };
            after = found;
        }
    }

    /// The count of offset lookups of a search has an upper limit that does not depend on the schedule or the times.
    /// CRONJOB-22.
    #[test]
    fn a_search_takes_few_steps(
        wanted in wanted(), zone in prop::sample::select([PLAIN_ZONES, ODD_ZONES].concat()),
        after in -200_000_000_000i64..253_000_000_000, span in 0i64..200_000_000_000,
    ) {
        let Schedule::Cron { fields, .. } = Schedule::parse(&wanted.text()).unwrap() else { unreachable!() };
        let schedule = Schedule::Cron { fields, zone: ZoneRules::find_bundled_rules(zone).unwrap() };
        let after = Timestamp::from_second(after).unwrap();
        let now = Timestamp::from_second(after.as_second().saturating_add(span).min(253_000_000_000)).unwrap();
        let (_, steps) = lookups(|| schedule.next_firing_after(after));
        prop_assert!(steps < 3_000, "{steps} steps to the next firing");
        let (_, steps) = lookups(|| schedule.latest_firing(after, now));
        prop_assert!(steps < 60_000, "{steps} steps to the latest firing");
    }
}

/// CRONJOB-22.
#[test]
fn the_latest_of_millions_of_missed_firings_takes_few_steps() {
    for (text, latest) in [
        ("* * * * *", "2026-03-01T00:05:00Z"),
        ("*/7 * * * 1", "2026-02-23T23:56:00Z"),
        ("0 0 29 2 *", "2024-02-29T00:00:00Z"),
        ("@every 1s", "2026-03-01T00:05:30Z"),
    ] {
        let schedule = parse(text, "UTC").unwrap();
        let (found, steps) = lookups(|| schedule.latest_firing(Timestamp::UNIX_EPOCH, at("2026-03-01T00:05:30Z")));
        assert_eq!(found, Some(at(latest)), "{text}");
        // A binary search over the seconds of 56 years has 31 steps.
        assert!(steps < 20_000, "{text}: {steps}");
    }
}

/// CRONJOB-70.
#[test]
fn a_schedule_of_a_megabyte_is_parsed() {
    let minutes = "*/5,".repeat(250_000);
    let schedule = Schedule::parse(&format!("TZ=UTC {minutes} * * * *")).unwrap();
    assert_eq!(schedule.next_firing_after(at("2026-03-01T00:01:00Z")), Some(at("2026-03-01T00:05:00Z")));
    for item in ["1-".repeat(500_000), "1/".repeat(500_000), "9".repeat(1_000_000), "x ".repeat(500_000)] {
        assert!(Schedule::parse(&format!("{item} * * * *")).is_err());
    }
}

proptest! {
    #[test]
    fn the_parser_never_panics(text in "[ -~]{0,24}") {
        let _ = Schedule::parse(&text);
    }

    /// The binary search finds the same firing as steps from one firing to the next.
    /// CRONJOB-22, CRONJOB-75.
    #[test]
    fn the_latest_firing_is_the_last_one_of_a_walk(
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
        let mut next = schedule.next_firing_after(from);
        while let Some(at) = next.filter(|at| *at <= now) {
            walk = Some(at);
            next = schedule.next_firing_after(at);
        }
        prop_assert_eq!(schedule.latest_firing(from, now), walk);
    }
}
