//! The requests of a round: the conditions and taints of a pass over nodes, or the taints of nodes that wait.

use std::{sync::Arc, time::Duration};

use common::{
    api::{self, Patch},
    conditions::{UNKNOWN, seconds},
    controller::Requeue,
    sequence::{Class, Pace, Request, Role, Sequence, Step, Steps, Turn, members},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    monitor::{LiveNode, Note, Question},
    node::{Change, CheckLease, EditNode},
};
use crate::{
    decide::{
        health::{self, Action, Lapsed, NEVER, STOPPED},
        tainting::{self, Chosen},
        zones::Disruption,
    },
    monitor::{NODE_WORKERS, rounds::Plan},
    objects::{LEASE_NAMESPACE, LEASES, NODES, Node, NodeReady},
};

/// How often conditions are written in one pass when the node changes meanwhile.
const ATTEMPTS: usize = 5;
/// The pause after a conflict.
const PAUSE: Duration = Duration::from_millis(20);
/// The pause before a pass that goes on where this one could not.
const AT_ONCE: Duration = Duration::from_millis(1);

struct State<'a> {
    plan: &'a Plan,
    /// The pause before the next pass.
    pause: Duration,
    treated: Vec<Steps<Treated<'a>, Note>>,
    tainted: Vec<Steps<Tainted<'a>, Note>>,
}

/// The requests that carry out `plan`.
pub(crate) fn sequence(plan: &Plan) -> impl Sequence<Note> + '_ {
    Steps::new(State { plan, pause: Duration::ZERO, treated: Vec::new(), tainted: Vec::new() }, State::begin)
}

impl<'a> State<'a> {
    fn begin(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        match self.plan {
            Plan::Health(plan) => self.pass(turn, plan),
            Plan::Tainting(plan) => self.taint(turn, plan),
        }
    }

    fn pass(&mut self, turn: &mut Turn<Note>, plan: &'a health::Plan) -> Step<Self, Note> {
        self.pause = plan.pause;
        for (name, uid) in &plan.arrived {
            turn.note(Note::Arrived(Arc::clone(name), uid.clone()));
        }
        for (name, uid) in &plan.departed {
            turn.note(Note::Departed(Arc::clone(name), uid.clone()));
        }
        for (name, uid) in &plan.lapsed {
            turn.note(Note::NotReady(Arc::clone(name), uid.clone()));
        }
        if plan.checks {
            // A sign that this process sees.
            let request = Request::list(LEASES, &LEASE_NAMESPACE.into(), "limit=1".to_owned());
            return Step::Send(request, Self::checked);
        }
        if plan.blind.is_some() {
            return next_pass(turn, plan.pause);
        }
        if plan.disruption == Disruption::Begins {
            self.pause = AT_ONCE;
        }
        let writes = plan.actions().filter(|(_, action)| !matches!(action, Action::Wait(_)));
        self.treated = writes.map(|(node, action)| Treated::of(node, action)).collect();
        Step::All(|state| members(&mut state.treated), Pace::AtMost(NODE_WORKERS), Self::passed)
    }

    fn checked(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        match turn.written() {
            Ok(_) => {
                turn.note(Note::Answered);
                next_pass(turn, AT_ONCE)
            }
            Err(refusal) => {
                turn.note(Note::Unanswered(refusal.error));
                next_pass(turn, self.pause)
            }
        }
    }

    fn passed(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        turn.note(Note::Passed);
        let goes_on = self.treated.iter().any(|treated| treated.state.is_lapsed);
        next_pass(turn, if goes_on { AT_ONCE } else { self.pause })
    }

    /// Taints the nodes whose turn it is.
    fn taint(&mut self, turn: &mut Turn<Note>, plan: &'a tainting::Plan) -> Step<Self, Note> {
        if let Some(alarm) = &plan.alarm {
            turn.note(Note::Alarm(alarm.clone()));
        }
        self.tainted = plan.chosen.iter().map(Tainted::of).collect();
        Step::All(|state| members(&mut state.tainted), Pace::InOrder, |_, _| Step::Done)
    }
}

fn next_pass<S>(turn: &mut Turn<Note>, pause: Duration) -> Step<S, Note> {
    turn.end(Ok(Requeue::After(pause)));
    Step::Done
}

/// What a pass does about one node. A node whose action failed is looked at again with the next pass.
struct Treated<'a> {
    node: Arc<Node>,
    action: &'a Action,
    edit: Option<Steps<EditNode, Note>>,
    lease: Steps<CheckLease, Note>,
    began: Timestamp,
    attempt: usize,
    is_lapsed: bool,
}

impl<'a> Treated<'a> {
    fn of(node: &Arc<Node>, action: &'a Action) -> Steps<Self, Note> {
        let edit = match action {
            Action::Relieve => Some(EditNode::of(node, Change::Relieve, "")),
            Action::Swap(cause) => Some(EditNode::of(node, Change::Swap, format!("the new one is {}", cause.key()))),
            Action::Lapse(_) | Action::Wait(_) => None,
        };
        let (node, lease) = (Arc::clone(node), CheckLease::of(node));
        let (began, attempt) = (Timestamp::UNIX_EPOCH, 0);
        Steps::new(Self { node, action, edit, lease, began, attempt, is_lapsed: false }, Self::begin)
    }

    fn begin(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        self.began = turn.now;
        if self.edit.is_none() {
            return self.check();
        }
        Step::All(
            |state| members(state.edit.as_mut_slice()),
            Pace::AtOnce,
            |state, turn| match state.edit.as_mut().and_then(|edit| edit.state.outcome.take()) {
                Some(outcome) => state.end(turn, outcome.err()),
                None => Step::Done,
            },
        )
    }

    fn end(&mut self, turn: &mut Turn<Note>, error: Option<api::Error>) -> Step<Self, Note> {
        let took = Duration::try_from(turn.now.duration_since(self.began)).unwrap_or_default();
        turn.note(Note::Took(took));
        turn.note(Note::Changed(Arc::clone(&self.node.metadata.name), self.action.describe(), error));
        Step::Done
    }

    /// Sets the conditions of a silent node to `Unknown`, unless the server knows of a sign of life.
    fn check(&mut self) -> Step<Self, Note> {
        self.lease = CheckLease::of(&self.node);
        self.attempt += 1;
        Step::All(|state| vec![&mut state.lease], Pace::AtOnce, Self::checked)
    }

    fn checked(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        match self.lease.state.outcome.take() {
            Some(Err(error)) => self.end(turn, Some(error)),
            Some(Ok(true)) => self.end(turn, None),
            Some(Ok(false)) => Step::Observe(Question::IsSilent(Arc::clone(&self.node.metadata.name)), Self::lapse),
            None => Step::Done,
        }
    }

    fn lapse(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        let lapsing = health::lapsing(&self.node);
        if !turn.fresh().unwrap_or(true) || lapsing.is_empty() {
            turn.deviates(format!("Node {} is not silent any more", self.node.metadata.name));
            return self.end(turn, None);
        }
        let meta = &self.node.metadata;
        let body = turn.body(|| {
            let now = seconds::text(turn.now);
            let condition = |lapsed: &Lapsed| lapsed_condition(lapsed, meta.created.map(seconds::text), &now);
            json!({"status": {"conditions": lapsing.iter().map(condition).collect::<Vec<Value>>()}})
        });
        let request = Request::patch(NODES, meta, Patch::Strategic, body).role(Role::Child);
        let request = request.doing("set to Unknown the conditions of").because("nothing was heard of it for too long");
        Step::Send(Request { subresource: "status", ..request }, Self::lapsed)
    }

    fn lapsed(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        let name = &self.node.metadata.name;
        match turn.read::<LiveNode>() {
            Ok(live) => {
                if self.node.ready() == NodeReady::True {
                    turn.note(Note::NotReady(Arc::clone(name), self.node.metadata.uid.clone()));
                }
                if let Some(live) = live {
                    turn.note(Note::Seen(live.node));
                }
                self.is_lapsed = true;
                self.end(turn, None)
            }
            Err(refusal) if refusal.class == Class::Gone => self.end(turn, None),
            Err(refusal) if refusal.class == Class::Changed && self.attempt < ATTEMPTS => {
                Step::Pause(PAUSE, |state, _| {
                    let request = Request::get(NODES, &"".into(), &state.node.metadata.name);
                    Step::Send(request.because("it has changed"), Self::changed)
                })
            }
            Err(refusal) => {
                if refusal.error.is_denied() {
                    turn.note(Note::Denied(Arc::clone(name)));
                } else if refusal.class != Class::Changed {
                    // A server that takes no writes from here takes none from nodes either.
                    turn.note(Note::Spared(Arc::clone(name), refusal.class == Class::Unknown));
                }
                self.end(turn, Some(refusal.error))
            }
        }
    }

    fn changed(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        match turn.read::<LiveNode>() {
            Err(refusal) if !refusal.error.is_not_found() => self.end(turn, Some(refusal.error)),
            Ok(Some(live)) => {
                turn.note(Note::Seen(Arc::clone(&live.node)));
                if live.meta().uid != self.node.metadata.uid {
                    return self.end(turn, None);
                }
                self.node = live.node;
                self.check()
            }
            Ok(None) | Err(_) => self.end(turn, None),
        }
    }
}

/// The condition that a silent node gets. `created`: the time at which the node was created.
fn lapsed_condition(Lapsed { kind, is_missing }: &Lapsed, created: Option<String>, now: &str) -> Value {
    let (reason, message) = if *is_missing { NEVER } else { STOPPED };
    let mut condition = json!({"type": kind, "status": UNKNOWN, "reason": reason, "message": message,
        "lastTransitionTime": now});
    if let Some(created) = created.filter(|_| *is_missing) {
        condition["lastHeartbeatTime"] = json!(created);
    }
    condition
}

/// The tainting of one node, if it still has to be tainted. Otherwise it waits no longer.
struct Tainted<'a> {
    chosen: &'a Chosen,
    lease: Option<Steps<CheckLease, Note>>,
    edit: Steps<EditNode, Note>,
}

impl<'a> Tainted<'a> {
    fn of(chosen: &'a Chosen) -> Steps<Self, Note> {
        let Chosen { node, zone, cause } = chosen;
        let lease = health::is_lapsed(node).then(|| CheckLease::of(node));
        let edit = EditNode::of(node, Change::Taint, format!("{}:NoExecute, its turn in zone {zone:?}", cause.key()));
        Steps::new(Self { chosen, lease, edit }, Self::begin)
    }

    fn begin(&mut self, _: &mut Turn<Note>) -> Step<Self, Note> {
        if self.lease.is_none() {
            return Self::taint();
        }
        Step::All(
            |state| members(state.lease.as_mut_slice()),
            Pace::AtOnce,
            |state, turn| match state.lease.as_mut().and_then(|lease| lease.state.outcome.take()) {
                Some(Ok(false)) => Self::taint(),
                Some(other) => state.end(turn, other.map(|_| false)),
                None => Step::Done,
            },
        )
    }

    fn taint() -> Step<Self, Note> {
        Step::All(
            |state| vec![&mut state.edit],
            Pace::AtOnce,
            |state, turn| match state.edit.state.outcome.take() {
                Some(outcome) => state.end(turn, outcome),
                None => Step::Done,
            },
        )
    }

    fn end(&mut self, turn: &mut Turn<Note>, outcome: Result<bool, api::Error>) -> Step<Self, Note> {
        let Chosen { node, zone, cause } = self.chosen;
        let name = Arc::clone(&node.metadata.name);
        turn.note(match outcome {
            Ok(true) => Note::Tainted(name, zone.clone(), *cause),
            Ok(false) => Note::Released(name),
            Err(error) => Note::NotTainted(name, error),
        });
        Step::Done
    }
}
