//! Receives the heartbeats of nodes: one watch of Leases, and the records of all nodes.
//!
//! The node monitor and the taint eviction share the watch and the records. The node monitor detects nodes without heartbeats.
//! Before the taint eviction deletes Pods because of a taint of the node monitor, it checks that their node is not healthy.

use std::{sync::Arc, time::Duration};

use common::{duration, informer::InformerConfig, prelude::*};
use parking_lot::{Mutex, MutexGuard};

use crate::{
    disruption::ZoneSettings,
    flags,
    node_records::NodeRecords,
    objects::{LEASES, Lease, NODE_LEASE_NAMESPACE, Node, RenewTime},
    server_contact::ServerContact,
    silence::GracePeriods,
};

/// Lower limit of `--node-monitor-period`.
const MIN_MONITOR_PERIOD: Duration = Duration::from_millis(10);
/// After a longer suspension of the machine, heartbeats may have been missed, so all grace periods restart.
const MAX_SUSPENSION: Duration = Duration::from_secs(1);

/// The watch of Leases and the records of all nodes, shared by the node monitor and the taint eviction.
pub(crate) struct Heartbeats {
    pub(crate) node_records: Arc<Mutex<NodeRecords>>,
    pub(crate) lease_informer: Arc<SharedInformer<Lease>>,
    node_informer: Arc<SharedInformer<Node>>,
    clock: Clock,
    grace_periods: GracePeriods,
    pub(crate) node_monitor_period: Duration,
    /// Total time for which the machine had been suspended at the last check.
    suspended_at_check: Mutex<Duration>,
}

impl Heartbeats {
    /// Returns the shared instance of this process; the first call starts the watch of Leases.
    pub(crate) fn get_or_start(context: &LoopContext, node_informer: &Arc<SharedInformer<Node>>) -> Arc<Self> {
        context.shared_values.get_or_insert_with(|| Self::start(context, Arc::clone(node_informer)))
    }

    fn start(context: &LoopContext, node_informer: Arc<SharedInformer<Node>>) -> Self {
        let settings = &context.settings;
        let grace_periods = GracePeriods {
            node_monitor_grace_period: settings.tuned_duration(&flags::NODE_MONITOR_GRACE_PERIOD),
            node_startup_grace_period: settings.tuned_duration(&flags::NODE_STARTUP_GRACE_PERIOD),
        };
        let node_monitor_period = settings.tuned_duration(&flags::NODE_MONITOR_PERIOD).max(MIN_MONITOR_PERIOD);
        let zone_settings = ZoneSettings {
            unhealthy_zone_threshold: settings.tuned_ratio(&flags::UNHEALTHY_ZONE_THRESHOLD),
            large_zone_threshold: settings.tuned_integer(&flags::LARGE_CLUSTER_SIZE_THRESHOLD),
            eviction_rate: settings.tuned_ratio(&flags::NODE_EVICTION_RATE),
            secondary_eviction_rate: settings.tuned_ratio(&flags::SECONDARY_NODE_EVICTION_RATE),
        };
        let shortest_grace_period =
            grace_periods.node_monitor_grace_period.min(grace_periods.node_startup_grace_period);
        let server_contact = ServerContact::new(node_monitor_period, shortest_grace_period);
        let node_records = Arc::new(Mutex::new(NodeRecords::new(server_contact, grace_periods, zone_settings)));
        let namespace = NODE_LEASE_NAMESPACE.to_owned();
        let lease_config = InformerConfig { namespace, ..context.long_lived_cache_config() };
        let lease_informer = SharedInformer::<Lease>::start(context.api.clone(), lease_config);
        let clock = context.clock.clone();
        let handlers = Arc::new(HeartbeatHandlers {
            node_records: Arc::clone(&node_records),
            lease_store: Arc::clone(lease_informer.store()),
            clock: clock.clone(),
        });
        node_informer.add_handler(handler_from_method(&handlers, HeartbeatHandlers::on_node));
        lease_informer.add_handler(handler_from_method(&handlers, HeartbeatHandlers::on_lease));
        Self {
            node_records,
            lease_informer: Arc::new(lease_informer),
            node_informer,
            grace_periods,
            node_monitor_period,
            suspended_at_check: Mutex::new(clock.total_suspended_time()),
            clock,
        }
    }

    /// Returns the reason why this process may miss heartbeats, a suspension or a failing watch; `None` without such a reason.
    pub(crate) fn contact_problem(&self) -> Option<String> {
        if let Some(suspended) = self.suspended_for() {
            return Some(format!("the machine was suspended for {}", duration::format(suspended)));
        }
        let watches: [&dyn AnyInformer; 2] = [self.node_informer.informer(), self.lease_informer.informer()];
        watches.into_iter().find_map(|watch| {
            let state = watch.informer_status();
            state.failing_since?;
            let error = state.error.map_or_else(String::new, |(error, _)| error);
            Some(format!("{} cannot be watched: {error}", watch.resource()))
        })
    }

    fn suspended_for(&self) -> Option<Duration> {
        let suspended = self.clock.total_suspended_time().saturating_sub(*self.suspended_at_check.lock());
        (suspended > MAX_SUSPENSION).then_some(suspended)
    }

    /// Records whether a pass found a suspension or a failing watch. All grace periods restart after such a problem.
    pub(crate) fn record_contact_problem(&self, is_there: bool) {
        *self.suspended_at_check.lock() = self.clock.total_suspended_time();
        if is_there {
            self.node_records.lock().server_contact.record_interruption();
        }
    }

    /// Returns the minimum time until the taints of this program on a node can be confirmed; `None` if they are confirmed.
    pub(crate) fn time_until_taint_confirmation(&self, node: &str) -> Option<Duration> {
        if self.suspended_for().is_some() {
            self.record_contact_problem(true);
        }
        if self.contact_problem().is_some() {
            return Some(self.grace_periods.node_monitor_grace_period);
        }
        self.node_records.lock().time_until_taint_confirmation(node, self.clock.monotonic_now())
    }

    /// Records a node that was read from the server. The answer also shows that this process reaches the server.
    pub(crate) fn record_read_node(&self, node: &Arc<Node>) {
        let now = self.clock.monotonic_now();
        let mut node_records = self.node_records.lock();
        node_records.server_contact.record_contact(now);
        // A new node gets its record from an event of the watch.
        if node_records.node(&node.metadata.name).is_some_and(|known| known.metadata.uid == node.metadata.uid) {
            node_records.record_node(node, None, false, now);
        }
    }

    /// Records the renewal time of a node's Lease as read from the server; `None` if the Lease does not exist.
    pub(crate) fn record_read_lease(&self, node: &str, renew_time: Option<RenewTime>) {
        let now = self.clock.monotonic_now();
        let mut node_records = self.node_records.lock();
        node_records.server_contact.record_contact(now);
        if let Some(renew_time) = renew_time.filter(|time| node_records.is_new_lease_renewal(node, *time)) {
            node_records.record_lease_renewal(node, renew_time, now);
            node_records.examine_in_next_pass(node);
        }
    }
}

/// Records the heartbeats that the watches of Nodes and Leases bring.
struct HeartbeatHandlers {
    node_records: Arc<Mutex<NodeRecords>>,
    lease_store: Arc<Store<Lease>>,
    clock: Clock,
}

impl HeartbeatHandlers {
    /// Locks the records, and returns them with the current time. An event shows that a watch works, unless the event is of a
    /// resync, which only replays the cache.
    fn record_contact(&self, origin: ChangeOrigin) -> (MutexGuard<'_, NodeRecords>, Instant) {
        let (mut node_records, now) = (self.node_records.lock(), self.clock.monotonic_now());
        if origin != ChangeOrigin::Resync {
            node_records.server_contact.record_contact(now);
        }
        (node_records, now)
    }

    fn on_lease(&self, event: &CacheEvent<Lease>, origin: ChangeOrigin) {
        let (mut node_records, now) = self.record_contact(origin);
        if let CacheEvent::Added(new) | CacheEvent::Updated { new, .. } = event {
            node_records.record_lease_renewal(&new.meta().name, new.renew_time(), now);
        }
    }

    fn on_node(&self, event: &CacheEvent<Node>, origin: ChangeOrigin) {
        let (mut node_records, now) = self.record_contact(origin);
        match event {
            CacheEvent::Added(new) | CacheEvent::Updated { new, .. } => {
                let lease = self.lease_store.get_decoded(NODE_LEASE_NAMESPACE, &new.metadata.name);
                let renew_time = lease.map(|lease| lease.renew_time());
                node_records.record_node(new, renew_time, origin == ChangeOrigin::Relist, now);
            }
            // A node that cannot be decoded has no record, so passes ignore the node.
            CacheEvent::Deleted(_) | CacheEvent::Unreadable(_) => node_records.remove_node(&event.meta().name),
        }
    }
}

/// Reads the Lease of a node from the server. Returns `None` if the Lease does not exist, and in a forecast.
pub(crate) async fn read_lease_renewal<C: Sync>(node: &Arc<str>, io: Io<'_, C>) -> Result<Option<RenewTime>, Refusal> {
    let request = Request::get(LEASES, &NODE_LEASE_NAMESPACE.into(), node);
    match io.send_and_decode::<Lease>(request.with_reason("the node may have renewed it meanwhile")).await {
        Err(refusal) if refusal.error.is_not_found() => Ok(None),
        lease => Ok(lease?.map(|lease| lease.renew_time())),
    }
}
