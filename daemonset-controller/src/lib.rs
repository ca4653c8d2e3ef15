//! The DaemonSet controller: one Pod on every eligible node.
//!
//! # What it promises
//!
//! If a DaemonSet does not change, it ends up with exactly one Pod of its template on every eligible node, no Pod on any other
//! node, and a status that counts the Pods. On the way:
//!
//! - An available Pod is removed from at most `maxUnavailable` nodes, and at most `maxSurge` nodes have a second Pod.
//! - No Pod is created for a node that is ineligible or unknown, and no Pod of another controller is written.
//! - A template that differs only in its JSON encoding makes no new revision.
//!
//! # What it costs
//!
//! A sync handles the nodes that have changed since the last sync, and as many nodes as it can act on. In a DaemonSet of five
//! thousand nodes, an event of one Pod costs the work for one node. A change of a node's labels or taints costs one comparison
//! for each DaemonSet. If the placements of all DaemonSets (their node selectors, affinities and tolerations) are too large for
//! these comparisons, the DaemonSets with the largest placements are synced without a comparison. Heartbeats, conditions and
//! image lists of nodes cost nothing. The cache keeps only a digest of a revision's data.
//!
//! # How it is laid out
//!
//! ```text
//! watch.rs ──► node_indexes.rs (nodes, Pods, counts)
//!    │             │
//!    └──► queue ──► observe.rs ──► Snapshot ──► decide/ ──► Plan ──► act/ ──► API server
//!           ▲        (indexes of     (pure)      eligibility, manage,    revisions,
//!           │         four caches)               contribution, rolling,  Pods, status
//!           │                                    revisions, status
//!           └── node_updates/ ◄── queue of nodes;  requeue: a Pod becomes available, a back-off ends
//! ```
//!
//! # Where it differs from upstream
//!
//! - Deletions of Pods and revisions have the uid and the version of the snapshot as preconditions. A Pod that has changed
//!   since the snapshot is read from the server, and the reason for its deletion is checked again. Releases, adoptions and
//!   statuses are patches with the version as a precondition. Status conditions of other clients are kept.
//! - After a conflict, a status is computed again. Upstream writes the same status onto the newer DaemonSet.
//! - Expectations name each Pod by uid, in the ledger of `common`, so an event of another Pod does not satisfy them.
//! - A creation with a lost answer delays new Pods on its own node only, until the request can no longer take effect.
//! - A sync that adopts or relabels Pods does no other work on Pods. The sync after an adoption adopts no Pods, and creates no
//!   Pod on the nodes of orphans.
//! - Pods are created and deleted in the order of their nodes' names. After the server has refused a request for a node, the
//!   next sync begins with the nodes after that node; a new generation begins with the first node.
//! - With surge, an outdated Pod on a deleted node does not delay a rolling update, and an available Pod there does not count
//!   as serving. Without surge, a deleted node with a Pod that is not available counts against `maxUnavailable`, as upstream.
//! - With surge, the back-off of failed Pods also delays the creation of the next Pod.
//! - A DaemonSet is also synced when a node is deleted, and when a node with one of its Pods begins or ceases to count as
//!   desired.
//! - If a template is stored as two revisions, only the Pods that have the hash of the deleted revision are relabelled.
//! - After the server has refused a Pod because the namespace is terminating, no other Pod is created for a while. After
//!   admission has changed a Pod so that it does not belong to the DaemonSet, the Pod is deleted, and further Pods are created
//!   with growing pauses.
//! - A `FailedUpdate` Event reports that the server denies the adoption, release, labelling or renumbering of a revision, or
//!   the adoption, release or relabelling of a Pod. A `FailedDelete` Event reports the same for the deletion of a revision. The
//!   change is retried later, and the DaemonSet is synced without it.
//! - A Pod that has the hash of a duplicate of the current revision is not outdated. While the server denies the new hash
//!   label, the duplicate is not deleted.
//! - If a stored revision of the same template has the name of the new revision, the new revision is not stored, and Pods get
//!   the hash of the stored one, as upstream.
//! - A revision that was stored before and has been deleted is stored again only if a live read shows that the DaemonSet
//!   exists.
//! - Only Pods with the label `controller-revision-hash` are watched. A Pod that loses the label is read, and the label is
//!   restored with an empty value, because its revision is unknown. An orphan that never had the label is not
//!   adopted. A Pod that loses the label while no process runs, or while it is terminating, is replaced as if it were deleted.
//!   A Pod that a webhook creates without the label is tracked by reads, and replaced after a restart.
//! - A `FailedCreate` Event reports a revision that cannot be stored, for example because of a quota, or because the name of
//!   the DaemonSet is too long.

pub mod decide;
pub mod objects;
pub mod plan;
pub mod snapshot;

mod act;
mod failed_pods;
mod metrics;
mod node_index;
mod node_indexes;
mod node_updates;
mod observe;
mod pod_cache;
mod refused_changes;
mod watch;
#[cfg(test)]
mod world;

use std::{sync::Arc, time::Duration};

use common::{
    app::ProgramDefinition,
    consistency::ReadError,
    controller::QueueConsumer,
    informer::{LabelFilterSink, SinkInformer, StoreAndHandlers},
    metrics::Counter,
    pod_creation_pauses::PodCreationPauses,
    prelude::*,
    runtime::LoopGroup,
    second_writer::OwnedWrites,
    settings::{ATOMIC_FIFO, EXPECTATIONS_TIMEOUT, FeatureGate, Tunable, WorkersFlag},
};
use jiff::Timestamp;

use crate::{
    failed_pods::BackoffBounds,
    metrics::register_decided_nodes,
    node_indexes::{DaemonSetRecord, NodeIndexes},
    node_updates::NodeUpdates,
    objects::{ControllerRevision, DAEMON_SETS, Node, REVISION_HASH_LABEL},
    plan::{Plan, SelectorProblem, SyncScope},
    pod_cache::PodCache,
    snapshot::{DecisionSettings, FirstTask, PodsToChange, Snapshot},
    watch::EventHandlers,
};

/// Feature gate: a sync waits until the caches show the writes of this process. On by default.
///
/// With the gate off, the status is written without this wait. Creations and deletions of Pods wait in both cases.
pub const STALE_CONTROLLER_CONSISTENCY_DAEMON_SET: FeatureGate = FeatureGate::on_by_default(
    "StaleControllerConsistencyDaemonSet",
    "A DaemonSet is synced only after the caches show the last writes for it; needs AtomicFIFO",
);
/// Feature gate: tolerations may compare the value of a taint with a number. Off by default.
pub const TAINT_TOLERATION_COMPARISON_OPERATORS: FeatureGate = FeatureGate::off_by_default(
    "TaintTolerationComparisonOperators",
    "Tolerations may compare the value of a taint with a number (operators Lt and Gt)",
);
/// The gates that `--feature-gates` accepts.
pub const FEATURE_GATES: &[FeatureGate] =
    &[STALE_CONTROLLER_CONSISTENCY_DAEMON_SET, ATOMIC_FIFO, TAINT_TOLERATION_COMPARISON_OPERATORS];

/// Greatest number of Pods that one sync creates, and greatest number of Pods that it deletes. Upstream: `BurstReplicas`.
pub const BURST_REPLICAS: Tunable = Tunable::of_count(
    "burst-replicas",
    250,
    "The greatest number of Pods that one sync of a DaemonSet creates, and the greatest number that it deletes",
);
/// Delay between the deletions of the first and the second failed Pod on a node. It doubles with each further failed Pod.
pub const FAILED_POD_BACKOFF_INITIAL_DELAY: Tunable = Tunable::of_duration(
    "daemonset-failed-pod-backoff",
    Duration::from_secs(1),
    "The delay before the second failed Pod on a node is deleted; doubles with each further failed Pod",
);
/// Longest delay before a failed Pod on a node is deleted.
pub const FAILED_POD_BACKOFF_MAX_DELAY: Tunable = Tunable::of_duration(
    "daemonset-failed-pod-backoff-max",
    Duration::from_mins(15),
    "The longest delay before a failed Pod is deleted; after twice that time without failures, the back-off of a node restarts",
);
/// The internal limits and delays that `--tune` accepts.
pub const TUNABLES: &[Tunable] =
    &[EXPECTATIONS_TIMEOUT, BURST_REPLICAS, FAILED_POD_BACKOFF_INITIAL_DELAY, FAILED_POD_BACKOFF_MAX_DELAY];

/// The flag for the number of workers of the loop of DaemonSets, and of the loop of changed nodes.
pub const CONCURRENT_DAEMON_SET_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-daemonset-syncs", 2, "The number of DaemonSets that are synced concurrently");
/// The flags of this binary that set the number of workers of a loop.
pub const WORKERS_FLAGS: &[WorkersFlag] = &[CONCURRENT_DAEMON_SET_SYNCS];

/// The loop that syncs DaemonSets and writes their status. It also starts the loop of changed nodes.
pub const DAEMON_SET_LOOP: LoopDefinition = LoopDefinition::new("daemonset-controller", "daemonset", start_loops)
    .with_user_agent_and_component("daemon-set-controller", "daemonset-controller")
    .with_owned_writes(&[OwnedWrites::of_status("apps", "daemonsets")]);
/// The loops of the binary. [`DAEMON_SET_LOOP`] also starts the loop of changed nodes.
pub const LOOPS: &[LoopDefinition] = &[DAEMON_SET_LOOP];

/// The name, version, loops and settings of the binary, for `common::app`.
pub const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "daemonset-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Runs the Kubernetes DaemonSet controller as a service of its own",
    loops: LOOPS,
    workers_flags: WORKERS_FLAGS,
    feature_gates: FEATURE_GATES,
    tunables: TUNABLES,
    single_value_flags: &[],
};

/// The loop that syncs DaemonSets. It owns the caches, and the memory that outlives a sync.
pub struct DaemonSetController {
    context: LoopContext,
    watch: Arc<EventHandlers>,
    pods: Arc<PodInformer>,
    nodes: Arc<Store<Node>>,
    revisions: Arc<Store<ControllerRevision>>,
    decided_nodes: Counter,
    decision_settings: DecisionSettings,
    wait_policy: WaitPolicy,
}

fn start_loops(context: LoopContext) -> Arc<dyn RunningLoop> {
    let (queue, node_update_queue) = (context.new_queue("daemonset"), context.new_queue(NodeUpdates::QUEUE_NAME));
    let workers = context.settings.worker_count(&CONCURRENT_DAEMON_SET_SYNCS);
    let controller = Arc::new(DaemonSetController::new(context.clone(), queue.clone(), node_update_queue.clone()));
    let node_updates = Arc::new(QueueConsumer(NodeUpdates(Arc::clone(&controller))));
    Arc::new(LoopGroup(vec![
        ("daemonSets", Loop::start(DAEMON_SET_LOOP.name, context.clone(), controller, queue, workers)),
        ("nodeUpdates", Loop::start(NodeUpdates::QUEUE_NAME, context, node_updates, node_update_queue, workers)),
    ]))
}

impl DaemonSetController {
    /// Starts the informers. Their handlers add keys of DaemonSets to `queue`, and keys of changed nodes to `node_update_queue`.
    pub fn new(context: LoopContext, queue: Queue<NamespacedName>, node_update_queue: Queue<NamespacedName>) -> Self {
        let settings = &context.settings;
        let failed_pod_backoff_bounds = BackoffBounds {
            initial_delay: settings.tuned_duration(&FAILED_POD_BACKOFF_INITIAL_DELAY),
            max_delay: settings.tuned_duration(&FAILED_POD_BACKOFF_MAX_DELAY),
        };
        let expectations_timeout = settings.tuned_duration(&EXPECTATIONS_TIMEOUT);
        let watch = Arc::new(EventHandlers {
            daemon_set_queue: queue,
            node_update_queue,
            daemon_set_store: Arc::default(),
            ledger: context.ledger(),
            pod_creation_pauses: PodCreationPauses::new(context.clock.clone(), expectations_timeout),
            node_indexes: Arc::new(NodeIndexes::new(failed_pod_backoff_bounds)),
            parsed_templates: Arc::default(),
        });
        let on_set = handler_from_method(&watch, EventHandlers::on_set);
        context.start_informer(Arc::clone(&watch.daemon_set_store), on_set);
        let waits_for_versions = settings.waits_for_own_writes(&STALE_CONTROLLER_CONSISTENCY_DAEMON_SET);
        Self {
            pods: start_pod_informer(&context, &watch),
            nodes: context.start_informer(Arc::default(), handler_from_method(&watch, EventHandlers::on_node)),
            revisions: context.start_informer(Arc::default(), handler_from_method(&watch, EventHandlers::on_revision)),
            decided_nodes: register_decided_nodes(&context.metrics),
            decision_settings: DecisionSettings {
                burst_replicas: settings.tuned_nonzero_count(&BURST_REPLICAS),
                allows_comparison_operators: settings.is_feature_gate_on(&TAINT_TOLERATION_COMPARISON_OPERATORS),
            },
            wait_policy: if waits_for_versions { WaitPolicy::WrittenVersions } else { WaitPolicy::ConflictsOnly },
            context,
            watch,
        }
    }

    /// Calls `change` with the data that the controller keeps about the snapshot's DaemonSet.
    fn change_record(&self, snapshot: &Snapshot, change: impl FnOnce(&mut DaemonSetRecord)) {
        self.watch.node_indexes.with_record(&snapshot.set.metadata.key(), &snapshot.owner.uid, change);
    }
}

type PodInformer = SinkInformer<LabelFilterSink<PodCache>>;

/// Starts the cache of the Pods with the hash label, which changes together with the node indexes.
fn start_pod_informer(context: &LoopContext, handlers: &Arc<EventHandlers>) -> Arc<PodInformer> {
    let pod_cache = PodCache {
        store_sink: StoreAndHandlers::new(Arc::default(), vec![handler_from_method(handlers, EventHandlers::on_pod)]),
        node_indexes: Arc::clone(&handlers.node_indexes),
    };
    let config = context.long_lived_cache_config();
    let pods = SinkInformer::start_with_label(context.api.clone(), config, REVISION_HASH_LABEL, pod_cache);
    let pods = Arc::new(pods);
    context.add_informer(Arc::<PodInformer>::clone(&pods), pods.store());
    pods
}

impl Controller for DaemonSetController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    const STALE_SYNC_SKIPS: Option<&'static str> = Some("daemonset_controller_stale_sync_skips_total");

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let EventHandlers { daemon_set_store, ledger, node_indexes, .. } = &*self.watch;
        let read = {
            // While this guard exists, the node indexes have all Pods of the cache, and so the writes that the ledger finds there.
            let _unchanged = node_indexes.lock_against_pod_changes();
            // The ledger has no creations with lost answers, because the controller records them by node.
            ledger.read(daemon_set_store, key, self.wait_policy, |_| HashSet::default())
        };
        if matches!(read, Err(ReadError::Gone)) {
            node_indexes.remove_stale_record(key, None);
        }
        let (set, pending_writes) = read?;
        let uid = set.metadata.uid.clone();
        let snapshot = self.read_snapshot(set, pending_writes, now);
        self.watch.forget_set_if_deleted(key, &uid);
        snapshot
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        match (&plan.selector_problem, plan.sync_scope) {
            (Some(problem @ SelectorProblem::EmptySelector), _) => {
                io.record_event(EventType::Warning, "SelectingAll", problem.to_string());
            }
            (Some(SelectorProblem::InvalidSelector(error)), _) => io.update_memory(|_| {
                let key = snapshot.set.metadata.key();
                tracing::error!(logger = "daemonset", key = %key, err = %error, "Error converting DaemonSet selector");
            }),
            (None, SyncScope::Nothing) => {}
            (None, SyncScope::StatusOnly) => act::write_status(plan, io).await?,
            (None, SyncScope::ClaimsOnly | SyncScope::Everything) => {
                return act::claim_and_manage(snapshot, plan, io).await;
            }
        }
        Ok(Requeue::AfterPlannedDelay)
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(DAEMON_SETS, &snapshot.set.metadata)
    }

    /// Begins or extends the back-off of nodes with failed Pods. Also decides whether the next sync may adopt Pods.
    fn record_plan(&self, snapshot: &Snapshot, plan: &Plan) {
        let mut failed = plan.deletions_of_failed_pods().peekable();
        let first_task = if plan.orphans_to_adopt.is_empty() { FirstTask::AdoptOrphans } else { FirstTask::ManagePods };
        if !plan.claims_objects() || (failed.peek().is_none() && first_task == snapshot.first_task) {
            return;
        }
        self.change_record(snapshot, |record| {
            record.first_task_of_next_sync = first_task;
            for deletion in failed {
                record.record_failed_pod_deletion(&deletion.node_name, snapshot.now);
            }
        });
    }

    /// Reads the Pods that lack the watched label again, because the watch does not show the writes of this sync to them.
    ///
    /// Also removes the data about a DaemonSet that was deleted during the sync, because no later event removes them.
    fn after_sync(&self, snapshot: &Snapshot) {
        let PodsToChange { orphans_to_adopt, pods_to_release, pods_without_hash_label, .. } = &snapshot.pods_to_change;
        for pod in pods_to_release.iter().chain(pods_without_hash_label).chain(orphans_to_adopt) {
            self.pods.reread_if_hidden_from_watch(pod.meta());
        }
        self.watch.forget_set_if_deleted(&snapshot.set.metadata.key(), &snapshot.owner.uid);
    }
}

#[cfg(test)]
mod tests;
