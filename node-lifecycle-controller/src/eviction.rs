//! Evicts Pods from nodes whose `NoExecute` taints they do not tolerate, or no longer tolerate.
//!
//! A Pod is examined when it changes or when the taints of its node change. A Pod that tolerates the taints for a limited time
//! has a timer, which does not apply to a later Pod with the same name. Before a Pod is deleted, the Pod and its node are read
//! from the server and the decision is made again, so a stale cache cannot cause an eviction. All Pods of a node share one read
//! of the node ([`nodes`]). No Pod is deleted because of a taint of the node monitor while its node may be healthy
//! ([`crate::heartbeats`]). A failed deletion is retried; upstream waits for the next event. A terminating Pod that already has
//! the condition `DisruptionTarget` is not changed.
//!
//! Upstream: `pkg/controller/tainteviction`.

mod act;
mod decide;
mod nodes;
mod observe;
mod plan;
pub(crate) mod snapshot;
mod timers;
mod watch;

use std::sync::Arc;

use common::{
    controller::{Controller, Loop, Observed},
    events::ObjectRef,
    informer::AnyInformer,
    io::{Failed, Io, Requeue},
    meta::{Key, Uid},
    metrics::{Counter, Histogram, Stability},
    pods::PODS,
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    settings::FeatureGate,
};
use jiff::Timestamp;

use crate::{caches::Caches, heartbeats::Heartbeats};

use act::{Fresh, Note};
use nodes::NodeViews;
use plan::Plan;
use snapshot::Snapshot;
use timers::Timers;

/// Number of Pods that are synced concurrently; upstream's `UpdateWorkerSize`.
const WORKERS: usize = 8;

/// Feature gate for tolerations with the operators `Lt` and `Gt`, which compare numbers; off by default.
pub const COMPARISON: FeatureGate = FeatureGate {
    name: "TaintTolerationComparisonOperators",
    default: false,
    locked: false,
    help: "Tolerations may compare numbers, with operators Lt and Gt",
};

/// The loop that evicts Pods because of `NoExecute` taints.
pub const TAINT_EVICTION: LoopDefinition = LoopDefinition {
    name: "taint-eviction-controller",
    alias: "",
    client: "node-controller",
    component: "taint-eviction-controller",
    owned_writes: &[],
    start,
};

/// State of the loop `taint-eviction-controller`, shared by its syncs.
struct Evictor {
    context: Context,
    timers: Timers,
    deleted: Counter,
    latency: Histogram,
    caches: Arc<Caches>,
    heartbeats: Arc<Heartbeats>,
    nodes: NodeViews,
    compares: bool,
}

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

impl Controller for Evictor {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &Key, _: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        Ok(self.observe(key))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, Failed> {
        act::act(snapshot, plan, io).await
    }

    fn object(snapshot: &Snapshot) -> (ObjectRef, Uid) {
        let key = &snapshot.key;
        (ObjectRef::bare(PODS, &key.namespace, &key.name, Uid::default()), Uid::default())
    }

    fn record(&self, snapshot: &Snapshot, plan: &Plan) {
        self.timers.follow(&snapshot.key, plan);
    }

    fn note(&self, snapshot: &Snapshot, note: Note) {
        let (key, pod) = (&snapshot.key, snapshot.pod.as_ref().map(|pod| &pod.meta.uid));
        match note {
            Note::Retries(error) => {
                tracing::debug!(logger = "taint-eviction-controller", pod = %key, err = %error, "Retrying the deletion of a Pod");
            }
            Note::Revised(plan) => self.timers.follow(key, &plan),
            Note::Deleted(since) => {
                self.deleted.inc();
                let latency = self.context.clock.instant().saturating_duration_since(since);
                self.latency.observe(latency.as_secs_f64());
                self.timers.end(key, pod);
            }
            Note::Gone => self.timers.end(key, pod),
            Note::Reads(node) => self.nodes.lock().begin(node, key.clone(), self.context.clock.instant()),
            Note::Node(node) => self.heartbeats.node_was_read(&node),
            Note::Lease(node, renewal) => self.heartbeats.lease_was_read(&node, renewal),
            Note::Read(node, taints) => self.nodes.lock().end(&node, key, taints),
        }
    }

    fn observe_again(&self, snapshot: &Snapshot, (): ()) -> Option<Fresh> {
        let (key, pod) = (&snapshot.key, &snapshot.pod);
        let (now, node) = (self.context.clock.instant(), pod.as_ref().map_or("", |pod| &pod.node));
        let (view, doubt) = (self.nodes.lock().get(node, now), self.heartbeats.unconfirmed_for(node));
        Some(Fresh { timer: self.timers.get(key), now, view, doubt })
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        // The loop starts before the cache of Leases is filled, because most taints do not depend on Leases.
        vec![self.caches.nodes.informer(), self.caches.pods.informer()]
    }
}
