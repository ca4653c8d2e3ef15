//! What users do with CronJobs.
//!
//! Runs begin on 2026-11-21 at 09:47 and a half, or shortly before clocks change. Schedules name minutes of one day, once a year:
//! once these are over, nothing is due any more.

use std::time::Duration;

use common::settings::TunableValue;
use serde_json::{Value, json};

use super::{
    cronjob_invariants::{CRON_JOBS, INSTANTIATE, INVARIANTS, JOBS, PROMISES, SCHEDULED},
    gc_invariants,
    replicaset::pod_interferences,
};
use crate::{
    scenario::{Interference, Scenario, Step, Suite, What, When, after, settled},
    stage::NAMESPACE,
    world::World,
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
        Interference { name: "run-by-hand", act: run_by_hand },
    ],
};

/// Several runs of one CronJob.
pub(super) const SERIES: Suite = Suite { name: "cronjob-series", scenarios: series, ..SUITE };

/// CronJobs whose controller does not run for a while. Another process may start the Jobs of the downtime one after the other.
/// Then the garbage collector removes the Pods of the Jobs that the history limit removes, so that each run ends in the same state.
pub(super) const DOWNTIME: Suite = Suite {
    name: "cronjob-downtime",
    programs: &[&cronjob_controller::DEFINITION, &job_controller::DEFINITION, &gc_controller::DEFINITION],
    // No kind comes or goes here, and each run of discovery costs more than all the rest.
    tunes: &[("gc-discovery-period", TunableValue::Duration(Duration::from_hours(1)))],
    scenarios: downtimes,
    invariants: &[INVARIANTS, gc_invariants::INVARIANTS],
    promises: &[PROMISES, gc_invariants::PROMISES],
    ..SUITE
};

/// The night in which clocks go forward. It begins in Berlin at 01:47 and a half, before 02:00 becomes 03:00.
pub(super) const SPRING: Suite = Suite { name: "cronjob-spring", scenarios: spring, ..SUITE };
/// When runs of that suite begin, in Unix milliseconds.
pub(super) const SPRING_START: i64 = 1_806_194_847_200;

/// The night in which clocks go back. It begins in Berlin at 02:17 and a half, before 03:00 becomes 02:00.
pub(super) const AUTUMN: Suite = Suite { name: "cronjob-autumn", scenarios: autumn, ..SUITE };
/// When runs of that suite begin, in Unix milliseconds.
pub(super) const AUTUMN_START: i64 = 1_792_887_447_200;

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
        Scenario {
            name: "by-hand",
            about: "a Job with the name of a run, which somebody else has made, costs that run and no more",
            steps: vec![create(stranger(FIRST)), create(tick(json!({"schedule": "50,55 9 21 11 *"}), "5"))],
        },
    ]
}

fn series() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "history",
            about: "one complete Job is kept of three",
            steps: vec![create(tick(
                json!({"schedule": "50,55,59 9 21 11 *", "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0}),
                "5",
            ))],
        },
        Scenario {
            name: "failed-history",
            about: "two failed Jobs are kept of three",
            steps: vec![create(failing(tick(
                json!({"schedule": "50,55,59 9 21 11 *", "successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 2}),
                "5",
            )))],
        },
        Scenario {
            name: "downtime",
            about: "of four runs that were missed while it was suspended only the last is made up for",
            steps: vec![
                create(tick(json!({"schedule": "50,52,54,56 9 21 11 *", "suspend": true}), "5")),
                after(600.0, spec(json!({"suspend": false}))),
            ],
        },
        Scenario {
            name: "too-late",
            about: "what is later than startingDeadlineSeconds is not started, and the next run is",
            steps: vec![
                create(tick(
                    json!({"schedule": "50 9,10 21 11 *", "startingDeadlineSeconds": 300, "suspend": true}),
                    "5",
                )),
                after(600.0, spec(json!({"suspend": false}))),
                // Until the run of 10:50 is over.
                after(3600.0, label()),
            ],
        },
        Scenario {
            name: "interval",
            about: "@every counts from the creation, and keeps its phase",
            steps: vec![
                create(tick(json!({"schedule": "@every 5m", "startingDeadlineSeconds": 280}), "5")),
                after(1000.0, spec(json!({"suspend": true}))),
            ],
        },
    ]
}

/// What is missed while no controller runs.
///
/// The controller is stopped a minute after the first run was started, and is back 24 minutes later. Faults may have held up
/// the first run for minutes: the other firings keep that distance from the beginning and the end of the downtime.
fn downtimes() -> Vec<Scenario> {
    let stopped = |mut spec: Value, seconds: &str| {
        spec["schedule"] = json!("50 9 21 11 *");
        let next = json!({"schedule": "0,5,10 10 21 11 *"});
        vec![
            create(tick(spec, seconds)),
            Step { when: When::Shows(JOBS, FIRST, "/status/active", 1), what: self::spec(next) },
            after(60.0, What::Stop(Duration::from_mins(24))),
        ]
    };
    // One Job after the other runs for longer than users wait for things to settle.
    let until_jobs_end = |steps: Vec<Step>| steps.into_iter().chain([after(6000.0, label())]).collect::<Vec<_>>();
    vec![
        Scenario {
            name: "stopped-allow",
            about: "Allow: of three runs that were missed while no controller ran only the last is made up for",
            steps: stopped(json!({}), "400"),
        },
        Scenario {
            name: "stopped-forbid",
            about: "Forbid: the last of the runs that were missed is made up for when the Job of before has ended",
            steps: until_jobs_end(stopped(json!({"concurrencyPolicy": "Forbid"}), "2700")),
        },
        Scenario {
            name: "stopped-replace",
            about: "Replace: the last of the runs that were missed takes the place of the Job of before",
            steps: until_jobs_end(stopped(json!({"concurrencyPolicy": "Replace"}), "2700")),
        },
        Scenario {
            name: "stopped-within-deadline",
            about: "the last of the runs that were missed is within startingDeadlineSeconds, and made up for",
            steps: stopped(json!({"startingDeadlineSeconds": 1800}), "400"),
        },
        Scenario {
            name: "stopped-beyond-deadline",
            about: "all runs that were missed are later than startingDeadlineSeconds, and none is made up for",
            steps: stopped(json!({"startingDeadlineSeconds": 240}), "400"),
        },
        Scenario {
            name: "paused",
            about: "the controller hangs while four runs are due: the last is made up for",
            // Another process may take over. Of the Jobs that it starts, the last one is left, too.
            steps: vec![
                create(tick(
                    json!({"schedule": "50-56/2 9 21 11 *", "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0}),
                    "5",
                )),
                after(60.0, What::Pause(Duration::from_mins(10))),
                after(1200.0, label()),
            ],
        },
    ]
}

/// The same CronJob, with Jobs that fail.
fn failing(mut cron: Value) -> Value {
    cron["spec"]["jobTemplate"]["spec"]["backoffLimit"] = json!(0);
    cron["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["annotations"]["sim/exit"] = json!("1");
    cron
}

/// A Job without an owner.
fn stranger(name: &str) -> Value {
    let cron = tick(json!({}), "5");
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": cron["spec"]["jobTemplate"]["spec"]})
}

/// A change that means nothing, to wait for.
fn label() -> What {
    What::merge(CRON_JOBS, TICK, json!({"metadata": {"labels": {"seen": "yes"}}}))
}

/// The same CronJob, with the clocks of Berlin.
fn in_berlin(mut cron: Value) -> Value {
    cron["spec"]["timeZone"] = json!("Europe/Berlin");
    cron
}

fn spring() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "gap",
            about: "02:30 does not exist and has no run, 03:30 has one",
            steps: vec![create(in_berlin(tick(json!({"schedule": "30 2,3 28 3 *"}), "5"))), after(3600.0, label())],
        },
        Scenario {
            name: "gap-half-hourly",
            about: "half-hourly runs go on without a hole",
            steps: vec![create(in_berlin(tick(json!({"schedule": "*/30 1-3 28 3 *"}), "5"))), after(3600.0, label())],
        },
    ]
}

fn autumn() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "overlap",
            about: "02:30 comes twice and has two runs",
            steps: vec![create(in_berlin(tick(json!({"schedule": "30 2 25 10 *"}), "5"))), after(5400.0, label())],
        },
        Scenario {
            name: "overlap-interval",
            about: "@every does not look at clocks",
            steps: vec![
                create(in_berlin(tick(json!({"schedule": "@every 25m", "concurrencyPolicy": "Replace"}), "400"))),
                after(5400.0, spec(json!({"suspend": true}))),
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

/// Makes a Job from the CronJob by hand, under one of the names that users choose: those of runs are among them.
fn run_by_hand(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let Some(cron) = world.get(CRON_JOBS, NAMESPACE, TICK) else { return Vec::new() };
    let name = match luck % 6 {
        0 => "tick-1".to_owned(),
        1 => "manual".to_owned(),
        2 => "tick-29538725".to_owned(),
        3 => FIRST.to_owned(),
        4 => format!("tick-{}", luck / 6 % 100_000_000),
        _ => format!("tick-{}", 29_920_905 + luck / 6 % 20),
    };
    let mut annotations = json!({INSTANTIATE: "manual"});
    if luck / 128 % 2 == 1 {
        // As if the template had been copied from a Job.
        annotations[SCHEDULED] = json!("2026-11-21T09:50:00Z");
    }
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "annotations": annotations, "ownerReferences": [{"apiVersion": "batch/v1",
            "kind": "CronJob", "name": TICK, "uid": cron["metadata"]["uid"], "controller": true}]},
        "spec": cron["spec"]["jobTemplate"]["spec"]});
    vec![(Duration::ZERO, What::Create(job))]
}
