//! Sends the requests of the plan for mirrored slices, and stops at the first failure.

use common::io::{self, Failed, Requeue};

use super::{plan::Plan, snapshot::Snapshot};
use crate::{
    act::{SliceWriter, WriteNote, Written},
    body::Change,
    objects::ENDPOINTS,
    plan::Counts,
};

/// A change of the controller's memory that a sync asks for.
#[derive(Debug)]
pub enum Note {
    /// The numbers of the plan, for metrics; `None` if the Endpoints are not mirrored.
    Decide(Option<Totals>),
    /// The progress of one write of a slice.
    Write(WriteNote),
    /// The sync has ended after this many seconds.
    End(f64),
}

/// The numbers of one sync, for metrics.
#[derive(Debug)]
pub struct Totals {
    /// The numbers of endpoints and slices for each address type.
    pub(super) counts: Vec<Counts>,
    /// The number of existing endpoints with changed content.
    pub(super) updated: usize,
    /// The number of addresses that are not mirrored.
    pub(super) skipped: usize,
}

impl io::Note for Note {
    type Question = ();
    type Fresh = ();
}

impl From<WriteNote> for Note {
    fn from(note: WriteNote) -> Self {
        Self::Write(note)
    }
}

type Io<'r> = io::Io<'r, Note>;

/// Sends the Events and then the writes of a plan, up to the first failure.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    let began = io.now();
    let Plan { writes, updated, skipped, .. } = plan;
    let counts = || writes.iter().map(|writes| writes.counts).collect();
    let totals = || Totals { counts: counts(), updated: *updated, skipped: *skipped };
    io.note(Note::Decide(plan.mirrors.then(totals)));
    for event in &plan.events {
        io.event(event.kind, event.reason, event.message.clone());
    }
    let (key, metadata) = (&snapshot.key, &plan.slice_metadata);
    let writer = SliceWriter { kind: ENDPOINTS.kind, key, metadata, change: Change::everything, io };
    let mut written = Ok(Written::All);
    for writes in writes {
        written = writer.write_all(writes).await;
        if !matches!(written, Ok(Written::All)) {
            break;
        }
    }
    io.note(Note::End(io.now().duration_since(began).as_secs_f64().max(0.0)));
    written.map(|_| Requeue::AsPlanned)
}
