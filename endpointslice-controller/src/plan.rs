//! What plans for slices consist of: the same for both loops of slices.

use std::sync::Arc;

use common::{
    events::EventType,
    intern::{Labels, Text},
    meta::{Annotations, OwnerRef},
    selector,
};

use crate::objects::{AddressType, Endpoint, Port, Slice};

/// An Event on the Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Normal or Warning.
    pub kind: EventType,
    /// The reason, one word.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// The wanted state of a slice.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The slice that is changed; `None` if it is new.
    pub base: Option<Arc<Slice>>,
    /// Its endpoints.
    pub endpoints: Vec<Endpoint>,
    /// Its ports; slices share the list.
    pub ports: Arc<[Port]>,
}

impl Draft {
    /// A new, empty slice.
    pub fn new(ports: Arc<[Port]>) -> Self {
        Self { base: None, endpoints: Vec::new(), ports }
    }

    /// A copy of a slice.
    pub fn of(slice: &Arc<Slice>) -> Self {
        Self { base: Some(Arc::clone(slice)), endpoints: slice.endpoints.clone(), ports: Arc::clone(&slice.ports) }
    }
}

/// The metadata that all written slices of a Service share.
#[derive(Clone, Debug, Default)]
pub struct SliceMetadata {
    /// The beginning of the names of new ones.
    pub generate_name: String,
    /// Their namespace.
    pub namespace: Text,
    /// Their labels.
    pub labels: Labels,
    /// Their annotations, where those are copies of somebody else's.
    pub annotations: Annotations,
    /// The Service, as the owner of new ones.
    pub owner: OwnerRef,
    /// The time of the change that this sync reacts to, if it is known.
    pub trigger_time: Option<String>,
}

/// The beginning of the names of slices: the Service's name and a dash, where a name can begin like that.
pub(crate) fn generate_name(service: &str) -> String {
    if selector::is_dns_subdomain(&format!("{service}a")) { format!("{service}-") } else { service.to_owned() }
}

/// What is done about the slices of one address type, in this order.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    /// The address type.
    pub kind: AddressType,
    /// New slices.
    pub create: Vec<Draft>,
    /// New states of existing slices.
    pub update: Vec<Draft>,
    /// Slices to delete.
    pub delete: Vec<Arc<Slice>>,
    /// Pods that were left out, and why.
    pub left_out: Vec<String>,
    /// Endpoints and slices that the next sync deals with, because of [`crate::slices::snapshot::Snapshot::max_new_ports`].
    pub put_off: PutOff,
    /// Events to emit afterwards.
    pub events: Vec<Event>,
    /// The numbers for metrics.
    pub counts: Counts,
}

/// What one sync leaves to the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutOff {
    /// Endpoints for which no slice is created yet.
    pub endpoints: usize,
    /// Slices that stay as they are, because they have endpoints that are in no other slice yet.
    pub slices: usize,
}

/// The numbers of one address type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Endpoints that were added.
    pub added: usize,
    /// Endpoints that were removed.
    pub removed: usize,
    /// Wanted endpoints.
    pub endpoints: usize,
    /// Wanted slices.
    pub slices: usize,
    /// Slices that would be enough.
    pub enough: usize,
}

impl Writes {
    /// The number of requests.
    pub fn len(&self) -> usize {
        self.create.len() + self.update.len() + self.delete.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The writes in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Write<'_>> {
        let puts = self.create.iter().chain(&self.update).map(Write::Put);
        puts.chain(self.delete.iter().map(Write::Delete))
    }
}

/// One write of a plan.
#[derive(Clone, Copy)]
pub(crate) enum Write<'a> {
    /// Creates the slice of a draft, or changes the slice that it is based on.
    Put(&'a Draft),
    /// Deletes a slice.
    Delete(&'a Arc<Slice>),
}

/// How many endpoints and slices of each address type there are to be.
pub(crate) fn situation(writes: &[Writes]) -> String {
    let one = |Writes { kind, counts: Counts { endpoints, slices, .. }, .. }: &Writes| {
        format!("{endpoints} {kind} endpoints in {slices} slices")
    };
    writes.iter().map(one).collect::<Vec<_>>().join(", ")
}
