//! What users do with CronJobs, and what always holds of them.
//!
//! Runs begin on 2026-11-21 at 09:47 and a half. Schedules name minutes of that day, once a year: nothing is due again.

use std::{sync::Arc, time::Duration};

use common::clock::Instant;
use serde_json::{Value, json};

use super::replicaset::pod_interferences;
use crate::simulation::{
    json::{at, condition, controller_uid, is_deleting, name, text, uid},
    scenario::{Interference, Invariant, Promise, Scenario, Step, Suite, What, When, after, settled},
    stage::NAMESPACE,
    world::{Logged, World},
};

/// CronJobs, with the controller of their Jobs.
pub(super) const SUITE: Suite = Suite {
    name: "cronjob",
    programs: &[&cronjob_controller::DEFINITION, &job_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    scenarios,
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "delete-pod", act: pod_interferences::delete },
        Interference { name: "suspend", act: suspend },
    ],
};

const CONTROLLER: &str = "cronjob-controller";
const CRON_JOBS: &str = "cronjobs.batch";
const JOBS: &str = "jobs.batch";
const TICK: &str = "tick";
/// The Job of 09:50.
const FIRST: &str = "tick-29920910";
const AT_0950: &str = "50 9 21 11 *";
const AT_0952: &str = "52 9 21 11 *";

fn tick(mut spec: Value, seconds: &str) -> Value {
    spec["timeZone"] = json!("Etc/UTC");
    spec["jobTemplate"] = json!({"spec": {"template": {
        "metadata": {"labels": {"app": TICK}, "annotations": {"sim/exit": "0", "sim/after": seconds, "sim/terminate-after": "2"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}}});
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": TICK}, "spec": spec})
}

fn create(object: Value) -> Step {
    after(0.1, What::Create(object))
}

fn spec(patch: Value) -> What {
    What::merge(CRON_JOBS, TICK, json!({ "spec": patch }))
}

/// Once the first Job runs, the next is due at 09:52.
fn next_run() -> Step {
    Step { when: When::Shows(JOBS, FIRST, "/status/active", 1), what: spec(json!({"schedule": AT_0952})) }
}

fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "one-run",
            about: "a Job at its time, recorded until it has ended",
            steps: vec![create(tick(json!({"schedule": AT_0950}), "5"))],
        },
        Scenario {
            name: "side-by-side",
            about: "Allow: the next Job is started while the one before runs",
            steps: vec![create(tick(json!({"schedule": AT_0950}), "400")), next_run()],
        },
        Scenario {
            name: "forbid",
            about: "Forbid: the next Job is started late, once the one before has ended",
            steps: vec![create(tick(json!({"schedule": AT_0950, "concurrencyPolicy": "Forbid"}), "400")), next_run()],
        },
        Scenario {
            name: "replace",
            about: "Replace: the one before is deleted first",
            steps: vec![create(tick(json!({"schedule": AT_0950, "concurrencyPolicy": "Replace"}), "400")), next_run()],
        },
        Scenario {
            name: "suspended",
            about: "suspended over its time, and made up for when it is resumed",
            steps: vec![
                create(tick(json!({"schedule": AT_0950, "suspend": true}), "5")),
                after(600.0, spec(json!({"suspend": false}))),
            ],
        },
        Scenario {
            name: "no-history",
            about: "Jobs that have ended are not kept",
            steps: vec![create(tick(
                json!({"schedule": AT_0950, "successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0}),
                "5",
            ))],
        },
        Scenario {
            name: "deleted",
            about: "a CronJob that is deleted while its Job runs starts no other",
            steps: vec![
                create(tick(json!({"schedule": AT_0950}), "5")),
                settled(What::Delete(CRON_JOBS.to_owned(), TICK.to_owned(), json!({"propagationPolicy": "Orphan"}))),
            ],
        },
    ]
}

/// Suspends, and resumes after a while.
fn suspend(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(cron) = world.get(CRON_JOBS, NAMESPACE, TICK) else { return Vec::new() };
    let suspended = cron["spec"]["suspend"] == json!(true);
    let suspend = |suspend: bool| spec(json!({ "suspend": suspend }));
    vec![(Duration::ZERO, suspend(!suspended)), (Duration::from_secs(luck % 30), suspend(suspended))]
}

const INVARIANTS: &[Invariant] = &[
    Invariant { name: "a-run-is-started-once", spec: "cronjob 16.1", check: a_run_is_started_once },
    Invariant { name: "schedules-go-forward", spec: "cronjob 16.2", check: schedules_go_forward },
    Invariant { name: "starts-only-what-is-wanted", spec: "cronjob 16.3", check: starts_only_what_is_wanted },
    Invariant { name: "one-at-a-time", spec: "cronjob 16.4", check: one_at_a_time },
    Invariant { name: "deletes-only-what-ended", spec: "cronjob 16.5", check: deletes_only_what_ended },
    Invariant { name: "records-only-its-own", spec: "cronjob 16.7, 16.9", check: records_only_its_own },
    Invariant { name: "wishes-are-the-users", spec: "cronjob 16.8", check: wishes_are_the_users },
];

const PROMISES: &[Promise] =
    &[Promise { name: "records-are-the-truth", spec: "cronjob 16.9", check: records_are_the_truth }];

/// A Job that the controller has just created, and its CronJob, dead or alive.
fn started<'a>(world: &'a World, logged: &Logged) -> Option<(Arc<Value>, &'a Arc<Value>)> {
    let job = logged.after().filter(|_| logged.by(CONTROLLER) && logged.resource() == JOBS && logged.creates())?;
    let cron = world.by_uid(CRON_JOBS, controller_uid(&job))?;
    Some((job, cron))
}

fn is_over(job: &Value) -> bool {
    ["Complete", "Failed"].iter().any(|kind| condition(job, kind, "status") == "True")
}

fn a_run_is_started_once(world: &World, logged: &Logged) -> Result<(), String> {
    let Some((job, _)) = started(world, logged) else { return Ok(()) };
    let same = |other: &&Logged| other.creates() && other.resource() == JOBS && other.write.name == logged.write.name;
    let times = world.log().iter().filter(same).count();
    if times > 1 { Err(format!("Job {} was started {times} times", name(&job))) } else { Ok(()) }
}

fn schedules_go_forward(_: &World, logged: &Logged) -> Result<(), String> {
    let (Some(before), Some(after)) = (logged.before(), logged.after()) else { return Ok(()) };
    if !logged.by(CONTROLLER) || logged.resource() != CRON_JOBS {
        return Ok(());
    }
    for field in ["/status/lastScheduleTime", "/status/lastSuccessfulTime"] {
        // Times of one form are ordered as texts are.
        if text(&after, field) < text(&before, field) {
            return Err(format!("{field} goes back from {} to {}", text(&before, field), text(&after, field)));
        }
    }
    Ok(())
}

fn starts_only_what_is_wanted(world: &World, logged: &Logged) -> Result<(), String> {
    let Some((job, cron)) = started(world, logged) else { return Ok(()) };
    let mut states = world.recent(CRON_JOBS, NAMESPACE, name(cron)).into_iter();
    let wants = |state: Option<&Arc<Value>>| {
        state.is_some_and(|c| uid(c) == uid(cron) && !is_deleting(c) && at(c, "/spec/suspend") != Some(&json!(true)))
    };
    if states.any(wants) { Ok(()) } else { Err(format!("Job {} is started for a CronJob that wants none", name(&job))) }
}

fn one_at_a_time(world: &World, logged: &Logged) -> Result<(), String> {
    let Some((job, cron)) = started(world, logged) else { return Ok(()) };
    let policy = text(cron, "/spec/concurrencyPolicy");
    if policy == "Allow" {
        return Ok(());
    }
    // Another one that ran for longer than anything can have been overlooked.
    let since = |at: Instant| world.now().saturating_duration_since(at);
    let old = |other: &&Arc<Value>| {
        let born = world.log().iter().find(|l| l.creates() && l.after().is_some_and(|o| uid(&o) == uid(other)));
        born.is_some_and(|born| since(born.at) > world.lag() + Duration::from_secs(1))
    };
    let others = world.list(JOBS).filter(|o| controller_uid(o) == uid(cron) && uid(o) != uid(&job));
    let running: Vec<&str> =
        others.filter(|o| !is_over(o) && !is_deleting(o)).filter(old).map(|other| name(other)).collect();
    if running.is_empty() {
        Ok(())
    } else {
        Err(format!("{policy}: Job {} is started while {running:?} run", name(&job)))
    }
}

fn deletes_only_what_ended(world: &World, logged: &Logged) -> Result<(), String> {
    let Some(job) = logged.before().filter(|_| logged.by(CONTROLLER) && logged.deletes()) else { return Ok(()) };
    let Some(cron) = world.by_uid(CRON_JOBS, controller_uid(&job)) else {
        return Err(format!("Job {} is nobody's, and deleted", name(&job)));
    };
    let replaced = text(cron, "/spec/concurrencyPolicy") == "Replace";
    if is_over(&job) || replaced { Ok(()) } else { Err(format!("Job {} runs, and is deleted", name(&job))) }
}

fn records_only_its_own(world: &World, logged: &Logged) -> Result<(), String> {
    let Some(cron) = logged.after().filter(|_| logged.by(CONTROLLER) && logged.resource() == CRON_JOBS) else {
        return Ok(());
    };
    let active = at(&cron, "/status/active").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut uids: Vec<&str> = active.iter().map(|reference| text(reference, "/uid")).collect();
    for job in &uids {
        let owner = world.by_uid(JOBS, job).map(|job| controller_uid(job));
        if owner != Some(uid(&cron)) {
            return Err(format!("a Job of {owner:?} is recorded"));
        }
    }
    uids.sort_unstable();
    if uids.windows(2).any(|pair| pair[0] == pair[1]) { Err("a Job is recorded twice".to_owned()) } else { Ok(()) }
}

fn wishes_are_the_users(_: &World, logged: &Logged) -> Result<(), String> {
    let (Some(before), Some(after)) = (logged.before(), logged.after()) else { return Ok(()) };
    let ours = logged.by(CONTROLLER) && logged.resource() == CRON_JOBS;
    if ours && before["spec"] != after["spec"] { Err("the spec is written".to_owned()) } else { Ok(()) }
}

/// In the end what is recorded as running runs, and nothing else.
fn records_are_the_truth(world: &World) -> Result<(), String> {
    for cron in world.list(CRON_JOBS) {
        let active = at(cron, "/status/active").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut recorded: Vec<&str> = active.iter().map(|reference| text(reference, "/uid")).collect();
        let jobs =
            world.list(JOBS).filter(|job| controller_uid(job) == uid(cron) && !is_over(job) && !is_deleting(job));
        let mut running: Vec<&str> = jobs.map(|job| uid(job)).collect();
        recorded.sort_unstable();
        running.sort_unstable();
        if recorded != running {
            return Err(format!("{recorded:?} are recorded, and {running:?} run"));
        }
        if text(cron, "/status/lastScheduleTime").is_empty() {
            return Err("no run was started".to_owned());
        }
    }
    Ok(())
}
