//! What always holds of CronJobs and their Jobs, and what holds in the end.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::clock::Instant;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use serde_json::{Value, json};

use super::rules::without;
use crate::{
    json::{annotation, at, condition, controller_uid, is_deleting, is_true, items, name, number, text, uid},
    scenario::{Invariant, Promise},
    stage::NAMESPACE,
    world::{Logged, World},
};

const CONTROLLER: &str = "cronjob-controller";
pub(super) const CRON_JOBS: &str = "cronjobs.batch";
pub(super) const JOBS: &str = "jobs.batch";
pub(super) const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
pub(super) const INSTANTIATE: &str = "cronjob.kubernetes.io/instantiate";
/// How much longer than its lag a controller may take to create a Job: retries are that far apart after a minute of refusals.
const RETRIES: Duration = Duration::from_mins(3);

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant { name: "a-run-is-started-once", claims: "CRONJOB-40, CRONJOB-68", check: a_run_is_started_once },
    Invariant {
        name: "schedules-go-forward",
        claims: "CRONJOB-28, CRONJOB-47, CRONJOB-50",
        check: schedules_go_forward,
    },
    Invariant {
        name: "starts-only-what-is-wanted",
        claims: "CRONJOB-29, CRONJOB-31",
        check: starts_only_what_is_wanted,
    },
    Invariant {
        name: "starts-only-what-is-due",
        claims: "CRONJOB-10, CRONJOB-23, CRONJOB-25, CRONJOB-38",
        check: starts_only_what_is_due,
    },
    Invariant { name: "one-missed-run-is-made-up-for", claims: "CRONJOB-24", check: one_missed_run_is_made_up_for },
    Invariant { name: "one-at-a-time", claims: "CRONJOB-33, CRONJOB-34, CRONJOB-42", check: one_at_a_time },
    Invariant { name: "deletes-only-what-ended", claims: "CRONJOB-34, CRONJOB-91", check: deletes_only_what_ended },
    Invariant { name: "keeps-the-history", claims: "CRONJOB-53, CRONJOB-56", check: keeps_the_history },
    Invariant { name: "records-only-its-own", claims: "CRONJOB-42, CRONJOB-90", check: records_only_its_own },
    Invariant { name: "wishes-are-the-users", claims: "CRONJOB-4", check: wishes_are_the_users },
];

pub(super) const PROMISES: &[Promise] = &[
    Promise {
        name: "records-are-the-truth",
        claims: "CRONJOB-45, CRONJOB-46, CRONJOB-50",
        check: records_are_the_truth,
    },
    Promise {
        name: "each-firing-has-its-run",
        claims: "CRONJOB-10, CRONJOB-23, CRONJOB-24, CRONJOB-25, CRONJOB-33",
        check: each_firing_has_its_run,
    },
];

/// A Job that the controller has just created, and its CronJob, which may be gone by now.
fn started<'a>(world: &'a World, logged: &Logged) -> Option<(Arc<Value>, &'a Arc<Value>)> {
    let job = logged.after().filter(|_| logged.is_of(CONTROLLER, JOBS) && logged.creates())?;
    let cron = world.by_uid(CRON_JOBS, controller_uid(&job))?;
    Some((job, cron))
}

fn is_finished(job: &Value) -> bool {
    ["Complete", "Failed"].iter().any(|kind| is_true(job, kind))
}

/// The scheduled time of a Job; nothing for a Job made by hand.
fn scheduled(job: &Value) -> Option<Timestamp> {
    let is_by_hand = !annotation(job, INSTANTIATE).is_empty();
    annotation(job, SCHEDULED).parse().ok().filter(|_| !is_by_hand)
}

fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// When a CronJob fires. Read here, and followed minute by minute, so that nothing that the controller makes of a schedule is
/// believed. Knows what the scenarios use: numbers, lists, ranges and steps, every day of the week, and intervals in minutes.
enum Schedule {
    /// Minutes, hours, days and months by the clocks of a time zone.
    Clock([BTreeSet<i8>; 4], TimeZone),
    Every(SignedDuration),
}

impl Schedule {
    fn of(cron: &Value) -> Option<Self> {
        let schedule = text(cron, "/spec/schedule");
        if let Some(interval) = schedule.strip_prefix("@every ") {
            return Some(Self::Every(SignedDuration::from_mins(interval.strip_suffix('m')?.parse().ok()?)));
        }
        let [minutes, hours, days, months, "*"] = schedule.split(' ').collect::<Vec<_>>()[..] else { return None };
        let fields = [field(minutes, 0, 59)?, field(hours, 0, 23)?, field(days, 1, 31)?, field(months, 1, 12)?];
        Some(Self::Clock(fields, TimeZone::get(text(cron, "/spec/timeZone")).ok()?))
    }

    /// Whether it fires at a time. Intervals are counted from the creation of the CronJob.
    fn fires(&self, created: Timestamp, at: Timestamp) -> bool {
        match self {
            Self::Every(interval) => {
                let passed = at.duration_since(created).as_secs();
                passed > 0 && passed % interval.as_secs() == 0
            }
            Self::Clock([minutes, hours, days, months], zone) => {
                let clock = zone.to_datetime(at);
                clock.second() == 0
                    && minutes.contains(&clock.minute())
                    && hours.contains(&clock.hour())
                    && days.contains(&clock.day())
                    && months.contains(&clock.month())
            }
        }
    }

    /// The next firing within a day, which is longer than a scenario.
    fn next(&self, created: Timestamp, after: Timestamp) -> Option<Timestamp> {
        let second = match self {
            Self::Every(_) => created.as_second(),
            Self::Clock(..) => 0,
        };
        let first = after.as_second() + 1 + (second - after.as_second() - 1).rem_euclid(60);
        let mut minutes = (0..24 * 60).filter_map(|minute| Timestamp::from_second(first + minute * 60).ok());
        minutes.find(|at| self.fires(created, *at))
    }
}

fn field(text: &str, least: i8, most: i8) -> Option<BTreeSet<i8>> {
    let mut numbers = BTreeSet::new();
    for part in text.split(',') {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (least, most),
            Some((from, to)) => (from.parse().ok()?, to.parse().ok()?),
            None => (range.parse().ok()?, range.parse().ok()?),
        };
        numbers.extend((from..=to).step_by(step.parse().ok()?));
    }
    Some(numbers)
}

fn fires(cron: &Value, run: Timestamp) -> bool {
    let created = time(cron, "/metadata/creationTimestamp");
    created.zip(Schedule::of(cron)).is_some_and(|(created, schedule)| schedule.fires(created, run))
}

fn a_run_is_started_once(world: &World, logged: &Logged) -> Option<String> {
    let (job, cron) = started(world, logged)?;
    let run = scheduled(&job);
    let same = |other: &&Logged| {
        other.resource() == JOBS
            && other.creates()
            && other.by(CONTROLLER)
            && other.after().is_some_and(|other| controller_uid(&other) == uid(cron) && scheduled(&other) == run)
    };
    match world.log().iter().filter(same).count() {
        0 | 1 => None,
        times => Some(format!("the run of {run:?} was started {times} times")),
    }
}

fn schedules_go_forward(_: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.changed(CONTROLLER, CRON_JOBS)?;
    let fields = ["/status/lastScheduleTime", "/status/lastSuccessfulTime"];
    let field = fields.into_iter().find(|field| time(&after, field) < time(&before, field))?;
    Some(format!("{field} goes back from {} to {}", text(&before, field), text(&after, field)))
}

fn starts_only_what_is_wanted(world: &World, logged: &Logged) -> Option<String> {
    let (job, cron) = started(world, logged)?;
    let mut states = world.recent(CRON_JOBS, NAMESPACE, name(cron)).into_iter();
    let wants = |state: Option<&Arc<Value>>| {
        state.is_some_and(|c| uid(c) == uid(cron) && !is_deleting(c) && at(c, "/spec/suspend") != Some(&json!(true)))
    };
    (!states.any(wants)).then(|| format!("Job {} is started for a CronJob that wants none", name(&job)))
}

/// A Job is created for a firing of a schedule that the controller could see, not before its time, nor after its deadline.
fn starts_only_what_is_due(world: &World, logged: &Logged) -> Option<String> {
    let (job, cron) = started(world, logged)?;
    let Some(run) = scheduled(&job) else { return Some(format!("Job {} has no scheduled time", name(&job))) };
    let clocks = SignedDuration::try_from(world.skew()).unwrap_or(SignedDuration::MAX) + SignedDuration::from_secs(1);
    let late = logged.write.at.duration_since(run);
    if late < -clocks {
        return Some(format!("the run of {run} is started at {}", logged.write.at));
    }
    let lag = SignedDuration::try_from(world.lag()).unwrap_or(SignedDuration::MAX);
    let states = world.recent(CRON_JOBS, NAMESPACE, name(cron));
    let could_be_due = |state: &Value| {
        let deadline = at(state, "/spec/startingDeadlineSeconds").and_then(Value::as_i64);
        fires(state, run) && deadline.is_none_or(|deadline| late <= SignedDuration::from_secs(deadline) + lag + clocks)
    };
    (!states.into_iter().flatten().any(|state| could_be_due(state))).then(|| {
        format!("the run of {run}, started at {}, is none of {}", logged.write.at, text(cron, "/spec/schedule"))
    })
}

/// Of the runs that are due, the last one is started: those before it were missed.
fn one_missed_run_is_made_up_for(world: &World, logged: &Logged) -> Option<String> {
    let (job, cron) = started(world, logged)?;
    let run = scheduled(&job)?;
    let slack = SignedDuration::try_from(world.lag() + world.skew()).unwrap_or(SignedDuration::MAX);
    let known = logged.write.at.checked_sub(slack + SignedDuration::from_secs(1)).unwrap_or(run);
    let overtaking = |state: &Arc<Value>| -> Option<Timestamp> {
        Schedule::of(state)?.next(time(state, "/metadata/creationTimestamp")?, run).filter(|next| *next <= known)
    };
    // A state of another schedule says nothing about this run.
    let mut states = world.recently(CRON_JOBS, NAMESPACE, name(cron)).filter(|state| fires(state, run)).peekable();
    if states.peek().is_none() || states.any(|state| overtaking(state).is_none()) {
        return None;
    }
    let next = overtaking(cron).unwrap_or(run);
    Some(format!("the run of {run} is started at {}, and that of {next} is due", logged.write.at))
}

fn one_at_a_time(world: &World, logged: &Logged) -> Option<String> {
    let (job, cron) = started(world, logged)?;
    let policy = text(cron, "/spec/concurrencyPolicy");
    // A Job that has been there for less than the lag may have been overlooked. Jobs made by hand do not count.
    let since = |at: Instant| world.now().saturating_duration_since(at);
    let old = |other: &&Arc<Value>| {
        let born = world.log().iter().find(|l| l.creates() && l.after().is_some_and(|o| uid(&o) == uid(other)));
        born.is_some_and(|born| since(born.at) > world.lag() + Duration::from_secs(1))
    };
    let others = world.list(JOBS).filter(|other| controller_uid(other) == uid(cron) && uid(other) != uid(&job));
    let active: Vec<&str> = others
        .filter(|other| scheduled(other).is_some() && !is_finished(other) && !is_deleting(other))
        .filter(old)
        .map(|other| name(other))
        .collect();
    (policy != "Allow" && !active.is_empty())
        .then(|| format!("{policy}: Job {} is started while {active:?} are active", name(&job)))
}

fn deletes_only_what_ended(world: &World, logged: &Logged) -> Option<String> {
    let job = logged.before().filter(|_| logged.by(CONTROLLER) && logged.deletes())?;
    let Some(cron) = world.by_uid(CRON_JOBS, controller_uid(&job)) else {
        return Some(format!("Job {} has no CronJob, and is deleted", name(&job)));
    };
    let is_replaced = text(cron, "/spec/concurrencyPolicy") == "Replace" && scheduled(&job).is_some();
    (!is_finished(&job) && !is_replaced).then(|| format!("Job {} runs, and is deleted", name(&job)))
}

/// A finished Job is deleted only if at least as many as the limit are left of its kind.
fn keeps_the_history(world: &World, logged: &Logged) -> Option<String> {
    let job = logged.before().filter(|_| logged.by(CONTROLLER) && logged.deletes())?;
    let cron = world.by_uid(CRON_JOBS, controller_uid(&job)).filter(|_| is_finished(&job))?;
    let (kind, limit) = match condition(&job, "Complete", "status") {
        "True" => ("Complete", "/spec/successfulJobsHistoryLimit"),
        _ => ("Failed", "/spec/failedJobsHistoryLimit"),
    };
    let is_kept = |other: &&Arc<Value>| {
        controller_uid(other) == uid(cron) && uid(other) != uid(&job) && is_true(other, kind) && !is_deleting(other)
    };
    let (kept, limit) = (world.list(JOBS).filter(is_kept).count() as i64, number(cron, limit));
    (kept < limit).then(|| format!("Job {} is deleted, and {kept} of {limit} are left", name(&job)))
}

fn records_only_its_own(world: &World, logged: &Logged) -> Option<String> {
    let cron = logged.after().filter(|_| logged.is_of(CONTROLLER, CRON_JOBS))?;
    let active = items(&cron, "/status/active");
    let mut uids: Vec<&str> = active.iter().map(|reference| text(reference, "/uid")).collect();
    for recorded in &uids {
        let job = world.by_uid(JOBS, recorded);
        let owner = job.map(|job| controller_uid(job));
        if owner != Some(uid(&cron)) {
            return Some(format!("a Job of {owner:?} is recorded"));
        }
        if job.is_some_and(|job| scheduled(job).is_none()) {
            return Some("a Job made by hand is recorded".to_owned());
        }
    }
    uids.sort_unstable();
    uids.windows(2).any(|pair| pair[0] == pair[1]).then(|| "a Job is recorded twice".to_owned())
}

/// Of a CronJob the controller writes the status alone, and of a Job nothing: it only creates and deletes Jobs.
fn wishes_are_the_users(_: &World, logged: &Logged) -> Option<String> {
    let (before, after) = logged.change().filter(|_| logged.by(CONTROLLER) && !logged.deletes())?;
    if logged.resource() == JOBS {
        return Some(format!("the Job {} is changed", text(&after, "/metadata/name")));
    }
    let without_status = |object: &Value| {
        let mut object = object.clone();
        object["status"].take();
        without(&object, &[])
    };
    let is_changed = logged.resource() == CRON_JOBS && without_status(&before) != without_status(&after);
    is_changed.then(|| "more than the status of the CronJob is written".to_owned())
}

/// In the end the unfinished Jobs that the controller created are recorded as active, and nothing else.
fn records_are_the_truth(world: &World) -> Option<String> {
    for cron in world.list(CRON_JOBS) {
        let active = items(cron, "/status/active");
        let mut recorded: Vec<&str> = active.iter().map(|reference| text(reference, "/uid")).collect();
        let is_active = |job: &&Arc<Value>| {
            controller_uid(job) == uid(cron) && scheduled(job).is_some() && !is_finished(job) && !is_deleting(job)
        };
        let mut active: Vec<&str> = world.list(JOBS).filter(is_active).map(|job| uid(job)).collect();
        recorded.sort_unstable();
        active.sort_unstable();
        if recorded != active {
            return Some(format!("{recorded:?} are recorded, and {active:?} are active"));
        }
        // The last run is the latest one there ever was.
        let runs = world.ever().filter(|((resource, ..), job, _)| resource == JOBS && controller_uid(job) == uid(cron));
        let latest = runs.filter_map(|(_, job, _)| scheduled(job)).max();
        if time(cron, "/status/lastScheduleTime") != latest {
            return Some(format!("{latest:?} was the last run, and {} is recorded", cron["status"]));
        }
    }
    None
}

/// A time during which a CronJob was the same, up to its status.
struct Era {
    from: Timestamp,
    cron: Arc<Value>,
    to: Timestamp,
}

/// How long after the last write nothing was written.
const REST: SignedDuration = SignedDuration::from_mins(60);

fn eras(world: &World) -> Vec<Era> {
    let mut eras: Vec<Era> = Vec::new();
    let end = world.log().last().map_or(Timestamp::MIN, |last| last.write.at + REST);
    for logged in world.log().iter().filter(|logged| logged.resource() == CRON_JOBS) {
        let (at, after) = (logged.write.at, logged.after());
        let before = logged.before();
        let last = before.and_then(|before| eras.iter_mut().rfind(|era| uid(&era.cron) == uid(&before)));
        match (last, after) {
            (Some(era), Some(cron)) if era.cron["spec"] == cron["spec"] && !is_deleting(&cron) => era.cron = cron,
            (last, after) => {
                if let Some(era) = last {
                    era.to = era.to.min(at);
                }
                eras.extend(after.map(|cron| Era { from: at, cron, to: end }));
            }
        }
    }
    eras.retain(|era| !is_deleting(&era.cron));
    eras
}

/// The first moment from `from` on at which no Job of the CronJob was there that had not finished; `None` if there was none.
fn idle_from(world: &World, cron: &Value, from: Timestamp) -> Option<Timestamp> {
    let mut active = BTreeSet::new();
    for logged in world.log().iter().filter(|logged| logged.resource() == JOBS) {
        if logged.write.at > from && active.is_empty() {
            return Some(from);
        }
        let Some(job) = logged.after().or_else(|| logged.before()).filter(|job| controller_uid(job) == uid(cron))
        else {
            continue;
        };
        if logged.after().is_some_and(|job| !is_finished(&job)) {
            active.insert(uid(&job).to_owned());
        } else if active.remove(uid(&job)) && active.is_empty() && logged.write.at > from {
            return Some(logged.write.at);
        }
    }
    active.is_empty().then_some(from)
}

/// The first moment from a firing on at which the controller may run and no Job keeps it from starting the next one; `None` if
/// there was none.
fn may_start_from(world: &World, cron: &Value, firing: Timestamp) -> Option<Timestamp> {
    let forbids = text(cron, "/spec/concurrencyPolicy") == "Forbid";
    let mut at = firing;
    loop {
        let runs = world.runs_from(at);
        let idle = if forbids { idle_from(world, cron, runs)? } else { runs };
        if idle == at {
            return Some(at);
        }
        at = idle;
    }
}

/// Each firing in the time of an unchanged CronJob has exactly one run, where policy, deadline and the run's lag allow it. The
/// last one that was missed while the controller was stopped, or while a Job forbade it, is made up for.
fn each_firing_has_its_run(world: &World) -> Option<String> {
    let slack = world.lag() + world.skew() + RETRIES;
    let slack = SignedDuration::try_from(slack).unwrap_or(SignedDuration::MAX);
    for Era { from, cron, to } in eras(world) {
        if at(&cron, "/spec/suspend") == Some(&json!(true)) {
            continue;
        }
        let deadline = at(&cron, "/spec/startingDeadlineSeconds").and_then(Value::as_i64);
        let deadline = deadline.map(SignedDuration::from_secs);
        let Some(schedule) = Schedule::of(&cron) else { continue };
        let Some(created) = time(&cron, "/metadata/creationTimestamp") else { continue };
        let start = if matches!(schedule, Schedule::Every(_)) { created } else { created.max(from) };
        let next = |after| schedule.next(created, after);
        let firings = std::iter::successors(next(start), |last| next(*last));
        for firing in firings.take_while(|firing| *firing < to) {
            let started = may_start_from(world, &cron, firing).and_then(|at| at.checked_add(slack).ok());
            let Some(started) = started.filter(|started| *started < to) else { continue };
            // A later firing takes the place of one that was missed.
            let is_superseded = next(firing).is_some_and(|next| next <= started);
            let is_too_late = deadline.is_some_and(|deadline| started.duration_since(firing) > deadline);
            if firing <= from || is_superseded || is_too_late {
                continue;
            }
            let job_name = format!("{}-{}", name(&cron), firing.as_second() / 60);
            let created = world.log().iter().filter(|logged| logged.resource() == JOBS && logged.creates());
            let jobs: Vec<Arc<Value>> = created.filter_map(Logged::after).collect();
            let is_run = |job: &&Arc<Value>| controller_uid(job) == uid(&cron) && scheduled(job) == Some(firing);
            // Another Job may have taken the name.
            let is_taken = jobs.iter().any(|job| name(job) == job_name && !is_run(&job));
            if !is_taken && !jobs.iter().any(|job| is_run(&job)) {
                return Some(format!("the firing of {firing} has no run ({})", cron["spec"]["schedule"]));
            }
        }
    }
    None
}
