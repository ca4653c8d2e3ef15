//! The oracles of CronJobs over the history of runs.

use super::{
    Actor::{Impostor, User},
    *,
};

const ORACLES: Oracles = Oracles("cronjob");
const JOBS: &str = "jobs.batch";

/// A CronJob that keeps one successful Job, and does not fire within the test.
fn cron_job() -> Act {
    let template = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}}});
    User.creates(move |_| {
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "backup"},
            "spec": {"schedule": "0 0 1 1 *", "successfulJobsHistoryLimit": 1, "jobTemplate": template}})
    })
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
