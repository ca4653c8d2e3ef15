//! Plans the creation of the Job of the due run.

use std::time::Duration;

use common::intern::Text;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::runs::{anchor, job_name};
use crate::{
    due::{self, Due},
    objects::{Concurrency, SCHEDULED_TIMESTAMP, Spec},
    plan::{Event, Plan, Reason, Step},
    schedule::{ParseError, Schedule, Zone},
    snapshot::Snapshot,
};

/// Plans the time of the next sync, and the Job of the due run if the policy, the deadline and the spec allow the Job.
pub(super) fn create_due_job(plan: &mut Plan, snapshot: &Snapshot) {
    let (cron, now) = (&*snapshot.cron, snapshot.now);
    let spec = &cron.spec;
    let zone = match spec.time_zone.as_deref().map(Zone::named).transpose() {
        Ok(zone) => zone,
        Err(error) => {
            let name = spec.time_zone.as_deref().unwrap_or_default();
            return stop(plan, "UnknownTimeZone", format!("invalid timeZone: {name:?}: {error}"));
        }
    };
    if spec.suspend {
        return plan.waiting.push("the CronJob is suspended".to_owned());
    }
    if spec.schedule.contains("TZ") {
        let message = format!(
            "CRON_TZ or TZ used in schedule {:?} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
            spec.schedule
        );
        plan.steps.push(Step::Emit(Event::warning("UnsupportedSchedule", message)));
    }
    let schedule = match effective_schedule(spec) {
        Ok(schedule) => schedule,
        Err(error) => {
            let message = format!("unparseable schedule: {:?} : {error}", spec.schedule);
            return stop(plan, "UnparseableSchedule", message);
        }
    };
    // `plan.status` already includes the unrecorded runs that were found, so the search begins after them.
    let anchor = plan.status.last_schedule_time.map(due::Anchor::LastRun).or_else(|| anchor(cron));
    let Some(anchor) = anchor else {
        return plan.waiting.push("metadata.creationTimestamp is missing".to_owned());
    };
    let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    let Due { run, many_missed } = match due::due(&schedule, anchor, deadline, now) {
        Ok(due) => due,
        Err(error) => {
            return stop(plan, "InvalidSchedule", format!("invalid schedule: {} : {error}", spec.schedule));
        }
    };
    if let Some(next) = due::next_firing(&schedule, anchor, now) {
        plan.requeue_after = delay(next, now);
        plan.waiting.push(format!("the next run is at {next}"));
    }
    if many_missed {
        let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        plan.steps.push(Step::Emit(Event::warning("TooManyMissedTimes", message)));
    }
    let Some(run) = run else { return };
    let name = job_name(&cron.metadata.name, run);
    if plan.status.active.iter().any(|reference| *reference.name == *name) {
        return;
    }
    match spec.concurrency_policy {
        Concurrency::Allow => {}
        Concurrency::Forbid if plan.status.active.is_empty() => {}
        Concurrency::Forbid => {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.waiting.push(format!("the run of {run} waits for the active Job (Forbid)"));
            return plan.steps.push(Step::Emit(Event::normal("JobAlreadyActive", message)));
        }
        Concurrency::Replace => {
            let known = || snapshot.jobs.iter().chain(snapshot.answers.values().flatten());
            // When a step has deleted its Job, `act` removes the Job from the status.
            let active = plan.status.active.iter();
            plan.steps.extend(active.map(|reference| Step::Delete {
                name: reference.name.clone(),
                uid: reference.uid.clone(),
                version: known().find(|job| job.metadata.uid == reference.uid).map(|job| job.metadata.resource_version),
                reason: Reason::Replaced,
                if_refused: None,
            }));
        }
    }
    match job(snapshot, &name, run, zone.as_ref()) {
        Ok(body) => plan.steps.push(Step::Create { name: Text::new(&name), body: Box::new(body), scheduled: run }),
        Err(problem) => stop(plan, "FailedCreate", format!("Error creating job: {problem}")),
    }
}

/// Returns the time until the next firing, for a plan that only reads live; `None` if the firing will create no Job.
pub(super) fn delay_to_next_firing(snapshot: &Snapshot) -> Option<Duration> {
    let cron = &*snapshot.cron;
    if cron.metadata.is_deleting() || cron.spec.suspend {
        return None;
    }
    let schedule = effective_schedule(&cron.spec).ok()?;
    delay(due::next_firing(&schedule, anchor(cron)?, snapshot.now)?, snapshot.now)
}

fn delay(until: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(until.duration_since(now)).ok()
}

/// Plans a Warning Event about a spec that must be changed before a Job can be created.
fn stop(plan: &mut Plan, reason: &'static str, message: String) {
    let event = Event::warning(reason, message);
    plan.waiting.push(event.message.clone());
    plan.steps.push(Step::Emit(event));
}

/// Parses the schedule in the time zone of the spec, unless the schedule itself names a time zone.
pub fn effective_schedule(spec: &Spec) -> Result<Schedule, ParseError> {
    match &spec.time_zone {
        Some(zone) if !spec.schedule.contains("TZ") => Schedule::parse(&format!("TZ={zone} {}", spec.schedule)),
        _ => Schedule::parse(&spec.schedule),
    }
}

/// Parses the schedule after a change of the schedule or the time zone, to find the time of the next sync.
///
/// Ignores an unknown time zone, because the sync reports it.
pub fn changed_schedule(spec: &Spec) -> Result<Schedule, ParseError> {
    match spec.time_zone.as_deref().map(Zone::named) {
        Some(Err(_)) => Schedule::parse(&spec.schedule),
        _ => effective_schedule(spec),
    }
}

/// Builds the Job of a run, or returns why the template is unusable.
fn job(snapshot: &Snapshot, name: &str, run: Timestamp, zone: Option<&Zone>) -> Result<Value, String> {
    let template = snapshot.cron.spec.job_template.as_ref().ok_or("spec.jobTemplate is missing")?;
    let mut template = template.value().map_err(|error| format!("spec.jobTemplate: {error}"))?;
    let mut metadata = json!({
        "name": name,
        "namespace": snapshot.owner.namespace,
        "annotations": template["metadata"]["annotations"].take(),
        "ownerReferences": [snapshot.owner.controller_ref()],
    });
    let labels = template["metadata"]["labels"].take();
    if !labels.is_null() {
        metadata["labels"] = labels;
    }
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][SCHEDULED_TIMESTAMP] = json!(wall_time(run, zone));
    Ok(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"].take()}))
}

/// Formats a time in RFC 3339 with the offset of `zone`, or in UTC without a zone.
pub(super) fn wall_time(at: Timestamp, zone: Option<&Zone>) -> String {
    zone.unwrap_or(&Zone::UTC).rfc3339(at)
}
