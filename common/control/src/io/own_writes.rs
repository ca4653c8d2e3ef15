//! What the caches must show after the requests of one sync.

use std::sync::OnceLock;

use parking_lot::Mutex;

use super::request::{Class, Fields, Precondition, Refusal, Request, Role, Verb};
use crate::{
    consistency::Ledger,
    map::{HashMap, HashSet},
    meta::{Meta, Uid, Version},
};

/// The own writes of one sync: what they leave behind for its later requests, and what the ledger has to know of them.
pub(super) struct OwnWrites<'r> {
    ledger: Option<&'r Ledger>,
    /// The versions at which writes of this sync left objects. The caches do not show them yet.
    versions: Mutex<HashMap<Uid, Version>>,
    /// The children of the owner before the first create.
    children: OnceLock<HashSet<Uid>>,
}

/// What an answer, or the lack of one, has the next sync wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consequence {
    /// The cache has to show the child that was created or adopted.
    AwaitChild,
    /// The cache has to show the version that was written.
    AwaitVersion,
    /// The cache has to show that the object is gone.
    AwaitDeletion,
    /// The cache has to show that the owner is gone, if the request was for the owner: the server no longer has it.
    AwaitOwnerGone,
    /// A child may have been created, or may still be.
    AwaitLostChild,
    /// The cache has to show a newer version than the one that was judged.
    AwaitNewerVersion,
    /// No deletion is awaited: none was made, or its event would concern another owner.
    ForgetDeletion,
}

use Consequence::{
    AwaitChild, AwaitDeletion, AwaitLostChild, AwaitNewerVersion, AwaitOwnerGone, AwaitVersion, ForgetDeletion,
};

/// What follows from sending a request, whatever the answer: an event may arrive before it.
fn of_sending(request: &Request) -> Option<Consequence> {
    matches!((&request.verb, request.role), (Verb::Delete(..), Role::Child)).then_some(AwaitDeletion)
}

/// What follows from a request that was granted; `is_same` says whether the answer holds the object that the request was meant for.
fn of_granting(request: &Request, is_same: bool) -> Option<Consequence> {
    match (&request.verb, request.role) {
        (Verb::Get | Verb::List(_), _) if !is_same => Some(AwaitOwnerGone),
        (Verb::Create(_), Role::Child) | (Verb::Patch(..), Role::Adopted) => Some(AwaitChild),
        (Verb::Create(_), Role::Itself | Role::Awaited)
        | (Verb::Patch(..) | Verb::Replace(_), Role::Child | Role::Itself | Role::Awaited) => Some(AwaitVersion),
        (Verb::Delete(..), Role::Awaited) => Some(AwaitDeletion),
        (_, Role::Released) => Some(ForgetDeletion),
        _ => None,
    }
}

/// What follows from a request that was refused.
fn of_refusing(request: &Request, refusal: &Refusal) -> Vec<Consequence> {
    let (role, class) = (request.role, refusal.class);
    let concerns_owner = matches!(role, Role::Child | Role::Adopted | Role::Released | Role::Itself);
    let mut consequences = Vec::new();
    match &request.verb {
        Verb::Create(_) if role == Role::Child && class == Class::Unknown => consequences.push(AwaitLostChild),
        Verb::Get | Verb::Patch(..) | Verb::Replace(_) if class == Class::Gone => consequences.push(AwaitOwnerGone),
        Verb::Delete(..) if role == Role::Awaited && refusal.error.is_not_found() => consequences.push(AwaitDeletion),
        Verb::Delete(..) if concerns_owner => consequences.push(ForgetDeletion),
        _ => {}
    }
    if matches!(request.verb, Verb::Patch(..) | Verb::Delete(..)) && class == Class::Changed && concerns_owner {
        consequences.push(AwaitNewerVersion);
    }
    if role == Role::Released && class == Class::Gone {
        consequences.push(ForgetDeletion);
    }
    consequences
}

impl<'r> OwnWrites<'r> {
    pub(super) fn new(ledger: Option<&'r Ledger>) -> Self {
        Self { ledger, versions: Mutex::default(), children: OnceLock::new() }
    }

    /// The object that a write is meant for, at the version at which this sync left it.
    pub(super) fn precondition(&self, request: &Request) -> Option<Precondition> {
        let Precondition { uid, version } = request.precondition.clone()?;
        let version = version.map(|judged| self.versions.lock().get(&uid).copied().unwrap_or(judged));
        Some(Precondition { uid, version })
    }

    /// Notes that a request is about to leave. `children` reads the uids of the owner's children from the cache.
    pub(super) fn sends<'o>(
        &self,
        request: &Request,
        owner: impl FnOnce() -> &'o Uid,
        children: impl FnOnce() -> HashSet<Uid>,
    ) {
        if self.ledger.is_some() && matches!((&request.verb, request.role), (Verb::Create(_), Role::Child)) {
            self.children.get_or_init(children);
        }
        self.apply(of_sending(request), request, &Fields::default(), owner);
    }

    /// Notes the answer to a request that was granted.
    pub(super) fn granted<'o>(&self, request: &Request, fields: &Fields, owner: impl FnOnce() -> &'o Uid) {
        let is_same = request.precondition.as_ref().is_none_or(|precondition| precondition.uid == fields.uid);
        if let Some(Precondition { uid, .. }) = request.precondition.as_ref().filter(|_| is_same)
            && request.verb.writes()
        {
            self.versions.lock().insert(uid.clone(), fields.version);
        }
        self.apply(of_granting(request, is_same), request, fields, owner);
    }

    /// Notes that a request was refused.
    pub(super) fn refused<'o>(&self, request: &Request, refusal: &Refusal, owner: impl FnOnce() -> &'o Uid) {
        self.apply(of_refusing(request, refusal), request, &Fields::default(), owner);
    }

    fn apply<'o>(
        &self,
        consequences: impl IntoIterator<Item = Consequence>,
        request: &Request,
        fields: &Fields,
        owner: impl FnOnce() -> &'o Uid,
    ) {
        let Some(ledger) = self.ledger else { return };
        let mut consequences = consequences.into_iter().peekable();
        if consequences.peek().is_none() {
            return;
        }
        let (owner, resource) = (owner(), request.resource);
        let (namespace, name) = (&request.namespace, &request.name);
        let precondition = request.precondition.as_ref();
        for consequence in consequences {
            match (consequence, precondition) {
                (AwaitChild, _) => ledger.created(owner, resource, &fields.uid, fields.version),
                (AwaitVersion, _) => ledger.wrote(owner, resource, fields.version),
                (AwaitLostChild, _) => {
                    ledger.lost_create(owner, resource, || self.children.get().cloned().unwrap_or_default());
                }
                (AwaitDeletion, Some(judged)) => ledger.deleted(owner, resource, namespace, name, &judged.uid),
                (ForgetDeletion, Some(judged)) => ledger.undelete(owner, &judged.uid),
                (AwaitOwnerGone, Some(judged)) if judged.uid == *owner => ledger.gone(owner, resource, namespace, name),
                (AwaitNewerVersion, Some(Precondition { uid, version: Some(version) })) => {
                    let (namespace, name, uid) = (namespace.clone(), name.clone(), uid.clone());
                    let judged = Meta { namespace, name, uid, resource_version: *version, ..Meta::default() };
                    ledger.conflicted(owner, resource, &judged);
                }
                (AwaitDeletion | ForgetDeletion | AwaitOwnerGone | AwaitNewerVersion, _) => {}
            }
        }
    }
}
