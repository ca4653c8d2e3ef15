//! Maps runs to the names of Jobs, and Jobs to their runs.

use common::object::Object as _;
use jiff::Timestamp;

use crate::{
    due::RunSearchStart,
    objects::{CronJob, Job, JobOutcome},
    plan::{PlannedEvent, Snapshot},
};

/// Returns the time after which the next run is searched; `None` if there is neither a last run nor a creation time.
pub fn run_search_start(cron: &CronJob) -> Option<RunSearchStart> {
    match cron.status.last_schedule_time {
        Some(last) => Some(RunSearchStart::LastRun(last)),
        None => cron.meta().creation_timestamp.map(RunSearchStart::Creation),
    }
}

/// Returns the name of the Job of a run. The name contains the minute of the run, which prevents a second start of the run.
pub(crate) fn job_name(cron: &str, run: Timestamp) -> String {
    format!("{cron}-{}", run.as_second() / 60)
}

/// Returns the scheduled time of a Job that this controller created but did not record, because of a crash or a failed write.
///
/// Returns `None` for every manually created Job, regardless of its name.
pub(super) fn unrecorded_run_of_job(snapshot: &Snapshot, job: &Job) -> Option<Timestamp> {
    let cron = &snapshot.cron_job;
    let is_new = |run: &Timestamp| {
        *run <= snapshot.now && run_search_start(cron).is_none_or(|search_start| *run > search_start.start_time())
    };
    let run = job.scheduled_time.filter(is_new)?;
    (*job.metadata.name == *job_name(&cron.metadata.name, run)).then_some(run)
}

/// Returns the run of an existing Job that has the name of the `wanted` run; `None` if the Job is not to be recorded.
///
/// A Job of another owner, or a manually created Job, only occupies the name. A Job in `status.active` is recorded already.
pub fn run_of_existing_job(snapshot: &Snapshot, job: &Job, wanted: Timestamp) -> Option<Timestamp> {
    let cron = &snapshot.cron_job;
    let is_owned = job.metadata.controller().is_some_and(|owner| owner.uid == cron.metadata.uid);
    let is_recorded = cron.status.active.iter().any(|reference| reference.uid == job.metadata.uid);
    let is_same_minute = |run: &Timestamp| run.as_second() / 60 == wanted.as_second() / 60;
    job.scheduled_time.filter(|run| is_owned && !is_recorded && is_same_minute(run))
}

pub(super) fn saw_completed_job_event(job: &Job, outcome: JobOutcome) -> PlannedEvent {
    let message = format!("Saw completed job: {}, condition: {outcome:?}", job.metadata.name);
    PlannedEvent::normal("SawCompletedJob", message)
}
