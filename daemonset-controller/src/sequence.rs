//! The requests of one sync: revisions, claims, Pods, the history, the status.

mod pods;
mod revisions;

use std::{sync::Arc, time::Duration};

use common::{
    controller::{Requeue, Retry},
    events::EventType,
    intern::Text,
    meta::Meta,
    pods::PODS,
    revision::CONTROLLER_REVISIONS,
    sequence::{
        ChangeRevision, Claim, Class, DeleteRevision, Failed, Pace, Refusal, Request, Sequence, Step, Steps,
        StoreRevision, Turn, members,
    },
};
use serde_json::json;

use self::{
    pods::{CreateForNode, DeleteIfUnchanged},
    revisions::Relabel,
};
use crate::{
    decide::body::PodSource,
    objects::{CachedPod, DAEMON_SETS, HASH_LABEL},
    plan::{Deletion, Plan, Problem, Scope, Why},
    snapshot::{PodRef, RevisionRef, Snapshot},
};

/// How many bytes the Pods that are sent at the same time have together, unless one alone has more.
const BODIES_IN_FLIGHT: usize = 8 << 20;

/// A change of the controller's memory.
#[derive(Debug)]
pub enum Note {
    /// The selector breaks the rules, so that nothing is done.
    BrokenSelector(String),
    /// The set turned out to be deleted, or another one: its next sync manages no Pods either.
    LostOwner,
    /// The server denies a change or the deletion of this revision.
    RefusedRevision(Box<Meta>),
    /// The server stored a new Pod without the label by which Pods are watched.
    UnlabelledPod(Box<CachedPod>),
    /// The server denies a change of this Pod.
    RefusedPod(Box<Meta>),
    /// The name of the new revision is taken by one of the same template with that hash, or by none.
    TakenName(Option<(String, Text)>),
    /// The server refuses Pods because the namespace terminates.
    NamespaceTerminates,
    /// The answer to the creation of a Pod for that node was lost.
    LostCreate(Text),
    /// The server has refused to create a Pod for that node: the next sync begins with the nodes after it.
    RefusedCreate(Text),
    /// The same of a deletion.
    RefusedDelete(Text),
    /// The Pod was deleted by a request whose answer was lost.
    Deleted(PodRef),
}

impl common::sequence::Note for Note {
    type Question = ();
    type Fresh = ();
}

struct State<'a> {
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    release_revisions: Claim<'a, RevisionRef, Note>,
    adopt_revisions: Claim<'a, RevisionRef, Note>,
    /// Revisions that are labelled, or renumbered.
    changes: Vec<ChangeRevision<'a>>,
    relabels: Vec<Relabel>,
    store: Option<StoreRevision<'a>>,
    /// The refusal to store a revision whose name is taken.
    taken: Option<Refusal>,
    /// The revisions that are deleted, and their deletions.
    deleted: Vec<RevisionRef>,
    deletions: Vec<DeleteRevision>,
    claim: Claim<'a, PodRef, Note>,
    creates: Vec<CreateForNode<'a>>,
    deletes: Vec<DeleteIfUnchanged<'a>>,
    /// The first denial of a change without which the sync goes on. It fails with it in the end.
    denied: Option<Failed>,
    /// The first failure.
    failed: Option<Failed>,
}

/// The requests that carry out `plan`.
pub(crate) fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
    let (owner, revisions) = (&snapshot.owner, &plan.revisions);
    let state = State {
        snapshot,
        plan,
        release_revisions: Claim::new(owner, CONTROLLER_REVISIONS, &[], &[], &revisions.release),
        adopt_revisions: Claim::new(owner, CONTROLLER_REVISIONS, &[], &revisions.adopt, &[]),
        changes: Vec::new(),
        relabels: Vec::new(),
        store: None,
        taken: None,
        deleted: Vec::new(),
        deletions: Vec::new(),
        claim: Claim::new(owner, PODS, &[], &plan.adopt, &plan.release)
            .labelled(|pod| pod.is_unlabelled().then(|| json!({HASH_LABEL: ""}))),
        creates: Vec::new(),
        deletes: Vec::new(),
        denied: None,
        failed: None,
    };
    Steps::new(state, State::begin)
}

type Next<'a> = Step<State<'a>, Note>;

impl<'a> State<'a> {
    fn begin(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match &self.plan.problem {
            None => {}
            Some(problem @ Problem::SelectsEverything) => {
                turn.tell(EventType::Warning, "SelectingAll", problem.to_string());
                return Step::Done;
            }
            Some(Problem::Selector(error)) => {
                turn.note(Note::BrokenSelector(error.to_string()));
                return Step::Done;
            }
        }
        match self.plan.scope {
            Scope::Nothing => Step::Done,
            Scope::Status => self.write_status(turn),
            Scope::Claims | Scope::Everything => Self::write_revisions(),
        }
    }

    fn claim_pods() -> Next<'a> {
        Step::All(|state| vec![&mut state.claim], Pace::AtOnce, Self::claimed)
    }

    fn claimed(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let unreleased = self.claim.give_up_releases(|refusal| refusal.error.is_denied());
        for (pod, refusal) in &unreleased {
            let denied = note_denied_pod(turn, "release", pod, refusal);
            self.denied = self.denied.take().or(denied);
        }
        for (pod, refusal) in self.claim.refused() {
            note_denied_pod(turn, "adopt", pod, refusal);
        }
        let lost_owner = self.claim.lost_owner();
        if let Err(failed) = self.claim.result() {
            if lost_owner {
                turn.note(Note::LostOwner);
            }
            return end(turn, Err(failed.while_doing("cannot claim Pods")));
        }
        if self.plan.scope != Scope::Claims {
            return self.create(turn);
        }
        if let Some(failed) = self.denied.take() {
            return end(turn, Err(failed));
        }
        let relabelled = self.relabels.iter().filter(|relabel| relabel.is_done()).count();
        end(turn, Ok(again(self.claim.adopted().count() + relabelled)))
    }

    /// Creates Pods in batches of 1, 2, 4, ..., of large Pods in smaller ones. Pods are deleted also if some could not be created.
    ///
    /// Upstream: `pkg/controller/daemon`, `syncNodes`.
    fn create(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let (snapshot, plan) = (self.snapshot, self.plan);
        self.tell_found(turn);
        if plan.creates.is_empty() {
            return self.delete();
        }
        let source = match PodSource::new(&snapshot.set, &snapshot.owner, &plan.revisions.hash) {
            Ok(source) => Arc::new(source),
            Err(error) => {
                let text = format!("cannot make a Pod from spec.template: {error}");
                self.failed = Some(Failed::new("template", text));
                return self.delete();
            }
        };
        let create = |creation| CreateForNode::new(&snapshot.owner, creation, &source);
        self.creates = plan.creates.iter().map(create).collect();
        let pace = Pace::SlowStart(BODIES_IN_FLIGHT / source.size().max(1));
        Step::All(|state| members(&mut state.creates), pace, Self::created)
    }

    /// Reports failed and succeeded Pods, before Pods are created in their place. Upstream: `podsShouldBeOnNode`.
    fn tell_found(&self, turn: &mut Turn<Note>) {
        for Deletion { pod, node, why } in &self.plan.deletes {
            let (kind, reason, phase, verb) = match why {
                Why::Failed => (EventType::Warning, "FailedDaemonPod", "failed", "kill"),
                Why::Succeeded => (EventType::Normal, "SucceededDaemonPod", "succeeded", "delete"),
                _ => continue,
            };
            let pod = pod.meta().key();
            turn.tell(kind, reason, format!("Found {phase} daemon pod {pod} on node {node}, will try to {verb} it"));
        }
    }

    fn created(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if let Some(refused) = self.creates.iter().rfind(|create| create.failure().is_some_and(is_for_good)) {
            turn.note(Note::RefusedCreate(refused.node().clone()));
        }
        let failure = self.creates.iter().find_map(CreateForNode::failure);
        self.failed = failure.map(|refusal| refused("cannot create Pods", refusal));
        self.delete()
    }

    fn delete(&mut self) -> Next<'a> {
        let delete = |deletion| DeleteIfUnchanged::new(self.snapshot, deletion);
        self.deletes = self.plan.deletes.iter().map(delete).collect();
        Step::All(|state| members(&mut state.deletes), Pace::AtOnce, Self::deleted)
    }

    fn deleted(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if let Some(refused) = self.deletes.iter().rfind(|delete| delete.failure().is_some_and(is_for_good)) {
            turn.note(Note::RefusedDelete(refused.deletion().node.clone()));
        }
        let failure = |delete: &DeleteIfUnchanged<'_>| {
            let what = format!("cannot delete Pod {}", delete.deletion().pod.meta().name);
            delete.failure().map(|refusal| refused(&what, refusal))
        };
        if let Some(failed) = self.failed.take().or_else(|| self.deletes.iter().find_map(failure)) {
            self.failed = Some(failed);
            return self.write_status(turn);
        }
        self.delete_revisions(self.plan.forget.clone(), "the history is longer than its limit", |state, turn| {
            state.failed = state.not_deleted(turn);
            state.write_status(turn)
        })
    }

    /// Writes the status if it differs, onto the version of the set that it was computed for. A set that is gone is no error.
    ///
    /// Upstream: `pkg/controller/daemon`, `storeDaemonSetStatus`, which after a failure writes the same status onto the newer set, also
    /// if that is another set of the same name. Here the conflict fails the sync, and the next one computes the status of the newer
    /// set, which it waits for.
    fn write_status(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if !self.plan.writes_status() {
            return self.finish(turn);
        }
        let body = turn.body(|| json!({"status": self.plan.status}));
        let request = Request::status(DAEMON_SETS, &self.snapshot.set.metadata, body);
        Step::Send(request, |state, turn| {
            if let Some(refusal) = turn.written().err().filter(|refusal| !refusal.error.is_not_found()) {
                let failed = state.status_failed(&refusal);
                state.failed.get_or_insert(failed);
            }
            state.finish(turn)
        })
    }

    fn status_failed(&self, refusal: &Refusal) -> Failed {
        let set = self.snapshot.set.metadata.key();
        refused(&format!("error storing status for daemon set {set}"), refusal)
    }

    fn finish(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if let Some(failed) = self.failed.take().or_else(|| self.denied.take()) {
            return end(turn, Err(failed));
        }
        let effective = || {
            let created = self.creates.iter().filter(|create| create.is_done()).count();
            created + self.deletes.iter().filter(|delete| delete.is_done()).count()
        };
        let requeue = match (self.plan.deferred.total(), self.plan.orphans) {
            _ if self.plan.scope == Scope::Status => Requeue::No,
            // A create whose answer was lost has failed; that it is waited for is no success.
            (0, 0) => self.snapshot.lost_creates.values().min().map_or(Requeue::No, |left| Requeue::Unfinished(*left)),
            (0, _) => Requeue::RateLimited,
            _ => again(effective()),
        };
        end(turn, Ok(requeue))
    }
}

/// If the server denies a change of a Pod, reports it and has the next syncs go on without that change.
fn note_denied_pod(turn: &mut Turn<Note>, verb: &str, pod: &PodRef, refusal: &Refusal) -> Option<Failed> {
    if !refusal.error.is_denied() {
        return None;
    }
    turn.note(Note::RefusedPod(Box::new(pod.meta().clone())));
    Some(tell_denial(turn, "FailedUpdate", &format!("{verb} Pod"), pod.meta(), refusal))
}

/// Reports that the server denies a change of an object.
fn tell_denial(turn: &mut Turn<Note>, reason: &'static str, verb: &str, object: &Meta, refusal: &Refusal) -> Failed {
    let message = format!("cannot {verb} {}", object.name);
    turn.tell(EventType::Warning, reason, format!("Error: {message}: {}", refusal.error));
    refused(&message, refusal)
}

fn end<'a>(turn: &mut Turn<Note>, outcome: Result<Requeue, Failed>) -> Next<'a> {
    turn.end(outcome);
    Step::Done
}

/// When the next sync goes on with what this one has left, after so many requests that had an effect.
///
/// It waits by itself until the caches show what this one wrote. If nothing was written, because the server did not know any of the
/// Pods, nothing makes it wait: it would send the same requests until the cache shows that the Pods are gone.
fn again(effective: usize) -> Requeue {
    if effective > 0 { Requeue::After(Duration::ZERO) } else { Requeue::RateLimited }
}

/// Whether the same request may fail again and again, so that other nodes get their turn first.
fn is_for_good(refusal: &Refusal) -> bool {
    refusal.class != Class::Changed
}

/// A refused request. In a namespace that terminates nothing can be created any more, and every deletion enqueues the set.
fn refused(what: &str, refusal: &Refusal) -> Failed {
    let failed = Failed::request(what, refusal);
    if refusal.class == Class::NamespaceTerminating { failed.with_retry(Retry::Forget) } else { failed }
}
