//! StatefulSets: Pods with stable names, ordinals and claims, created and deleted in order.
//!
//! # What it promises
//!
//! If a set stays as it is, it ends up with exactly the Pods `<set>-<ordinal>` of its range, each with its own claims and of the
//! revision of the set's template, and with a status that counts them. On the way there are never two Pods of one ordinal; Pods
//! are created and deleted in the order that the set asks for; a rolling update deletes no Pod below the partition; no claim is
//! deleted, no owner reference of another controller is changed, and no Pod of another controller is written. A template that
//! differs only in how a server encodes it restarts no Pod. A sync costs as much as there are Pods and claims, and no more where a
//! set asks for two thousand million replicas. Of the data of a revision only a digest is kept: a sync that makes Pods from an earlier
//! template reads its revision from the server.
//!
//! # How it is laid out
//!
//! ```text
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide/ ──► Plan ──► act/ ──► API server
//! (events        │         (indexes of     (pure)       revisions, scaling,  claims, revisions,
//!  to keys)      │         four caches)                 rolling, retention,  Pods phase by phase, status,
//!                │                                      status, history      history
//!                └──────────────◄── requeue: a Pod becomes available, a claim is gone, Pods are left to create
//! ```
//!
//! # Where it differs from upstream
//!
//! - Deletions of Pods and revisions name the uid and the version they were decided on. Statuses, labels and owner references of
//!   claims are patches onto the version they were decided on; conditions that others wrote into a status stay.
//! - A status that meets a conflict is computed again, and not written over the newer set.
//! - A sync also waits until the caches show this process's writes of revisions and its deletions.
//! - `status.currentReplicas` is lowered only for Pods of the current revision, and never below zero.
//! - `web-01` has ordinal 1 of `web`, as `web-1` has. If both exist and the ordinal is in range, `web-1` is the Pod of the set and
//!   `web-01` is left alone. Upstream takes whichever of the two its cache lists last.
//! - A set that could not create a Pod because an orphan has its name is synced when that orphan is gone.
//! - A set that waits for the deletion of a claim is synced when the claim is gone.
//! - If only the owner references of its claims change, a Pod itself is not written. The Event `SuccessfulUpdate` is the same.
//! - No revision is deleted after the revisions could not be determined, and none that the status names.
//! - For a set that is being deleted no revision is created or renumbered.
//! - A revision that was stored before and is gone is stored again only if the set, read live, is still there.
//! - With `Parallel`, one sync creates at most a thousand Pods. The next sync goes on.
//! - The claims that are created together with a Pod get their owner references at the next event of the Pod, whether it is ready
//!   or not. Upstream leaves the claims of a Pod that runs and is never ready behind when the set is deleted.
//! - A `FailedUpdate` Event reports that the server denies an adoption, a release, or an owner reference of a claim: a right is missing, or a policy forbids it.
//! - A `FailedCreate` Event reports, once an hour, that the name of a Pod is taken by a Pod that the set cannot adopt.
//! - Only Pods with the label `statefulset.kubernetes.io/pod-name` are watched. A Pod that loses the label is read, and gets the label
//!   back before anything else is done; upstream waits until the Pod is ready. A Pod that is adopted without the label gets it in the
//!   same patch. An orphan without the label is adopted when the set needs its name; upstream adopts it at once, also if its ordinal is out
//!   of range. If the set has released it before, its labels are read once a minute.
//! - A `ClaimMismatch` Event reports, once an hour, a claim that gives less than its template requests. It is used all the same.
//! - With `maxUnavailable`, outdated Pods that are not ready do not hold up the rolling update. They are replaced within the limit.
//!
//! # What can be turned on
//!
//! `--tune replace-stuck-pods=true`: with `OrderedReady`, an outdated Pod that was never ready and blocks the other Pods is replaced.
//! Upstream has users delete it, who know of that only if they have read about forced rollbacks.

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

/// The gate of rolling updates that replace several Pods at once.
pub const MAX_UNAVAILABLE: FeatureGate = FeatureGate::off(
    "MaxUnavailableStatefulSet",
    "A rolling update may have as many Pods unavailable as updateStrategy.rollingUpdate.maxUnavailable says",
);
/// The gate of comparing revisions regardless of defaults.
pub const SEMANTIC_COMPARISON: FeatureGate = FeatureGate::on(
    "StatefulSetSemanticRevisionComparison",
    "A revision that differs from the template only by defaults is equal to it",
);
/// The gate of waiting for the caches. With the gate off, a sync still waits until the caches show its deletions and its writes of
/// revisions.
pub const STALE_CONSISTENCY: FeatureGate = FeatureGate::on(
    "StaleControllerConsistencyStatefulSet",
    "A StatefulSet is not synced before the caches show what was last written for it; needs AtomicFIFO",
);
/// All gates this crate knows.
pub const GATES: &[FeatureGate] = &[MAX_UNAVAILABLE, SEMANTIC_COMPARISON, STALE_CONSISTENCY, ATOMIC_FIFO];

/// Whether outdated Pods that were never ready are replaced. Upstream leaves that to users.
pub const REPLACE_STUCK_PODS: Tune = Tune::switch(
    "replace-stuck-pods",
    false,
    "Replace an outdated Pod that was never ready and blocks the other Pods (OrderedReady)",
);
/// All tunes of this crate.
pub const TUNES: &[Tune] = &[EXPECTATIONS_TIMEOUT, REPLACE_STUCK_PODS];

/// The number of StatefulSets that are synced concurrently.
pub const CONCURRENT_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-statefulset-syncs", 5, "The number of StatefulSets that are synced concurrently");
/// All flags of this crate for numbers of workers.
pub const WORKERS: &[WorkersFlag] = &[CONCURRENT_SYNCS];

/// The loop of StatefulSets.
pub const STATEFUL_SET: LoopDefinition = LoopDefinition::new("statefulset-controller", "statefulset", start)
    .owning(&[OwnedWrites::status("apps", "statefulsets")]);
/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] = &[STATEFUL_SET];

/// The program.
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

/// The controller.
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
    /// Starts watching; keys go to `queue`.
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

    /// Has the set synced again once one of the claims is gone that it waits for.
    fn await_claims(&self, set: &Meta, claims: &[String]) {
        let claims: Vec<Key> = claims.iter().map(|name| Key::new(&set.namespace, name)).collect();
        self.awaited.replace(&set.key(), claims.clone());
        // The event of a claim that has gone in between found nobody waiting for it.
        let gone = |claim: &Key| self.claims.store().peek(&claim.namespace, &claim.name, |_| ()).is_none();
        for claim in claims.iter().filter(|claim| gone(claim)) {
            self.awaited.take(claim);
            self.queue.add(set.key(), Priority::Normal);
        }
        // Neither does the event of a set that has gone in between find its entries.
        if self.sets.store().peek(&set.namespace, &set.name, |_| ()).is_none() {
            self.awaited.forget(&set.key());
        }
    }

    /// Has the set synced again once the caches show the write that it waits for.
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
            // An event that came in between found no set waiting.
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

    /// The event of the deletion of a set may have come before the last answer was noted. The watch does not show what was written to
    /// hidden Pods.
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
