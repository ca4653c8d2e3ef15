//! Executes a plan: looks up owners, then deletes the object, or changes its owner references or finalizers.
//!
//! A forecast (a sync without requests) expects the object to be as it is in the graph. It expects an owner that the plan looks
//! up to exist, and to be in foreground deletion only if the graph shows this.

mod judge;
mod references;

#[cfg(test)]
mod tests;

use common::{
    intern::Text,
    io::{self, Requeue, SyncError},
    meta::OwnerRef,
    object::Object as _,
};

use super::{
    plan::Plan,
    snapshot::{OwnerWithState, Snapshot},
};
use crate::{
    graph::FOREGROUND_FINALIZER,
    objects::PartialObject,
    parked::WaitCondition,
    place::{LiveReadResult, ObjectLocation},
};

/// A change of the collector's memory that a sync requests.
#[derive(Debug)]
pub enum Note {
    /// The object is no longer parked (waiting without retries until a kind is served or listed).
    Unparked,
    /// The object is parked: it waits, without retries, until this wait condition is true.
    Parked(WaitCondition),
    /// The object does not exist.
    Absent,
    /// The owner named by this reference does not exist. The second field is the namespace of the owner.
    OwnerAbsent(OwnerRef, Text),
}

/// States of owners, read again from the graph and from the monitors during a sync.
pub struct ReobservedOwners {
    /// The owners named by the requested references, in the same order.
    pub owners: Vec<OwnerWithState>,
    /// Whether a dependent of the object is in foreground deletion. Object and dependent may then wait for each other.
    pub may_be_in_cycle: bool,
}

impl io::MemoryNote for Note {
    /// Owner references. The sync reads the states of their owners again.
    type Query = Vec<OwnerRef>;
    type NewState = ReobservedOwners;
}

type Io<'r> = io::Io<'r, Note>;

/// Executes the plan for one object.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    // If the kind is not served, the plan sends no request, so the placeholder resource is never used.
    let resource = snapshot.resource.clone().unwrap_or(PartialObject::RESOURCE);
    let place = ObjectLocation::new(resource, &snapshot.graph_node.identity);
    io.apply_memory_note(Note::Unparked);
    let exists = match plan {
        Plan::Nothing(_) | Plan::BlockedByDependents(_) => true,
        Plan::Wait(awaited, _) => {
            io.apply_memory_note(Note::Parked(awaited.clone()));
            true
        }
        Plan::RemoveForegroundFinalizer => {
            let why = "foregroundDeletion; no dependent blocks its deletion";
            io.await_unless_shutting_down(place.remove_finalizer(FOREGROUND_FINALIZER, why, io))
                .await
                .unwrap_or(Ok(true))?
        }
        Plan::LookUpObject => match place.read_live("only owner references name it", io).await? {
            LiveReadResult::Absent => false,
            // The object exists, but no monitor has seen it yet, so the lookup is repeated.
            LiveReadResult::AsExpected | LiveReadResult::Existing(_) => return Ok(Requeue::AfterBackoff),
        },
        Plan::Delete { .. } | Plan::LookUpOwners { .. } => judge::delete_or_release(snapshot, &place, io).await?,
    };
    if !exists {
        io.apply_memory_note(Note::Absent);
    }
    Ok(Requeue::AfterPlannedDelay)
}
