//! The zones of Nodes, and their shares of the CPU.

use std::collections::BTreeMap;

use common::{intern::Text, map::HashMap};

use crate::objects::Node;

/// How much more than its share a zone may have to serve. Upstream: `OverloadThreshold`.
const OVERLOAD: f64 = 1.2;

/// The zone of every Node in the cache, by the Node's name; empty if the Node has none.
pub type Zones = HashMap<Text, Text>;

/// The share of each zone in the CPUs of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ratios(pub(crate) BTreeMap<Text, f64>);

/// How many endpoints serve a zone.
pub type Counts = BTreeMap<Text, usize>;

/// The CPU of all zones, kept up to date Node by Node.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    /// Thousandths of CPUs, and the number of Nodes.
    zones: BTreeMap<Text, (i128, usize)>,
    /// The number of Nodes without a zone or without CPUs.
    incomplete: usize,
}

impl Capacity {
    /// Adds the CPU of a Node. A Node that is not ready, or is excluded by its labels, counts for nothing.
    pub fn add(&mut self, node: &Node) {
        self.count(node, 1);
    }

    /// Takes the CPU of a Node away that was added in this state.
    pub fn remove(&mut self, node: &Node) {
        self.count(node, -1);
    }

    fn count(&mut self, node: &Node, times: i8) {
        if !(node.counts && node.is_ready) {
            return;
        }
        if node.zone.is_empty() || node.cpu == 0 {
            self.incomplete = self.incomplete.saturating_add_signed(times.into());
            return;
        }
        let (cpu, nodes) = self.zones.entry(node.zone.clone()).or_default();
        *cpu += i128::from(node.cpu) * i128::from(times);
        *nodes = nodes.saturating_add_signed(times.into());
        if *nodes == 0 {
            self.zones.remove(&node.zone);
        }
    }

    /// The share of each zone; `None` if a Node lacks information, or if there are not two zones.
    pub fn ratios(&self) -> Option<Ratios> {
        let total: i128 = self.zones.values().map(|(cpu, _)| cpu).sum();
        if self.incomplete > 0 || self.zones.len() < 2 || total == 0 {
            return None;
        }
        let share = |(zone, (cpu, _)): (&Text, &(i128, usize))| (zone.clone(), *cpu as f64 / total as f64);
        Some(Ratios(self.zones.iter().map(share).collect()))
    }
}

/// Whether hints that were given no longer fit: a zone has fewer endpoints than it needs.
pub fn is_overloaded(ratios: Option<&Ratios>, given: &Counts) -> bool {
    let Some(ratios) = ratios else { return true };
    let total: usize = given.values().sum();
    ratios.0.iter().any(|(zone, share)| given.get(zone).is_none_or(|count| *count < needed(total as f64 * share)))
}

/// What a zone needs at least whose share that is.
pub(crate) fn needed(share: f64) -> usize {
    (share * (1.0 / OVERLOAD)).ceil() as usize
}
