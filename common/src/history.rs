//! Requests about the revisions of an owner: storing, changing and deleting them.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::{
    api::{self, Api, Delete, Target, Written},
    claim::WrittenVersions,
    consistency::Ledger,
    meta::{Meta, Version},
    refs::Owner,
    revision::{CONTROLLER_REVISIONS, ControllerRevision, Data},
};

/// A revision as the server sent it: its members by name, unread.
pub type Members = BTreeMap<String, Box<RawValue>>;

/// The history of one owner.
#[derive(Clone, Copy)]
pub struct History<'a> {
    /// The API server.
    pub api: &'a Api,
    /// Where writes are noted, so that the next sync of the owner waits until the cache shows them.
    pub ledger: &'a Ledger,
    /// The owner.
    pub owner: &'a Owner,
}

/// What became of a revision that was to be stored.
#[derive(Debug)]
pub enum Stored {
    /// It is stored now.
    Yes,
    /// The name is taken by this revision with the same data: by an earlier request, or by another controller. Its labels and its
    /// controller may be others.
    There(Box<ControllerRevision>),
    /// The name is taken by a revision with other data. This is the server's refusal.
    Taken(api::Error),
}

/// What became of a change of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It was written, or the server has it like that. This is the version at which it is left.
    Yes(Version),
    /// The revision is gone, or has another controller. Another one may have its name.
    Gone,
}

impl History<'_> {
    /// Stores a revision with these data under that name. Upstream: `pkg/controller/history`, `CreateControllerRevision`;
    /// `pkg/controller/daemon`, `snapshot`.
    pub async fn create(&self, name: &str, body: &RawValue, data: &Data) -> Result<Stored, api::Error> {
        match self.api.create(self.target(""), body).await {
            Ok(answer) => self.wrote(&answer).map(|_| Stored::Yes),
            Err(taken) if taken.is_already_exists() => {
                let there: ControllerRevision = serde_json::from_slice(&self.api.get(self.target(name)).await?)?;
                Ok(if there.holds(data) { Stored::There(Box::new(there)) } else { Stored::Taken(taken) })
            }
            Err(error) => Err(error),
        }
    }

    /// Changes a revision that the owner controls.
    ///
    /// It is read live and replaced as a whole, with its data byte for byte: a patch makes the server encode the data again, and if
    /// that gives other bytes the server refuses the patch, because data are immutable. `edit` says whether there is anything to
    /// write.
    pub async fn replace(
        &self,
        revision: &Meta,
        edit: impl FnOnce(&mut Members) -> serde_json::Result<bool>,
    ) -> Result<Changed, api::Error> {
        let target = self.target(&revision.name);
        let live = match self.api.get(target).await {
            Err(error) if error.is_not_found() => return Ok(Changed::Gone),
            live => live?,
        };
        let known: Written = serde_json::from_slice(&live)?;
        let controlled = known.metadata.controller().is_some_and(|controller| controller.uid == self.owner.uid);
        if known.metadata.uid != revision.uid || !controlled {
            return Ok(Changed::Gone);
        }
        let mut body: Members = serde_json::from_slice(&live)?;
        if !edit(&mut body)? {
            return Ok(Changed::Yes(known.metadata.resource_version));
        }
        let answer = self.api.replace(target, &body).await?;
        self.wrote(&answer).map(Changed::Yes)
    }

    /// Gives a revision another number.
    pub async fn renumber(&self, revision: &Meta, number: i64) -> Result<Changed, api::Error> {
        let number = serde_json::value::to_raw_value(&number)?;
        let edit = |body: &mut Members| {
            let known = body.insert("revision".to_owned(), number.clone());
            Ok(known.is_none_or(|known| known.get() != number.get()))
        };
        self.replace(revision, edit).await
    }

    /// Deletes a revision if it is still as it was when that was decided, or as the writes of this sync have left it. A revision that
    /// is gone is no error.
    pub async fn delete(&self, revision: &Meta, versions: &WrittenVersions) -> Result<(), api::Error> {
        let Meta { namespace, name, uid, .. } = revision;
        let options = Delete { uid: Some(uid.clone()), version: Some(versions.of(revision)), ..Delete::default() };
        // Noted before the request, because the event may arrive before the answer.
        self.ledger.deleted(&self.owner.uid, CONTROLLER_REVISIONS, namespace, name, uid);
        match self.api.delete(self.target(name), &options).await {
            Err(error) if !error.is_not_found() => {
                self.ledger.undelete(&self.owner.uid, uid);
                if error.is_conflict() {
                    self.ledger.conflicted(&self.owner.uid, CONTROLLER_REVISIONS, revision);
                }
                Err(error)
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn wrote(&self, answer: &[u8]) -> Result<Version, api::Error> {
        let written: Written = serde_json::from_slice(answer)?;
        let version = written.metadata.resource_version;
        self.ledger.wrote(&self.owner.uid, CONTROLLER_REVISIONS, version);
        Ok(version)
    }

    fn target<'t>(&'t self, name: &'t str) -> Target<'t> {
        Target::object(CONTROLLER_REVISIONS, &self.owner.namespace, name)
    }
}
