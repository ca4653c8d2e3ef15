//! The StatefulSet controller: Pods with stable names, ordinals and claims, created and deleted in order.
//!
//! # What it promises
//!
//! If a set stays unchanged, it ends up with exactly the Pods `<set>-<ordinal>` of its range. Each Pod has its own claims and the
//! revision of the set's template, and the status counts the Pods. On the way:
//!
//! - No ordinal gets a second Pod. Pods are created and deleted in the order of `spec.podManagementPolicy`.
//! - A rolling update deletes no Pod below the partition. A template that differs only in its encoding restarts no Pod.
//! - No claim is deleted, no owner reference of another controller is changed, and no Pod of another controller is written.
//! - The cost of a sync grows with the existing Pods and claims, and not with `spec.replicas`, which can be two thousand million.
//! - The cache keeps only a digest of a revision's data. A sync that creates Pods from an earlier template reads its revision
//!   from the server.
//!
//! # How it is laid out
//!
//! ```text
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide/ ──► Plan ──► act/ ──► API server
//! (events        │         (indexes of     (pure)       revisions, scaling,  claims, revisions,
//!  to keys)      │         four caches)                 rolling, retention,  Pods phase by phase, status,
//!                │                                      status, history      history
//!                └──────────────◄── requeue: a Pod becomes available, a claim is deleted, more Pods are to be created
//! ```
//!
//! # Where it differs from upstream
//!
//! - Deletions of Pods and revisions have the uid and the version of the snapshot as preconditions. Patches of statuses, labels
//!   and owner references have the version as a precondition. Conditions that other clients wrote into a status stay.
//! - After a conflict, the status is computed again from the newer set. Upstream writes the old status onto the newer set.
//! - A sync also waits until the caches show the deletions and the new revisions of this process.
//! - `status.currentReplicas` is lowered only for Pods of the current revision, and never below zero.
//! - `web-01` has ordinal 1 of `web`, as `web-1` has. If both exist and the ordinal is in range, `web-1` is the Pod of the set
//!   and `web-01` is ignored. Upstream takes the Pod that its cache lists last.
//! - A set that could not create a Pod because an orphan has its name is synced when the orphan is deleted.
//! - A set that waits for the deletion of a claim is synced when the claim is deleted.
//! - If only the owner references of a Pod's claims change, the Pod is not written. The Event `SuccessfulUpdate` is recorded.
//! - After a failure to determine the revisions, no revision is deleted. Revisions that the status names are never deleted.
//! - No revision of a terminating set is created or renumbered.
//! - Before a deleted revision is stored again, a live read checks that the set still exists.
//! - With `Parallel`, one sync creates at most a thousand Pods. The next sync continues.
//! - Claims that are created together with a Pod get their owner references at the next event of the Pod, even if the Pod is not
//!   ready. Upstream does not write them while the Pod runs without becoming ready, so the claims outlive a deleted set.
//! - A `FailedUpdate` Event reports that the server denies an adoption, a release, or an owner reference of a claim, because the
//!   controller lacks a right or a policy forbids the change.
//! - A `FailedCreate` Event reports, once an hour, that the name of a Pod is taken by a Pod that the set cannot adopt.
//! - Only Pods with the label `statefulset.kubernetes.io/pod-name` are watched. A Pod that loses the label is read, and the label
//!   is restored before any other work; upstream waits until the Pod is ready. The patch that adopts a Pod also adds a missing
//!   label. An orphan without the label is adopted when the set needs its name; upstream adopts the orphan at once, even if its
//!   ordinal is out of range. The labels of an orphan that the set released before are read once a minute.
//! - A `ClaimMismatch` Event reports, once an hour, a claim that falls short of its template. The claim is still used.
//! - With `maxUnavailable`, outdated Pods that are not ready do not hold up the rolling update. They are replaced within the
//!   limit.
//!
//! # What can be turned on
//!
//! `--tune replace-stuck-pods=true`: with `OrderedReady`, an outdated Pod that was never ready and blocks the other Pods is
//! replaced. Upstream leaves the deletion of such a Pod to users, as its documentation of forced rollbacks explains.

pub mod decide;
pub mod metrics;
pub mod objects;
pub mod plan;
pub mod reports;
pub mod snapshot;

mod act;
mod awaited;
mod observe;
mod watch;
#[cfg(test)]
mod world;

use std::{sync::Arc, time::Duration};

use common::{
    app::Definition,
    consistency::{Behind, Ledger},
    controller::{Controller, Loop, Observed},
    events::ObjectRef,
    informer::{AnyInformer, FilteredInformer, Informer, handler},
    io::{Failed, Io, Requeue},
    meta::{Key, Meta, Uid},
    parsed::Parsed,
    queue::{Backoff, Priority, Queue},
    revision::template::PodTemplate,
    runtime::{Context, LoopDefinition, Running},
    second_writer::OwnedWrites,
    settings::{ATOMIC_FIFO, EXPECTATIONS_TIMEOUT, FeatureGate, Settings, Tune, WorkersFlag},
    store::Store,
};
use jiff::Timestamp;

use crate::{
    act::{Namesake, Note},
    awaited::{AwaitedClaims, AwaitedWrites},
    metrics::ControllerMetrics,
    objects::{CachedPod, Claim, ControllerRevision, POD_NAME_LABEL, STATEFUL_SETS, StatefulSet},
    plan::{Plan, Problem},
    reports::Reports,
    snapshot::{Limits, Snapshot},
    watch::Watch,
};

/// Feature gate: a rolling update may replace several Pods at once. Off by default.
pub const MAX_UNAVAILABLE: FeatureGate = FeatureGate::off(
    "MaxUnavailableStatefulSet",
    "A rolling update may make up to updateStrategy.rollingUpdate.maxUnavailable Pods unavailable",
);
/// Feature gate: API defaults are ignored when a revision is compared with the template. On by default.
pub const SEMANTIC_COMPARISON: FeatureGate = FeatureGate::on(
    "StatefulSetSemanticRevisionComparison",
    "A revision equals the template if they differ only by API defaults",
);
/// Feature gate: a sync waits until the caches show the writes of this process. On by default.
///
/// With the gate off, a sync still waits until the caches show its deletions and its writes of revisions.
pub const STALE_CONSISTENCY: FeatureGate = FeatureGate::on(
    "StaleControllerConsistencyStatefulSet",
    "A StatefulSet is synced only after the caches show the last writes for it; needs AtomicFIFO",
);
/// Feature gates that the binary `statefulset-controller` accepts.
pub const GATES: &[FeatureGate] = &[MAX_UNAVAILABLE, SEMANTIC_COMPARISON, STALE_CONSISTENCY, ATOMIC_FIFO];

/// Replaces outdated Pods that were never ready. Off by default; upstream leaves the deletion of such Pods to users.
pub const REPLACE_STUCK_PODS: Tune = Tune::switch(
    "replace-stuck-pods",
    false,
    "Replace an outdated Pod that was never ready and blocks the other Pods (OrderedReady)",
);
/// Settings that `--tune` accepts.
pub const TUNES: &[Tune] = &[EXPECTATIONS_TIMEOUT, REPLACE_STUCK_PODS];

/// `--concurrent-statefulset-syncs`: the number of workers, 5 by default.
pub const CONCURRENT_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-statefulset-syncs", 5, "The number of StatefulSets that are synced concurrently");
/// Flags that set a number of workers.
pub const WORKERS: &[WorkersFlag] = &[CONCURRENT_SYNCS];

/// The control loop of StatefulSets. A second writer of their status is detected.
pub const STATEFUL_SET: LoopDefinition = LoopDefinition::new("statefulset-controller", "statefulset", start)
    .owning(&[OwnedWrites::status("apps", "statefulsets")]);
/// Loops that the binary `statefulset-controller` starts.
pub const LOOPS: &[LoopDefinition] = &[STATEFUL_SET];

/// Name, version and settings of the binary.
pub const DEFINITION: Definition = Definition {
    name: "statefulset-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Runs the Kubernetes StatefulSet controller as a service of its own",
    loops: LOOPS,
    workers: WORKERS,
    gates: GATES,
    tunes: TUNES,
    flags: &[],
};

/// The control loop of StatefulSets, with its caches and the memory that it keeps between syncs.
pub struct StatefulSetController {
    queue: Queue<Key>,
    watch: Arc<Watch>,
    sets: Informer<StatefulSet>,
    pods: FilteredInformer<CachedPod>,
    claims: Informer<Claim>,
    revisions: Informer<ControllerRevision>,
    ledger: Ledger,
    awaited: Arc<AwaitedClaims>,
    awaited_writes: Arc<AwaitedWrites>,
    reports: Arc<Reports>,
    templates: Arc<Parsed<PodTemplate>>,
    metrics: ControllerMetrics,
    limits: Limits,
}

fn start(context: Context) -> Arc<dyn Running> {
    let queue = context.queue("statefulset", Backoff::default());
    let workers = context.settings.workers(&CONCURRENT_SYNCS);
    let controller = StatefulSetController::new(context.clone(), queue.clone());
    Loop::start(STATEFUL_SET.name, context, Arc::new(controller), queue, workers)
}

impl StatefulSetController {
    /// Starts the informers. Their handlers enqueue keys in `queue`.
    pub fn new(context: Context, queue: Queue<Key>) -> Self {
        let settings = Arc::clone(&context.settings);
        let ledger = context.ledger();
        let metrics = ControllerMetrics::new(&context.metrics);
        let (awaited, awaited_writes): (Arc<AwaitedClaims>, Arc<AwaitedWrites>) = Default::default();
        let reports: Arc<Reports> = Arc::default();
        let templates = Arc::new(Parsed::default());
        let store: Arc<Store<StatefulSet>> = Arc::default();
        let watch = Arc::new(Watch {
            queue: queue.clone(),
            sets: Arc::clone(&store),
            ledger: ledger.clone(),
            metrics: metrics.clone(),
            awaited: Arc::clone(&awaited),
            awaited_writes: Arc::clone(&awaited_writes),
            reports: Arc::clone(&reports),
            templates: Arc::clone(&templates),
        });
        let sets = context.informer(store, handler(&watch, Watch::on_set));
        let pods = context.filtered_informer(POD_NAME_LABEL, handler(&watch, Watch::on_pod));
        let claims = context.informer(Arc::default(), handler(&watch, Watch::on_claim));
        let revisions = context.informer(Arc::default(), handler(&watch, Watch::on_revision));
        let limits = limits(&settings);
        Self {
            queue,
            watch,
            sets,
            pods,
            claims,
            revisions,
            ledger,
            awaited,
            awaited_writes,
            reports,
            templates,
            metrics,
            limits,
        }
    }

    /// Registers the claims that a set waits for. The deletion of one of these claims enqueues the set.
    fn await_claims(&self, set: &Meta, claims: &[String]) {
        let claims: Vec<Key> = claims.iter().map(|name| Key::new(&set.namespace, name)).collect();
        self.awaited.replace(&set.key(), claims.clone());
        // The event of a claim that was deleted before this call has enqueued nothing, so the set is enqueued here.
        let is_deleted = |claim: &Key| self.claims.store().peek(&claim.namespace, &claim.name, |_| ()).is_none();
        for claim in claims.iter().filter(|claim| is_deleted(claim)) {
            self.awaited.take(claim);
            self.queue.add(set.key(), Priority::Normal);
        }
        // The event of a set that was deleted before this call has removed nothing, so the entries are removed here.
        if self.sets.store().peek(&set.namespace, &set.name, |_| ()).is_none() {
            self.awaited.forget(&set.key());
        }
    }

    /// Registers the write that a set waits for. The set is enqueued when the caches show this write.
    fn await_write(&self, set: &Key) {
        let write = |behind: &Option<(Behind, Duration)>| match behind {
            Some((Behind::Write { resource, written, .. }, _)) => Some((*resource, *written)),
            _ => None,
        };
        let behind = || {
            let uid = self.sets.store().peek(&set.namespace, &set.name, |meta| meta.uid.clone());
            uid.and_then(|uid| self.behind(&uid))
        };
        loop {
            let known = behind();
            let awaited = write(&known);
            self.awaited_writes.set(set, awaited);
            if known.is_none() {
                return self.queue.add(set.clone(), Priority::Normal);
            }
            // An event before the call of `set` has enqueued nothing, so the caches are checked again.
            if awaited.is_none() || write(&behind()) == awaited {
                return;
            }
        }
    }
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        max_unavailable: settings.gate(&MAX_UNAVAILABLE),
        semantic_comparison: settings.gate(&SEMANTIC_COMPARISON),
        replaces_stuck_pods: settings.switch(&REPLACE_STUCK_PODS),
        reads_own_writes: settings.reads_own_writes(&STALE_CONSISTENCY),
    }
}

impl Controller for StatefulSetController {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    const STALE_SYNC_SKIPS: Option<&'static str> = Some("statefulset_controller_stale_sync_skips_total");

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
        (ObjectRef::new(STATEFUL_SETS, &snapshot.set.metadata), snapshot.owner.uid.clone())
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        let set = &snapshot.set;
        let key = set.metadata.key();
        match note {
            Note::Problem(Problem::Selector(error)) => {
                tracing::error!(logger = "statefulset", key = %key, err = %error, "Error converting StatefulSet selector");
            }
            Note::Problem(problem @ Problem::TooManyClaims { .. }) => {
                tracing::warn!(logger = "statefulset", key = %key, err = %problem, "StatefulSet is not managed");
            }
            Note::Rollout(unavailable) => self.metrics.rollout(set, unavailable),
            Note::AwaitedClaims(claims) => self.await_claims(&set.metadata, &claims),
            Note::Reported(difference, at) => self.reports.add_difference(&snapshot.owner.uid, difference, at),
            Note::HiddenPod(pod) => self.pods.show_hidden(*pod),
            Note::NameTaken { pod, at, examined } => self.reports.add_taken(&snapshot.owner.uid, pod, at, examined),
        }
    }

    fn observe_again(&self, snapshot: &Snapshot, pod: Arc<str>) -> Option<Namesake> {
        let cached = self.pods.store().get_readable(&snapshot.owner.namespace, &pod);
        Some(Namesake { cached, taken: self.reports.taken(&snapshot.owner.uid, &pod) })
    }

    fn record(&self, snapshot: &Snapshot, _: &Plan) {
        self.awaited_writes.set(&snapshot.set.metadata.key(), None);
        self.reports.free(&snapshot.owner.uid, snapshot.pods.keep.iter().map(|pod| &*pod.meta().name));
    }

    /// Reads released and unlabelled Pods again, because the watch does not show the writes of the sync to them.
    ///
    /// Also removes the entries of a set that was deleted during the sync.
    fn after_sync(&self, snapshot: &Snapshot) {
        for pod in snapshot.pods.release.iter().chain(snapshot.unlabelled()) {
            self.pods.read_again(pod.meta());
        }
        if !self.sets.store().shows(&snapshot.set.metadata) {
            self.watch.forget(&snapshot.set);
        }
    }

    fn waiting(&self, key: &Key) {
        self.await_write(key);
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&self.sets, &self.pods, &self.claims, &self.revisions]
    }
}
