//! Sends the requests of the plan for the slices of a Service.
//!
//! After a failure, no more slices of the same address type are written. Slices of the other address type are still written.

use std::time::Duration;

use common::{
    events::EventType,
    io::{self, Requeue, SyncError},
};

use super::{
    plan::{HintMetricLabels, Plan},
    snapshot::Snapshot,
};
use crate::{
    act::{SliceWriter, WriteOutcome, WriteProgress},
    body::SlicePatch,
    memory::ServiceMemory,
    plan::{DeferredWriteCounts, SyncCounts},
};

/// A change of the controller's memory that a sync asks for.
#[derive(Debug)]
pub enum Note {
    /// The new memory of the Service, and the counts for metrics; `None` for a Service without an applicable selector.
    ReplaceMemory(ServiceMemory, Option<ServiceSyncCounts>),
    /// The progress of one write of a slice.
    Write(WriteProgress),
    /// All slices of an address type are written. The fields are the kind of hints and the count of writes.
    AddressTypeWritten(HintMetricLabels, usize),
    /// No further write follows in this sync; the field is `true` if the sync failed.
    SyncEnded(bool),
}

/// The counts of one sync of a Service, for metrics.
#[derive(Debug)]
pub struct ServiceSyncCounts {
    /// The counts of endpoints and slices, one element for each address type.
    pub(super) counts_by_address_type: Vec<SyncCounts>,
    /// The value of `spec.trafficDistribution`; `None` if it has no effect.
    pub(super) traffic_distribution: Option<&'static str>,
}

impl io::MemoryNote for Note {
    type Query = ();
    type NewState = ();
}

impl From<WriteProgress> for Note {
    fn from(note: WriteProgress) -> Self {
        Self::Write(note)
    }
}

type Io<'r> = io::Io<'r, Note>;

/// Sends the writes and the Events of a plan. All failures are combined into one error.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    let counts = || plan.slice_writes.iter().map(|writes| writes.sync_counts).collect();
    let totals = plan.is_managed_service.then(|| ServiceSyncCounts {
        counts_by_address_type: counts(),
        traffic_distribution: plan.hint_metric_labels.traffic_distribution,
    });
    io.apply_memory_note(Note::ReplaceMemory(plan.memory.clone(), totals));

    let key = &snapshot.service.metadata.key();
    let writer = SliceWriter {
        owner_kind: "Service",
        owner_key: key,
        metadata: &plan.slice_metadata,
        build_patch: SlicePatch::new,
        io,
    };
    let mut failures: Vec<SyncError> = Vec::new();
    let mut requeue = Requeue::AfterPlannedDelay;
    for writes in &plan.slice_writes {
        failures.extend(writes.omitted_pod_messages.iter().map(|why| SyncError::new("node_not_found", why.clone())));
        match writer.write_all(writes).await {
            Ok(WriteOutcome::AllWritten) => {
                io.apply_memory_note(Note::AddressTypeWritten(plan.hint_metric_labels, writes.len()));
                if writes.deferred_write_counts != DeferredWriteCounts::default() && !writes.is_empty() {
                    requeue = Requeue::After(Duration::ZERO);
                }
            }
            Ok(WriteOutcome::NamespaceTerminates) => {}
            Err(failed) => failures.push(failed),
        }
        for event in &writes.events {
            io.record_event(event.kind, event.reason, event.message.clone());
        }
    }
    for slice in &plan.slices_of_unused_address_types {
        if let Err(refusal) = writer.delete(slice, "the Service does not use this address type").await {
            let what = format!("error deleting {} EndpointSlice for Service {key}", slice.metadata.name);
            failures.push(SyncError::from_refusal(&what, &refusal));
        }
    }

    let outcome = join_failures(&failures).map_or(Ok(requeue), Err);
    io.apply_memory_note(Note::SyncEnded(outcome.is_err()));
    if let Err(failed) = &outcome {
        let message = format!("Error updating Endpoint Slices for Service {key}: {failed}");
        io.record_event(EventType::Warning, "FailedToUpdateEndpointSlices", message);
    }
    outcome
}

/// Combines failures into one error that has each message once, as upstream does; `None` if there is no failure.
fn join_failures(failures: &[SyncError]) -> Option<SyncError> {
    let first = failures.first()?;
    let mut texts: Vec<String> = Vec::new();
    for text in failures.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let text = if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) };
    Some(SyncError::new(first.metric_label(), text))
}
