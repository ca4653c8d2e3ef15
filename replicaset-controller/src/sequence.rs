//! The requests of one sync: claims, then Pods, then the status.

mod body;

use std::{borrow::Cow, sync::Arc, time::Duration};

use common::{
    controller::Requeue,
    meta::{Meta, Uid, Version},
    pods::PODS,
    sequence::{
        Body, Claim, Claimed, Class, CreatePod, DeletePod, Failed, Pace, Refusal, Request, Role, Sequence, Step, Steps,
        Turn, members,
    },
};
use serde::Deserialize;

use crate::{
    decide::{FailureReason, Manage, Managed, Plan, PodRef, Snapshot, Victim, manage, status, timer},
    objects::Status,
};

/// A change of the controller's memory.
#[derive(Debug)]
pub enum Note {
    /// The selector breaks the rules, so that nothing is done.
    BrokenSelector(String),
    /// Pods are about to be created.
    Creates,
    /// The server refuses Pods because the namespace terminates.
    NamespaceTerminates,
    /// These Pods are about to be deleted. The numbers are their ages as multiples of the youngest one's.
    Deletes(Vec<Uid>, Vec<u64>),
    /// Whether the server kept the count of terminating Pods that was written.
    KeepsTerminating(bool),
}

impl common::sequence::Note for Note {
    type Question = ();
    type Fresh = ();
}

/// How long after a conflict the watch is given to show what has changed, before the set is read.
const WATCH_LAG: Duration = Duration::from_millis(100);

/// The part of an answer that is read of a set.
#[derive(Deserialize)]
struct Answer {
    metadata: Meta,
    #[serde(default)]
    status: Option<Status>,
}

/// The state of one state.
struct State<'a> {
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    claim: Claim<'a, PodRef, Note>,
    /// The Pods of the set once claims are made.
    claimed: Vec<&'a PodRef>,
    manage: Cow<'a, Manage>,
    creates: Vec<CreatePod>,
    deletes: Vec<DeletePod>,
    managed: Managed,
    failed: Option<Failed>,
    status: Status,
}

/// The requests that carry out `plan`.
pub(crate) fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
    let state = State {
        snapshot,
        plan,
        claim: Claim::new(&snapshot.owner, PODS, &[], &plan.adopt, &plan.release),
        claimed: Vec::new(),
        manage: Cow::Borrowed(&plan.manage),
        creates: Vec::new(),
        deletes: Vec::new(),
        managed: Managed::Done,
        failed: None,
        status: Status::default(),
    };
    Steps::new(state, State::claim)
}

type Next<'a> = Step<State<'a>, Note>;

impl<'a> State<'a> {
    fn claim(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if let Some(problem) = self.plan.set.selector.problem() {
            turn.note(Note::BrokenSelector(problem.to_string()));
            return Step::Done;
        }
        Step::All(|state| vec![&mut state.claim], Pace::AtOnce, Self::manage)
    }

    fn manage(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        self.claim.tell_denied(turn);
        match self.claim.outcome() {
            Ok(Claimed::Done) => {}
            Ok(Claimed::Changed) => return end(turn, Ok(Requeue::Conflict)),
            Err(failed) => return end(turn, Err(failed.while_doing("cannot claim Pods"))),
        }
        self.claimed = self.snapshot.claims.keep.iter().chain(self.claim.adopted()).collect();
        // The plan counts on every adoption.
        if !self.claim.is_complete() {
            self.manage = Cow::Owned(manage::manage(self.snapshot, &self.claimed));
        }
        match &*self.manage {
            Manage::Create { count, missing } => {
                let (count, missing) = (*count, *missing);
                self.create(turn, count, missing)
            }
            Manage::Delete { victims, age_ratios, .. } => {
                turn.note(Note::Deletes(
                    victims.iter().map(|v| v.pod.meta().uid.clone()).collect(),
                    age_ratios.clone(),
                ));
                let delete = |Victim { pod, why }: &Victim| DeletePod::new(pod.meta(), why.to_string());
                self.deletes = victims.iter().map(delete).collect();
                Step::All(|state| members(&mut state.deletes), Pace::AtOnce, Self::deleted)
            }
            Manage::Impossible(problem) => {
                let failed = Failed::new("template", format!("unable to create pods, {problem}"));
                self.fails(FailureReason::Create, failed);
                self.write_status(turn)
            }
            Manage::Nothing => self.write_status(turn),
            Manage::NotAllowed(_) | Manage::Later(_) => {
                self.managed = Managed::NotAllowed;
                self.write_status(turn)
            }
        }
    }

    /// Creates Pods slowly at first, so that a set whose Pods are refused costs one request a state.
    fn create(&mut self, turn: &mut Turn<Note>, count: usize, missing: usize) -> Next<'a> {
        let owner = &self.snapshot.owner;
        let Some(template) = &self.snapshot.set.template else {
            self.fails(FailureReason::Create, Failed::new("template", "unable to create pods, no template"));
            return self.write_status(turn);
        };
        turn.note(Note::Creates);
        let body: Body = turn.body(|| body::body(&owner.name, template, owner.controller_ref()));
        let (name, prefix) = (Arc::<str>::default(), Arc::<str>::from(body::generate_name(&owner.name)));
        let why = if count == missing { Cow::Borrowed("") } else { format!("{missing} are missing").into() };
        let pod = || CreatePod::new(&owner.namespace, &name, body.clone()).generate_name(Arc::clone(&prefix));
        let create = || pod().because(why.clone());
        self.creates = (0..count).map(|_| create()).collect();
        Step::All(|state| members(&mut state.creates), Pace::SlowStart(usize::MAX), Self::created)
    }

    fn created(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if self.creates.iter().any(CreatePod::found_terminating_namespace) {
            turn.note(Note::NamespaceTerminates);
        }
        if let Some(refusal) = self.creates.iter().find_map(CreatePod::failure) {
            self.fails(FailureReason::Create, Failed::request("", refusal));
        }
        self.write_status(turn)
    }

    fn deleted(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if self.deletes.iter().any(DeletePod::found_change) {
            self.managed = Managed::Changed;
        }
        if let Some(refusal) = self.deletes.iter().find_map(DeletePod::failure) {
            self.fails(FailureReason::Delete, Failed::request("unable to delete pods", refusal));
        }
        self.write_status(turn)
    }

    /// Writes the status if it is another one. Upstream: `pkg/controller/replicaset`, `updateReplicaSetStatus`.
    fn write_status(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let is_as_planned = self.claim.is_complete() && self.managed == self.plan.expected;
        self.status = if is_as_planned {
            self.plan.status.clone()
        } else {
            status::status(self.snapshot, &self.claimed, &self.managed, self.snapshot.now)
        };
        if !self.snapshot.limits.worth_writing(&self.status, &self.snapshot.set.status) {
            return self.finish(turn);
        }
        let version = self.snapshot.set.metadata.resource_version;
        Step::Send(self.status_request(turn, version), Self::wrote_status)
    }

    fn wrote_status(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match turn.read::<Answer>() {
            // The copy in hand is old, and the watch is about to show a newer one.
            Err(Refusal { class: Class::Changed, .. }) if self.failed.is_none() => {
                Step::Pause(WATCH_LAG, |_, _| Step::Observe((), Self::saw_the_cache_again))
            }
            Err(Refusal { class: Class::Changed, .. }) => self.read_again(),
            answer => self.finish_status(turn, answer),
        }
    }

    /// The next sync writes the status onto the newer copy, if there is one by now.
    fn saw_the_cache_again(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if turn.fresh().is_some() { end(turn, Ok(Requeue::Conflict)) } else { self.read_again() }
    }

    /// Reads the live object to write its status once more. No later sync knows of a failure of this one.
    fn read_again(&self) -> Next<'a> {
        let owner = &self.snapshot.owner;
        let request = Request::get(owner.resource, &owner.namespace, &self.snapshot.set.metadata.name);
        Step::Send(request.because("its status was written by somebody else"), Self::read_live)
    }

    fn read_live(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let live = match turn.read::<Answer>() {
            Ok(Some(live)) => live,
            Ok(None) => return self.finish(turn),
            Err(refusal) => return self.finish_status(turn, Err(refusal)),
        };
        let limits = &self.snapshot.limits;
        let is_there = |stored: &Status| !limits.worth_writing(&self.status, stored);
        if live.metadata.uid != self.snapshot.owner.uid || live.status.as_ref().is_some_and(is_there) {
            return self.finish(turn);
        }
        Step::Send(self.status_request(turn, live.metadata.resource_version), |state, turn| {
            let answer = turn.read::<Answer>();
            state.finish_status(turn, answer)
        })
    }

    fn status_request(&self, turn: &Turn<Note>, version: Version) -> Request {
        let (owner, meta) = (&self.snapshot.owner, &self.snapshot.set.metadata);
        let body = turn.body(|| serde_json::json!({"status": &self.status}));
        let role = if self.snapshot.limits.reads_own_writes { Role::Itself } else { Role::Other };
        Request::status(owner.resource, meta, body).strategic().at(Some(version)).role(role)
    }

    /// A set that is gone needs no status.
    fn finish_status(&mut self, turn: &mut Turn<Note>, answer: Result<Option<Answer>, Refusal>) -> Next<'a> {
        match answer {
            Ok(answer) => {
                let kept = answer.and_then(|answer| answer.status).is_some_and(|s| s.terminating_replicas.is_some());
                if self.status.terminating_replicas.is_some() && !turn.is_forecast() {
                    turn.note(Note::KeepsTerminating(kept));
                }
            }
            Err(refusal) if refusal.class == Class::Gone => {}
            Err(refusal) => return end(turn, Err(Failed::request("cannot write the status", &refusal))),
        }
        self.finish(turn)
    }

    fn finish(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if let Some(failed) = self.failed.take() {
            return end(turn, Err(failed));
        }
        if self.managed == Managed::Changed {
            // The next sync waits until the cache shows the Pods that have changed.
            return end(turn, Ok(Requeue::Conflict));
        }
        let began = self.snapshot.now;
        let check = timer::next_check(self.snapshot, &self.claimed, &self.status, began, turn.now);
        let allowed = timer::requeue_after(self.snapshot, &self.manage, None);
        // A create whose answer was lost has failed; that it is waited for is no success.
        let requeue = if self.managed == Managed::NotAllowed { Requeue::Unfinished } else { Requeue::After };
        end(turn, Ok(check.into_iter().chain(allowed).min().map_or(Requeue::No, requeue)))
    }

    fn fails(&mut self, reason: FailureReason, failed: Failed) {
        self.managed = Managed::Failed { reason, message: failed.to_string() };
        self.failed = Some(failed);
    }
}

fn end<'a>(turn: &mut Turn<Note>, outcome: Result<Requeue, Failed>) -> Next<'a> {
    turn.end(outcome);
    Step::Done
}
