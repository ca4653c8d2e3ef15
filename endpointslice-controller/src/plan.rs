//! The parts of a plan that the loops `slices` and `mirroring` share.

use std::sync::Arc;

use common::{
    events::EventType,
    intern::{Labels, Text},
    meta::{Annotations, OwnerRef},
    selector,
};

use crate::objects::{AddressType, Endpoint, Slice, SlicePort};

/// An Event to emit, on the Service or on the Endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedEvent {
    /// Normal or Warning.
    pub kind: EventType,
    /// One word in camel case, as upstream.
    pub reason: &'static str,
    /// One sentence for users, with the words of upstream.
    pub message: String,
}

/// The wanted state of a slice.
#[derive(Clone, Debug)]
pub struct SliceDraft {
    /// The slice to change; `None` for a new slice.
    pub existing_slice: Option<Arc<Slice>>,
    /// The endpoints of the slice after the write.
    pub endpoints: Vec<Endpoint>,
    /// The ports of the slice after the write, in a list that several slices share.
    pub ports: Arc<[SlicePort]>,
}

impl SliceDraft {
    /// Creates a draft of a new slice without endpoints.
    pub fn new(ports: Arc<[SlicePort]>) -> Self {
        Self { existing_slice: None, endpoints: Vec::new(), ports }
    }

    /// Creates a draft that is equal to a slice.
    pub fn from_slice(slice: &Arc<Slice>) -> Self {
        Self {
            existing_slice: Some(Arc::clone(slice)),
            endpoints: slice.endpoints.clone(),
            ports: Arc::clone(&slice.ports),
        }
    }
}

/// The metadata that all written slices of an owner share.
#[derive(Clone, Debug, Default)]
pub struct SliceMetadata {
    /// `metadata.generateName` of new slices, from [`slice_name_prefix`].
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
pub(crate) fn slice_name_prefix(service: &str) -> String {
    if selector::is_dns_subdomain(&format!("{service}a")) { format!("{service}-") } else { service.to_owned() }
}

/// The writes for the slices of one address type: first all creates, then the updates, then the deletes.
#[derive(Clone, Debug, Default)]
pub struct SliceWrites {
    /// The address type of the slices.
    pub address_type: AddressType,
    /// Slices to create, without a base.
    pub create: Vec<SliceDraft>,
    /// New states of existing slices, each with a base.
    pub update: Vec<SliceDraft>,
    /// Slices to delete, sorted by name.
    pub delete: Vec<Arc<Slice>>,
    /// One message for each omitted Pod, with the reason.
    pub omitted_pod_messages: Vec<String>,
    /// Endpoints and slices deferred to the next sync, because of [`crate::slices::snapshot::Snapshot::max_new_ports`].
    pub deferred: Deferred,
    /// Events to emit after the writes.
    pub events: Vec<PlannedEvent>,
    /// Numbers of endpoints and slices, for metrics.
    pub counts: SyncCounts,
}

/// Numbers of endpoints and slices deferred to the next sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deferred {
    /// Endpoints that still need a new slice.
    pub wanted_endpoints: usize,
    /// Slices that are not written or deleted yet, because they hold endpoints that are in no other slice.
    pub wanted_slices: usize,
}

/// Numbers of one address type, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncCounts {
    /// Endpoints added by this sync.
    pub endpoints_added: usize,
    /// Endpoints removed by this sync.
    pub endpoints_removed: usize,
    /// Wanted endpoints.
    pub wanted_endpoints: usize,
    /// Wanted slices.
    pub wanted_slices: usize,
    /// The minimal number of slices for the wanted endpoints.
    pub min_slices: usize,
}

impl SliceWrites {
    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.create.len() + self.update.len() + self.delete.len()
    }

    /// True if there is no request to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the writes in the order of sending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = SliceWrite<'_>> {
        let puts = self.create.iter().chain(&self.update).map(SliceWrite::Put);
        puts.chain(self.delete.iter().map(SliceWrite::Delete))
    }
}

/// One write of a plan.
#[derive(Clone, Copy)]
pub(crate) enum SliceWrite<'a> {
    /// Creates the slice of a draft, or changes the slice that the draft is based on.
    Put(&'a SliceDraft),
    /// Deletes a slice.
    Delete(&'a Arc<Slice>),
}

/// Describes the wanted number of endpoints and slices of each address type.
pub(crate) fn describe_wanted_counts(writes: &[SliceWrites]) -> String {
    let one = |SliceWrites {
                   address_type: kind,
                   counts: SyncCounts { wanted_endpoints: endpoints, wanted_slices: slices, .. },
                   ..
               }: &SliceWrites| { format!("{endpoints} {kind} endpoints in {slices} slices") };
    writes.iter().map(one).collect::<Vec<_>>().join(", ")
}
