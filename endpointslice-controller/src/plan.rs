//! The parts of a plan that the loops `slices` and `mirroring` share.

use std::sync::Arc;

use common::{intern::Labels, meta::Annotations, prelude::*, selector};

use crate::objects::{AddressType, Endpoint, Slice, SlicePort, TRIGGER_TIME_ANNOTATION};

/// An Event to emit, on the Service or on the Endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedEvent {
    /// Normal or Warning.
    pub kind: EventType,
    /// The reason of the Event: one word in camel case, the same as upstream's.
    pub reason: &'static str,
    /// The message of the Event, with the wording of upstream.
    pub message: String,
}

/// The wanted state of a slice that is to be created or updated.
#[derive(Clone, Debug)]
pub struct SliceDraft {
    /// The slice to change; `None` for a new slice.
    pub existing_slice: Option<Arc<Slice>>,
    /// The endpoints of the slice after the write.
    pub endpoints: Vec<Endpoint>,
    /// The ports of the slice after the write. Slices with equal ports can share one list.
    pub ports: Arc<[SlicePort]>,
}

impl SliceDraft {
    /// Creates a draft of a new slice without endpoints.
    pub fn new(ports: Arc<[SlicePort]>) -> Self {
        Self { existing_slice: None, endpoints: Vec::new(), ports }
    }

    /// Creates a draft with an existing slice and the current endpoints and ports of that slice.
    pub fn from_slice(slice: &Arc<Slice>) -> Self {
        Self {
            existing_slice: Some(Arc::clone(slice)),
            endpoints: slice.endpoints.clone(),
            ports: Arc::clone(&slice.ports),
        }
    }
}

/// The metadata of all slices that a sync writes for one Service or one Endpoints object.
#[derive(Clone, Debug, Default)]
pub struct SliceMetadata {
    /// `metadata.generateName` of new slices, from [`slice_name_prefix`].
    pub generate_name: String,
    /// The namespace of the Service or Endpoints, and of all slices.
    pub namespace: Text,
    /// The labels of every slice after it is written.
    pub labels: Labels,
    /// The annotations of mirrored slices, copied from the Endpoints; empty for slices of a Service with a selector.
    pub annotations: Annotations,
    /// The owner reference of new slices.
    pub owner_reference: OwnerRef,
    /// The time of the change that caused this sync, for the annotation with the trigger time; `None` if unknown.
    pub trigger_time: Option<String>,
}

impl SliceMetadata {
    /// Creates the metadata of slices that `owner` controls, without annotations and trigger time.
    pub(crate) fn new(owner_resource: Resource, owner: &Meta, labels: Labels) -> Self {
        Self {
            generate_name: slice_name_prefix(&owner.name),
            namespace: owner.namespace.clone(),
            labels,
            owner_reference: Owner::new(owner_resource, owner).controller_reference(),
            ..Self::default()
        }
    }

    /// Iterates over the annotations of a written slice, with the trigger time.
    pub(crate) fn all_annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        let trigger_time = self.trigger_time.as_deref().map(|time| (TRIGGER_TIME_ANNOTATION, time));
        self.annotations.iter().chain(trigger_time)
    }
}

/// Returns the name prefix of slices: the name of the Service, with a dash unless the dash would make the names invalid.
pub(crate) fn slice_name_prefix(service: &str) -> String {
    if selector::is_dns_subdomain(&format!("{service}a")) { format!("{service}-") } else { service.to_owned() }
}

/// The writes for the slices of one address type, which are sent in this order: creations, updates, deletions.
#[derive(Clone, Debug, Default)]
pub struct SliceWrites {
    /// The address type of the slices.
    pub address_type: AddressType,
    /// Slices to create; `existing_slice` is `None` in each draft.
    pub slices_to_create: Vec<SliceDraft>,
    /// Slices to update; each draft has its `existing_slice`.
    pub slices_to_update: Vec<SliceDraft>,
    /// Slices to delete, sorted by name.
    pub slices_to_delete: Vec<Arc<Slice>>,
    /// One message for each Pod that is omitted because its Node is not in the cache.
    pub omitted_pod_messages: Vec<String>,
    /// Counts of endpoints and slices deferred to the next sync by [`crate::slices::decide::Snapshot::max_new_slice_ports`].
    pub deferred_write_counts: DeferredWriteCounts,
    /// Events to emit after the writes.
    pub events: Vec<PlannedEvent>,
    /// Counts of endpoints and slices, for metrics and explanations.
    pub sync_counts: SyncCounts,
}

/// Counts of endpoints and slices that a sync defers to the next sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeferredWriteCounts {
    /// The number of endpoints that still need a new slice.
    pub endpoint_count: usize,
    /// The number of slices that keep their endpoints, because these endpoints are in no new slice yet.
    pub slice_count: usize,
}

/// Counts of endpoints and slices of one address type, for metrics and explanations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncCounts {
    /// The number of endpoints that this sync adds to slices.
    pub added_endpoint_count: usize,
    /// The number of endpoints that this sync removes from slices.
    pub removed_endpoint_count: usize,
    /// The number of endpoints that the slices should have in total.
    pub wanted_endpoint_count: usize,
    /// The number of slices that remain after the sync, including slices with deferred changes.
    pub wanted_slice_count: usize,
    /// The smallest number of slices that can hold the wanted endpoints.
    pub min_slice_count: usize,
}

impl SliceWrites {
    /// Returns the number of requests to send: creations, updates and deletions together.
    pub fn len(&self) -> usize {
        self.slices_to_create.len() + self.slices_to_update.len() + self.slices_to_delete.len()
    }

    /// Whether the slices need no write.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the writes in the order in which they are sent.
    pub(crate) fn iter(&self) -> impl Iterator<Item = SliceWrite<'_>> {
        let puts = self.slices_to_create.iter().chain(&self.slices_to_update).map(SliceWrite::Put);
        puts.chain(self.slices_to_delete.iter().map(SliceWrite::Delete))
    }
}

/// One request that writes a slice.
#[derive(Clone, Copy)]
pub(crate) enum SliceWrite<'a> {
    /// Creates a slice from the draft, or updates the draft's `existing_slice`.
    Put(&'a SliceDraft),
    Delete(&'a Arc<Slice>),
}

impl SliceWrite<'_> {
    /// Returns the operation as a metric label: `create`, `update` or `delete`.
    pub(crate) fn operation(self) -> &'static str {
        match self {
            Self::Put(SliceDraft { existing_slice: None, .. }) => "create",
            Self::Put(_) => "update",
            Self::Delete(_) => "delete",
        }
    }
}

/// Returns a text with the wanted counts of endpoints and slices for each address type.
pub(crate) fn describe_wanted_counts(slice_writes: &[SliceWrites]) -> String {
    let one = |SliceWrites { address_type, sync_counts, .. }: &SliceWrites| {
        let SyncCounts { wanted_endpoint_count, wanted_slice_count, .. } = sync_counts;
        format!("{wanted_endpoint_count} {address_type} endpoints in {wanted_slice_count} slices")
    };
    slice_writes.iter().map(one).collect::<Vec<_>>().join(", ")
}
