//! Which Job stands for which run.

use common::object::Object as _;
use jiff::Timestamp;

use crate::{
    due::Anchor,
    objects::{CronJob, End, Job},
    plan::Event,
    snapshot::Snapshot,
};

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
pub(super) fn unrecorded_run(snapshot: &Snapshot, job: &Job) -> Option<Timestamp> {
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

pub(super) fn saw_completed(job: &Job, end: End) -> Event {
    let message = format!("Saw completed job: {}, condition: {}", job.metadata.name, end.as_str());
    Event::normal("SawCompletedJob", message)
}
