//! Removes Pods that no kubelet will remove: finished Pods above a threshold, Pods of nodes that no longer exist, terminating
//! Pods without a node, and terminating Pods on a node that an operator has declared out of service.
//!
//! A pass finds the Pods to remove through indexes of the cache, and reads finished Pods in chunks ([`ended`]). Before Pods
//! are removed because of their node, the node is read from the server. Every write names the UID and the version of the Pod
//! that was checked; upstream's deletion names neither. Finalizers are never changed. Upstream: `pkg/controller/podgc`.

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
    controller::{Controller, Loop, Observation},
    events::InvolvedObject,
    informer::AnyInformer,
    io::{Io, Requeue, SyncError},
    meta::Uid,
    metrics::{Counters, Stability},
    queue::{BackoffSettings, Priority, Queue},
    runtime::{LoopContext, LoopDefinition, RunningLoop},
    settings::{Tunable, TunableValue},
};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{caches::Caches, objects::CachedPod};

use act::{NextFinishedPodsQuery, PodGcNote};
use ended::FinishedPods;
use pass::PassKey;
use plan::Plan;
use quarantine::NodeQuarantine;
use snapshot::{PodGcSettings, Snapshot};

pub use snapshot::MAX_NODES_PER_PASS;

/// Lower limit of the setting `pod-gc-period` of `--tune`.
const MIN_PASS_PERIOD: Duration = Duration::from_millis(10);

/// Pause between two passes of the Pod garbage collector. Default: 20 s, as upstream.
pub const POD_GC_PERIOD: Tunable = Tunable::of_duration(
    "pod-gc-period",
    Duration::from_secs(20),
    "The pause between two passes of the Pod garbage collector, at least 10ms",
);
/// How long a node must be missing before its Pods are removed. Default: 40 s, as upstream.
pub const POD_GC_NODE_QUARANTINE: Tunable = Tunable::of_duration(
    "pod-gc-quarantine",
    Duration::from_secs(40),
    "How long a node has to be missing before the Pod garbage collector removes its Pods",
);
/// Settings of the Pod garbage collector for the flag `--tune`.
pub const POD_GC_TUNABLES: &[Tunable] = &[POD_GC_PERIOD, POD_GC_NODE_QUARANTINE];

/// Number of terminated Pods that are kept; 0 or less keeps all. Default: 12,500, as upstream.
pub const TERMINATED_POD_GC_THRESHOLD: Tunable = Tunable {
    name: "terminated-pod-gc-threshold",
    default_value: TunableValue::Integer(12_500),
    help: "How many terminated Pods are kept before the oldest are removed; 0 or less: all of them",
};

/// `pod-garbage-collector-controller`: removes finished Pods above a threshold, and Pods that no kubelet will finish.
pub const POD_GARBAGE_COLLECTOR_LOOP: LoopDefinition = LoopDefinition {
    name: "pod-garbage-collector-controller",
    alias: "podgc",
    user_agent_suffix: "pod-garbage-collector",
    event_component: "pod-garbage-collector-controller",
    owned_writes: &[],
    start_loop: start,
};

/// State of the loop `pod-garbage-collector-controller`, shared by its passes.
struct PodGarbageCollector {
    context: LoopContext,
    force_deletions_total: Counters,
    force_deletion_errors_total: Counters,
    caches: Arc<Caches>,
    ended_pods: Arc<Mutex<FinishedPods>>,
    /// The missing nodes after the last pass, each with the start of its quarantine.
    quarantine: Mutex<NodeQuarantine>,
    settings: PodGcSettings,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue: Queue<PassKey> = context.new_queue("pod_garbage_collector", BackoffSettings::default());
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
    let caches = Caches::get_or_start(&context);
    let collector = PodGarbageCollector {
        context: context.clone(),
        force_deletions_total: deleted,
        force_deletion_errors_total: failed,
        ended_pods: FinishedPods::follow_informer(&caches.pod_informer),
        caches,
        quarantine: Mutex::default(),
        settings: PodGcSettings {
            finished_pod_threshold: context.settings.tuned_integer(&TERMINATED_POD_GC_THRESHOLD),
            pass_period: context.settings.tuned_duration(&POD_GC_PERIOD).max(MIN_PASS_PERIOD),
            quarantine_period: context.settings.tuned_duration(&POD_GC_NODE_QUARANTINE),
        },
    };
    queue.add(PassKey, Priority::Normal);
    Loop::start(POD_GARBAGE_COLLECTOR_LOOP.name, context, Arc::new(collector), queue, 1)
}

impl Controller for PodGarbageCollector {
    type Key = PassKey;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = PodGcNote;

    fn observe(&self, _: &PassKey, _: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        let now = self.context.clock.monotonic_now();
        let quarantine = self.quarantine.lock().clone();
        let snapshot =
            observe::observe(self.caches.cache_view(), &self.ended_pods.lock(), quarantine, now, self.settings);
        Ok(Observation::Ready(snapshot))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(_: &Snapshot, plan: &Plan, io: Io<'_, PodGcNote>) -> Result<Requeue, SyncError> {
        act::act(plan, io).await
    }

    fn synced_object(_: &Snapshot) -> (InvolvedObject, Uid) {
        (InvolvedObject::default(), Uid::default())
    }

    fn record_plan(&self, _: &Snapshot, plan: &Plan) {
        *self.quarantine.lock() = plan.quarantine.clone();
    }

    fn apply_memory_note(&self, _: &Snapshot, note: PodGcNote) {
        match note {
            PodGcNote::RemovalStarted(pod, reason) => {
                let (pod, reason) = (pod.meta.key(), reason.as_str());
                tracing::info!(logger = "podgc", %pod, reason, "PodGC is force deleting Pod");
            }
            PodGcNote::RemovalFinished(pod, reason, error) => {
                let labels = [pod.meta.namespace.as_str(), reason.as_str()];
                if let Some(error) = error {
                    self.force_deletion_errors_total.with_label_values(&labels).inc();
                    tracing::error!(logger = "podgc", pod = %pod.meta.key(), err = %error, "Failed to delete pod");
                }
                self.force_deletions_total.with_label_values(&labels).inc();
            }
            PodGcNote::NodeReadFailed(node, error) => {
                tracing::warn!(logger = "podgc", node = &*node, err = %error, "Error getting node from apiserver");
            }
        }
    }

    fn observe_again(
        &self,
        _: &Snapshot,
        NextFinishedPodsQuery(last, count): NextFinishedPodsQuery,
    ) -> Option<Vec<Arc<CachedPod>>> {
        Some(self.ended_pods.lock().pods_after(count, Some(&last)))
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![self.caches.node_informer.informer(), self.caches.pod_informer.informer()]
    }
}
