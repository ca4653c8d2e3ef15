//! The parts of a plan that the loops `slices` and `mirroring` share.

use std::sync::Arc;

use common::{
    events::EventType,
    intern::{Labels, Text},
    meta::{Annotations, OwnerRef},
    selector,
};

use crate::objects::{AddressType, Endpoint, Port, Slice};

/// An Event to emit, on the Service or on the Endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Normal or Warning.
    pub kind: EventType,
    /// One word in camel case, as upstream.
    pub reason: &'static str,
    /// One sentence for users, with the words of upstream.
    pub message: String,
}

/// The wanted state of a slice.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The slice to change; `None` for a new slice.
    pub base: Option<Arc<Slice>>,
    /// The endpoints of the slice after the write.
    pub endpoints: Vec<Endpoint>,
    /// The ports of the slice after the write, in a list that several slices share.
    pub ports: Arc<[Port]>,
}

impl Draft {
    /// Creates a draft of a new slice without endpoints.
    pub fn new(ports: Arc<[Port]>) -> Self {
        Self { base: None, endpoints: Vec::new(), ports }
    }

    /// Creates a draft that is equal to a slice.
    pub fn of(slice: &Arc<Slice>) -> Self {
        Self { base: Some(Arc::clone(slice)), endpoints: slice.endpoints.clone(), ports: Arc::clone(&slice.ports) }
    }
}

/// The metadata that all written slices of an owner share.
#[derive(Clone, Debug, Default)]
pub struct SliceMetadata {
    /// `metadata.generateName` of new slices, from [`generate_name`].
    pub generate_name: String,
    /// The namespace of the owner.
    pub namespace: Text,
    /// The labels of a slice after each write.
    pub labels: Labels,
    /// The annotations of mirrored slices, copied from the Endpoints; empty for slices of a Service with a selector.
    pub annotations: Annotations,
    /// The owner reference of new slices.
    pub owner: OwnerRef,
    /// The time of the change that caused this sync, if known.
    pub trigger_time: Option<String>,
}

/// Returns the name prefix of slices: the name of the Service, and a dash if the prefix can then begin a valid name.
pub(crate) fn generate_name(service: &str) -> String {
    if selector::is_dns_subdomain(&format!("{service}a")) { format!("{service}-") } else { service.to_owned() }
}

/// The writes for the slices of one address type: first all creates, then the updates, then the deletes.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    /// The address type of the slices.
    pub kind: AddressType,
    /// Slices to create, without a base.
    pub create: Vec<Draft>,
    /// New states of existing slices, each with a base.
    pub update: Vec<Draft>,
    /// Slices to delete, sorted by name.
    pub delete: Vec<Arc<Slice>>,
    /// One message for each omitted Pod, with the reason.
    pub left_out: Vec<String>,
    /// Endpoints and slices deferred to the next sync, because of [`crate::slices::snapshot::Snapshot::max_new_ports`].
    pub put_off: PutOff,
    /// Events to emit after the writes.
    pub events: Vec<Event>,
    /// Numbers of endpoints and slices, for metrics.
    pub counts: Counts,
}

/// Numbers of endpoints and slices deferred to the next sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutOff {
    /// Endpoints that still need a new slice.
    pub endpoints: usize,
    /// Slices that are not written or deleted yet, because they hold endpoints that are in no other slice.
    pub slices: usize,
}

/// Numbers of one address type, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Endpoints added by this sync.
    pub added: usize,
    /// Endpoints removed by this sync.
    pub removed: usize,
    /// Wanted endpoints.
    pub endpoints: usize,
    /// Wanted slices.
    pub slices: usize,
    /// The minimal number of slices for the wanted endpoints.
    pub enough: usize,
}

impl Writes {
    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.create.len() + self.update.len() + self.delete.len()
    }

    /// True if there is no request to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the writes in the order of sending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Write<'_>> {
        let puts = self.create.iter().chain(&self.update).map(Write::Put);
        puts.chain(self.delete.iter().map(Write::Delete))
    }
}

/// One write of a plan.
#[derive(Clone, Copy)]
pub(crate) enum Write<'a> {
    /// Creates the slice of a draft, or changes the slice that the draft is based on.
    Put(&'a Draft),
    /// Deletes a slice.
    Delete(&'a Arc<Slice>),
}

/// Describes the wanted number of endpoints and slices of each address type.
pub(crate) fn situation(writes: &[Writes]) -> String {
    let one = |Writes { kind, counts: Counts { endpoints, slices, .. }, .. }: &Writes| {
        format!("{endpoints} {kind} endpoints in {slices} slices")
    };
    writes.iter().map(one).collect::<Vec<_>>().join(", ")
}
