//! Releasing and adopting the children of an owner.

use std::sync::Arc;

use serde_json::Value;

use super::{
    effect::Note,
    group::Pace,
    outcome::Failed,
    request::{Class, Refusal, Request, Role},
    run::{Answer, Io},
};
use crate::{
    api::Patch,
    events::EventType,
    meta::Meta,
    object::Resource,
    refs::{HasMeta, Owner},
};

/// The children of an owner to release and to adopt.
pub struct Claim<'a, C> {
    owner: &'a Owner,
    resource: Resource,
    adopt: &'a [C],
    release: &'a [C],
    finalizers: &'a [&'a str],
    labels: fn(&C) -> Option<Value>,
}

impl<'a, C: HasMeta + Sync> Claim<'a, C> {
    /// Gives up `release` and takes over `adopt`.
    pub fn new(owner: &'a Owner, resource: Resource, adopt: &'a [C], release: &'a [C]) -> Self {
        Self { owner, resource, adopt, release, finalizers: &[], labels: |_| None }
    }

    /// A child gets these finalizers with its owner, and loses them with it.
    #[must_use]
    pub fn finalizers(self, finalizers: &'a [&'a str]) -> Self {
        Self { finalizers, ..self }
    }

    /// Gives children labels together with their owner, where `labels` has some for a child: without a label that the children of this
    /// owner are watched by, the adoption would not be seen.
    #[must_use]
    pub fn labelled(self, labels: fn(&C) -> Option<Value>) -> Self {
        Self { labels, ..self }
    }

    /// Releases first, then, if the owner read live may still adopt, adopts.
    ///
    /// Each patch names the version of the child that was judged. A child that has changed is left as it is. Every child is tried.
    /// Upstream: `pkg/controller`, `PodControllerRefManager`.
    pub async fn send<N: Note>(&self, io: Io<'_, N>) -> ClaimResults<'a, C> {
        let Self { owner, adopt, release, .. } = *self;
        let released = io.all(Pace::AtOnce, release, |child: &'a C| io.send(self.release(child, io))).await;
        let may_adopt = if adopt.is_empty() { None } else { io.unless_ending(may_adopt(io, owner)).await };
        let (adopted, recheck) = match may_adopt {
            None => (Vec::new(), None),
            Some(Ok(())) => (io.all(Pace::AtOnce, adopt, |child: &'a C| io.send(self.adopt(child, io))).await, None),
            Some(Err(failed)) => (Vec::new(), Some(failed)),
        };
        let with_children = |children: &'a [C], results: Vec<Result<Answer, Refusal>>| {
            children.iter().zip(results.into_iter().map(|result| result.map(drop))).collect()
        };
        let (released, adopted) = (with_children(release, released), with_children(adopt, adopted));
        ClaimResults { resource: self.resource, to_adopt: adopt.len(), released, adopted, recheck }
    }

    fn release<N: Note>(&self, child: &C, io: Io<'_, N>) -> Request {
        let meta = child.meta();
        let body = io.body(|| self.owner.release_patch(&meta.uid, self.finalizers));
        let request = Request::patch(self.resource, meta, Patch::Strategic, body).doing("release");
        request.role(Role::Released).because("it is no longer selected")
    }

    fn adopt<N: Note>(&self, child: &C, io: Io<'_, N>) -> Request {
        let meta = child.meta();
        let body = io.body(|| {
            let mut adoption = self.owner.adopt_patch(&meta.uid, self.finalizers);
            if let Some(labels) = (self.labels)(child) {
                adoption["metadata"]["labels"] = labels;
            }
            adoption
        });
        let request = Request::patch(self.resource, meta, Patch::Strategic, body).doing("adopt");
        request.role(Role::Adopted).because("nobody controls it and it is selected")
    }
}

/// The label of the failure of an owner that may not adopt.
const NOT_OURS: &str = "not_ours";

/// Reads the owner live before the first adoption: the garbage collector may be orphaning its children just now
/// (kubernetes/kubernetes#42639).
async fn may_adopt<N: Note>(io: Io<'_, N>, owner: &Owner) -> Result<(), Failed> {
    let Owner { resource, namespace, name, uid: wanted, .. } = owner;
    let request = Request::get(*resource, namespace, &Arc::from(name.as_str()));
    let answer = io.send(request.because("to adopt, it must still be there and not be deleted")).await;
    let live = answer.and_then(|answer| answer.metadata());
    let live = live.map_err(|refusal| Failed::request("can't recheck DeletionTimestamp", &refusal))?;
    // A forecast expects the owner to be there.
    let Some(Meta { uid, deleted, .. }) = live else { return Ok(()) };
    let problem = if uid != *wanted {
        format!("original {} {namespace}/{name} is gone: got uid {uid}, wanted {wanted}", resource.kind)
    } else if let Some(at) = deleted {
        format!("{namespace}/{name} has just been deleted at {at}")
    } else {
        return Ok(());
    };
    Err(Failed::new(NOT_OURS, format!("can't recheck DeletionTimestamp: {problem}")))
}

/// Children with what became of each; those that were not begun are missing.
type Results<'a, C> = Vec<(&'a C, Result<(), Refusal>)>;

/// What became of the requests of a [`Claim`].
pub struct ClaimResults<'a, C> {
    resource: Resource,
    to_adopt: usize,
    released: Results<'a, C>,
    adopted: Results<'a, C>,
    /// Why the owner may not adopt.
    recheck: Option<Failed>,
}

/// Whether a release failed. A child that is gone is released.
fn is_release_failure(refusal: &Refusal) -> bool {
    refusal.class != Class::Gone
}

/// Whether an adoption failed. A child that was gone before it was adopted is no failure.
fn is_adoption_failure(refusal: &Refusal) -> bool {
    !refusal.error.is_not_found()
}

impl<'a, C: HasMeta> ClaimResults<'a, C> {
    /// The children that are adopted.
    pub fn adopted(&self) -> impl Iterator<Item = &'a C> {
        self.adopted.iter().filter(|(_, result)| result.is_ok()).map(|(child, _)| *child)
    }

    /// A child that was gone before it was adopted.
    pub fn gone(&self) -> Option<&'a C> {
        let is_gone =
            |result: &Result<(), Refusal>| result.as_ref().is_err_and(|refusal| !is_adoption_failure(refusal));
        self.adopted.iter().find(|(_, result)| is_gone(result)).map(|(child, _)| *child)
    }

    /// Whether every child that was to be adopted is adopted.
    pub fn is_complete(&self) -> bool {
        self.adopted().count() == self.to_adopt
    }

    /// Takes releases with such a refusal out of the claim, so that [`ClaimResults::result`] does not count them as failures.
    ///
    /// A child that stays controlled by its owner without being selected need not stop the owner.
    pub fn give_up_releases(&mut self, is_given_up: impl Fn(&Refusal) -> bool) -> Vec<(&'a C, Refusal)> {
        let is_given_up = |result: &Result<(), Refusal>| {
            result.as_ref().is_err_and(|refusal| is_release_failure(refusal) && is_given_up(refusal))
        };
        let given_up = self.released.extract_if(.., |(_, result)| is_given_up(result));
        given_up.filter_map(|(child, result)| Some((child, result.err()?))).collect()
    }

    /// Whether nothing was adopted because the owner, read live, is deleted or another one.
    pub fn lost_owner(&self) -> bool {
        self.recheck.as_ref().is_some_and(|failed| failed.label() == NOT_OURS)
    }

    /// The children that could be neither released nor adopted, each with what was tried.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &'a C, &Refusal)> {
        fn failures<'s, 'a, C>(
            verb: &'static str,
            results: &'s Results<'a, C>,
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

    fn failure(&self, (verb, child, refusal): (&str, &C, &Refusal)) -> String {
        format!("cannot {verb} {} {}: {}", self.resource.kind, child.meta().key(), refusal.error)
    }

    /// Reports in one Event on the owner that the server denies releases or adoptions.
    ///
    /// The owner makes no progress until a right is granted or a policy is changed, and no other Event gives the reason.
    pub fn report_denied<N: Note>(&self, io: Io<'_, N>) {
        let is_denied = |refusal: &Refusal| refusal.class == Class::Refused && refusal.error.is_denied();
        let mut denied = self.failures().filter(|(_, _, refusal)| is_denied(refusal));
        let Some(first) = denied.next() else { return };
        let others = match denied.count() {
            0 => String::new(),
            others => format!(" (and {others} more)"),
        };
        io.event(EventType::Warning, "FailedUpdate", format!("Error: {}{others}", self.failure(first)));
    }

    /// Whether all that went wrong is that children have changed since the version that was judged. The ledger has the owner wait for the
    /// newer versions.
    pub fn found_only_changes(&self) -> bool {
        let mut failures = self.failures().peekable();
        self.recheck.is_none()
            && failures.peek().is_some()
            && failures.all(|(_, _, refusal)| refusal.class == Class::Changed)
    }

    /// How it went. An error names every child that could be neither released nor adopted.
    pub fn result(&mut self) -> Result<(), Failed> {
        if let Some(failed) = self.recheck.take() {
            return Err(failed);
        }
        let Some((_, _, first)) = self.failures().next() else { return Ok(()) };
        let failures: Vec<String> = self.failures().map(|failure| self.failure(failure)).collect();
        Err(Failed::new(first.error.label(), failures.join(", ")))
    }
}
