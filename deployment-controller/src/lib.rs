//! Deployments: one ReplicaSet for each template a Deployment has had, and replicas moved from the old ones to the new.
//!
//! # What it promises
//!
//! If a Deployment stays as it is and its Pods can run, it ends up with exactly `spec.replicas` of them in the ReplicaSet of
//! its current template, none in others, and a status that says so. On the way there are never more than maxSurge Pods too
//! many nor, by what ReplicaSets say of themselves, more than maxUnavailable too few; under `Recreate` no new Pod starts
//! before the last old one has ended. Templates and selectors of ReplicaSets are never touched, nor anything another
//! controller owns. A Deployment that is settled is not written to, by whomever it was settled.
//!
//! # How it is laid out
//!
//! ```text
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide/ ──► Plan ──► act ──► API server
//! (events        │         (indexes of     (pure)       revision, rolling,     steps in order,
//!  to keys)      │          the caches)                 recreate, scale,       creation, rollback
//!                │                                      progress, ...
//!                └──────────────◄── requeue: the progress deadline
//! ```
//!
//! [`objects`] are the fields that are read; [`snapshot`] and [`plan`] are what goes into and comes out of [`decide`].
//!
//! # Where it differs from upstream
//!
//! - A sync waits until the caches show what the one before wrote, so that nothing is created or sized twice on an old view.
//! - Steps of one sync build on each other's results, where upstream runs into a conflict with itself and starts again.
//! - Stale statuses are counted up to the size of their ReplicaSet everywhere, where upstream gives up on some of them.
//! - A scaling event ends also where no size has to change; upstream stays in it for good.
//! - Proportional scaling never adds up to more than maxSurge allows, also where somebody has scaled a ReplicaSet by hand, and
//!   shrinks before it grows.
//! - `Recreate` waits for Pods that run, not for those that have ended, and hears of every end. Pods are watched only then,
//!   those of that Deployment.
//! - A ReplicaSet that is not selected any more and whose release is refused stays in the count until it can be released.
//! - A `FailedUpdate` or `FailedDelete` Event reports that the server denies a change, an adoption, a release or a deletion of a
//!   ReplicaSet: a right is missing, or a policy or a webhook forbids it.
//! - A template that something changes on its way in is tried a few times, not for ever. No key is ever given up.
//! - Objects that validation would have refused are left alone with an error.

pub mod decide;
pub mod limits;
pub mod objects;
pub mod plan;
pub mod snapshot;

mod act;
mod observe;
mod watch;
#[cfg(test)]
mod world;

use std::{sync::Arc, time::Duration};

use common::{
    app::Definition,
    clock::Instant,
    consistency::Ledger,
    controller::{Controller, Loop, Observed},
    events::ObjectRef,
    informer::{AnyInformer, Informer, handler},
    io::{Failed, Io, Requeue},
    meta::{Key, Uid},
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    second_writer::OwnedWrites,
    settings::{EXPECTATIONS_TIMEOUT, FeatureGate, Tune, WorkersFlag},
    store::Store,
};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    act::Note,
    objects::{Deployment, REPLICA_SETS, ReplicaSet},
    plan::Plan,
    snapshot::{Snapshot, TerminatingReplicas},
    watch::{PodWatches, Watch},
};

/// The gate of `status.terminatingReplicas`.
pub const TERMINATING_REPLICAS: FeatureGate = FeatureGate::on(
    "DeploymentReplicaSetTerminatingReplicas",
    "status.terminatingReplicas counts Pods that are going away",
);
/// All gates this crate knows.
pub const GATES: &[FeatureGate] = &[TERMINATING_REPLICAS];

/// All values of this crate that can be tuned.
pub const TUNES: &[Tune] = &[EXPECTATIONS_TIMEOUT];

/// The flag that says how many Deployments are synced at once.
pub const CONCURRENT_SYNCS: WorkersFlag = WorkersFlag::new(
    "concurrent-deployment-syncs",
    5,
    "How many Deployments are synced at once; more is quicker and takes more CPU and network",
);
/// All flags of this crate that say how many objects are synced at once.
pub const WORKERS: &[WorkersFlag] = &[CONCURRENT_SYNCS];

/// The loop of Deployments.
pub const DEPLOYMENTS: LoopDefinition = LoopDefinition::new("deployment-controller", "deployment", start)
    .owning(&[OwnedWrites::status("apps", "deployments")]);
/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] = &[DEPLOYMENTS];

/// The binary.
pub const DEFINITION: Definition = Definition {
    name: "deployment-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Rolls Deployments out: one ReplicaSet for each template, and replicas moved from the old ones to the new.",
    loops: LOOPS,
    workers: WORKERS,
    gates: GATES,
    tunes: TUNES,
    flags: &[],
};

/// For how long a server that does not keep `status.terminatingReplicas` is believed not to know it.
const TERMINATING_UNKNOWN: Duration = Duration::from_mins(10);

/// The controller.
pub struct DeploymentController {
    context: Context,
    watch: Arc<Watch>,
    deployments: Informer<Deployment>,
    sets: Informer<ReplicaSet>,
    pods: PodWatches,
    /// When a server dropped `status.terminatingReplicas` from what was written: it is of a version without it, or has its
    /// gate off. Writing it again with every sync would change nothing, for ever.
    terminating_dropped: Mutex<Option<Instant>>,
}

fn start(context: Context) -> Arc<dyn Running> {
    let queue = context.queue("deployment", Backoff::default());
    let workers = context.settings.workers(&CONCURRENT_SYNCS);
    let controller = DeploymentController::new(context.clone(), queue.clone());
    Loop::start(DEPLOYMENTS.name, context, Arc::new(controller), queue, workers)
}

impl DeploymentController {
    /// Starts watching; keys go to `queue`.
    pub fn new(context: Context, queue: Queue<Key>) -> Self {
        let deployments: Arc<Store<Deployment>> = Arc::default();
        let watch = Arc::new(Watch {
            queue: queue.clone(),
            deployments: Arc::clone(&deployments),
            ledger: context.ledger(),
            explored: Mutex::default(),
            refused: Mutex::default(),
        });
        Self {
            deployments: context.informer(deployments, handler(&watch, Watch::on_deployment)),
            sets: context.informer(Arc::default(), handler(&watch, Watch::on_set)),
            // Nothing is replayed of Pods: a rollout hears of their ends.
            pods: PodWatches::new(context.api.clone(), context.reading(), queue.clone()),
            terminating_dropped: Mutex::new(None),
            watch,
            context,
        }
    }

    /// What becomes of the count of terminating Pods in the status of this Deployment.
    fn terminating_replicas(&self, deployment: &Deployment) -> TerminatingReplicas {
        let unknown = |since: Instant| self.context.clock.instant().duration_since(since) < TERMINATING_UNKNOWN;
        let dropped = || self.terminating_dropped.lock().is_some_and(unknown);
        let known = deployment.status.terminating_replicas.is_some() || !dropped();
        match (self.context.settings.gate(&TERMINATING_REPLICAS), known) {
            (true, true) => TerminatingReplicas::Reported,
            (true, false) => TerminatingReplicas::Dropped,
            (false, _) => TerminatingReplicas::Absent,
        }
    }

    /// Notes whether the server kept a count of terminating Pods that was written.
    fn note_terminating(&self, kept: bool) {
        *self.terminating_dropped.lock() = (!kept).then(|| self.context.clock.instant());
    }
}

impl Controller for DeploymentController {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &Key, now: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        self.observe(key, now)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, Failed> {
        act::act(snapshot, plan, io).await
    }

    fn object(snapshot: &Snapshot) -> (ObjectRef, Uid) {
        let meta = &snapshot.deployment.metadata;
        (ObjectRef::new(objects::DEPLOYMENTS, meta), meta.uid.clone())
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        let meta = &snapshot.deployment.metadata;
        match note {
            Note::Read(version) => self.watch.ledger.wrote(&meta.uid, REPLICA_SETS, version),
            Note::LookedForSets => {
                self.watch.explored.lock().insert(meta.uid.clone());
            }
            Note::ReleaseRefused(set, why) => {
                tracing::debug!(key = %meta.key(), set = %set, err = %why, "Not released");
                self.note_refused(snapshot, &set);
            }
            Note::KeepsTerminating(keeps) => self.note_terminating(keeps),
            Note::Ignored(why) => tracing::debug!(key = %meta.key(), err = %why, "Ignored"),
        }
    }

    /// The event of the deletion of a Deployment may have come before the last answer was noted.
    fn after_sync(&self, snapshot: &Snapshot) {
        let deployment = &snapshot.deployment.metadata;
        if !self.deployments.store().shows(deployment) {
            self.watch.forget(&deployment.uid);
        }
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.watch.ledger)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        // Watches of Pods begin with the sync that needs them: none is older than the leadership of this process.
        vec![&self.deployments, &self.sets]
    }
}
