//! Judges the health of nodes, and taints nodes on which Pods should not start or stay.
//!
//! Three loops share the records of all nodes ([`crate::fleet`]):
//!
//! - [`rounds`]: a pass every few seconds over nodes that changed or whose deadline has passed, and the tainting of waiting
//!   nodes, one after the other in each zone;
//! - [`upkeep`]: taints that follow from the conditions of a node, and copies of its labels;
//! - [`readiness`]: the condition `Ready` of Pods, which becomes `False` if the node of the Pod is not ready.
//!
//! The node monitor deletes no Pod; [`crate::eviction`] deletes Pods because of `NoExecute` taints.
//!
//! In doubt, nothing is done. A node counts as silent only if this process received events and answers during the grace period
//! ([`crate::sight`]). The Lease of a silent node is read from the server before its conditions are written. A write of taints
//! names the judged version of the node as precondition.
//!
//! Upstream: `pkg/controller/nodelifecycle`.

mod blindness;
mod change;
mod memory;
mod metrics;
mod nodes;
mod notes;
mod readiness;
pub(crate) mod rounds;
mod running;
pub(crate) mod upkeep;
mod watch;

use std::sync::Arc;

use common::{
    controller::Loop,
    meta::Key,
    queue::{Backoff, Priority, Queue},
    runtime::{Context, LoopDefinition, Running},
};
use parking_lot::Mutex;

use crate::{caches::Caches, flags, heartbeats::Heartbeats};

use blindness::Blindness;
use memory::Monitor;
use metrics::MonitorMetrics;
use nodes::NODE_WORKERS;
use readiness::Readiness;
use rounds::{Round, Rounds, snapshot::BrakeLimits};
use running::Trio;
use upkeep::Upkeep;
use watch::Watch;

/// Number of Pods that are marked as not ready concurrently, by their condition `Ready`.
const POD_WORKERS: usize = 8;

/// The node monitor as one loop of the program.
pub const NODE_LIFECYCLE: LoopDefinition = LoopDefinition {
    name: "node-lifecycle-controller",
    alias: "nodelifecycle",
    client: "node-controller",
    component: "node-controller",
    // Other loops of kube-controller-manager write nodes and their statuses, too: attach-detach and node-ipam, for example.
    owned_writes: &[],
    start,
};

fn start(context: Context) -> Arc<dyn Running> {
    let settings = &context.settings;
    let brake = BrakeLimits {
        alarm: settings.ratio(&flags::NODE_TAINT_ALARM_SHARE),
        cap: settings.ratio(&flags::NODE_TAINT_MAX_SHARE),
    };
    let (caches, heartbeats) = (Caches::of(&context), Heartbeats::of(&context));
    let fleet = Arc::clone(&heartbeats.fleet);
    let nodes: Queue<Key> = context.queue("node_lifecycle_controller", Backoff::default());
    let pods: Queue<Key> = context.queue("node_lifecycle_controller_pods", Backoff::default());
    let rounds: Queue<Round> = context.queue("node_lifecycle_controller_rounds", Backoff::default());
    let watch =
        Watch { fleet: Arc::clone(&fleet), caches: Arc::downgrade(&caches), nodes: nodes.clone(), pods: pods.clone() };
    watch.register(&caches);
    let metrics = Arc::new(MonitorMetrics::new(&context.metrics));
    let blindness = Arc::new(Blindness::new(context.clone(), Arc::clone(&fleet)));
    metrics.show_blindness(&context, &blindness);
    metrics.alarm_share.set(f64::from(brake.alarm.max(0.0)));
    let monitor = Arc::new(Monitor { context: context.clone(), fleet, metrics, caches, heartbeats, blindness });
    rounds.add(Round::Health, Priority::Normal);
    let name = NODE_LIFECYCLE.name;
    let of_rounds =
        Rounds { monitor: Arc::clone(&monitor), queue: rounds.clone(), brake, is_alarmed: Mutex::default() };
    let of_nodes = Upkeep(Arc::clone(&monitor));
    let of_pods = Readiness(monitor);
    Arc::new(Trio {
        rounds: Loop::start(name, context.clone(), Arc::new(of_rounds), rounds, 2),
        nodes: Loop::start(name, context.clone(), Arc::new(of_nodes), nodes, NODE_WORKERS),
        pods: Loop::start(name, context, Arc::new(of_pods), pods, POD_WORKERS),
    })
}
