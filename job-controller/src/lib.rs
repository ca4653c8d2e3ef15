//! The Job controller: runs the Pods of each Job until enough of them have succeeded, and counts every Pod once.
//!
//! # What it promises
//!
//! Each finished Pod of a Job adds one to `status.succeeded` or `status.failed`, or its index to `status.completedIndexes`.
//! This happens exactly once, in spite of crashes, stale caches and lost answers. A finalizer keeps the Pod until the status
//! lists its UID, and the status lists the UID until the finalizer is removed ([`jobs::decide::first_status`]). A Job has at
//! most the wanted number of active Pods. No Pod is created while the Job is suspended, terminating or finished, or while the
//! caches do not show the last writes of this process. The status first announces the end of a Job (`SuccessCriteriaMet` or
//! `FailureTarget`). It reports the end (`Complete` or `Failed`) after every Pod is counted.
//!
//! A second loop deletes finished Jobs after their time to live ([`ttl`]).
//!
//! # How it is laid out
//!
//! ```text
//! jobs.rs     the loop that creates, deletes and counts the Pods of Jobs
//! orphans.rs  the loop that removes the finalizer from Pods that no Job counts
//! ttl.rs      the loop that deletes finished Jobs after their time to live
//! ```
//!
//! Each loop has its pure half in `decide.rs`; the parts of the loop for Jobs are files of their own:
//!
//! ```text
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide.rs ──► Plan ──► act.rs ──► API server
//!                                                       ▲                    │
//!                                                       └───── outcome ◄─────┘
//! ```
//!
//! The plan of a Job assumes that every request succeeds. With the outcome of the requests for Pods, `act` asks a second pure
//! function for the status: [`jobs::decide::first_status::decide_first_status`]. [`jobs::decide`] lists all steps of a sync.
//!
//! # Where it differs from upstream
//!
//! The reasons for these differences are in `docs/decisions/0006-jobs.md`, and for the first one in
//! `docs/decisions/0016-filters.md`.
//!
//! - Pods with restart policy `Always` are not watched, adopted or counted. Such a Pod keeps its tracking finalizer.
//! - Writes that the caches do not show yet (expectations), and the remembered state of a Job ([`jobs::memory`]), are kept by
//!   UID. A recreated Job with the same name does not wait for the writes of the deleted Job.
//! - A status is patched with a precondition on the version of the Job from which it was computed. It reports the true number
//!   of active Pods even while the back-off delays a new Pod (kubernetes/kubernetes#139428).
//! - The server rejects a status in which an index is completed and failed, the end is before the start, or a finished Job has
//!   no start time. Such a status is never written. A suspended Job that wants no Pods gets a start time only if the server
//!   requires it.
//! - A terminating Pod that was counted as failed is not counted again if it succeeds.
//! - When a Job has succeeded, its active Pods lose the finalizer before they are deleted, not afterwards. If this process
//!   crashes between the two requests, the next leader does not count these Pods as failed.
//! - If the list of uncounted Pods in the status is full, only Pods that would extend the list are left for the next sync.
//! - The back-off of an index delays no other index. After a restart of this process, existing failed Pods cause a back-off
//!   (kubernetes/kubernetes#114650). A failure time in the future, from the clock of a node, is replaced by the time at which
//!   this process first saw the failure.
//! - After the server has refused a Pod because the namespace is terminating, no other Pod is created. After admission has
//!   changed a Pod so that it does not belong to the Job, the Pod is deleted, and further Pods are created with growing pauses.
//! - A `FailedUpdate` Event reports that the server denies the adoption or release of a Pod, or the removal of its finalizer.
//!   The reason may be a missing permission, a policy or a webhook.
//! - After a sync that reaches its limit of 500 UIDs or 500 Pods, the next sync starts without waiting for an event.
//! - The sync of a terminating Job removes the finalizer of every Pod of the Job, even if the selector no longer matches it.
//!   Upstream keeps the finalizer of such a Pod, and a foreground deletion waits for the Pod forever.
//! - Pods lose their finalizer even if their Job finished or was deleted before this process started.
//! - A succeeded Pod is dropped from the cache after it is counted, so it is not released when its labels change.
//! - Writes to Pods have a precondition on the cached version. If the cache is stale, the server refuses a write, and no result
//!   is lost.
//! - The sync of a Job that API validation would reject fails with an error.

pub mod indexes;
pub mod jobs;
pub mod metrics;
pub mod objects;
pub mod orphans;
pub mod ttl;

mod options;
#[cfg(test)]
mod world;

use std::{sync::Arc, time::Duration};

use common::{app::ProgramDefinition, prelude::*, runtime::LoopGroup, second_writer::OwnedWrites};

pub use options::*;

use crate::{jobs::JobController, orphans::OrphanController};

/// The loop that syncs Jobs. A status of a Job that another manager writes is reported as a write by a second writer.
pub const JOB_LOOP: LoopDefinition =
    LoopDefinition::new("job-controller", "job", start).with_owned_writes(&[OwnedWrites::of_status("batch", "jobs")]);
/// The loop that deletes finished Jobs after their time to live.
pub const TTL_AFTER_FINISHED_LOOP: LoopDefinition =
    LoopDefinition::new("ttl-after-finished-controller", "ttl-after-finished", ttl::start);
/// The loops that this program can run: [`JOB_LOOP`] and [`TTL_AFTER_FINISHED_LOOP`].
pub const LOOPS: &[LoopDefinition] = &[JOB_LOOP, TTL_AFTER_FINISHED_LOOP];

/// The description of the program for [`common::app::main`]: its loops, flags, feature gates and `--tune` values.
pub const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "job-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Runs the Kubernetes Job and TTL-after-finished controllers as a service of their own",
    loops: LOOPS,
    workers_flags: &[CONCURRENT_JOB_SYNCS, CONCURRENT_TTL_AFTER_FINISHED_SYNCS],
    feature_gates: GATES,
    tunables: TUNABLES,
    single_value_flags: &[],
};

/// Returns the back-off of the queues `job` and `job_orphan_pod`: from one second to one minute.
fn backoff() -> BackoffSettings {
    BackoffSettings {
        base_delay: Duration::from_secs(1),
        max_delay: Duration::from_mins(1),
        retry_rate_and_burst: None,
    }
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue_with_backoff("job", backoff());
    let orphans = context.new_queue_with_backoff("job_orphan_pod", backoff());
    let workers = context.settings.worker_count(&CONCURRENT_JOB_SYNCS);
    let controller = Arc::new(JobController::new(context.clone(), queue.clone(), orphans.clone()));
    let orphan_controller = Arc::new(OrphanController(Arc::clone(&controller)));
    Arc::new(LoopGroup(vec![
        ("jobs", Loop::start(JOB_LOOP.name, context.clone(), controller, queue, workers)),
        ("orphans", Loop::start("job-orphan-pods", context, orphan_controller, orphans, workers)),
    ]))
}
