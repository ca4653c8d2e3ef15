//! The packing of a Service: the slice of each Pod after a sync, from which the next sync starts.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    by_name::{ByName, Named, Pods},
    decide::ports::Numbers,
    objects::{AddressType, Pod, Service, Slice},
    zones::Zones,
};

/// The slice of each Pod of a Service after a sync, with the inputs of that sync.
#[derive(Clone, Debug)]
pub struct Packing {
    pub(crate) service: Arc<Service>,
    pub(crate) zones: Arc<Zones>,
    pub(crate) max_endpoints: usize,
    pub(crate) pods: Pods,
    pub(crate) of_types: BTreeMap<AddressType, TypePacking>,
}

/// The slice of each Pod, for one address type.
#[derive(Clone, Debug)]
pub struct TypePacking {
    /// Slices that need no write, sorted by name. None of them is empty.
    pub(crate) up_to_date: Vec<UpToDateSlice>,
    /// All Pods that have an endpoint or can have one, sorted by name.
    pub(crate) places: ByName<Place>,
    /// The names of the Pods in slices that the sync creates or updates.
    pub(crate) pending: Vec<Arc<str>>,
    pub(crate) sizes: GroupSizes,
}

/// A Pod, with the slice that holds its endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) pod: Arc<Pod>,
    /// The port numbers that the Pod has in common with all Pods of its group.
    pub(crate) numbers: Arc<Numbers>,
    /// The name of the slice that holds the endpoint after the sync; `None` for a new slice, and for a Pod without an endpoint.
    pub(crate) slice: Option<Arc<str>>,
}

impl Named for Place {
    fn name(&self) -> &str {
        self.pod.name()
    }
}

impl Place {
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pod, &other.pod) && self.numbers == other.numbers && self.slice == other.slice
    }
}

/// A slice that needs no write: its endpoints, labels and hints are as wanted, and its Pods have the same port numbers.
#[derive(Clone, Debug)]
pub struct UpToDateSlice {
    /// The slice in the cache. A slice at another address in memory has changed.
    pub slice: Arc<Slice>,
    /// The port numbers that all Pods in the slice have in common.
    pub numbers: Arc<Numbers>,
}

/// The size of a group: the Pods of a Service that have the same port numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSize {
    /// The number of Pods that have an address and have not finished.
    pub eligible: usize,
    /// The number of eligible Pods that should have an endpoint of the address type.
    pub candidates: usize,
}

/// The size of each group, by port numbers.
pub type GroupSizes = BTreeMap<Arc<Numbers>, GroupSize>;
