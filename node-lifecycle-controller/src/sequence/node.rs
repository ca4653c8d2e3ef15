//! Changes of taints and labels of a node, decided on what the server says of the node and written onto that version; and the
//! read of its Lease.

use std::{borrow::Cow, sync::Arc, time::Duration};

use common::{
    api::{self, Patch},
    conditions::seconds,
    intern::Text,
    sequence::{Class, Failed, Pace, Request, Role, Sequence, Step, Steps, Turn, members},
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::monitor::{LiveNode, Note, Question};
use crate::{
    decide::{
        taints::{self, Cause, TaintChange},
        upkeep::{self, Plan, Snapshot},
    },
    objects::{LEASE_NAMESPACE, LEASES, Lease, NODES, Node},
};

/// How often a change is attempted in one sync when the node changes meanwhile. Upstream: `UpdateTaintBackoff`.
const ATTEMPTS: usize = 5;
/// The pause after a conflict, lengthened by up to itself.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a change of a node is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Pods may stay there again.
    Relieve,
    /// Its taint does not fit its condition any more.
    Swap,
    /// Its turn to be tainted has come.
    Taint,
    /// Its taints and labels follow from its conditions and labels.
    Upkeep,
}

impl Change {
    /// The change that this state of the node needs.
    ///
    /// `is_due`: whether a taint may be added now.
    fn edit(self, node: &Node, is_due: bool) -> Edit {
        let to = |cause: Option<Cause>| cause.map_or_else(TaintChange::default, |cause| taints::to_cause(node, cause));
        let taints = match self {
            Self::Relieve => taints::to_reachable(node),
            Self::Swap => to(Cause::of(node).filter(|cause| taints::has_cause(node, cause.other()))),
            Self::Taint => to(Cause::of(node).filter(|_| is_due)),
            Self::Upkeep => taints::by_condition(node),
        };
        let labels = if self == Self::Upkeep { upkeep::labels(node) } else { Vec::new() };
        Edit { taints, labels }
    }

    fn doing(self) -> &'static str {
        match self {
            Self::Relieve => "remove the NoExecute taints of",
            Self::Swap => "replace the NoExecute taint of",
            Self::Taint => "add the NoExecute taint to",
            Self::Upkeep => "update taints and labels of",
        }
    }
}

/// A change of a node.
struct Edit {
    taints: TaintChange,
    labels: Vec<(&'static str, Text)>,
}

impl Edit {
    fn is_empty(&self) -> bool {
        self.taints.is_empty() && self.labels.is_empty()
    }

    /// The patch that makes the change.
    fn patch(&self, taints: &[Value], since: &str) -> Value {
        let mut patch = json!({});
        if !self.labels.is_empty() {
            let labels = self.labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
            patch["metadata"]["labels"] = Value::Object(labels.collect::<Map<_, _>>());
        }
        if !self.taints.is_empty() {
            let taints = taints::applied(taints, &[&self.taints], since);
            patch["spec"]["taints"] = if taints.is_empty() { Value::Null } else { Value::Array(taints) };
        }
        patch
    }
}

/// Makes the change that is found necessary on the live node.
pub(super) struct EditNode {
    known: Arc<Node>,
    change: Change,
    why: Cow<'static, str>,
    attempt: usize,
    /// The live node; `None` in a forecast.
    live: Option<LiveNode>,
    /// Whether the node was changed; `None` if nothing was begun.
    pub(super) outcome: Option<Result<bool, api::Error>>,
}

impl EditNode {
    pub(super) fn of(known: &Arc<Node>, change: Change, why: impl Into<Cow<'static, str>>) -> Steps<Self, Note> {
        let (known, why) = (Arc::clone(known), why.into());
        Steps::new(Self { known, change, why, attempt: 1, live: None, outcome: None }, Self::read)
    }

    fn end(&mut self, outcome: Result<bool, api::Error>) -> Step<Self, Note> {
        self.outcome = Some(outcome);
        Step::Done
    }

    fn node(&self) -> &Arc<Node> {
        self.live.as_ref().map_or(&self.known, |live| &live.node)
    }

    fn read(&mut self, _: &mut Turn<Note>) -> Step<Self, Note> {
        let request = Request::get(NODES, &"".into(), &self.known.metadata.name);
        Step::Send(request.because("changes are made to its current state"), Self::judge)
    }

    fn judge(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        match turn.read::<LiveNode>() {
            Err(refusal) if refusal.error.is_not_found() => return self.end(Ok(false)),
            Err(refusal) => return self.end(Err(refusal.error)),
            Ok(Some(live)) => {
                turn.note(Note::Seen(Arc::clone(&live.node)));
                if live.meta().uid != self.known.metadata.uid {
                    turn.deviates("another Node has its name");
                    return self.end(Ok(false));
                }
                self.live = Some(live);
            }
            Ok(None) => {}
        }
        // Something may have been heard of it, or nothing at all, or other nodes may have failed, while requests were on their
        // way.
        if self.change == Change::Taint {
            let name = Arc::clone(&self.known.metadata.name);
            return Step::Observe(Question::MayBeTainted(name), Self::change);
        }
        self.change(turn)
    }

    fn change(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        let is_due = turn.fresh().unwrap_or(true);
        let node = self.node();
        let edit = self.change.edit(node, is_due);
        if edit.is_empty() {
            turn.deviates(format!("Node {} needs no change any more", node.metadata.name));
            return self.end(Ok(false));
        }
        let taints = self.live.as_ref().map_or(&[][..], |live| &live.taints);
        let body = turn.body(|| edit.patch(taints, &seconds::text(turn.now)));
        let request = Request::patch(NODES, &node.metadata, Patch::Strategic, body).role(Role::Itself);
        Step::Send(request.doing(self.change.doing()).because(self.why.clone()), Self::changed)
    }

    fn changed(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        match turn.read::<LiveNode>() {
            Ok(live) => {
                if let Some(live) = live {
                    turn.note(Note::Seen(live.node));
                }
                self.end(Ok(true))
            }
            Err(refusal) if refusal.class == Class::Gone => self.end(Ok(false)),
            Err(refusal) if refusal.class == Class::Changed && self.attempt < ATTEMPTS => {
                self.attempt += 1;
                Step::PauseWithJitter(PAUSE, 1.0, Self::read)
            }
            Err(refusal) => self.end(Err(refusal.error)),
        }
    }
}

/// Finds out whether the server knows of a renewal of a node's Lease that was not seen here.
pub(super) struct CheckLease {
    node: Arc<Node>,
    renewal: Option<Timestamp>,
    /// Whether there is such a renewal; `None` if nothing was begun.
    pub(super) outcome: Option<Result<bool, api::Error>>,
}

impl CheckLease {
    pub(super) fn of(node: &Arc<Node>) -> Steps<Self, Note> {
        Steps::new(Self { node: Arc::clone(node), renewal: None, outcome: None }, Self::read)
    }

    fn read(&mut self, _: &mut Turn<Note>) -> Step<Self, Note> {
        let request = Request::get(LEASES, &LEASE_NAMESPACE.into(), &self.node.metadata.name);
        Step::Send(request.because("the node must not have renewed it"), Self::compare)
    }

    fn compare(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        match turn.read::<Lease>() {
            Err(refusal) if !refusal.error.is_not_found() => {
                self.outcome = Some(Err(refusal.error));
                Step::Done
            }
            Ok(Some(lease)) => {
                turn.note(Note::Answered);
                self.renewal = lease.renewed();
                Step::Observe(Question::IsNews(Arc::clone(&self.node.metadata.name), self.renewal), Self::end)
            }
            Ok(None) | Err(_) => {
                turn.note(Note::Answered);
                self.end(turn)
            }
        }
    }

    fn end(&mut self, turn: &mut Turn<Note>) -> Step<Self, Note> {
        let is_news = turn.fresh().unwrap_or(false);
        if is_news {
            let name = &self.node.metadata.name;
            turn.note(Note::Renewed(Arc::clone(name), self.renewal));
            turn.deviates(format!("Node {name} has renewed its Lease"));
        }
        self.outcome = Some(Ok(is_news));
        Step::Done
    }
}

/// The requests that carry out the plan for one node.
pub(crate) fn upkeep<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
    let edit = plan.is_needed().then(|| EditNode::of(&snapshot.node, Change::Upkeep, plan.changes().join("; ")));
    Steps::new((snapshot, edit), |_, _| {
        Step::All(
            |(_, edit)| members(edit.as_mut_slice()),
            Pace::AtOnce,
            |(snapshot, edit), turn| {
                if let Some(Err(error)) = edit.as_mut().and_then(|edit| edit.state.outcome.take()) {
                    let what = format!("update taints and labels of Node {}", snapshot.node.metadata.name);
                    turn.end(Err(Failed::request(&what, &error.into())));
                }
                Step::Done
            },
        )
    })
}
