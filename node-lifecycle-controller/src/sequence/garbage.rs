//! The removals of one pass of the Pod garbage collector.

use std::{collections::VecDeque, sync::Arc};

use common::{
    api::{self, Patch},
    conditions::{TRUE, seconds},
    controller::Requeue,
    intern::Text,
    object::Object as _,
    pods::PODS,
    sequence::{Class, Pace, Refusal, Request, Role, Sequence, Step, Steps, Turn, Verb, members},
};
use serde_json::json;

use crate::{
    decide::garbage::{OfNode, Plan, Reason, Victim},
    objects::{CachedPod, DISRUPTION_TARGET, NODES, Node},
};

/// How many nodes a pass reads from the server at once, in the order of the plan.
const NODES_AT_ONCE: usize = 8;
/// How many Pods of one pass are removed at once.
const PODS_AT_ONCE: usize = 50;
/// How many removals are prepared at once; bounds the memory of a pass that removes many Pods, and the time of one step.
pub const CHUNK: usize = 500;
/// How often a removal is attempted when the Pod changes meanwhile.
const ATTEMPTS: usize = 3;

/// What a pass tells the collector.
#[derive(Debug)]
pub enum Note {
    /// A Pod is about to be removed.
    Removes(Arc<CachedPod>, Reason),
    /// A Pod is removed; the error says why not.
    Removed(Arc<CachedPod>, Reason, Option<api::Error>),
    /// A node could not be read.
    Unread(Text, api::Error),
}

/// Asks for that many ended Pods that are removed after this one.
#[derive(Debug)]
pub struct Behind(pub Arc<CachedPod>, pub usize);

impl common::sequence::Note for Note {
    type Question = Behind;
    type Fresh = Vec<Arc<CachedPod>>;
}

/// A part of a pass.
enum Stage<'a> {
    /// The removal of Pods.
    Remove(&'a [Victim]),
    /// The removal of that many ended Pods behind this one.
    Terminated(Arc<CachedPod>, usize),
    /// The reads of nodes, before the removal of the Pods of those whose state the server confirms.
    Confirm(&'a [OfNode], Reason),
}

struct State<'a> {
    plan: &'a Plan,
    stages: VecDeque<Stage<'a>>,
    checks: Vec<Steps<Check<'a>, Note>>,
    removals: Vec<Steps<Removal, Note>>,
}

/// The requests that carry out `plan`.
pub(crate) fn sequence(plan: &Plan) -> impl Sequence<Note> + '_ {
    let confirm = |reason| move |nodes| Stage::Confirm(nodes, reason);
    let out_of_service = plan.out_of_service.chunks(NODES_AT_ONCE).map(confirm(Reason::OutOfService));
    let orphaned = plan.orphaned.chunks(NODES_AT_ONCE).map(confirm(Reason::Orphaned));
    let more = plan.terminated.last().map(|last| (&last.pod, plan.excess.saturating_sub(plan.terminated.len())));
    let more = more.map(|(last, count)| Stage::Terminated(Arc::clone(last), count));
    let stages = removals(&plan.terminated).chain(more).chain(out_of_service).chain(orphaned);
    let stages = stages.chain(removals(&plan.unscheduled));
    let state = State { plan, stages: stages.collect(), checks: Vec::new(), removals: Vec::new() };
    Steps::new(state, State::stage)
}

fn removals(victims: &[Victim]) -> impl DoubleEndedIterator<Item = Stage<'_>> {
    victims.chunks(CHUNK).map(Stage::Remove)
}

impl State<'_> {
    fn stage(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        match self.stages.pop_front() {
            None => {
                // The pause begins when the pass ends.
                turn.end(Ok(Requeue::After(self.plan.pause())));
                Step::Done
            }
            Some(Stage::Remove(victims)) => {
                self.removals = victims.iter().cloned().map(Removal::of).collect();
                Self::remove()
            }
            Some(Stage::Terminated(_, 0)) => self.stage(turn),
            Some(Stage::Terminated(last, count)) => {
                let next = Behind(Arc::clone(&last), count.min(CHUNK));
                self.stages.push_front(Stage::Terminated(last, count));
                Step::Observe(next, Self::more)
            }
            Some(Stage::Confirm(nodes, reason)) => {
                let check = |of_node| Steps::new(Check { of_node, reason, is_confirmed: false }, Check::read);
                self.checks = nodes.iter().map(check).collect();
                Step::All(|state| members(&mut state.checks), Pace::AtOnce, Self::confirmed)
            }
        }
    }

    fn remove() -> Step<Self, Note> {
        Step::All(|state| members(&mut state.removals), Pace::AtMost(PODS_AT_ONCE), Self::stage)
    }

    /// Removes further ended Pods. A forecast knows of none.
    fn more(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        let (pods, stage) = (turn.fresh().unwrap_or_default(), self.stages.pop_front());
        if let (Some(last), Some(Stage::Terminated(_, count))) = (pods.last(), stage) {
            self.stages.push_front(Stage::Terminated(Arc::clone(last), count.saturating_sub(pods.len())));
        }
        self.removals = pods.into_iter().map(|pod| Removal::of(Victim { pod, reason: Reason::Terminated })).collect();
        Self::remove()
    }

    fn confirmed(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        for check in self.checks.iter().rev().filter(|check| check.state.is_confirmed) {
            for stage in removals(&check.state.of_node.pods).rev() {
                self.stages.push_front(stage);
            }
        }
        self.stage(turn)
    }
}

/// The read of a node whose Pods are to be removed. If the node cannot be read, its Pods stay.
struct Check<'a> {
    of_node: &'a OfNode,
    reason: Reason,
    is_confirmed: bool,
}

impl Check<'_> {
    fn read(&mut self, _: &mut Turn<Note>) -> Step<Self, Note> {
        let request = Request::get(NODES, &"".into(), &self.of_node.node.as_str().into());
        Step::Send(request.because("to remove its Pods, it must be as the cache has it"), Self::judge)
    }

    fn judge(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        let node = &self.of_node.node;
        self.is_confirmed = match (turn.read::<Node>(), self.reason) {
            (Ok(None), _) => true,
            (Ok(Some(live)), Reason::OutOfService) => live.is_out_of_service(),
            (Ok(Some(_)), _) => false,
            (Err(refusal), reason) if refusal.error.is_not_found() => reason == Reason::Orphaned,
            (Err(Refusal { error, .. }), _) => {
                turn.note(Note::Unread(node.clone(), error));
                return Step::Done;
            }
        };
        if !self.is_confirmed {
            turn.deviates(format!("Node {node} is not as the cache has it"));
        }
        Step::Done
    }
}

/// The removal of a Pod without the help of its kubelet.
///
/// A Pod that changed since it was judged is read again, and removed only if the reason still holds.
struct Removal {
    victim: Victim,
    judged: Arc<CachedPod>,
    attempt: usize,
}

impl Removal {
    fn of(victim: Victim) -> Steps<Self, Note> {
        Steps::new(Self { judged: Arc::clone(&victim.pod), victim, attempt: 0 }, Self::begin)
    }

    fn begin(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        turn.note(Note::Removes(Arc::clone(&self.victim.pod), self.victim.reason));
        self.remove(turn)
    }

    /// Writes the phase of a Pod that has not ended, and deletes this version of the Pod without grace.
    fn remove(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        self.attempt += 1;
        let pod = &self.judged;
        if pod.phase.is_terminal() {
            return self.delete();
        }
        let meta = pod.meta();
        let body = turn.body(|| {
            let mut status = json!({"phase": "Failed"});
            if meta.generation > 0 {
                status["observedGeneration"] = json!(meta.generation);
            }
            if self.victim.reason == Reason::Orphaned {
                let since = pod.disrupted.get().unwrap_or(turn.now);
                let mut condition = json!({"type": DISRUPTION_TARGET, "status": TRUE, "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists", "lastTransitionTime": seconds::text(since)});
                if meta.generation > 0 {
                    condition["observedGeneration"] = json!(meta.generation);
                }
                status["conditions"] = json!([condition]);
            }
            json!({"status": status})
        });
        let request = Request::patch(PODS, meta, Patch::Strategic, body).role(Role::Child);
        let request = request.doing("set the phase Failed of").because(self.victim.why());
        Step::Send(Request { subresource: "status", ..request }, Self::failed)
    }

    fn failed(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        match turn.written() {
            Ok(_) => self.delete(),
            Err(refusal) => self.refused(turn, refusal),
        }
    }

    fn delete(&self) -> Step<Self, Note> {
        let request = Request::delete(PODS, &self.judged.meta).because(self.victim.why());
        Step::Send(Request { verb: Verb::Delete(None, Some(0)), ..request }, Self::deleted)
    }

    fn deleted(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        match turn.written() {
            Ok(_) => self.end(turn, None),
            Err(refusal) => self.refused(turn, refusal),
        }
    }

    fn refused(&mut self, turn: &mut Turn<Note>, refusal: Refusal) -> Step<Self, Note> {
        match refusal.class {
            Class::Gone => self.end(turn, None),
            Class::Changed if self.attempt < ATTEMPTS => {
                let meta = &self.victim.pod.meta;
                Step::Send(Request::get(PODS, &meta.namespace, &meta.name).because("it has changed"), Self::judge)
            }
            _ => self.end(turn, Some(refusal.error)),
        }
    }

    fn judge(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        match turn.read::<CachedPod>() {
            Err(refusal) if refusal.error.is_not_found() => self.end(turn, None),
            Err(refusal) => self.end(turn, Some(refusal.error)),
            Ok(Some(live)) if self.victim.reason.still_holds(&self.victim.pod, &live) => {
                self.judged = Arc::new(live);
                self.remove(turn)
            }
            Ok(_) => {
                turn.deviates("the reason does not hold any more");
                self.end(turn, None)
            }
        }
    }

    fn end(&self, turn: &mut Turn<Note>, error: Option<api::Error>) -> Step<Self, Note> {
        turn.note(Note::Removed(Arc::clone(&self.victim.pod), self.victim.reason, error));
        Step::Done
    }
}
