//! The requests of one sync of the slices of a Service.
//!
//! A failure ends the work on its address type; the other one goes on.

use std::time::Duration;

use common::{
    controller::Requeue,
    events::EventType,
    sequence::{Class, Failed, Sequence, Step, Steps, Turn},
};

use crate::{
    body::Change,
    memory::Memory,
    objects::SERVICES,
    plan::{Counts, Plan, PutOff, Spread, Write},
    sequence::{self, SliceRequests, WriteNote},
    snapshot::Snapshot,
};

/// A change of the controller's memory.
#[derive(Debug)]
pub enum Note {
    /// What the next sync is to know, and what metrics tell of the Service if it has a selector.
    Decide(Memory, Option<Totals>),
    /// A write of a slice.
    Write(WriteNote),
    /// All slices of an address type are written: how endpoints are spread, and how many writes it took.
    Complete(Spread, usize),
    /// The sync has ended; whether it failed.
    End(bool),
}

/// What metrics tell of a Service.
#[derive(Debug)]
pub struct Totals {
    /// The numbers of each address type.
    pub(super) counts: Vec<Counts>,
    /// What `spec.trafficDistribution` says, if it counts.
    pub(super) distribution: Option<&'static str>,
}

impl common::sequence::Note for Note {
    type Question = ();
    type Fresh = ();
}

impl From<WriteNote> for Note {
    fn from(note: WriteNote) -> Self {
        Self::Write(note)
    }
}

/// The state of one sync.
struct State<'a> {
    plan: &'a Plan,
    requests: SliceRequests<'a>,
    /// The position of the address type whose slices are written; after the last one, slices of other types are deleted.
    address_type: usize,
    /// The position of the next write among those of the address type.
    position: usize,
    failures: Vec<Failed>,
    requeue: Requeue,
}

/// The requests that carry out `plan`.
pub(super) fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
    let requests = SliceRequests {
        kind: SERVICES.kind,
        key: snapshot.service.metadata.key(),
        metadata: &plan.slice_metadata,
        change: Change::new,
    };
    let state = State { plan, requests, address_type: 0, position: 0, failures: Vec::new(), requeue: Requeue::No };
    Steps::new(state, State::begin)
}

type Next<'a> = Step<State<'a>, Note>;

impl<'a> State<'a> {
    fn begin(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let plan = self.plan;
        let counts = || plan.writes.iter().map(|writes| writes.counts).collect();
        let totals = plan.is_ours.then(|| Totals { counts: counts(), distribution: plan.spread.distribution });
        turn.note(Note::Decide(plan.memory.clone(), totals));
        self.write(turn)
    }

    fn write(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(writes) = self.plan.writes.get(self.address_type) else { return self.delete_unsupported(turn) };
        if self.position == 0 {
            let left_out = |why: &String| Failed::new("node_not_found", why.clone());
            self.failures.extend(writes.left_out.iter().map(left_out));
        }
        if let Some(write) = writes.get(self.position) {
            return Step::Send(self.requests.send(turn, writes, write), Self::wrote);
        }
        turn.note(Note::Complete(self.plan.spread, writes.len()));
        if writes.put_off != PutOff::default() && !writes.is_empty() {
            self.requeue = Requeue::After(Duration::ZERO);
        }
        self.end_address_type(turn)
    }

    fn wrote(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let writes = self.plan.writes.get(self.address_type);
        let Some(write) = writes.and_then(|writes| writes.get(self.position)) else { return self.end(turn) };
        match sequence::answered(turn, write) {
            Ok(()) => {
                self.position += 1;
                self.write(turn)
            }
            // Nothing can be created there, which is no failure.
            Err(refusal) if refusal.class == Class::NamespaceTerminating => self.end_address_type(turn),
            Err(refusal) => {
                self.failures.push(self.requests.failed(write, &refusal));
                self.end_address_type(turn)
            }
        }
    }

    fn end_address_type(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        for event in self.plan.writes.get(self.address_type).into_iter().flat_map(|writes| &writes.events) {
            turn.tell(event.kind, event.reason, event.message.clone());
        }
        self.address_type += 1;
        self.position = 0;
        self.write(turn)
    }

    fn delete_unsupported(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(slice) = self.plan.unsupported.get(self.position) else { return self.end(turn) };
        turn.note(WriteNote::Begin.into());
        Step::Send(sequence::delete(slice, "the Service has no such addresses"), Self::deleted_unsupported)
    }

    fn deleted_unsupported(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(slice) = self.plan.unsupported.get(self.position) else { return self.end(turn) };
        if let Err(refusal) = sequence::answered(turn, Write::Delete(slice)) {
            let what =
                format!("error deleting {} EndpointSlice for Service {}", slice.metadata.name, self.requests.key);
            self.failures.push(Failed::request(&what, &refusal));
        }
        self.position += 1;
        self.delete_unsupported(turn)
    }

    fn end(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let outcome = joined(&self.failures).map_or(Ok(self.requeue), Err);
        turn.note(Note::End(outcome.is_err()));
        if let Err(failed) = &outcome {
            let message = format!("Error updating Endpoint Slices for Service {}: {failed}", self.requests.key);
            turn.tell(EventType::Warning, "FailedToUpdateEndpointSlices", message);
        }
        turn.end(outcome);
        Step::Done
    }
}

/// One failure in the place of several, as upstream puts them together: each text once.
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
