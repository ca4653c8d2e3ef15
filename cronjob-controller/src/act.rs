//! Sends the requests of a plan: first the live reads, then the steps, then the status.
//!
//! A Job is created before the status records it. The name of the Job is derived from its scheduled time, so if a crash
//! prevents the record, the next sync finds the name taken and records the Job. The status is written with the effects of all
//! completed steps, even if a later step fails.

use std::{fmt, sync::Arc};

use common::prelude::*;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    CronJobController,
    decide::runs::run_of_existing_job,
    objects::{CRON_JOBS, CronJob, CronJobStatus, JOBS, Job, JobReference},
    plan::{Action, DeletionReason, Plan, PlannedEvent, Snapshot},
};

/// The status to write, with the effects of the steps taken so far.
pub(crate) struct PendingStatus {
    pub(crate) status: CronJobStatus,
    /// Whether `status` differs from the status on the server.
    pub(crate) is_changed: bool,
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

/// Reads the CronJob live; `None` if it was deleted, or replaced by a CronJob with another UID. The sync then ends.
pub(crate) async fn read_cron_job(
    cron_job: &Arc<CronJob>,
    why: &'static str,
    io: Io<'_, CronJobController>,
) -> Result<Option<Arc<CronJob>>, SyncError> {
    let Meta { namespace, name, uid, resource_version, .. } = &cron_job.metadata;
    let live = match io.send_and_decode::<CronJob>(Request::get(CRON_JOBS, namespace, name).with_reason(why)).await {
        Ok(Some(live)) => live,
        // A forecast (a sync that sends nothing) assumes that the CronJob is as in the cache.
        Ok(None) => return Ok(Some(Arc::clone(cron_job))),
        Err(refusal) if refusal.is_not_found() => return Ok(None),
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
pub(crate) async fn read_job(
    snapshot: &Snapshot,
    name: &str,
    why: &'static str,
    io: Io<'_, CronJobController>,
) -> Result<Option<Arc<Job>>, SyncError> {
    match io.send_and_decode::<Job>(get_job(snapshot, name).with_reason(why)).await {
        Ok(Some(job)) => {
            io.explain_deviation(format!("Job {name} exists, and the cache does not hold it"));
            Ok(Some(Arc::new(job)))
        }
        Ok(None) => Ok(None),
        Err(refusal) if refusal.is_not_found() => Ok(None),
        Err(refusal) => Err(SyncError::from_refusal(&format!("cannot read Job {name}"), &refusal)),
    }
}

/// Takes the steps of a plan. Stops at the first failure of a step that later steps depend on.
pub(crate) async fn take_actions(
    snapshot: &Snapshot,
    plan: &Plan,
    pending_status: &mut PendingStatus,
    io: Io<'_, CronJobController>,
) -> Result<(), SyncError> {
    let namespace = &snapshot.cron_job.metadata.namespace;
    // The failure of a deletion under the history limit; later steps do not depend on it.
    let mut deferred = Ok(());
    for action in &plan.actions {
        match action {
            Action::RecordEvent(event) => emit(io, event.clone()),
            Action::DeleteJob { name, uid, version, reason, event_if_refused } => {
                let job = Meta {
                    namespace: namespace.clone(),
                    name: Arc::from(&**name),
                    uid: uid.clone(),
                    resource_version: version.unwrap_or_default(),
                    ..Meta::default()
                };
                let request = Request::delete(JOBS, &job).with_propagation("Background");
                match io.send(request.with_precondition_version(*version).with_reason(reason.as_str())).await {
                    Ok(_) => emit(io, PlannedEvent::normal("SuccessfulDelete", format!("Deleted job {name}"))),
                    Err(refusal) if refusal.is_not_found() => {}
                    Err(refusal) => {
                        // A conflict means that the Job has changed, or that a new Job has the name. The watch soon shows the
                        // change, so no Event is recorded.
                        if !refusal.error.is_conflict() {
                            emit(io, PlannedEvent::warning("FailedDelete", format!("Deleted job: {}", refusal.error)));
                        }
                        if *reason == DeletionReason::ReplacedByNextRun {
                            let doing = format!("could not replace job {namespace}/{name}");
                            return Err(SyncError::from_refusal(&doing, &refusal));
                        }
                        if let Some(event) = event_if_refused {
                            emit(io, event.clone());
                        }
                        // The next sync tries the deletion again.
                        deferred = Err(SyncError::from_refusal(&format!("cannot delete Job {name}"), &refusal));
                        continue;
                    }
                }
                pending_status.remove(uid);
            }
            Action::CreateJob { name, body, scheduled_time } => {
                create_job(snapshot, name, body, *scheduled_time, pending_status, io).await?;
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
    scheduled_time: Timestamp,
    pending_status: &mut PendingStatus,
    io: Io<'_, CronJobController>,
) -> Result<(), SyncError> {
    let request =
        Request::create(JOBS, &snapshot.cron_job.metadata.namespace, &Arc::from(name), io.encode_body(|| body));
    // With this role, the next sync does not wait for an unanswered request, because the name prevents a second Job.
    let request =
        request.with_role(ObjectRole::SyncedObject).with_reason(format!("it has been due since {scheduled_time}"));
    match io.send(request).await.and_then(|answer| answer.decode_metadata()) {
        Ok(created) => {
            let created = created.unwrap_or_default();
            if let Some(created_at) = created.creation_timestamp {
                let skew = created_at.duration_since(scheduled_time).as_secs_f64();
                io.update_memory(|controller| controller.creation_skew.observe(skew));
            }
            emit(io, PlannedEvent::normal("SuccessfulCreate", format!("Created job {name}")));
            pending_status.add_run(&created, scheduled_time);
            Ok(())
        }
        Err(refusal) if refusal.class == RefusalClass::NameTaken => {
            let existing = io.send_and_decode::<Job>(get_job(snapshot, name).with_reason("its name is taken")).await;
            let existing =
                existing.map_err(|refusal| SyncError::from_refusal(&format!("cannot read Job {name}"), &refusal))?;
            let with_run = existing.and_then(|job| Some((run_of_existing_job(snapshot, &job, scheduled_time)?, job)));
            if let Some((run, job)) = with_run {
                // The next sync waits until the cache shows the Job, which an earlier sync created.
                let (cron_job, version) = (&snapshot.cron_job.metadata, job.metadata.resource_version);
                io.update_memory(|controller| controller.watch.ledger.record_write(&cron_job.uid, JOBS, version));
                pending_status.add_run(&job.metadata, run);
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

pub(crate) async fn write_status(
    cron_job: &Meta,
    status: &CronJobStatus,
    why: String,
    io: Io<'_, CronJobController>,
) -> Result<(), SyncError> {
    let body = io.encode_body(|| json!({"status": status}));
    match io.send(Request::patch_status(CRON_JOBS, cron_job, body).with_reason(why)).await {
        Err(refusal) if !refusal.is_not_found() => Err(SyncError::from_refusal("cannot write the status", &refusal)),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn get_job(snapshot: &Snapshot, name: &str) -> Request {
    Request::get(JOBS, &snapshot.cron_job.metadata.namespace, &Arc::from(name))
}

fn failed_create_event(why: &dyn fmt::Display) -> PlannedEvent {
    PlannedEvent::warning("FailedCreate", format!("Error creating job: {why}"))
}

fn emit(io: Io<'_, CronJobController>, PlannedEvent { event_type, reason, message }: PlannedEvent) {
    io.record_event(event_type, reason, message);
}
