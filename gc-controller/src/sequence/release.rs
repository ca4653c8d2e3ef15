//! Releasing a dependent from an owner that is deleted without it.
//!
//! The dependent loses every reference to the uid of that owner, whatever else the reference says. No version of the dependent
//! can make that wrong, so none is required.

use common::{
    api::Patch,
    meta::{OwnerRef, Uid},
    sequence::{Failed, Note, Precondition, Refusal, Role, Step, Steps, Turn},
};
use serde_json::{Value, json};

use super::{
    TRIES,
    place::{Live, Place, is_unsupported, says_absent},
};

/// Removes every reference of a dependent to an owner.
pub(crate) struct Release {
    place: Place,
    owner: Uid,
    tries: u32,
    /// Whether the dependent is released or gone; `None` if nothing was begun.
    pub(crate) outcome: Option<Result<(), Failed>>,
}

impl Release {
    pub(crate) fn of<N: Note>(place: Place, owner: Uid) -> Steps<Self, N> {
        Steps::new(Self { place, owner, tries: 0, outcome: None }, Self::release)
    }

    /// The dependent.
    pub(crate) fn uid(&self) -> &Uid {
        &self.place.uid
    }

    fn end<N: Note>(&mut self, outcome: Result<(), Failed>) -> Step<Self, N> {
        self.outcome = Some(outcome);
        Step::Done
    }

    fn release<N: Note>(&mut self, turn: &mut Turn<N>) -> Step<Self, N> {
        let body = turn.body(|| json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": self.owner}]}}));
        let object = Precondition { uid: self.place.uid.clone(), version: None };
        let request = self.place.patch(Patch::Strategic, Some(object), body);
        Step::Send(request.doing("release").role(Role::Child), Self::released)
    }

    fn released<N: Note>(&mut self, turn: &mut Turn<N>) -> Step<Self, N> {
        match turn.written() {
            Err(refusal) if says_absent(&refusal) => self.end(Ok(())),
            // The uid is another's, or an old server wants references to be there that are to go: look.
            Err(refusal) if is_unsupported(&refusal) || refusal.error.is_invalid() || refusal.error.is_conflict() => {
                self.read(turn)
            }
            Err(refusal) => self.fail(&refusal),
            Ok(_) => self.end(Ok(())),
        }
    }

    fn read<N: Note>(&mut self, _: &mut Turn<N>) -> Step<Self, N> {
        if self.tries == TRIES {
            return self.end(Err(self.place.changing()));
        }
        self.tries += 1;
        match self.place.read() {
            Some(request) => Step::Send(request, Self::rewrite),
            None => self.end(Ok(())),
        }
    }

    /// Writes the list of references anew, onto what is there.
    fn rewrite<N: Note>(&mut self, turn: &mut Turn<N>) -> Step<Self, N> {
        let meta = match self.place.live(turn) {
            Err(failed) => return self.end(Err(failed)),
            Ok(Live::Is(meta)) if meta.owners.iter().any(|owner| owner.uid == self.owner) => meta,
            Ok(_) => return self.end(Ok(())),
        };
        let left: Vec<&OwnerRef> = meta.owners.iter().filter(|owner| owner.uid != self.owner).collect();
        let left = if left.is_empty() { Value::Null } else { json!(left) };
        let body =
            turn.body(|| json!({"metadata": {"resourceVersion": meta.resource_version, "ownerReferences": left}}));
        let request = self.place.patch(Patch::Merge, None, body);
        Step::Send(request.doing("release").role(Role::Child), Self::rewrote)
    }

    fn rewrote<N: Note>(&mut self, turn: &mut Turn<N>) -> Step<Self, N> {
        match turn.written() {
            Err(refusal) if refusal.error.is_conflict() => self.read(turn),
            Err(refusal) if !says_absent(&refusal) => self.fail(&refusal),
            Ok(_) | Err(_) => self.end(Ok(())),
        }
    }

    fn fail<N: Note>(&mut self, refusal: &Refusal) -> Step<Self, N> {
        self.end(Err(self.place.refused("changing the owner references of", refusal)))
    }
}
