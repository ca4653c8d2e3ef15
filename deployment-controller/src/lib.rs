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

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    app::ProgramDefinition,
    prelude::*,
    refs,
    second_writer::OwnedWrites,
    settings::{EXPECTATIONS_TIMEOUT, FeatureGate, Tunable, WorkersFlag},
};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    act::{PlanRun, StepResult, StepStop, join_errors},
    objects::{DEPLOYMENTS, Deployment, ReplicaSet},
    observe::{check_deployment, check_set, malformed},
    plan::{OnFailure, Plan},
    snapshot::{Snapshot, sort_by_creation_time},
    watch::EventHandlers,
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

/// Caches and memory of the loop that syncs Deployments.
pub struct DeploymentController {
    context: LoopContext,
    watch: Arc<EventHandlers>,
    deployments: Arc<Store<Deployment>>,
    sets: Arc<Store<ReplicaSet>>,
    ledger: Ledger,
    /// Time at which a server last dropped `status.terminatingReplicas` from a written status, because its version lacks the
    /// field or its feature gate is off. Without this memory every sync would write the field again.
    terminating_replicas_dropped_at: Mutex<Option<Instant>>,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("deployment");
    let workers = context.settings.worker_count(&CONCURRENT_SYNCS);
    let controller = DeploymentController::new(context.clone(), queue.clone());
    Loop::start(DEPLOYMENT_LOOP.name, context, Arc::new(controller), queue, workers)
}

impl DeploymentController {
    /// Starts the informers; their handlers add keys to `queue`.
    pub fn new(context: LoopContext, queue: Queue<NamespacedName>) -> Self {
        let (ledger, deployments) = (context.ledger(), Arc::default());
        let watch = Arc::new(EventHandlers {
            queue,
            deployments: Arc::clone(&deployments),
            ledger: ledger.clone(),
            debounce_period_per_100_pods: context.settings.tuned_duration(&SYNC_BATCH_PERIOD),
            deployments_with_listed_sets: Mutex::default(),
            refused_releases: Mutex::default(),
            pod_informers: Mutex::default(),
        });
        context
            .start_informer(Arc::clone(&deployments), handler_from_method(&watch, EventHandlers::on_deployment_event));
        let on_replica_set_event = handler_from_method(&watch, EventHandlers::on_replica_set_event);
        let sets = context.start_informer(Arc::default(), on_replica_set_event);
        Self { context, watch, deployments, sets, ledger, terminating_replicas_dropped_at: Mutex::default() }
    }
}

impl Controller for DeploymentController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let (deployment, _) =
            self.ledger.read(&self.deployments, key, WaitPolicy::AllWrites, |_| HashSet::default())?;
        let rollout_limits = check_deployment(&deployment)?;
        let owned = self.sets.list_by_index(ByController, &IndexValue::for_controller(&deployment.metadata))?;
        owned.iter().try_for_each(|set| check_set(set))?;
        // A malformed orphan is skipped, because it would otherwise stop every Deployment of its namespace.
        let namespace = IndexValue::Text(deployment.metadata.namespace.clone());
        let orphans = self.sets.list_decoded_by_index(OrphansByNamespace, &namespace);
        let orphans = orphans.into_iter().filter(|set| check_set(set).is_ok());
        let owner = Owner::new(DEPLOYMENTS, &deployment.metadata);
        let selector = &deployment.spec.selector.compiled;
        let mut claims = refs::claim_dependents(&owner, selector, owned.into_iter().chain(orphans), |_| true)
            .map_err(|error| malformed(format!("spec.{error}")))?;
        let release_retry_after = self.keep_sets_with_refused_release(&mut claims, now);
        sort_by_creation_time(&mut claims.to_keep);
        let unfinished_pod_counts = if decide::recreate::needs_pods(&deployment, &claims.to_keep) {
            self.watch.count_unfinished_pods(&deployment, &claims.to_keep)?
        } else {
            Some(BTreeMap::new())
        };
        Ok(Snapshot {
            owner,
            claims,
            release_retry_after,
            unfinished_pod_counts,
            rollout_limits,
            now,
            terminating_replicas_support: self.terminating_replicas_support(&deployment),
            are_predecessor_sets_cached: self.are_predecessor_sets_cached(&deployment, now),
            deployment,
        })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Runs the steps of the plan. A failed step determines by its [`OnFailure`] which of the later steps run.
    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        let mut run = PlanRun::new(snapshot, plan, io);
        let (mut errors, mut on_last_failure) = (Vec::new(), None);
        let mut steps = Cow::Borrowed(&*plan.steps);
        let mut at = 0;
        while let Some(step) = steps.get(at) {
            at += 1;
            match (on_last_failure, step.on_failure) {
                (Some(OnFailure::SkipStepsWithSameOnFailure), OnFailure::SkipStepsWithSameOnFailure) => continue,
                (Some(OnFailure::RunOnlyStepsWithSameOnFailure), on_failure)
                    if on_failure != OnFailure::RunOnlyStepsWithSameOnFailure =>
                {
                    break;
                }
                _ => {}
            }
            match run.run_step(step).await {
                Ok(StepResult::Done) => {
                    if let Some(event) = &step.event {
                        io.record_event(event.kind, event.reason, &event.message);
                    }
                }
                Ok(StepResult::Unneeded) => {}
                Err(StepStop::Failed(error)) if step.on_failure == OnFailure::Ignore => io.update_memory(|_| {
                    let key = snapshot.deployment.metadata.key();
                    tracing::debug!(key = %key, err = %error, "Ignored a failed step");
                }),
                Err(StepStop::Failed(error)) => {
                    errors.push(error);
                    if step.on_failure == OnFailure::EndSync {
                        break;
                    }
                    on_last_failure = Some(step.on_failure);
                }
                Err(StepStop::NotCreated(error, follow_up)) => {
                    errors.push(error);
                    (steps, at) = (Cow::Owned(follow_up), 0);
                }
                Err(StepStop::End(requeue)) => return join_errors(errors).map_or(Ok(requeue), Err),
            }
        }
        if let (true, Some(failure)) = (errors.is_empty(), &plan.failure) {
            errors.push(SyncError::new(SyncErrorClass::Plan, failure));
        }
        join_errors(errors).map_or(Ok(run.requeue.unwrap_or(plan.requeue)), Err)
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(DEPLOYMENTS, &snapshot.deployment.metadata)
    }

    /// Starts the informer of the Pods that `Recreate` needs, or stops the informer when its Pods are no longer needed.
    fn record_plan(&self, snapshot: &Snapshot, _: &Plan) {
        let Snapshot { deployment, claims, .. } = snapshot;
        if decide::recreate::needs_pods(deployment, &claims.to_keep) {
            self.watch.start_pod_informer(&self.context, deployment, &claims.to_keep);
            // The deletion event may have come before the start, and a shadow does not call `after_sync`.
            self.after_sync(snapshot);
        } else {
            self.watch.pod_informers.lock().remove(&deployment.metadata.uid);
        }
    }

    /// Drops the memory of a deleted Deployment again, because a write of this sync may be recorded after the deletion event.
    fn after_sync(&self, snapshot: &Snapshot) {
        let deployment = &snapshot.deployment.metadata;
        if !self.deployments.contains_object(deployment) {
            self.watch.forget_deployment(&deployment.uid);
        }
    }
}
