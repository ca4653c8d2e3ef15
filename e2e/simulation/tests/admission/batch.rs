//! Jobs and CronJobs.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Operation::{Create, Delete, Status, Update},
    Pace, Situation, USUAL, meet, nothing,
    place::{Place, stray},
};

const JOBS: &str = "jobs.batch";
/// The back-off of Jobs. Upstream: `pkg/controller/job`, `DefaultJobApiBackOff` and `MaxJobApiBackOff`.
pub(crate) const JOB: Pace = Pace::Exponential(Duration::from_secs(1), Duration::from_secs(60));

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]}})
}

fn job(more: Value) -> Value {
    let mut spec = json!({"template": template()});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"}, "spec": spec})
}

/// The Pod of the Job ends well.
async fn succeed(place: Place) {
    let pod = place.only("pods").await;
    place.status("pods", &pod, json!({"phase": "Succeeded"})).await;
}

#[test]
fn jobs() {
    let situation = Situation {
        pace: JOB,
        then: |place| Box::pin(async move { drop(place.create(job(json!({}))).await) }),
        ..Situation::new("", Create, "pods")
    };
    meet(
        job_controller::LOOPS,
        &[],
        nothing,
        &[
            Situation { name: "create", ..situation },
            Situation {
                name: "suspend",
                operation: Delete,
                before: situation.then,
                then: |place| {
                    Box::pin(async move { place.merge(JOBS, "web", json!({"spec": {"suspend": true}})).await })
                },
                ..situation
            },
            Situation {
                name: "adopt",
                operation: Update,
                then: |place| {
                    Box::pin(async move {
                        let mut pod = stray("stray");
                        pod["spec"]["restartPolicy"] = json!("Never");
                        place.create(pod).await;
                        let selector = json!({"matchLabels": {"app": "web"}});
                        place.create(job(json!({"manualSelector": true, "selector": selector}))).await;
                    })
                },
                ..situation
            },
            Situation {
                name: "count",
                operation: Update,
                before: situation.then,
                then: |place| Box::pin(succeed(place)),
                ..situation
            },
            Situation { name: "status", events: 0, operation: Status, resource: "jobs", ..situation },
            Situation {
                name: "status-at-end",
                events: 0,
                operation: Status,
                resource: "jobs",
                before: situation.then,
                then: |place| Box::pin(succeed(place)),
                ..situation
            },
            Situation {
                name: "time-to-live",
                events: 0,
                operation: Delete,
                resource: "jobs",
                pace: USUAL,
                before: |place| {
                    Box::pin(async move { drop(place.create(job(json!({"ttlSecondsAfterFinished": 0}))).await) })
                },
                then: |place| Box::pin(succeed(place)),
                ..situation
            },
        ],
    );
}

/// A CronJob that is due two minutes after midnight, and not again in an hour.
fn cron_job() -> Value {
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "web"},
        "spec": {"schedule": "2 0 * * *", "timeZone": "Etc/UTC", "successfulJobsHistoryLimit": 0,
            "jobTemplate": {"spec": {"template": template()}}}})
}

#[test]
fn cron_jobs() {
    let situation = Situation {
        then: |place| Box::pin(async move { drop(place.create(cron_job()).await) }),
        ..Situation::new("", Create, "jobs")
    };
    meet(
        cronjob_controller::LOOPS,
        &[],
        nothing,
        &[
            Situation { name: "create", ..situation },
            Situation {
                name: "history",
                operation: Delete,
                then: |place| {
                    Box::pin(async move {
                        let mut cron_job = cron_job();
                        cron_job["spec"]["suspend"] = json!(true);
                        let owner = place.create(cron_job).await;
                        place.create_owned(&owner, job(json!({}))).await;
                        let time = "1970-01-01T00:01:00Z";
                        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": time, "lastProbeTime": time});
                        let status = json!({"startTime": time, "completionTime": time, "succeeded": 1,
                            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]});
                        place.status(JOBS, "web", status).await;
                    })
                },
                ..situation
            },
            Situation { name: "status", events: 0, operation: Status, resource: "cronjobs", ..situation },
        ],
    );
}
