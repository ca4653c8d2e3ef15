//! Everything one sync of a Service may look at.

use std::sync::Arc;

use crate::{
    by_name::Pods,
    memory::Memory,
    objects::{Service, Slice},
    zones::{Ratios, Zones},
};

/// The value of [`Snapshot::max_new_ports`]. A Service of 100 ports needs 5,000 new slices at once to exceed it.
pub const MAX_NEW_PORTS: usize = 500_000;

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
