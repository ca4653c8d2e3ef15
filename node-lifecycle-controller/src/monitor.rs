//! Judges the health of nodes, and taints those on which Pods should not start or stay.
//!
//! Three work queues share what is remembered of all nodes ([`crate::fleet`]):
//!
//! - [`rounds`]: a pass every few seconds over nodes that changed or are due, and the tainting of waiting nodes, one after
//!   the other in each zone;
//! - [`upkeep`]: taints that follow from the conditions of a node, and copies of its labels;
//! - [`readiness`]: Pods whose node is not ready.
//!
//! No Pod is deleted here: that is what [`crate::eviction`] does about `NoExecute` taints.
//!
//! It errs on the side of doing nothing. A node counts as silent only if this process would have heard of it
//! ([`crate::sight`]); before anything is written because of that, its Lease is read from the server. Taints are
//! written onto the version of the node that was judged.
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

/// How many Pods are marked at once.
const POD_WORKERS: usize = 8;

/// The loop as the program and `--controllers` know it.
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
