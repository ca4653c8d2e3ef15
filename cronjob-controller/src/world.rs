//! Builds the CronJobs, Jobs and snapshots of the unit tests.

use std::{collections::BTreeMap, sync::Arc};

use common::prelude::*;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    decide::runs::job_name,
    objects::{CRON_JOB_SCHEDULED_TIMESTAMP_ANNOTATION, CRON_JOBS, CronJob},
    plan::Snapshot,
};

pub(crate) fn parse_timestamp(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Returns the snapshot at 00:07:30 of a CronJob that was created at 00:02 and runs every five minutes. `spec` adds fields.
pub(crate) fn cron_job_snapshot(spec: Value, status: Value, jobs: &[Value]) -> Snapshot {
    let mut cron = json!({"metadata": {"name": "tick", "namespace": "shop", "uid": "U", "creationTimestamp": "2026-03-01T00:02:00Z"},
        "spec": {"schedule": "*/5 * * * *", "timeZone": "UTC",
            "jobTemplate": {"spec": {"template": {"unheard": {"of": [1.50]}}}}}, "status": status});
    for (key, value) in spec.as_object().unwrap() {
        cron["spec"][key] = value.clone();
    }
    let cron: CronJob = serde_json::from_str(&cron.to_string()).unwrap();
    let jobs = jobs.iter().map(|job| Arc::new(serde_json::from_str(&job.to_string()).unwrap())).collect();
    Snapshot {
        owner: Owner::new(CRON_JOBS, &cron.metadata),
        cron_job: Arc::new(cron),
        was_cron_job_read_live: false,
        jobs,
        jobs_read_live: BTreeMap::new(),
        now: parse_timestamp("2026-03-01T00:07:30Z"),
    }
}

pub(crate) fn job_json(name: &str, start: Option<u32>, end: Option<&str>) -> Value {
    let conditions = end.map(|end| json!([{"type": end, "status": "True"}]));
    let time = |minute: u32| format!("2026-03-01T00:00:{minute:02}Z");
    json!({"metadata": {"name": name, "namespace": "shop", "uid": name},
        "status": {"startTime": start.map(time), "conditions": conditions, "completionTime": start.map(|s| time(s + 1))}})
}

pub(crate) fn status_with_active_jobs(names: &[&str]) -> Value {
    json!({"active": names.iter().map(|name| json!({"name": name, "uid": name})).collect::<Vec<_>>()})
}

pub(crate) fn job_of_run(scheduled: &str, start: Option<u32>, end: Option<&str>) -> Value {
    let mut job = job_json(&job_name("tick", parse_timestamp(scheduled)), start, end);
    job["metadata"]["annotations"] = json!({CRON_JOB_SCHEDULED_TIMESTAMP_ANNOTATION: scheduled});
    job
}

/// Returns a Job as `kubectl create job --from=cronjob/tick <name>` creates it, with the `annotations` of the template.
pub(crate) fn manually_created_job(name: &str, annotations: Value, end: Option<&str>) -> Value {
    let mut job = job_json(name, Some(1), end);
    job["metadata"]["annotations"] = annotations;
    job["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"] = json!("manual");
    job
}
