//! The packing of a Service that the next sync starts from.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    by_name::{ByName, Named, Pods},
    decide::ports::Numbers,
    objects::{AddressType, Pod, Service, Slice},
    zones::Zones,
};

/// The packing of a Service at the end of a sync, with the inputs that it depends on.
#[derive(Clone, Debug)]
pub struct Packing {
    pub(crate) service: Arc<Service>,
    pub(crate) zones: Arc<Zones>,
    pub(crate) max_endpoints: usize,
    pub(crate) pods: Pods,
    pub(crate) of_types: BTreeMap<AddressType, TypePacking>,
}

/// The packing of one address type.
#[derive(Clone, Debug)]
pub struct TypePacking {
    /// Slices that need no write, sorted by name. None of them is empty.
    pub(crate) up_to_date: Vec<UpToDateSlice>,
    /// Eligible Pods, sorted by name.
    pub(crate) places: ByName<Place>,
    /// The names of the Pods in slices with pending writes.
    pub(crate) pending: Vec<Arc<str>>,
    pub(crate) sizes: GroupSizes,
}

/// The slice that holds a Pod.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) pod: Arc<Pod>,
    /// The port numbers that identify the Pod's group.
    pub(crate) numbers: Arc<Numbers>,
    /// The name of the slice that holds the endpoint, or is about to; `None` if that slice is not created yet.
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

/// A slice without changes: each endpoint matches a candidate of one group, and labels and hints are as wanted.
#[derive(Clone, Debug)]
pub struct UpToDateSlice {
    /// The cached slice.
    pub slice: Arc<Slice>,
    /// The port numbers that identify the group.
    pub numbers: Arc<Numbers>,
}

/// Numbers of Pods of a Service with the same port numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSize {
    /// Pods that have endpoints, or can have them.
    pub eligible: usize,
    /// Eligible Pods that are candidates of the address type.
    pub candidates: usize,
}

/// The size of each group, by port numbers.
pub type GroupSizes = BTreeMap<Arc<Numbers>, GroupSize>;
