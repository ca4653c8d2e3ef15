//! DaemonSets: one Pod on every node that is eligible.
//!
//! # What it promises
//!
//! If a set stays as it is, it ends up with exactly one Pod of its template on every eligible node and none elsewhere, and with a
//! status that counts them. On the way an available Pod is taken away from no more nodes than `maxUnavailable` allows, no more nodes
//! than `maxSurge` have a second Pod, no Pod is created for a node that is not eligible or not known, and no Pod of another controller
//! is written. A template that differs only in how a server encodes it makes no new revision.
//!
//! # What it costs
//!
//! A sync looks at the nodes of which something has changed since the last one, and at as many nodes as it can act on: an event of one
//! Pod of a set of five thousand nodes is the work of one node. A change of a node's labels or taints costs one comparison for each
//! DaemonSet. Where the placements of all of them are too large for that, those with the largest ones are synced uncompared.
//! Heartbeats, conditions and image lists of nodes cost nothing. Of the data of a revision only a digest is kept.
//!
//! # How it is laid out
//!
//! ```text
//! watch.rs ──► rosters.rs (nodes, Pods, counts)
//!    │             │
//!    └──► queue ──► observe.rs ──► Snapshot ──► decide/ ──► Plan ──► act/ ──► API server
//!           ▲        (indexes of     (pure)      eligibility, standing,  revisions,
//!           │         four caches)               manage, rolling,        Pods, status
//!           │                                    revisions, status
//!           └── node_updates/ ◄── queue of nodes;  requeue: a Pod becomes available, a failed Pod may go
//! ```
//!
//! # Where it differs from upstream
//!
//! - Deletions of Pods and revisions name the uid and the version they were decided on. A Pod that has changed since is read live and
//!   judged again. Releases, adoptions and statuses are patches onto the version they were decided on; conditions that others wrote
//!   into a status stay.
//! - A status that meets a conflict is computed again, and not written over the newer set.
//! - Expectations are kept by identity, in `common`'s ledger: another Pod's event satisfies none.
//! - A creation whose answer was lost holds back its own node for as long as it may take effect, and no other.
//! - Where Pods are adopted or relabelled, nothing else is done with Pods in the same sync. The sync after an adoption adopts no others,
//!   and creates no Pod on their nodes.
//! - Pods are created and deleted in the order of their nodes' names. After the server has refused a request for a node, the next sync
//!   begins with the nodes after it; a new generation begins with the first.
//! - With surge, an outdated Pod on a node that has vanished does not hold up a rolling update, and an available Pod there does not
//!   count as serving. Without surge, a node that has vanished counts against `maxUnavailable` as long as it has a Pod that is not
//!   available, as upstream.
//! - With surge, the back-off of failed Pods also delays the creation of the next one.
//! - A set is also synced when a node is deleted, and when a node with its Pod stops or begins to count as desired.
//! - Of Pods whose revision turns out to be stored twice, only those that carry the hash of the deleted one get the other hash.
//! - After the server has refused a Pod because the namespace is terminating, no other is sent for a while.
//! - A revision that the server denies to adopt, release, label or renumber is reported by a `FailedUpdate` Event, and left as it is for
//!   a while. So is a Pod that it denies to adopt, release or relabel. A revision that it denies to delete is reported by a
//!   `FailedDelete` Event. The set goes on meanwhile.
//! - A Pod that carries the hash of a duplicate of the current revision is not outdated. The duplicate stays as long as the server
//!   denies to relabel the Pod.
//! - A revision whose name is taken by one of the same template is not stored; Pods carry the hash of that one, as upstream.
//! - A revision that was stored before and is gone is stored again only if the set, read live, is still there.
//! - Only Pods with the label `controller-revision-hash` are watched. A Pod that loses the label is read, and gets the label back with an
//!   empty value: its revision is unknown, as without the label. An orphan that never had the label is not adopted. A Pod that loses
//!   the label while no process runs, or while it is terminating, is replaced as if it were gone. A Pod that a webhook creates without
//!   the label is followed by reads, and replaced after a restart.
//! - A `FailedCreate` Event reports a revision that cannot be stored, for example because the name of the set is too long or because of
//!   a quota.

pub mod decide;
pub mod metrics;
pub mod objects;
pub mod plan;
pub mod snapshot;

mod act;
mod failed_pods;
mod lost_creates;
mod node_updates;
mod observe;
mod pod_cache;
mod refused_changes;
mod roster;
mod rosters;
mod watch;
#[cfg(test)]
mod world;

use std::{sync::Arc, time::Duration};

use common::{
    app::Definition,
    consistency::Ledger,
    controller::{Controller, Loop, Observed},
    events::ObjectRef,
    informer::{AnyInformer, Cached, Filtered, Informer, SinkInformer, handler},
    intern::Text,
    io::{Failed, Io, Requeue},
    meta::{Key, Uid},
    parsed::Parsed,
    pods::PODS,
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Pair, Running},
    second_writer::OwnedWrites,
    settings::{ATOMIC_FIFO, EXPECTATIONS_TIMEOUT, FeatureGate, Settings, Tune, WorkersFlag},
    store::Store,
    terminating_namespaces::TerminatingNamespaces,
};
use jiff::Timestamp;

use crate::{
    act::Note,
    failed_pods::Bounds,
    metrics::ControllerMetrics,
    node_updates::NodeUpdates,
    objects::{CachedPod, ControllerRevision, DAEMON_SETS, DaemonSet, DaemonTemplate, HASH_LABEL, Node},
    plan::{Plan, Why},
    pod_cache::PodCache,
    rosters::{Record, Rosters},
    snapshot::{Limits, Snapshot, Turn, nodes::Cursor},
    watch::Watch,
};

/// The gate of waiting for the caches.
///
/// With the gate off, the status of a set is written while the caches do not show the last writes for it. Pods are neither created nor
/// deleted meanwhile in either position.
pub const STALE_CONSISTENCY: FeatureGate = FeatureGate::on(
    "StaleControllerConsistencyDaemonSet",
    "A DaemonSet is not synced before the caches show what was last written for it; needs AtomicFIFO",
);
/// The gate of tolerations that compare numbers.
pub const COMPARISON_OPERATORS: FeatureGate = FeatureGate::off(
    "TaintTolerationComparisonOperators",
    "Tolerations may compare the value of a taint with a number (operators Lt and Gt)",
);
/// All gates this crate knows.
pub const GATES: &[FeatureGate] = &[STALE_CONSISTENCY, ATOMIC_FIFO, COMPARISON_OPERATORS];

/// How many Pods one sync creates, and how many it deletes. Upstream: `BurstReplicas`.
pub const BURST_REPLICAS: Tune = Tune::count(
    "burst-replicas",
    250,
    "The most Pods that one sync of a DaemonSet creates, and the most that it deletes",
);
/// The first delay before a failed Pod on a node is deleted. The first failure has none.
pub const FAILED_POD_BACKOFF: Tune = Tune::duration(
    "daemonset-failed-pod-backoff",
    Duration::from_secs(1),
    "How long the second Pod that fails on a node is left alone before it is deleted; doubles with each further one",
);
/// The longest delay before a failed Pod on a node is deleted.
pub const FAILED_POD_BACKOFF_MAX: Tune = Tune::duration(
    "daemonset-failed-pod-backoff-max",
    Duration::from_mins(15),
    "The longest time that a failed Pod is left alone; a node without failures for twice that long begins anew",
);
/// All tunes of this crate.
pub const TUNES: &[Tune] = &[EXPECTATIONS_TIMEOUT, BURST_REPLICAS, FAILED_POD_BACKOFF, FAILED_POD_BACKOFF_MAX];

/// The number of DaemonSets that are synced concurrently, and of changed nodes that are looked at concurrently.
pub const CONCURRENT_SYNCS: WorkersFlag =
    WorkersFlag::new("concurrent-daemonset-syncs", 2, "The number of DaemonSets that are synced concurrently");
/// All flags of this crate for numbers of workers.
pub const WORKERS: &[WorkersFlag] = &[CONCURRENT_SYNCS];

/// The loop of DaemonSets.
pub const DAEMON_SET: LoopDefinition = LoopDefinition::new("daemonset-controller", "daemonset", start)
    .known_as("daemon-set-controller", "daemonset-controller")
    .owning(&[OwnedWrites::status("apps", "daemonsets")]);
/// All loops of this crate.
pub const LOOPS: &[LoopDefinition] = &[DAEMON_SET];

/// The program.
pub const DEFINITION: Definition = Definition {
    name: "daemonset-controller",
    version: env!("CARGO_PKG_VERSION"),
    about: "Runs the Kubernetes DaemonSet controller as a service of its own",
    loops: LOOPS,
    workers: WORKERS,
    gates: GATES,
    tunes: TUNES,
    flags: &[],
};

/// The controller.
pub struct DaemonSetController {
    context: Context,
    queue: Queue<Key>,
    sets: Informer<DaemonSet>,
    pods: SinkInformer<Filtered<PodCache>>,
    pod_store: Arc<Store<CachedPod>>,
    nodes: Informer<Node>,
    revisions: Informer<ControllerRevision>,
    ledger: Ledger,
    refused: TerminatingNamespaces,
    rosters: Arc<Rosters>,
    templates: Arc<Parsed<DaemonTemplate>>,
    watch: Arc<Watch>,
    metrics: ControllerMetrics,
    limits: Limits,
    failed_pods: Bounds,
    reads_own_writes: bool,
}

fn start(context: Context) -> Arc<dyn Running> {
    let queue = context.queue("daemonset", Backoff::default());
    let node_updates = context.queue("daemonset-node-updates", Backoff::default());
    let workers = context.settings.workers(&CONCURRENT_SYNCS);
    let controller = Arc::new(DaemonSetController::new(context.clone(), queue.clone(), node_updates.clone()));
    let nodes = Arc::new(NodeUpdates(Arc::clone(&controller)));
    Arc::new(Pair {
        main: Loop::start(DAEMON_SET.name, context.clone(), controller, queue, workers),
        second: Loop::start("daemonset-node-updates", context, nodes, node_updates, workers),
        name: "nodeUpdates",
    })
}

impl DaemonSetController {
    /// Starts watching; keys of sets go to `queue`, those of nodes to `node_updates`.
    pub fn new(context: Context, queue: Queue<Key>, node_updates: Queue<Key>) -> Self {
        let settings = Arc::clone(&context.settings);
        let timeout = settings.duration(&EXPECTATIONS_TIMEOUT);
        let ledger = context.ledger();
        let refused = TerminatingNamespaces::new(context.clock.clone(), timeout);
        let rosters = Arc::new(Rosters::default());
        let templates = Arc::new(Parsed::default());
        let store: Arc<Store<DaemonSet>> = Arc::default();
        let watch = Arc::new(Watch {
            queue: queue.clone(),
            node_updates,
            sets: Arc::clone(&store),
            ledger: ledger.clone(),
            refused: refused.clone(),
            rosters: Arc::clone(&rosters),
            templates: Arc::clone(&templates),
        });
        let sets = context.informer(store, handler(&watch, Watch::on_set));
        let nodes = context.informer(Arc::default(), handler(&watch, Watch::on_node));
        let revisions = context.informer(Arc::default(), handler(&watch, Watch::on_revision));
        let pod_store: Arc<Store<CachedPod>> = Arc::default();
        let cached = Cached::new(Arc::clone(&pod_store), vec![handler(&watch, Watch::on_pod)]);
        let cache = PodCache { cached, rosters: Arc::clone(&rosters) };
        let pods = SinkInformer::follow_labelled(context.api.clone(), context.caches(), HASH_LABEL, cache);
        Self {
            metrics: ControllerMetrics::new(&context.metrics),
            limits: limits(&settings),
            failed_pods: Bounds {
                initial: settings.duration(&FAILED_POD_BACKOFF),
                max: settings.duration(&FAILED_POD_BACKOFF_MAX),
            },
            reads_own_writes: settings.reads_own_writes(&STALE_CONSISTENCY),
            context,
            queue,
            sets,
            pods,
            pod_store,
            nodes,
            revisions,
            ledger,
            refused,
            rosters,
            templates,
            watch,
        }
    }

    /// Changes the record of a set.
    fn change_record(&self, snapshot: &Snapshot, change: impl FnOnce(&mut Record)) {
        self.rosters.with(&snapshot.set.metadata.key(), &snapshot.owner.uid, change);
    }

    /// Notes that the answer to a creation was lost: for the time that it may take effect, no other Pod is created for that node.
    fn note_lost_create(&self, snapshot: &Snapshot, node: &Text) {
        let nodes = [&snapshot.nodes.create, &snapshot.nodes.replace, &snapshot.nodes.candidates];
        let listed = nodes.into_iter().flat_map(|listed| &listed.nodes).find(|listed| listed.name == *node);
        let known = listed.into_iter().flat_map(|listed| &listed.pods).map(|pod| pod.meta().uid.clone()).collect();
        let until = self.context.clock.instant() + self.ledger.lost_create_timeout();
        self.change_record(snapshot, |record| record.lost_creates.insert(node, known, until));
    }
}

fn limits(settings: &Settings) -> Limits {
    Limits { burst: settings.size(&BURST_REPLICAS), compares_taints: settings.gate(&COMPARISON_OPERATORS) }
}

impl Controller for DaemonSetController {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    const STALE_SYNC_SKIPS: Option<&'static str> = Some("daemonset_controller_stale_sync_skips_total");

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
        (ObjectRef::new(DAEMON_SETS, &snapshot.set.metadata), snapshot.owner.uid.clone())
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        let owner = &snapshot.owner.uid;
        match note {
            Note::BrokenSelector(problem) => {
                let key = snapshot.set.metadata.key();
                tracing::error!(logger = "daemonset", key = %key, err = %problem, "Error converting DaemonSet selector");
            }
            Note::LostOwner => self.change_record(snapshot, |record| record.turn = Turn::Adopts),
            Note::RefusedRevision(revision) => {
                let now = self.context.clock.instant();
                self.change_record(snapshot, |record| record.refused_revisions.insert(&revision, now));
            }
            Note::UnlabelledPod(pod) => self.pods.show_hidden(*pod),
            Note::RefusedPod(pod) => {
                let now = self.context.clock.instant();
                self.change_record(snapshot, |record| record.refused_pods.insert(&pod, now));
            }
            Note::TakenName(taken) => self.change_record(snapshot, |record| record.taken = taken),
            Note::NamespaceTerminates => self.refused.insert(owner),
            Note::LostCreate(node) => self.note_lost_create(snapshot, &node),
            Note::RefusedCreate(node) => {
                self.change_record(snapshot, |record| record.cursors.create = Cursor(Some(node)));
            }
            Note::RefusedDelete(node) => {
                self.change_record(snapshot, |record| record.cursors.delete = Cursor(Some(node)));
            }
            Note::Deleted(pod) => {
                let pod = pod.meta();
                self.ledger.deleted(owner, PODS, &pod.namespace, &pod.name, &pod.uid);
            }
        }
    }

    /// Begins or prolongs the back-off of the nodes on which a failed Pod is deleted, and says what the next sync does first.
    fn record(&self, snapshot: &Snapshot, plan: &Plan) {
        let failed: Vec<_> = plan.deletes.iter().filter(|deletion| deletion.why == Why::Failed).collect();
        let turn = if plan.adopt.is_empty() { Turn::Adopts } else { Turn::Manages };
        if (failed.is_empty() && turn == snapshot.turn) || !plan.claims() {
            return;
        }
        self.change_record(snapshot, |record| {
            record.turn = turn;
            for deletion in failed {
                record.failed.deleted(&deletion.node, self.failed_pods, snapshot.now);
                if let Some(roster) = &mut record.roster {
                    roster.back_off_changed(&deletion.node);
                }
            }
        });
    }

    /// What was noted for a set that was deleted meanwhile would be kept for ever. The watch does not show what was written to hidden
    /// Pods.
    fn after_sync(&self, snapshot: &Snapshot) {
        for pod in snapshot.release.iter().chain(&snapshot.unlabelled).chain(&snapshot.adopt) {
            self.pods.read_again(pod.meta());
        }
        self.watch.forget_if_gone(&snapshot.set.metadata.key(), &snapshot.owner.uid);
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&self.sets, &self.pods, &self.nodes, &self.revisions]
    }
}

#[cfg(test)]
mod tests;
