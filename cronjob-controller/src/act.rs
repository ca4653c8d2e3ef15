//! Sends the requests of a plan: first the live reads, then the steps, then the status.
//!
//! A Job is created before the status records it. The name of the Job is derived from its scheduled time, so if a crash
//! prevents the record, the next sync finds the name taken and records the Job. The status is written with the effects of all
//! completed steps, even if a later step fails.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use common::{conditions::seconds, io::{Verb, self}, prelude::*};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    decide::{decide, runs::run_of_existing_job},
    objects::{CRON_JOBS, CronJob, CronJobStatus, JOBS, Job, JobReference},
    plan::{Action, DeletionReason, LiveRead, Plan, PlannedEvent},
    snapshot::Snapshot,
};

/// A change of the metrics, or of the controller's memory, that a sync asks for.
#[derive(Debug)]
pub enum CronJobNote {
    /// A Job was created; the value is its delay after the scheduled time.
    JobCreated(SignedDuration),
    /// A Job that an earlier sync created was recorded; the value is the version at which the Job was read live.
    JobRecorded(ResourceVersion),
}

impl io::MemoryNote for CronJobNote {
    type Query = ();
    type NewState = ();
}

type Io<'r> = io::Io<'r, CronJobNote>;

/// The status to write, with the effects of the steps taken so far.
struct PendingStatus {
    status: CronJobStatus,
    /// Whether `status` differs from the status on the server.
    is_changed: bool,
}

impl PendingStatus {
    fn add_run(&mut self, job: &Meta, run: Timestamp) {
        self.status.active.push(JobReference::from_job(job));
        self.status.last_schedule_time = Some(run);
        self.is_changed = true;
    }

    fn remove(&mut self, job: &Uid) {
        self.is_changed |= self.status.remove_active_job(job);
    }
}

/// Sends the requests of a plan, and returns the time of the next sync. After live reads, decides again with their results.
pub(crate) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    let mut snapshot = Cow::Borrowed(snapshot);
    let mut plan = Cow::Borrowed(plan);
    // Each object is read live at most once, so the loop ends.
    while !plan.live_reads.is_empty() {
        for question in &plan.live_reads {
            match question {
                LiveRead::CronJob => {
                    let live = read_cron_job(&snapshot.cron_job, question.reason_text(), io).await?;
                    let Some(live) = live else { return Ok(Requeue::AfterPlannedDelay) };
                    let snapshot = snapshot.to_mut();
                    snapshot.cron_job = live;
                    snapshot.was_cron_job_read_live = true;
                }
                LiveRead::Job(name) => {
                    let found = read_job(&snapshot, name, question.reason_text(), io).await?;
                    snapshot.to_mut().jobs_read_live.insert(name.clone(), found);
                }
            }
        }
        plan = Cow::Owned(decide(&snapshot));
    }

    let mut record = PendingStatus { status: plan.status.clone(), is_changed: plan.is_status_changed };
    let taken = take_actions(&snapshot, &plan, &mut record, io).await;
    if record.is_changed {
        write_status(&snapshot.cron_job.metadata, &record.status, plan.describe_status_changes(), io).await?;
    }
    taken?;
    // Live reads and requests take time, but the delay counts from the time of the snapshot.
    let elapsed = Duration::try_from(io.now().duration_since(snapshot.now)).unwrap_or_default();
    Ok(plan.requeue_after.map_or(Requeue::AfterPlannedDelay, |delay| Requeue::After(delay.saturating_sub(elapsed))))
}

/// Reads the CronJob live; `None` if it was deleted, or replaced by a CronJob with another UID. The sync then ends.
async fn read_cron_job(
    cached: &Arc<CronJob>,
    why: &'static str,
    io: Io<'_>,
) -> Result<Option<Arc<CronJob>>, SyncError> {
    let Meta { namespace, name, uid, resource_version, .. } = &cached.metadata;
    let live = match io.send_and_decode::<CronJob>(Request::get(CRON_JOBS, namespace, name).with_reason(why)).await {
        Ok(Some(live)) => live,
        // A forecast (a sync that sends nothing) assumes that the CronJob is as in the cache.
        Ok(None) => return Ok(Some(Arc::clone(cached))),
        Err(refusal) if refusal.error.is_not_found() => return Ok(None),
        Err(refusal) => return Err(SyncError::from_refusal("cannot read the CronJob", &refusal)),
    };
    if live.metadata.uid != *uid {
        io.explain_deviation("the CronJob was deleted and recreated");
        return Ok(None);
    }
    if live.metadata.resource_version != *resource_version {
        io.explain_deviation("the CronJob has changed since the version in the cache");
    }
    Ok(Some(Arc::new(live)))
}

/// Reads a Job live by its name; `None` if the Job does not exist. A forecast (a sync that sends nothing) assumes `None`.
async fn read_job(
    snapshot: &Snapshot,
    name: &str,
    why: &'static str,
    io: Io<'_>,
) -> Result<Option<Arc<Job>>, SyncError> {
    match io.send_and_decode::<Job>(get_job(snapshot, name).with_reason(why)).await {
        Ok(Some(job)) => {
            io.explain_deviation(format!("Job {name} exists, and the cache does not hold it"));
            Ok(Some(Arc::new(job)))
        }
        Ok(None) => Ok(None),
        Err(refusal) if refusal.error.is_not_found() => Ok(None),
        Err(refusal) => Err(SyncError::from_refusal(&format!("cannot read Job {name}"), &refusal)),
    }
}

/// Takes the steps of a plan. Stops at the first failure of a step that later steps depend on.
async fn take_actions(
    snapshot: &Snapshot,
    plan: &Plan,
    record: &mut PendingStatus,
    io: Io<'_>,
) -> Result<(), SyncError> {
    let namespace = &snapshot.cron_job.metadata.namespace;
    // The failure of a deletion under the history limit; later steps do not depend on it.
    let mut deferred = Ok(());
    for step in &plan.actions {
        match step {
            Action::RecordEvent(event) => emit(io, event.clone()),
            Action::DeleteJob { name, uid, version, reason, event_if_refused: if_refused } => {
                let job = Meta {
                    namespace: namespace.clone(),
                    name: Arc::from(&**name),
                    uid: uid.clone(),
                    resource_version: version.unwrap_or_default(),
                    ..Meta::default()
                };
                let verb = Verb::Delete(Some("Background"), None);
                let request = Request { verb, ..Request::delete(JOBS, &job) };
                match io.send(request.with_precondition_version(*version).with_reason(reason.as_str())).await {
                    Ok(_) => emit(io, PlannedEvent::normal("SuccessfulDelete", format!("Deleted job {name}"))),
                    Err(refusal) if refusal.error.is_not_found() => {}
                    Err(refusal) => {
                        // A conflict means that the Job has changed, or that a new Job has the name. The watch soon shows the
                        // change, so no Event is recorded.
                        if !refusal.error.is_conflict() {
                            emit(io, PlannedEvent::warning("FailedDelete", format!("Deleted job: {}", refusal.error)));
                        }
                        if *reason == DeletionReason::ReplacedByNextRun {
                            return Err(SyncError::from_refusal(
                                &format!("could not replace job {namespace}/{name}"),
                                &refusal,
                            ));
                        }
                        if let Some(event) = if_refused {
                            emit(io, event.clone());
                        }
                        // The next sync tries the deletion again.
                        deferred = Err(SyncError::from_refusal(&format!("cannot delete Job {name}"), &refusal));
                        continue;
                    }
                }
                record.remove(uid);
            }
            Action::CreateJob { name, body, scheduled_time: scheduled } => {
                create_job(snapshot, name, body, *scheduled, record, io).await?;
            }
        }
    }
    deferred
}

/// Creates the Job of a run and records it. If a Job for the same minute has the name already, records that Job and its run.
async fn create_job(
    snapshot: &Snapshot,
    name: &str,
    body: &Value,
    scheduled: Timestamp,
    record: &mut PendingStatus,
    io: Io<'_>,
) -> Result<(), SyncError> {
    let request =
        Request::create(JOBS, &snapshot.cron_job.metadata.namespace, &Arc::from(name), io.encode_body(|| body));
    // With this role, the next sync does not wait for an unanswered request, because the name prevents a second Job.
    let request = request.with_role(ObjectRole::SyncedObject).with_reason(format!("it has been due since {scheduled}"));
    match io.send(request).await.and_then(|answer| answer.decode_metadata()) {
        Ok(created) => {
            let created = created.unwrap_or_default();
            if let Some(time) = created.creation_timestamp {
                io.apply_memory_note(CronJobNote::JobCreated(time.duration_since(scheduled)));
            }
            emit(io, PlannedEvent::normal("SuccessfulCreate", format!("Created job {name}")));
            record.add_run(&created, scheduled);
            Ok(())
        }
        Err(refusal) if refusal.class == RefusalClass::NameTaken => {
            let existing = io.send_and_decode::<Job>(get_job(snapshot, name).with_reason("its name is taken")).await;
            let existing =
                existing.map_err(|refusal| SyncError::from_refusal(&format!("cannot read Job {name}"), &refusal))?;
            let with_run = existing.and_then(|job| Some((run_of_existing_job(snapshot, &job, scheduled)?, job)));
            if let Some((run, job)) = with_run {
                io.apply_memory_note(CronJobNote::JobRecorded(job.metadata.resource_version));
                record.add_run(&job.metadata, run);
            } else {
                let taken = format_args!("the name {name} is taken by a Job that is not a run of this CronJob");
                emit(io, failed_create_event(&taken));
            }
            Ok(())
        }
        Err(refusal) => {
            let failed = SyncError::from_refusal(&format!("cannot create Job {name}"), &refusal);
            if refusal.class == RefusalClass::NamespaceTerminating {
                return Err(failed.with_retry_policy(RetryPolicy::NextEvent));
            }
            emit(io, failed_create_event(&refusal.error));
            Err(failed)
        }
    }
}

async fn write_status(cron: &Meta, status: &CronJobStatus, why: String, io: Io<'_>) -> Result<(), SyncError> {
    let time = |at: Option<Timestamp>| at.map(seconds::format_rfc3339);
    let body = io.encode_body(|| {
        json!({"status": {
            "active": if status.active.is_empty() { Value::Null } else { json!(status.active) },
            "lastScheduleTime": time(status.last_schedule_time),
            "lastSuccessfulTime": time(status.last_successful_time),
        }})
    });
    match io.send(Request::patch_status(CRON_JOBS, cron, body).with_reason(why)).await {
        Err(refusal) if !refusal.error.is_not_found() => {
            Err(SyncError::from_refusal("cannot write the status", &refusal))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn get_job(snapshot: &Snapshot, name: &str) -> Request {
    Request::get(JOBS, &snapshot.cron_job.metadata.namespace, &Arc::from(name))
}

fn failed_create_event(why: &dyn fmt::Display) -> PlannedEvent {
    PlannedEvent::warning("FailedCreate", format!("Error creating job: {why}"))
}

fn emit(io: Io<'_>, PlannedEvent { kind, reason, message }: PlannedEvent) {
    io.record_event(kind, reason, message);
}
