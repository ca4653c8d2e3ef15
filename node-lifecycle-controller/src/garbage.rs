//! Removes Pods that no kubelet will remove: finished Pods above a threshold, Pods of nodes that no longer exist, terminating
//! Pods without a node, and terminating Pods on a node that an operator has declared out of service.
//!
//! A pass finds the Pods to remove through indexes of the cache, and reads finished Pods in chunks ([`ended`]). Before Pods
//! are removed because of their node, the node is read from the server. Every write names the UID and the version of the Pod
//! that was checked; upstream's deletion names neither. Finalizers are never changed. Upstream: `pkg/controller/podgc`.

mod act;
pub(crate) mod decide;
mod ended;
pub(crate) mod quarantine;

use std::{sync::Arc, time::Duration};

use common::{
    metrics::{Counters, Stability},
    prelude::*,
    settings::{Tunable, TunableValue},
};
use jiff::Timestamp;
use parking_lot::Mutex;

use self::{
    decide::{MAX_FINISHED_PODS_PER_CHUNK, Plan, PodGcSettings, RemovalReason, Snapshot, excess_finished_pod_count},
    ended::FinishedPods,
    quarantine::NodeQuarantine,
};
use crate::{
    caches::Caches,
    objects::{CachedPod, Node},
};

pub use decide::MAX_NODES_PER_PASS;

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

/// Number of terminated Pods that are kept; 0 or less keeps all. Default: 12,500, as upstream.
pub const TERMINATED_POD_GC_THRESHOLD: Tunable = Tunable {
    name: "terminated-pod-gc-threshold",
    default_value: TunableValue::Integer(12_500),
    help: "How many terminated Pods are kept before the oldest are removed; 0 or less: all of them",
};

/// `pod-garbage-collector-controller`: removes finished Pods above a threshold, and Pods that no kubelet will finish.
pub const POD_GARBAGE_COLLECTOR_LOOP: LoopDefinition =
    LoopDefinition::new("pod-garbage-collector-controller", "podgc", start)
        .with_user_agent_and_component("pod-garbage-collector", "pod-garbage-collector-controller");

periodic_key!(PassKey, "pass");

/// State of the loop `pod-garbage-collector-controller`, shared by its passes.
struct PodGarbageCollector {
    context: LoopContext,
    force_deletions_total: Counters,
    force_deletion_errors_total: Counters,
    caches: Caches,
    finished_pods: Arc<Mutex<FinishedPods>>,
    /// The missing nodes after the last pass, each with the start of its quarantine.
    quarantine: Mutex<NodeQuarantine>,
    settings: PodGcSettings,
}

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let queue = context.new_queue("pod_garbage_collector");
    let counter = |name, help| context.metrics.counter(name, Stability::Alpha, help, &["namespace", "reason"]);
    let (node_informer, pod_informer) = (context.shared_informer::<Node>(), context.shared_informer::<CachedPod>());
    let controller = PodGarbageCollector {
        context: context.clone(),
        force_deletions_total: counter(
            "pod_gc_collector_force_delete_pods_total",
            "Number of pods that are being forcefully deleted since the Pod GC Controller started.",
        ),
        force_deletion_errors_total: counter(
            "pod_gc_collector_force_delete_pod_errors_total",
            "Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.",
        ),
        finished_pods: FinishedPods::follow_informer(&pod_informer),
        caches: Caches::new(&node_informer, &pod_informer),
        quarantine: Mutex::default(),
        settings: PodGcSettings {
            finished_pod_threshold: context.settings.tuned_integer(&TERMINATED_POD_GC_THRESHOLD),
            pass_period: context.settings.tuned_duration(&POD_GC_PERIOD).max(MIN_PASS_PERIOD),
            quarantine_period: context.settings.tuned_duration(&POD_GC_NODE_QUARANTINE),
        },
    };
    queue.add(PassKey, Priority::Normal);
    Loop::start(POD_GARBAGE_COLLECTOR_LOOP.name, context, Arc::new(controller), queue, 1)
}

impl Controller for PodGarbageCollector {
    type Key = PassKey;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, _: &PassKey, _: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let (now, quarantine) = (self.context.clock.monotonic_now(), self.quarantine.lock().clone());
        Ok(pods_to_remove(&self.caches, &self.finished_pods.lock(), quarantine, now, self.settings))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Removes the planned Pods, one reason after the other. Returns the pause before the next pass.
    async fn act(_: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        act::remove_pods(&plan.finished_pod_removals, io).await;
        act::remove_further_finished_pods(plan, io).await;
        act::remove_pods_of_nodes(&plan.out_of_service_pod_removals, RemovalReason::OutOfService, io).await;
        act::remove_pods_of_nodes(&plan.orphaned_pod_removals, RemovalReason::Orphaned, io).await;
        act::remove_pods(&plan.unscheduled_pod_removals, io).await;
        // The pause before the next pass begins when this pass ends.
        Ok(Requeue::After(plan.next_pass_after))
    }

    fn record_plan(&self, _: &Snapshot, plan: &Plan) {
        *self.quarantine.lock() = plan.quarantine.clone();
    }
}

/// Returns the snapshot of a pass: the Pods that the pass may remove, and the missing nodes.
///
/// The cost grows with the number of nodes and the number of Pods to remove, not with the number of all Pods.
fn pods_to_remove(
    caches: &Caches,
    finished_pods: &FinishedPods,
    quarantine: NodeQuarantine,
    now: Instant,
    settings: PodGcSettings,
) -> Snapshot {
    let finished_pod_count = finished_pods.len();
    let excess = excess_finished_pod_count(finished_pod_count, settings.finished_pod_threshold);
    let names_of_missing_nodes = caches.names_of_missing_nodes();
    let pods_of_nodes_after_quarantine = quarantine
        .node_names_after_quarantine(&names_of_missing_nodes, now, settings.quarantine_period)
        .take(MAX_NODES_PER_PASS)
        .map(|node| (node.clone(), caches.pods_on_node(node)))
        .collect();
    let out_of_service = |name: Text| {
        let node = caches.node(&name).filter(|node| node.is_out_of_service())?;
        Some((node, caches.terminating_pods_on_node(&name)))
    };
    let nodes_of_terminating_pods = caches.node_names_of_terminating_pods().into_iter();
    Snapshot {
        finished_pods_to_remove: finished_pods.pods_after(excess.min(MAX_FINISHED_PODS_PER_CHUNK), None),
        finished_pod_count,
        terminating_pods_of_out_of_service_nodes: nodes_of_terminating_pods.filter_map(out_of_service).collect(),
        terminating_pods_without_node: caches.terminating_pods_on_node(""),
        names_of_missing_nodes,
        pods_of_nodes_after_quarantine,
        quarantine,
        settings,
        now,
    }
}

#[cfg(test)]
mod tests;
