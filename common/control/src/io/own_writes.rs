//! The expectations on caches that follow from the requests of one sync.

use std::sync::OnceLock;

use parking_lot::Mutex;

use super::request::{AnswerMetadata, ObjectRole, Precondition, Refusal, RefusalClass, Request, Verb};
use crate::{
    consistency::{Ledger, LedgerOwner},
    map::{HashMap, HashSet},
    meta::{Meta, ResourceVersion, Uid},
};

/// The writes of one sync: their versions for later requests of the sync, and their records in the ledger.
pub(super) struct SyncWrites<'r> {
    ledger: Option<&'r Ledger>,
    /// The version of each object after its last write by this sync. Caches may not show these versions yet.
    versions: Mutex<HashMap<Uid, ResourceVersion>>,
    /// UIDs of the owner's children in the cache before the first create of this sync.
    children: OnceLock<HashSet<Uid>>,
}

/// A change of the ledger that follows from a request or from its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LedgerChange {
    /// Wait until the cache shows the created or adopted child.
    AwaitChild,
    /// Wait until the cache shows the written version.
    AwaitVersion,
    /// Wait until the cache no longer shows the object.
    AwaitDeletion,
    /// Wait until the cache no longer shows the owner, which no longer exists on the server. Ignored for requests that concern
    /// another object.
    AwaitOwnerGone,
    /// Wait for the child of a create request without an answer. The request may have taken effect or may still do so.
    AwaitUnansweredCreation,
    /// Wait until the cache shows a newer version of the object than the snapshot.
    AwaitNewerVersion,
    /// Stop waiting for the deletion of the object. Nothing was deleted, or the deletion event will concern another owner.
    ForgetDeletion,
}

use LedgerChange::{
    AwaitChild, AwaitDeletion, AwaitNewerVersion, AwaitOwnerGone, AwaitUnansweredCreation, AwaitVersion, ForgetDeletion,
};

/// Returns the change of the ledger when a request is sent. The watch event may arrive before the answer to the request.
fn change_after_sending(request: &Request) -> Option<LedgerChange> {
    matches!((&request.verb, request.role), (Verb::Delete(..), ObjectRole::Child)).then_some(AwaitDeletion)
}

/// Returns the change of the ledger after a granted request. `is_same` means that the answer has the precondition's UID.
fn change_after_grant(request: &Request, is_same: bool) -> Option<LedgerChange> {
    match (&request.verb, request.role) {
        (Verb::Get | Verb::GetPath(_) | Verb::List(_), _) if !is_same => Some(AwaitOwnerGone),
        (Verb::Create(_), ObjectRole::Child) | (Verb::Patch(..), ObjectRole::AdoptedChild) => Some(AwaitChild),
        (Verb::Create(_), ObjectRole::SyncedObject | ObjectRole::AwaitedObject)
        | (
            Verb::Patch(..) | Verb::Replace(_) | Verb::Apply(..),
            ObjectRole::Child | ObjectRole::SyncedObject | ObjectRole::AwaitedObject,
        ) => Some(AwaitVersion),
        (Verb::Delete(..), ObjectRole::AwaitedObject) => Some(AwaitDeletion),
        (_, ObjectRole::ReleasedChild) => Some(ForgetDeletion),
        _ => None,
    }
}

fn changes_after_refusal(request: &Request, refusal: &Refusal) -> Vec<LedgerChange> {
    let (role, class) = (request.role, refusal.class);
    let concerns_owner = matches!(
        role,
        ObjectRole::Child | ObjectRole::AdoptedChild | ObjectRole::ReleasedChild | ObjectRole::SyncedObject
    );
    let mut consequences = Vec::new();
    match &request.verb {
        Verb::Create(_) if role == ObjectRole::Child && class == RefusalClass::MaybeWritten => {
            consequences.push(AwaitUnansweredCreation);
        }
        Verb::Get | Verb::Patch(..) | Verb::Replace(_) | Verb::Apply(..) if class == RefusalClass::NotFound => {
            consequences.push(AwaitOwnerGone);
        }
        Verb::Delete(..) if role == ObjectRole::AwaitedObject && refusal.error.is_not_found() => {
            consequences.push(AwaitDeletion);
        }
        Verb::Delete(..) if concerns_owner => consequences.push(ForgetDeletion),
        _ => {}
    }
    if matches!(request.verb, Verb::Patch(..) | Verb::Replace(_) | Verb::Apply(..) | Verb::Delete(..))
        && class == RefusalClass::VersionConflict
        && concerns_owner
    {
        consequences.push(AwaitNewerVersion);
    }
    if role == ObjectRole::ReleasedChild && class == RefusalClass::NotFound {
        consequences.push(ForgetDeletion);
    }
    consequences
}

impl<'r> SyncWrites<'r> {
    pub(super) fn new(ledger: Option<&'r Ledger>) -> Self {
        Self { ledger, versions: Mutex::default(), children: OnceLock::new() }
    }

    /// Returns the precondition of a write, with the version that the last write of this sync gave to the object.
    pub(super) fn precondition_after_last_write(&self, request: &Request) -> Option<Precondition> {
        let Precondition { uid, version } = request.precondition.clone()?;
        // A version that was read after the last write is newer than the version of that write.
        let version =
            version.map(|judged| self.versions.lock().get(&uid).map_or(judged, |written| judged.max(*written)));
        Some(Precondition { uid, version })
    }

    /// Changes the ledger for a request that is about to be sent. `children` reads the UIDs of the owner's cached children.
    pub(super) fn record_sending<'o>(
        &self,
        request: &Request,
        owner: impl FnOnce() -> &'o LedgerOwner,
        children: impl FnOnce() -> HashSet<Uid>,
    ) {
        if self.ledger.is_some() && matches!((&request.verb, request.role), (Verb::Create(_), ObjectRole::Child)) {
            self.children.get_or_init(children);
        }
        self.apply_changes(change_after_sending(request), request, &AnswerMetadata::default(), owner);
    }

    /// Records a granted request: its version for later requests of this sync, and the cache state that the next sync awaits.
    pub(super) fn record_granted_request<'o>(
        &self,
        request: &Request,
        metadata: &AnswerMetadata,
        owner: impl FnOnce() -> &'o LedgerOwner,
    ) {
        let is_same = request.precondition.as_ref().is_none_or(|precondition| precondition.uid == metadata.uid);
        if let Some(Precondition { uid, .. }) = request.precondition.as_ref().filter(|_| is_same)
            && request.verb.is_write()
        {
            self.versions.lock().insert(uid.clone(), metadata.version);
        }
        self.apply_changes(change_after_grant(request, is_same), request, metadata, owner);
    }

    /// Records the cache state for which the next sync waits after a refusal. Returns true if an earlier sync has waited for this
    /// state in vain.
    pub(super) fn record_refusal<'o>(
        &self,
        request: &Request,
        refusal: &Refusal,
        owner: impl FnOnce() -> &'o LedgerOwner,
    ) -> bool {
        self.apply_changes(changes_after_refusal(request, refusal), request, &AnswerMetadata::default(), owner)
    }

    fn apply_changes<'o>(
        &self,
        consequences: impl IntoIterator<Item = LedgerChange>,
        request: &Request,
        metadata: &AnswerMetadata,
        owner: impl FnOnce() -> &'o LedgerOwner,
    ) -> bool {
        let Some(ledger) = self.ledger else { return false };
        let mut consequences = consequences.into_iter().peekable();
        if consequences.peek().is_none() {
            return false;
        }
        let mut has_waited_in_vain = false;
        let (owner, resource) = (owner(), &request.resource);
        let (namespace, name) = (&request.namespace, &request.name);
        let precondition = request.precondition.as_ref();
        for consequence in consequences {
            match (consequence, precondition) {
                (AwaitChild, _) => ledger.record_creation(owner, resource.clone(), &metadata.uid, metadata.version),
                (AwaitVersion, _) => ledger.record_write(owner, resource.clone(), metadata.version),
                (AwaitUnansweredCreation, _) => {
                    ledger.record_unanswered_creation(owner, resource.clone(), || {
                        self.children.get().cloned().unwrap_or_default()
                    });
                }
                (AwaitDeletion, Some(judged)) => {
                    ledger.record_deletion(owner, resource.clone(), namespace, name, &judged.uid);
                }
                (ForgetDeletion, Some(judged)) => ledger.cancel_deletion(owner, &judged.uid),
                (AwaitOwnerGone, Some(judged)) if *owner == LedgerOwner::Object(judged.uid.clone()) => {
                    has_waited_in_vain |= ledger.record_missing_owner(&judged.uid, resource.clone(), namespace, name);
                }
                (AwaitNewerVersion, Some(Precondition { uid, version: Some(version) })) => {
                    let (namespace, name, uid) = (namespace.clone(), name.clone(), uid.clone());
                    let judged = Meta { namespace, name, uid, resource_version: *version, ..Meta::default() };
                    has_waited_in_vain |= ledger.record_conflict(owner, resource.clone(), &judged);
                }
                (AwaitDeletion | ForgetDeletion | AwaitOwnerGone | AwaitNewerVersion, _) => {}
            }
        }
        has_waited_in_vain
    }
}
