//! The Deployment controller: creates one ReplicaSet for each template of a Deployment and moves replicas from old ones to the
//! new one.
//!
//! # What it promises
//!
//! If a Deployment does not change and its Pods can run, the ReplicaSet of its current template ends up with exactly
//! `spec.replicas` Pods, all other ReplicaSets have none, and the status says so. During a rollout at most maxSurge Pods exist
//! beyond `spec.replicas`. According to the statuses of the ReplicaSets, at most maxUnavailable Pods are missing. Under
//! `Recreate`, no new Pod starts before all old Pods have finished. The controller never changes the template or selector of a
//! ReplicaSet, nor any object that another controller owns. It sends no writes for a settled Deployment, no matter which
//! controller settled that Deployment.
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
//! [`objects`] contains the fields that are read. [`snapshot`] and [`plan`] are the input and the output of [`decide`].
//!
//! # Where it differs from upstream
//!
//! - A sync waits until the caches show the writes of the sync before it, so that no decision to create or size a ReplicaSet
//!   rests on a stale cache.
//! - Each step of a sync builds on the results of the steps before it. Upstream runs into a conflict with its own write and
//!   starts again.
//! - Available replicas reported by a stale ReplicaSet status are always capped at the size of the ReplicaSet. Upstream aborts
//!   the scale-down for some stale statuses and overlooks others.
//! - A scaling event ends even if no size has to change. In upstream, every later sync is then a scaling event.
//! - Proportional scaling never raises the sum of the sizes above `spec.replicas` plus maxSurge, even if a user has scaled a
//!   ReplicaSet by hand. It scales down before it scales up.
//! - The status of a ReplicaSet of 100 Pods or more enqueues the Deployment after 20 ms for every 100 Pods, 200 ms at most
//!   (`deployment-sync-batch-period`), so that one status update covers the changes of many Pods.
//! - `Recreate` waits only for Pods that have not finished, and each finished Pod enqueues the Deployment. Pods are watched
//!   only during that wait, and only those of the Deployment.
//! - If a ReplicaSet no longer matches the selector, and the server refuses to release it, the ReplicaSet is counted until its
//!   release succeeds.
//! - A `FailedUpdate` or `FailedDelete` Event reports that the server denies a change, an adoption, a release or a deletion of a
//!   ReplicaSet: a permission is missing, or a policy or a webhook forbids the request.
//! - If the template of every ReplicaSet is changed at creation, the controller stops after five attempts. No key is ever
//!   dropped from the queue.
//! - An object that API validation refuses, from a server without validation, is left alone, and its sync fails with an error.

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
    app::ProgramDefinition,
    clock::Instant,
    consistency::Ledger,
    controller::{Controller, Loop, Observation},
    events::InvolvedObject,
    informer::{AnyInformer, Informer, handler_from_method},
    io::{Io, Requeue, SyncError},
    meta::{NamespacedName, Uid},
    queue::{BackoffSettings, Queue},
    runtime::{LoopContext, LoopDefinition, RunningLoop},
    second_writer::OwnedWrites,
    settings::{EXPECTATIONS_TIMEOUT, FeatureGate, Tunable, WorkersFlag},
    store::Store,
};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    act::DeploymentNote,
    objects::{Deployment, REPLICA_SETS, ReplicaSet},
    plan::Plan,
    snapshot::{Snapshot, TerminatingReplicasSupport},
    watch::{EventHandlers, PodInformers},
};

/// Feature gate of `status.terminatingReplicas`; on by default.
pub const TERMINATING_REPLICAS_GATE: FeatureGate = FeatureGate::on_by_default(
    "DeploymentReplicaSetTerminatingReplicas",
    "status.terminatingReplicas counts terminating Pods",
);
/// The feature gates that `--feature-gates` accepts for this crate.
pub const FEATURE_GATES: &[FeatureGate] = &[TERMINATING_REPLICAS_GATE];

/// Delay between a change of a ReplicaSet's status and the sync, for every 100 Pods of the ReplicaSet up to 1,000; 20 ms by
/// default. Upstream has no such delay.
pub const SYNC_BATCH_PERIOD: Tunable = Tunable::of_duration(
    "deployment-sync-batch-period",
    Duration::from_millis(20),
    "How long to collect changes of ReplicaSet statuses before their Deployment is synced, for every 100 Pods of the ReplicaSet up to 1000; smaller ReplicaSets are not delayed",
);

/// The settings that `--tune` accepts for this crate.
pub const TUNABLES: &[Tunable] = &[EXPECTATIONS_TIMEOUT, SYNC_BATCH_PERIOD];

/// Number of workers that sync Deployments concurrently; 5 by default.
pub const CONCURRENT_SYNCS: WorkersFlag = WorkersFlag::new(
    "concurrent-deployment-syncs",
    5,
    "How many Deployments are synced at once; more is quicker and takes more CPU and network",
);
/// The flags of this crate that set a number of workers.
pub const WORKERS_FLAGS: &[WorkersFlag] = &[CONCURRENT_SYNCS];

/// The loop that syncs Deployments and writes their status.
pub const DEPLOYMENT_LOOP: LoopDefinition = LoopDefinition::new("deployment-controller", "deployment", start)
    .with_owned_writes(&[OwnedWrites::of_status("apps", "deployments")]);
/// The loops that this crate runs.
pub const LOOPS: &[LoopDefinition] = &[DEPLOYMENT_LOOP];

/// Name, flags and loops of the binary.
pub const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "deployment-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Rolls out Deployments: creates one ReplicaSet for each template and moves replicas from old ones to the new one.",
    loops: LOOPS,
    workers_flags: WORKERS_FLAGS,
    feature_gates: FEATURE_GATES,
    tunables: TUNABLES,
    single_value_flags: &[],
};

/// How long to wait before writing `status.terminatingReplicas` again to a server that dropped it.
const TERMINATING_REPLICAS_RETRY_PERIOD: Duration = Duration::from_mins(10);

/// Caches and memory of the loop that syncs Deployments.
pub struct DeploymentController {
    context: LoopContext,
    watch: Arc<EventHandlers>,
    deployments: Informer<Deployment>,
    sets: Informer<ReplicaSet>,
    pods: PodInformers,
    /// Time at which a server last dropped `status.terminatingReplicas` from a written status, because its version lacks the
    /// field or its feature gate is off. Without this memory every sync would write the field again.
    terminating_dropped: Mutex<Option<Instant>>,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("deployment", BackoffSettings::default());
    let workers = context.settings.worker_count(&CONCURRENT_SYNCS);
    let controller = DeploymentController::new(context.clone(), queue.clone());
    Loop::start(DEPLOYMENT_LOOP.name, context, Arc::new(controller), queue, workers)
}

impl DeploymentController {
    /// Starts the informers; their handlers add keys to `queue`.
    pub fn new(context: LoopContext, queue: Queue<NamespacedName>) -> Self {
        let deployments: Arc<Store<Deployment>> = Arc::default();
        let watch = Arc::new(EventHandlers {
            queue: queue.clone(),
            deployments: Arc::clone(&deployments),
            ledger: context.new_ledger(),
            debounce_period_per_100_pods: context.settings.tuned_duration(&SYNC_BATCH_PERIOD),
            deployments_with_listed_sets: Mutex::default(),
            refused_releases: Mutex::default(),
        });
        Self {
            deployments: context
                .start_informer(deployments, handler_from_method(&watch, EventHandlers::on_deployment_event)),
            sets: context
                .start_informer(Arc::default(), handler_from_method(&watch, EventHandlers::on_replica_set_event)),
            // No periodic resync for Pods, because each Pod that finishes or is deleted enqueues its Deployment.
            pods: PodInformers::new(context.api.clone(), context.short_lived_cache_config(), queue.clone()),
            terminating_dropped: Mutex::new(None),
            watch,
            context,
        }
    }

    /// Decides how the status of this Deployment reports terminating Pods.
    fn terminating_replicas(&self, deployment: &Deployment) -> TerminatingReplicasSupport {
        let unknown = |since: Instant| {
            self.context.clock.monotonic_now().duration_since(since) < TERMINATING_REPLICAS_RETRY_PERIOD
        };
        let dropped = || self.terminating_dropped.lock().is_some_and(unknown);
        let known = deployment.status.terminating_replicas.is_some() || !dropped();
        match (self.context.settings.is_feature_gate_on(&TERMINATING_REPLICAS_GATE), known) {
            (true, true) => TerminatingReplicasSupport::Reported,
            (true, false) => TerminatingReplicasSupport::DroppedByServer,
            (false, _) => TerminatingReplicasSupport::Disabled,
        }
    }

    /// Records whether the server kept `status.terminatingReplicas` in a written status.
    fn note_terminating(&self, kept: bool) {
        *self.terminating_dropped.lock() = (!kept).then(|| self.context.clock.monotonic_now());
    }
}

impl Controller for DeploymentController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = DeploymentNote;

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        self.observe(key, now)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, DeploymentNote>) -> Result<Requeue, SyncError> {
        act::act(snapshot, plan, io).await
    }

    fn synced_object(snapshot: &Snapshot) -> (InvolvedObject, Uid) {
        let meta = &snapshot.deployment.metadata;
        (InvolvedObject::new(objects::DEPLOYMENTS, meta), meta.uid.clone())
    }

    fn apply_memory_note(&self, snapshot: &Snapshot, note: DeploymentNote) {
        let meta = &snapshot.deployment.metadata;
        match note {
            DeploymentNote::ReadReplicaSet(version) => self.watch.ledger.record_write(&meta.uid, REPLICA_SETS, version),
            DeploymentNote::SearchedForReplicaSets => {
                self.watch.deployments_with_listed_sets.lock().insert(meta.uid.clone());
            }
            DeploymentNote::ReleaseRefused(set, why) => {
                tracing::debug!(key = %meta.key(), set = %set, err = %why, "The server refused to release a ReplicaSet");
                self.record_refused_release(snapshot, &set);
            }
            DeploymentNote::KeepsTerminatingReplicas(keeps) => self.note_terminating(keeps),
            DeploymentNote::IgnoredFailure(why) => {
                tracing::debug!(key = %meta.key(), err = %why, "Ignored a failed step");
            }
        }
    }

    /// Drops the memory of a deleted Deployment again, because a write of this sync may be recorded after the deletion event.
    fn after_sync(&self, snapshot: &Snapshot) {
        let deployment = &snapshot.deployment.metadata;
        if !self.deployments.store().contains_object(deployment) {
            self.watch.forget_deployment(&deployment.uid);
        }
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.watch.ledger)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        // Pod informers are left out, because each starts in a sync, and therefore after the start of this leader's term.
        vec![&self.deployments, &self.sets]
    }
}
