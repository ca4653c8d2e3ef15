//! The packing of a Service: the slice of each Pod after a sync, from which the next sync starts.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    by_name::{NameSortedList, NamedEntry, Pods},
    decide::ports::NamedPortNumbers,
    objects::{AddressType, Pod, Service, Slice},
    zones::ZonesByNode,
};

/// The slice of each Pod of a Service after a sync, with the inputs of that sync.
#[derive(Clone, Debug)]
pub struct Packing {
    pub(crate) service: Arc<Service>,
    pub(crate) zones: Arc<ZonesByNode>,
    pub(crate) max_endpoints_per_slice: usize,
    pub(crate) pods: Pods,
    pub(crate) by_address_type: BTreeMap<AddressType, AddressTypePacking>,
}

/// The slice of each Pod, for one address type.
#[derive(Clone, Debug)]
pub struct AddressTypePacking {
    /// Slices that need no write, sorted by name. None of them is empty.
    pub(crate) up_to_date_slices: Vec<UpToDateSlice>,
    /// All Pods that have an endpoint or can have one, sorted by name.
    pub(crate) pod_places: NameSortedList<PodPlace>,
    /// The names of the Pods in slices that the sync creates or updates.
    pub(crate) pending_pod_names: Vec<Arc<str>>,
    pub(crate) group_sizes: PortGroupSizes,
}

/// A Pod, with the slice that holds its endpoint.
#[derive(Clone, Debug)]
pub(crate) struct PodPlace {
    pub(crate) pod: Arc<Pod>,
    /// The port numbers that the Pod has in common with all Pods of its group.
    pub(crate) port_numbers: Arc<NamedPortNumbers>,
    /// The name of the slice that holds the endpoint after the sync; `None` for a new slice, and for a Pod without an endpoint.
    pub(crate) slice_name: Option<Arc<str>>,
}

impl NamedEntry for PodPlace {
    fn name(&self) -> &str {
        self.pod.name()
    }
}

impl PodPlace {
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pod, &other.pod)
            && self.port_numbers == other.port_numbers
            && self.slice_name == other.slice_name
    }
}

/// A slice that needs no write: its endpoints, labels and hints are as wanted, and its Pods have the same port numbers.
#[derive(Clone, Debug)]
pub struct UpToDateSlice {
    /// The slice in the cache. A slice at another address in memory has changed.
    pub slice: Arc<Slice>,
    /// The port numbers that all Pods in the slice have in common.
    pub port_numbers: Arc<NamedPortNumbers>,
}

/// The size of a group: the Pods of a Service that have the same port numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortGroupSize {
    /// The number of Pods that have an address and have not finished.
    pub eligible_pods: usize,
    /// The number of eligible Pods that should have an endpoint of the address type.
    pub candidate_pods: usize,
}

/// The size of each group, by port numbers.
pub type PortGroupSizes = BTreeMap<Arc<NamedPortNumbers>, PortGroupSize>;
