//! Judges an object by its owners, and executes the verdict.
//!
//! The first judgement uses the metadata that monitors have seen; later ones use the live object. Every write carries the UID and
//! the resourceVersion of the judged version: if the object has changed meanwhile, it is read and judged again.

use std::borrow::Cow;

use common::{
    io::{Failed, Precondition, Request, Retry, Role, Verb},
    meta::{OwnerRef, Uid, Version},
};

use super::{Io, Note};
use crate::{
    collector::{
        decide::{Standing, Verdict, verdict},
        plan::Propagation,
        snapshot::{Owner, Snapshot},
    },
    graph::{FOREGROUND, ORPHAN, OwnerState, View},
    objects::{has_finalizer, waits_with},
    place::{Live, Place, TRIES, says_absent, unserved},
};

/// The version of an object on which the verdict is based.
pub(super) struct Judged<'a> {
    pub(super) place: &'a Place,
    version: Version,
    pub(super) owners: Cow<'a, [Owner]>,
    /// Propagation policy that the finalizers of this version request.
    propagation: Propagation,
    /// Whether this version was read from the server.
    pub(super) is_live: bool,
}

/// Result of a write of the judged object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The server accepted the write.
    Done,
    /// The object does not exist.
    Absent,
    /// The object has changed since the judgement.
    Changed,
}

/// Judges the object, and repeats this each time the object changes before the verdict is executed. Returns whether it exists.
pub(super) async fn judge(snapshot: &Snapshot, place: &Place, io: Io<'_>) -> Result<bool, Failed> {
    let view = &snapshot.view;
    let mut judged = Judged {
        place,
        version: view.version,
        owners: Cow::Borrowed(&snapshot.owners),
        propagation: Propagation::of_finalizers(view.orphans, view.foreground),
        is_live: !view.version.is_known(),
    };
    for _ in 0..TRIES {
        if judged.is_live && !judged.read(io).await? {
            return Ok(false);
        }
        let standings = judged.look_up_owners(io).await?;
        let written = match verdict(&standings, view.dependents, || is_in_cycle(view, io), judged.propagation) {
            Verdict::Keep => Written::Done,
            Verdict::Release(uids) => judged.drop_references(&uids, io).await?,
            Verdict::Delete { unblock: true, .. } if judged.owners.iter().any(Owner::is_blocked) => {
                judged.unblock(io).await?
            }
            Verdict::Delete { propagation, .. } => judged.delete(propagation, io).await?,
        };
        match written {
            Written::Done => return Ok(true),
            Written::Absent => return Ok(false),
            Written::Changed => judged.is_live = true,
        }
    }
    Err(place.changing())
}

/// Returns whether the object may be part of a cycle. Reads the graph again, because dependents may have changed during the
/// lookups of the owners.
fn is_in_cycle(view: &View, io: Io<'_>) -> bool {
    let in_cycle = io.observe_again(Vec::new()).map_or(view.in_cycle, |fresh| fresh.in_cycle);
    if in_cycle != view.in_cycle {
        io.deviate("whether a dependent waits for its own dependents has changed");
    }
    in_cycle
}

impl Judged<'_> {
    /// Reads the current version of the object. Returns whether the object exists.
    async fn read(&mut self, io: Io<'_>) -> Result<bool, Failed> {
        let meta = match self.place.live("to judge its current version", io).await? {
            Live::Absent => return Ok(false),
            Live::AsExpected => return Ok(true),
            Live::Is(meta) => meta,
        };
        let propagation = Propagation::of_finalizers(has_finalizer(&meta, ORPHAN), has_finalizer(&meta, FOREGROUND));
        if propagation != self.propagation {
            io.deviate(format!("the finalizers of {} have changed", self.place.title()));
        }
        self.version = meta.resource_version;
        self.propagation = propagation;
        if let Some(fresh) = io.observe_again(meta.owners.to_vec())
            && fresh.owners[..] != self.owners[..]
        {
            io.deviate(format!("the owners of {} have changed", self.place.title()));
            self.owners = Cow::Owned(fresh.owners);
        }
        Ok(true)
    }

    /// Returns the UID and the standing of each owner, in the order of the references. Looks up owners of unknown state.
    async fn look_up_owners(&self, io: Io<'_>) -> Result<Vec<(Uid, Standing)>, Failed> {
        let mut standings = Vec::new();
        for owner in &*self.owners {
            let standing = match owner.state {
                OwnerState::Absent => Standing::Dangling,
                // If the owner has just been deleted, its monitor reports the deletion, and the object is judged again.
                OwnerState::Present => Standing::Solid,
                OwnerState::Waiting => self.look_up(owner, Standing::Waiting, io).await?,
                OwnerState::Unknown => self.look_up(owner, Standing::Solid, io).await?,
            };
            standings.push((owner.reference.uid.clone(), standing));
        }
        Ok(standings)
    }

    async fn look_up(&self, owner: &Owner, expected: Standing, io: Io<'_>) -> Result<Standing, Failed> {
        let place = self.place_of(owner)?;
        let standing = match place.live("an owner that exists keeps the object", io).await? {
            Live::AsExpected => expected,
            Live::Is(meta) if waits_with(&meta, FOREGROUND) => Standing::Waiting,
            Live::Is(_) => Standing::Solid,
            Live::Absent => {
                io.note(Note::OwnerAbsent(owner.reference.clone(), place.namespace.clone()));
                Standing::Dangling
            }
        };
        // Forecast and sync reject an impossible name without a request, so the forecast was right.
        if standing != expected && place.can_exist() {
            let found = match standing {
                Standing::Solid => "does not wait for its dependents",
                Standing::Dangling => "does not exist",
                Standing::Waiting => "waits for its dependents",
            };
            io.deviate(format!("owner {} {found}", owner.name()));
        }
        Ok(standing)
    }

    fn place_of(&self, owner: &Owner) -> Result<Place, Failed> {
        let Some(resource) = owner.resource else { return Err(unserved(&owner.of())) };
        if resource.namespaced && self.place.namespace.is_empty() {
            let text = format!("{} is cluster-scoped and names a namespaced owner", self.place.title());
            return Err(Failed::new("scope", text).with_retry(Retry::Forget));
        }
        let namespace = if resource.namespaced { self.place.namespace.clone() } else { "".into() };
        let OwnerRef { name, uid, .. } = &owner.reference;
        Ok(Place { resource, namespace, name: name.as_str().into(), uid: uid.clone() })
    }

    async fn delete(&self, propagation: Propagation, io: Io<'_>) -> Result<Written, Failed> {
        let propagation = propagation.as_str();
        let request = Request {
            verb: Verb::Delete(Some(propagation), None),
            precondition: Some(self.version()),
            ..Request::delete(self.place.resource, &self.place.meta())
        };
        let why = format!("no owner keeps it; propagation policy {propagation}");
        match io.send(request.role(Role::Itself).because(why)).await {
            Ok(_) => Ok(Written::Done),
            Err(refusal) if says_absent(&refusal) => Ok(Written::Absent),
            Err(refusal) if refusal.error.is_conflict() => Ok(Written::Changed),
            Err(refusal) => Err(self.place.refused("deleting", &refusal)),
        }
    }

    /// Returns the precondition of every write: the UID and the judged version of the object.
    pub(super) fn version(&self) -> Precondition {
        Precondition { uid: self.place.uid.clone(), version: Some(self.version) }
    }
}
