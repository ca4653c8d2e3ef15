//! Sends the requests of the plan for the slices of a Service.
//!
//! A failure stops the writes of its address type. The writes of the other address type continue.

use std::time::Duration;

use common::{
    events::EventType,
    io::{self, Failed, Requeue},
};

use super::{
    plan::{Plan, Spread},
    snapshot::Snapshot,
};
use crate::{
    act::{SliceWriter, WriteNote, Written},
    body::Change,
    memory::Memory,
    objects::SERVICES,
    plan::{Counts, PutOff},
};

/// A change of the controller's memory that a sync asks for.
#[derive(Debug)]
pub enum Note {
    /// The new memory of the Service, and the numbers for metrics; no numbers for a Service without a selector.
    Decide(Memory, Option<Totals>),
    /// The progress of one write of a slice.
    Write(WriteNote),
    /// All slices of an address type are written: the kind of hints, and the number of writes.
    Complete(Spread, usize),
    /// The sync has ended, with `true` for a failure.
    End(bool),
}

/// The numbers of one sync, for metrics.
#[derive(Debug)]
pub struct Totals {
    /// The numbers of endpoints and slices for each address type.
    pub(super) counts: Vec<Counts>,
    /// The value of `spec.trafficDistribution`, if it has an effect.
    pub(super) distribution: Option<&'static str>,
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

/// Sends the writes and the Events of a plan, and combines all failures.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    let counts = || plan.writes.iter().map(|writes| writes.counts).collect();
    let totals = plan.is_ours.then(|| Totals { counts: counts(), distribution: plan.spread.distribution });
    io.note(Note::Decide(plan.memory.clone(), totals));

    let key = &snapshot.service.metadata.key();
    let writer = SliceWriter { kind: SERVICES.kind, key, metadata: &plan.slice_metadata, change: Change::new, io };
    let mut failures: Vec<Failed> = Vec::new();
    let mut requeue = Requeue::AsPlanned;
    for writes in &plan.writes {
        failures.extend(writes.left_out.iter().map(|why| Failed::new("node_not_found", why.clone())));
        match writer.write_all(writes).await {
            Ok(Written::All) => {
                io.note(Note::Complete(plan.spread, writes.len()));
                if writes.put_off != PutOff::default() && !writes.is_empty() {
                    requeue = Requeue::After(Duration::ZERO);
                }
            }
            Ok(Written::NamespaceTerminates) => {}
            Err(failed) => failures.push(failed),
        }
        for event in &writes.events {
            io.event(event.kind, event.reason, event.message.clone());
        }
    }
    for slice in &plan.unsupported {
        if let Err(refusal) = writer.delete(slice, "the Service does not use this address type").await {
            let what = format!("error deleting {} EndpointSlice for Service {key}", slice.metadata.name);
            failures.push(Failed::request(&what, &refusal));
        }
    }

    let outcome = joined(&failures).map_or(Ok(requeue), Err);
    io.note(Note::End(outcome.is_err()));
    if let Err(failed) = &outcome {
        let message = format!("Error updating Endpoint Slices for Service {key}: {failed}");
        io.event(EventType::Warning, "FailedToUpdateEndpointSlices", message);
    }
    outcome
}

/// Combines failures into one that has each text once, as upstream does; returns `None` without a failure.
fn joined(failures: &[Failed]) -> Option<Failed> {
    let first = failures.first()?;
    let mut texts: Vec<String> = Vec::new();
    for text in failures.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let text = if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) };
    Some(Failed::new(first.label(), text))
}
