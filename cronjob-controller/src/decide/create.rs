//! Plans the creation of the Job of the due run.

use std::time::Duration;

use common::prelude::*;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::runs::{job_name, run_search_start};
use crate::{
    due::{self, DueRun},
    objects::{CRON_JOB_SCHEDULED_TIMESTAMP_ANNOTATION, ConcurrencyPolicy, CronJobSpec},
    plan::{Action, DeletionReason, Plan, PlannedEvent, Snapshot},
    schedule::{ParseError, Schedule, ZoneRules},
};

/// Plans the time of the next sync, and the Job of the due run if the policy, the deadline and the spec allow the Job.
pub(super) fn plan_due_job(plan: &mut Plan, snapshot: &Snapshot) {
    let (cron, now) = (&*snapshot.cron_job, snapshot.now);
    let spec = &cron.spec;
    let zone = match spec.time_zone.as_deref().map(ZoneRules::find_by_name).transpose() {
        Ok(zone) => zone,
        Err(error) => {
            let name = spec.time_zone.as_deref().unwrap_or_default();
            return report_unusable_spec(plan, "UnknownTimeZone", format!("invalid timeZone: {name:?}: {error}"));
        }
    };
    if spec.suspend {
        return plan.reasons_for_no_job.push("the CronJob is suspended".to_owned());
    }
    if spec.schedule.contains("TZ") {
        let message = format!(
            "CRON_TZ or TZ used in schedule {:?} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
            spec.schedule
        );
        plan.actions.push(Action::RecordEvent(PlannedEvent::warning("UnsupportedSchedule", message)));
    }
    let schedule = match parse_schedule_with_time_zone(spec) {
        Ok(schedule) => schedule,
        Err(error) => {
            let message = format!("unparseable schedule: {:?} : {error}", spec.schedule);
            return report_unusable_spec(plan, "UnparseableSchedule", message);
        }
    };
    // `plan.status` already includes the unrecorded runs that were found, so the search begins after them.
    let last_run = plan.status.last_schedule_time.map(due::RunSearchStart::LastRun);
    let Some(search_start) = last_run.or_else(|| run_search_start(cron)) else {
        return plan.reasons_for_no_job.push("metadata.creationTimestamp is missing".to_owned());
    };
    let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    let DueRun { scheduled_time, has_many_missed_runs } =
        match due::find_due_run(&schedule, search_start, deadline, now) {
            Ok(due_run) => due_run,
            Err(error) => {
                let message = format!("invalid schedule: {} : {error}", spec.schedule);
                return report_unusable_spec(plan, "InvalidSchedule", message);
            }
        };
    if let Some(next) = due::next_firing_with_new_job_name(&schedule, search_start, now) {
        plan.requeue_after = delay(next, now);
        plan.reasons_for_no_job.push(format!("the next run is at {next}"));
    }
    if has_many_missed_runs {
        let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        plan.actions.push(Action::RecordEvent(PlannedEvent::warning("TooManyMissedTimes", message)));
    }
    let Some(scheduled_time) = scheduled_time else { return };
    let name = job_name(&cron.metadata.name, scheduled_time);
    if plan.status.active.iter().any(|reference| *reference.name == *name) {
        return;
    }
    match spec.concurrency_policy {
        ConcurrencyPolicy::Allow => {}
        ConcurrencyPolicy::Forbid if plan.status.active.is_empty() => {}
        ConcurrencyPolicy::Forbid => {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.reasons_for_no_job.push(format!("the run of {scheduled_time} waits for the active Job (Forbid)"));
            return plan.actions.push(Action::RecordEvent(PlannedEvent::normal("JobAlreadyActive", message)));
        }
        ConcurrencyPolicy::Replace => {
            let known = || snapshot.jobs.iter().chain(snapshot.jobs_read_live.values().flatten());
            // When a step has deleted its Job, `act` removes the Job from the status.
            let active = plan.status.active.iter();
            plan.actions.extend(active.map(|reference| Action::DeleteJob {
                name: reference.name.clone(),
                uid: reference.uid.clone(),
                version: known().find(|job| job.metadata.uid == reference.uid).map(|job| job.metadata.resource_version),
                reason: DeletionReason::ReplacedByNextRun,
                event_if_refused: None,
            }));
        }
    }
    match build_job(snapshot, &name, scheduled_time, zone.as_ref()) {
        Ok(body) => {
            plan.actions.push(Action::CreateJob { name: Text::new(&name), body: Box::new(body), scheduled_time });
        }
        Err(problem) => report_unusable_spec(plan, "FailedCreate", format!("Error creating job: {problem}")),
    }
}

/// Returns the time until the next firing, for a plan of live reads only; `None` if the firing will create no Job.
pub(super) fn delay_to_next_firing(snapshot: &Snapshot) -> Option<Duration> {
    let cron = &*snapshot.cron_job;
    if cron.metadata.is_deleting() || cron.spec.suspend {
        return None;
    }
    let schedule = parse_schedule_with_time_zone(&cron.spec).ok()?;
    delay(due::next_firing_with_new_job_name(&schedule, run_search_start(cron)?, snapshot.now)?, snapshot.now)
}

fn delay(until: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(until.duration_since(now)).ok()
}

/// Plans a Warning Event about a spec that must be changed before a Job can be created.
fn report_unusable_spec(plan: &mut Plan, reason: &'static str, message: String) {
    let event = PlannedEvent::warning(reason, message);
    plan.reasons_for_no_job.push(event.message.clone());
    plan.actions.push(Action::RecordEvent(event));
}

/// Parses the schedule in the time zone of the spec, unless the schedule itself names a time zone.
pub fn parse_schedule_with_time_zone(spec: &CronJobSpec) -> Result<Schedule, ParseError> {
    match &spec.time_zone {
        Some(zone) if !spec.schedule.contains("TZ") => Schedule::parse(&format!("TZ={zone} {}", spec.schedule)),
        _ => Schedule::parse(&spec.schedule),
    }
}

/// Parses the schedule after a change of the schedule or the time zone, to find the time of the next sync.
///
/// Ignores an unknown time zone, because the sync reports it.
pub fn parse_schedule_ignoring_unknown_time_zone(spec: &CronJobSpec) -> Result<Schedule, ParseError> {
    match spec.time_zone.as_deref().map(ZoneRules::find_by_name) {
        Some(Err(_)) => Schedule::parse(&spec.schedule),
        _ => parse_schedule_with_time_zone(spec),
    }
}

/// Builds the Job of a run, or returns the reason why no Job can be built from the template.
fn build_job(
    snapshot: &Snapshot,
    name: &str,
    scheduled_time: Timestamp,
    zone: Option<&ZoneRules>,
) -> Result<Value, String> {
    let template = snapshot.cron_job.spec.job_template.as_ref().ok_or("spec.jobTemplate is missing")?;
    let mut template = template.parse_value().map_err(|error| format!("spec.jobTemplate: {error}"))?;
    let mut metadata = json!({
        "name": name,
        "namespace": snapshot.owner.namespace,
        "annotations": template["metadata"]["annotations"].take(),
        "ownerReferences": [snapshot.owner.controller_reference()],
    });
    let labels = template["metadata"]["labels"].take();
    if !labels.is_null() {
        metadata["labels"] = labels;
    }
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][CRON_JOB_SCHEDULED_TIMESTAMP_ANNOTATION] =
        json!(format_scheduled_time(scheduled_time, zone));
    Ok(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"].take()}))
}

/// Formats a time in RFC 3339 with the offset of `zone`, or in UTC without a zone.
pub(super) fn format_scheduled_time(at: Timestamp, zone: Option<&ZoneRules>) -> String {
    zone.unwrap_or(&ZoneRules::UTC).format_rfc3339(at)
}
