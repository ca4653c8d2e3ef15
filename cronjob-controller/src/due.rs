//! Selects the run that is due, and computes the time of the next run.
//!
//! After any downtime at most one run is caught up: the last run that `startingDeadlineSeconds` allows. Upstream:
//! `pkg/controller/cronjob`, `mostRecentScheduleTime` and `nextScheduleTimeDuration`. Upstream extrapolates from the interval
//! between the first two missed runs, and so misses runs of irregular schedules. Upstream counts `@every` from the deadline
//! instead of the last run, so that an interval longer than the deadline never fires, and adds 100 ms to each delay.

use jiff::{SignedDuration, Timestamp};

use crate::schedule::Schedule;

/// Number of missed runs above which a Warning Event is recorded, as upstream.
const MANY: i64 = 100;

/// The schedule has no next firing, or two firings in the same second. The message is that of upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub struct InvalidFiringInterval;

/// The time at which the search for the next run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunSearchStart {
    /// Creation time of a CronJob without runs.
    Creation(Timestamp),
    /// Scheduled time of the last run that the status records.
    LastRun(Timestamp),
}

impl RunSearchStart {
    /// Returns the time of the creation or of the last run.
    pub fn start_time(self) -> Timestamp {
        match self {
            Self::Creation(time) | Self::LastRun(time) => time,
        }
    }

    /// Compares minutes, from which Job names are derived. The creation of a CronJob has no Job name.
    fn is_in_minute_of(self, run: Timestamp) -> bool {
        matches!(self, Self::LastRun(last) if last.as_second().div_euclid(60) == run.as_second().div_euclid(60))
    }
}

/// Result of the search for the run that is due: at most one run, and whether many runs were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueRun {
    /// Scheduled time of the run to start; `None` if no run is due.
    pub scheduled_time: Option<Timestamp>,
    /// Whether more than 100 runs were missed, so that a Warning Event is recorded.
    pub has_many_missed_runs: bool,
}

/// Returns the run that is due at `now`: the last firing after the start of the search that is at most `deadline` old.
///
/// A firing within the minute of the last run, as of `@every 45s`, is never due, because its Job would have the same name.
pub fn find_due_run(
    schedule: &Schedule,
    search_start: RunSearchStart,
    deadline: Option<SignedDuration>,
    now: Timestamp,
) -> Result<DueRun, InvalidFiringInterval> {
    let start = search_start.start_time();
    let earliest = deadline.and_then(|deadline| now.checked_sub(deadline).ok()).map_or(start, |from| from.max(start));
    // An interval always counts from the last run, regardless of the deadline.
    let from = if matches!(schedule, Schedule::Interval(_)) { start } else { earliest };
    let first = schedule.next_firing_after(from).ok_or(InvalidFiringInterval)?;
    if now < first {
        return Ok(DueRun { scheduled_time: None, has_many_missed_runs: false });
    }
    let gap = schedule.next_firing_after(first).map_or(0, |second| second.duration_since(first).as_secs());
    if gap < 1 {
        return Err(InvalidFiringInterval);
    }
    let is_due = |run: &Timestamp| *run > earliest && !search_start.is_in_minute_of(*run);
    let scheduled_time = schedule.latest_firing(from, now).filter(is_due);
    let missed = scheduled_time.map_or(0, |run| run.duration_since(first.max(earliest)).as_secs() / gap + 1);
    Ok(DueRun { scheduled_time, has_many_missed_runs: missed > MANY })
}

/// Returns the first firing after `now` that has another Job name than the last run.
pub fn next_firing_with_new_job_name(
    schedule: &Schedule,
    search_start: RunSearchStart,
    now: Timestamp,
) -> Option<Timestamp> {
    match (schedule.latest_firing(search_start.start_time(), now), search_start) {
        (Some(latest), _) => schedule.next_firing_in_later_minute(latest),
        (None, RunSearchStart::LastRun(last)) => schedule.next_firing_in_later_minute(last),
        (None, RunSearchStart::Creation(created)) => schedule.next_firing_after(created),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-{text}Z").parse().unwrap()
    }

    fn utc_schedule(text: &str) -> Schedule {
        Schedule::parse(&format!("TZ=UTC {text}")).unwrap()
    }

    /// Rows: schedule, last run, now, deadline in seconds, the run that is due, whether many runs were missed, and seconds to
    /// the next firing.
    ///
    /// Three rows differ from upstream, which misses the runs of the 13th and of 14:30, and never fires `@every` with a deadline
    /// shorter than its interval.
    /// CRONJOB-23, CRONJOB-24, CRONJOB-26, CRONJOB-75, CRONJOB-76.
    #[test]
    fn only_the_last_missed_run_is_caught_up() {
        type Row = (&'static str, &'static str, &'static str, Option<i64>, Option<&'static str>, bool, f64);
        let rows: &[Row] = &[
            ("*/5 * * * *", "03-01T00:02:00", "03-01T00:04:00", None, None, false, 60.1),
            ("*/5 * * * *", "03-01T00:02:00", "03-01T00:05:00.1", None, Some("03-01T00:05:00"), false, 300.0),
            ("*/5 * * * *", "03-01T00:05:00", "03-01T00:05:01", None, None, false, 299.1),
            ("*/5 * * * *", "03-01T00:05:00", "03-01T00:27:30", None, Some("03-01T00:25:00"), false, 150.1),
            ("*/5 * * * *", "03-01T00:05:00", "03-01T00:27:30", Some(60), None, false, 150.1),
            ("*/5 * * * *", "03-01T00:05:00", "03-01T00:27:30", Some(200), Some("03-01T00:25:00"), false, 150.1),
            ("* * * * *", "03-01T00:05:00", "03-01T01:45:30", None, Some("03-01T01:45:00"), false, 30.1),
            ("* * * * *", "03-01T00:05:00", "03-01T01:46:30", None, Some("03-01T01:46:00"), true, 30.1),
            ("0 0 1 * *", "01-15T00:00:00", "04-01T00:00:05", None, Some("04-01T00:00:00"), false, 2_591_995.1),
            ("0 0 1 * *", "01-15T00:00:00", "03-20T00:00:05", None, Some("03-01T00:00:00"), false, 1_036_795.1),
            ("0 9 * * 1-5", "03-06T09:00:00", "03-15T12:00:00", None, Some("03-13T09:00:00"), false, 75_600.1),
            ("0 9 * * 1-5", "03-05T09:00:00", "03-11T12:00:00", None, Some("03-11T09:00:00"), false, 75_600.1),
            ("30 6-16/4 * * 1-5", "03-06T06:30:00", "03-06T20:00:00", None, Some("03-06T14:30:00"), false, 210_600.1),
            ("@every 1h", "03-01T10:17:42", "03-01T11:17:42.1", None, Some("03-01T11:17:42"), false, 3600.0),
            ("@every 1h", "03-01T10:17:42", "03-01T14:00:00", None, Some("03-01T13:17:42"), false, 1062.1),
            ("@every 1h", "03-01T10:17:42", "03-01T11:17:42.1", Some(60), Some("03-01T11:17:42"), false, 3600.0),
            ("@every 1h", "03-01T10:17:42", "03-01T11:27:42", Some(60), None, false, 3000.1),
        ];
        for (text, last_run, now, deadline, run, has_many_missed_runs, wait) in rows {
            let schedule = utc_schedule(text);
            let (search_start, now) = (RunSearchStart::LastRun(at(last_run)), at(now));
            let due = find_due_run(&schedule, search_start, deadline.map(SignedDuration::from_secs), now).unwrap();
            let want = DueRun { scheduled_time: run.map(at), has_many_missed_runs: *has_many_missed_runs };
            assert_eq!(due, want, "{text} at {now}");
            // The last column includes the 100 ms that upstream adds to each delay.
            let delay = next_firing_with_new_job_name(&schedule, search_start, now).unwrap().duration_since(now);
            assert!((delay.as_secs_f64() + 0.1 - wait).abs() < 1e-6, "{text} at {now}: {delay:?}, not {wait}");
        }
    }

    /// CRONJOB-25.
    #[test]
    fn with_a_deadline_of_zero_no_run_is_due() {
        let search_start = RunSearchStart::Creation(at("03-01T00:02:00"));
        let (deadline, now) = (Some(SignedDuration::ZERO), at("03-01T00:05:00.05"));
        let due = find_due_run(&utc_schedule("*/5 * * * *"), search_start, deadline, now).unwrap();
        assert_eq!(due.scheduled_time, None);
    }

    /// Rows: schedule, start of the search, and the second after midnight of the next firing. No earlier second is a firing.
    /// CRONJOB-23, CRONJOB-27.
    #[test]
    fn firings_within_the_minute_of_the_last_run_are_skipped() {
        let second = |second: i64| Timestamp::from_second(1_772_323_200 + second).unwrap();
        for (text, search_start, next) in [
            // The CronJob was created at 00:00:10; its first run may be within the same minute.
            ("@every 45s", RunSearchStart::Creation(second(10)), 55),
            ("@every 45s", RunSearchStart::LastRun(second(10)), 100),
            ("@every 45s", RunSearchStart::LastRun(second(55)), 100),
            ("@every 1s", RunSearchStart::LastRun(second(55)), 60),
            ("@every 60s", RunSearchStart::LastRun(second(55)), 115),
            ("@every 61s", RunSearchStart::LastRun(second(55)), 116),
        ] {
            let schedule = Schedule::parse(text).unwrap();
            let due_at = |now: Timestamp| find_due_run(&schedule, search_start, None, now).unwrap().scheduled_time;
            for now in search_start.start_time().as_second()..second(next).as_second() {
                let now = Timestamp::from_second(now).unwrap();
                let found = (next_firing_with_new_job_name(&schedule, search_start, now), due_at(now));
                assert_eq!(found, (Some(second(next)), None), "{text} after {search_start:?} at {now}");
            }
            assert_eq!(due_at(second(next)), Some(second(next)), "{text}");
        }
    }

    /// CRONJOB-17.
    #[test]
    fn a_schedule_that_never_fires_is_an_error() {
        for text in ["59 23 31 2 *", ", * * * *", "* , * * *", "* * * , *", "* * , * ,"] {
            let search_start = RunSearchStart::Creation(at("03-01T00:00:00"));
            let due = find_due_run(&utc_schedule(text), search_start, None, at("03-02T00:00:00"));
            assert_eq!(due, Err(InvalidFiringInterval), "{text}");
        }
    }
}
