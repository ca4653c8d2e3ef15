//! ReplicaSets and ReplicationControllers: keeps as many Pods as are wanted.
//!
//! # What it promises
//!
//! If a set stays as it is, it ends up with exactly `spec.replicas` active Pods that its selector selects and that name it
//! as their controller, and a status that counts them. On the way it never creates more than are missing, never deletes
//! more than are too many, never does either on a view of the cluster older than its own last writes, and touches no Pod
//! that another controller owns.
//!
//! # How it is laid out
//!
//! ```text
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide/ ──► Plan ──► act/ ──► API server
//! (events        │         (indexes of     (pure)       manage, status,      claim, create,
//!  to keys)      │          both caches)                failure, timer       delete, status
//!                └──────────────◄── requeue: a Pod becomes available, something is not seen yet
//! ```
//!
//! [`kind`] holds what tells the two kinds apart; everything else is one implementation. [`pod_cache`] is shared by both.
//!
//! # Where it differs from upstream
//!
//! - Expectations are kept by identity, in `common`'s ledger: a Pod made by somebody else satisfies none, a lost answer
//!   blocks for as long as the request may still take effect, a Pod that was released is waited for no more.
//! - A Pod is deleted by its uid. A status is patched, onto the version it was computed from.
//! - `ReplicaFailure` stays until Pods were managed without a failure, and tells of the latest one.
//! - A Pod that only became more or less ready brings its set to the queue after 20 ms (`replicaset-sync-batch-period`), so
//!   that one status tells of many.
//! - Objects that validation would have refused (no selector, negative counts) are left alone with an error.
//! - Pods that are over, or that other kinds of controllers own, are not cached; the latter count for co-location upstream.

pub mod decide;
pub mod error;
pub mod kind;
pub mod metrics;
pub mod objects;
pub mod pod_cache;

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
    controller::{Controller, Loop, Observed, Requeue},
    informer::{AnyInformer, Informer},
    meta::Key,
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    settings::{FeatureGate, Settings, Tune, TuneValue, WorkersFlag},
    store::{Store, by_controller, by_namespace},
};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    decide::{Limits, Plan, Snapshot},
    error::Error,
    kind::{Kind, ReplicaSets, ReplicationControllers},
    metrics::ControllerMetrics,
    objects::{ReplicaSet, Set},
    pod_cache::PodCache,
    watch::Watch,
};

/// The gate of rule 4 of the order in which Pods are deleted.
pub const POD_DELETION_COST: FeatureGate = FeatureGate {
    name: "PodDeletionCost",
    default: true,
    locked: false,
    help: "Pods may name the cost of their deletion (annotation controller.kubernetes.io/pod-deletion-cost)",
};
/// Pods to delete are ranked by the magnitude of their age. It can no longer be switched.
pub const LOGARITHMIC_SCALE_DOWN: FeatureGate = FeatureGate {
    name: "LogarithmicScaleDown",
    default: true,
    locked: true,
    help: "Pods to delete are ranked by the magnitude of their age",
};
/// The gate of `status.terminatingReplicas`.
pub const TERMINATING_REPLICAS: FeatureGate = FeatureGate {
    name: "DeploymentReplicaSetTerminatingReplicas",
    default: true,
    locked: false,
    help: "status.terminatingReplicas counts Pods that are going away",
};
/// The gate of waiting for the caches.
///
/// Off, a set whose caches lag is claimed for and counted all the same, as upstream does. Pods are neither created nor
/// deleted on such a view in either position.
pub const STALE_CONSISTENCY: FeatureGate = FeatureGate {
    name: "StaleControllerConsistencyReplicaSet",
    default: true,
    locked: false,
    help: "A ReplicaSet is not synced before the caches show what was last written for it; needs AtomicFIFO",
};
/// A gate of upstream's caches that [`STALE_CONSISTENCY`] depends on; it has no other effect here.
pub const ATOMIC_FIFO: FeatureGate = FeatureGate {
    name: "AtomicFIFO",
    default: true,
    locked: false,
    help: "Caches know the version they have reached; off switches StaleControllerConsistencyReplicaSet off, too",
};
/// All gates this crate knows.
pub const GATES: &[FeatureGate] =
    &[POD_DELETION_COST, LOGARITHMIC_SCALE_DOWN, TERMINATING_REPLICAS, STALE_CONSISTENCY, ATOMIC_FIFO];

/// The most Pods one sync creates or deletes. Upstream: `BurstReplicas`.
pub const BURST_REPLICAS: Tune = Tune {
    name: "burst-replicas",
    default: TuneValue::Count(500),
    help: "The most Pods that one sync of a ReplicaSet creates or deletes",
};
/// After how long a write that no cache shows is waited for no more. Upstream: `ExpectationsTimeout`.
pub const EXPECTATIONS_TIMEOUT: Tune = Tune {
    name: "expectations-timeout",
    default: TuneValue::Duration(Duration::from_mins(5)),
    help: "After how long a write of its own that its caches do not show is waited for no more",
};
/// For how long changes of Pods that change no count of Pods are gathered: many become ready at once, and one status tells of
/// all of them. Upstream gathers them by being slower.
pub const SYNC_BATCH_PERIOD: Tune = Tune {
    name: "replicaset-sync-batch-period",
    default: TuneValue::Duration(Duration::from_millis(20)),
    help: "For how long changes of the status of Pods are gathered before their ReplicaSet is synced",
};
/// All values of this crate that can be tuned.
pub const TUNES: &[Tune] = &[BURST_REPLICAS, EXPECTATIONS_TIMEOUT, SYNC_BATCH_PERIOD];

/// The flags that say how many objects are synced at once.
pub const WORKERS: &[WorkersFlag] = &[ReplicaSets::WORKERS, ReplicationControllers::WORKERS];

/// The loop of ReplicaSets.
pub const REPLICA_SETS: LoopDefinition = LoopDefinition {
    name: "replicaset-controller",
    alias: "replicaset",
    client: "replicaset-controller",
    component: "replicaset-controller",
    start: |context| start::<ReplicaSets>(REPLICA_SETS.name, context),
};
/// The loop of ReplicationControllers.
pub const REPLICATION_CONTROLLERS: LoopDefinition = LoopDefinition {
    name: "replicationcontroller-controller",
    alias: "replicationcontroller",
    client: "replication-controller",
    component: "replication-controller",
    start: |context| start::<ReplicationControllers>(REPLICATION_CONTROLLERS.name, context),
};
/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] = &[REPLICA_SETS, REPLICATION_CONTROLLERS];

/// The program.
pub const DEFINITION: Definition = Definition {
    name: "replicaset-controller",
    about: "Runs the Kubernetes ReplicaSet and ReplicationController controllers as a service of their own",
    loops: LOOPS,
    workers: WORKERS,
    gates: GATES,
    tunes: TUNES,
    flags: &[],
};

/// For how long a server that does not keep `status.terminatingReplicas` is believed not to know it.
const TERMINATING_UNKNOWN: Duration = Duration::from_mins(10);

/// The controller of one kind.
pub struct ReplicaController<K: Kind> {
    context: Context,
    queue: Queue<Key>,
    sets: Informer<Set<K>>,
    pods: Arc<PodCache>,
    ledger: Ledger,
    metrics: ControllerMetrics,
    limits: Limits,
    reads_own_writes: bool,
    /// When a server dropped `status.terminatingReplicas` from what was written: it is of a version without it, or has
    /// its gate off. Writing it again with every sync would change nothing, for ever.
    terminating_dropped: Mutex<Option<Instant>>,
}

fn start<K: Kind>(name: &'static str, context: Context) -> Arc<dyn Running> {
    let queue = context.queue(K::QUEUE, Backoff::default());
    let workers = context.settings.workers(&K::WORKERS);
    let controller = ReplicaController::<K>::new(context.clone(), queue.clone());
    Loop::start(name, context, Arc::new(controller), queue, workers)
}

impl<K: Kind> ReplicaController<K> {
    /// Starts watching; keys go to `queue`.
    pub fn new(context: Context, queue: Queue<Key>) -> Self {
        let settings = Arc::clone(&context.settings);
        let ledger = Ledger::new(context.clock.clone(), settings.duration(&EXPECTATIONS_TIMEOUT));
        let store = Arc::new(Store::new(&[by_controller(), by_namespace()]));
        let batch = settings.duration(&SYNC_BATCH_PERIOD);
        let watch =
            Arc::new(Watch::<K> { queue: queue.clone(), sets: Arc::clone(&store), ledger: ledger.clone(), batch });
        let on_set = Arc::clone(&watch);
        let config = context.caches();
        let sets = Informer::start_with(
            context.api.clone(),
            config.clone(),
            store,
            vec![Box::new(move |event, origin| on_set.on_set(event, origin))],
        );
        let pods = context.shared.get_or_make(|| PodCache::start(context.api.clone(), config));
        pods.listen(Box::new(move |event, origin| watch.on_pod(event, origin)));
        Self {
            metrics: ControllerMetrics::new(&context.metrics),
            limits: limits::<K>(&settings),
            reads_own_writes: K::READS_OWN_WRITES && settings.gate(&STALE_CONSISTENCY) && settings.gate(&ATOMIC_FIFO),
            terminating_dropped: Mutex::new(None),
            context,
            queue,
            sets,
            pods,
            ledger,
        }
    }

    /// Whether the server does not keep this set's count of terminating Pods.
    fn terminating_dropped(&self, set: &ReplicaSet) -> bool {
        let unknown = |since: Instant| self.context.clock.instant().duration_since(since) < TERMINATING_UNKNOWN;
        set.status.terminating_replicas.is_none() && self.terminating_dropped.lock().is_some_and(unknown)
    }

    /// Notes whether the server kept a count of terminating Pods that was written.
    fn note_terminating(&self, kept: bool) {
        *self.terminating_dropped.lock() = (!kept).then(|| self.context.clock.instant());
    }
}

fn limits<K: Kind>(settings: &Settings) -> Limits {
    Limits {
        burst: usize::try_from(settings.count(&BURST_REPLICAS)).unwrap_or(usize::MAX).max(1),
        deletion_cost: settings.gate(&POD_DELETION_COST),
        counts_terminating: K::COUNTS_TERMINATING && settings.gate(&TERMINATING_REPLICAS),
        terminating_dropped: false,
    }
}

impl<K: Kind> Controller for ReplicaController<K> {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Error = Error;

    fn observe(&self, key: &Key, now: Timestamp) -> Result<Observed<Snapshot>, Error> {
        self.look(key, now)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(&self, snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        self.carry_out(snapshot, plan).await
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&self.sets, self.pods.informer()]
    }

    fn waiting(&self, key: &Key) {
        if let Some(resource) = self.lags(key) {
            self.metrics.skipped_stale(resource);
        }
    }
}
