//! The zones of Nodes, and each zone's share of the CPU.

use std::collections::BTreeMap;

use common::prelude::*;

use crate::objects::Node;

/// The maximum load of a zone relative to its share. Upstream: `OverloadThreshold`.
const OVERLOAD_THRESHOLD: f64 = 1.2;

/// The zone of every Node in the cache, by the Node's name; empty for a Node without a zone.
pub type ZonesByNode = HashMap<Text, Text>;

/// The share of each zone in the CPU of all zones, from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ZoneCpuShares(pub(crate) BTreeMap<Text, f64>);

/// The number of endpoints hinted to each zone.
pub type EndpointCountsByZone = BTreeMap<Text, usize>;

/// The CPU of each zone, updated with each change of a Node.
#[derive(Clone, Debug, Default)]
pub struct ZoneCapacity {
    /// Millicores and the number of Nodes, by zone.
    zones: BTreeMap<Text, (i128, usize)>,
    /// The number of Nodes without a zone or without CPU.
    incomplete: usize,
}

impl ZoneCapacity {
    /// Adds the CPU of a Node. Nodes that are not ready, or are excluded by a label, are ignored.
    pub fn add_node(&mut self, node: &Node) {
        self.count(node, 1);
    }

    /// Subtracts the CPU of a Node. The Node must be in the same state as when it was added.
    pub fn remove_node(&mut self, node: &Node) {
        self.count(node, -1);
    }

    fn count(&mut self, node: &Node, times: i8) {
        if !(node.is_counted_in_zone_capacity && node.is_ready) {
            return;
        }
        if node.zone.is_empty() || node.allocatable_millicores == 0 {
            self.incomplete = self.incomplete.saturating_add_signed(times.into());
            return;
        }
        let (cpu, nodes) = self.zones.entry(node.zone.clone()).or_default();
        *cpu += i128::from(node.allocatable_millicores) * i128::from(times);
        *nodes = nodes.saturating_add_signed(times.into());
        if *nodes == 0 {
            self.zones.remove(&node.zone);
        }
    }

    /// Returns the share of each zone; `None` if a Node lacks its zone or CPU, or if there are fewer than two zones.
    pub fn zone_cpu_shares(&self) -> Option<ZoneCpuShares> {
        let total: i128 = self.zones.values().map(|(cpu, _)| cpu).sum();
        if self.incomplete > 0 || self.zones.len() < 2 || total == 0 {
            return None;
        }
        let share = |(zone, (cpu, _)): (&Text, &(i128, usize))| (zone.clone(), *cpu as f64 / total as f64);
        Some(ZoneCpuShares(self.zones.iter().map(share).collect()))
    }
}

/// Whether hints are outdated: a zone has fewer endpoints than its minimum, or the shares of the zones are unknown.
pub fn has_overloaded_zone(shares: Option<&ZoneCpuShares>, endpoint_counts: &EndpointCountsByZone) -> bool {
    let Some(shares) = shares else { return true };
    let total: usize = endpoint_counts.values().sum();
    shares.0.iter().any(|(zone, share)| {
        endpoint_counts.get(zone).is_none_or(|count| *count < min_endpoint_count_for_share(total as f64 * share))
    })
}

/// Returns the minimum number of endpoints for a zone with this share of all endpoints.
pub(crate) fn min_endpoint_count_for_share(share: f64) -> usize {
    (share * (1.0 / OVERLOAD_THRESHOLD)).ceil() as usize
}
