//! Evicts Pods from nodes with `NoExecute` taints that they do not tolerate, or no longer tolerate.
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
    controller::{Controller, Loop, Observation},
    events::InvolvedObject,
    informer::AnyInformer,
    io::{Io, Requeue, SyncError},
    meta::{NamespacedName, Uid},
    metrics::{Counter, Histogram, Stability},
    pods::PODS,
    queue::{BackoffSettings, Queue},
    runtime::{LoopContext, LoopDefinition, RunningLoop},
    settings::FeatureGate,
};
use jiff::Timestamp;

use crate::{caches::Caches, heartbeats::Heartbeats};

use act::{CurrentEvictionState, EvictionNote};
use nodes::SharedNodeReads;
use plan::Plan;
use snapshot::Snapshot;
use timers::DeletionTimers;

/// Number of Pods that are synced concurrently; upstream's `UpdateWorkerSize`.
const EVICTION_WORKERS: usize = 8;

/// Feature gate for tolerations with the operators `Lt` and `Gt`, which compare numbers; off by default.
pub const TAINT_TOLERATION_COMPARISON_OPERATORS: FeatureGate = FeatureGate {
    name: "TaintTolerationComparisonOperators",
    is_on_by_default: false,
    is_locked: false,
    help: "Tolerations may compare numbers, with operators Lt and Gt",
};

/// `taint-eviction-controller`: deletes Pods that do not tolerate the `NoExecute` taints of their node.
pub const TAINT_EVICTION_LOOP: LoopDefinition = LoopDefinition {
    name: "taint-eviction-controller",
    alias: "",
    user_agent_suffix: "node-controller",
    event_component: "taint-eviction-controller",
    owned_writes: &[],
    start_loop: start,
};

/// State of the loop `taint-eviction-controller`, shared by its syncs.
struct TaintEvictionController {
    context: LoopContext,
    timers: DeletionTimers,
    deletions_total: Counter,
    deletion_latency: Histogram,
    caches: Arc<Caches>,
    heartbeats: Arc<Heartbeats>,
    node_reads: SharedNodeReads,
    is_comparison_enabled: bool,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue: Queue<NamespacedName> = context.new_queue("noexec_taint_pod", BackoffSettings::default());
    let caches = Caches::get_or_start(&context);
    let heartbeats = Heartbeats::get_or_start(&context);
    let (timers, nodes) = (DeletionTimers::default(), SharedNodeReads::default());
    watch::register_handlers(&caches, &queue, &timers, &nodes);
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
    let compares = context.settings.is_feature_gate_on(&TAINT_TOLERATION_COMPARISON_OPERATORS);
    let evictor = TaintEvictionController {
        context: context.clone(),
        timers,
        deletions_total: deleted.with_label_values(&[]),
        deletion_latency: latency.with_label_values(&[]),
        caches,
        heartbeats,
        node_reads: nodes,
        is_comparison_enabled: compares,
    };
    Loop::start(TAINT_EVICTION_LOOP.name, context, Arc::new(evictor), queue, EVICTION_WORKERS)
}

impl Controller for TaintEvictionController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = EvictionNote;

    fn observe(&self, key: &NamespacedName, _: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        Ok(self.observe(key))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, EvictionNote>) -> Result<Requeue, SyncError> {
        act::act(snapshot, plan, io).await
    }

    fn synced_object(snapshot: &Snapshot) -> (InvolvedObject, Uid) {
        let key = &snapshot.key;
        (InvolvedObject::without_version(PODS, &key.namespace, &key.name, Uid::default()), Uid::default())
    }

    fn record_plan(&self, snapshot: &Snapshot, plan: &Plan) {
        self.timers.apply_plan(&snapshot.key, plan);
    }

    fn apply_memory_note(&self, snapshot: &Snapshot, note: EvictionNote) {
        let (key, pod) = (&snapshot.key, snapshot.pod.as_ref().map(|pod| &pod.meta.uid));
        match note {
            EvictionNote::AttemptFailed(error) => {
                tracing::debug!(logger = "taint-eviction-controller", pod = %key, err = %error, "Retrying the deletion of a Pod");
            }
            EvictionNote::PlanRevised(plan) => self.timers.apply_plan(key, &plan),
            EvictionNote::PodDeleted(since) => {
                self.deletions_total.inc();
                let latency = self.context.clock.monotonic_now().saturating_duration_since(since);
                self.deletion_latency.observe(latency.as_secs_f64());
                self.timers.remove_timer_of_pod(key, pod);
            }
            EvictionNote::PodGone => self.timers.remove_timer_of_pod(key, pod),
            EvictionNote::NodeReadStarted(node) => {
                self.node_reads.lock().begin_read(node, key.clone(), self.context.clock.monotonic_now());
            }
            EvictionNote::NodeRead(node) => self.heartbeats.record_read_node(&node),
            EvictionNote::LeaseRead(node, renewal) => self.heartbeats.record_read_lease(&node, renewal),
            EvictionNote::NodeReadEnded(node, taints) => self.node_reads.lock().end_read(&node, key, taints),
        }
    }

    fn observe_again(&self, snapshot: &Snapshot, (): ()) -> Option<CurrentEvictionState> {
        let (key, pod) = (&snapshot.key, &snapshot.pod);
        let (now, node) = (self.context.clock.monotonic_now(), pod.as_ref().map_or("", |pod| &pod.node_name));
        let (view, doubt) =
            (self.node_reads.lock().recent_read_state(node, now), self.heartbeats.time_until_taint_confirmation(node));
        Some(CurrentEvictionState {
            timer: self.timers.get(key),
            now,
            node_read_state: view,
            time_until_taint_confirmation: doubt,
        })
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        // The loop starts before the cache of Leases is filled, because most taints do not depend on Leases.
        vec![self.caches.node_informer.informer(), self.caches.pod_informer.informer()]
    }
}
