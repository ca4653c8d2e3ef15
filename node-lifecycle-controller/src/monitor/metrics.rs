//! What the node monitor counts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use common::{
    intern::Text,
    metrics::{Counter, Counters, Gauge, Gauges, Histogram, Metrics, Stability, exponential_buckets},
    runtime::Context,
};
use parking_lot::Mutex;

use crate::decide::zones::{Count, ZoneStanding};

use super::blindness::Blindness;

/// How many zones are counted by their key. Nodes choose their labels: those of later zones are counted as one.
const MAX_ZONES: usize = 256;
const OTHER_ZONES: &str = "(other zones)";

/// The metrics of the node monitor.
pub(crate) struct MonitorMetrics {
    health: Gauges,
    size: Gauges,
    unhealthy: Gauges,
    evictions: Counters,
    /// How long a node is looked at.
    pub(crate) node_duration: Histogram,
    /// How long a pass takes.
    pub(crate) pass_duration: Histogram,
    /// Nodes whose state a pass decided about.
    pub(crate) examined: Counter,
    /// For how long no node has been judged, in seconds.
    pub(crate) blind: Gauge,
    /// How often the process became blind.
    pub(crate) blind_times: Counter,
    /// The share of nodes that have or wait for a `NoExecute` taint.
    pub(crate) tainted_share: Gauge,
    /// Nodes that are not tainted because of the cap.
    pub(crate) held: Gauge,
    known: Mutex<BTreeSet<Text>>,
}

impl MonitorMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let zone_gauge = |name, help| metrics.gauge(name, Stability::Alpha, help, &["zone"]);
        let own_gauge = |name, help| metrics.gauge(name, Stability::Alpha, help, &[]).with(&[]);
        let own_counter = |name, help| metrics.counter(name, Stability::Alpha, help, &[]).with(&[]);
        let histogram = |name, help, start| {
            metrics.histogram(name, Stability::Alpha, help, &[], exponential_buckets(start, 4.0, 8)).with(&[])
        };
        Self {
            health: zone_gauge("node_collector_zone_health", "Gauge measuring percentage of healthy nodes per zone."),
            size: zone_gauge("node_collector_zone_size", "Gauge measuring number of registered Nodes per zones."),
            unhealthy: zone_gauge(
                "node_collector_unhealthy_nodes_in_zone",
                "Gauge measuring number of not Ready Nodes per zones.",
            ),
            evictions: metrics.counter(
                "node_collector_evictions_total",
                Stability::Stable,
                "Number of Node evictions that happened since current instance of NodeController started.",
                &["zone"],
            ),
            node_duration: histogram(
                "node_collector_update_node_health_duration_seconds",
                "Duration in seconds for NodeController to update the health of a single node.",
                0.001,
            ),
            pass_duration: histogram(
                "node_collector_update_all_nodes_health_duration_seconds",
                "Duration in seconds for NodeController to update the health of all nodes.",
                0.01,
            ),
            examined: own_counter(
                "nonet_node_monitor_examined_nodes_total",
                "Nodes that passes looked at, because they changed or because their time was over",
            ),
            blind: own_gauge(
                "nonet_node_monitor_blind_seconds",
                "For how long this process has judged no node, because it does not see what nodes do; 0 on a standby",
            ),
            blind_times: own_counter(
                "nonet_node_monitor_blind_total",
                "How often this process became blind to what nodes do",
            ),
            tainted_share: own_gauge(
                "nonet_node_tainted_share",
                "Share of all nodes that have a NoExecute taint of this program or wait for one",
            ),
            held: own_gauge(
                "nonet_node_taints_held",
                "Nodes that get no NoExecute taint because of --node-taint-max-share",
            ),
            known: Mutex::default(),
        }
    }

    /// Shows before every scrape for how long no node has been judged.
    pub(crate) fn show_blindness(&self, context: &Context, blindness: &Arc<Blindness>) {
        let blind = self.blind.clone();
        let blindness = Arc::downgrade(blindness);
        context.metrics.before_scrape(move || {
            let Some(blindness) = blindness.upgrade() else { return };
            blind.set(blindness.duration().map_or(0.0, |time| time.as_secs_f64()));
        });
    }

    /// The label of a zone.
    fn label<'a>(&self, zone: &'a Text) -> &'a str {
        let mut known = self.known.lock();
        if known.contains(zone) {
            return zone;
        }
        if known.len() >= MAX_ZONES {
            return OTHER_ZONES;
        }
        known.insert(zone.clone());
        self.evictions.with(&[zone]).inc_by(0);
        zone
    }

    /// A waiting node of a zone was tainted.
    pub(crate) fn evicted(&self, zone: &Text) {
        self.evictions.with(&[self.label(zone)]).inc();
    }

    /// The state of all zones, and those that have no node any more.
    pub(crate) fn zones(&self, zones: &BTreeMap<Text, ZoneStanding>, vanished: &BTreeSet<Text>) {
        let none = Count::default();
        let counts = zones.iter().map(|(zone, standing)| (zone, standing.count));
        for (zone, count) in counts.chain(vanished.iter().map(|zone| (zone, none))) {
            let label = self.label(zone);
            if label == OTHER_ZONES {
                continue;
            }
            let size = count.size();
            let health = if size == 0 { 100.0 } else { 100.0 * count.ready as f64 / size as f64 };
            self.health.with(&[label]).set(health);
            self.size.with(&[label]).set(size as f64);
            self.unhealthy.with(&[label]).set(count.not_ready as f64);
        }
    }
}
