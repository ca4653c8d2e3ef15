//! Jobs: runs Pods until enough of them have succeeded, and counts every one of them once.
//!
//! # What it promises
//!
//! Each Pod of a Job that ends adds one to `succeeded` or to `failed` (or its index to `completedIndexes`), once, whatever
//! crashes, lags or is lost meanwhile: a Pod cannot go before it was counted, since it carries a finalizer, and is not
//! counted again, since the status names it until the finalizer is gone ([`jobs::decide::track`]). No more Pods are active than
//! are wanted; none is created while the Job is suspended, being deleted or finished, or while the caches do not show the last writes
//! of this process. The status tells first that the end is decided, and that the Job has ended once every Pod is counted.
//!
//! A second loop removes finished Jobs when their time to live has passed ([`ttl`]).
//!
//! # How it is laid out
//!
//! ```text
//! jobs/     Jobs: Pods are created, deleted and counted
//! orphans/  Pods that carry the finalizer and have no Job that counts them
//! ttl/      finished Jobs whose time to live has passed
//! ```
//!
//! Each loop is made of the same files; where reading the caches takes a line, `observe` stands with the controller:
//!
//! ```text
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide.rs ──► Plan ──► act.rs ──► API server
//! ```
//!
//! # Where it differs from upstream
//!
//! Why is in `docs/decisions/0006-jobs.md`, and of the first point in `docs/decisions/0016-filters.md`.
//!
//! - Only Pods whose restart policy is not `Always` are watched. A Job neither adopts nor counts a Pod that is always restarted, and
//!   the tracking finalizer of such a Pod stays.
//! - Expectations are kept by identity, in `common`'s ledger, and memories ([`jobs::memory`]) by uid: a Job that was recreated
//!   under its name waits for nothing of its predecessor. Both are judged by the caches, not by which events came.
//! - A status is patched, onto the version it was computed from. It tells the true number of active Pods also while a
//!   replacement waits (kubernetes/kubernetes#139428), its index sets are disjoint, its end is not before its start, and a
//!   Job that ends while it is suspended has a start: servers refuse anything else, for ever. One that wanted nothing has
//!   none, unless the server insists.
//! - Of a Pod that was counted as failed because it was terminating, and succeeded after all, nothing counts again.
//! - Pods that still run when a Job has succeeded lose their finalizer before they are deleted, not after: if this process
//!   dies in between, the next leader does not count them as failed.
//! - Where the list of Pods being counted is full, only Pods that would make it longer wait.
//! - An index that has to wait delays no other one. Failures before a restart of this process still delay
//!   (kubernetes/kubernetes#114650), where Pods still tell of them. One whose node says that it is yet to come delays from
//!   when it was seen.
//! - After the server has refused a Pod because the namespace terminates, no other is asked for.
//! - A `FailedUpdate` Event reports that the server denies the adoption or the release of a Pod, or the removal of its finalizer: a
//!   right is missing, or a policy or a webhook forbids it.
//! - What one sync leaves (500 uids, 500 Pods) follows at once, not with the next event.
//! - A Job that is being deleted takes the finalizer of every Pod that it controls, also of one that its selector no longer
//!   matches: upstream leaves that one, and a foreground deletion waits for it for ever.
//! - Pods of Jobs that had finished, or were gone, when this process started lose their finalizer.
//! - A Pod of a Job that has succeeded and was counted is not cached any more: it is not released when its labels change.
//! - Writes to Pods name the version of the Pod that was judged: on an old view they are refused, and no result is lost.
//! - Objects that validation would have refused are left alone with an error.

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

/// The loop of Jobs.
pub const JOB: LoopDefinition =
    LoopDefinition::new("job-controller", "job", start).owning(&[OwnedWrites::status("batch", "jobs")]);
/// The loop that removes finished Jobs.
pub const TTL_AFTER_FINISHED: LoopDefinition =
    LoopDefinition::new("ttl-after-finished-controller", "ttl-after-finished", ttl::start);
/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] = &[JOB, TTL_AFTER_FINISHED];

/// The program.
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

/// Failing keys of both queues come back after a second, and at the latest after a minute.
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
