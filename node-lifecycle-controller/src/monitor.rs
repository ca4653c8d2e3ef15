//! Monitors the health of nodes, and taints nodes on which Pods should not start or not continue to run.
//!
//! Four loops share the records of all nodes ([`crate::node_records`]):
//!
//! - [`health`]: passes over nodes that changed or have reached their deadline;
//! - [`tainting`]: passes over nodes that wait for a taint, which are tainted one after the other in each zone;
//! - [`taints_and_labels`]: taints that follow from the conditions of a node, and copies of its labels;
//! - [`readiness`]: the condition `Ready` of Pods, which becomes `False` if the node of the Pod is not ready.
//!
//! The node monitor deletes no Pod; [`crate::eviction`] deletes Pods because of `NoExecute` taints.
//!
//! In doubt, nothing is done. Heartbeats count as missing only if this process received other events and answers during the
//! grace period ([`crate::server_contact`]). The Lease of a node is read from the server before its conditions become
//! `Unknown`. The precondition of a write of taints is the version of the node for which the write was decided.
//!
//! Upstream: `pkg/controller/nodelifecycle`.

mod change;
pub(crate) mod health;
mod memory;
mod metrics;
mod nodes;
mod outage;
mod readiness;
mod running;
pub(crate) mod tainting;
pub(crate) mod taints_and_labels;

use std::sync::Arc;

use common::prelude::*;
use parking_lot::Mutex;

use self::{
    health::{HealthPassKey, NodeHealthController},
    memory::NodeMonitor,
    metrics::MonitorMetrics,
    nodes::MAX_NODES_WITH_CONCURRENT_REQUESTS,
    outage::MonitorOutage,
    readiness::PodReadinessController,
    running::MonitorLoops,
    tainting::{NodeTaintingController, decide::TaintShareLimits},
    taints_and_labels::{NodeTaintAndLabelController, decide::needs_taint_or_label_change},
};
use crate::{
    caches::Caches,
    flags,
    heartbeats::Heartbeats,
    node_records::NodeRecords,
    objects::{CachedPod, Lease, Node, NodeName, NodeReadyStatus, PodReadyStatus},
};

/// Number of Pods for which the condition `Ready` is set to `False` concurrently.
const POD_WORKERS: usize = 8;

/// The node monitor as one loop of the program.
pub const NODE_LIFECYCLE_LOOP: LoopDefinition =
    // Other loops of kube-controller-manager write nodes and their statuses, too: attach-detach and node-ipam, for example.
    LoopDefinition::new("node-lifecycle-controller", "nodelifecycle", start)
            .with_user_agent_and_component("node-controller", "node-controller");

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let share_limits = TaintShareLimits {
        alarm_share: context.settings.tuned_ratio(&flags::NODE_TAINT_ALARM_SHARE),
        max_share: context.settings.tuned_ratio(&flags::NODE_TAINT_MAX_SHARE),
    };
    let node_informer = context.shared_informer::<Node>();
    let heartbeats = Heartbeats::get_or_start(&context, &node_informer);
    context.parts.add_informer(Arc::<SharedInformer<Lease>>::clone(&heartbeats.lease_informer));
    let pod_informer = context.shared_informer::<CachedPod>();
    let caches = Caches::new(&node_informer, &pod_informer);
    let node_records = Arc::clone(&heartbeats.node_records);
    let node_queue = context.new_queue("node_lifecycle_controller");
    let pod_queue = context.new_queue("node_lifecycle_controller_pods");
    let (health_queue, tainting_queue) = context.new_queue_pair("node_lifecycle_controller_rounds");
    let handlers = Arc::new(MonitorHandlers {
        node_records: Arc::clone(&node_records),
        caches: caches.clone(),
        node_queue: node_queue.clone(),
        pod_queue: pod_queue.clone(),
    });
    node_informer.add_handler(handler_from_method(&handlers, MonitorHandlers::on_node));
    pod_informer.add_handler(handler_from_method(&handlers, MonitorHandlers::on_pod));
    let metrics = MonitorMetrics::new(&context.metrics);
    let outage = Arc::new(MonitorOutage::new(context.clone(), Arc::clone(&node_records)));
    metrics.update_outage_on_scrape(&context, &outage);
    metrics.taint_alarm_share.set(f64::from(share_limits.alarm_share.max(0.0)));
    let monitor = Arc::new(NodeMonitor {
        context: context.clone(),
        node_records,
        metrics,
        caches,
        heartbeats,
        outage,
        share_limits,
        is_taint_alarm_active: Mutex::default(),
        tainting_queue: tainting_queue.clone(),
    });
    health_queue.add(HealthPassKey, Priority::Normal);
    let name = NODE_LIFECYCLE_LOOP.name;
    let health = Arc::new(NodeHealthController(Arc::clone(&monitor)));
    let tainting = Arc::new(NodeTaintingController(Arc::clone(&monitor)));
    let taints_and_labels = Arc::new(NodeTaintAndLabelController(Arc::clone(&monitor)));
    let readiness = Arc::new(PodReadinessController(monitor));
    Arc::new(MonitorLoops {
        health_passes: Loop::start(name, context.clone(), health, health_queue, 1),
        tainting_passes: Loop::start(name, context.clone(), tainting, tainting_queue, 1),
        node_taints_and_labels: Loop::start(
            name,
            context.clone(),
            taints_and_labels,
            node_queue,
            MAX_NODES_WITH_CONCURRENT_REQUESTS,
        ),
        pod_readiness: Loop::start(name, context, readiness, pod_queue, POD_WORKERS),
    })
}

/// Enqueues the nodes and Pods that an event concerns. The records already contain the new state of a node when the event of
/// the node arrives.
struct MonitorHandlers {
    node_records: Arc<Mutex<NodeRecords>>,
    caches: Caches,
    node_queue: Queue<NamespacedName>,
    pod_queue: Queue<NamespacedName>,
}

impl MonitorHandlers {
    fn on_node(&self, event: &CacheEvent<Node>, origin: ChangeOrigin) {
        let (node, was_ready) = match event {
            CacheEvent::Added(node) => (node, true),
            CacheEvent::Updated { old, new } => (new, old.ready_status() == NodeReadyStatus::True),
            CacheEvent::Deleted(_) | CacheEvent::Unreadable(_) => return,
        };
        let name = &node.metadata.name;
        let newest = self.node_records.lock().node(name).map(Arc::clone);
        if newest.is_some_and(|node| needs_taint_or_label_change(&node)) {
            self.node_queue.add(NamespacedName::new("", name), origin);
        }
        // A failed kubelet cannot mark Pods as not ready, so this program does. A node that is `Unknown` when it is added may
        // have failed while no process was watching.
        if was_ready && node.ready_status() == NodeReadyStatus::Unknown {
            self.enqueue_ready_pods(name, origin);
        }
    }

    fn enqueue_ready_pods(&self, node: &NodeName, origin: ChangeOrigin) {
        for pod in self.caches.pods_on_node(node) {
            if pod.ready_status == PodReadyStatus::Other {
                self.pod_queue.add(pod.meta().key(), origin);
            }
        }
    }

    /// Enqueues a Pod that was assigned to a node that is not ready. A Pod that existed before this process started is enqueued
    /// only if its node is `Unknown`; on other nodes, the kubelet keeps the condition of the Pod up to date.
    fn on_pod(&self, event: &CacheEvent<CachedPod>, origin: ChangeOrigin) {
        let pod = match event {
            CacheEvent::Added(pod) => pod,
            CacheEvent::Updated { old, new } if old.node_name != new.node_name => new,
            _ => return,
        };
        if pod.node_name.is_empty() {
            return;
        }
        let ready_status = self.node_records.lock().node(&pod.node_name).map(|node| node.ready_status());
        let is_new = matches!(origin, ChangeOrigin::Watch | ChangeOrigin::Relist);
        let is_lost = match ready_status {
            Some(NodeReadyStatus::Unknown) => true,
            Some(NodeReadyStatus::False | NodeReadyStatus::Other) => is_new,
            Some(NodeReadyStatus::True | NodeReadyStatus::Missing) | None => false,
        };
        if is_lost {
            self.pod_queue.add(pod.meta().key(), origin);
        }
    }
}
