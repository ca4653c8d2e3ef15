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
pub(crate) mod decide;
mod nodes;
mod timers;

use std::sync::Arc;

use common::{
    metrics::{Counter, Histogram, Stability},
    pods::PODS,
    prelude::*,
    settings::FeatureGate,
};
use jiff::Timestamp;
use parking_lot::Mutex;

use self::{
    act::{delete_pod, report_cancellation},
    decide::{Plan, PodAction, Snapshot},
    nodes::NodeReads,
    timers::DeletionTimers,
};
use crate::{
    caches::Caches,
    heartbeats::Heartbeats,
    objects::{CachedPod, Node},
};

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
pub const TAINT_EVICTION_LOOP: LoopDefinition = LoopDefinition::new("taint-eviction-controller", "", start)
    .with_user_agent_and_component("node-controller", "taint-eviction-controller");

/// The loop `taint-eviction-controller`.
struct TaintEvictionController {
    context: LoopContext,
    state: Arc<EvictionState>,
    deletions_total: Counter,
    deletion_latency: Histogram,
    heartbeats: Arc<Heartbeats>,
    are_comparison_operators_enabled: bool,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("noexec_taint_pod");
    let node_informer = context.shared_informer::<Node>();
    // The loop starts before the cache of Leases is filled, because most taints do not depend on Leases.
    let heartbeats = Heartbeats::get_or_start(&context, &node_informer);
    let pod_informer = context.shared_informer::<CachedPod>();
    let state = Arc::new(EvictionState {
        queue: queue.clone(),
        caches: Caches::new(&node_informer, &pod_informer),
        timers: DeletionTimers::default(),
        node_reads: Mutex::default(),
    });
    pod_informer.add_handler(handler_from_method(&state, EvictionState::on_pod));
    node_informer.add_handler(handler_from_method(&state, EvictionState::on_node));
    let deletions_total = context.metrics.counter(
        "taint_eviction_controller_pod_deletions_total",
        Stability::Alpha,
        "Total number of Pods deleted by TaintEvictionController since its start.",
        &[],
    );
    let deletion_latency = context.metrics.histogram(
        "taint_eviction_controller_pod_deletion_duration_seconds",
        Stability::Alpha,
        "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion via TaintEvictionController.",
        &[],
        [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0],
    );
    let gate = &TAINT_TOLERATION_COMPARISON_OPERATORS;
    let controller = TaintEvictionController {
        are_comparison_operators_enabled: context.settings.is_feature_gate_on(gate),
        context: context.clone(),
        state,
        deletions_total: deletions_total.with_label_values(&[]),
        deletion_latency: deletion_latency.with_label_values(&[]),
        heartbeats,
    };
    Loop::start(TAINT_EVICTION_LOOP.name, context, Arc::new(controller), queue, EVICTION_WORKERS)
}

impl Controller for TaintEvictionController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, _: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let EvictionState { timers, caches, .. } = &*self.state;
        let (timer, pod) = (timers.get(key), caches.pod(key));
        if pod.is_none() && timer.is_none() {
            return Err(NoSnapshot::Gone);
        }
        let node = pod.as_ref().and_then(|pod| caches.node(&pod.node_name));
        Ok(Snapshot {
            key: key.clone(),
            pod,
            no_execute_taints: node.map(|node| node.no_execute_taints().cloned().collect()),
            time_until_taint_confirmation: None,
            timer,
            now: self.context.clock.monotonic_now(),
            are_comparison_operators_enabled: self.are_comparison_operators_enabled,
        })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Deletes the Pod if the plan says so, and reports a cancelled timer.
    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        report_cancellation(snapshot, plan, io);
        match plan.pod_action {
            PodAction::Delete { since } => delete_pod(snapshot, plan.reason, since, io).await,
            _ => Ok(Requeue::AfterPlannedDelay),
        }
    }

    fn object(Snapshot { key, .. }: &Snapshot) -> InvolvedObject {
        InvolvedObject::without_version(PODS, &key.namespace, &key.name, Uid::default())
    }

    fn record_plan(&self, snapshot: &Snapshot, plan: &Plan) {
        self.state.timers.apply_plan(&snapshot.key, plan);
    }
}

/// State that the handlers of events share with the syncs.
struct EvictionState {
    queue: Queue<NamespacedName>,
    caches: Caches,
    timers: DeletionTimers,
    /// The recent reads of nodes. The handler of nodes removes the read of a node that has changed.
    node_reads: Mutex<NodeReads>,
}

impl EvictionState {
    /// Enqueues a changed Pod if it has a timer or if its node has `NoExecute` taints.
    fn on_pod(&self, event: &CacheEvent<CachedPod>, origin: ChangeOrigin) {
        let pod = match event {
            CacheEvent::Added(pod) | CacheEvent::Deleted(pod) => pod,
            CacheEvent::Updated { old, new }
                if old.tolerations != new.tolerations || old.node_name != new.node_name =>
            {
                new
            }
            CacheEvent::Updated { .. } | CacheEvent::Unreadable(_) => return,
        };
        let key = pod.meta().key();
        let is_tainted =
            || self.caches.node(&pod.node_name).is_some_and(|node| node.no_execute_taints().next().is_some());
        if !pod.node_name.is_empty() && (self.timers.get(&key).is_some() || is_tainted()) {
            self.queue.add(key, origin);
        }
    }

    /// Enqueues the Pods of a node with changed `NoExecute` taints. For an added node without such taints, enqueues only Pods
    /// with a timer: the node may have been re-created without its taints.
    fn on_node(&self, event: &CacheEvent<Node>, origin: ChangeOrigin) {
        if origin != ChangeOrigin::Resync {
            self.node_reads.lock().drop_read(&event.meta().name);
        }
        let concerns_all = match event {
            CacheEvent::Added(node) => node.no_execute_taints().next().is_some(),
            CacheEvent::Updated { old, new } if !old.no_execute_taints().eq(new.no_execute_taints()) => true,
            CacheEvent::Updated { .. } | CacheEvent::Deleted(_) | CacheEvent::Unreadable(_) => return,
        };
        if !concerns_all && self.timers.is_empty() {
            return;
        }
        for pod in self.caches.pods_on_node(&event.meta().name) {
            let key = pod.meta().key();
            if concerns_all || self.timers.get(&key).is_some() {
                self.queue.add(key, origin);
            }
        }
    }
}
