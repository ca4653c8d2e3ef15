//! Pods leave nodes whose taints they do not tolerate, or no longer.
//!
//! A Pod is looked at when it or the taints of its node change. What it tolerates for a while is a timer of its own; the
//! timer belongs to that Pod, not to its name. A deletion that fails is tried again, where upstream waits for the next
//! event; a Pod that is going already and says why is left alone. Upstream: `pkg/controller/tainteviction`.

use std::{sync::Arc, time::Duration};

use common::{
    api::{self, Delete, Patch, Target},
    conditions::{self, Condition, TRUE, seconds},
    controller::{Controller, Loop, Observed, Requeue, priority},
    events::{EventType, ObjectRef},
    informer::AnyInformer,
    map::HashMap,
    meta::{Key, Meta, Uid},
    metrics::{Counter, Histogram, Stability},
    object::Object as _,
    pods::PODS,
    queue::{Backoff, Queue},
    runtime::{Context, LoopDefinition, Running},
    settings::FeatureGate,
    store::{Event, Origin},
    taints::Taint,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    caches::Caches,
    decide::eviction::{self as decide, Plan, Snapshot, Timer},
    error::Error,
    objects::{CachedPod, DISRUPTION_TARGET, Node},
};

/// How often a deletion is tried at once, and how long after each failure.
const ATTEMPTS: (usize, Duration) = (5, Duration::from_millis(10));
/// How many Pods are worked on at once.
const WORKERS: usize = 8;

/// The gate of tolerations that compare numbers.
pub const COMPARISON: FeatureGate = FeatureGate {
    name: "TaintTolerationComparisonOperators",
    default: false,
    locked: false,
    help: "Tolerations may compare numbers, with operators Lt and Gt",
};

/// The loop.
pub const TAINT_EVICTION: LoopDefinition = LoopDefinition {
    name: "taint-eviction-controller",
    alias: "",
    client: "node-controller",
    component: "taint-eviction-controller",
    start,
};

/// Deletes Pods that do not tolerate the taints of their node.
pub struct Evictor {
    context: Context,
    caches: Arc<Caches>,
    timers: Timers,
    compares: bool,
    deleted: Counter,
    took: Histogram,
}

/// When Pods have to leave that may stay for a while.
type Timers = Arc<Mutex<HashMap<Key, Timer>>>;

fn start(context: Context) -> Arc<dyn Running> {
    let queue: Queue<Key> = context.queue("noexec_taint_pod", Backoff::default());
    let (caches, timers) = (Caches::of(&context), Timers::default());
    let on_pod = Watch { queue: queue.clone(), caches: Arc::downgrade(&caches), timers: Arc::clone(&timers) };
    let on_node = Watch { queue: queue.clone(), caches: Arc::downgrade(&caches), timers: Arc::clone(&timers) };
    caches.pods.listen(Box::new(move |event, origin| on_pod.on_pod(event, origin)));
    caches.nodes.listen(Box::new(move |event, origin| on_node.on_node(event, origin)));
    let deleted = context.metrics.counter(
        "taint_eviction_controller_pod_deletions_total",
        Stability::Alpha,
        "Total number of Pods deleted by TaintEvictionController since its start.",
        &[],
    );
    let took = context.metrics.histogram(
        "taint_eviction_controller_pod_deletion_duration_seconds",
        Stability::Alpha,
        "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion via TaintEvictionController.",
        &[],
        [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0],
    );
    let compares = context.settings.gate(&COMPARISON);
    let (deleted, took) = (deleted.with(&[]), took.with(&[]));
    let evictor = Evictor { context: context.clone(), caches, timers, compares, deleted, took };
    Loop::start(TAINT_EVICTION.name, context, Arc::new(evictor), queue, WORKERS)
}

/// Turns events into keys. It does not keep the caches that call it.
struct Watch {
    queue: Queue<Key>,
    caches: std::sync::Weak<Caches>,
    timers: Timers,
}

impl Watch {
    /// A Pod matters whose node has taints that Pods leave for, or that waits for its time.
    fn on_pod(&self, event: &Event<CachedPod>, origin: Origin) {
        let (pod, is_news) = match event {
            Event::Added(pod) | Event::Deleted(pod) => (pod, true),
            Event::Updated { old, new } => (new, old.tolerations != new.tolerations || old.node != new.node),
            Event::Unreadable(_) => return,
        };
        if !is_news || pod.node.is_empty() {
            return;
        }
        let key = pod.meta().key();
        let waits = self.timers.lock().contains_key(&key);
        let is_tainted = || {
            let node = self.caches.upgrade().and_then(|caches| caches.node(&pod.node));
            node.is_some_and(|node| node.evicting().next().is_some())
        };
        if waits || is_tainted() {
            self.queue.add(key, priority(origin));
        }
    }

    /// All Pods of a node matter whose taints have changed.
    fn on_node(&self, event: &Event<Node>, origin: Origin) {
        let is_news = match event {
            Event::Added(node) => node.evicting().next().is_some(),
            Event::Updated { old, new } => !old.evicting().eq(new.evicting()),
            Event::Deleted(_) | Event::Unreadable(_) => false,
        };
        if let Some(caches) = self.caches.upgrade().filter(|_| is_news) {
            for pod in caches.pods_of(&event.meta().name) {
                self.queue.add(pod.meta().key(), priority(origin));
            }
        }
    }
}

impl Controller for Evictor {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Error = Error;

    fn observe(&self, key: &Key, _: Timestamp) -> Result<Observed<Snapshot>, Error> {
        let timer = self.timers.lock().get(key).cloned();
        let pod = self.caches.pods.store().get_readable(&key.namespace, &key.name);
        if pod.is_none() && timer.is_none() {
            return Ok(Observed::Gone);
        }
        let node = pod.as_ref().and_then(|pod| self.caches.node(&pod.node));
        let taints: Option<Vec<Taint>> = node.map(|node| node.evicting().cloned().collect());
        let now = self.context.clock.instant();
        Ok(Observed::Ready(Snapshot { key: key.clone(), pod, taints, timer, now, compares: self.compares }))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Starts and stops timers. The timer of a Pod that has to leave stays until the Pod is deleted.
    fn record(&self, snapshot: &Snapshot, plan: &Plan) {
        let mut timers = self.timers.lock();
        if plan.cancels {
            timers.remove(&snapshot.key);
        }
        if let decide::Then::Wait(timer) = &plan.then {
            timers.insert(snapshot.key.clone(), timer.clone());
        }
    }

    async fn act(&self, snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        let key = &snapshot.key;
        if plan.cancels {
            self.event(key, format!("Cancelling deletion of Pod {key}"));
        }
        match plan.then {
            decide::Then::Nothing | decide::Then::Wait(_) => Ok(Requeue::No),
            decide::Then::Delete { since } => {
                let Some(pod) = &snapshot.pod else { return Ok(Requeue::No) };
                self.event(key, format!("Marking for deletion Pod {key}"));
                self.delete(pod).await.map_err(|error| Error::new(format!("delete Pod {key}"), error))?;
                self.took.observe(self.context.clock.instant().saturating_duration_since(since).as_secs_f64());
                let mut timers = self.timers.lock();
                if timers.get(key).is_some_and(|timer| timer.pod == pod.meta.uid) {
                    timers.remove(key);
                }
                Ok(Requeue::No)
            }
        }
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![self.caches.nodes.informer(), self.caches.pods.informer()]
    }
}

/// What is read of a Pod that is about to be deleted.
#[derive(Deserialize)]
struct Live {
    metadata: Meta,
    #[serde(default)]
    status: LiveStatus,
}

#[derive(Default, Deserialize)]
struct LiveStatus {
    conditions: Option<Vec<Condition>>,
}

impl Evictor {
    fn event(&self, key: &Key, message: String) {
        let pod = ObjectRef::bare(PODS, &key.namespace, &key.name, Uid::default());
        self.context.recorder.event(&pod, EventType::Normal, "TaintManagerEviction", message);
    }

    /// Deletes a Pod after it says why; one that is gone is deleted.
    async fn delete(&self, pod: &CachedPod) -> Result<(), api::Error> {
        let (attempts, pause) = ATTEMPTS;
        for _ in 1..attempts {
            match self.try_delete(pod).await {
                Err(api::Error::NotLeader) => break,
                Err(error) => {
                    tracing::debug!(logger = "taint-eviction-controller", pod = %pod.meta.key(), err = %error, "Trying again");
                }
                Ok(()) => return Ok(()),
            }
            self.context.clock.sleep(pause).await;
        }
        self.try_delete(pod).await
    }

    async fn try_delete(&self, pod: &CachedPod) -> Result<(), api::Error> {
        let meta = &pod.meta;
        let target = Target::object(PODS, &meta.namespace, &meta.name);
        let live = match self.context.api.get(target).await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        let live: Live = serde_json::from_slice(&live)?;
        if live.metadata.uid != meta.uid {
            return Ok(());
        }
        if let Some(condition) = condition(&live, self.context.clock.now()) {
            let patch = json!({"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}});
            let status = Target::status(PODS, &meta.namespace, &meta.name);
            match self.context.api.patch(status, Patch::Strategic, &patch).await {
                Err(error) if error.is_not_found() || error.is_another() => return Ok(()),
                other => other?,
            };
        }
        let options = Delete { uid: Some(meta.uid.clone()), ..Delete::default() };
        match self.context.api.delete(target, &options).await {
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error),
            Ok(_) => {
                self.deleted.inc();
                Ok(())
            }
        }
    }
}

/// The condition by which a Pod says why it goes; none if it says so already.
fn condition(live: &Live, now: Timestamp) -> Option<Value> {
    const REASON: &str = "DeletionByTaintManager";
    const MESSAGE: &str = "Taint manager: deleting due to NoExecute taint";
    let known = conditions::get(live.status.conditions.as_deref().unwrap_or_default(), DISRUPTION_TARGET);
    let known = known.filter(|known| known.is_true());
    if known.is_some_and(|known| known.reason == REASON && *known.message == *MESSAGE) {
        return None;
    }
    let since = known.and_then(|known| known.last_transition_time).unwrap_or(now);
    let mut condition = json!({"type": DISRUPTION_TARGET, "status": TRUE, "reason": REASON, "message": MESSAGE,
        "lastTransitionTime": seconds::text(since)});
    if live.metadata.generation > 0 {
        condition["observedGeneration"] = json!(live.metadata.generation);
    }
    Some(condition)
}
