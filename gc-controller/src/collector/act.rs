//! Executes a plan: looks up owners, then deletes the object, or changes its owner references or finalizers.
//!
//! A forecast expects the object to be as it is in the graph. It expects an owner to exist if the plan looks the owner up, and to
//! wait for its dependents only if it does so in the graph.

mod judge;
mod references;

#[cfg(test)]
mod tests;

use common::{
    intern::Text,
    io::{self, Failed, Requeue},
    meta::OwnerRef,
    object::Object as _,
};

use super::{
    plan::Plan,
    snapshot::{Owner, Snapshot},
};
use crate::{
    graph::FOREGROUND,
    objects::Partial,
    parked::Awaited,
    place::{Live, Place},
};

/// A change of the collector's memory.
#[derive(Debug)]
pub enum Note {
    /// The object is no longer parked.
    Unparked,
    /// The object is parked until this condition is true.
    Parked(Awaited),
    /// The object does not exist.
    Absent,
    /// The owner named by this reference does not exist. The second field is the namespace of the owner.
    OwnerAbsent(OwnerRef, Text),
}

/// State of the graph and of the monitors while a sync is in progress.
pub struct Fresh {
    /// Owners named by the references of the question, in their order.
    pub owners: Vec<Owner>,
    /// Whether a dependent of the object waits for its own dependents.
    pub in_cycle: bool,
}

impl io::Note for Note {
    /// The references whose owners are requested.
    type Question = Vec<OwnerRef>;
    type Fresh = Fresh;
}

type Io<'r> = io::Io<'r, Note>;

/// Executes the plan for one object.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    // If the kind is not served, the plan sends no request, so the placeholder resource is never used.
    let place = Place::new(snapshot.resource.unwrap_or(Partial::RESOURCE), &snapshot.view.identity);
    io.note(Note::Unparked);
    let exists = match plan {
        Plan::Nothing(_) | Plan::Blocked(_) => true,
        Plan::Wait(awaited, _) => {
            io.note(Note::Parked(awaited.clone()));
            true
        }
        Plan::Finish => {
            let why = "foregroundDeletion; no dependent blocks its deletion";
            io.unless_ending(place.remove_finalizer(FOREGROUND, why, io)).await.unwrap_or(Ok(true))?
        }
        Plan::Exists => match place.live("only owner references name it", io).await? {
            Live::Absent => false,
            // The lookup is repeated until a monitor has seen the object.
            Live::AsExpected | Live::Is(_) => return Ok(Requeue::RateLimited),
        },
        Plan::Delete { .. } | Plan::Verify { .. } => judge::judge(snapshot, &place, io).await?,
    };
    if !exists {
        io.note(Note::Absent);
    }
    Ok(Requeue::AsPlanned)
}
