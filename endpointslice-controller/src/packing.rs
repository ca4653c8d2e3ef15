//! What is remembered of the packing of a Service between two syncs.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    by_name::{ByName, Named, Pods},
    decide::ports::Numbers,
    objects::{AddressType, Pod, Service, Slice},
    zones::Zones,
};

/// The packing of a Service at the end of a sync, and the state that it was decided on.
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
    /// The slices that were as wanted, by name. None of them is empty.
    pub(crate) up_to_date: Vec<UpToDateSlice>,
    /// The eligible Pods.
    pub(crate) places: ByName<Place>,
    /// The names of the Pods in slices that were about to be written.
    pub(crate) pending: Vec<Arc<str>>,
    pub(crate) sizes: GroupSizes,
}

/// Where a Pod is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) pod: Arc<Pod>,
    /// The numbers of its group.
    pub(crate) numbers: Arc<Numbers>,
    /// The name of the slice that has its endpoint, or is about to get it; `None` if that slice is yet to be created.
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

/// A slice that is as wanted: each endpoint is a candidate of one group in its wanted state, and so are labels and hints.
#[derive(Clone, Debug)]
pub struct UpToDateSlice {
    /// The slice.
    pub slice: Arc<Slice>,
    /// The numbers of the group.
    pub numbers: Arc<Numbers>,
}

/// The number of Pods of a Service that have the same ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSize {
    /// Pods that have, or may have, endpoints.
    pub eligible: usize,
    /// Those of them that are candidates.
    pub candidates: usize,
}

/// The sizes of groups by their numbers.
pub type GroupSizes = BTreeMap<Arc<Numbers>, GroupSize>;
