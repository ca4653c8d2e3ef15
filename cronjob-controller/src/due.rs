//! Which run is due, and when to look again.
//!
//! After any downtime at most one run is made up for: the last. What is too late by `startingDeadlineSeconds` is not.
//! Upstream: `pkg/controller/cronjob`, `mostRecentScheduleTime` and `nextScheduleTimeDuration`, which extrapolate from the
//! distance of the first two runs missed and so lose runs of schedules that are not regular, and which measure `@every` from
//! the deadline instead of the last run, so that it never fires.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::schedule::Schedule;

/// By how much a look comes later than the time it is for.
const PADDING: SignedDuration = SignedDuration::from_millis(100);
/// From how many runs missed on that is said.
const MANY: i64 = 100;

/// A schedule that does not fire as schedules do. The words are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub struct NeverFires;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The run to start, if there is one.
    pub run: Option<Timestamp>,
    /// Whether so many runs were missed that something may be wrong.
    pub many_missed: bool,
}

/// The run that is due at `now`: the last one after `anchor`, if it is not later than `deadline` allows.
pub fn due(
    schedule: &Schedule,
    anchor: Timestamp,
    deadline: Option<SignedDuration>,
    now: Timestamp,
) -> Result<Due, NeverFires> {
    const NONE: Due = Due { run: None, many_missed: false };
    let earliest = deadline.and_then(|deadline| now.checked_sub(deadline).ok()).map_or(anchor, |from| from.max(anchor));
    // What repeats is counted from the last run, wherever the deadline lies.
    let from = if matches!(schedule, Schedule::Every(_)) { anchor } else { earliest };
    let first = schedule.next(from).ok_or(NeverFires)?;
    if now < first {
        return Ok(NONE);
    }
    let gap = schedule.next(first).map_or(0, |second| second.duration_since(first).as_secs());
    if gap < 1 {
        return Err(NeverFires);
    }
    let run = schedule.latest(from, now).filter(|run| *run > earliest);
    let missed = run.map_or(0, |run| run.duration_since(first.max(earliest)).as_secs() / gap + 1);
    Ok(Due { run, many_missed: missed > MANY })
}

/// The next time it fires that has not been looked at, and how long to wait for it.
pub fn next_look(schedule: &Schedule, anchor: Timestamp, now: Timestamp) -> (Option<Timestamp>, Duration) {
    let last = schedule.latest(anchor, now).unwrap_or(anchor);
    let next = schedule.next(last);
    let wait = next.and_then(|next| Duration::try_from(next.duration_since(now) + PADDING).ok());
    (next, wait.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// The worked examples: schedule, from, now, deadline, run due, whether many were missed, seconds to wait.
    ///
    /// Three rows are not upstream's: it loses the run of the 13th and that of 14:30, and never fires `@every` under a
    /// deadline shorter than its interval.
    #[test]
    fn the_last_run_is_made_up_for_and_no_other() {
        type Row = (&'static str, &'static str, &'static str, Option<i64>, Option<&'static str>, bool, f64);
        let rows: &[Row] = &[
            ("*/5 * * * *", "2026-03-01T00:02:00Z", "2026-03-01T00:04:00Z", None, None, false, 60.1),
            (
                "*/5 * * * *",
                "2026-03-01T00:02:00Z",
                "2026-03-01T00:05:00.1Z",
                None,
                Some("2026-03-01T00:05:00Z"),
                false,
                300.0,
            ),
            ("*/5 * * * *", "2026-03-01T00:05:00Z", "2026-03-01T00:05:01Z", None, None, false, 299.1),
            (
                "*/5 * * * *",
                "2026-03-01T00:05:00Z",
                "2026-03-01T00:27:30Z",
                None,
                Some("2026-03-01T00:25:00Z"),
                false,
                150.1,
            ),
            ("*/5 * * * *", "2026-03-01T00:05:00Z", "2026-03-01T00:27:30Z", Some(60), None, false, 150.1),
            (
                "*/5 * * * *",
                "2026-03-01T00:05:00Z",
                "2026-03-01T00:27:30Z",
                Some(200),
                Some("2026-03-01T00:25:00Z"),
                false,
                150.1,
            ),
            (
                "* * * * *",
                "2026-03-01T00:05:00Z",
                "2026-03-01T01:45:30Z",
                None,
                Some("2026-03-01T01:45:00Z"),
                false,
                30.1,
            ),
            (
                "* * * * *",
                "2026-03-01T00:05:00Z",
                "2026-03-01T01:46:30Z",
                None,
                Some("2026-03-01T01:46:00Z"),
                true,
                30.1,
            ),
            (
                "0 0 1 * *",
                "2026-01-15T00:00:00Z",
                "2026-04-01T00:00:05Z",
                None,
                Some("2026-04-01T00:00:00Z"),
                false,
                2_591_995.1,
            ),
            (
                "0 0 1 * *",
                "2026-01-15T00:00:00Z",
                "2026-03-20T00:00:05Z",
                None,
                Some("2026-03-01T00:00:00Z"),
                false,
                1_036_795.1,
            ),
            (
                "0 9 * * 1-5",
                "2026-03-06T09:00:00Z",
                "2026-03-15T12:00:00Z",
                None,
                Some("2026-03-13T09:00:00Z"),
                false,
                75_600.1,
            ),
            (
                "0 9 * * 1-5",
                "2026-03-05T09:00:00Z",
                "2026-03-11T12:00:00Z",
                None,
                Some("2026-03-11T09:00:00Z"),
                false,
                75_600.1,
            ),
            (
                "30 6-16/4 * * 1-5",
                "2026-03-06T06:30:00Z",
                "2026-03-06T20:00:00Z",
                None,
                Some("2026-03-06T14:30:00Z"),
                false,
                210_600.1,
            ),
            (
                "@every 1h",
                "2026-03-01T10:17:42Z",
                "2026-03-01T11:17:42.1Z",
                None,
                Some("2026-03-01T11:17:42Z"),
                false,
                3600.0,
            ),
            (
                "@every 1h",
                "2026-03-01T10:17:42Z",
                "2026-03-01T14:00:00Z",
                None,
                Some("2026-03-01T13:17:42Z"),
                false,
                1062.1,
            ),
            (
                "@every 1h",
                "2026-03-01T10:17:42Z",
                "2026-03-01T11:17:42.1Z",
                Some(60),
                Some("2026-03-01T11:17:42Z"),
                false,
                3600.0,
            ),
            ("@every 1h", "2026-03-01T10:17:42Z", "2026-03-01T11:27:42Z", Some(60), None, false, 3000.1),
        ];
        for (text, from, now, deadline, run, many_missed, wait) in rows {
            let schedule = Schedule::parse(&format!("TZ=UTC {text}")).unwrap();
            let (from, now) = (at(from), at(now));
            let due = due(&schedule, from, deadline.map(SignedDuration::from_secs), now).unwrap();
            assert_eq!(due, Due { run: run.map(at), many_missed: *many_missed }, "{text} at {now}");
            let (_, waits) = next_look(&schedule, from, now);
            assert!((waits.as_secs_f64() - wait).abs() < 1e-6, "{text} at {now}: {waits:?}, not {wait}");
        }
    }

    #[test]
    fn without_any_leeway_nothing_is_ever_in_time() {
        let schedule = Schedule::parse("TZ=UTC */5 * * * *").unwrap();
        let now = at("2026-03-01T00:05:00.05Z");
        let due = due(&schedule, at("2026-03-01T00:02:00Z"), Some(SignedDuration::ZERO), now).unwrap();
        assert_eq!(due.run, None);
    }

    #[test]
    fn a_schedule_that_never_fires_is_an_error_and_costs_nothing() {
        for text in ["59 23 31 2 *", ", * * * *", "* , * * *", "* * * , *", "* * , * ,"] {
            let schedule = Schedule::parse(&format!("TZ=UTC {text}")).unwrap();
            let (from, now) = (at("2026-03-01T00:00:00Z"), at("2026-03-02T00:00:00Z"));
            assert_eq!(due(&schedule, from, None, now), Err(NeverFires), "{text}");
        }
    }
}
