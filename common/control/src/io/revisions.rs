//! Requests that store, change and delete the revisions of an owner.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde_json::value::RawValue;

use super::{
    body::RequestBody,
    outcome::SyncError,
    request::{ObjectRole, Precondition, Refusal, RefusalClass, Request},
    run::Io,
};
use crate::{
    api,
    meta::Meta,
    refs::Owner,
    revision::{CONTROLLER_REVISIONS, ControllerRevision, RevisionData},
};

/// The JSON members of a revision by name, as the server sent them and not decoded.
pub type RawRevisionMembers = BTreeMap<String, Box<RawValue>>;

/// The result of [`RevisionStoreRequest::send`]: a created revision, or the reason why none was created.
#[derive(Debug)]
pub enum RevisionStoreOutcome {
    /// The revision was created.
    Created,
    /// A revision with the same name and the same data exists, from an earlier request or from another controller. The labels
    /// and the controller of that revision may differ.
    AlreadyExists(Box<ControllerRevision>),
    /// A revision with the same name and other data exists. Contains the server's refusal.
    NameTaken(Refusal),
    /// Nothing was created: a live read showed that the owner does not exist, is terminating, or has been replaced.
    OwnerGone,
}

/// A request to store a revision under a name.
pub struct RevisionStoreRequest<'a> {
    owner: &'a Owner,
    name: Arc<str>,
    data: &'a RevisionData,
    why: String,
    checks_owner: bool,
}

impl<'a> RevisionStoreRequest<'a> {
    /// Creates a request to store `data` as a revision of `owner`. `why` is the reason in explanations.
    pub fn new(owner: &'a Owner, name: &str, data: &'a RevisionData, why: String) -> Self {
        Self { owner, name: name.into(), data, why, checks_owner: false }
    }

    /// Stores the revision only if a live read shows that the owner exists and is not terminating.
    ///
    /// Meant for a revision that was stored before and is missing. If the owner no longer exists and the cache lags, the
    /// garbage collector would delete the revision each time it is stored.
    #[must_use]
    pub fn only_if_owner_exists(self) -> Self {
        Self { checks_owner: true, ..self }
    }

    /// Stores the revision with the encoded form `body`. If its name is taken, reads the existing revision and compares the
    /// data.
    ///
    /// Upstream: `pkg/controller/history`, `CreateControllerRevision`; `pkg/controller/daemon`, `snapshot`.
    pub async fn send<M: Sync>(self, body: RequestBody, io: Io<'_, M>) -> Result<RevisionStoreOutcome, Refusal> {
        let Self { owner, name, data, why, checks_owner: rechecks_owner } = self;
        if rechecks_owner && !owner_exists(io, owner).await? {
            io.explain_deviation("the owner does not exist, is terminating, or was replaced");
            return Ok(RevisionStoreOutcome::OwnerGone);
        }
        let create = Request::create(CONTROLLER_REVISIONS, &owner.namespace, &name, body);
        let taken = match io.send(create.with_role(ObjectRole::AwaitedObject).with_reason(why)).await {
            Ok(_) => return Ok(RevisionStoreOutcome::Created),
            Err(refusal) if refusal.class == RefusalClass::NameTaken => refusal,
            Err(refusal) => return Err(refusal),
        };
        let read = Request::get(CONTROLLER_REVISIONS, &owner.namespace, &name).with_reason("its name is taken");
        Ok(match io.send_and_decode::<ControllerRevision>(read).await? {
            Some(there) if there.has_data(data) => RevisionStoreOutcome::AlreadyExists(Box::new(there)),
            _ => RevisionStoreOutcome::NameTaken(taken),
        })
    }
}

async fn owner_exists<M: Sync>(io: Io<'_, M>, owner: &Owner) -> Result<bool, Refusal> {
    let request = Request::get_metadata(owner.resource.clone(), &owner.namespace, &owner.name.as_str().into());
    let precondition = Some(Precondition { uid: owner.uid.clone(), version: None });
    let request = request.with_precondition(precondition).with_reason("the owner may be missing like its revision");
    match io.send(request).await {
        // A forecast has no live object and expects the owner to exist.
        Ok(answer) => Ok(answer.decode_metadata()?.is_none_or(|live| live.uid == owner.uid && !live.is_deleting())),
        Err(refusal) if refusal.class == RefusalClass::NotFound => Ok(false),
        Err(refusal) => Err(refusal),
    }
}

/// The reason why a revision was not changed.
#[derive(Debug)]
pub enum RevisionChangeError {
    /// The revision does not exist, has another controller, or has been replaced by another object of the same name.
    RevisionLost,
    /// The server refused a request.
    RequestRefused(Refusal),
}

impl From<Refusal> for RevisionChangeError {
    fn from(refusal: Refusal) -> Self {
        Self::RequestRefused(refusal)
    }
}

/// A change of a revision that the owner controls.
pub struct RevisionChange<'a> {
    owner: &'a Owner,
    revision: &'a Meta,
    doing: &'static str,
    why: Cow<'static, str>,
}

impl<'a> RevisionChange<'a> {
    /// Creates a change of `revision`. `doing` and `why` are the verb and the reason in explanations.
    pub fn new(owner: &'a Owner, revision: &'a Meta, doing: &'static str, why: impl Into<Cow<'static, str>>) -> Self {
        Self { owner, revision, doing, why: why.into() }
    }

    /// Sets the field `revision`, the serial number by which the revisions of an owner are ordered.
    pub async fn set_revision_number<M: Sync>(
        owner: &'a Owner,
        revision: &'a Meta,
        number: i64,
        io: Io<'_, M>,
    ) -> Result<(), RevisionChangeError> {
        let why = format!("the template equals an earlier revision, which becomes number {number}");
        let edit = |members: &mut RawRevisionMembers| {
            let number = serde_json::value::to_raw_value(&number)?;
            let known = members.insert("revision".to_owned(), number.clone());
            Ok(known.is_none_or(|known| known.get() != number.get()))
        };
        Self::new(owner, revision, "renumber", why).send(edit, io).await
    }

    /// Reads the revision live, applies `edit`, and replaces the whole object. The data are sent back unchanged, byte for byte.
    ///
    /// With a patch, the server would encode the data again, and would refuse the patch if the new encoding differed, because
    /// data are immutable. `edit` changes the members of the live revision, and returns whether they have to be written.
    pub async fn send<M: Sync>(
        self,
        edit: impl FnOnce(&mut RawRevisionMembers) -> serde_json::Result<bool>,
        io: Io<'_, M>,
    ) -> Result<(), RevisionChangeError> {
        let Self { owner, revision, doing, why } = self;
        let read = Request::get(CONTROLLER_REVISIONS, &revision.namespace, &revision.name);
        let live = io
            .send_and_decode::<RawRevisionMembers>(read.with_reason("a replacement starts from the live revision"))
            .await;
        let live = live.map_err(|refusal| match refusal.class {
            RefusalClass::NotFound => RevisionChangeError::RevisionLost,
            _ => RevisionChangeError::RequestRefused(refusal),
        })?;
        let unread = |error: serde_json::Error| RevisionChangeError::RequestRefused(api::Error::from(error).into());
        let mut body = RequestBody::default();
        let mut version = None;
        // A forecast has no live object and expects a live revision that equals the cached one.
        if let Some(mut members) = live {
            let metadata = members.get("metadata").map_or("{}", |metadata| metadata.get());
            let metadata: Meta = serde_json::from_str(metadata).map_err(unread)?;
            let is_controlled = metadata.controller().is_some_and(|controller| controller.uid == owner.uid);
            if metadata.uid != revision.uid || !is_controlled {
                io.explain_deviation(format!(
                    "ControllerRevision {} has another controller, or was replaced",
                    metadata.name
                ));
                return Err(RevisionChangeError::RevisionLost);
            }
            if !edit(&mut members).map_err(unread)? {
                io.explain_deviation(format!("ControllerRevision {} already has the wanted content", metadata.name));
                return Ok(());
            }
            body = RequestBody::encode(&members);
            version = Some(metadata.resource_version);
        }
        let replace = Request::replace(CONTROLLER_REVISIONS, revision, body).with_precondition_version(version);
        io.send(replace.with_role(ObjectRole::AwaitedObject).with_verb_text(doing).with_reason(why)).await?;
        Ok(())
    }
}

/// Deletes a revision at the version of the snapshot, or at the version of the last write of this sync. A missing revision counts
/// as deleted. `what` begins the text of a failure.
pub async fn delete_revision<M: Sync>(
    revision: &Meta,
    why: &'static str,
    what: &str,
    io: Io<'_, M>,
) -> Result<(), SyncError> {
    match io.send(Request::delete(CONTROLLER_REVISIONS, revision).with_reason(why)).await {
        Err(refusal) if !refusal.error.is_not_found() => {
            Err(SyncError::from_refusal(&format!("{what} {}", revision.name), &refusal))
        }
        _ => Ok(()),
    }
}
