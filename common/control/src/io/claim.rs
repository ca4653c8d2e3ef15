//! Releasing and adopting the children of an owner.

use std::sync::Arc;

use serde_json::Value;

use super::{
    group::GroupConcurrency,
    outcome::{SyncError, SyncErrorClass},
    request::{ObjectRole, Refusal, RefusalClass, Request},
    run::{Answer, Io},
};
use crate::{
    api::PatchFormat,
    events::EventType,
    meta::Meta,
    object::Resource,
    refs::{HasMeta, Owner},
};

/// The children that a sync releases from an owner, and the orphans that it adopts for the owner.
pub struct ChildClaim<'a, C> {
    owner: &'a Owner,
    resource: Resource,
    adopt: &'a [C],
    release: &'a [C],
    finalizers: &'a [&'a str],
    labels: fn(&C) -> Option<Value>,
}

impl<'a, C: HasMeta + Sync> ChildClaim<'a, C> {
    /// Creates a claim without finalizers, and without labels for adopted children.
    pub fn new(owner: &'a Owner, resource: Resource, adopt: &'a [C], release: &'a [C]) -> Self {
        Self { owner, resource, adopt, release, finalizers: &[], labels: |_| None }
    }

    /// Sets the finalizers that an adoption adds to a child and that a release removes.
    #[must_use]
    pub fn with_finalizers(self, finalizers: &'a [&'a str]) -> Self {
        Self { finalizers, ..self }
    }

    /// Sets a function that returns the labels to add at the adoption of a child, if any.
    ///
    /// Needed where children are watched by a label, because the cache would not show an adopted child without the label.
    #[must_use]
    pub fn with_adoption_labels(self, labels: fn(&C) -> Option<Value>) -> Self {
        Self { labels, ..self }
    }

    /// Sends the requests: first the releases, then the adoptions if a live read of the owner permits them.
    ///
    /// Each patch names the version of the child in the snapshot. A child that has changed since then is not patched. One
    /// failure does not stop the requests for other children. Upstream: `pkg/controller`, `PodControllerRefManager`.
    pub async fn send<M: Sync>(&self, io: Io<'_, M>) -> ChildClaimResults<'a, C> {
        let Self { owner, adopt, release, .. } = *self;
        let released = io
            .run_group(GroupConcurrency::AllConcurrent, release, |child: &'a C| {
                io.send(self.release_request(child, io))
            })
            .await;
        let may_adopt =
            if adopt.is_empty() { None } else { io.await_unless_shutting_down(check_may_adopt(io, owner)).await };
        let (adopted, recheck) = match may_adopt {
            None => (Vec::new(), None),
            Some(Ok(())) => (
                io.run_group(GroupConcurrency::AllConcurrent, adopt, |child: &'a C| {
                    io.send(self.adopt_request(child, io))
                })
                .await,
                None,
            ),
            Some(Err(failed)) => (Vec::new(), Some(failed)),
        };
        let with_children = |children: &'a [C], results: Vec<Result<Answer, Refusal>>| {
            children.iter().zip(results.into_iter().map(|result| result.map(drop))).collect()
        };
        let (released, adopted) = (with_children(release, released), with_children(adopt, adopted));
        ChildClaimResults {
            resource: self.resource.clone(),
            to_adopt: adopt.len(),
            released,
            adopted,
            owner_check_failure: recheck,
        }
    }

    fn release_request<M: Sync>(&self, child: &C, io: Io<'_, M>) -> Request {
        let meta = child.meta();
        let body = io.encode_body(|| self.owner.release_patch(&meta.uid, self.finalizers));
        let request =
            Request::patch(self.resource.clone(), meta, PatchFormat::Strategic, body).with_verb_text("release");
        request.with_role(ObjectRole::ReleasedChild).with_reason("the selector no longer matches it")
    }

    fn adopt_request<M: Sync>(&self, child: &C, io: Io<'_, M>) -> Request {
        let meta = child.meta();
        let body = io.encode_body(|| {
            let mut adoption = self.owner.adoption_patch(&meta.uid, self.finalizers);
            if let Some(labels) = (self.labels)(child) {
                adoption["metadata"]["labels"] = labels;
            }
            adoption
        });
        let request = Request::patch(self.resource.clone(), meta, PatchFormat::Strategic, body).with_verb_text("adopt");
        request.with_role(ObjectRole::AdoptedChild).with_reason("the selector matches it and it has no controller")
    }
}

/// Checks by a live read that the owner exists and is not terminating. The garbage collector may be orphaning the children of a
/// terminating owner (kubernetes/kubernetes#42639).
async fn check_may_adopt<M: Sync>(io: Io<'_, M>, owner: &Owner) -> Result<(), SyncError> {
    let Owner { resource, namespace, name, uid: expected_uid, .. } = owner;
    let request = Request::get(resource.clone(), namespace, &Arc::from(name.as_str()));
    let answer = io.send(request.with_reason("an owner must exist and not be terminating to adopt")).await;
    let live = answer.and_then(|answer| answer.decode_metadata());
    let live = live.map_err(|refusal| SyncError::from_refusal("can't recheck DeletionTimestamp", &refusal))?;
    // A forecast has no live object and expects the check to succeed.
    let Some(Meta { uid, deletion_timestamp, .. }) = live else { return Ok(()) };
    let problem = if uid != *expected_uid {
        format!("original {} {namespace}/{name} is gone: got uid {uid}, wanted {expected_uid}", resource.kind())
    } else if let Some(at) = deletion_timestamp {
        format!("{namespace}/{name} has just been deleted at {at}")
    } else {
        return Ok(());
    };
    Err(SyncError::new(SyncErrorClass::NotOurs, format!("can't recheck DeletionTimestamp: {problem}")))
}

/// Children with the results of their requests. A child is missing if its request was not begun.
type ChildResults<'a, C> = Vec<(&'a C, Result<(), Refusal>)>;

/// One result for each release and each adoption that [`ChildClaim::send`] has begun.
pub struct ChildClaimResults<'a, C> {
    resource: Resource,
    to_adopt: usize,
    released: ChildResults<'a, C>,
    adopted: ChildResults<'a, C>,
    /// The failed live read of the owner, or the reason against adoption; `None` if adoption is permitted or not needed.
    owner_check_failure: Option<SyncError>,
}

/// Whether a refused release is a failure. A child that no longer exists counts as released.
fn is_release_failure(refusal: &Refusal) -> bool {
    refusal.class != RefusalClass::NotFound
}

/// Whether a refused adoption is a failure. A child that no longer exists needs no adoption.
fn is_adoption_failure(refusal: &Refusal) -> bool {
    !refusal.error.is_not_found()
}

impl<'a, C: HasMeta> ChildClaimResults<'a, C> {
    /// Returns the children that now have an owner reference because of this claim.
    pub fn adopted_children(&self) -> impl Iterator<Item = &'a C> {
        self.adopted.iter().filter(|(_, result)| result.is_ok()).map(|(child, _)| *child)
    }

    /// Returns the first child that could not be adopted because it no longer exists; `None` if all of them exist.
    pub fn first_missing_orphan(&self) -> Option<&'a C> {
        let is_gone =
            |result: &Result<(), Refusal>| result.as_ref().is_err_and(|refusal| !is_adoption_failure(refusal));
        self.adopted.iter().find(|(_, result)| is_gone(result)).map(|(child, _)| *child)
    }

    /// Whether every child to adopt was adopted; true if there were none.
    pub fn has_adopted_all(&self) -> bool {
        self.adopted_children().count() == self.to_adopt
    }

    /// Removes and returns the failed releases that `is_given_up` accepts, so that [`ChildClaimResults::take_claim_result`]
    /// ignores them.
    ///
    /// Meant for controllers that can continue although a child that no longer matches keeps its owner reference.
    pub fn take_failed_releases(&mut self, is_given_up: impl Fn(&Refusal) -> bool) -> Vec<(&'a C, Refusal)> {
        let is_given_up = |result: &Result<(), Refusal>| {
            result.as_ref().is_err_and(|refusal| is_release_failure(refusal) && is_given_up(refusal))
        };
        let given_up = self.released.extract_if(.., |(_, result)| is_given_up(result));
        given_up.filter_map(|(child, result)| Some((child, result.err()?))).collect()
    }

    /// Whether nothing was adopted because the owner is terminating, or has been replaced by another object.
    pub fn has_lost_owner(&self) -> bool {
        self.owner_check_failure.as_ref().is_some_and(|failed| failed.class() == SyncErrorClass::NotOurs)
    }

    /// Returns the failed releases and adoptions: the verb, the child, and the refusal.
    pub fn claim_failures(&self) -> impl Iterator<Item = (&'static str, &'a C, &Refusal)> {
        fn failures<'s, 'a, C>(
            verb: &'static str,
            results: &'s ChildResults<'a, C>,
            is_failure: fn(&Refusal) -> bool,
        ) -> impl Iterator<Item = (&'static str, &'a C, &'s Refusal)> {
            let failures = results.iter().filter_map(|(child, result)| Some((*child, result.as_ref().err()?)));
            failures.filter(move |(_, refusal)| is_failure(refusal)).map(move |(child, refusal)| (verb, child, refusal))
        }
        failures("release", &self.released, is_release_failure).chain(failures(
            "adopt",
            &self.adopted,
            is_adoption_failure,
        ))
    }

    fn failure_text(&self, (verb, child, refusal): (&str, &C, &Refusal)) -> String {
        format!("cannot {verb} {} {}: {}", self.resource.kind(), child.meta().key(), refusal.error)
    }

    /// Records one Event on the owner if the server denies releases or adoptions.
    ///
    /// The syncs of the owner fail until a permission is granted or a policy changes, and no other Event gives the reason.
    pub fn record_event_if_denied<M: Sync>(&self, io: Io<'_, M>) {
        let is_denied = |refusal: &Refusal| refusal.class == RefusalClass::NotWritten && refusal.error.is_denied();
        let mut denied = self.claim_failures().filter(|(_, _, refusal)| is_denied(refusal));
        let Some(first) = denied.next() else { return };
        let others = match denied.count() {
            0 => String::new(),
            others => format!(" (and {others} more)"),
        };
        io.record_event(EventType::Warning, "FailedUpdate", format!("Error: {}{others}", self.failure_text(first)));
    }

    /// Whether requests failed, and all of them only because the children have changed since the snapshot.
    ///
    /// The ledger then delays the next sync until the cache shows the newer versions.
    pub fn has_only_conflicts(&self) -> bool {
        let mut failures = self.claim_failures().peekable();
        self.owner_check_failure.is_none()
            && failures.peek().is_some()
            && failures.all(|(_, _, refusal)| refusal.class == RefusalClass::VersionConflict)
    }

    /// Returns `Ok` if the whole claim succeeded. An error names every child with a failed release or adoption.
    pub fn take_claim_result(&mut self) -> Result<(), SyncError> {
        if let Some(failed) = self.owner_check_failure.take() {
            return Err(failed);
        }
        let Some((_, _, first)) = self.claim_failures().next() else { return Ok(()) };
        let failures: Vec<String> = self.claim_failures().map(|failure| self.failure_text(failure)).collect();
        Err(SyncError::new(SyncErrorClass::Request(first.error.metric_label()), failures.join(", ")))
    }
}
