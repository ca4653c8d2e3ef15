//! Deletes finished Jobs after their time to live.
//!
//! A Job is deleted only after it has finished and its time to live has ended by the clock of this machine. The request has
//! preconditions on the UID and the version of the Job. The deletion is in the foreground: the Pods are deleted before the Job.
//! Finalizers are not changed. Upstream: `pkg/controller/ttlafterfinished`.

pub mod decide;

use std::{sync::Arc, time::Duration};

use common::{metrics::Histogram, prelude::*};
use jiff::Timestamp;

use self::decide::{Expiry, Plan, Snapshot, decide_expiry, finish_time};
use crate::{
    TTL_AFTER_FINISHED_LOOP,
    metrics::register_ttl_deletion_duration,
    objects::{JOBS, Job},
    options::CONCURRENT_TTL_AFTER_FINISHED_SYNCS,
};

/// The controller that deletes finished Jobs after their time to live.
pub struct TtlController {
    jobs: Arc<Store<Job>>,
    deletion_duration: Histogram,
}

/// Starts the loop with its queue `ttl_jobs_to_delete`, to which each event adds a finished Job with a time to live.
pub(crate) fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("ttl_jobs_to_delete");
    let job_queue = queue.clone();
    let jobs = context.watch_shared::<Job>(Box::new(move |event, origin| {
        if let Some(job) = event.cached().filter(|job| decide_expiry(job) != Expiry::NeverExpires) {
            job_queue.add(job.metadata.key(), origin);
        }
    }));
    let workers = context.settings.worker_count(&CONCURRENT_TTL_AFTER_FINISHED_SYNCS);
    let controller = TtlController { jobs, deletion_duration: register_ttl_deletion_duration(&context.metrics) };
    Loop::start(TTL_AFTER_FINISHED_LOOP.name, context, Arc::new(controller), queue, workers)
}

impl Controller for TtlController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    /// Reads a Job. A Job that cannot be decoded is skipped, and enqueued when the cache receives a version that can.
    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let job = self.jobs.get_decoded(&key.namespace, &key.name).ok_or(NoSnapshot::Gone)?;
        Ok(Snapshot { job, now })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(&snapshot.job, snapshot.now)
    }

    async fn act(Snapshot { job, .. }: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        match plan {
            Plan::WaitForExpiry { is_finish_time_in_future: true, .. } => {
                io.update_memory(|_| {
                    let key = job.metadata.key();
                    tracing::warn!(logger = "ttl-after-finished", key = %key, "Found a Job that finished in the future; it is deleted after its time to live");
                });
                Ok(Requeue::AfterPlannedDelay)
            }
            Plan::KeepJob | Plan::WaitForExpiry { .. } => Ok(Requeue::AfterPlannedDelay),
            Plan::NoFinishTime => Err(no_finish_time(job)),
            Plan::DeleteJob { .. } => delete_if_expired(job, io).await,
        }
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(JOBS, &snapshot.job.metadata)
    }
}

/// Reads a Job from the server, and deletes the Job if its time to live has ended in this version, too.
///
/// If the cache is stale, the time to live may have changed, or a new Job may have the same name.
async fn delete_if_expired(job: &Job, io: Io<'_, TtlController>) -> Result<Requeue, SyncError> {
    let read = Request::get(JOBS, &job.metadata.namespace, &job.metadata.name);
    let live = match io.send_and_decode::<Job>(read.with_reason("its time to live may have changed")).await {
        Ok(live) => live,
        Err(refusal) if refusal.is_not_found() => return Ok(Requeue::AfterPlannedDelay),
        Err(refusal) => return Err(SyncError::from_refusal("reading the finished Job", &refusal)),
    };
    // A forecast (a sync without requests) reads no object, and assumes that the Job is as cached.
    let live = live.as_ref().unwrap_or(job);
    let requeue = match decide::decide(live, io.now()) {
        Plan::DeleteJob { time_since_expiry } => return delete(live, time_since_expiry, io).await,
        Plan::NoFinishTime => Err(no_finish_time(job)),
        Plan::WaitForExpiry { time_to_expiry, .. } => Ok(Requeue::After(time_to_expiry)),
        Plan::KeepJob => Ok(Requeue::AfterPlannedDelay),
    };
    io.explain_deviation("the Job was recreated, or its time to live has changed");
    requeue
}

async fn delete(live_job: &Job, time_since_expiry: Duration, io: Io<'_, TtlController>) -> Result<Requeue, SyncError> {
    // If the time to live changes after the read, the version changes, too, and the precondition fails.
    let delete = Request::delete(JOBS, &live_job.metadata).with_propagation("Foreground").with_verb_text("remove");
    let deleted = io.send(delete.with_reason("its time to live has ended")).await;
    deleted.map_err(|refusal| SyncError::from_refusal("removing the finished Job", &refusal))?;
    io.update_memory(|controller| {
        controller.deletion_duration.observe(time_since_expiry.as_secs_f64());
        let (key, finished) = (live_job.metadata.key(), finish_time(live_job).map(|at| at.to_string()));
        tracing::info!(logger = "ttl-after-finished", key = %key, ?finished, "Removed a finished Job");
    });
    Ok(Requeue::AfterPlannedDelay)
}

fn no_finish_time(job: &Job) -> SyncError {
    let text = format!("unable to find the time when the Job {} finished", job.metadata.key());
    SyncError::new(SyncErrorClass::NoFinishTime, text)
}
