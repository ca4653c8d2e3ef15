//! Deletes finished Jobs after their time to live.
//!
//! A Job is deleted only after it has finished and its time to live has ended by the clock of this machine. The request has
//! preconditions on the UID and the version of the Job. The deletion is in the foreground: the Pods are deleted before the Job.
//! Finalizers are not changed. Upstream: `pkg/controller/ttlafterfinished`.

pub mod decide;
pub mod plan;
pub mod snapshot;

mod act;
mod observe;
mod watch;

use std::sync::Arc;

use common::{
    conditions::seconds,
    controller::{Controller, Loop, Observation},
    events::InvolvedObject,
    informer::{AnyInformer, SharedInformer},
    io::{Io, Requeue, SyncError},
    meta::{NamespacedName, Uid},
    metrics::Histogram,
    queue::{BackoffSettings, Queue},
    runtime::{LoopContext, RunningLoop},
};
use jiff::Timestamp;

use self::{act::Note, plan::Plan, snapshot::Snapshot};
use crate::{
    TTL_AFTER_FINISHED_LOOP,
    metrics::register_ttl_deletion_duration,
    objects::{JOBS, Job},
    options::CONCURRENT_TTL_AFTER_FINISHED_SYNCS,
};

/// The controller that deletes finished Jobs after their time to live.
pub struct TtlController {
    jobs: Arc<SharedInformer<Job>>,
    deletion_duration: Histogram,
}

/// Starts the loop with its queue `ttl_jobs_to_delete` and its event handlers.
pub(crate) fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue: Queue<NamespacedName> = context.new_queue("ttl_jobs_to_delete", BackoffSettings::default());
    let jobs = context.shared_informer::<Job>();
    let keys = queue.clone();
    jobs.add_handler(Box::new(move |event, origin| watch::on_job(&keys, event, origin)));
    let workers = context.settings.worker_count(&CONCURRENT_TTL_AFTER_FINISHED_SYNCS);
    let controller = TtlController { jobs, deletion_duration: register_ttl_deletion_duration(&context.metrics) };
    Loop::start(TTL_AFTER_FINISHED_LOOP.name, context, Arc::new(controller), queue, workers)
}

impl Controller for TtlController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        Ok(observe::observe(self.jobs.store(), key, now))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(&snapshot.job, snapshot.now)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, SyncError> {
        act::act(snapshot, plan, io).await
    }

    fn synced_object(snapshot: &Snapshot) -> (InvolvedObject, Uid) {
        (InvolvedObject::new(JOBS, &snapshot.job.metadata), snapshot.job.metadata.uid.clone())
    }

    fn apply_memory_note(&self, snapshot: &Snapshot, note: Note) {
        let key = snapshot.job.metadata.key();
        match note {
            Note::FinishTimeInFuture => {
                tracing::warn!(logger = "ttl-after-finished", key = %key, "Found a Job that finished in the future; it is deleted after its time to live");
            }
            Note::JobDeleted(late, finished) => {
                self.deletion_duration.observe(late.as_secs_f64());
                tracing::info!(logger = "ttl-after-finished", key = %key, finished = ?finished.map(seconds::format_rfc3339), "Removed a finished Job");
            }
        }
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![self.jobs.informer()]
    }
}
