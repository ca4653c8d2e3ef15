//! Removes Pods that no kubelet will ever finish: terminated Pods above a threshold, Pods of nodes that no longer exist,
//! terminating Pods without a node, and terminating Pods on a node that an operator has declared out of service.
//!
//! A pass finds the Pods to remove through indexes of the cache, and reads terminated Pods in chunks ([`ended`]). Before Pods
//! are removed because of their node, the node is read from the server. Every write names the UID and the version of the judged
//! Pod; upstream's deletion names neither. Finalizers are never changed. Upstream: `pkg/controller/podgc`.

mod act;
mod decide;
mod ended;
mod observe;
mod pass;
mod plan;
pub(crate) mod quarantine;
pub(crate) mod snapshot;

use std::{sync::Arc, time::Duration};

use common::{
    controller::{Controller, Loop, Observed},
    events::ObjectRef,
    informer::AnyInformer,
    io::{Failed, Io, Requeue},
    meta::Uid,
    metrics::{Counters, Stability},
    queue::{Backoff, Priority, Queue},
    runtime::{Context, LoopDefinition, Running},
    settings::{Tune, TuneValue},
};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{caches::Caches, objects::CachedPod};

use act::{Behind, Note};
use ended::EndedPods;
use pass::Pass;
use plan::Plan;
use quarantine::Quarantine;
use snapshot::{Limits, Snapshot};

pub use snapshot::NODES_PER_PASS;

/// Lower limit of the pause between two passes, whose value `pod-gc-period` sets.
const MIN_PERIOD: Duration = Duration::from_millis(10);

/// Pause between two passes of the Pod garbage collector. Default: 20 s, as upstream.
pub const POD_GC_PERIOD: Tune = Tune::duration(
    "pod-gc-period",
    Duration::from_secs(20),
    "The pause between two passes of the Pod garbage collector, at least 10ms",
);
/// How long a node must be missing before its Pods are removed. Default: 40 s, as upstream.
pub const POD_GC_QUARANTINE: Tune = Tune::duration(
    "pod-gc-quarantine",
    Duration::from_secs(40),
    "How long a node has to be missing before the Pod garbage collector removes its Pods",
);
/// Values of the Pod garbage collector that are set with `--tune`.
pub const TUNES: &[Tune] = &[POD_GC_PERIOD, POD_GC_QUARANTINE];

/// Number of terminated Pods that are kept; 0 or less keeps all. Default: 12,500, as upstream.
pub const TERMINATED_POD_GC_THRESHOLD: Tune = Tune {
    name: "terminated-pod-gc-threshold",
    default: TuneValue::Integer(12_500),
    help: "How many terminated Pods are kept before the oldest are removed; 0 or less: all of them",
};

/// The loop that removes Pods that no kubelet will finish.
pub const POD_GARBAGE_COLLECTOR: LoopDefinition = LoopDefinition {
    name: "pod-garbage-collector-controller",
    alias: "podgc",
    client: "pod-garbage-collector",
    component: "pod-garbage-collector-controller",
    owned_writes: &[],
    start,
};

/// State of the loop `pod-garbage-collector-controller`, shared by its passes.
struct PodCollector {
    context: Context,
    deleted: Counters,
    failed: Counters,
    caches: Arc<Caches>,
    ended: Arc<Mutex<EndedPods>>,
    /// The missing nodes after the last pass, each with the start of its quarantine.
    quarantine: Mutex<Quarantine>,
    limits: Limits,
}

fn start(context: Context) -> Arc<dyn Running> {
    let queue: Queue<Pass> = context.queue("pod_garbage_collector", Backoff::default());
    let labels = &["namespace", "reason"];
    let deleted = context.metrics.counter(
        "pod_gc_collector_force_delete_pods_total",
        Stability::Alpha,
        "Number of pods that are being forcefully deleted since the Pod GC Controller started.",
        labels,
    );
    let failed = context.metrics.counter(
        "pod_gc_collector_force_delete_pod_errors_total",
        Stability::Alpha,
        "Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.",
        labels,
    );
    let caches = Caches::of(&context);
    let collector = PodCollector {
        context: context.clone(),
        deleted,
        failed,
        ended: EndedPods::of(&caches.pods),
        caches,
        quarantine: Mutex::default(),
        limits: Limits {
            threshold: context.settings.integer(&TERMINATED_POD_GC_THRESHOLD),
            period: context.settings.duration(&POD_GC_PERIOD).max(MIN_PERIOD),
            quarantine_period: context.settings.duration(&POD_GC_QUARANTINE),
        },
    };
    queue.add(Pass, Priority::Normal);
    Loop::start(POD_GARBAGE_COLLECTOR.name, context, Arc::new(collector), queue, 1)
}

impl Controller for PodCollector {
    type Key = Pass;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, _: &Pass, _: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        let now = self.context.clock.instant();
        let quarantine = self.quarantine.lock().clone();
        let snapshot = observe::observe(self.caches.view(), &self.ended.lock(), quarantine, now, self.limits);
        Ok(Observed::Ready(snapshot))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(_: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, Failed> {
        act::act(plan, io).await
    }

    fn object(_: &Snapshot) -> (ObjectRef, Uid) {
        (ObjectRef::default(), Uid::default())
    }

    fn record(&self, _: &Snapshot, plan: &Plan) {
        *self.quarantine.lock() = plan.quarantine.clone();
    }

    fn note(&self, _: &Snapshot, note: Note) {
        match note {
            Note::Removes(pod, reason) => {
                let (pod, reason) = (pod.meta.key(), reason.as_str());
                tracing::info!(logger = "podgc", %pod, reason, "PodGC is force deleting Pod");
            }
            Note::Removed(pod, reason, error) => {
                let labels = [pod.meta.namespace.as_str(), reason.as_str()];
                if let Some(error) = error {
                    self.failed.with(&labels).inc();
                    tracing::error!(logger = "podgc", pod = %pod.meta.key(), err = %error, "Failed to delete pod");
                }
                self.deleted.with(&labels).inc();
            }
            Note::Unread(node, error) => {
                tracing::warn!(logger = "podgc", node = &*node, err = %error, "Error getting node from apiserver");
            }
        }
    }

    fn observe_again(&self, _: &Snapshot, Behind(last, count): Behind) -> Option<Vec<Arc<CachedPod>>> {
        Some(self.ended.lock().first(count, Some(&last)))
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![self.caches.nodes.informer(), self.caches.pods.informer()]
    }
}
