//! The requests that carry out a plan for an object, and the lookups before them.
//!
//! A forecast expects the object to be as the graph has it. It expects an owner that is looked up to exist, and to wait for its
//! dependents only if the graph says so.

mod finalizer;
mod judge;
mod place;
mod references;
mod release;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use common::{
    controller::Requeue,
    intern::Text,
    meta::{OwnerRef, Uid, Version},
    object::Object as _,
    sequence::{Failed, Pace, Sequence, Step, Steps, Turn},
};

use crate::{
    decide::{Awaited, Owner, Plan, Propagation, Situation, Standing, policy},
    graph::FOREGROUND,
    objects::Partial,
};
use place::Live;

pub(crate) use finalizer::RemoveFinalizer;
pub(crate) use place::{Place, tell_denied, unserved};
pub(crate) use release::Release;

/// How often an object is judged, or its references are written, before the sync fails because it has changed each time.
const TRIES: u32 = 4;

/// A change of the collector's memory.
#[derive(Debug)]
pub enum Note {
    /// The object waits for no kind any more.
    Unparked,
    /// The object waits for that.
    Parked(Awaited),
    /// The object does not exist.
    Absent,
    /// The owner that this reference names does not exist. The second field is the namespace of the owner.
    OwnerAbsent(OwnerRef, Text),
}

/// What the graph and the monitors say while a sync is in progress.
pub struct Fresh {
    /// The owners that were asked for.
    pub owners: Vec<Owner>,
    /// Whether a dependent of the object waits for its own dependents.
    pub in_cycle: bool,
}

impl common::sequence::Note for Note {
    /// The references whose owners are asked for.
    type Question = Vec<OwnerRef>;
    type Fresh = Fresh;
}

/// The state of one sync.
struct State<'a> {
    situation: &'a Situation,
    plan: &'a Plan,
    place: Place,
    finalizer: Steps<RemoveFinalizer, Note>,
    /// The version that is judged.
    version: Version,
    owners: Cow<'a, [Owner]>,
    /// What the finalizers of that version ask for.
    propagation: Propagation,
    /// Whether that version was read live.
    is_live: bool,
    /// How often it was judged.
    tries: u32,
    /// How the first few of `owners` stand.
    standings: Vec<(Uid, Standing)>,
    /// The references that are being written.
    references: Vec<OwnerRef>,
    /// Whether they are written so that they block no owner.
    unblocks: bool,
}

/// The requests that carry out `plan`.
pub(crate) fn sequence<'a>(situation: &'a Situation, plan: &'a Plan) -> impl Sequence<Note> + 'a {
    let view = &situation.view;
    // Nothing is sent for a kind that is not served.
    let place = Place::new(situation.resource.unwrap_or(Partial::RESOURCE), &view.identity);
    let state = State {
        situation,
        plan,
        finalizer: RemoveFinalizer::of(
            place.clone(),
            FOREGROUND,
            "foregroundDeletion; no dependent blocks its deletion",
        ),
        place,
        version: view.version,
        owners: Cow::Borrowed(&situation.owners),
        propagation: policy(view.orphans, view.foreground),
        is_live: !view.version.is_known(),
        tries: 0,
        standings: Vec::new(),
        references: Vec::new(),
        unblocks: false,
    };
    Steps::new(state, State::begin)
}

type Next<'a> = Step<State<'a>, Note>;

impl<'a> State<'a> {
    fn begin(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        turn.note(Note::Unparked);
        match self.plan {
            Plan::Nothing(_) | Plan::Blocked(_) => Step::Done,
            Plan::Wait(awaited, _) => {
                turn.note(Note::Parked(awaited.clone()));
                Step::Done
            }
            Plan::Finish => Step::All(|state| vec![&mut state.finalizer], Pace::AtOnce, Self::finished),
            Plan::Exists => match self.place.read() {
                Some(request) => Step::Send(request.because("only owner references name it"), Self::found),
                None => absent(turn),
            },
            Plan::Delete { .. } | Plan::Verify { .. } => self.judge(turn),
        }
    }

    fn finished(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match self.finalizer.state.outcome.take() {
            Some(Err(failed)) => fail(turn, failed),
            Some(Ok(false)) => absent(turn),
            Some(Ok(true)) | None => Step::Done,
        }
    }

    fn found(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match self.place.live(turn) {
            Err(failed) => fail(turn, failed),
            Ok(Live::Absent) => absent(turn),
            Ok(Live::AsExpected | Live::Is(_)) => {
                // Until a monitor sees it, it is asked for again.
                turn.end(Ok(Requeue::RateLimited));
                Step::Done
            }
        }
    }
}

/// Ends the sync of an object that does not exist.
fn absent<'a>(turn: &mut Turn<Note>) -> Next<'a> {
    turn.note(Note::Absent);
    Step::Done
}

fn fail<'a>(turn: &mut Turn<Note>, failed: Failed) -> Next<'a> {
    turn.end(Err(failed));
    Step::Done
}
