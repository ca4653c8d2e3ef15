//! Releasing and adopting the children of an owner.

use std::sync::Arc;

use serde_json::Value;

use super::{Class, Failed, Next, Note, Pace, Refusal, Request, Role, Sequence, Step, Steps, Turn, members};
use crate::{
    api::Patch,
    events::EventType,
    meta::Meta,
    object::Resource,
    refs::{HasMeta, Owner},
};

/// The label of the failure of an owner that may not adopt.
const NOT_OURS: &str = "not_ours";

/// The outcome of one release or adoption.
#[derive(Debug)]
enum Answer {
    /// Not asked.
    None,
    Granted,
    Refused(Refusal),
}

/// One child that is released or adopted.
struct Child<'a, C> {
    claimed: &'a C,
    owner: &'a Owner,
    resource: Resource,
    finalizers: &'a [&'a str],
    /// The labels that it gets with its owner.
    labels: Option<Value>,
    adopts: bool,
    answer: Answer,
}

impl<C: HasMeta> Child<'_, C> {
    fn request<N: Note>(&self, turn: &Turn<N>) -> Request {
        let (meta, owner, finalizers) = (self.claimed.meta(), self.owner, self.finalizers);
        let patch = |body| Request::patch(self.resource, meta, Patch::Strategic, body);
        if self.adopts {
            let request = patch(turn.body(|| {
                let mut adoption = owner.adopt_patch(&meta.uid, finalizers);
                if let Some(labels) = &self.labels {
                    adoption["metadata"]["labels"] = labels.clone();
                }
                adoption
            }));
            request.doing("adopt").role(Role::Child).because("nobody controls it and it is selected")
        } else {
            let request = patch(turn.body(|| owner.release_patch(&meta.uid, finalizers)));
            request.doing("release").role(Role::Released).because("it is no longer selected")
        }
    }

    /// Why it failed; nothing if all is well.
    fn refusal(&self) -> Option<&Refusal> {
        let Answer::Refused(refusal) = &self.answer else { return None };
        // A child that is gone is released. One that was gone before it was adopted is no failure either.
        let is_gone = if self.adopts { refusal.error.is_not_found() } else { refusal.class == Class::Gone };
        (!is_gone).then_some(refusal)
    }

    /// What it failed to do, in words.
    fn failure(&self, refusal: &Refusal) -> String {
        let verb = if self.adopts { "adopt" } else { "release" };
        format!("cannot {verb} {} {}: {}", self.resource.kind, self.claimed.meta().key(), refusal.error)
    }
}

impl<C: HasMeta + Sync, N: Note> Sequence<N> for Child<'_, C> {
    fn next(&mut self, turn: &mut Turn<N>) -> Next<'_, N> {
        if let Answer::None = self.answer {
            self.answer = Answer::Granted;
            return Next::Send(self.request(turn));
        }
        if let Err(refusal) = turn.written() {
            self.answer = Answer::Refused(refusal);
        }
        Next::Done
    }
}

/// Releases and adopts the children of an owner: releases first, then, if the owner read live may still adopt, adoptions.
///
/// Each patch names the version of the child that was judged. A child that has changed is left as it is. Every child is tried.
/// Upstream: `pkg/controller`, `PodControllerRefManager`.
pub struct Claim<'a, C, N: Note>(Steps<State<'a, C>, N>);

struct State<'a, C> {
    owner: &'a Owner,
    release: Vec<Child<'a, C>>,
    adopt: Vec<Child<'a, C>>,
    /// Why the owner may not adopt.
    recheck: Option<Failed>,
}

/// How a claim went.
#[derive(Debug)]
pub enum Claimed {
    /// Every child was released, or adopted if it was still there.
    Done,
    /// Some children have changed since the version that was judged; nothing else went wrong. The ledger has the owner wait for
    /// the newer versions.
    Changed,
}

impl<'a, C: HasMeta + Clone + Send + Sync, N: Note> Claim<'a, C, N> {
    /// Gives up `release` and takes over `adopt`. A child gets `finalizers` with its owner, and loses them with it.
    pub fn new(
        owner: &'a Owner,
        resource: Resource,
        finalizers: &'a [&'a str],
        adopt: &'a [C],
        release: &'a [C],
    ) -> Self {
        let child = |adopts| {
            move |claimed: &'a C| Child {
                claimed,
                owner,
                resource,
                finalizers,
                labels: None,
                adopts,
                answer: Answer::None,
            }
        };
        let (release, adopt) = (release.iter().map(child(false)).collect(), adopt.iter().map(child(true)).collect());
        Self(Steps::new(State { owner, release, adopt, recheck: None }, |_, _| {
            Step::All(|state| members(&mut state.release), Pace::AtOnce, State::recheck)
        }))
    }

    /// Gives children labels together with their owner, where `labels` has some for a child: without a label that the children of this
    /// owner are watched by, the adoption would not be seen.
    #[must_use]
    pub fn labelled(mut self, labels: impl Fn(&C) -> Option<Value>) -> Self {
        for child in &mut self.0.state.adopt {
            child.labels = labels(child.claimed);
        }
        self
    }

    /// The children that are adopted.
    pub fn adopted(&self) -> impl Iterator<Item = &'a C> {
        let adopted = |child: &&Child<'a, C>| matches!(child.answer, Answer::Granted);
        self.0.state.adopt.iter().filter(adopted).map(|child| child.claimed)
    }

    /// A child that was gone before it was adopted.
    pub fn gone(&self) -> Option<&'a C> {
        let is_gone = |child: &&Child<'a, C>| matches!(child.answer, Answer::Refused(_)) && child.refusal().is_none();
        self.0.state.adopt.iter().find(is_gone).map(|child| child.claimed)
    }

    /// Whether every child that was to be adopted is adopted.
    pub fn is_complete(&self) -> bool {
        self.0.state.adopt.iter().all(|child| matches!(child.answer, Answer::Granted))
    }

    /// The children that could be neither released nor adopted, with the refusals.
    pub fn refused(&self) -> impl Iterator<Item = (&'a C, &Refusal)> {
        self.0.state.refused().map(|(child, refusal)| (child.claimed, refusal))
    }

    /// Takes releases with such a refusal out of the claim: [`Claim::result`] does not count them as failures.
    ///
    /// A child that stays controlled by its owner without being selected need not stop the owner.
    pub fn give_up_releases(&mut self, is_given_up: impl Fn(&Refusal) -> bool) -> Vec<(&'a C, Refusal)> {
        let release = &mut self.0.state.release;
        let given_up = release.extract_if(.., |child| child.refusal().is_some_and(&is_given_up));
        let with_refusal = |child: Child<'a, C>| match child.answer {
            Answer::Refused(refusal) => Some((child.claimed, refusal)),
            Answer::None | Answer::Granted => None,
        };
        given_up.filter_map(with_refusal).collect()
    }

    /// Reports in one Event on the owner that the server denies releases or adoptions. To be asked before how it went.
    ///
    /// The owner makes no progress until a right is granted or a policy is changed, and no other Event gives the reason.
    pub fn tell_denied(&self, turn: &mut Turn<N>) {
        let is_denied = |refusal: &Refusal| refusal.class == Class::Refused && refusal.error.is_denied();
        let mut denied = self.0.state.refused().filter(|(_, refusal)| is_denied(refusal));
        let Some((child, refusal)) = denied.next() else { return };
        let others = match denied.count() {
            0 => String::new(),
            others => format!(" (and {others} more)"),
        };
        turn.tell(EventType::Warning, "FailedUpdate", format!("Error: {}{others}", child.failure(refusal)));
    }

    /// Whether nothing was adopted because the owner, read live, is deleted or another one. To be asked before how it went.
    pub fn lost_owner(&self) -> bool {
        self.0.state.recheck.as_ref().is_some_and(|failed| failed.label() == NOT_OURS)
    }

    /// How it went. An error tells of every child.
    pub fn outcome(&mut self) -> Result<Claimed, Failed> {
        let state = &self.0.state;
        let is_changed = state.recheck.is_none() && state.refused().all(|(_, refusal)| refusal.class == Class::Changed);
        match self.result() {
            Ok(()) => Ok(Claimed::Done),
            Err(_) if is_changed => Ok(Claimed::Changed),
            Err(failed) => Err(failed),
        }
    }

    /// The same where the change of a child is a failure, too.
    pub fn result(&mut self) -> Result<(), Failed> {
        let state = &mut self.0.state;
        if let Some(failed) = state.recheck.take() {
            return Err(failed);
        }
        let Some((_, first)) = state.refused().next() else { return Ok(()) };
        let failures: Vec<String> = state.refused().map(|(child, refusal)| child.failure(refusal)).collect();
        Err(Failed::new(first.error.label(), failures.join(", ")))
    }
}

impl<'a, C: HasMeta + Send + Sync> State<'a, C> {
    /// The children that could be neither released nor adopted.
    fn refused(&self) -> impl Iterator<Item = (&Child<'a, C>, &Refusal)> {
        let children = self.release.iter().chain(&self.adopt);
        children.filter_map(|child| Some((child, child.refusal()?)))
    }

    /// Reads the owner live before the first adoption: the garbage collector may be orphaning its children just now
    /// (kubernetes/kubernetes#42639).
    fn recheck<N: Note>(&mut self, _: &mut Turn<N>) -> Step<Self, N> {
        if self.adopt.is_empty() {
            return Step::Done;
        }
        let owner = self.owner;
        let request = Request::get(owner.resource, &owner.namespace, &Arc::from(owner.name.as_str()));
        Step::Send(request.because("to adopt, it must still be there and not be deleted"), Self::adopt)
    }

    fn adopt<N: Note>(&mut self, turn: &mut Turn<N>) -> Step<Self, N> {
        match self.may_adopt(turn) {
            Ok(()) => Step::All(|state| members(&mut state.adopt), Pace::AtOnce, |_, _| Step::Done),
            Err(failed) => {
                self.recheck = Some(failed);
                Step::Done
            }
        }
    }

    fn may_adopt<N: Note>(&self, turn: &mut Turn<N>) -> Result<(), Failed> {
        let live = turn.metadata().map_err(|refusal| Failed::request("can't recheck DeletionTimestamp", &refusal))?;
        // A forecast expects the owner to be there.
        let Some(Meta { uid, deleted, .. }) = live else { return Ok(()) };
        let Owner { resource, namespace, name, uid: wanted, .. } = self.owner;
        let problem = if uid != *wanted {
            format!("original {} {namespace}/{name} is gone: got uid {uid}, wanted {wanted}", resource.kind)
        } else if let Some(at) = deleted {
            format!("{namespace}/{name} has just been deleted at {at}")
        } else {
            return Ok(());
        };
        Err(Failed::new(NOT_OURS, format!("can't recheck DeletionTimestamp: {problem}")))
    }
}

impl<C: HasMeta + Send + Sync, N: Note> Sequence<N> for Claim<'_, C, N> {
    fn next(&mut self, turn: &mut Turn<N>) -> Next<'_, N> {
        self.0.next(turn)
    }
}
