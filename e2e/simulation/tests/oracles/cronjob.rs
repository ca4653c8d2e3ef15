//! The oracles of CronJobs over the history of runs.

use std::time::Duration;

use super::{
    Actor::{Impostor, User},
    *,
};

const ORACLES: Oracles = Oracles("cronjob");
const JOBS: &str = "jobs.batch";

/// A CronJob that keeps one successful Job, and does not fire within the test.
fn cron_job() -> Act {
    cron_job_with(json!({}))
}

fn cron_job_with(spec: Value) -> Act {
    let template = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}}});
    User.creates(move |_| {
        let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "backup"},
            "spec": {"schedule": "0 0 1 1 *", "timeZone": "Etc/UTC", "successfulJobsHistoryLimit": 1, "jobTemplate": template}});
        with_spec(cron, &spec)
    })
}

/// A Job that the controller creates for the run of that time.
fn starts(run: &'static str) -> Act {
    Impostor("cronjob-controller").creates(move |world| {
        let owner = world.get("cronjobs.batch", "default", "backup").expect("the CronJob exists");
        json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "backup-run", "ownerReferences": controlled_by(owner),
                "annotations": {"batch.kubernetes.io/cronjob-scheduled-timestamp": run}},
            "spec": {"completions": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}}})
    })
}

/// The controller does not run for 24 minutes.
fn stops() -> Act {
    User.acts(|_| What::Stop(Duration::from_mins(24)))
}

/// Half a minute passes.
fn waits() -> Act {
    User.patches("cronjobs.batch", "backup", json!({"metadata": {"labels": {"seen": "yes"}}}))
}

/// A Job of the CronJob, which has no work to do.
fn job(name: &'static str) -> Act {
    User.creates(move |world| {
        let owner = world.get("cronjobs.batch", "default", "backup").expect("the CronJob exists");
        json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "ownerReferences": controlled_by(owner)},
            "spec": {"completions": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}}})
    })
}

fn completes(name: &'static str) -> Act {
    let time = "2026-11-21T10:00:00Z";
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": time, "lastProbeTime": time});
    let conditions = [condition("SuccessCriteriaMet"), condition("Complete")];
    User.patches_status(JOBS, name, json!({"conditions": conditions, "startTime": time, "completionTime": time}))
}

fn deletes(name: &'static str) -> Act {
    Impostor("cronjob-controller").deletes_with(JOBS, name, json!({"propagationPolicy": "Background"}))
}

#[test]
fn a_finished_job_within_the_limit_is_kept() {
    let two = [cron_job(), job("backup-1"), job("backup-2"), completes("backup-1")];
    ORACLES.notice("keeps-the-history", &two, &[deletes("backup-1")]);
    ORACLES.allow("deletes-only-what-ended", &two, &[deletes("backup-1")]);
    ORACLES.allow("keeps-the-history", &two, &[completes("backup-2"), deletes("backup-1")]);
}

#[test]
fn a_running_job_is_not_deleted() {
    ORACLES.notice("deletes-only-what-ended", &[cron_job(), job("backup-1")], &[deletes("backup-1")]);
}

#[test]
fn a_cron_job_whose_labels_are_written_and_a_job_that_is_changed_are_noticed() {
    let (oracle, controller) = ("wishes-are-the-users", Impostor("cronjob-controller"));
    let world = [cron_job(), job("backup-1"), completes("backup-1")];
    let label = json!({"metadata": {"labels": {"seen": "yes"}}});
    ORACLES.notice(oracle, &world, &[controller.patches("cronjobs.batch", "backup", label.clone())]);
    ORACLES.notice(oracle, &world, &[controller.patches(JOBS, "backup-1", label)]);
    let status = json!({"lastScheduleTime": "2026-11-21T09:47:00Z"});
    let allowed = [controller.patches_status("cronjobs.batch", "backup", status), deletes("backup-1")];
    ORACLES.allow(oracle, &world, &allowed);
}

#[test]
fn a_run_that_another_one_has_overtaken_is_not_started() {
    // The acts are at 09:47:57, 09:48:27, 09:48:57 and 09:49:27, and a little later.
    let (oracle, schedule) = ("one-missed-run-is-made-up-for", json!({"schedule": "48,49 9 21 11 *"}));
    let world = [cron_job_with(schedule), waits(), waits()];
    ORACLES.notice(oracle, &world, &[starts("2026-11-21T09:48:00Z")]);
    ORACLES.allow(oracle, &world, &[starts("2026-11-21T09:49:00Z")]);
    ORACLES.allow(oracle, &world[..1], &[starts("2026-11-21T09:48:00Z")]);
}

#[test]
fn the_last_run_that_was_missed_is_owed_within_its_deadline() {
    let oracle = "each-firing-has-its-run";
    let fires =
        |deadline: i64| cron_job_with(json!({"schedule": "50,55 9 21 11 *", "startingDeadlineSeconds": deadline}));
    ORACLES.notice_that(oracle, "2026-11-21T09:50:00Z", &[], &[fires(1800)]);
    ORACLES.notice_that(oracle, "2026-11-21T09:55:00Z", &[stops()], &[fires(1800)]);
    ORACLES.allow(oracle, &[stops()], &[fires(1800), starts("2026-11-21T09:55:00Z")]);
    ORACLES.notice(oracle, &[], &[fires(240)]);
    ORACLES.allow(oracle, &[stops()], &[fires(240)]);
}

#[test]
fn a_run_that_was_forbidden_is_owed_when_the_job_of_before_has_ended() {
    let oracle = "each-firing-has-its-run";
    let cron = cron_job_with(json!({"schedule": "55 9 21 11 *", "concurrencyPolicy": "Forbid"}));
    let world = [job("backup-1"), completes("backup-1")];
    ORACLES.notice(oracle, &[cron, world[0].clone()], &[world[1].clone()]);
}
