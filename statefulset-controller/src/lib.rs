//! The StatefulSet controller: Pods with stable names, ordinals and claims, created and deleted in order.
//!
//! # What it promises
//!
//! If a set is no longer changed, it ends up with exactly the Pods `<set>-<ordinal>` of its range. Each Pod has its own claims
//! and the revision of the set's template, and the status counts the Pods. On the way:
//!
//! - No ordinal gets a second Pod. Pods are created and deleted in the order of `spec.podManagementPolicy`.
//! - A rolling update deletes no Pod below the partition. A template that differs only in its encoding restarts no Pod.
//! - No claim is deleted, no owner reference of another controller is changed, and no Pod of another controller is written.
//! - The cost of a sync grows with the existing Pods and claims, and not with `spec.replicas`, which can be two thousand
//!   million.
//! - The cache keeps only a digest of a revision's data. A sync that creates Pods from an earlier template reads the
//!   revision of that template from the server.
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
//!   and owner references have the version as a precondition. Conditions that other clients wrote into a status are kept.
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
//! - Claims that are created together with a Pod get their owner references at the next event of the Pod, even if the Pod is
//!   not ready. Upstream does not write them while the Pod runs without becoming ready, so the claims outlive a deleted set.
//! - A `FailedUpdate` Event reports that the server denies an adoption, a release, or an owner reference of a claim, because
//!   the controller lacks a right or a policy forbids the change.
//! - A `FailedCreate` Event reports, once an hour, that the name of a Pod is taken by a Pod that the set cannot adopt.
//! - Only Pods with the label `statefulset.kubernetes.io/pod-name` are watched. A Pod that loses the label is read, and the
//!   label is restored before any other work; upstream waits until the Pod is ready. The patch that adopts a Pod also adds a
//!   missing label. An orphan without the label is adopted when the set needs its name; upstream adopts the orphan at once,
//!   even if its ordinal is out of range. The labels of an orphan that the set released before are read once a minute.
//! - A `VolumeClaimMismatch` Event reports, once an hour, a claim that falls short of its template. The claim is still used.
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
    app::ProgramDefinition,
    consistency::{Ledger, UnseenWrite},
    controller::{Controller, Loop, Observation},
    events::InvolvedObject,
    informer::{AnyInformer, Informer, LabelFilteredInformer, handler_from_method},
    io::{Io, Requeue, SyncError},
    meta::{Meta, NamespacedName, Uid},
    parsed::ParseCache,
    queue::{BackoffSettings, Priority, Queue},
    revision::template::PodTemplateWithRevisionData,
    runtime::{LoopContext, LoopDefinition, RunningLoop},
    second_writer::OwnedWrites,
    settings::{ATOMIC_FIFO, EXPECTATIONS_TIMEOUT, FeatureGate, OperatorSettings, Tunable, WorkersFlag},
    store::Store,
};
use jiff::Timestamp;

use crate::{
    act::{NamesakeState, Note},
    awaited::{AwaitedVolumeClaims, AwaitedWrites},
    metrics::ControllerMetrics,
    objects::{CachedPod, CachedRevision, CachedVolumeClaim, POD_NAME_LABEL, STATEFUL_SETS, StatefulSet},
    plan::{Plan, UnmanagedReason},
    reports::ReportTimes,
    snapshot::{FeatureSettings, Snapshot},
    watch::EventHandlers,
};

/// Feature gate: a rolling update may replace several Pods at the same time. Off by default.
pub const MAX_UNAVAILABLE_STATEFUL_SET: FeatureGate = FeatureGate::off_by_default(
    "MaxUnavailableStatefulSet",
    "A rolling update may make up to updateStrategy.rollingUpdate.maxUnavailable Pods unavailable",
);
/// Feature gate: API defaults are ignored when a revision is compared with the template. On by default.
pub const STATEFUL_SET_SEMANTIC_REVISION_COMPARISON: FeatureGate = FeatureGate::on_by_default(
    "StatefulSetSemanticRevisionComparison",
    "A revision equals the template if they differ only by API defaults",
);
/// Feature gate: a sync waits until the caches show the writes of this process. On by default.
///
/// With the gate off, a sync still waits until the caches show its deletions and its writes of revisions.
pub const STALE_CONTROLLER_CONSISTENCY_STATEFUL_SET: FeatureGate = FeatureGate::on_by_default(
    "StaleControllerConsistencyStatefulSet",
    "A StatefulSet is synced only after the caches show the last writes for it; needs AtomicFIFO",
);
/// Feature gates that the binary `statefulset-controller` accepts.
pub const GATES: &[FeatureGate] = &[
    MAX_UNAVAILABLE_STATEFUL_SET,
    STATEFUL_SET_SEMANTIC_REVISION_COMPARISON,
    STALE_CONTROLLER_CONSISTENCY_STATEFUL_SET,
    ATOMIC_FIFO,
];

/// Replaces outdated Pods that were never ready. Off by default; upstream leaves the deletion of such Pods to users.
pub const REPLACE_STUCK_PODS: Tunable = Tunable::of_switch(
    "replace-stuck-pods",
    false,
    "Replace an outdated Pod that was never ready and blocks the other Pods (OrderedReady)",
);
/// Settings that `--tune` accepts.
pub const TUNABLES: &[Tunable] = &[EXPECTATIONS_TIMEOUT, REPLACE_STUCK_PODS];

/// `--concurrent-statefulset-syncs`: the number of workers, 5 by default.
pub const CONCURRENT_STATEFUL_SET_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-statefulset-syncs", 5, "The number of StatefulSets that are synced concurrently");
/// Flags that set a number of workers.
pub const WORKERS_FLAGS: &[WorkersFlag] = &[CONCURRENT_STATEFUL_SET_SYNCS];

/// The control loop of StatefulSets. Another process that writes the status of StatefulSets is detected.
pub const STATEFUL_SET: LoopDefinition = LoopDefinition::new("statefulset-controller", "statefulset", start)
    .with_owned_writes(&[OwnedWrites::of_status("apps", "statefulsets")]);
/// Loops that the binary `statefulset-controller` starts.
pub const LOOPS: &[LoopDefinition] = &[STATEFUL_SET];

/// Name, version and settings of the binary.
pub const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "statefulset-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Runs the Kubernetes StatefulSet controller as a service of its own",
    loops: LOOPS,
    workers_flags: WORKERS_FLAGS,
    feature_gates: GATES,
    tunables: TUNABLES,
    single_value_flags: &[],
};

/// The control loop of StatefulSets, with its caches and the memory that it keeps between syncs.
pub struct StatefulSetController {
    queue: Queue<NamespacedName>,
    watch: Arc<EventHandlers>,
    sets: Informer<StatefulSet>,
    pods: LabelFilteredInformer<CachedPod>,
    claims: Informer<CachedVolumeClaim>,
    revisions: Informer<CachedRevision>,
    ledger: Ledger,
    awaited: Arc<AwaitedVolumeClaims>,
    awaited_writes: Arc<AwaitedWrites>,
    reports: Arc<ReportTimes>,
    templates: Arc<ParseCache<PodTemplateWithRevisionData>>,
    metrics: ControllerMetrics,
    limits: FeatureSettings,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("statefulset", BackoffSettings::default());
    let workers = context.settings.worker_count(&CONCURRENT_STATEFUL_SET_SYNCS);
    let controller = StatefulSetController::new(context.clone(), queue.clone());
    Loop::start(STATEFUL_SET.name, context, Arc::new(controller), queue, workers)
}

impl StatefulSetController {
    /// Starts the informers. Their handlers enqueue keys in `queue`.
    pub fn new(context: LoopContext, queue: Queue<NamespacedName>) -> Self {
        let settings = Arc::clone(&context.settings);
        let ledger = context.new_ledger();
        let metrics = ControllerMetrics::new(&context.metrics);
        let (awaited, awaited_writes): (Arc<AwaitedVolumeClaims>, Arc<AwaitedWrites>) = Default::default();
        let reports: Arc<ReportTimes> = Arc::default();
        let templates = Arc::new(ParseCache::default());
        let store: Arc<Store<StatefulSet>> = Arc::default();
        let watch = Arc::new(EventHandlers {
            queue: queue.clone(),
            stateful_set_store: Arc::clone(&store),
            ledger: ledger.clone(),
            metrics: metrics.clone(),
            awaited_volume_claims: Arc::clone(&awaited),
            awaited_writes: Arc::clone(&awaited_writes),
            report_times: Arc::clone(&reports),
            template_cache: Arc::clone(&templates),
        });
        let sets = context.start_informer(store, handler_from_method(&watch, EventHandlers::on_set));
        let pods = context.start_filtered_informer(POD_NAME_LABEL, handler_from_method(&watch, EventHandlers::on_pod));
        let claims =
            context.start_informer(Arc::default(), handler_from_method(&watch, EventHandlers::on_volume_claim));
        let revisions = context.start_informer(Arc::default(), handler_from_method(&watch, EventHandlers::on_revision));
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
        let claims: Vec<NamespacedName> = claims.iter().map(|name| NamespacedName::new(&set.namespace, name)).collect();
        self.awaited.replace_claims_of_set(&set.key(), claims.clone());
        // If a claim was deleted before this call, the event of the deletion enqueued nothing, so the set is enqueued here.
        let is_deleted =
            |claim: &NamespacedName| self.claims.store().with_metadata(&claim.namespace, &claim.name, |_| ()).is_none();
        for claim in claims.iter().filter(|claim| is_deleted(claim)) {
            self.awaited.take_sets_waiting_for(claim);
            self.queue.add(set.key(), Priority::Normal);
        }
        // If the set was deleted before this call, its event removed nothing, so the awaited claims are removed here.
        if self.sets.store().with_metadata(&set.namespace, &set.name, |_| ()).is_none() {
            self.awaited.forget_set(&set.key());
        }
    }

    /// Registers the write that a set waits for. The set is enqueued when the caches show this write.
    fn await_write(&self, set: &NamespacedName) {
        let write = |behind: &Option<(UnseenWrite, Duration)>| match behind {
            Some((UnseenWrite::VersionNotReached { resource, written, .. }, _)) => Some((resource.clone(), *written)),
            _ => None,
        };
        let behind = || {
            let uid = self.sets.store().with_metadata(&set.namespace, &set.name, |meta| meta.uid.clone());
            uid.and_then(|uid| self.unseen_write_and_timeout(&uid))
        };
        loop {
            let known = behind();
            let awaited = write(&known);
            self.awaited_writes.record_awaited_write(set, awaited.clone());
            if known.is_none() {
                return self.queue.add(set.clone(), Priority::Normal);
            }
            // If the event of the write came before this call, it enqueued nothing, so the caches are checked again.
            if awaited.is_none() || write(&behind()) == awaited {
                return;
            }
        }
    }
}

fn limits(settings: &OperatorSettings) -> FeatureSettings {
    FeatureSettings {
        is_max_unavailable_enabled: settings.is_feature_gate_on(&MAX_UNAVAILABLE_STATEFUL_SET),
        compares_revisions_semantically: settings.is_feature_gate_on(&STATEFUL_SET_SEMANTIC_REVISION_COMPARISON),
        replaces_stuck_pods: settings.is_tunable_on(&REPLACE_STUCK_PODS),
        awaits_own_writes: settings.waits_for_own_writes(&STALE_CONTROLLER_CONSISTENCY_STATEFUL_SET),
    }
}

impl Controller for StatefulSetController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    const STALE_SYNC_SKIPS: Option<&'static str> = Some("statefulset_controller_stale_sync_skips_total");

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        self.observe(key, now)
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, SyncError> {
        act::act(snapshot, plan, io).await
    }

    fn synced_object(snapshot: &Snapshot) -> (InvolvedObject, Uid) {
        (InvolvedObject::new(STATEFUL_SETS, &snapshot.set.metadata), snapshot.owner.uid.clone())
    }

    fn apply_memory_note(&self, snapshot: &Snapshot, note: Note) {
        let set = &snapshot.set;
        let key = set.metadata.key();
        match note {
            Note::UnmanagedReason(UnmanagedReason::Selector(error)) => {
                tracing::error!(logger = "statefulset", key = %key, err = %error, "Error converting StatefulSet selector");
            }
            Note::UnmanagedReason(problem @ UnmanagedReason::TooManyClaims { .. }) => {
                tracing::warn!(logger = "statefulset", key = %key, err = %problem, "StatefulSet is not managed");
            }
            Note::RolloutProgress(unavailable) => self.metrics.record_unavailable_pods(set, unavailable),
            Note::AwaitedClaims(claims) => self.await_claims(&set.metadata, &claims),
            Note::MismatchReported(difference, at) => {
                self.reports.add_mismatch_report(&snapshot.owner.uid, difference, at);
            }
            Note::HiddenPod(pod) => self.pods.add_object_hidden_from_watch(*pod),
            Note::NameTaken { pod, at, is_reported: examined } => {
                self.reports.add_refused_creation(&snapshot.owner.uid, pod, at, examined);
            }
        }
    }

    fn observe_again(&self, snapshot: &Snapshot, pod: Arc<str>) -> Option<NamesakeState> {
        let cached = self.pods.store().get_decoded(&snapshot.owner.namespace, &pod);
        Some(NamesakeState {
            cached_pod: cached,
            refused_creations: self.reports.refused_creations(&snapshot.owner.uid, &pod),
        })
    }

    fn record_plan(&self, snapshot: &Snapshot, _: &Plan) {
        self.awaited_writes.record_awaited_write(&snapshot.set.metadata.key(), None);
        self.reports
            .remove_refused_creations(&snapshot.owner.uid, snapshot.pods.to_keep.iter().map(|pod| &*pod.meta().name));
    }

    /// Reads released Pods and Pods without the watched label again, because the watch does not show the sync's writes to them.
    ///
    /// If the set was deleted during the sync, also removes the set from the memory of the controller.
    fn after_sync(&self, snapshot: &Snapshot) {
        for pod in snapshot.pods.to_release.iter().chain(snapshot.pods_without_name_label()) {
            self.pods.reread_if_hidden_from_watch(pod.meta());
        }
        if !self.sets.store().contains_object(&snapshot.set.metadata) {
            self.watch.forget_set(&snapshot.set);
        }
    }

    fn on_waiting(&self, key: &NamespacedName) {
        self.await_write(key);
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&self.sets, &self.pods, &self.claims, &self.revisions]
    }
}
