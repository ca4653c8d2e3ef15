//! CronJobs: the suites, and what users do at any moment.

use std::time::Duration;

use common::settings::TunableValue;
use serde_json::json;

use super::{
    cronjob_invariants::{CRON_JOBS, INSTANTIATE, INVARIANTS, PROMISES, SCHEDULED},
    gc_invariants,
    interferences::{at_once, delete_pod, suspend},
};
use crate::{
    scenario::{Deeds, Interference, Suite, What},
    stage::NAMESPACE,
    world::World,
};

pub(super) const SUITE: Suite = Suite {
    name: "cronjob",
    programs: &[&cronjob_controller::DEFINITION, &job_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    text: include_str!("cronjob.txt"),
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "delete-pod", act: delete_pod },
        Interference { name: "suspend", act: |world, luck| suspend(world, luck, CRON_JOBS, TICK) },
        Interference { name: "run-by-hand", act: run_by_hand },
    ],
};

pub(super) const SERIES: Suite = Suite { name: "cronjob-series", ..SUITE };

/// CronJobs whose controller does not run for a while. Another process may start the Jobs of the downtime one after the other.
/// Then the garbage collector removes the Pods of the Jobs that the history limit removes, so that each run ends in the same state.
pub(super) const DOWNTIME: Suite = Suite {
    name: "cronjob-downtime",
    programs: &[&cronjob_controller::DEFINITION, &job_controller::DEFINITION, &gc_controller::DEFINITION],
    // No kind comes or goes here, and each run of discovery costs more than all the rest.
    tunes: &[("gc-discovery-period", TunableValue::Duration(Duration::from_hours(1)))],
    invariants: &[INVARIANTS, gc_invariants::INVARIANTS],
    promises: &[PROMISES, gc_invariants::PROMISES],
    ..SUITE
};

/// The night in which clocks go forward. It begins in Berlin at 01:47 and a half, before 02:00 becomes 03:00.
pub(super) const SPRING: Suite = Suite { name: "cronjob-spring", ..SUITE };
/// When runs of that suite begin, in Unix milliseconds.
pub(super) const SPRING_START: i64 = 1_806_194_847_200;

/// The night in which clocks go back. It begins in Berlin at 02:17 and a half, before 03:00 becomes 02:00.
pub(super) const AUTUMN: Suite = Suite { name: "cronjob-autumn", ..SUITE };
/// When runs of that suite begin, in Unix milliseconds.
pub(super) const AUTUMN_START: i64 = 1_792_887_447_200;

const TICK: &str = "tick";
const FIRST: &str = "tick-29920910";

/// Makes a Job from the CronJob by hand, under one of the names that users choose: those of runs are among them.
fn run_by_hand(world: &World, luck: u64) -> Deeds {
    let cron = world.get(CRON_JOBS, NAMESPACE, TICK)?;
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
    at_once([What::Create(job)])
}
