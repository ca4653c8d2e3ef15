//! The requests of one sync of mirrored slices. The first failure ends it.

use common::{
    controller::Requeue,
    sequence::{Class, Failed, Sequence, Step, Steps, Turn},
};
use jiff::Timestamp;

use super::decide::{MirrorPlan, MirrorSnapshot};
use crate::{
    body::Change,
    objects::ENDPOINTS,
    plan::Counts,
    sequence::{self, SliceRequests, WriteNote},
};

/// A change of the controller's memory.
#[derive(Debug)]
pub enum Note {
    /// What metrics tell of the Endpoints; nothing if they are not mirrored.
    Decide(Option<Totals>),
    /// A write of a slice.
    Write(WriteNote),
    /// The sync has ended; how many seconds it took.
    End(f64),
}

/// What metrics tell of Endpoints.
#[derive(Debug)]
pub struct Totals {
    /// The numbers of each address type.
    pub(super) counts: Vec<Counts>,
    /// Endpoints whose content changes.
    pub(super) updated: usize,
    /// Addresses that were left out.
    pub(super) skipped: usize,
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
    plan: &'a MirrorPlan,
    requests: SliceRequests<'a>,
    began: Timestamp,
    /// The position of the address type whose slices are written.
    address_type: usize,
    /// The position of the next write among those of the address type.
    position: usize,
}

/// The requests that carry out `plan`.
pub(super) fn sequence<'a>(snapshot: &'a MirrorSnapshot, plan: &'a MirrorPlan) -> impl Sequence<Note> + 'a {
    let requests = SliceRequests {
        kind: ENDPOINTS.kind,
        key: snapshot.key.clone(),
        metadata: &plan.slice_metadata,
        change: Change::everything,
    };
    let state = State { plan, requests, began: Timestamp::UNIX_EPOCH, address_type: 0, position: 0 };
    Steps::new(state, State::begin)
}

type Next<'a> = Step<State<'a>, Note>;

impl<'a> State<'a> {
    fn begin(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        self.began = turn.now;
        let MirrorPlan { writes, updated, skipped, .. } = self.plan;
        let counts = || writes.iter().map(|writes| writes.counts).collect();
        let totals = || Totals { counts: counts(), updated: *updated, skipped: *skipped };
        turn.note(Note::Decide(self.plan.mirrors.then(totals)));
        for event in &self.plan.events {
            turn.tell(event.kind, event.reason, event.message.clone());
        }
        self.write(turn)
    }

    fn write(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        while let Some(writes) = self.plan.writes.get(self.address_type) {
            if let Some(write) = writes.get(self.position) {
                return Step::Send(self.requests.send(turn, writes, write), Self::wrote);
            }
            self.address_type += 1;
            self.position = 0;
        }
        self.end(turn, Ok(Requeue::No))
    }

    fn wrote(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let writes = self.plan.writes.get(self.address_type);
        let Some(write) = writes.and_then(|writes| writes.get(self.position)) else {
            return self.end(turn, Ok(Requeue::No));
        };
        match sequence::answered(turn, write) {
            Ok(()) => {
                self.position += 1;
                self.write(turn)
            }
            // Nothing can be created there, which is no failure.
            Err(refusal) if refusal.class == Class::NamespaceTerminating => self.end(turn, Ok(Requeue::No)),
            Err(refusal) => self.end(turn, Err(self.requests.failed(write, &refusal))),
        }
    }

    fn end(&self, turn: &mut Turn<Note>, outcome: Result<Requeue, Failed>) -> Next<'a> {
        turn.note(Note::End(turn.now.duration_since(self.began).as_secs_f64().max(0.0)));
        turn.end(outcome);
        Step::Done
    }
}
