//! Everything one sync of a Service may look at.

use std::sync::Arc;

use common::{intern::Text, map::HashMap};

use crate::{
    by_name::Pods,
    decide::zones::Ratios,
    memory::Memory,
    objects::{Service, Slice},
};

/// The value of [`Snapshot::max_new_ports`]. A Service of 100 ports needs 5,000 new slices at once to exceed it.
pub const MAX_NEW_PORTS: usize = 500_000;

/// The zone of every Node in the cache, by the Node's name.
#[derive(Clone, Debug, Default)]
pub struct Zones(HashMap<Text, Text>);

impl Zones {
    /// The zone of a Node, empty if the Node has none; `None` if the Node is not in the cache.
    pub fn zone_of(&self, node: &Text) -> Option<&Text> {
        self.0.get(node)
    }

    /// Sets the zone of a Node.
    pub fn insert(&mut self, node: Text, zone: Text) {
        self.0.insert(node, zone);
    }

    /// Forgets a Node.
    pub fn remove(&mut self, node: &Text) {
        self.0.remove(node);
    }
}

/// A Service, its Pods and its slices.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Service.
    pub service: Arc<Service>,
    /// The Pods that the Service selects, by name.
    pub pods: Pods,
    /// The zones of all Nodes.
    pub zones: Arc<Zones>,
    /// The slices that the loop keeps for the Service, by name, without terminating ones.
    pub slices: Vec<Arc<Slice>>,
    /// What was remembered of the Service.
    pub memory: Memory,
    /// The zones' shares of the CPU; `None` if they are unknown. Set only for Services that ask for hints by capacity.
    pub ratios: Option<Arc<Ratios>>,
    /// The number of endpoints up to which a slice is filled.
    pub max_endpoints_per_slice: usize,
    /// The number of ports, in all new slices together, from which on no further slice is created in one sync.
    pub max_new_ports: usize,
    /// The number of Pods from which on the packing is remembered for the next sync.
    pub min_pods_of_packing: usize,
}
