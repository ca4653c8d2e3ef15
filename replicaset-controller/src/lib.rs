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
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide/ ──► Plan ──► act ──► API server
//! (events        │         (indexes of     (pure)       manage, status,      claim, create,
//!  to keys)      │          both caches)                failure, timer       delete, status
//!                └──────────────◄── requeue: a Pod becomes available, something is not seen yet
//! ```
//!
//! [`kind`] holds what tells the two kinds apart; everything else is one implementation. [`pod_cache`] is shared by both.
//! `pod_backoff.rs` remembers which sets make Pods that fail, if it is to.
//!
//! # Where it differs from upstream
//!
//! - Expectations are kept by identity, in `common`'s ledger: a Pod made by somebody else satisfies none, a lost answer
//!   blocks for as long as the request may still take effect, a Pod that was released is waited for no more.
//! - A Pod is deleted, adopted and released at the version that was judged: a Pod that was taken out of its set, or has become
//!   ready, is not deleted for what it was. A status is patched, onto the version it was computed from.
//! - `ReplicaFailure` stays until Pods were managed without a failure, and tells of the latest one.
//! - A Pod that only became more or less ready brings its set to the queue after 20 ms (`replicaset-sync-batch-period`), so
//!   that one status tells of many.
//! - After the server has refused a Pod because the namespace terminates, no other is asked for.
//! - A `FailedUpdate` Event reports that the server denies adoptions or releases of Pods: a right is missing, or a policy or a webhook
//!   forbids it.
//! - Objects that validation would have refused (no selector, negative counts) are left alone with an error.
//! - Pods that are over, or that other kinds of controllers own, are not cached; the latter count for co-location upstream.
//!
//! # What can be turned on
//!
//! Off, or at upstream's value, unless `--tune` says otherwise, for both kinds:
//!
//! - `failed-pod-backoff`: a set whose Pods fail soon after they were made, without ever being ready, waits before it makes
//!   others: not after the first failure, then 1 s, doubling up to a minute, until a Pod of it becomes ready. Upstream makes
//!   them as fast as nodes turn them away. All that the set is short of waits, whatever became of the rest of it. Nothing is
//!   kept: a successor begins anew.
//! - `max-backoff`: the longest wait of a set whose sync fails. Upstream's 1000 s are how late it may notice that a quota
//!   has room again.
//! - `rerank-as-pods-are-chosen`: a Pod chosen for deletion no longer counts on its node, so that a scale-down levels nodes.
//!   Upstream's empties the fullest.
//! - `rank-by-own-pods`: sets without a controller, and all ReplicationControllers, delete Pods first where they have most of
//!   their own. Upstream does not look at nodes for them.

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

use std::{sync::Arc, time::Duration};

use common::{
    app::Definition,
    clock::Instant,
    consistency::Ledger,
    controller::{Controller, Loop, Observed},
    events::ObjectRef,
    informer::{AnyInformer, Informer, SharedInformer, handler},
    io::{Failed, Io, Requeue},
    map::HashSet,
    meta::{Key, Meta, Uid},
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    second_writer::OwnedWrites,
    settings::{ATOMIC_FIFO, EXPECTATIONS_TIMEOUT, FeatureGate, Settings, Tune, WorkersFlag},
    store::Store,
    terminating_namespaces::TerminatingNamespaces,
};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    act::Note,
    kind::{Kind, ReplicaSets, ReplicationControllers},
    metrics::ControllerMetrics,
    objects::{ReplicaSet, Set},
    plan::Plan,
    pod_backoff::PodBackoff,
    pod_cache::CachedPod,
    snapshot::{Limits, Snapshot},
    watch::Watch,
};

/// The gate of rule 4 of the order in which Pods are deleted.
pub const POD_DELETION_COST: FeatureGate = FeatureGate::on(
    "PodDeletionCost",
    "Pods may name the cost of their deletion (annotation controller.kubernetes.io/pod-deletion-cost)",
);
/// Pods to delete are ranked by the magnitude of their age. It can no longer be switched.
pub const LOGARITHMIC_SCALE_DOWN: FeatureGate =
    FeatureGate::locked("LogarithmicScaleDown", "Pods to delete are ranked by the magnitude of their age");
/// The gate of `status.terminatingReplicas`.
pub const TERMINATING_REPLICAS: FeatureGate = FeatureGate::on(
    "DeploymentReplicaSetTerminatingReplicas",
    "status.terminatingReplicas counts Pods that are going away",
);
/// The gate of waiting for the caches.
///
/// Off, a set whose caches lag is claimed for and counted all the same, as upstream does. Pods are neither created nor
/// deleted on such a view in either position.
pub const STALE_CONSISTENCY: FeatureGate = FeatureGate::on(
    "StaleControllerConsistencyReplicaSet",
    "A ReplicaSet is not synced before the caches show what was last written for it; needs AtomicFIFO",
);
/// All gates this crate knows.
pub const GATES: &[FeatureGate] =
    &[POD_DELETION_COST, LOGARITHMIC_SCALE_DOWN, TERMINATING_REPLICAS, STALE_CONSISTENCY, ATOMIC_FIFO];

/// The most Pods one sync creates or deletes. Upstream: `BurstReplicas`.
pub const BURST_REPLICAS: Tune =
    Tune::count("burst-replicas", 500, "The most Pods that one sync of a ReplicaSet creates or deletes");
/// For how long changes of Pods that change no count of Pods are gathered: many become ready at once, and one status tells of
/// all of them. Upstream gathers them by being slower.
pub const SYNC_BATCH_PERIOD: Tune = Tune::duration(
    "replicaset-sync-batch-period",
    Duration::from_millis(20),
    "For how long changes of the status of Pods are gathered before their ReplicaSet is synced",
);
/// Whether sets wait whose Pods fail without ever being ready. Upstream's never do.
pub const FAILED_POD_BACKOFF: Tune = Tune::switch(
    "failed-pod-backoff",
    false,
    "Pods that keep failing soon, never ready, are replaced at once the first time, then after 1s, doubling up to 1m0s, until one is ready",
);
/// The longest wait of a key whose sync fails. Upstream: `DefaultTypedControllerRateLimiter`.
pub const MAX_BACKOFF: Tune = Tune::duration(
    "max-backoff",
    Duration::from_secs(1000),
    "The longest wait before a sync that keeps failing (for want of quota, for one) is tried again",
);
/// Whether the Pods that were chosen for deletion still count on their nodes. Upstream they do.
pub const RERANK: Tune = Tune::switch(
    "rerank-as-pods-are-chosen",
    false,
    "Pods chosen for deletion no longer count on their node, so that a scale-down levels nodes and does not empty the fullest",
);
/// Whether sets that have no siblings count their own Pods on a node. Upstream none count.
pub const RANK_BY_OWN_PODS: Tune = Tune::switch(
    "rank-by-own-pods",
    false,
    "ReplicaSets without a controller and ReplicationControllers delete Pods on the nodes that have the most of their own first",
);
/// All values of this crate that can be tuned.
pub const TUNES: &[Tune] = &[
    BURST_REPLICAS,
    EXPECTATIONS_TIMEOUT,
    SYNC_BATCH_PERIOD,
    FAILED_POD_BACKOFF,
    MAX_BACKOFF,
    RERANK,
    RANK_BY_OWN_PODS,
];

/// The flags that say how many objects are synced at once.
pub const WORKERS: &[WorkersFlag] = &[ReplicaSets::WORKERS, ReplicationControllers::WORKERS];

/// The loop of ReplicaSets.
pub const REPLICA_SETS: LoopDefinition = LoopDefinition::new("replicaset-controller", "replicaset", |context| {
    start::<ReplicaSets>(REPLICA_SETS.name, context)
})
.owning(&[OwnedWrites::status("apps", "replicasets")]);
/// The loop of ReplicationControllers.
pub const REPLICATION_CONTROLLERS: LoopDefinition =
    LoopDefinition::new("replicationcontroller-controller", "replicationcontroller", |context| {
        start::<ReplicationControllers>(REPLICATION_CONTROLLERS.name, context)
    })
    .known_as("replication-controller", "replication-controller")
    .owning(&[OwnedWrites::status("", "replicationcontrollers")]);
/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] = &[REPLICA_SETS, REPLICATION_CONTROLLERS];

/// The program.
pub const DEFINITION: Definition = Definition {
    name: "replicaset-controller",
    version: env!("CARGO_PKG_VERSION"),
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
    watch: Arc<Watch<K>>,
    sets: Informer<Set<K>>,
    pods: Arc<SharedInformer<CachedPod>>,
    ledger: Ledger,
    metrics: ControllerMetrics,
    limits: Limits,
    /// Whether Pods of a set without siblings are ranked by its own on their nodes.
    ranks_by_own_pods: bool,
    /// The sets whose namespace terminates.
    refused: TerminatingNamespaces,
    /// Which sets wait because their Pods fail; none if they are not to.
    backoff: Option<PodBackoff>,
    /// When a server dropped `status.terminatingReplicas` from what was written: it is of a version without it, or has
    /// its gate off. Writing it again with every sync would change nothing, for ever.
    terminating_dropped: Mutex<Option<Instant>>,
}

fn start<K: Kind>(name: &'static str, context: Context) -> Arc<dyn Running> {
    let queue = context.queue(K::QUEUE, backoff(&context.settings));
    let workers = context.settings.workers(&K::WORKERS);
    let controller = ReplicaController::<K>::new(context.clone(), queue.clone());
    Loop::start(name, context, Arc::new(controller), queue, workers)
}

impl<K: Kind> ReplicaController<K> {
    /// Starts watching; keys go to `queue`.
    pub fn new(context: Context, queue: Queue<Key>) -> Self {
        let settings = Arc::clone(&context.settings);
        let ledger = context.ledger();
        let store: Arc<Store<Set<K>>> = Arc::default();
        let backoff = settings.switch(&FAILED_POD_BACKOFF).then(|| PodBackoff::new(context.clock.clone()));
        let refused = TerminatingNamespaces::new(context.clock.clone(), settings.duration(&EXPECTATIONS_TIMEOUT));
        let watch = Arc::new(Watch::<K> {
            queue: queue.clone(),
            sets: Arc::clone(&store),
            ledger: ledger.clone(),
            refused: refused.clone(),
            batch: settings.duration(&SYNC_BATCH_PERIOD),
            backoff: backoff.clone(),
        });
        let sets = context.informer(store, handler(&watch, Watch::on_set));
        let pods = context.shared_informer::<CachedPod>();
        pods.add_handler(handler(&watch, Watch::on_pod));
        Self {
            metrics: ControllerMetrics::new(&context.metrics),
            limits: limits::<K>(&settings),
            ranks_by_own_pods: settings.switch(&RANK_BY_OWN_PODS),
            refused,
            backoff,
            terminating_dropped: Mutex::new(None),
            context,
            watch,
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
        burst: settings.size(&BURST_REPLICAS),
        deletion_cost: settings.gate(&POD_DELETION_COST),
        counts_terminating: K::COUNTS_TERMINATING && settings.gate(&TERMINATING_REPLICAS),
        terminating_dropped: false,
        reads_own_writes: K::READS_OWN_WRITES && settings.reads_own_writes(&STALE_CONSISTENCY),
        reranks: settings.switch(&RERANK),
    }
}

/// How keys whose sync fails are delayed; none comes back sooner than after its first failure.
fn backoff(settings: &Settings) -> Backoff {
    let usual = Backoff::default();
    Backoff { max: settings.duration(&MAX_BACKOFF).max(usual.base), ..usual }
}

impl<K: Kind> Controller for ReplicaController<K> {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    const STALE_SYNC_SKIPS: Option<&'static str> = Some("replicaset_controller_stale_sync_skips_total");

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
        (ObjectRef::new(K::RESOURCE, &snapshot.set.metadata), snapshot.owner.uid.clone())
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        let set = &snapshot.owner.uid;
        match (note, &self.backoff) {
            (Note::BrokenSelector(problem), _) => {
                let key = snapshot.set.metadata.key();
                tracing::error!(logger = K::QUEUE, key = %key, err = %problem, "Error converting pod selector");
            }
            (Note::Creates, Some(backoff)) => backoff.replacing(set),
            (Note::Creates, None) => {}
            (Note::NamespaceTerminates, _) => {
                let key = snapshot.set.metadata.key();
                tracing::debug!(logger = K::QUEUE, key = %key, "The namespace is terminating, creating no Pods");
                self.refused.insert(set);
            }
            (Note::Deletes(pods, age_ratios), backoff) => {
                self.metrics.deletes(&age_ratios);
                if let Some(backoff) = backoff {
                    backoff.all_gone(set, &pods);
                }
            }
            (Note::KeepsTerminating(keeps), _) => self.note_terminating(keeps),
        }
    }

    fn children(&self, snapshot: &Snapshot) -> HashSet<Uid> {
        let owner = &snapshot.owner;
        self.children(&owner.namespace, &owner.uid).iter().map(|pod| pod.meta().uid.clone()).collect()
    }

    /// Whether the cache shows another version of the set by now.
    fn observe_again(&self, snapshot: &Snapshot, (): ()) -> Option<()> {
        let Meta { namespace, name, resource_version, .. } = &snapshot.set.metadata;
        let is_same = self.sets.store().peek(namespace, name, |meta| meta.resource_version == *resource_version);
        (is_same != Some(true)).then_some(())
    }

    /// The event of the deletion of a set may have come before the last answer was noted.
    fn after_sync(&self, snapshot: &Snapshot) {
        let set = &snapshot.set.metadata;
        if !self.sets.store().shows(set) {
            self.watch.forget(&set.uid);
        }
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&self.sets, self.pods.informer()]
    }
}
