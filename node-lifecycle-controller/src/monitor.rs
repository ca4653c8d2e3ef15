//! Monitors the health of nodes, and taints nodes on which Pods should not start or not continue to run.
//!
//! Three loops share the records of all nodes ([`crate::node_records`]):
//!
//! - [`node_pass`]: passes over nodes that changed or have reached their deadline, and over nodes that wait for a taint, which
//!   are tainted one after the other in each zone;
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
mod memory;
mod metrics;
pub(crate) mod node_pass;
mod nodes;
mod notes;
mod outage;
mod readiness;
mod running;
pub(crate) mod taints_and_labels;
mod watch;

use std::sync::Arc;

use common::{
    controller::Loop,
    meta::NamespacedName,
    queue::{BackoffSettings, Priority, Queue},
    runtime::{LoopContext, LoopDefinition, RunningLoop},
};
use parking_lot::Mutex;

use crate::{caches::Caches, flags, heartbeats::Heartbeats};

use memory::NodeMonitor;
use metrics::MonitorMetrics;
use node_pass::{NodePassController, PassKind, snapshot::TaintShareLimits};
use nodes::MAX_NODES_WITH_CONCURRENT_REQUESTS;
use outage::MonitorOutage;
use readiness::PodReadinessController;
use running::MonitorLoops;
use taints_and_labels::NodeTaintAndLabelController;
use watch::MonitorHandlers;

/// Number of Pods for which the condition `Ready` is set to `False` concurrently.
const POD_WORKERS: usize = 8;

/// The node monitor as one loop of the program.
pub const NODE_LIFECYCLE_LOOP: LoopDefinition = LoopDefinition {
    name: "node-lifecycle-controller",
    alias: "nodelifecycle",
    user_agent_suffix: "node-controller",
    event_component: "node-controller",
    // Other loops of kube-controller-manager write nodes and their statuses, too: attach-detach and node-ipam, for example.
    owned_writes: &[],
    start_loop: start,
};

fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
    let settings = &context.settings;
    let brake = TaintShareLimits {
        alarm_share: settings.tuned_ratio(&flags::NODE_TAINT_ALARM_SHARE),
        max_share: settings.tuned_ratio(&flags::NODE_TAINT_MAX_SHARE),
    };
    let (caches, heartbeats) = (Caches::get_or_start(&context), Heartbeats::get_or_start(&context));
    let fleet = Arc::clone(&heartbeats.node_records);
    let nodes: Queue<NamespacedName> = context.new_queue("node_lifecycle_controller", BackoffSettings::default());
    let pods: Queue<NamespacedName> = context.new_queue("node_lifecycle_controller_pods", BackoffSettings::default());
    let rounds: Queue<PassKind> = context.new_queue("node_lifecycle_controller_rounds", BackoffSettings::default());
    let watch = MonitorHandlers {
        node_records: Arc::clone(&fleet),
        caches: Arc::downgrade(&caches),
        node_queue: nodes.clone(),
        pod_queue: pods.clone(),
    };
    watch.register(&caches);
    let metrics = Arc::new(MonitorMetrics::new(&context.metrics));
    let blindness = Arc::new(MonitorOutage::new(context.clone(), Arc::clone(&fleet)));
    metrics.update_outage_on_scrape(&context, &blindness);
    metrics.taint_alarm_share.set(f64::from(brake.alarm_share.max(0.0)));
    let monitor = Arc::new(NodeMonitor {
        context: context.clone(),
        node_records: fleet,
        metrics,
        caches,
        heartbeats,
        outage: blindness,
    });
    rounds.add(PassKind::Health, Priority::Normal);
    let name = NODE_LIFECYCLE_LOOP.name;
    let of_rounds = NodePassController {
        monitor: Arc::clone(&monitor),
        queue: rounds.clone(),
        share_limits: brake,
        is_taint_alarm_active: Mutex::default(),
    };
    let of_nodes = NodeTaintAndLabelController(Arc::clone(&monitor));
    let of_pods = PodReadinessController(monitor);
    Arc::new(MonitorLoops {
        node_passes: Loop::start(name, context.clone(), Arc::new(of_rounds), rounds, 2),
        node_taints_and_labels: Loop::start(
            name,
            context.clone(),
            Arc::new(of_nodes),
            nodes,
            MAX_NODES_WITH_CONCURRENT_REQUESTS,
        ),
        pod_readiness: Loop::start(name, context, Arc::new(of_pods), pods, POD_WORKERS),
    })
}
