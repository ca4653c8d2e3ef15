//! Carries a plan out: looks up owners, then deletes the object, or changes its owner references or finalizers.
//!
//! A forecast expects the object to be as the graph has it. It expects an owner that is looked up to exist, and to wait for its
//! dependents only if the graph says so.

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

impl io::Note for Note {
    /// The references whose owners are asked for.
    type Question = Vec<OwnerRef>;
    type Fresh = Fresh;
}

type Io<'r> = io::Io<'r, Note>;

/// Carries a plan out.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    // Nothing is sent for a kind that is not served.
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
            // Until a monitor sees it, it is asked for again.
            Live::AsExpected | Live::Is(_) => return Ok(Requeue::RateLimited),
        },
        Plan::Delete { .. } | Plan::Verify { .. } => judge::judge(snapshot, &place, io).await?,
    };
    if !exists {
        io.note(Note::Absent);
    }
    Ok(Requeue::AsPlanned)
}
