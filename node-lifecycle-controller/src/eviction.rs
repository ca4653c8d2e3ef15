//! Evicts Pods from nodes whose `NoExecute` taints they do not tolerate, or no longer tolerate.
//!
//! A Pod is examined when it changes or when the taints of its node change. A Pod that tolerates the taints for a limited time
//! has a timer; the timer belongs to that Pod, not to its name. Before a Pod is deleted, the Pod and its node are read from
//! the server and the decision is made again, so a stale cache cannot cause an eviction. A failed deletion is retried, where
//! upstream waits for the next event. A Pod that is already terminating and has its condition is left alone.
//!
//! Upstream: `pkg/controller/tainteviction`.

mod watch;

use std::{sync::Arc, time::Duration};

use common::{
    controller::{Controller, Loop, Observed, Requeue},
    events::{EventType, ObjectRef},
    informer::AnyInformer,
    map::HashMap,
    meta::{Key, Uid},
    metrics::{Counter, Histogram, Stability},
    pods::PODS,
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    settings::FeatureGate,
};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    caches::Caches,
    decide::{
        eviction::{self as decide, Plan, Snapshot, Then, Timer},
        taints,
    },
    error::Error,
    monitor::NODE_MONITOR_GRACE_PERIOD,
};

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
    start,
};

/// The taint eviction controller.
pub struct Evictor {
    pub(crate) context: Context,
    pub(crate) timers: Timers,
    pub(crate) deleted: Counter,
    pub(crate) latency: Histogram,
    caches: Arc<Caches>,
    compares: bool,
    /// How long a node may be silent.
    pub(crate) grace: Duration,
}

/// The timers of Pods that tolerate the taints of their node for a limited time.
pub(crate) type Timers = Arc<Mutex<HashMap<Key, Timer>>>;

fn start(context: Context) -> Arc<dyn Running> {
    let queue: Queue<Key> = context.queue("noexec_taint_pod", Backoff::default());
    let caches = Caches::of(&context);
    let timers = Timers::default();
    watch::register(&caches, &queue, &timers);
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
        compares,
        grace: context.settings.duration(&NODE_MONITOR_GRACE_PERIOD),
    };
    Loop::start(TAINT_EVICTION.name, context, Arc::new(evictor), queue, WORKERS)
}

impl Controller for Evictor {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Error = Error;

    fn observe(&self, key: &Key, _: Timestamp) -> Result<Observed<Snapshot>, Error> {
        let timer = self.timer(key);
        let pod = self.caches.pods.store().get_readable(&key.namespace, &key.name);
        if pod.is_none() && timer.is_none() {
            return Ok(Observed::Gone);
        }
        let node = pod.as_ref().and_then(|pod| self.caches.view().node(&pod.node));
        let is_contradicted = node.as_ref().is_some_and(|node| taints::is_contradicted(node));
        let taints = node.map(|node| node.evicting().cloned().collect());
        let (key, now) = (key.clone(), self.context.clock.instant());
        let (renewal, grace, compares) = (None, self.grace, self.compares);
        Ok(Observed::Ready(Snapshot { key, pod, taints, is_contradicted, renewal, grace, timer, now, compares }))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Arms and removes timers. The timer of a Pod that is to be deleted stays until it is deleted: a failed deletion is due
    /// again at once.
    fn record(&self, snapshot: &Snapshot, plan: &Plan) {
        let mut timers = self.timers.lock();
        match &plan.then {
            Then::Wait(timer) => _ = timers.insert(snapshot.key.clone(), timer.clone()),
            Then::Delete { .. } if !plan.cancels => {}
            Then::Nothing | Then::Delete { .. } => _ = timers.remove(&snapshot.key),
        }
    }

    async fn act(&self, snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        self.report_cancellation(&snapshot.key, &plan);
        let Then::Delete { since } = plan.then else { return Ok(Requeue::No) };
        self.evict(&snapshot, since).await
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![self.caches.nodes.informer(), self.caches.pods.informer()]
    }
}

impl Evictor {
    /// The timer under the name of a Pod.
    pub(crate) fn timer(&self, key: &Key) -> Option<Timer> {
        self.timers.lock().get(key).cloned()
    }

    /// Records the Event for a timer that was removed although its Pod was not deleted.
    pub(crate) fn report_cancellation(&self, key: &Key, plan: &Plan) {
        if plan.cancels {
            self.event(key, format!("Cancelling deletion of Pod {key}"));
        }
    }

    pub(crate) fn event(&self, key: &Key, message: String) {
        let pod = ObjectRef::bare(PODS, &key.namespace, &key.name, Uid::default());
        self.context.recorder.event(&pod, EventType::Normal, "TaintManagerEviction", message);
    }
}
