//! Storing, changing and deleting the revisions of an owner.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde_json::value::RawValue;

use super::{Body, Class, Failed, Next, Note, Precondition, Refusal, Request, Role, Sequence, Turn};
use crate::{
    api,
    meta::{Meta, Uid},
    refs::Owner,
    revision::{CONTROLLER_REVISIONS, ControllerRevision, Data},
};

/// A revision as the server sent it: its members by name, unread.
pub type RawMembers = BTreeMap<String, Box<RawValue>>;

/// What became of a revision that was to be stored.
#[derive(Debug)]
pub enum Stored {
    /// It is stored now.
    Yes,
    /// The name is taken by this revision with the same data: by an earlier request, or by another controller. Its labels and its
    /// controller may be others.
    There(Box<ControllerRevision>),
    /// The name is taken by a revision with other data. This is the server's refusal.
    Taken(Refusal),
    /// Nothing was stored: the owner, read live, is gone, deleted, or another one.
    OwnerGone,
}

/// Stores a revision under a name. If the name is taken, the revision of that name is read live and compared.
///
/// Upstream: `pkg/controller/history`, `CreateControllerRevision`; `pkg/controller/daemon`, `snapshot`.
pub struct StoreRevision<'a> {
    request: Request,
    data: &'a Data,
    owner: Option<Request>,
    sent: Sent,
    /// What became of it; `None` if it was not begun.
    pub outcome: Option<Result<Stored, Refusal>>,
}

/// The last request of a [`StoreRevision`].
enum Sent {
    Nothing,
    Owner,
    Create,
    /// The read of the revision whose name is taken, after this refusal.
    Read(Refusal),
}

impl<'a> StoreRevision<'a> {
    /// Stores `body`, which holds `data`, under that name.
    pub fn new(owner: &Owner, name: &str, body: Body, data: &'a Data) -> Self {
        let request = Request::create(CONTROLLER_REVISIONS, &owner.namespace, &name.into(), body);
        Self { request: request.role(Role::Awaited), data, owner: None, sent: Sent::Nothing, outcome: None }
    }

    /// The same if the owner, read live, is still there.
    ///
    /// For an owner whose revision was stored before. If the owner is gone and the cache does not show that, the garbage collector
    /// deletes the revision as often as it is stored.
    #[must_use]
    pub fn if_still_there(self, owner: &Owner) -> Self {
        let request = Request::get_metadata(owner.resource, &owner.namespace, &owner.name.as_str().into());
        let precondition = Some(Precondition { uid: owner.uid.clone(), version: None });
        let request = Request { precondition, ..request };
        Self { owner: Some(request.because("its revision is gone, so it may be gone, too")), ..self }
    }

    fn owner_is_there<N: Note>(&self, turn: &mut Turn<N>) -> Result<bool, Refusal> {
        let wanted = self.owner.as_ref().and_then(|owner| owner.precondition.as_ref());
        let is_owner = |live: &Meta| wanted.is_some_and(|wanted| wanted.uid == live.uid) && !live.is_deleting();
        match turn.metadata() {
            // A forecast expects the owner to be there.
            Ok(live) => Ok(live.as_ref().is_none_or(is_owner)),
            Err(refusal) if refusal.class == Class::Gone => Ok(false),
            Err(refusal) => Err(refusal),
        }
    }

    /// The same with a reason.
    #[must_use]
    pub fn because(self, why: String) -> Self {
        Self { request: self.request.because(why), ..self }
    }
}

impl<N: Note> Sequence<N> for StoreRevision<'_> {
    fn next(&mut self, turn: &mut Turn<N>) -> Next<'_, N> {
        let outcome = match std::mem::replace(&mut self.sent, Sent::Create) {
            Sent::Nothing => {
                let Some(owner) = &self.owner else { return Next::Send(self.request.clone()) };
                self.sent = Sent::Owner;
                return Next::Send(owner.clone());
            }
            Sent::Owner => match self.owner_is_there(turn) {
                Ok(true) => return Next::Send(self.request.clone()),
                Ok(false) => {
                    turn.deviates("the owner is gone, deleted, or another one");
                    Ok(Stored::OwnerGone)
                }
                Err(refusal) => Err(refusal),
            },
            Sent::Create => match turn.written() {
                Err(taken) if taken.class == Class::Taken => {
                    self.sent = Sent::Read(taken);
                    let Request { resource, namespace, name, .. } = &self.request;
                    return Next::Send(Request::get(*resource, namespace, name).because("its name is taken"));
                }
                answer => answer.map(|_| Stored::Yes),
            },
            Sent::Read(taken) => turn.read::<ControllerRevision>().map(|there| match there {
                Some(there) if there.holds(self.data) => Stored::There(Box::new(there)),
                _ => Stored::Taken(taken),
            }),
        };
        self.outcome = Some(outcome);
        Next::Done
    }
}

/// Says what to change in a revision as the server has it, and whether there is anything to write.
type Edit<'a> = Box<dyn FnOnce(&mut RawMembers) -> serde_json::Result<bool> + Send + 'a>;

/// Changes a revision that the owner controls.
///
/// It is read live and replaced as a whole, with its data byte for byte: a patch makes the server encode the data again, and if
/// that gives other bytes the server refuses the patch, because data are immutable.
pub struct ChangeRevision<'a> {
    revision: &'a Meta,
    owner: &'a Uid,
    edit: Option<Edit<'a>>,
    doing: &'static str,
    why: Cow<'static, str>,
    stage: Stage,
    /// What became of it; `None` if it was not begun.
    outcome: Option<Result<(), Refused>>,
}

#[derive(Clone, Copy)]
enum Stage {
    Read,
    Replace,
    Replaced,
}

/// Why a revision was not changed.
#[derive(Debug)]
pub enum Refused {
    /// The revision is gone, or has another controller. Another one may have its name.
    Gone,
    /// The server refused a request.
    Request(Refusal),
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Request(refusal)
    }
}

impl<'a> ChangeRevision<'a> {
    /// A change that `edit` makes; `doing` and `why` are its words in explanations.
    pub fn new(
        owner: &'a Owner,
        revision: &'a Meta,
        doing: &'static str,
        why: impl Into<Cow<'static, str>>,
        edit: impl FnOnce(&mut RawMembers) -> serde_json::Result<bool> + Send + 'a,
    ) -> Self {
        let edit: Option<Edit<'a>> = Some(Box::new(edit));
        Self { revision, owner: &owner.uid, edit, doing, why: why.into(), stage: Stage::Read, outcome: None }
    }

    /// Gives a revision another number.
    pub fn renumber(owner: &'a Owner, revision: &'a Meta, number: i64) -> Self {
        let why = format!("the template is an earlier one, whose revision becomes number {number}");
        Self::new(owner, revision, "renumber", why, move |members| {
            let number = serde_json::value::to_raw_value(&number)?;
            let known = members.insert("revision".to_owned(), number.clone());
            Ok(known.is_none_or(|known| known.get() != number.get()))
        })
    }

    /// The revision as the cache has it.
    pub fn revision(&self) -> &'a Meta {
        self.revision
    }

    /// Whether the server has the revision as it is to be.
    pub fn is_done(&self) -> bool {
        matches!(self.outcome, Some(Ok(())))
    }

    /// Why it was not changed; `None` if it was, or if that was not begun.
    pub fn refused(&self) -> Option<&Refused> {
        self.outcome.as_ref()?.as_ref().err()
    }

    /// The request that replaces the revision; `None` if there is nothing to write.
    fn replacement<N: Note>(&mut self, turn: &mut Turn<N>) -> Result<Option<Request>, Refused> {
        let live: Option<RawMembers> = turn.read().map_err(|refusal| match refusal.class {
            Class::Gone => Refused::Gone,
            _ => Refused::Request(refusal),
        })?;
        let unread = |error: serde_json::Error| Refused::Request(api::Error::from(error).into());
        let mut body = Body::default();
        let mut version = None;
        // A forecast expects the revision to be as it is in the cache.
        if let (Some(mut members), Some(edit)) = (live, self.edit.take()) {
            let metadata = members.get("metadata").map_or("{}", |metadata| metadata.get());
            let metadata: Meta = serde_json::from_str(metadata).map_err(unread)?;
            let is_controlled = metadata.controller().is_some_and(|controller| controller.uid == *self.owner);
            if metadata.uid != self.revision.uid || !is_controlled {
                turn.deviates(format!(
                    "ControllerRevision {} has another controller, or is another one",
                    metadata.name
                ));
                return Err(Refused::Gone);
            }
            if !edit(&mut members).map_err(unread)? {
                turn.deviates(format!("ControllerRevision {} is as it is to be already", metadata.name));
                return Ok(None);
            }
            body = Body::encode(&members);
            version = Some(metadata.resource_version);
        }
        let request = Request::replace(CONTROLLER_REVISIONS, self.revision, body).at(version);
        Ok(Some(request.role(Role::Awaited).doing(self.doing).because(std::mem::take(&mut self.why))))
    }
}

impl<N: Note> Sequence<N> for ChangeRevision<'_> {
    fn next(&mut self, turn: &mut Turn<N>) -> Next<'_, N> {
        match self.stage {
            Stage::Read => {
                self.stage = Stage::Replace;
                let Meta { namespace, name, .. } = self.revision;
                let request = Request::get(CONTROLLER_REVISIONS, namespace, name);
                return Next::Send(request.because("it is replaced as the server has it"));
            }
            Stage::Replace => match self.replacement(turn) {
                Ok(Some(request)) => {
                    self.stage = Stage::Replaced;
                    return Next::Send(request);
                }
                other => self.outcome = Some(other.map(drop)),
            },
            Stage::Replaced => self.outcome = Some(turn.written().map(drop).map_err(Refused::from)),
        }
        Next::Done
    }

    fn stops_siblings(&self) -> bool {
        !self.is_done()
    }
}

/// Deletes a revision if it is still as it was when that was decided, or as the writes of this sync have left it.
pub struct DeleteRevision {
    name: Arc<str>,
    request: Option<Request>,
    refusal: Option<Refusal>,
}

impl DeleteRevision {
    /// Deletes this version of the revision.
    pub fn new(revision: &Meta, why: &'static str) -> Self {
        let request = Request::delete(CONTROLLER_REVISIONS, revision).because(why);
        Self { name: Arc::clone(&revision.name), request: Some(request), refusal: None }
    }

    /// The refusal; `None` if the revision is deleted or gone, or if its deletion was not begun.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// The failure of the first that could not be deleted; `what` is put before its name. A revision that is gone is no failure.
    pub fn failure(deletions: &[Self], what: &str) -> Option<Failed> {
        let failure = |deletion: &Self| {
            let refusal = deletion.refusal.as_ref()?;
            Some(Failed::request(&format!("{what} {}", deletion.name), refusal))
        };
        deletions.iter().find_map(failure)
    }
}

impl<N: Note> Sequence<N> for DeleteRevision {
    fn next(&mut self, turn: &mut Turn<N>) -> Next<'_, N> {
        if let Some(request) = self.request.take() {
            return Next::Send(request);
        }
        self.refusal = turn.written().err().filter(|refusal| !refusal.error.is_not_found());
        Next::Done
    }

    fn stops_siblings(&self) -> bool {
        self.refusal.is_some()
    }
}
