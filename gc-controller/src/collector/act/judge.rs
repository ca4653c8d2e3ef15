//! Decides by the owners of an object whether to delete it, and sends the writes.
//!
//! The first decision uses the metadata that monitors have seen; each later one uses the live object. Every write carries the
//! UID and the resourceVersion of the version for which the decision was made. If the object has changed meanwhile, it is read,
//! and the decision is made again.

use std::borrow::Cow;

use common::{
    io::{ObjectRole, Precondition, Request, RetryPolicy, SyncError, Verb},
    meta::{OwnerRef, ResourceVersion, Uid},
};

use super::{Io, Note};
use crate::{
    collector::{
        decide::{OwnerStanding, Verdict, verdict},
        plan::PropagationPolicy,
        snapshot::{Owner, Snapshot},
    },
    graph::{FOREGROUND_FINALIZER, NodeView, ORPHAN_FINALIZER, OwnerState},
    objects::{has_finalizer, is_terminating_with},
    place::{LiveObject, MAX_ATTEMPTS, ObjectLocation, is_object_absent, unserved_error},
};

/// The version of an object for which the decision is made.
pub(super) struct JudgedObject<'a> {
    pub(super) place: &'a ObjectLocation,
    version: ResourceVersion,
    pub(super) owners: Cow<'a, [Owner]>,
    /// Propagation policy that the finalizers of this version request.
    propagation: PropagationPolicy,
    /// Whether this version was read from the server.
    pub(super) is_live: bool,
}

/// Result of a write with the version as a precondition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteResult {
    /// The server accepted the write.
    Done,
    /// The object does not exist.
    Absent,
    /// The object has changed since the decision.
    Changed,
}

/// Decides about the object, and sends the writes. Decides again each time the object has changed. Returns whether it exists.
pub(super) async fn judge(snapshot: &Snapshot, place: &ObjectLocation, io: Io<'_>) -> Result<bool, SyncError> {
    let view = &snapshot.view;
    let mut judged = JudgedObject {
        place,
        version: view.version,
        owners: Cow::Borrowed(&snapshot.owners),
        propagation: PropagationPolicy::from_finalizers(view.has_orphan_finalizer, view.has_foreground_finalizer),
        is_live: !view.version.is_known(),
    };
    for _ in 0..MAX_ATTEMPTS {
        if judged.is_live && !judged.read(io).await? {
            return Ok(false);
        }
        let standings = judged.look_up_owners(io).await?;
        let written = match verdict(&standings, view.dependent_count, || is_in_cycle(view, io), judged.propagation) {
            Verdict::Keep => WriteResult::Done,
            Verdict::Release(uids) => judged.drop_references(&uids, io).await?,
            Verdict::Delete { unblock: true, .. } if judged.owners.iter().any(Owner::blocks_owner) => {
                judged.unblock(io).await?
            }
            Verdict::Delete { propagation, .. } => judged.delete(propagation, io).await?,
        };
        match written {
            WriteResult::Done => return Ok(true),
            WriteResult::Absent => return Ok(false),
            WriteResult::Changed => judged.is_live = true,
        }
    }
    Err(place.conflict_error())
}

/// Returns whether the object may be part of a cycle. Reads the graph again, because dependents may have changed during the
/// lookups of the owners.
fn is_in_cycle(view: &NodeView, io: Io<'_>) -> bool {
    let in_cycle = io.observe_again(Vec::new()).map_or(view.may_be_in_cycle, |fresh| fresh.may_be_in_cycle);
    if in_cycle != view.may_be_in_cycle {
        io.explain_deviation("whether a dependent waits for its own dependents has changed");
    }
    in_cycle
}

impl JudgedObject<'_> {
    /// Reads the current version of the object. Returns whether the object exists.
    async fn read(&mut self, io: Io<'_>) -> Result<bool, SyncError> {
        let meta = match self.place.read_live("to judge its current version", io).await? {
            LiveObject::Absent => return Ok(false),
            LiveObject::AsExpected => return Ok(true),
            LiveObject::Existing(meta) => meta,
        };
        let propagation = PropagationPolicy::from_finalizers(
            has_finalizer(&meta, ORPHAN_FINALIZER),
            has_finalizer(&meta, FOREGROUND_FINALIZER),
        );
        if propagation != self.propagation {
            io.explain_deviation(format!("the finalizers of {} have changed", self.place.describe()));
        }
        self.version = meta.resource_version;
        self.propagation = propagation;
        if let Some(fresh) = io.observe_again(meta.owners.to_vec())
            && fresh.owners[..] != self.owners[..]
        {
            io.explain_deviation(format!("the owners of {} have changed", self.place.describe()));
            self.owners = Cow::Owned(fresh.owners);
        }
        Ok(true)
    }

    /// Returns the UID of each owner and whether the owner exists, in the order of the references. Sends lookups if necessary.
    async fn look_up_owners(&self, io: Io<'_>) -> Result<Vec<(Uid, OwnerStanding)>, SyncError> {
        let mut standings = Vec::new();
        for owner in &*self.owners {
            let standing = match owner.state {
                OwnerState::Absent => OwnerStanding::Dangling,
                // If the owner has just been deleted, its monitor will report the deletion, and the object is enqueued again.
                OwnerState::Present => OwnerStanding::Solid,
                OwnerState::WaitingForDependents => {
                    self.look_up(owner, OwnerStanding::WaitingForDependents, io).await?
                }
                OwnerState::Unknown => self.look_up(owner, OwnerStanding::Solid, io).await?,
            };
            standings.push((owner.reference.uid.clone(), standing));
        }
        Ok(standings)
    }

    async fn look_up(&self, owner: &Owner, expected: OwnerStanding, io: Io<'_>) -> Result<OwnerStanding, SyncError> {
        let place = self.place_of(owner)?;
        let standing = match place.read_live("an owner that exists keeps the object", io).await? {
            LiveObject::AsExpected => expected,
            LiveObject::Existing(meta) if is_terminating_with(&meta, FOREGROUND_FINALIZER) => {
                OwnerStanding::WaitingForDependents
            }
            LiveObject::Existing(_) => OwnerStanding::Solid,
            LiveObject::Absent => {
                io.apply_note(Note::OwnerAbsent(owner.reference.clone(), place.namespace.clone()));
                OwnerStanding::Dangling
            }
        };
        // For a name that no object can have, forecast and sync send no request, so they cannot differ.
        if standing != expected && place.can_exist() {
            let found = match standing {
                OwnerStanding::Solid => "does not wait for its dependents",
                OwnerStanding::Dangling => "does not exist",
                OwnerStanding::WaitingForDependents => "waits for its dependents",
            };
            io.explain_deviation(format!("owner {} {found}", owner.name()));
        }
        Ok(standing)
    }

    fn place_of(&self, owner: &Owner) -> Result<ObjectLocation, SyncError> {
        let Some(resource) = owner.resource else { return Err(unserved_error(&owner.written_kind())) };
        if resource.is_namespaced && self.place.namespace.is_empty() {
            let text = format!("{} is cluster-scoped and names a namespaced owner", self.place.describe());
            return Err(SyncError::new("scope", text).with_retry(RetryPolicy::NextEvent));
        }
        let namespace = if resource.is_namespaced { self.place.namespace.clone() } else { "".into() };
        let OwnerRef { name, uid, .. } = &owner.reference;
        Ok(ObjectLocation { resource, namespace, name: name.as_str().into(), uid: uid.clone() })
    }

    async fn delete(&self, propagation: PropagationPolicy, io: Io<'_>) -> Result<WriteResult, SyncError> {
        let propagation = propagation.as_str();
        let request = Request {
            verb: Verb::Delete(Some(propagation), None),
            precondition: Some(self.write_precondition()),
            ..Request::delete(self.place.resource, &self.place.meta())
        };
        let why = format!("no owner keeps it; propagation policy {propagation}");
        match io.send(request.role(ObjectRole::SyncedObject).with_reason(why)).await {
            Ok(_) => Ok(WriteResult::Done),
            Err(refusal) if is_object_absent(&refusal) => Ok(WriteResult::Absent),
            Err(refusal) if refusal.error.is_conflict() => Ok(WriteResult::Changed),
            Err(refusal) => Err(self.place.refused_error("deleting", &refusal)),
        }
    }

    /// Returns the precondition of every write: the UID of the object, and the version for which the decision was made.
    pub(super) fn write_precondition(&self) -> Precondition {
        Precondition { uid: self.place.uid.clone(), version: Some(self.version) }
    }
}
