//! Judges the health of nodes, and taints those on which Pods should not start or stay.
//!
//! Three work queues share what is remembered of all nodes ([`fleet`]):
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
mod flags;
pub(crate) mod fleet;
pub(crate) mod metrics;
mod notes;
pub(crate) mod readiness;
pub(crate) mod rounds;
mod running;
pub(crate) mod upkeep;
mod watch;

use std::{sync::Arc, time::Duration};

use common::{
    controller::Loop,
    informer::{self, AnyInformer, Listened},
    meta::Key,
    queue::{Backoff, Priority, Queue},
    runtime::{Context, LoopDefinition, Running},
    sequence::Executor,
};
use parking_lot::Mutex;

use crate::{
    caches::Caches,
    decide::{health::Grace, sight::Sight, tainting::BrakeLimits, zones::ZoneLimits},
    objects::{LEASE_NAMESPACE, Lease},
};

use blindness::Blindness;
use fleet::Fleet;
use metrics::MonitorMetrics;
use rounds::Round;

pub use flags::FLAGS;
pub(crate) use flags::NODE_MONITOR_GRACE_PERIOD;

/// How many nodes are worked on at once.
pub(crate) const NODE_WORKERS: usize = 8;
/// How many Pods are marked at once.
const POD_WORKERS: usize = 8;
/// The shortest pause between two passes, whatever is configured.
const MIN_PERIOD: Duration = Duration::from_millis(10);

/// The loop as the program and `--controllers` know it.
pub const NODE_LIFECYCLE: LoopDefinition = LoopDefinition {
    name: "node-lifecycle-controller",
    alias: "nodelifecycle",
    client: "node-controller",
    component: "node-controller",
    start,
};

/// What the three queues share.
pub(crate) struct Monitor {
    pub(crate) context: Context,
    executor: Executor,
    pub(crate) fleet: Arc<Mutex<Fleet>>,
    pub(crate) metrics: Arc<MonitorMetrics>,
    pub(crate) caches: Arc<Caches>,
    pub(crate) leases: Arc<Listened<Lease>>,
    pub(crate) rounds: Queue<Round>,
    pub(crate) grace: Grace,
    pub(crate) limits: ZoneLimits,
    pub(crate) brake: BrakeLimits,
    pub(crate) period: Duration,
    /// Whether the alarm about tainted nodes was raised and is not over.
    pub(crate) is_alarmed: Mutex<bool>,
    pub(crate) blindness: Arc<Blindness>,
    /// How long the machine had been suspended at the last pass.
    pub(crate) suspended: Mutex<Duration>,
}

fn start(context: Context) -> Arc<dyn Running> {
    let settings = &context.settings;
    let grace = Grace {
        monitor: settings.duration(&flags::NODE_MONITOR_GRACE_PERIOD),
        startup: settings.duration(&flags::NODE_STARTUP_GRACE_PERIOD),
    };
    let period = settings.duration(&flags::NODE_MONITOR_PERIOD).max(MIN_PERIOD);
    let limits = ZoneLimits {
        unhealthy_threshold: settings.ratio(&flags::UNHEALTHY_ZONE_THRESHOLD),
        large_threshold: settings.integer(&flags::LARGE_CLUSTER_SIZE_THRESHOLD),
        rate: settings.ratio(&flags::NODE_EVICTION_RATE),
        secondary_rate: settings.ratio(&flags::SECONDARY_NODE_EVICTION_RATE),
    };
    let brake = BrakeLimits {
        alarm: settings.ratio(&flags::NODE_TAINT_ALARM_SHARE),
        cap: settings.ratio(&flags::NODE_TAINT_MAX_SHARE),
    };
    let sight = Sight::new(period, grace.monitor.min(grace.startup));
    let fleet = Arc::new(Mutex::new(Fleet::new(sight, grace, limits)));
    let caches = Caches::of(&context);
    let of_leases = informer::Config { namespace: LEASE_NAMESPACE.to_owned(), ..context.caches() };
    let leases = Arc::new(Listened::start(context.api.clone(), of_leases, &[]));
    let nodes: Queue<Key> = context.queue("node_lifecycle_controller", Backoff::default());
    let pods: Queue<Key> = context.queue("node_lifecycle_controller_pods", Backoff::default());
    let rounds: Queue<Round> = context.queue("node_lifecycle_controller_rounds", Backoff::default());
    let watch = watch::Watch {
        fleet: Arc::clone(&fleet),
        clock: context.clock.clone(),
        caches: Arc::downgrade(&caches),
        leases: Arc::downgrade(&leases),
        nodes: nodes.clone(),
        pods: pods.clone(),
    };
    watch.register(&caches, &leases);
    let metrics = Arc::new(MonitorMetrics::new(&context.metrics));
    let blindness = Arc::new(Blindness::new(context.clone(), Arc::clone(&fleet)));
    metrics.show_blindness(&context, &blindness);
    let monitor = Arc::new(Monitor {
        context: context.clone(),
        executor: Executor::new(&context, None),
        fleet,
        metrics,
        caches,
        leases,
        rounds: rounds.clone(),
        grace,
        limits,
        brake,
        period,
        is_alarmed: Mutex::default(),
        blindness,
        suspended: Mutex::new(context.clock.suspended()),
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
        vec![self.caches.nodes.informer(), self.leases.informer(), self.caches.pods.informer()]
    }
}
