//! Executes a plan: releases the dependents, then removes the finalizer of the owner.

mod release;

use std::borrow::Cow;

use common::{
    io::{self, Failed, Pace, Requeue},
    map::HashSet,
};

use super::{
    plan::Plan,
    snapshot::{Orphan, Snapshot},
};
use crate::{
    graph::ORPHAN,
    place::{Place, report_denied, unserved},
};
use release::release;

/// Maximum number of dependents of one owner that are released concurrently.
const AT_ONCE: usize = 20;

/// A change of the collector's memory that a sync requests.
#[derive(Debug)]
pub enum Note {
    /// The owner is no longer parked.
    Unparked,
    /// The owner is parked until all objects of all kinds are known.
    Parked,
}

impl io::Note for Note {
    type Question = ();
    /// The dependents that currently refer to the owner.
    type Fresh = Vec<Orphan>;
}

type Io<'r> = io::Io<'r, Note>;

/// Executes the plan for one owner. Dependents that appear during the sync are released, too.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    io.note(Note::Unparked);
    match plan {
        Plan::Nothing => return Ok(Requeue::AsPlanned),
        Plan::Wait(_) => {
            io.note(Note::Parked);
            return Ok(Requeue::AsPlanned);
        }
        Plan::Release(_) => {}
    }
    let view = &snapshot.view;
    let owner = &view.identity.uid;
    let mut released = HashSet::default();
    let mut dependents = Cow::Borrowed(&snapshot.dependents);
    loop {
        let mut failed = None;
        let mut places = Vec::new();
        for (dependent, resource) in &*dependents {
            match resource {
                Some(resource) => places.push(Place::new(*resource, &dependent.identity)),
                None => failed = Some(unserved(&dependent.kind)),
            }
        }
        let results = io.all(Pace::AtMost(AT_ONCE), &places, |place| release(place, owner, io)).await;
        if results.len() < places.len() {
            // The process is shutting down, so not all dependents were released.
            return Ok(Requeue::AsPlanned);
        }
        if let Some(failed) = results.into_iter().rev().find_map(Result::err).or(failed) {
            report_denied(&failed, io);
            return Err(failed);
        }
        released.extend(places.into_iter().map(|place| place.uid));
        let mut new = io.observe_again(()).unwrap_or_default();
        new.retain(|(dependent, _)| !released.contains(&dependent.identity.uid));
        if new.is_empty() {
            break;
        }
        io.deviate(format!("{} dependents have turned up since", new.len()));
        dependents = Cow::Owned(new);
    }
    let Some(resource) = snapshot.resource else { return Err(unserved(&view.kind)) };
    let place = Place::new(resource, &view.identity);
    let why = "orphan; no dependent refers to it any more";
    io.unless_ending(place.remove_finalizer(ORPHAN, why, io)).await.transpose()?;
    Ok(Requeue::AsPlanned)
}
