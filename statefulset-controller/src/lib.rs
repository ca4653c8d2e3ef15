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

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    app::ProgramDefinition,
    informer::LabelFilteredInformer,
    parsed::ParseCache,
    pods::PODS,
    prelude::*,
    refs,
    revision::{NumberEncoding, template::PodTemplateWithRevisionData},
    second_writer::OwnedWrites,
    settings::{ATOMIC_FIFO, EXPECTATIONS_TIMEOUT, FeatureGate, Tunable, WorkersFlag},
};
use jiff::Timestamp;

use crate::{
    awaited::AwaitedVolumeClaims,
    decide::status,
    metrics::ControllerMetrics,
    objects::{
        CachedPod, CachedRevision, CachedVolumeClaim, POD_NAME_LABEL, STATEFUL_SETS, StatefulSet, parse_ordinal,
    },
    plan::{Plan, UnmanagedReason},
    reports::ReportTimes,
    snapshot::{FeatureSettings, SharedPod, Snapshot},
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
    watch: Arc<EventHandlers>,
    sets: Arc<Store<StatefulSet>>,
    pods: Arc<LabelFilteredInformer<CachedPod>>,
    claims: Arc<Store<CachedVolumeClaim>>,
    revisions: Arc<Store<CachedRevision>>,
    features: FeatureSettings,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("statefulset");
    let workers = context.settings.worker_count(&CONCURRENT_STATEFUL_SET_SYNCS);
    let controller = StatefulSetController::new(&context, queue.clone());
    Loop::start(STATEFUL_SET.name, context, Arc::new(controller), queue, workers)
}

impl StatefulSetController {
    /// Starts the informers. Their handlers enqueue keys in `queue`.
    pub fn new(context: &LoopContext, queue: Queue<NamespacedName>) -> Self {
        let settings = &context.settings;
        let sets: Arc<Store<StatefulSet>> = Arc::default();
        let watch = Arc::new(EventHandlers {
            queue,
            stateful_set_store: Arc::clone(&sets),
            ledger: context.ledger(),
            metrics: ControllerMetrics::new(&context.metrics),
            awaited_volume_claims: AwaitedVolumeClaims::default(),
            report_times: ReportTimes::default(),
            template_cache: ParseCache::default(),
        });
        context.start_informer(Arc::clone(&sets), handler_from_method(&watch, EventHandlers::on_set));
        Self {
            sets,
            pods: context.start_filtered_informer(POD_NAME_LABEL, handler_from_method(&watch, EventHandlers::on_pod)),
            claims: context.start_informer(Arc::default(), handler_from_method(&watch, EventHandlers::on_volume_claim)),
            revisions: context.start_informer(Arc::default(), handler_from_method(&watch, EventHandlers::on_revision)),
            features: FeatureSettings {
                is_max_unavailable_enabled: settings.is_feature_gate_on(&MAX_UNAVAILABLE_STATEFUL_SET),
                compares_revisions_semantically: settings
                    .is_feature_gate_on(&STATEFUL_SET_SEMANTIC_REVISION_COMPARISON),
                replaces_stuck_pods: settings.is_tunable_on(&REPLACE_STUCK_PODS),
                awaits_own_writes: settings.waits_for_own_writes(&STALE_CONTROLLER_CONSISTENCY_STATEFUL_SET),
            },
            watch,
        }
    }
}

impl Controller for StatefulSetController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    const STALE_SYNC_SKIPS: Option<&'static str> = Some("statefulset_controller_stale_sync_skips_total");

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let Self { watch, sets, pods, revisions, .. } = self;
        let (set, _) = watch.ledger.read(sets, key, WaitPolicy::AllWrites, |_| HashSet::default())?;
        let owner = Owner::new(STATEFUL_SETS, &set.metadata);
        let revisions = revisions.list_controlled_and_orphans(&set.metadata)?;
        let pods = pods.store().list_controlled_and_orphans(&set.metadata)?;
        let is_member = |pod: &SharedPod| parse_ordinal(&set.metadata.name, &pod.meta().name).is_some();
        // With a malformed selector, nothing is claimed, and the plan reports the selector.
        let revisions = refs::claim_dependents(&owner, &set.selector, revisions, |_| true).unwrap_or_default();
        let pods = refs::claim_dependents(&owner, &set.selector, pods, is_member).unwrap_or_default();
        let claimed_pods: Vec<&SharedPod> = pods.to_keep.iter().chain(&pods.to_adopt).collect();
        // The claims of a set that is not managed are not read.
        let volume_claims = match decide::unmanaged_reason(&set, claimed_pods.len()) {
            None => self.claims_of(&set, &claimed_pods)?,
            Some(_) => BTreeMap::new(),
        };
        let parse = |raw: &_| PodTemplateWithRevisionData::new(Clone::clone(raw), NumberEncoding::Doubles);
        let template = watch.template_cache.get_or_parse(&owner.uid, &set.template, parse);
        let template =
            template.map_err(|error| SyncError::new(SyncErrorClass::Template, format!("cannot make {error}")))?;
        let reported_mismatches = watch.report_times.reported_mismatches(&owner.uid);
        let features = self.features;
        Ok(Snapshot { set, template, owner, revisions, pods, volume_claims, reported_mismatches, features, now })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Sends the requests of a plan. If an adoption fails or the revision gets another name, decides the work on Pods again.
    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        let Snapshot { set, owner, pods, .. } = snapshot;
        if let Some(reason) = &plan.unmanaged_reason {
            let key = set.metadata.key();
            match reason {
                UnmanagedReason::Selector(error) => io.update_memory(|_| {
                    let text = "Error converting StatefulSet selector";
                    tracing::error!(logger = "statefulset", key = %key, err = %error, "{text}");
                }),
                UnmanagedReason::TooManyClaims { .. } => {
                    io.record_event(EventType::Warning, "TooManyClaims", reason.to_string());
                    io.update_memory(|_| {
                        tracing::warn!(logger = "statefulset", key = %key, err = %reason, "StatefulSet is not managed");
                    });
                }
            }
            return Ok(Requeue::AfterPlannedDelay);
        }
        for mismatch in &plan.mismatches_to_report {
            io.record_event(EventType::Warning, "ClaimMismatch", mismatch.to_string());
            let (difference, now) = (mismatch.describe_difference(), io.now());
            io.update_memory(|Self { watch, .. }| watch.report_times.add_mismatch_report(&owner.uid, difference, now));
        }

        act::adopt_revisions(snapshot, io).await?;
        let claim = ChildClaim::new(owner, PODS, &pods.to_adopt, &pods.to_release);
        let mut claim = claim.with_adoption_labels(act::missing_labels).send(io).await;
        claim.record_event_if_denied(io);
        claim.take_claim_result().map_err(|error| error.with_context("cannot claim Pods"))?;
        for labelled in claim.adopted_children().filter(|pod| pod.lacks_name_label()) {
            let (pod, set) = (&labelled.meta().name, &set.metadata.name);
            let message = format!("Update Pod {pod} in StatefulSet {set} successful");
            io.record_event(EventType::Normal, "SuccessfulUpdate", message);
        }
        let claimed_pods: Vec<SharedPod> = pods.to_keep.iter().chain(claim.adopted_children()).cloned().collect();

        let Some(revisions) = act::write_revision(snapshot, &plan.revisions, io).await? else {
            return Ok(Requeue::AfterPlannedDelay);
        };
        // The plan assumes that every adoption succeeds and that the new revision gets its planned name.
        let has_planned_name = revisions.update_revision.name == plan.revisions.update_revision.name;
        let pod_plan = if claim.has_adopted_all() && has_planned_name {
            Cow::Borrowed(&plan.pod_plan)
        } else {
            Cow::Owned(decide::plan_pod_work(snapshot, &claimed_pods, &revisions))
        };
        let (lowered, worked) = act::work_on_pods(snapshot, &revisions, &pod_plan, io).await;

        io.update_memory(|controller| {
            if let Some(unavailable_pods) = pod_plan.unavailable_pods {
                controller.watch.metrics.record_unavailable_pods(set, unavailable_pods);
            }
            controller.await_claims(&set.metadata, &pod_plan.volume_claims_to_await);
        });
        let status = status::status_after_work(set, &pod_plan.status_before_work, lowered);
        let status_written = act::write_status(snapshot, &status, io).await;
        let forgotten = act::forget_revisions(snapshot, &revisions, &claimed_pods, io).await;
        worked.and(status_written).and(forgotten)?;

        // The next sync handles the remaining Pods. It starts only after the caches show the Pods that this sync created.
        if pod_plan.deferred_pod_count > 0 {
            return Ok(Requeue::After(Duration::ZERO));
        }
        let delay = status::time_to_next_availability(set, &claimed_pods, &status, snapshot.now, io.now());
        Ok(delay.map_or(Requeue::AfterPlannedDelay, Requeue::After))
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(STATEFUL_SETS, &snapshot.set.metadata)
    }

    fn record_plan(&self, Snapshot { owner, pods, .. }: &Snapshot, _: &Plan) {
        let names = pods.to_keep.iter().map(|pod| &*pod.meta().name);
        self.watch.report_times.remove_refused_creations(&owner.uid, names);
    }

    /// Reads released Pods and Pods without the watched label again, because the watch does not show the sync's writes to them.
    ///
    /// If the set was deleted during the sync, also removes the set from the memory of the controller.
    fn after_sync(&self, snapshot: &Snapshot) {
        for pod in snapshot.pods.to_release.iter().chain(snapshot.pods_without_name_label()) {
            self.pods.reread_if_hidden_from_watch(pod.meta());
        }
        if !self.sets.contains_object(&snapshot.set.metadata) {
            self.watch.forget_set(&snapshot.set);
        }
    }
}
