//! The ReplicaSet and ReplicationController controllers: keep the count of Pods at `spec.replicas`.
//!
//! # What it promises
//!
//! In this crate, a "set" is a ReplicaSet or a ReplicationController. If a set does not change, it ends up with exactly
//! `spec.replicas` active Pods that match its selector and have the set as their controller, and with a status that counts
//! them. Until then, the controller never creates more Pods than are missing and never deletes more than are surplus. It does
//! neither while its cache lags behind its own writes, and never changes a Pod that another controller owns.
//!
//! # How it is laid out
//!
//! ```text
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide/ ──► Plan ──► act ──► API server
//! (events        │         (indexes of     (pure)       manage, status,      claim, create,
//!  to keys)      │          both caches)                failure, timer       delete, status
//!                └──────────────◄── requeue: a Pod becomes available, own writes are not seen yet
//! ```
//!
//! [`kind`] contains the differences between the two kinds; all other code is shared. Both loops read the Pods of
//! [`pod_cache`]. `pod_backoff.rs` delays creations for sets with failing Pods, if `--tune failed-pod-backoff` is on.
//!
//! # Where it differs from upstream
//!
//! - Expectations identify each Pod, in the ledger of `common`: a Pod created by another writer satisfies none of them, a lost
//!   answer blocks only while the request may still take effect, and a released Pod is no longer awaited.
//! - Deletions, adoptions and releases name the version of the Pod in the snapshot, so that a Pod is not deleted if it has left
//!   its set or become ready since then. A status patch names the version of the set from which the status was computed.
//! - The condition `ReplicaFailure` is kept until a sync manages Pods without a failure. Its message describes the latest
//!   failure.
//! - A Pod change that does not affect the count of active Pods, such as readiness, enqueues the set after 20 ms
//!   (`replicaset-sync-batch-period`), so that one status update covers the changes of many Pods. For a set of more than 100
//!   Pods the delay grows in proportion to the Pods, as the cost of a sync does, up to 200 ms.
//! - After the server has refused a Pod because the namespace is terminating, no further Pod is created. After admission has
//!   changed a Pod so that it does not belong to the set, the Pod is deleted, and further Pods are created with growing pauses.
//! - A `FailedUpdate` Event reports that the server denies adoptions or releases of Pods: a permission is missing, or a policy
//!   or a webhook forbids the request.
//! - Objects that API validation would have refused (no selector, negative counts) are not changed, and their syncs fail with
//!   an error.
//! - Finished Pods, and Pods of other kinds of controllers, are not cached. Upstream counts Pods of other controllers for
//!   co-location.
//!
//! # What operators can turn on
//!
//! The following options apply to both kinds. By default, they are off or have upstream's value; `--tune` changes them:
//!
//! - `failed-pod-backoff`: if the Pods of a set fail soon after their creation, without becoming ready, further creations are
//!   delayed. The first replacement is created at once; later ones wait 1 s, doubling up to a minute, until a Pod of the set
//!   becomes ready. Upstream creates replacements as fast as nodes reject them. The delay applies to all missing Pods of the
//!   set. It is kept in memory only, so a new leader starts without delays.
//! - `max-backoff`: the maximum back-off of a set with failing syncs. With upstream's 1000 s, free quota may be unused that
//!   long.
//! - `rerank-as-pods-are-chosen`: a Pod chosen for deletion no longer counts for its node, so that a scale-down balances nodes.
//!   Upstream empties the fullest node.
//! - `rank-by-own-pods`: sets without a controller, and all ReplicationControllers, first delete Pods on the nodes with most of
//!   their own Pods. Upstream ignores nodes for them.

pub mod decide;
pub mod kind;
pub mod metrics;
pub mod objects;
pub mod plan;
pub mod pod_cache;
pub mod snapshot;

mod act;
mod observe;
mod pod_backoff;
mod watch;
#[cfg(test)]
mod world;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    app::ProgramDefinition,
    pod_creation_pauses::PodCreationPauses,
    pods::PODS,
    prelude::*,
    refs,
    second_writer::OwnedWrites,
    settings::{ATOMIC_FIFO, EXPECTATIONS_TIMEOUT, FeatureGate, OperatorSettings, Tunable},
};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    decide::{manage, status, timer},
    kind::{ReplicaSets, ReplicationControllers, SetKind},
    metrics::ControllerMetrics,
    objects::ReplicaSet,
    plan::{Plan, PodChanges, PodChangesOutcome},
    pod_backoff::FailedPodBackoffs,
    pod_cache::CachedPod,
    snapshot::{DecisionSettings, SharedPod, Snapshot},
    watch::EventHandlers,
};

/// Feature gate of the annotation `controller.kubernetes.io/pod-deletion-cost`; on by default.
pub const POD_DELETION_COST: FeatureGate = FeatureGate::on_by_default(
    "PodDeletionCost",
    "The annotation controller.kubernetes.io/pod-deletion-cost of a Pod sets the cost of its deletion",
);
/// Feature gate of ranking by the logarithm of a Pod's age; locked to on.
pub const LOGARITHMIC_SCALE_DOWN: FeatureGate =
    FeatureGate::always_on("LogarithmicScaleDown", "Pods to delete are ranked by the magnitude of their age");
/// Feature gate of `status.terminatingReplicas`; on by default.
pub const DEPLOYMENT_REPLICA_SET_TERMINATING_REPLICAS: FeatureGate = FeatureGate::on_by_default(
    "DeploymentReplicaSetTerminatingReplicas",
    "status.terminatingReplicas counts terminating Pods",
);
/// Feature gate: a sync waits until the caches show the writes of this process for the set; on by default.
///
/// If the gate is off, a sync claims Pods and writes the status on stale caches, as upstream does. With either value, no sync
/// creates or deletes Pods on stale caches.
pub const STALE_CONTROLLER_CONSISTENCY_REPLICA_SET: FeatureGate = FeatureGate::on_by_default(
    "StaleControllerConsistencyReplicaSet",
    "A ReplicaSet is not synced before the caches show what was last written for it; needs AtomicFIFO",
);
/// The feature gates that `--feature-gates` accepts for this crate.
pub const FEATURE_GATES: &[FeatureGate] = &[
    POD_DELETION_COST,
    LOGARITHMIC_SCALE_DOWN,
    DEPLOYMENT_REPLICA_SET_TERMINATING_REPLICAS,
    STALE_CONTROLLER_CONSISTENCY_REPLICA_SET,
    ATOMIC_FIFO,
];

/// Maximum count of Pods that one sync creates or deletes; 500 by default. Upstream: `BurstReplicas`.
pub const BURST_REPLICAS: Tunable =
    Tunable::of_count("burst-replicas", 500, "Maximum number of Pods that one sync of a ReplicaSet creates or deletes");
/// Debounce of Pod changes that do not affect the count of active Pods, so that one status update covers many Pods that become
/// ready together. It is 20 ms by default for a set of up to 100 Pods; for a larger set it grows in proportion, up to ten times
/// as long. Upstream has no debounce and writes more statuses.
pub const STATUS_DEBOUNCE_PERIOD: Tunable = Tunable::of_duration(
    "replicaset-sync-batch-period",
    Duration::from_millis(20),
    "How long to collect changes of Pod statuses before their ReplicaSet of up to 100 Pods is synced; for larger ones in proportion, up to ten times as long",
);
/// Enables the back-off of sets with Pods that fail before they are ready; off by default. Upstream has no such back-off.
pub const FAILED_POD_BACKOFF: Tunable = Tunable::of_switch(
    "failed-pod-backoff",
    false,
    "Back-off for a set whose Pods fail early without becoming ready: one replacement at once, later ones after 1s, doubling up to 1m0s, until a Pod is ready",
);
/// Maximum back-off of a set with failing syncs; 1000 s by default. Upstream: `DefaultTypedControllerRateLimiter`.
pub const MAX_SYNC_BACKOFF: Tunable = Tunable::of_duration(
    "max-backoff",
    Duration::from_secs(1000),
    "Maximum back-off of a sync that keeps failing, for example because of an exceeded quota",
);
/// Ranks the remaining Pods again after each Pod chosen for deletion; off by default, as upstream ranks only once.
pub const RERANK_AS_PODS_ARE_CHOSEN: Tunable = Tunable::of_switch(
    "rerank-as-pods-are-chosen",
    false,
    "Pods chosen for deletion no longer count for their node, so that a scale-down balances nodes and does not empty the fullest one",
);
/// Ranks Pods of sets without siblings by the count of their Pods on each node; off by default, as upstream ignores nodes for
/// such sets.
pub const RANK_BY_OWN_PODS: Tunable = Tunable::of_switch(
    "rank-by-own-pods",
    false,
    "ReplicaSets without a controller, and ReplicationControllers, first delete Pods on the nodes with most of their own Pods",
);
/// The values that `--tune` accepts for this crate.
pub const TUNABLES: &[Tunable] = &[
    BURST_REPLICAS,
    EXPECTATIONS_TIMEOUT,
    STATUS_DEBOUNCE_PERIOD,
    FAILED_POD_BACKOFF,
    MAX_SYNC_BACKOFF,
    RERANK_AS_PODS_ARE_CHOSEN,
    RANK_BY_OWN_PODS,
];

/// The loop that syncs ReplicaSets. Only this loop writes their status.
pub const REPLICA_SET_LOOP: LoopDefinition = LoopDefinition::new("replicaset-controller", "replicaset", |context| {
    start_loop::<ReplicaSets>(REPLICA_SET_LOOP.name, context)
})
.with_owned_writes(&[OwnedWrites::of_status("apps", "replicasets")]);
/// The loop that syncs ReplicationControllers. Only this loop writes their status.
pub const REPLICATION_CONTROLLER_LOOP: LoopDefinition =
    LoopDefinition::new("replicationcontroller-controller", "replicationcontroller", |context| {
        start_loop::<ReplicationControllers>(REPLICATION_CONTROLLER_LOOP.name, context)
    })
    .with_user_agent_and_component("replication-controller", "replication-controller")
    .with_owned_writes(&[OwnedWrites::of_status("", "replicationcontrollers")]);
/// The loops that a process of this crate can run, one or both.
pub const LOOPS: &[LoopDefinition] = &[REPLICA_SET_LOOP, REPLICATION_CONTROLLER_LOOP];

/// Name, flags and loops of the binary.
pub const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "replicaset-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Runs the Kubernetes ReplicaSet and ReplicationController controllers as a service of their own",
    loops: LOOPS,
    workers_flags: &[ReplicaSets::WORKERS_FLAG, ReplicationControllers::WORKERS_FLAG],
    feature_gates: FEATURE_GATES,
    tunables: TUNABLES,
    single_value_flags: &[],
};

/// How long to wait before writing `status.terminatingReplicas` again to a server that dropped it.
const TERMINATING_REPLICAS_RETRY_PERIOD: Duration = Duration::from_mins(10);

/// The caches of the loop that syncs one kind of set, and the data that the loop keeps between syncs.
pub struct ReplicaController<K: SetKind> {
    context: LoopContext,
    watch: Arc<EventHandlers<K>>,
    pods: Arc<Store<CachedPod>>,
    metrics: ControllerMetrics,
    decision_settings: DecisionSettings,
    /// Whether Pods of a set without siblings are ranked by the count of that set's Pods on each node.
    ranks_by_own_pods: bool,
    /// The last time at which a server dropped `status.terminatingReplicas` from a written status, because its version lacks
    /// the field or its feature gate is off. Without this time, every sync would write the field again.
    terminating_replicas_dropped_at: Mutex<Option<Instant>>,
}

fn start_loop<K: SetKind>(name: &'static str, context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue_with_backoff(K::QUEUE_NAME, backoff_of_failing_keys(&context.settings));
    let workers = context.settings.worker_count(&K::WORKERS_FLAG);
    let controller = ReplicaController::<K>::new(context.clone(), queue.clone());
    Loop::start(name, context, Arc::new(controller), queue, workers)
}

impl<K: SetKind> ReplicaController<K> {
    /// Starts the informers; their handlers add keys to `queue`.
    pub fn new(context: LoopContext, queue: Queue<NamespacedName>) -> Self {
        let settings = Arc::clone(&context.settings);
        let clock = &context.clock;
        let watch = Arc::new(EventHandlers::<K> {
            queue,
            replica_set_store: Arc::default(),
            ledger: context.ledger(),
            pod_creation_pauses: PodCreationPauses::new(clock.clone(), settings.tuned_duration(&EXPECTATIONS_TIMEOUT)),
            min_debounce_period: settings.tuned_duration(&STATUS_DEBOUNCE_PERIOD),
            failed_pod_backoffs: settings
                .is_tunable_on(&FAILED_POD_BACKOFF)
                .then(|| FailedPodBackoffs::new(clock.clone())),
        });
        let sets = Arc::clone(&watch.replica_set_store);
        context.start_informer(sets, handler_from_method(&watch, EventHandlers::on_set_event));
        let pods = context.watch_shared(handler_from_method(&watch, EventHandlers::on_pod_event));
        Self {
            metrics: ControllerMetrics::new(&context.metrics),
            decision_settings: decision_settings::<K>(&settings),
            ranks_by_own_pods: settings.is_tunable_on(&RANK_BY_OWN_PODS),
            terminating_replicas_dropped_at: Mutex::new(None),
            context,
            watch,
            pods,
        }
    }

    /// Whether this set lacks the field `status.terminatingReplicas`, and the server has recently dropped the field.
    fn drops_terminating_replicas(&self, set: &ReplicaSet) -> bool {
        let unknown = |since: Instant| {
            self.context.clock.monotonic_now().duration_since(since) < TERMINATING_REPLICAS_RETRY_PERIOD
        };
        set.status.terminating_replicas.is_none() && self.terminating_replicas_dropped_at.lock().is_some_and(unknown)
    }

    /// Records whether the server kept `status.terminatingReplicas` in a written status.
    fn record_terminating_replicas_kept(&self, kept: bool) {
        *self.terminating_replicas_dropped_at.lock() = (!kept).then(|| self.context.clock.monotonic_now());
    }
}

fn decision_settings<K: SetKind>(settings: &OperatorSettings) -> DecisionSettings {
    DecisionSettings {
        burst_replicas: settings.tuned_nonzero_count(&BURST_REPLICAS),
        uses_deletion_cost: settings.is_feature_gate_on(&POD_DELETION_COST),
        counts_terminating_pods: K::COUNTS_TERMINATING_PODS
            && settings.is_feature_gate_on(&DEPLOYMENT_REPLICA_SET_TERMINATING_REPLICAS),
        drops_terminating_replicas: false,
        waits_for_own_writes: K::WAITS_FOR_OWN_WRITES
            && settings.waits_for_own_writes(&STALE_CONTROLLER_CONSISTENCY_REPLICA_SET),
        reranks_remaining_pods: settings.is_tunable_on(&RERANK_AS_PODS_ARE_CHOSEN),
    }
}

/// Returns the back-off of failing keys; its maximum is never below its base.
fn backoff_of_failing_keys(settings: &OperatorSettings) -> BackoffSettings {
    let usual = BackoffSettings::default();
    BackoffSettings { max_delay: settings.tuned_duration(&MAX_SYNC_BACKOFF).max(usual.base_delay), ..usual }
}

impl<K: SetKind> Controller for ReplicaController<K> {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    const STALE_SYNC_SKIPS: Option<&'static str> = Some("replicaset_controller_stale_sync_skips_total");

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let EventHandlers { replica_set_store, ledger, pod_creation_pauses, failed_pod_backoffs, .. } = &*self.watch;
        let waits_for_versions = self.decision_settings.waits_for_own_writes;
        let policy = if waits_for_versions { WaitPolicy::WrittenVersions } else { WaitPolicy::ConflictsOnly };
        let (set, pending_writes) =
            ledger.read(replica_set_store, key, policy, |uid| self.owned_pod_uids(&key.namespace, uid))?;
        let set = Arc::clone(&set.replica_set);
        let uid = &set.metadata.uid;
        let owned_pods = self.pods.list_by_index(ByController, &IndexValue::for_controller(&set.metadata))?;
        let owner = Owner::new(K::RESOURCE, &set.metadata);
        let terminating_pods = owned_pods.iter().filter(|pod| pod.is_terminating());
        let terminating_pod_count = terminating_pods.filter(|pod| set.selector.matches(&pod.meta().labels)).count();
        let active_pods = owned_pods.into_iter().chain(self.adoptable_orphans(&set)).filter(|pod| pod.is_active());
        // A malformed selector claims nothing, and the plan reports it.
        let claims = refs::claim_dependents(&owner, &set.selector, active_pods, |_| true).unwrap_or_default();
        let is_ranked = set.replicas > 0 && claims.to_keep.len() + claims.to_adopt.len() > set.replicas;
        Ok(Snapshot {
            terminating_pod_count,
            pod_creation_pause: pod_creation_pauses.current_pause(uid, set.metadata.generation),
            colocated_pod_counts_by_node: if is_ranked {
                self.count_colocated_pods(&set, &claims)
            } else {
                BTreeMap::new()
            },
            pending_writes,
            failed_pod_backoff: failed_pod_backoffs.as_ref().and_then(|backoffs| backoffs.backoff_of_set(uid)),
            decision_settings: DecisionSettings {
                drops_terminating_replicas: self.drops_terminating_replicas(&set),
                ..self.decision_settings
            },
            claims,
            owner,
            set,
            now,
        })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        if let Some(problem) = plan.set.selector.validation_error() {
            io.update_memory(|_| {
                let key = snapshot.set.metadata.key();
                tracing::error!(logger = K::QUEUE_NAME, key = %key, err = %problem, "Error converting pod selector");
            });
            return Ok(Requeue::AfterPlannedDelay);
        }

        let claims = &snapshot.claims;
        let mut claim = ChildClaim::new(&snapshot.owner, PODS, &claims.to_adopt, &claims.to_release).send(io).await;
        claim.record_event_if_denied(io);
        if claim.has_only_conflicts() {
            return Ok(Requeue::Conflict);
        }
        claim.take_claim_result().map_err(|failed| failed.with_context("cannot claim Pods"))?;
        let claimed_pods: Vec<&SharedPod> = claims.to_keep.iter().chain(claim.adopted_children()).collect();

        // The plan assumes that every adoption succeeds. Otherwise the count of Pods to create or delete is decided again.
        let pod_changes = if claim.has_adopted_all() {
            Cow::Borrowed(&plan.pod_changes)
        } else {
            Cow::Owned(manage::decide_pod_changes(snapshot, &claimed_pods))
        };
        let (outcome, error) = match &*pod_changes {
            PodChanges::NoChange => (PodChangesOutcome::Done, None),
            PodChanges::NotAllowed(_) | PodChanges::CreationPaused(_) | PodChanges::DelayedAfterFailures(_) => {
                (PodChangesOutcome::NotAllowed, None)
            }
            PodChanges::UnusableTemplate(problem) => act::creation_impossible(problem),
            PodChanges::Create { pods_to_create_count, missing_pod_count } => {
                act::create_pods(snapshot, *pods_to_create_count, *missing_pod_count, io).await
            }
            PodChanges::Delete { pod_deletions, age_ratios, .. } => {
                act::delete_pods(&snapshot.owner.uid, pod_deletions, age_ratios, io).await
            }
        };

        let status = if claim.has_adopted_all() && outcome == plan.expected_outcome {
            Cow::Borrowed(&plan.status)
        } else {
            Cow::Owned(status::compute_status(snapshot, &claimed_pods, &outcome))
        };
        // This sync must write a failure into the status, because later syncs do not know of the failure.
        let status_write_outcome = act::write_status(snapshot, &status, error.is_none(), io).await?;
        if let Some(error) = error {
            return Err(error);
        }
        if status_write_outcome == act::StatusWriteOutcome::CacheShowsChange
            || outcome == PodChangesOutcome::PodsHaveChanged
        {
            // The next sync starts from the changed set or Pods.
            return Ok(Requeue::Conflict);
        }

        let time_until_next_available = timer::time_until_next_available(snapshot, &claimed_pods, &status, io.now());
        let requeue_after = timer::requeue_after(snapshot, &pod_changes, time_until_next_available);
        // A sync that must not create or delete Pods, for example after a lost answer, does not reset the back-off of its key. A
        // pause of creations is a back-off of its own.
        let is_paused = matches!(*pod_changes, PodChanges::CreationPaused(_));
        let requeue = if outcome == PodChangesOutcome::NotAllowed && !is_paused {
            Requeue::AfterPartialWork
        } else {
            Requeue::After
        };
        Ok(requeue_after.map_or(Requeue::AfterPlannedDelay, requeue))
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(K::RESOURCE, &snapshot.set.metadata)
    }

    fn child_uids(&self, snapshot: &Snapshot) -> HashSet<Uid> {
        self.owned_pod_uids(&snapshot.owner.namespace, &snapshot.owner.uid)
    }

    /// Removes the data about a deleted set once more, because its last write may have been recorded after the deletion event.
    fn after_sync(&self, snapshot: &Snapshot) {
        let set = &snapshot.set.metadata;
        if !self.watch.replica_set_store.contains_object(set) {
            self.watch.forget_set(&set.uid);
        }
    }
}
