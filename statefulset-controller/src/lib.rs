//! StatefulSets: Pods with names, numbers and claims of their own, one after the other.
//!
//! # What it promises
//!
//! If a set stays as it is, it ends up with exactly the Pods `<set>-<n>` of the numbers it wants, each with its own claims, all
//! of the revision of its template, and a status that counts them. On the way there are never two Pods of one number; Pods
//! come and go in the order the set asks for; what a rollout may not touch it does not touch; no claim is ever deleted here,
//! nor an owner of it that others wrote; no Pod that another controller owns is touched. A template that only looks different,
//! because a server writes it differently, restarts nothing.
//!
//! # How it is laid out
//!
//! ```text
//! watch.rs ──► queue ──► observe.rs ──► Snapshot ──► decide/ ──► Plan ──► act/ ──► API server
//! (events        │         (indexes of     (pure)       revisions, scaling,  claims, revisions,
//!  to keys)      │         four caches)                 rolling, retention,  pods, status
//!                │                                      status, history
//!                └──────────────◄── requeue: a Pod becomes available, a claim is gone
//! ```
//!
//! # Where it differs from upstream
//!
//! - Deletions name the uid they mean. Statuses, labels and owners of claims are patches onto what they were decided on;
//!   conditions that others wrote into a status stay there.
//! - A status that meets a conflict is computed anew, not written over the newer set.
//! - Writes of revisions and deletions are waited for as well.
//! - `status.currentReplicas` is lowered only by Pods of the current revision, and never below zero.
//! - `web-01` is not number 1 of `web`; such a Pod is left alone.
//! - A set that waits for a claim to be gone is looked at once it is.
//! - A Pod whose claims get other owners is not written itself, nor told of.
//! - History is not cut short after a failure to find the revisions, and what the status names stays.
//! - Where several Pods may be unavailable, those that are unavailable and outdated are replaced first.
//!
//! # What can be turned on
//!
//! `--tune replace-stuck-pods=true`: an outdated Pod that does not get ready, and that the others wait for (`OrderedReady`), is
//! replaced. Upstream has users delete it, who only know of that when they have read about forced rollbacks.

pub mod decide;
pub mod error;
pub mod metrics;
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
    consistency::Ledger,
    controller::{Controller, Loop, Observed, Requeue},
    informer::{AnyInformer, Informer},
    meta::{Key, Meta},
    object::Resource,
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    settings::{FeatureGate, Settings, Tune, TuneValue, WorkersFlag},
    store::{Store, by_controller, by_namespace, orphans_by_namespace},
};
use jiff::Timestamp;

use crate::{
    error::Error,
    metrics::ControllerMetrics,
    objects::{CachedPod, Claim, ControllerRevision, StatefulSet},
    plan::Plan,
    snapshot::{Limits, Snapshot},
    watch::{Awaited, Watch},
};

/// The gate of rollouts that take several Pods at once.
pub const MAX_UNAVAILABLE: FeatureGate = FeatureGate {
    name: "MaxUnavailableStatefulSet",
    default: false,
    locked: false,
    help: "A rolling update may have as many Pods unavailable as updateStrategy.rollingUpdate.maxUnavailable says",
};
/// The gate of comparing revisions by what they mean.
pub const SEMANTIC_COMPARISON: FeatureGate = FeatureGate {
    name: "StatefulSetSemanticRevisionComparison",
    default: true,
    locked: false,
    help: "A revision that differs from the template only by defaults is the same",
};
/// The gate of waiting for the caches. Off, deletions are waited for all the same.
pub const STALE_CONSISTENCY: FeatureGate = FeatureGate {
    name: "StaleControllerConsistencyStatefulSet",
    default: true,
    locked: false,
    help: "A StatefulSet is not synced before the caches show what was last written for it; needs AtomicFIFO",
};
/// A gate of upstream's caches that [`STALE_CONSISTENCY`] depends on; it has no other effect here.
pub const ATOMIC_FIFO: FeatureGate = FeatureGate {
    name: "AtomicFIFO",
    default: true,
    locked: false,
    help: "Caches know the version they have reached; off switches StaleControllerConsistencyStatefulSet off, too",
};
/// All gates this crate knows.
pub const GATES: &[FeatureGate] = &[MAX_UNAVAILABLE, SEMANTIC_COMPARISON, STALE_CONSISTENCY, ATOMIC_FIFO];

/// After how long a write that no cache shows is waited for no more.
pub const EXPECTATIONS_TIMEOUT: Tune = Tune {
    name: "expectations-timeout",
    default: TuneValue::Duration(Duration::from_mins(5)),
    help: "After how long a write of its own that its caches do not show is waited for no more",
};
/// Whether Pods are replaced that keep a rollout from going back. Upstream's users do that.
pub const REPLACE_STUCK_PODS: Tune = Tune {
    name: "replace-stuck-pods",
    default: TuneValue::Switch(false),
    help: "An outdated Pod that does not get ready and that the others wait for (OrderedReady) is replaced",
};
/// All values of this crate that can be tuned.
pub const TUNES: &[Tune] = &[EXPECTATIONS_TIMEOUT, REPLACE_STUCK_PODS];

/// The flag that says how many StatefulSets are synced at once.
pub const CONCURRENT_SYNCS: WorkersFlag = WorkersFlag {
    name: "concurrent-statefulset-syncs",
    default: 5,
    min: 1,
    help: "How many StatefulSets are synced at once",
};
/// All flags of this crate that say how many objects are synced at once.
pub const WORKERS: &[WorkersFlag] = &[CONCURRENT_SYNCS];

/// The loop of StatefulSets.
pub const STATEFUL_SET: LoopDefinition = LoopDefinition {
    name: "statefulset-controller",
    alias: "statefulset",
    client: "statefulset-controller",
    component: "statefulset-controller",
    start,
};
/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] = &[STATEFUL_SET];

/// The program.
pub const DEFINITION: Definition = Definition {
    name: "statefulset-controller",
    about: "Runs the Kubernetes StatefulSet controller as a service of its own",
    loops: LOOPS,
    workers: WORKERS,
    gates: GATES,
    tunes: TUNES,
    flags: &[],
};

/// The controller.
pub struct StatefulSetController {
    context: Context,
    queue: Queue<Key>,
    sets: Informer<StatefulSet>,
    pods: Informer<CachedPod>,
    claims: Informer<Claim>,
    revisions: Informer<ControllerRevision>,
    ledger: Ledger,
    awaited: Awaited,
    metrics: ControllerMetrics,
    limits: Limits,
    reads_own_writes: bool,
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
        let ledger = Ledger::new(context.clock.clone(), settings.duration(&EXPECTATIONS_TIMEOUT));
        let metrics = ControllerMetrics::new(&context.metrics);
        let awaited = Awaited::default();
        let store = Arc::new(Store::new(&[by_namespace()]));
        let watch = Arc::new(Watch {
            queue: queue.clone(),
            sets: Arc::clone(&store),
            ledger: ledger.clone(),
            metrics: metrics.clone(),
            awaited: Arc::clone(&awaited),
        });
        let (api, config) = (&context.api, context.caches());
        let (on_set, on_claim) = (Arc::clone(&watch), Arc::clone(&watch));
        let sets = Informer::start_with(
            api.clone(),
            config.clone(),
            store,
            vec![Box::new(move |event, origin| on_set.on_set(event, origin))],
        );
        let children = [by_controller(), orphans_by_namespace()];
        let pods = Informer::start(
            api.clone(),
            config.clone(),
            &children,
            vec![Box::new(move |event, origin| watch.on_pod(event, origin))],
        );
        let claims =
            Informer::start(api.clone(), config.clone(), &[], vec![Box::new(move |event, _| on_claim.on_claim(event))]);
        let revisions = Informer::start(api.clone(), config, &[by_controller(), orphans_by_namespace()], Vec::new());
        let reads_own_writes = settings.gate(&STALE_CONSISTENCY) && settings.gate(&ATOMIC_FIFO);
        let limits = limits(&settings);
        Self { context, queue, sets, pods, claims, revisions, ledger, awaited, metrics, limits, reads_own_writes }
    }

    /// Notes a write of something of a set, which the cache has to show before the next sync.
    fn wrote(&self, snapshot: &Snapshot, resource: Resource, written: &Meta) {
        if self.reads_own_writes {
            self.ledger.wrote(&snapshot.owner.uid, resource, written.resource_version);
        }
    }

    /// Notes a deletion, before the request: an event may come before the answer.
    fn note_deletion(&self, snapshot: &Snapshot, resource: Resource, meta: &Meta) {
        self.ledger.deleted(&snapshot.owner.uid, resource, &meta.namespace, &meta.name, &meta.uid);
    }
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        max_unavailable: settings.gate(&MAX_UNAVAILABLE),
        semantic_comparison: settings.gate(&SEMANTIC_COMPARISON),
        replaces_stuck_pods: settings.switch(&REPLACE_STUCK_PODS),
    }
}

impl Controller for StatefulSetController {
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
        vec![&self.sets, &self.pods, &self.claims, &self.revisions]
    }

    fn waiting(&self, key: &Key) {
        if let Some(resource) = self.lags(key) {
            self.metrics.skipped_stale(resource);
        }
    }
}
