//! A cluster without nodes, and the CronJob `tick` in it. Tests finish Jobs with [`finish_job`].

pub(crate) use testkit::prelude::*;

pub(crate) const CRON_JOBS: &str = "cronjobs.batch";
pub(crate) const JOBS: &str = "jobs.batch";

/// A cluster that starts at 00:01:58, so that its tests begin at 00:02.
pub(crate) fn cluster() -> Cluster {
    Cluster::new(cronjob_controller::LOOPS, CRON_JOBS, "tick").at("2026-03-01T00:01:58Z")
}

/// Returns a CronJob with this schedule in UTC. Its Job template has a label, an annotation and one container.
pub(crate) fn tick(schedule: &str) -> Value {
    let pod_spec = merged(pod_spec("img:1"), json!({"restartPolicy": "Never"}));
    let job = json!({"metadata": {"labels": {"app": "tick"}, "annotations": {"note": "kept"}},
        "spec": {"template": {"spec": pod_spec}}});
    object("batch/v1", "CronJob", "tick", json!({"schedule": schedule, "timeZone": "Etc/UTC", "jobTemplate": job}))
}

/// Returns a CronJob that runs every five minutes, with these fields in its `spec`.
pub(crate) fn every_five_minutes(spec: Value) -> Value {
    with_spec(tick("*/5 * * * *"), spec)
}

/// Starts a cluster at 00:02 and creates the CronJob.
pub(crate) async fn world_with(cron_job: Value) -> World {
    let world = cluster().start().await;
    world.create(cron_job).await;
    world
}

/// Returns the names of the Jobs in `status.active`.
pub(crate) async fn active_jobs(world: &World) -> Vec<String> {
    let status = world.status().await;
    let active = status["active"].as_array().map_or(&[][..], Vec::as_slice);
    active.iter().map(|reference| text(reference, "name").to_owned()).collect()
}

/// Returns the scheduled times of all Jobs as "hour:minute", sorted.
pub(crate) async fn scheduled_times(world: &World) -> Vec<String> {
    let jobs = world.list(JOBS).await;
    let time = |job: &Value| {
        let annotation = &job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
        annotation.as_str().map(|at| at[11..16].to_owned())
    };
    let mut runs: Vec<String> = jobs.iter().filter_map(time).collect();
    runs.sort();
    runs
}

/// Finishes a Job now: sets the condition `kind`, which is `Complete` or `Failed`.
pub(crate) async fn finish_job(world: &World, job: &str, kind: &str) {
    let now = world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": now,
            "lastProbeTime": now})
    };
    let is_complete = kind == "Complete";
    let before = if is_complete { "SuccessCriteriaMet" } else { "FailureTarget" };
    let succeeded = if is_complete { json!(1) } else { Value::Null };
    for conditions in [json!([condition(before)]), json!([condition(before), condition(kind)])] {
        let is_last = conditions[1].is_object();
        let completed_at = if is_complete && is_last { json!(now) } else { Value::Null };
        let status = json!({"startTime": now, "completionTime": completed_at, "conditions": conditions,
            "succeeded": succeeded, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}});
        world.patch_status(JOBS, job, status).await;
    }
}
