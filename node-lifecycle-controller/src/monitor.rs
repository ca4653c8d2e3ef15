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

pub(crate) mod health;
mod metrics;
mod nodes;
mod outage;
mod readiness;
pub(crate) mod tainting;
pub(crate) mod taints_and_labels;

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use common::{api, duration, prelude::*, runtime::LoopGroup};
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::{
    health::{HealthPassKey, NodeHealthController, decide::NodesToReport},
    metrics::MonitorMetrics,
    nodes::MAX_NODES_WITH_CONCURRENT_REQUESTS,
    outage::MonitorOutage,
    readiness::PodReadinessController,
    tainting::{NodeTaintingController, TaintingPassKey, decide::TaintShareLimits},
    taints_and_labels::{
        NodeTaintAndLabelController,
        decide::{NodeChangeFailure, needs_taint_or_label_change},
    },
};
use crate::{
    caches::Caches,
    flags,
    heartbeats::Heartbeats,
    node_records::NodeRecords,
    objects::{CachedPod, Lease, NODES, Node, NodeReadyStatus, PodReadyStatus},
};

/// Number of Pods for which the condition `Ready` is set to `False` concurrently.
const POD_WORKERS: usize = 8;
/// Maximum number of nodes with a failed change that `/debug/explain` lists.
const MAX_LISTED_FAILURES: usize = 100;

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
    let readiness = Arc::new(PodReadinessController(Arc::clone(&monitor)));
    let loops = LoopGroup(vec![
        ("health", Loop::start(name, context.clone(), health, health_queue, 1)),
        ("tainting", Loop::start(name, context.clone(), tainting, tainting_queue, 1)),
        (
            "nodes",
            Loop::start(name, context.clone(), taints_and_labels, node_queue, MAX_NODES_WITH_CONCURRENT_REQUESTS),
        ),
        ("pods", Loop::start(name, context, readiness, pod_queue, POD_WORKERS)),
    ]);
    Arc::new(RunningMonitor { loops, monitor })
}

/// The records, caches and metrics that the loops of the node monitor share.
struct NodeMonitor {
    context: LoopContext,
    node_records: Arc<Mutex<NodeRecords>>,
    metrics: MonitorMetrics,
    caches: Caches,
    heartbeats: Arc<Heartbeats>,
    outage: Arc<MonitorOutage>,
    share_limits: TaintShareLimits,
    /// Whether the alarm about tainted nodes was raised and their share still exceeds the flag `--node-taint-alarm-share`.
    is_taint_alarm_active: Mutex<bool>,
    /// The queue of the tainting passes. A health pass adds their key while nodes wait for a taint.
    tainting_queue: Queue<TaintingPassKey>,
}

impl NodeMonitor {
    fn now(&self) -> Instant {
        self.context.clock.monotonic_now()
    }

    /// Returns the reason why passes make no decisions about nodes; `None` if they make decisions.
    fn outage_reason(&self) -> Option<String> {
        let outage_duration = self.outage.outage_duration();
        let outage =
            outage_duration.map(|time| format!("blind for {}", duration::format(Duration::from_secs(time.as_secs()))));
        match (self.heartbeats.contact_problem(), outage) {
            (Some(problem), Some(outage)) => Some(format!("{outage}: {problem}")),
            (problem, outage) => problem.or(outage),
        }
    }

    /// Creates the Events of nodes that were added, removed, or set to `Unknown` by an unanswered write.
    fn report_nodes(&self, nodes: &NodesToReport) {
        for (name, uid) in &nodes.added_nodes {
            let message = format!("Node {name} event: Registered Node {name} in Controller");
            self.report_event(name, uid, "RegisteredNode", message);
        }
        for (name, uid) in &nodes.removed_nodes {
            let message = format!("Node {name} event: Removing Node {name} from Controller");
            self.report_event(name, uid, "RemovingNode", message);
        }
        for (name, uid) in &nodes.nodes_set_unknown {
            self.record_not_ready(name, uid);
        }
    }

    /// Records that the condition `Ready` of a node is no longer `True`, and creates an Event.
    fn record_not_ready(&self, name: &str, uid: &Uid) {
        self.node_records.lock().record_successful_condition_write(name);
        self.report_event(name, uid, "NodeNotReady", format!("Node {name} status is now: NodeNotReady"));
    }

    fn report_event(&self, name: &str, uid: &Uid, reason: &'static str, message: String) {
        let node = InvolvedObject::without_version(NODES, "", name, uid.clone());
        self.context.recorder.record_event(&node, EventType::Normal, reason, message);
    }

    /// Counts a failed change of a node, and stores it for explanations until a change succeeds.
    fn record_change_result(&self, name: &str, what: &str, error: Option<&api::Error>) {
        let failure = error.map(|error| {
            self.metrics.count_failed_write(error);
            NodeChangeFailure { error: format!("{what}: {error}"), failed_at: self.context.clock.now() }
        });
        self.node_records.lock().record_node_change_result(name, failure);
    }
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
            let pods = self.caches.pods_on_node(name).into_iter();
            for pod in pods.filter(|pod| pod.ready_status == PodReadyStatus::Other) {
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

/// The running loops of the node monitor, with diagnostics of the nodes.
struct RunningMonitor {
    loops: LoopGroup,
    monitor: Arc<NodeMonitor>,
}

impl RunningLoop for RunningMonitor {
    fn check_ready(&self) -> Result<(), String> {
        self.loops.check_ready()
    }

    fn problems_besides_readiness(&self) -> Option<String> {
        self.monitor.outage_reason()
    }

    fn debug_queue(&self) -> Value {
        self.loops.debug_queue()
    }

    fn debug_cache(&self) -> Value {
        self.loops.debug_cache()
    }

    /// Explains a key: `health` and `tainting` are passes, a name is a node, and a name with a namespace is a Pod.
    fn explain(&self, key: Option<&str>) -> Value {
        let mut out = self.loops.explain(key);
        if key.is_none() {
            let failures = self.monitor.node_records.lock().nodes_with_failed_change(MAX_LISTED_FAILURES);
            if let Some(failing) = out["failing"].as_array_mut() {
                failing.extend(failures.into_iter().map(|(node, failure)| {
                    let error = json!({"error": failure.error, "at": failure.failed_at.to_string()});
                    json!({"key": &*node, "state": "failing", "lastError": error})
                }));
            }
            out["blind"] = json!(self.problems_besides_readiness());
        }
        out
    }

    fn shutdown(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.loops.shutdown()
    }
}
