//! What is written, and what is looked up before it.

mod finalizer;
mod references;

pub(crate) use references::NotReleased;
use references::Put;

use common::{
    api::{Api, Delete, Target},
    controller::Requeue,
    informer::METADATA,
    meta::{Meta, OwnerRef, Uid, Version},
    object::{Resource, can_be_name},
};

use crate::{
    collection::Collection,
    decide::{Propagation, Standing, Verdict, policy, verdict},
    error::{Error, says_absent},
    graph::{FOREGROUND, Identity, Kind, ORPHAN, View},
    monitors::{Known, Monitors},
    objects::Partial,
};

/// How often an object is judged anew at once that was changed before it could be written.
const TRIES: usize = 4;

/// An object, and where requests about it go.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) resource: Resource,
    pub(crate) identity: Identity,
}

impl Place {
    fn target(&self) -> Target<'_> {
        Target::object(self.resource, &self.identity.namespace, &self.identity.name)
    }

    fn path(&self) -> String {
        self.resource.path(&self.identity.namespace, &self.identity.name, "")
    }

    /// As people name it.
    fn name(&self) -> String {
        let Identity { namespace, name, .. } = &self.identity;
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{} {namespace}{slash}{name}", self.resource)
    }
}

/// The version of an object that is judged.
struct Subject {
    version: Version,
    owners: Vec<OwnerRef>,
    finalizers: Propagation,
}

impl Subject {
    fn live(meta: &Meta) -> Self {
        let has = |finalizer: &str| meta.finalizers.iter().any(|f| f == finalizer);
        Self {
            version: meta.resource_version,
            owners: meta.owners.to_vec(),
            finalizers: policy(has(ORPHAN), has(FOREGROUND)),
        }
    }
}

/// Carries decisions out.
pub(crate) struct Act<'a> {
    pub(crate) api: &'a Api,
    pub(crate) collection: &'a Collection,
    pub(crate) monitors: &'a Monitors,
}

impl Act<'_> {
    /// Reads an object's metadata live. None if there is no object of that name, or it is another one.
    ///
    /// Names in references are anybody's. One that no object can have is not asked for.
    async fn read(&self, place: &Place) -> Result<Option<Meta>, Error> {
        if !can_be_name(&place.identity.name) {
            return Ok(None);
        }
        let body = match self.api.read(&place.path(), METADATA).await {
            Ok(body) => body,
            Err(error) if says_absent(&error) => return Ok(None),
            Err(error) => return Err(Error::Read(place.name(), error)),
        };
        let live: Partial = serde_json::from_slice(&body).map_err(|e| Error::Read(place.name(), e.into()))?;
        Ok((live.metadata.uid == place.identity.uid).then_some(live.metadata))
    }

    /// Asks whether an object exists that nobody has seen.
    pub(crate) async fn exists(&self, place: &Place) -> Result<Requeue, Error> {
        match self.read(place).await? {
            // Until a monitor sees it, it is asked for again.
            Some(_) => Ok(Requeue::RateLimited),
            None => {
                self.collection.absent(&place.identity);
                Ok(Requeue::No)
            }
        }
    }

    /// Removes the finalizer of an object that waits for nobody.
    pub(crate) async fn finish(&self, place: &Place) -> Result<Requeue, Error> {
        if !self.remove_finalizer(place, FOREGROUND).await? {
            self.collection.absent(&place.identity);
        }
        Ok(Requeue::No)
    }

    /// Judges an object by its owners, and does what the verdict says.
    ///
    /// The first look is at what monitors saw, later ones at the object itself. Whatever is written carries uid and version
    /// of what was looked at: an object that was changed meanwhile is read and judged anew.
    pub(crate) async fn judge(&self, place: &Place, view: &View) -> Result<Requeue, Error> {
        let mut subject = Subject {
            version: view.version,
            owners: view.owners.clone(),
            finalizers: policy(view.orphans, view.foreground),
        };
        let mut stale = !subject.version.is_known();
        for _ in 0..TRIES {
            if stale {
                let Some(meta) = self.read(place).await? else {
                    self.collection.absent(&place.identity);
                    return Ok(Requeue::No);
                };
                subject = Subject::live(&meta);
            }
            let standings = self.standings(place, &subject.owners).await?;
            let in_cycle = || self.collection.graph.lock().may_be_in_cycle(&place.identity.uid);
            let (propagation, unblock) = match verdict(&standings, view.dependents, in_cycle, subject.finalizers) {
                Verdict::Keep => return Ok(Requeue::No),
                Verdict::Release(uids) => match self.drop_references(place, &subject, &uids, stale).await? {
                    Put::Written => return Ok(Requeue::No),
                    Put::Gone => {
                        self.collection.absent(&place.identity);
                        return Ok(Requeue::No);
                    }
                    Put::Stale => {
                        stale = true;
                        continue;
                    }
                },
                Verdict::Delete { propagation, unblock } => (propagation, unblock),
            };
            if unblock && subject.owners.iter().any(|owner| owner.block_owner_deletion == Some(true)) {
                match self.unblock(place, &subject, stale).await? {
                    // What else it is by now has to be read.
                    Put::Written | Put::Stale => stale = true,
                    Put::Gone => {
                        self.collection.absent(&place.identity);
                        return Ok(Requeue::No);
                    }
                }
                continue;
            }
            let options = Delete {
                uid: Some(place.identity.uid.clone()),
                version: Some(subject.version),
                propagation: Some(propagation.as_str()),
                grace_seconds: None,
            };
            match self.api.delete(place.target(), &options).await {
                Ok(_) => return Ok(Requeue::No),
                Err(error) if says_absent(&error) => {
                    self.collection.absent(&place.identity);
                    return Ok(Requeue::No);
                }
                Err(error) if error.is_conflict() => stale = true,
                Err(error) => return Err(Error::Delete(place.name(), error)),
            }
        }
        Err(Error::Changing(place.name()))
    }

    /// How each owner stands.
    async fn standings(&self, place: &Place, owners: &[OwnerRef]) -> Result<Vec<(Uid, Standing)>, Error> {
        let mut out = Vec::with_capacity(owners.len());
        for owner in owners {
            out.push((owner.uid.clone(), self.standing(place, owner).await?));
        }
        Ok(out)
    }

    async fn standing(&self, place: &Place, owner: &OwnerRef) -> Result<Standing, Error> {
        let namespace = &place.identity.namespace;
        {
            let mut graph = self.collection.graph.lock();
            if graph.is_absent(owner, namespace) {
                return Ok(Standing::Dangling);
            }
            // Should it be gone already, its monitor tells, and the object is judged again.
            if graph.is_seen(owner, namespace) {
                return Ok(Standing::Solid);
            }
        }
        let kind = Kind { api_version: owner.api_version.clone(), kind: owner.kind.clone() };
        let Known::At { resource, .. } = self.monitors.known(&kind) else {
            return Err(Error::Unserved(format!("{} of {}", kind.kind, kind.api_version)));
        };
        if resource.namespaced && namespace.is_empty() {
            return Err(Error::Scope(place.name()));
        }
        let id = self.collection.graph.lock().kind_id(&kind.api_version, &kind.kind);
        let namespace = if resource.namespaced { namespace.clone() } else { "".into() };
        let identity = Identity { kind: id, namespace, name: (&*owner.name).into(), uid: owner.uid.clone() };
        let owner = Place { resource, identity };
        let Some(meta) = self.read(&owner).await? else {
            self.collection.graph.lock().remember_absent(owner.identity);
            return Ok(Standing::Dangling);
        };
        let waiting = meta.is_deleting() && meta.finalizers.iter().any(|f| f == FOREGROUND);
        Ok(if waiting { Standing::Waiting } else { Standing::Solid })
    }
}
