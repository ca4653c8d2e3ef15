//! Evicts Pods from nodes whose `NoExecute` taints they do not tolerate, or no longer tolerate.
//!
//! A Pod is examined when it changes or when the taints of its node change. A Pod that tolerates the taints for a limited time
//! has a timer; the timer belongs to that Pod, not to its name. Before a Pod is deleted, its node and the Pod are read from
//! the server and the decision is made again, so a stale cache cannot cause an eviction; the Pods of a node share the read of the
//! node ([`nodes`]). No Pod is deleted for a taint of the node monitor while its node may be well ([`crate::heartbeats`]). A
//! failed deletion is retried, where upstream waits for the next event. A Pod that is already terminating and has its condition
//! is left alone.
//!
//! Upstream: `pkg/controller/tainteviction`.

mod nodes;
mod watch;

use std::sync::Arc;

use common::{
    controller::{Loop, Observed, Sequenced},
    events::ObjectRef,
    informer::AnyInformer,
    map::HashMap,
    meta::{Key, Uid},
    metrics::{Counter, Histogram, Stability},
    pods::PODS,
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    sequence::{Failed, Sequence},
    settings::FeatureGate,
};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    caches::Caches,
    decide::eviction::{self as decide, Plan, Snapshot, Then, Timer},
    heartbeats::Heartbeats,
    objects::CachedPod,
    sequence::eviction::{self as sequence, Fresh, Note},
};

use nodes::NodeViews;

/// How many Pods are synced at once.
const WORKERS: usize = 8;

/// The gate of tolerations with the operators `Lt` and `Gt`.
pub const COMPARISON: FeatureGate = FeatureGate {
    name: "TaintTolerationComparisonOperators",
    default: false,
    locked: false,
    help: "Tolerations may compare numbers, with operators Lt and Gt",
};

/// The loop as the program and `--controllers` know it.
pub const TAINT_EVICTION: LoopDefinition = LoopDefinition {
    name: "taint-eviction-controller",
    alias: "",
    client: "node-controller",
    component: "taint-eviction-controller",
    owned_writes: &[],
    start,
};

/// The taint eviction controller.
pub struct Evictor {
    context: Context,
    timers: Timers,
    deleted: Counter,
    latency: Histogram,
    caches: Arc<Caches>,
    heartbeats: Arc<Heartbeats>,
    nodes: NodeViews,
    compares: bool,
}

/// The timers of Pods that tolerate the taints of their node for a limited time.
pub(crate) type Timers = Arc<Mutex<HashMap<Key, Timer>>>;

fn start(context: Context) -> Arc<dyn Running> {
    let queue: Queue<Key> = context.queue("noexec_taint_pod", Backoff::default());
    let caches = Caches::of(&context);
    let heartbeats = Heartbeats::of(&context);
    let (timers, nodes) = (Timers::default(), NodeViews::default());
    watch::register(&caches, &queue, &timers, &nodes);
    let deleted = context.metrics.counter(
        "taint_eviction_controller_pod_deletions_total",
        Stability::Alpha,
        "Total number of Pods deleted by TaintEvictionController since its start.",
        &[],
    );
    let latency = context.metrics.histogram(
        "taint_eviction_controller_pod_deletion_duration_seconds",
        Stability::Alpha,
        "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion via TaintEvictionController.",
        &[],
        [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0],
    );
    let compares = context.settings.gate(&COMPARISON);
    let evictor = Evictor {
        context: context.clone(),
        timers,
        deleted: deleted.with(&[]),
        latency: latency.with(&[]),
        caches,
        heartbeats,
        nodes,
        compares,
    };
    Loop::start(TAINT_EVICTION.name, context, Arc::new(evictor), queue, WORKERS)
}

impl Sequenced for Evictor {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &Key, _: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        let timer = self.timer(key);
        let pod = self.caches.pods.store().get_readable(&key.namespace, &key.name);
        if pod.is_none() && timer.is_none() {
            return Ok(Observed::Gone);
        }
        let node = pod.as_ref().and_then(|pod| self.caches.view().node(&pod.node));
        let taints = node.map(|node| node.evicting().cloned().collect());
        let (key, now, compares) = (key.clone(), self.context.clock.instant(), self.compares);
        let snapshot = Snapshot { key, pod, taints, doubt: None, timer, now, compares };
        Ok(Observed::Ready(snapshot))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
        sequence::sequence(snapshot, plan)
    }

    fn object(snapshot: &Snapshot) -> (ObjectRef, Uid) {
        let key = &snapshot.key;
        (ObjectRef::bare(PODS, &key.namespace, &key.name, Uid::default()), Uid::default())
    }

    fn record(&self, snapshot: &Snapshot, plan: &Plan) {
        self.arm(snapshot, plan);
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        let Snapshot { key, pod, .. } = snapshot;
        match note {
            Note::Retries(error) => {
                tracing::debug!(logger = "taint-eviction-controller", pod = %key, err = %error, "Trying again");
            }
            Note::Revised(live, plan) => self.arm(&live, &plan),
            Note::Deleted(since) => {
                self.deleted.inc();
                let latency = self.context.clock.instant().saturating_duration_since(since);
                self.latency.observe(latency.as_secs_f64());
                self.disarm(key, pod.as_deref());
            }
            Note::Gone => self.disarm(key, pod.as_deref()),
            Note::Reads(node) => self.nodes.lock().begin(node, key.clone(), self.context.clock.instant()),
            Note::Node(node) => self.heartbeats.node_was_read(&node),
            Note::Lease(node, renewal) => self.heartbeats.lease_was_read(&node, renewal),
            Note::Read(node, taints) => self.nodes.lock().end(&node, key, taints),
        }
    }

    fn fresh(&self, snapshot: &Snapshot, (): ()) -> Option<Fresh> {
        let (key, pod) = (&snapshot.key, &snapshot.pod);
        let (now, node) = (self.context.clock.instant(), pod.as_ref().map_or("", |pod| &pod.node));
        let (view, doubt) = (self.nodes.lock().get(node, now), self.heartbeats.unconfirmed_for(node));
        Some(Fresh { timer: self.timer(key), now, view, doubt })
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        // Leases are not waited for: most taints do not depend on them.
        vec![self.caches.nodes.informer(), self.caches.pods.informer()]
    }
}

impl Evictor {
    /// The timer under the name of a Pod.
    fn timer(&self, key: &Key) -> Option<Timer> {
        self.timers.lock().get(key).cloned()
    }

    /// Arms and removes timers. The timer of a Pod that is to be deleted stays until it is deleted: a failed deletion is due
    /// again at once.
    fn arm(&self, snapshot: &Snapshot, plan: &Plan) {
        let mut timers = self.timers.lock();
        match &plan.then {
            Then::Wait(timer) => _ = timers.insert(snapshot.key.clone(), timer.clone()),
            Then::Delete { .. } if !plan.cancels => {}
            Then::Nothing | Then::Delete { .. } => _ = timers.remove(&snapshot.key),
        }
    }

    /// Removes the timer of a Pod that is deleted.
    fn disarm(&self, key: &Key, pod: Option<&CachedPod>) {
        let mut timers = self.timers.lock();
        if timers.get(key).is_some_and(|timer| pod.is_some_and(|pod| timer.pod == pod.meta.uid)) {
            timers.remove(key);
        }
    }
}
