//! Jobs: runs Pods until enough of them have succeeded, and counts every Pod once.
//!
//! # What it promises
//!
//! Each finished Pod of a Job adds one to `succeeded` or to `failed` (or its index to `completedIndexes`), exactly once, in spite
//! of crashes, lagging caches and lost answers. A finalizer prevents the removal of a Pod before it is counted, and the status
//! lists a counted Pod until its finalizer is removed, so that it is not counted again ([`jobs::decide::track`]). No more Pods
//! are active than wanted. No Pod is created while the Job is suspended, terminating or finished, or while the caches do not show
//! the last writes of this process. The status first announces how the Job will end, and reports the end once every Pod is
//! counted.
//!
//! A second loop deletes finished Jobs after their time to live ([`ttl`]).
//!
//! # How it is laid out
//!
//! ```text
//! jobs/     Jobs: Pods are created, deleted and counted
//! orphans/  Pods that carry the finalizer and have no Job that counts them
//! ttl/      finished Jobs whose time to live has passed
//! ```
//!
//! Each loop consists of the same files:
//!
//! ```text
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide.rs ──► Plan ──► act.rs ──► API server
//! ```
//!
//! # Where it differs from upstream
//!
//! The reasons are in `docs/decisions/0006-jobs.md`, and for the first point in `docs/decisions/0016-filters.md`.
//!
//! - Only Pods whose restart policy is not `Always` are watched. A Job neither adopts nor counts a Pod with restart policy
//!   `Always`, and the tracking finalizer of such a Pod stays.
//! - Expectations are kept by identity, in `common`'s ledger, and memories ([`jobs::memory`]) by UID: a recreated Job with the
//!   same name does not wait for its predecessor. Both depend on the caches, not on the events that arrived.
//! - A status is patched with a precondition on the version it was computed from. It reports the true number of active Pods also
//!   while a replacement waits (kubernetes/kubernetes#139428), its index sets are disjoint, its end is not before its start, and
//!   a Job that ends while it is suspended has a start time, because servers reject any other status forever. A Job that wanted
//!   no Pods has no start time, unless the server insists.
//! - A Pod that was counted as failed because it was terminating is not counted again if it succeeds after all.
//! - Pods that still run when a Job has succeeded lose their finalizer before they are deleted, not after: if this process dies
//!   in between, the next leader does not count them as failed.
//! - If the list of Pods being counted is full, only Pods that would make it longer wait.
//! - An index in back-off delays no other index. Failures before a restart of this process still cause a back-off
//!   (kubernetes/kubernetes#114650) while their Pods exist. A failure with a time in the future, from the clock of its node,
//!   counts from the time it was seen.
//! - After the server has refused a Pod because the namespace is terminating, no other Pod is created.
//! - A `FailedUpdate` Event reports that the server denies the adoption or the release of a Pod, or the removal of its finalizer,
//!   for lack of a permission or because a policy or a webhook forbids it.
//! - The remainder of a sync (beyond 500 UIDs, 500 Pods) follows at once, not with the next event.
//! - A terminating Job removes the finalizer of every Pod that it controls, also of a Pod that its selector no longer matches.
//!   Upstream keeps the finalizer of such a Pod, and a foreground deletion waits for it forever.
//! - Pods of Jobs that were finished or deleted before this process started lose their finalizer.
//! - A counted Pod of a Job that has succeeded is not cached any more, so it is not released when its labels change.
//! - Writes to Pods have a precondition on the cached version: with a stale cache they are refused, and no result is lost.
//! - Objects that validation would have rejected are left alone, with an error.

pub mod indexes;
pub mod jobs;
pub mod metrics;
pub mod objects;
pub mod orphans;
pub mod ttl;

mod options;
mod untrack;
#[cfg(test)]
mod world;

use std::{sync::Arc, time::Duration};

use common::{
    app::Definition,
    controller::Loop,
    queue::Backoff,
    runtime::{Context, LoopDefinition, Pair, Running},
    second_writer::OwnedWrites,
};

pub use options::*;

use crate::{jobs::JobController, orphans::OrphanController};

/// Name, metric label and owned fields of the Job loop.
pub const JOB: LoopDefinition =
    LoopDefinition::new("job-controller", "job", start).owning(&[OwnedWrites::status("batch", "jobs")]);
/// Name and metric label of the loop that deletes finished Jobs.
pub const TTL_AFTER_FINISHED: LoopDefinition =
    LoopDefinition::new("ttl-after-finished-controller", "ttl-after-finished", ttl::start);
/// Definitions of the loops that the binary runs: Jobs, and the deletion of finished Jobs.
pub const LOOPS: &[LoopDefinition] = &[JOB, TTL_AFTER_FINISHED];

/// Name, flags, gates and loops of the binary.
pub const DEFINITION: Definition = Definition {
    name: "job-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Runs the Kubernetes Job and TTL-after-finished controllers as a service of their own",
    loops: LOOPS,
    workers: &[CONCURRENT_JOB_SYNCS, CONCURRENT_TTL_SYNCS],
    gates: GATES,
    tunes: TUNES,
    flags: &[],
};

/// The back-off of both queues: from one second to one minute.
fn backoff() -> Backoff {
    Backoff { base: Duration::from_secs(1), max: Duration::from_mins(1), bucket: None }
}

fn start(context: Context) -> Arc<dyn Running> {
    let queue = context.queue("job", backoff());
    let orphans = context.queue("job_orphan_pod", backoff());
    let workers = context.settings.workers(&CONCURRENT_JOB_SYNCS);
    let controller = Arc::new(JobController::new(context.clone(), queue.clone(), orphans.clone()));
    let orphan_controller = Arc::new(OrphanController(Arc::clone(&controller)));
    Arc::new(Pair {
        main: Loop::start(JOB.name, context.clone(), controller, queue, workers),
        second: Loop::start("job-orphan-pods", context, orphan_controller, orphans, workers),
        name: "orphans",
    })
}
