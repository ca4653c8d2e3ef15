//! Pods that nobody will ever finish are removed: too many that have ended, those of nodes that are gone, those that are
//! going and have no node, and those that are going on a node that an operator has declared dead.
//!
//! No finalizer is touched, and no Pod is removed whose namesake was meant: both writes name its uid, where upstream's
//! deletion does not. Upstream: `pkg/controller/podgc`.

use std::{sync::Arc, time::Duration};

use common::{
    api::{self, Delete, Patch, Target},
    conditions::{TRUE, seconds},
    controller::{Controller, Loop, Observed, Requeue},
    informer::AnyInformer,
    metrics::{Counters, Metrics, Stability},
    object::Object as _,
    pods::PODS,
    queue::{Backoff, Priority},
    runtime::{Context, LoopDefinition, Running},
    settings::{Tune, TuneValue},
};
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;

use crate::{
    caches::Caches,
    decide::{
        garbage::{self as decide, Gone, Plan, Reason, Snapshot, Victim},
        quarantine::Quarantine,
    },
    error::Error,
    objects::{CachedPod, DISRUPTION_TARGET, NODES},
    pass::Pass,
};

/// How long after a pass the next one begins.
const PERIOD: Duration = Duration::from_secs(20);
/// For how long a node has to be missing before its Pods go.
const QUARANTINE: Duration = Duration::from_secs(40);
/// How many requests of one pass are under way at once.
const IN_FLIGHT: usize = 50;

/// How many Pods that have ended are kept; all of them if this is not positive.
pub const TERMINATED_POD_GC_THRESHOLD: Tune = Tune {
    name: "terminated-pod-gc-threshold",
    default: TuneValue::Integer(12_500),
    help: "How many Pods that have ended are kept before the oldest are removed; 0 or less: all of them",
};

/// The loop.
pub const POD_GARBAGE_COLLECTOR: LoopDefinition = LoopDefinition {
    name: "pod-garbage-collector-controller",
    alias: "podgc",
    client: "pod-garbage-collector",
    component: "pod-garbage-collector-controller",
    start,
};

/// Removes Pods that nobody will finish.
pub struct PodCollector {
    context: Context,
    caches: Arc<Caches>,
    quarantine: Mutex<Quarantine>,
    threshold: i64,
    deleted: Counters,
    failed: Counters,
}

fn start(context: Context) -> Arc<dyn Running> {
    let queue = context.queue("pod_garbage_collector", Backoff::default());
    let caches = Caches::of(&context);
    let threshold = context.settings.integer(&TERMINATED_POD_GC_THRESHOLD);
    let count = |metrics: &Metrics, name, help| metrics.counter(name, Stability::Alpha, help, &["namespace", "reason"]);
    let deleted = count(
        &context.metrics,
        "pod_gc_collector_force_delete_pods_total",
        "Number of pods that are being forcefully deleted since the Pod GC Controller started.",
    );
    let failed = count(
        &context.metrics,
        "pod_gc_collector_force_delete_pod_errors_total",
        "Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.",
    );
    queue.add(Pass, Priority::Normal);
    let quarantine = Mutex::default();
    let collector = PodCollector { context: context.clone(), caches, quarantine, threshold, deleted, failed };
    Loop::start(POD_GARBAGE_COLLECTOR.name, context, Arc::new(collector), queue, 1)
}

impl Controller for PodCollector {
    type Key = Pass;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Error = Error;

    fn observe(&self, _: &Pass, _: Timestamp) -> Result<Observed<Snapshot>, Error> {
        let keeps_terminated = self.threshold <= 0;
        let concerned = |pod: &CachedPod| {
            pod.meta.is_deleting()
                || (!keeps_terminated && decide::is_over(pod))
                || (!pod.node.is_empty() && !self.caches.has_node(&pod.node))
        };
        let pods = self.caches.pods.store().select(concerned);
        let mut nodes: Vec<_> = pods.iter().filter_map(|pod| self.caches.node(&pod.node)).collect();
        nodes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        nodes.dedup_by(|a, b| a.metadata.name == b.metadata.name);
        let missing = |pod: &&Arc<CachedPod>| !pod.node.is_empty() && !self.caches.has_node(&pod.node);
        let missing = pods.iter().filter(missing).map(|pod| pod.node.clone()).collect();
        let now = self.context.clock.instant();
        let due = self.quarantine.lock().pass(&missing, now, QUARANTINE);
        Ok(Observed::Ready(Snapshot { pods, nodes, missing, due, threshold: self.threshold, period: PERIOD }))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(&self, _: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        self.remove_all(&plan.terminated).await?;
        self.remove_all(&plan.out_of_service).await?;
        for Gone { node, pods } in &plan.gone {
            if self.is_gone(node).await? {
                self.remove_all(pods).await?;
            }
        }
        self.remove_all(&plan.unscheduled).await?;
        Ok(Requeue::After(PERIOD))
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![self.caches.nodes.informer(), self.caches.pods.informer()]
    }
}

impl PodCollector {
    /// Whether the server knows no node of that name either. One that cannot be asked for is not gone.
    async fn is_gone(&self, node: &str) -> Result<bool, Error> {
        match self.context.api.get(Target::object(NODES, "", node)).await {
            Err(error) if error.is_not_found() => Ok(true),
            Err(error @ api::Error::NotLeader) => Err(Error::new(format!("read Node {node}"), error)),
            Err(error) => {
                tracing::warn!(logger = "podgc", node, err = %error, "Error getting node from apiserver");
                Ok(false)
            }
            Ok(_) => Ok(false),
        }
    }

    /// Removes all of them; who could not be removed is there in the next pass.
    async fn remove_all(&self, victims: &[Victim]) -> Result<(), Error> {
        let calls: Vec<_> = victims.iter().map(|victim| self.remove(victim)).collect();
        let results: Vec<_> = stream::iter(calls).buffered(IN_FLIGHT).collect().await;
        for (Victim { pod, reason }, result) in victims.iter().zip(results) {
            let labels = [pod.meta.namespace.as_str(), reason.as_str()];
            match result {
                Err(error @ api::Error::NotLeader) => {
                    return Err(Error::new(format!("remove Pod {}", pod.meta.key()), error));
                }
                Err(error) => {
                    self.deleted.with(&labels).inc();
                    self.failed.with(&labels).inc();
                    let key = pod.meta.key();
                    tracing::error!(logger = "podgc", pod = %key, err = %error, "Failed to delete pod");
                }
                Ok(()) => {
                    self.deleted.with(&labels).inc();
                }
            }
        }
        Ok(())
    }

    /// Has the Pod end, and removes it at once. One that is gone, or another one of that name, is removed.
    async fn remove(&self, Victim { pod, reason }: &Victim) -> Result<(), api::Error> {
        let meta = pod.meta();
        let target = Target::object(PODS, &meta.namespace, &meta.name);
        tracing::info!(logger = "podgc", pod = %meta.key(), reason = reason.as_str(), "PodGC is force deleting Pod");
        if !pod.phase.is_terminal() {
            let mut status = json!({"phase": "Failed"});
            if meta.generation > 0 {
                status["observedGeneration"] = json!(meta.generation);
            }
            if *reason == Reason::Orphaned {
                let since = pod.disrupted.unwrap_or_else(|| self.context.clock.now());
                let mut condition = json!({"type": DISRUPTION_TARGET, "status": TRUE, "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists", "lastTransitionTime": seconds::text(since)});
                if meta.generation > 0 {
                    condition["observedGeneration"] = json!(meta.generation);
                }
                status["conditions"] = json!([condition]);
            }
            let patch = json!({"metadata": {"uid": meta.uid}, "status": status});
            let target = Target::status(PODS, &meta.namespace, &meta.name);
            match self.context.api.patch(target, Patch::Strategic, &patch).await {
                Err(error) if error.is_not_found() || error.is_another() => return Ok(()),
                other => other?,
            };
        }
        let options = Delete { uid: Some(meta.uid.clone()), grace_seconds: Some(0), ..Delete::default() };
        match self.context.api.delete(target, &options).await {
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            other => other.map(drop),
        }
    }
}
