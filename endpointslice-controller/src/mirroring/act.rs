//! Sends the requests of the plan for mirrored slices, and stops at the first failure.

use common::io::{self, Requeue, SyncError};

use super::{plan::Plan, snapshot::Snapshot};
use crate::{
    act::{SliceWriter, WriteOutcome, WriteProgress},
    body::SlicePatch,
    plan::SyncCounts,
};

/// A change of the controller's memory that a sync asks for.
#[derive(Debug)]
pub enum Note {
    /// The counts in the plan, for metrics; `None` if the Endpoints are not mirrored.
    RecordPlan(Option<MirroringSyncCounts>),
    /// The progress of one write of a slice.
    Write(WriteProgress),
    /// The duration of the sync in seconds, reported after the last write.
    SyncEnded(f64),
}

/// The counts of endpoints, slices and addresses in the plan of one sync, for metrics.
#[derive(Debug)]
pub struct MirroringSyncCounts {
    /// The counts of endpoints and slices, one element for each address type.
    pub(super) counts_by_address_type: Vec<SyncCounts>,
    /// The number of endpoints that are in the slice before and after the sync, with different content.
    pub(super) updated_endpoint_count: usize,
    /// The number of addresses that are not mirrored, because they are invalid or beyond a limit.
    pub(super) skipped_address_count: usize,
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

/// Sends the Events and then the writes of a plan, up to the first failure.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    let began = io.now();
    let Plan { slice_writes: writes, updated_endpoint_count: updated, skipped_address_count: skipped, .. } = plan;
    let counts = || writes.iter().map(|writes| writes.sync_counts).collect();
    let totals = || MirroringSyncCounts {
        counts_by_address_type: counts(),
        updated_endpoint_count: *updated,
        skipped_address_count: *skipped,
    };
    io.apply_memory_note(Note::RecordPlan(plan.are_endpoints_mirrored.then(totals)));
    for event in &plan.events {
        io.record_event(event.kind, event.reason, event.message.clone());
    }
    let (key, metadata) = (&snapshot.key, &plan.slice_metadata);
    let writer = SliceWriter {
        owner_kind: "Endpoints",
        owner_key: key,
        metadata,
        build_patch: SlicePatch::with_all_metadata,
        io,
    };
    let mut written = Ok(WriteOutcome::AllWritten);
    for writes in writes {
        written = writer.write_all(writes).await;
        if !matches!(written, Ok(WriteOutcome::AllWritten)) {
            break;
        }
    }
    io.apply_memory_note(Note::SyncEnded(io.now().duration_since(began).as_secs_f64().max(0.0)));
    written.map(|_| Requeue::AfterPlannedDelay)
}
