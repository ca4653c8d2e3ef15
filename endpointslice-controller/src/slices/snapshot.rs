//! The input of one sync of a Service.

use std::sync::Arc;

use crate::{
    by_name::Pods,
    memory::Memory,
    objects::{Service, Slice},
    zones::{Ratios, Zones},
};

/// The value of [`Snapshot::max_new_ports`]. A Service with 100 ports exceeds it only with 5,000 new slices in one sync.
pub const MAX_NEW_PORTS: usize = 500_000;

/// The input of one sync: a Service, its Pods, its slices and the topology.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The cached Service.
    pub service: Arc<Service>,
    /// Selected Pods, sorted by name.
    pub pods: Pods,
    /// The zone of each Node.
    pub zones: Arc<Zones>,
    /// Slices that this loop manages for the Service, sorted by name, without terminating ones.
    pub slices: Vec<Arc<Slice>>,
    /// What the controller remembers of the Service.
    pub memory: Memory,
    /// The zones' shares of CPU; `None` if unknown. Set only for Services with hints by capacity.
    pub ratios: Option<Arc<Ratios>>,
    /// The number of endpoints up to which a slice is filled.
    pub max_endpoints_per_slice: usize,
    /// The total number of ports in new slices at which a sync stops creating slices.
    pub max_new_ports: usize,
    /// The number of Pods from which a sync remembers the packing.
    pub min_pods_of_packing: usize,
}
