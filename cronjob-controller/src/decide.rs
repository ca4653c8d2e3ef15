//! From a snapshot to a plan: pure.

use std::{sync::Arc, time::Duration};

use common::{
    intern::Text,
    meta::{Meta, Uid},
    object::Object as _,
};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use serde_json::{Value, json};

use crate::{
    due::{self, Due},
    objects::{Concurrency, CronJob, End, Job, Reference, SCHEDULED_TIMESTAMP, Spec},
    plan::{Event, Plan, Question, Reason, Step},
    schedule::{self, ParseError, Schedule},
    snapshot::{Presence, Snapshot},
};

/// Decides what one sync of a CronJob does.
///
/// Upstream: `pkg/controller/cronjob`, `syncCronJob` and `cleanupFinishedJobs`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let mut plan = Plan { status: snapshot.cron.status.clone(), ..Plan::default() };
    trim_history(&mut plan, snapshot);
    settle(&mut plan, snapshot);
    plan.situation = format!("{} running", count(plan.status.active.len(), "Job"));
    if !plan.questions.is_empty() {
        plan.steps.clear();
        plan.again = next_look(snapshot);
        return plan;
    }
    plan.changed |= plan.status != snapshot.cron.status;
    if !snapshot.cron.metadata.is_deleting() {
        start_what_is_due(&mut plan, snapshot);
    }
    plan
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Plans to delete the oldest Jobs that have ended and are more than are kept.
fn trim_history(plan: &mut Plan, snapshot: &Snapshot) {
    let spec = &snapshot.cron.spec;
    for (end, limit) in
        [(End::Complete, spec.successful_jobs_history_limit), (End::Failed, spec.failed_jobs_history_limit)]
    {
        let Some(limit) = limit else { continue };
        // The name of a run that is not recorded keeps it from being started again.
        let over = |job: &&Arc<Job>| {
            job.end() == Some(end) && !job.metadata.is_deleting() && unrecorded(snapshot, job).is_none()
        };
        let over = snapshot.jobs.iter().filter(over);
        let mut over: Vec<&Job> = over.map(|job| &**job).collect();
        // Those of which nobody knows when they began are the youngest.
        let age = |job: &&Job| (job.status.start_time.is_none(), job.status.start_time, job.metadata.name.clone());
        over.sort_by_key(age);
        let surplus = over.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        for job in &over[..surplus] {
            plan.status.strike(&job.metadata.uid);
            plan.steps.push(delete(&job.metadata, Reason::History));
        }
    }
}

fn delete(job: &Meta, reason: Reason) -> Step {
    Step::Delete { name: Text::new(&job.name), uid: job.uid.clone(), reason }
}

/// The time that a Job runs for, if it was started and, because whoever did so came to no more, not recorded.
fn unrecorded(snapshot: &Snapshot, job: &Job) -> Option<Timestamp> {
    let minutes = job.metadata.name.strip_prefix(&*snapshot.cron.metadata.name)?.strip_prefix('-')?;
    let minutes: i64 = minutes.parse().ok().filter(|_| minutes.bytes().all(|byte| byte.is_ascii_digit()))?;
    let run = Timestamp::from_second(minutes.checked_mul(60)?).ok().filter(|run| *run <= snapshot.now)?;
    let last = snapshot.cron.status.last_schedule_time;
    last.is_none_or(|last| run > last).then_some(run)
}

/// Brings the record of running Jobs in line with those there are.
fn settle(plan: &mut Plan, snapshot: &Snapshot) {
    for job in &snapshot.jobs {
        let (name, uid) = (&job.metadata.name, &job.metadata.uid);
        match job.end() {
            None if plan.status.runs(uid) => {}
            None if snapshot.is_live && unrecorded(snapshot, job).is_some() => {
                plan.status.active.push(Reference::to(&job.metadata));
            }
            None if snapshot.is_live => {
                let message = format!("Saw a job that the controller did not create or forgot: {name}");
                plan.steps.push(Step::Tell(Event::warning("UnexpectedJob", message)));
            }
            None => {
                plan.questions.push(Question::CronJob);
                continue;
            }
            Some(end) => {
                if plan.status.strike(uid) {
                    let message = format!("Saw completed job: {name}, condition: {}", end.as_str());
                    plan.steps.push(Step::Tell(Event::normal("SawCompletedJob", message)));
                }
                let completed = job.status.completion_time.filter(|_| end == End::Complete);
                plan.status.last_successful_time = plan.status.last_successful_time.max(completed);
            }
        }
        plan.status.last_schedule_time = plan.status.last_schedule_time.max(unrecorded(snapshot, job));
    }
    plan.questions.dedup();
    let is_here = |uid: &Uid| snapshot.jobs.iter().any(|job| job.metadata.uid == *uid);
    for reference in plan.status.active.clone().into_iter().filter(|reference| !is_here(&reference.uid)) {
        match snapshot.found.get(&reference.name) {
            None => plan.questions.push(Question::Job(reference.name)),
            Some(Presence::There) => {}
            Some(Presence::Gone) => {
                plan.status.strike(&reference.uid);
                let message = format!("Active job went missing: {}", reference.name);
                plan.steps.push(Step::Tell(Event::normal("MissingJob", message)));
            }
        }
    }
}

/// How long until the next run is due, before anything is known that has to be read first.
fn next_look(snapshot: &Snapshot) -> Option<Duration> {
    let cron = &*snapshot.cron;
    if cron.metadata.is_deleting() || cron.spec.suspend {
        return None;
    }
    let schedule = effective(&cron.spec).ok()?;
    Some(due::next_look(&schedule, anchor(cron)?, snapshot.now).1)
}

/// Plans the Job that is due, if there is one and nothing speaks against it.
fn start_what_is_due(plan: &mut Plan, snapshot: &Snapshot) {
    let (cron, now) = (&*snapshot.cron, snapshot.now);
    let spec = &cron.spec;
    let zone = match spec.time_zone.as_deref().map(schedule::zone).transpose() {
        Ok(zone) => zone,
        Err(error) => {
            let name = spec.time_zone.as_deref().unwrap_or_default();
            let message = format!("invalid timeZone: {name:?}: {error}");
            plan.waiting.push(message.clone());
            return plan.steps.push(Step::Tell(Event::warning("UnknownTimeZone", message)));
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
        plan.steps.push(Step::Tell(Event::warning("UnsupportedSchedule", message)));
    }
    let schedule = match effective(spec) {
        Ok(schedule) => schedule,
        Err(error) => {
            let message = format!("unparseable schedule: {:?} : {error}", spec.schedule);
            plan.waiting.push(message.clone());
            return plan.steps.push(Step::Tell(Event::warning("UnparseableSchedule", message)));
        }
    };
    let Some(anchor) = plan.status.last_schedule_time.or(cron.metadata.created) else {
        return plan.waiting.push("metadata.creationTimestamp is missing".to_owned());
    };
    let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    let Due { run, many_missed } = match due::due(&schedule, anchor, deadline, now) {
        Ok(due) => due,
        Err(error) => {
            let message = format!("invalid schedule: {} : {error}", spec.schedule);
            plan.waiting.push(message.clone());
            return plan.steps.push(Step::Tell(Event::warning("InvalidSchedule", message)));
        }
    };
    let (next, wait) = due::next_look(&schedule, anchor, now);
    plan.again = Some(wait);
    if let Some(next) = next {
        plan.waiting.push(format!("the next run is at {next}"));
    }
    if many_missed {
        let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        plan.steps.push(Step::Tell(Event::warning("TooManyMissedTimes", message)));
    }
    let Some(run) = run.filter(|run| plan.status.last_schedule_time != Some(*run)) else { return };
    let name = job_name(&cron.metadata.name, run);
    if plan.status.active.iter().any(|reference| *reference.name == *name) {
        return;
    }
    match spec.concurrency_policy {
        Concurrency::Allow => {}
        Concurrency::Forbid if plan.status.active.is_empty() => {}
        Concurrency::Forbid => {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.waiting.push(format!("the run of {run} waits for the one before (Forbid)"));
            return plan.steps.push(Step::Tell(Event::normal("JobAlreadyActive", message)));
        }
        Concurrency::Replace => {
            // Each is struck off when it has been deleted.
            let running = plan.status.active.iter().map(|reference| (reference.name.clone(), reference.uid.clone()));
            plan.steps.extend(running.map(|(name, uid)| Step::Delete { name, uid, reason: Reason::Replaced }));
        }
    }
    match job(snapshot, &name, run, zone.as_ref()) {
        Ok(body) => plan.steps.push(Step::Start { name: Text::new(&name), body: Box::new(body), scheduled: run }),
        Err(problem) => {
            let message = format!("Error creating job: {problem}");
            plan.waiting.push(message.clone());
            plan.steps.push(Step::Tell(Event::warning("FailedCreate", message)));
        }
    }
}

/// The schedule in its zone.
pub fn effective(spec: &Spec) -> Result<Schedule, ParseError> {
    match &spec.time_zone {
        Some(zone) if !spec.schedule.contains("TZ") => Schedule::parse(&format!("TZ={zone} {}", spec.schedule)),
        _ => Schedule::parse(&spec.schedule),
    }
}

/// From when on runs are due.
pub fn anchor(cron: &CronJob) -> Option<Timestamp> {
    cron.status.last_schedule_time.or(cron.meta().created)
}

/// The name of the Job of a run: the lock that lets it be started once.
fn job_name(cron: &str, run: Timestamp) -> String {
    format!("{cron}-{}", run.as_second() / 60)
}

/// The Job of a run, or why it cannot be made.
fn job(snapshot: &Snapshot, name: &str, run: Timestamp, zone: Option<&TimeZone>) -> Result<Value, String> {
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

/// RFC 3339 in a zone, UTC if none is given.
fn wall_time(at: Timestamp, zone: Option<&TimeZone>) -> String {
    let zoned = at.to_zoned(zone.cloned().unwrap_or(TimeZone::UTC));
    let offset = zoned.offset();
    let shown = if offset.is_zero() { "Z".to_owned() } else { zoned.strftime("%:z").to_string() };
    format!("{}{shown}", zoned.strftime("%Y-%m-%dT%H:%M:%S"))
}

#[cfg(test)]
mod tests;
