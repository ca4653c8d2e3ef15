//! Registers and updates the metrics of the node monitor.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use common::{
    api,
    metrics::{Counter, Counters, Gauge, Gauges, Histogram, Metrics, Stability, exponential_buckets},
    prelude::*,
};
use parking_lot::Mutex;

use crate::disruption::{NodeCounts, ZoneStatus};

use super::outage::MonitorOutage;

/// Maximum number of zones with their own value of the label `zone`. Nodes choose their zones, so the number of zones is
/// unlimited; further zones share one value. When all values are taken, a zone without nodes gives its value to a new zone.
const MAX_ZONES: usize = 256;
const OTHER_ZONES_LABEL: &str = "(other zones)";

/// Metric families of the node monitor.
pub(crate) struct MonitorMetrics {
    zone_health: Gauges,
    zone_size: Gauges,
    unhealthy_nodes_in_zone: Gauges,
    evictions: Counters,
    /// Seconds for the requests of a pass that change one node.
    pub(crate) node_update_duration: Histogram,
    /// Seconds from the snapshot of a pass to its last request.
    pub(crate) pass_duration: Histogram,
    /// Counts a node each time a pass examines it.
    pub(crate) examined_nodes_total: Counter,
    /// Seconds for which passes have made no decisions about nodes; 0 if they make decisions, and on a standby.
    pub(crate) outage_seconds: Gauge,
    /// Number of times that passes ceased to make decisions about nodes, because heartbeats may have been missed.
    pub(crate) outages_total: Counter,
    /// Share of nodes, between 0 and 1, with a `NoExecute` taint or waiting for one in a zone with a positive tainting rate.
    pub(crate) tainted_node_share: Gauge,
    /// Value of the flag `--node-taint-alarm-share`.
    pub(crate) taint_alarm_share: Gauge,
    failed_writes_total: Counters,
    /// Number of nodes that are not tainted because of the flag `--node-taint-max-share`.
    pub(crate) nodes_blocked_by_max_share: Gauge,
    /// Zones with their own value of the label `zone`. The value is false for a zone that has lost its last node.
    has_nodes_by_zone: Mutex<BTreeMap<Text, bool>>,
}

impl MonitorMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let zone_gauge = |name, help| metrics.gauge(name, Stability::Alpha, help, &["zone"]);
        let own_gauge = |name, help| metrics.gauge(name, Stability::Alpha, help, &[]).with_label_values(&[]);
        let own_counter = |name, help| metrics.counter(name, Stability::Alpha, help, &[]).with_label_values(&[]);
        let histogram = |name, help, start| {
            metrics
                .histogram(name, Stability::Alpha, help, &[], exponential_buckets(start, 4.0, 8))
                .with_label_values(&[])
        };
        Self {
            zone_health: zone_gauge(
                "node_collector_zone_health",
                "Gauge measuring percentage of healthy nodes per zone.",
            ),
            zone_size: zone_gauge("node_collector_zone_size", "Gauge measuring number of registered Nodes per zones."),
            unhealthy_nodes_in_zone: zone_gauge(
                "node_collector_unhealthy_nodes_in_zone",
                "Gauge measuring number of not Ready Nodes per zones.",
            ),
            evictions: metrics.counter(
                "node_collector_evictions_total",
                Stability::Stable,
                "Number of Node evictions that happened since current instance of NodeController started.",
                &["zone"],
            ),
            node_update_duration: histogram(
                "node_collector_update_node_health_duration_seconds",
                "Duration in seconds for NodeController to update the health of a single node.",
                0.001,
            ),
            pass_duration: histogram(
                "node_collector_update_all_nodes_health_duration_seconds",
                "Duration in seconds for NodeController to update the health of all nodes.",
                0.01,
            ),
            examined_nodes_total: own_counter(
                "nonet_node_monitor_examined_nodes_total",
                "Nodes that passes examined, because they changed or because their deadline had passed",
            ),
            outage_seconds: own_gauge(
                "nonet_node_monitor_blind_seconds",
                "Seconds for which this process has judged no node, because it has no live view of nodes and Leases; 0 on a standby",
            ),
            outages_total: own_counter(
                "nonet_node_monitor_blind_total",
                "Number of times this process lost its live view of nodes and Leases",
            ),
            tainted_node_share: own_gauge(
                "nonet_node_tainted_ratio",
                "Share of all nodes that have a NoExecute taint of this program or wait for one that their zone allows",
            ),
            taint_alarm_share: own_gauge(
                "nonet_node_taint_alarm_ratio",
                "Value of --node-taint-alarm-share, the share of tainted nodes above which an Event is recorded; 0: never",
            ),
            nodes_blocked_by_max_share: own_gauge(
                "nonet_node_taints_held",
                "Nodes that get no NoExecute taint because of --node-taint-max-share",
            ),
            failed_writes_total: metrics.counter(
                "nonet_node_writes_failed_total",
                Stability::Alpha,
                "Failed changes of conditions and NoExecute taints of nodes, by class of error",
                &["error"],
            ),
            has_nodes_by_zone: Mutex::default(),
        }
    }

    /// Updates the gauge of the time without decisions before every scrape of the metrics.
    pub(crate) fn update_outage_on_scrape(&self, context: &LoopContext, outage: &Arc<MonitorOutage>) {
        let (outage_seconds, outage) = (self.outage_seconds.clone(), Arc::downgrade(outage));
        context.metrics.run_before_each_scrape(move || {
            let Some(outage) = outage.upgrade() else { return };
            outage_seconds.set(outage.outage_duration().map_or(0.0, |time| time.as_secs_f64()));
        });
    }

    /// Returns the label value of a zone that has nodes; `OTHER_ZONES_LABEL` if all values are taken.
    fn zone_label<'a>(&self, zone: &'a Text) -> &'a str {
        let mut known = self.has_nodes_by_zone.lock();
        if let Some(has_nodes) = known.get_mut(zone) {
            *has_nodes = true;
            return zone;
        }
        if known.len() >= MAX_ZONES {
            let vanished = known.iter().find(|(_, has_nodes)| !**has_nodes);
            let Some(vanished) = vanished.map(|(zone, _)| zone.clone()) else { return OTHER_ZONES_LABEL };
            known.remove(&vanished);
            for gauges in [&self.zone_health, &self.zone_size, &self.unhealthy_nodes_in_zone] {
                gauges.remove(&[&vanished]);
            }
            self.evictions.remove(&[&vanished]);
        }
        known.insert(zone.clone(), true);
        self.evictions.with_label_values(&[zone]).inc_by(0);
        zone
    }

    /// Counts a node of this zone that got its `NoExecute` taint.
    pub(crate) fn count_tainted_node(&self, zone: &Text) {
        self.evictions.with_label_values(&[self.zone_label(zone)]).inc();
    }

    pub(crate) fn count_failed_write(&self, error: &api::Error) {
        self.failed_writes_total.with_label_values(&[error.metric_label()]).inc();
    }

    /// Updates the metrics of zones with nodes, and shows 0 nodes for zones that have lost their last node.
    pub(crate) fn update_zones(&self, zones: &BTreeMap<Text, ZoneStatus>, vanished: &BTreeSet<Text>) {
        for zone in vanished {
            if let Some(has_nodes) = self.has_nodes_by_zone.lock().get_mut(zone) {
                *has_nodes = false;
                self.set_zone_gauges(zone, NodeCounts::default());
            }
        }
        for (zone, status) in zones {
            let label = self.zone_label(zone);
            if label != OTHER_ZONES_LABEL {
                self.set_zone_gauges(label, status.node_counts);
            }
        }
    }

    fn set_zone_gauges(&self, label: &str, count: NodeCounts) {
        let size = count.total();
        let health = if size == 0 { 100.0 } else { 100.0 * count.ready as f64 / size as f64 };
        self.zone_health.with_label_values(&[label]).set(health);
        self.zone_size.with_label_values(&[label]).set(size as f64);
        self.unhealthy_nodes_in_zone.with_label_values(&[label]).set(count.not_ready as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disruption::ZoneState;

    fn zones(names: impl IntoIterator<Item = usize>) -> BTreeMap<Text, ZoneStatus> {
        let status = ZoneStatus { state: ZoneState::Normal, node_counts: NodeCounts { ready: 1, not_ready: 0 } };
        names.into_iter().map(|n| (Text::new(&format!("z{n:03}")), status)).collect()
    }

    fn lines(registry: &Metrics, name: &str) -> Vec<String> {
        registry.render_prometheus().lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
    }

    #[test]
    fn a_node_that_often_changes_its_zone_does_not_exhaust_the_label_values() {
        let registry = Metrics::new();
        let metrics = MonitorMetrics::new(&registry);
        for n in 0..2 * MAX_ZONES {
            let vanished = zones(n.checked_sub(1)).into_keys().collect();
            metrics.update_zones(&zones([n]), &vanished);
            metrics.count_tainted_node(&Text::new(&format!("z{n:03}")));
        }
        for name in ["node_collector_zone_size{", "node_collector_evictions_total{"] {
            let all = lines(&registry, name);
            assert_eq!(all.len(), MAX_ZONES, "{name}");
            assert!(all.contains(&format!("{name}zone=\"z511\"}} 1")), "{name}: {all:?}");
        }
        let last_but_one = "node_collector_zone_size{zone=\"z510\"} 0".to_owned();
        let sizes = lines(&registry, "node_collector_zone_size{");
        assert!(sizes.contains(&last_but_one), "the zone without nodes is still served, as in upstream");
    }

    /// NODE-74.
    #[test]
    fn zones_beyond_the_maximum_share_one_label_value() {
        let registry = Metrics::new();
        let metrics = MonitorMetrics::new(&registry);
        metrics.update_zones(&zones(0..MAX_ZONES + 2), &BTreeSet::new());
        assert_eq!(lines(&registry, "node_collector_zone_size{").len(), MAX_ZONES);
        metrics.count_tainted_node(&Text::new("z256"));
        assert!(lines(&registry, "node_collector_evictions").iter().any(|line| line.contains(OTHER_ZONES_LABEL)));
        // Zone 7 loses its nodes, and zone 256 gets its label value.
        let vanished = zones([7]).into_keys().collect();
        metrics.update_zones(&zones((0..=MAX_ZONES).filter(|n| *n != 7)), &vanished);
        let sizes = lines(&registry, "node_collector_zone_size{").join(" ");
        assert!(sizes.contains("z256") && !sizes.contains("z007"), "{sizes}");
    }
}
