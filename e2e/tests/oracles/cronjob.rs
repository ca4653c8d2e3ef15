//! The oracles of CronJobs over the history of runs.

use super::*;

const SUITE: &str = "cronjob";
const CONTROLLER: &str = "cronjob-controller";
const JOBS: &str = "jobs.batch";

/// A CronJob that keeps one successful Job, and does not fire within the test.
fn cron_job() -> Act {
    let template = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}}});
    Act::user(move |_| {
        What::Create(json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "backup"},
            "spec": {"schedule": "0 0 1 1 *", "successfulJobsHistoryLimit": 1, "jobTemplate": template}}))
    })
}

/// A Job of the CronJob, which has no work to do.
fn job(name: &'static str) -> Act {
    Act::user(move |world| {
        let owner = world.get("cronjobs.batch", "default", "backup").expect("the CronJob exists");
        What::Create(json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "backup",
                "uid": uid(owner), "controller": true, "blockOwnerDeletion": true}]},
            "spec": {"completions": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}}}}))
    })
}

fn completes(name: &'static str) -> Act {
    Act::user(move |_| {
        let time = "2026-11-21T10:00:00Z";
        let condition =
            |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": time, "lastProbeTime": time});
        let conditions = [condition("SuccessCriteriaMet"), condition("Complete")];
        let status = json!({"conditions": conditions, "startTime": time, "completionTime": time});
        What::MergeStatus(JOBS.to_owned(), name.to_owned(), json!({ "status": status }))
    })
}

fn deletes(name: &'static str) -> Act {
    let options = json!({"propagationPolicy": "Background"});
    Act::impostor(CONTROLLER, move |_| What::Delete(JOBS.to_owned(), name.to_owned(), options.clone()))
}

fn with(acts: impl IntoIterator<Item = Act>) -> Vec<&'static str> {
    violations(SUITE, &[cron_job()].into_iter().chain(acts).collect::<Vec<_>>())
}

#[test]
fn a_finished_job_within_the_limit_is_kept() {
    let above_the_limit =
        with([job("backup-1"), job("backup-2"), completes("backup-1"), completes("backup-2"), deletes("backup-1")]);
    assert!(!above_the_limit.contains(&"keeps-the-history"), "{above_the_limit:?}");
    let within_the_limit = with([job("backup-1"), job("backup-2"), completes("backup-1"), deletes("backup-1")]);
    assert!(within_the_limit.contains(&"keeps-the-history"), "{within_the_limit:?}");
    assert!(!within_the_limit.contains(&"deletes-only-what-ended"), "{within_the_limit:?}");
}

#[test]
fn a_running_job_is_not_deleted() {
    let violated = with([job("backup-1"), deletes("backup-1")]);
    assert!(violated.contains(&"deletes-only-what-ended"), "{violated:?}");
}
