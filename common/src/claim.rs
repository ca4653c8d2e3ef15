//! Carrying out claims: releasing and adopting the children of an owner.
//!
//! What is claimed was decided before ([`crate::refs::claim`]); here are the requests, and the live look at the owner before
//! the first adoption of a sync.

use std::fmt;

use parking_lot::Mutex;

use crate::{
    api::{self, Api, Patch, Target, Written},
    batch::all,
    consistency::Ledger,
    map::HashMap,
    meta::{Meta, Uid, Version},
    object::Resource,
    refs::{HasMeta, Owner, at_version},
};

/// Who claims, and what.
pub struct Claiming<'a> {
    /// The API server.
    pub api: &'a Api,
    /// Where its writes are noted.
    pub ledger: &'a Ledger,
    /// The owner to be.
    pub owner: &'a Owner,
    /// What its children are.
    pub children: Resource,
    /// What a child gets with its owner, and loses with it.
    pub finalizers: &'a [&'a str],
}

/// The versions at which the writes of one sync have left children.
///
/// A second write to the same object in one sync names the version that the first write returned, because the cache does not show
/// that version yet.
#[derive(Debug, Default)]
pub struct WrittenVersions(Mutex<HashMap<Uid, Version>>);

impl WrittenVersions {
    /// Notes the answer to a write to a child. An answer that is not the child says nothing.
    pub fn note(&self, child: &Meta, answer: &Written) {
        if answer.metadata.uid == child.uid {
            self.0.lock().insert(child.uid.clone(), answer.metadata.resource_version);
        }
    }

    /// Notes the version at which a write has left a child.
    pub fn set(&self, child: &Meta, version: Version) {
        self.0.lock().insert(child.uid.clone(), version);
    }

    /// Notes the version at which a write has left the object with that uid.
    pub fn insert(&self, uid: &Uid, version: Version) {
        self.0.lock().insert(uid.clone(), version);
    }

    /// The version of the object with that uid after the writes of this sync: `judged` if there was none.
    pub fn newest(&self, uid: &Uid, judged: Version) -> Version {
        self.0.lock().get(uid).copied().unwrap_or(judged)
    }

    /// The version of a child after the writes of this sync: that of the snapshot if there was none.
    pub fn of(&self, child: &Meta) -> Version {
        self.0.lock().get(&child.uid).copied().unwrap_or(child.resource_version)
    }
}

/// Why children could not be claimed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The owner could not be read live, so nothing was adopted.
    #[error("can't recheck DeletionTimestamp: {0}")]
    Recheck(#[source] api::Error),
    /// Read live, the owner turned out to be another one or to be going away, so nothing was adopted.
    #[error("can't recheck DeletionTimestamp: {0}")]
    NotOurs(String),
    /// Some children have changed since the version that was judged; nothing else went wrong. The ledger has the owner wait for
    /// the newer versions.
    #[error("{0}")]
    Conflict(Failed),
    /// Some children could not be adopted or released.
    #[error("{0}")]
    Children(Failed),
}

/// What went wrong with each child that was to be adopted or released.
#[derive(Debug)]
pub struct Failed(pub Vec<(String, api::Error)>);

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        let changed = failed.0.iter().all(|(_, error)| error.is_conflict());
        if changed { Self::Conflict(failed) } else { Self::Children(failed) }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (what, error)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}cannot {what}: {error}")?;
        }
        Ok(())
    }
}

impl Error {
    /// The answer of the server that stands behind it, or the first of them.
    pub fn api(&self) -> Option<&api::Error> {
        match self {
            Self::Recheck(error) => Some(error),
            Self::NotOurs(_) => None,
            Self::Conflict(Failed(list)) | Self::Children(Failed(list)) => list.first().map(|(_, error)| error),
        }
    }

    /// Whether nothing went wrong but that children have changed: the claim is to be decided again on what the cache shows then.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }

    /// A name for metrics, one of few.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NotOurs(_) => "not_ours",
            _ => self.api().map_or("claim", api::Error::label),
        }
    }
}

impl Claiming<'_> {
    /// Releases and adopts; gives back those that were there to be adopted. Every one is tried before errors are told.
    ///
    /// Each patch names the version of the child that was judged. A child that has changed is left as it is.
    /// Upstream: `pkg/controller`, `PodControllerRefManager`.
    pub async fn carry_out<C: HasMeta + Clone + Sync>(&self, adopt: &[C], release: &[C]) -> Result<Vec<C>, Error> {
        self.carry_out_noting(adopt, release, &WrittenVersions::default()).await
    }

    /// The same; notes at which versions children are left.
    pub async fn carry_out_noting<C: HasMeta + Clone + Sync>(
        &self,
        adopt: &[C],
        release: &[C],
        versions: &WrittenVersions,
    ) -> Result<Vec<C>, Error> {
        let mut failed = Vec::new();
        let what = |verb: &str, child: &C| format!("{verb} {} {}", self.children.kind, child.meta().key());
        let released = all(release.iter().map(|child| self.release(child.meta()))).await;
        for (child, result) in release.iter().zip(released) {
            if let Err(error) = result {
                failed.push((what("release", child), error));
            }
        }
        let mut adopted = Vec::with_capacity(adopt.len());
        for (child, result) in adopt.iter().zip(self.adopt_each(adopt, versions).await?) {
            match result {
                Ok(true) => adopted.push(child.clone()),
                Ok(false) => {}
                Err(error) => failed.push((what("adopt", child), error)),
            }
        }
        if failed.is_empty() { Ok(adopted) } else { Err(Failed(failed).into()) }
    }

    /// Adopts children. Returns of each, in their order, whether it was there to be adopted; notes at which versions they are left.
    pub async fn adopt_each<C: HasMeta + Sync>(
        &self,
        adopt: &[C],
        versions: &WrittenVersions,
    ) -> Result<Vec<Result<bool, api::Error>>, Error> {
        if adopt.is_empty() {
            return Ok(Vec::new());
        }
        self.recheck().await?;
        Ok(all(adopt.iter().map(|child| self.adopt(child.meta(), versions))).await)
    }

    /// Makes sure, from the server, that the owner still is who it was and is not going away: the garbage collector may be
    /// orphaning its children just now (kubernetes/kubernetes#42639).
    async fn recheck(&self) -> Result<(), Error> {
        let owner = self.owner;
        let live = self.api.get(Target::object(owner.resource, &owner.namespace, &owner.name)).await;
        let live = live.map_err(Error::Recheck)?;
        let live: Written = serde_json::from_slice(&live).map_err(|error| Error::Recheck(error.into()))?;
        if live.metadata.uid != owner.uid {
            return Err(Error::NotOurs(format!(
                "original {} {}/{} is gone: got uid {}, wanted {}",
                owner.resource.kind, owner.namespace, owner.name, live.metadata.uid, owner.uid
            )));
        }
        live.metadata.deleted.map_or(Ok(()), |at| {
            Err(Error::NotOurs(format!("{}/{} has just been deleted at {at}", owner.namespace, owner.name)))
        })
    }

    /// Whether the child was there to be adopted.
    async fn adopt(&self, child: &Meta, versions: &WrittenVersions) -> Result<bool, api::Error> {
        let patch = at_version(self.owner.adopt_patch(&child.uid, self.finalizers), child.resource_version);
        match self.api.patch(self.target(child), Patch::Strategic, &patch).await {
            Ok(answer) => {
                let written: Written = serde_json::from_slice(&answer)?;
                versions.note(child, &written);
                self.ledger.wrote(&self.owner.uid, self.children, written.metadata.resource_version);
                Ok(true)
            }
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(self.noted(child, error)),
        }
    }

    async fn release(&self, child: &Meta) -> Result<(), api::Error> {
        let patch = at_version(self.owner.release_patch(&child.uid, self.finalizers), child.resource_version);
        match self.api.patch(self.target(child), Patch::Strategic, &patch).await {
            // Upstream takes every 422 for a child that is gone. One from a webhook leaves the child where it was.
            Err(error) if !error.is_not_found() && !error.is_another() => Err(self.noted(child, error)),
            Ok(_) | Err(_) => {
                // Its deletion, if one is awaited, will not be told to this owner any more.
                self.ledger.undelete(&self.owner.uid, &child.uid);
                Ok(())
            }
        }
    }

    /// Has the owner wait for the newer version of a child that has changed.
    fn noted(&self, child: &Meta, error: api::Error) -> api::Error {
        if error.is_conflict() {
            self.ledger.conflicted(&self.owner.uid, self.children, child);
        }
        error
    }

    fn target<'a>(&self, child: &'a Meta) -> Target<'a> {
        Target::object(self.children, &child.namespace, &child.name)
    }
}
