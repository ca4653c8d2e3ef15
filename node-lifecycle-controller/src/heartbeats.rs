//! Receives the heartbeats of nodes: one watch of Leases, and the records of all nodes.
//!
//! The node monitor and the taint eviction share the watch and the records. The node monitor decides by heartbeats whether a
//! node is silent. Before the taint eviction deletes Pods because of a taint of the monitor, it checks that their node is not
//! healthy.

use std::{sync::Arc, time::Duration};

use common::{
    clock::{Clock, Instant},
    duration,
    informer::{self, AnyInformer, SharedInformer},
    object::Object as _,
    runtime::Context,
    store::{Event, Origin},
};
use parking_lot::Mutex;

use crate::{
    caches::Caches,
    disruption::ZoneLimits,
    flags,
    fleet::Fleet,
    objects::{LEASE_NAMESPACE, Lease, Name, Node, Renewal},
    sight::Sight,
    silence::Grace,
};

/// Lower limit of `--node-monitor-period`.
const MIN_PERIOD: Duration = Duration::from_millis(10);
/// After a longer suspension of the machine, heartbeats may have been missed, so all grace periods restart.
const SUSPENSION: Duration = Duration::from_secs(1);

/// The watch of Leases and the records of all nodes, shared by the node monitor and the taint eviction.
pub(crate) struct Heartbeats {
    pub(crate) fleet: Arc<Mutex<Fleet>>,
    pub(crate) leases: SharedInformer<Lease>,
    caches: Arc<Caches>,
    clock: Clock,
    grace: Grace,
    /// Pause between two passes of the node monitor.
    pub(crate) period: Duration,
    /// Total time for which the machine had been suspended at the last check.
    suspended: Mutex<Duration>,
}

impl Heartbeats {
    /// Returns the shared instance of this process; the first call starts the watch of Leases.
    pub(crate) fn of(context: &Context) -> Arc<Self> {
        let caches = Caches::of(context);
        context.shared.get_or_make(|| Self::start(context, caches))
    }

    fn start(context: &Context, caches: Arc<Caches>) -> Self {
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
        let sight = Sight::new(period, grace.monitor.min(grace.startup));
        let fleet = Arc::new(Mutex::new(Fleet::new(sight, grace, limits)));
        let of_leases = informer::Config { namespace: LEASE_NAMESPACE.to_owned(), ..context.caches() };
        let leases: SharedInformer<Lease> = SharedInformer::start(context.api.clone(), of_leases);
        let clock = context.clock.clone();
        let (known, records, time) = (Arc::clone(leases.store()), Arc::clone(&fleet), clock.clone());
        caches.nodes.add_handler(Box::new(move |event, origin| {
            let renewal = |name: &Name| known.get_readable(LEASE_NAMESPACE, name).map(|lease| lease.renewed());
            on_node(&mut records.lock(), event, origin, renewal, time.instant());
        }));
        let (records, time) = (Arc::clone(&fleet), clock.clone());
        leases.add_handler(Box::new(move |event, origin| on_lease(&mut records.lock(), event, origin, time.instant())));
        let suspended = Mutex::new(clock.suspended());
        Self { fleet, leases, caches, clock, grace, period, suspended }
    }

    /// Returns the problem that keeps heartbeats from this process, a suspension or a failing watch; `None` if there is none.
    pub(crate) fn trouble(&self) -> Option<String> {
        if let Some(suspended) = self.suspended_for() {
            return Some(format!("the machine was suspended for {}", duration::format(suspended)));
        }
        let watches: [&dyn AnyInformer; 2] = [self.caches.nodes.informer(), self.leases.informer()];
        watches.into_iter().find_map(|watch| {
            let state = watch.state();
            state.failing_since?;
            let error = state.error.map_or_else(String::new, |(error, _)| error);
            Some(format!("{} cannot be watched: {error}", watch.resource()))
        })
    }

    fn suspended_for(&self) -> Option<Duration> {
        let suspended = self.clock.suspended().saturating_sub(*self.suspended.lock());
        (suspended > SUSPENSION).then_some(suspended)
    }

    /// Records whether a pass found a suspension or a failing watch. All grace periods restart after such a problem.
    pub(crate) fn note_trouble(&self, is_there: bool) {
        *self.suspended.lock() = self.clock.suspended();
        if is_there {
            self.fleet.lock().sight.lose();
        }
    }

    /// Returns the minimum time until the taints of this program on a node can be confirmed; `None` if they are confirmed.
    pub(crate) fn unconfirmed_for(&self, node: &str) -> Option<Duration> {
        if self.suspended_for().is_some() {
            self.note_trouble(true);
        }
        if self.trouble().is_some() {
            return Some(self.grace.monitor);
        }
        self.fleet.lock().unconfirmed_for(node, self.clock.instant())
    }

    /// Records a node that was read from the server. The answer also shows that this process reaches the server.
    pub(crate) fn node_was_read(&self, node: &Arc<Node>) {
        let now = self.clock.instant();
        let mut fleet = self.fleet.lock();
        fleet.sight.note(now);
        // A new node gets its record from an event of the watch.
        if fleet.node(&node.metadata.name).is_some_and(|known| known.metadata.uid == node.metadata.uid) {
            fleet.see(node, None, false, now);
        }
    }

    /// Records the Lease of a node that was read from the server; `None` if the Lease does not exist.
    pub(crate) fn lease_was_read(&self, node: &str, lease: Option<Renewal>) {
        let now = self.clock.instant();
        let mut fleet = self.fleet.lock();
        fleet.sight.note(now);
        if let Some(renewal) = lease.filter(|renewal| fleet.is_news(node, *renewal)) {
            fleet.renewed(node, renewal, now);
            fleet.touch(node);
        }
    }
}

/// Whether an event shows that a watch works. A resync does not, because it only replays the cache.
fn is_news(origin: Origin) -> bool {
    origin != Origin::Resync
}

fn on_lease(fleet: &mut Fleet, event: &Event<Lease>, origin: Origin, now: Instant) {
    if is_news(origin) {
        fleet.sight.note(now);
    }
    if let Event::Added(lease) | Event::Updated { new: lease, .. } = event {
        fleet.renewed(&lease.meta().name, lease.renewed(), now);
    }
}

fn on_node(
    fleet: &mut Fleet,
    event: &Event<Node>,
    origin: Origin,
    renewal: impl Fn(&Name) -> Option<Renewal>,
    now: Instant,
) {
    if is_news(origin) {
        fleet.sight.note(now);
    }
    match event {
        Event::Added(node) | Event::Updated { new: node, .. } => {
            fleet.see(node, renewal(&node.metadata.name), origin == Origin::Relist, now);
        }
        // A node that cannot be decoded has no record, so no pass judges it.
        Event::Deleted(_) | Event::Unreadable(_) => fleet.forget(&event.meta().name),
    }
}
