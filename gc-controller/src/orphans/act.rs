//! Executes a plan: releases the dependents, then removes the finalizer of the owner.

mod release;

use std::borrow::Cow;

use common::{
    io::{self, GroupConcurrency, Requeue, SyncError},
    map::HashSet,
};

use super::{
    plan::Plan,
    snapshot::{DependentWithResource, Snapshot},
};
use crate::{
    graph::ORPHAN_FINALIZER,
    place::{ObjectLocation, report_denied_reference_change, unserved_kind_error},
};
use release::release_dependent;

/// Maximum number of dependents of one owner that are released concurrently.
const MAX_CONCURRENT_RELEASES: usize = 20;

/// A change of the collector's memory that a sync requests.
#[derive(Debug)]
pub enum Note {
    /// The owner is no longer parked (waiting without retries).
    Unparked,
    /// The owner is parked: it waits, without retries, until the initial lists of all kinds are complete.
    Parked,
}

impl io::MemoryNote for Note {
    type Query = ();
    /// The dependents that currently refer to the owner.
    type NewState = Vec<DependentWithResource>;
}

type Io<'r> = io::Io<'r, Note>;

/// Executes the plan for one owner. Dependents that appear during the sync are released, too.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    io.apply_memory_note(Note::Unparked);
    match plan {
        Plan::Nothing => return Ok(Requeue::AfterPlannedDelay),
        Plan::Wait(_) => {
            io.apply_memory_note(Note::Parked);
            return Ok(Requeue::AfterPlannedDelay);
        }
        Plan::Release(_) => {}
    }
    let view = &snapshot.graph_node;
    let owner = &view.identity.uid;
    let mut released = HashSet::default();
    let mut dependents = Cow::Borrowed(&snapshot.dependents);
    loop {
        let mut failed = None;
        let mut places = Vec::new();
        for (dependent, resource) in &*dependents {
            match resource {
                Some(resource) => places.push(ObjectLocation::new(resource.clone(), &dependent.identity)),
                None => failed = Some(unserved_kind_error(&dependent.kind)),
            }
        }
        let results = io
            .run_group(GroupConcurrency::LimitedConcurrent(MAX_CONCURRENT_RELEASES), &places, |place| {
                release_dependent(place, owner, io)
            })
            .await;
        if results.len() < places.len() {
            // The process is shutting down, so not all dependents were released.
            return Ok(Requeue::AfterPlannedDelay);
        }
        if let Some(failed) = results.into_iter().rev().find_map(Result::err).or(failed) {
            report_denied_reference_change(&failed, io);
            return Err(failed);
        }
        released.extend(places.into_iter().map(|place| place.uid));
        let mut new = io.observe_again(()).unwrap_or_default();
        new.retain(|(dependent, _)| !released.contains(&dependent.identity.uid));
        if new.is_empty() {
            break;
        }
        io.explain_deviation(format!("{} dependents have turned up since", new.len()));
        dependents = Cow::Owned(new);
    }
    let Some(resource) = &snapshot.resource else { return Err(unserved_kind_error(&view.kind)) };
    let place = ObjectLocation::new(resource.clone(), &view.identity);
    let why = "orphan; no dependent refers to it any more";
    io.await_unless_shutting_down(place.remove_finalizer(ORPHAN_FINALIZER, why, io)).await.transpose()?;
    Ok(Requeue::AfterPlannedDelay)
}
