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
//! ([`crate::decide::sight`]); before anything is written because of that, its Lease is read from the server. Taints are
//! written onto the version of the node that was judged.
//!
//! Upstream: `pkg/controller/nodelifecycle`.

pub(crate) mod blindness;
pub(crate) mod metrics;
mod notes;
pub(crate) mod readiness;
pub(crate) mod rounds;
mod running;
pub(crate) mod upkeep;
mod watch;

use std::sync::Arc;

use common::{
    controller::Loop,
    informer::AnyInformer,
    meta::Key,
    queue::{Backoff, Priority, Queue},
    runtime::{Context, LoopDefinition, Running},
};
use parking_lot::Mutex;

use crate::{caches::Caches, decide::tainting::BrakeLimits, flags, fleet::Fleet, heartbeats::Heartbeats};

use blindness::Blindness;
use metrics::MonitorMetrics;
use rounds::Round;

/// How many nodes are worked on at once.
pub(crate) const NODE_WORKERS: usize = 8;
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

/// What the three queues share.
pub(crate) struct Monitor {
    pub(crate) context: Context,
    pub(crate) fleet: Arc<Mutex<Fleet>>,
    pub(crate) metrics: Arc<MonitorMetrics>,
    pub(crate) caches: Arc<Caches>,
    pub(crate) heartbeats: Arc<Heartbeats>,
    pub(crate) rounds: Queue<Round>,
    pub(crate) brake: BrakeLimits,
    /// Whether the alarm about tainted nodes was raised and is not over.
    pub(crate) is_alarmed: Mutex<bool>,
    pub(crate) blindness: Arc<Blindness>,
}

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
    let watch = watch::Watch {
        fleet: Arc::clone(&fleet),
        caches: Arc::downgrade(&caches),
        nodes: nodes.clone(),
        pods: pods.clone(),
    };
    watch.register(&caches);
    let metrics = Arc::new(MonitorMetrics::new(&context.metrics));
    let blindness = Arc::new(Blindness::new(context.clone(), Arc::clone(&fleet)));
    metrics.show_blindness(&context, &blindness);
    metrics.alarm_share.set(f64::from(brake.alarm.max(0.0)));
    let monitor = Arc::new(Monitor {
        context: context.clone(),
        fleet,
        metrics,
        caches,
        heartbeats,
        rounds: rounds.clone(),
        brake,
        is_alarmed: Mutex::default(),
        blindness,
    });
    rounds.add(Round::Health, Priority::Normal);
    let name = NODE_LIFECYCLE.name;
    let of_rounds = Arc::new(rounds::Rounds(Arc::clone(&monitor)));
    let of_nodes = Arc::new(upkeep::Upkeep(Arc::clone(&monitor)));
    let of_pods = Arc::new(readiness::Readiness(monitor));
    Arc::new(running::Trio {
        rounds: Loop::start(name, context.clone(), of_rounds, rounds, 2),
        nodes: Loop::start(name, context.clone(), of_nodes, nodes, NODE_WORKERS),
        pods: Loop::start(name, context, of_pods, pods, POD_WORKERS),
    })
}

impl Monitor {
    pub(crate) fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![self.caches.nodes.informer(), self.heartbeats.leases.informer(), self.caches.pods.informer()]
    }
}
