//! A record of each Pod's slice after a sync of a Service. The next sync starts from this record.

use std::{collections::BTreeMap, sync::Arc};

use common::name_sorted_list::{NameSortedList, NamedEntry};

use crate::{
    decide::ports::NamedPortNumbers,
    objects::{AddressType, NameSortedPods, Pod, Service, Slice},
    zones::ZonesByNode,
};

/// A record of each Pod's slice after a sync of a Service, with the inputs of that sync.
#[derive(Clone, Debug)]
pub struct PodsInSlices {
    pub(crate) service: Arc<Service>,
    pub(crate) zones_by_node: Arc<ZonesByNode>,
    pub(crate) max_endpoints_per_slice: usize,
    pub(crate) pods: NameSortedPods,
    pub(crate) by_address_type: BTreeMap<AddressType, AddressTypePodsInSlices>,
}

/// The part of the record of Pods in slices for one address type.
#[derive(Clone, Debug)]
pub struct AddressTypePodsInSlices {
    /// Slices with endpoints that need no write, sorted by name.
    pub(crate) up_to_date_slices: Vec<UpToDateSlice>,
    /// All Pods that have an address and have not finished, each with its slice, sorted by the name of the Pod.
    pub(crate) pods_with_slices: NameSortedList<PodWithSlice>,
    /// The names of the Pods with an endpoint in a slice that the sync creates or updates.
    pub(crate) pod_names_in_written_slices: Vec<Arc<str>>,
    pub(crate) port_group_sizes: PortGroupSizes,
}

/// A Pod, with the slice that holds its endpoint.
#[derive(Clone, Debug)]
pub(crate) struct PodWithSlice {
    pub(crate) pod: Arc<Pod>,
    /// The numbers of the Service's named target ports on this Pod. All Pods of the group have the same numbers.
    pub(crate) port_numbers: Arc<NamedPortNumbers>,
    /// The name of the slice with the endpoint after the sync; `None` if the slice is new or the Pod has no endpoint.
    pub(crate) slice_name: Option<Arc<str>>,
}

impl NamedEntry for PodWithSlice {
    fn name(&self) -> &str {
        self.pod.name()
    }
}

impl PodWithSlice {
    pub(crate) fn is_same_pod_and_slice(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pod, &other.pod)
            && self.port_numbers == other.port_numbers
            && self.slice_name == other.slice_name
    }
}

/// A slice that needs no write: its endpoints, labels and hints are as wanted, and its Pods have the same port numbers.
#[derive(Clone, Debug)]
pub struct UpToDateSlice {
    /// The cached slice. If the cache now holds a different `Arc`, the slice has changed.
    pub slice: Arc<Slice>,
    /// The port numbers that all Pods in the slice have in common.
    pub port_numbers: Arc<NamedPortNumbers>,
}

/// The size of a group: the Pods of a Service that have the same port numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortGroupSize {
    /// The number of Pods that have an address and have not finished.
    pub eligible_pod_count: usize,
    /// The number of eligible Pods that should have an endpoint of the address type.
    pub candidate_pod_count: usize,
}

/// The size of each group of Pods, by the port numbers of the group.
pub type PortGroupSizes = BTreeMap<Arc<NamedPortNumbers>, PortGroupSize>;
