//! The input of one sync of a Service.

use std::sync::Arc;

use crate::{
    by_name::NameSortedPods,
    memory::ServiceMemory,
    objects::{Service, Slice},
    zones::{ZoneCpuShares, ZonesByNode},
};

/// The value of [`Snapshot::max_new_slice_ports`]. A Service with 100 ports reaches this limit with 5,000 new slices in one sync.
pub const MAX_NEW_SLICE_PORTS: usize = 500_000;

/// Everything that a sync reads: a Service, its Pods, its slices and the topology.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Service in the cache, with or without a selector.
    pub service: Arc<Service>,
    /// Selected Pods, sorted by name; empty without a selector.
    pub pods: NameSortedPods,
    /// The zone of each Node.
    pub zones_by_node: Arc<ZonesByNode>,
    /// Slices that this loop manages for the Service, sorted by name, without terminating slices.
    pub slices: Vec<Arc<Slice>>,
    /// The controller's memory of the Service; empty before the first sync.
    pub memory: ServiceMemory,
    /// The share of each zone in the CPU of all zones; `None` if unknown, or if the Service has no hints by capacity.
    pub zone_cpu_shares: Option<Arc<ZoneCpuShares>>,
    /// The count of endpoints at which a slice is full, from `--max-endpoints-per-slice`.
    pub max_endpoints_per_slice: usize,
    /// The total count of ports in new slices at which a sync stops creating slices.
    pub max_new_slice_ports: usize,
    /// The minimal count of Pods for which a sync remembers the slice of each Pod.
    pub min_pods_to_record_slices: usize,
}
