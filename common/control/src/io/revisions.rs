//! Storing, changing and deleting the revisions of an owner.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde_json::value::RawValue;

use super::{
    effect::Note,
    outcome::Failed,
    request::{Body, Class, Precondition, Refusal, Request, Role},
    run::Io,
};
use crate::{
    api,
    meta::Meta,
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

/// A revision to store under a name.
pub struct StoreRevision<'a> {
    owner: &'a Owner,
    name: Arc<str>,
    data: &'a Data,
    why: String,
    rechecks_owner: bool,
}

impl<'a> StoreRevision<'a> {
    /// A revision of `owner` with that name and these data.
    pub fn new(owner: &'a Owner, name: &str, data: &'a Data, why: String) -> Self {
        Self { owner, name: name.into(), data, why, rechecks_owner: false }
    }

    /// The same if the owner, read live, is still there.
    ///
    /// For an owner whose revision was stored before. If the owner is gone and the cache does not show that, the garbage collector
    /// deletes the revision as often as it is stored.
    #[must_use]
    pub fn if_still_there(self) -> Self {
        Self { rechecks_owner: true, ..self }
    }

    /// Stores the revision, whose encoded form is `body`. If the name is taken, the revision of that name is read live and compared.
    ///
    /// Upstream: `pkg/controller/history`, `CreateControllerRevision`; `pkg/controller/daemon`, `snapshot`.
    pub async fn send<N: Note>(self, body: Body, io: Io<'_, N>) -> Result<Stored, Refusal> {
        let Self { owner, name, data, why, rechecks_owner } = self;
        if rechecks_owner && !is_still_there(io, owner).await? {
            io.deviate("the owner is gone, deleted, or another one");
            return Ok(Stored::OwnerGone);
        }
        let create = Request::create(CONTROLLER_REVISIONS, &owner.namespace, &name, body);
        let taken = match io.send(create.role(Role::Awaited).because(why)).await {
            Ok(_) => return Ok(Stored::Yes),
            Err(refusal) if refusal.class == Class::Taken => refusal,
            Err(refusal) => return Err(refusal),
        };
        let read = Request::get(CONTROLLER_REVISIONS, &owner.namespace, &name).because("its name is taken");
        Ok(match io.send_and_read::<ControllerRevision>(read).await? {
            Some(there) if there.holds(data) => Stored::There(Box::new(there)),
            _ => Stored::Taken(taken),
        })
    }
}

async fn is_still_there<N: Note>(io: Io<'_, N>, owner: &Owner) -> Result<bool, Refusal> {
    let request = Request::get_metadata(owner.resource, &owner.namespace, &owner.name.as_str().into());
    let precondition = Some(Precondition { uid: owner.uid.clone(), version: None });
    let request = Request { precondition, ..request }.because("its revision is gone, so it may be gone, too");
    match io.send(request).await {
        // A forecast expects the owner to be there.
        Ok(answer) => Ok(answer.metadata()?.is_none_or(|live| live.uid == owner.uid && !live.is_deleting())),
        Err(refusal) if refusal.class == Class::Gone => Ok(false),
        Err(refusal) => Err(refusal),
    }
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

/// A change of a revision that the owner controls.
pub struct Change<'a> {
    owner: &'a Owner,
    revision: &'a Meta,
    doing: &'static str,
    why: Cow<'static, str>,
}

impl<'a> Change<'a> {
    /// A change of this revision; `doing` and `why` are its words in explanations.
    pub fn new(owner: &'a Owner, revision: &'a Meta, doing: &'static str, why: impl Into<Cow<'static, str>>) -> Self {
        Self { owner, revision, doing, why: why.into() }
    }

    /// Gives a revision another number.
    pub async fn renumber<N: Note>(
        owner: &'a Owner,
        revision: &'a Meta,
        number: i64,
        io: Io<'_, N>,
    ) -> Result<(), Refused> {
        let why = format!("the template is an earlier one, whose revision becomes number {number}");
        let edit = |members: &mut RawMembers| {
            let number = serde_json::value::to_raw_value(&number)?;
            let known = members.insert("revision".to_owned(), number.clone());
            Ok(known.is_none_or(|known| known.get() != number.get()))
        };
        Self::new(owner, revision, "renumber", why).send(edit, io).await
    }

    /// Reads the revision live and replaces it as a whole, with its data byte for byte: a patch makes the server encode the data again,
    /// and if that gives other bytes the server refuses the patch, because data are immutable.
    ///
    /// `edit` changes the revision as the server has it, and returns whether there is anything to write.
    pub async fn send<N: Note>(
        self,
        edit: impl FnOnce(&mut RawMembers) -> serde_json::Result<bool>,
        io: Io<'_, N>,
    ) -> Result<(), Refused> {
        let Self { owner, revision, doing, why } = self;
        let read = Request::get(CONTROLLER_REVISIONS, &revision.namespace, &revision.name);
        let live = io.send_and_read::<RawMembers>(read.because("it is replaced as the server has it")).await;
        let live = live.map_err(|refusal| match refusal.class {
            Class::Gone => Refused::Gone,
            _ => Refused::Request(refusal),
        })?;
        let unread = |error: serde_json::Error| Refused::Request(api::Error::from(error).into());
        let mut body = Body::default();
        let mut version = None;
        // A forecast expects the revision to be as it is in the cache.
        if let Some(mut members) = live {
            let metadata = members.get("metadata").map_or("{}", |metadata| metadata.get());
            let metadata: Meta = serde_json::from_str(metadata).map_err(unread)?;
            let is_controlled = metadata.controller().is_some_and(|controller| controller.uid == owner.uid);
            if metadata.uid != revision.uid || !is_controlled {
                io.deviate(format!("ControllerRevision {} has another controller, or is another one", metadata.name));
                return Err(Refused::Gone);
            }
            if !edit(&mut members).map_err(unread)? {
                io.deviate(format!("ControllerRevision {} is as it is to be already", metadata.name));
                return Ok(());
            }
            body = Body::encode(&members);
            version = Some(metadata.resource_version);
        }
        let replace = Request::replace(CONTROLLER_REVISIONS, revision, body).at(version);
        io.send(replace.role(Role::Awaited).doing(doing).because(why)).await?;
        Ok(())
    }
}

/// Deletes a revision if it is still as it was when that was decided, or as the writes of this sync left it. A revision that is gone
/// is no failure; the text of one begins with `what`.
pub async fn delete_revision<N: Note>(
    revision: &Meta,
    why: &'static str,
    what: &str,
    io: Io<'_, N>,
) -> Result<(), Failed> {
    match io.send(Request::delete(CONTROLLER_REVISIONS, revision).because(why)).await {
        Err(refusal) if !refusal.error.is_not_found() => {
            Err(Failed::request(&format!("{what} {}", revision.name), &refusal))
        }
        _ => Ok(()),
    }
}
