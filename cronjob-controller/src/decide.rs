//! From a snapshot to a plan: pure.

mod create;
mod history;
mod record;

use std::{collections::BTreeSet, time::Duration};

use common::{meta::Uid, object::Object as _};
use jiff::Timestamp;

pub use create::{changed_schedule, effective_schedule};

use crate::{
    due::Anchor,
    objects::{CronJob, End, Job},
    plan::{Event, Plan},
    snapshot::Snapshot,
};

/// The time between two syncs that look up active Jobs, if one sync cannot look up all of them.
const LOOKUP_PAUSE: Duration = Duration::from_secs(1);

/// Decides what one sync of a CronJob does.
///
/// Upstream: `pkg/controller/cronjob`, `syncCronJob` and `cleanupFinishedJobs`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let status = &snapshot.cron.status;
    let active: BTreeSet<&Uid> = status.active.iter().map(|reference| &reference.uid).collect();
    let mut plan = Plan { status: status.clone(), ..Plan::default() };
    let surplus = history::surplus(snapshot);
    for job in &surplus {
        plan.steps.push(history::delete(job, active.contains(&job.metadata.uid)));
    }
    let surplus: BTreeSet<&Uid> = surplus.iter().map(|job| &job.metadata.uid).collect();
    let is_complete = record::reconcile(&mut plan, snapshot, &active, &surplus);
    plan.situation = match plan.status.active.len() {
        1 => "1 active Job".to_owned(),
        count => format!("{count} active Jobs"),
    };
    if !plan.questions.is_empty() {
        plan.steps.clear();
        plan.requeue_after = create::delay_to_next_firing(snapshot);
        return plan;
    }
    plan.changed = plan.status != *status;
    if !is_complete {
        plan.waiting.push("not all active Jobs were looked up yet".to_owned());
        plan.requeue_after = Some(LOOKUP_PAUSE);
    } else if !snapshot.cron.metadata.is_deleting() {
        create::create_due_job(&mut plan, snapshot);
    }
    plan
}

/// The time after which runs are due.
pub fn anchor(cron: &CronJob) -> Option<Anchor> {
    match cron.status.last_schedule_time {
        Some(last) => Some(Anchor::LastRun(last)),
        None => cron.meta().created.map(Anchor::Creation),
    }
}

/// The name of the Job of a run. It is derived from the minute, and keeps a run from being started twice.
pub(crate) fn job_name(cron: &str, run: Timestamp) -> String {
    format!("{cron}-{}", run.as_second() / 60)
}

/// The scheduled time of a Job that this controller created and did not record, since it stopped or failed in between.
///
/// A Job made by hand is never one, whatever its name is.
fn unrecorded_run(snapshot: &Snapshot, job: &Job) -> Option<Timestamp> {
    let cron = &snapshot.cron;
    let is_new = |run: &Timestamp| *run <= snapshot.now && anchor(cron).is_none_or(|anchor| *run > anchor.time());
    let run = job.scheduled.filter(is_new)?;
    (*job.metadata.name == *job_name(&cron.metadata.name, run)).then_some(run)
}

/// The run that an existing Job stands for which has the name of the run to create; nothing if the Job is not to be recorded.
///
/// A Job of another owner, or one made by hand, takes the name and is no run. One that is recorded as active needs no record.
pub fn existing_run(snapshot: &Snapshot, existing: &Job, wanted: Timestamp) -> Option<Timestamp> {
    let cron = &snapshot.cron;
    let is_owned = existing.metadata.controller().is_some_and(|owner| owner.uid == cron.metadata.uid);
    let is_recorded = cron.status.is_active(&existing.metadata.uid);
    let is_same_minute = |run: &Timestamp| run.as_second() / 60 == wanted.as_second() / 60;
    existing.scheduled.filter(|run| is_owned && !is_recorded && is_same_minute(run))
}

fn saw_completed(job: &Job, end: End) -> Event {
    let message = format!("Saw completed job: {}, condition: {}", job.metadata.name, end.as_str());
    Event::normal("SawCompletedJob", message)
}

#[cfg(test)]
mod tests;
