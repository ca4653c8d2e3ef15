//! The deletion of a Pod that has to leave its node.
//!
//! The node and the Pod are read from the server and the decision is made again. A node that was read a moment ago for another of
//! its Pods is not read again. The condition and the deletion name the version of the Pod that was judged: a toleration that is
//! added in between prevents the deletion.

use std::{sync::Arc, time::Duration};

use common::{
    api::Patch,
    clock::Instant,
    conditions::{self, Condition, TRUE, seconds},
    controller::Requeue,
    events::EventType,
    intern::Text,
    object::Object as _,
    pods::PODS,
    sequence::{Failed, Refusal, Request, Role, Sequence, Step, Steps, Turn},
    taints::Taint,
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value, json, value::RawValue};

use crate::{
    decide::{
        eviction::{Plan, Snapshot, Then, Timer, decide},
        taints,
    },
    fleet::Renewal,
    objects::{CachedPod, DISRUPTION_TARGET, LEASE_NAMESPACE, LEASES, Lease, NODES, Node},
};

/// How often a deletion is attempted in one sync.
const ATTEMPTS: usize = 5;
/// The pause after a failed attempt, and while another sync reads the node.
const PAUSE: Duration = Duration::from_millis(10);

/// What the server said lately of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View {
    /// Nothing.
    Unknown,
    /// Another sync reads the node.
    Awaited,
    /// Its `NoExecute` taints; `None` if it does not exist.
    Known(Option<Arc<[Taint]>>),
}

/// A change of the controller's memory.
#[derive(Debug)]
pub enum Note {
    /// A request failed for this reason; the deletion is attempted again.
    Retries(String),
    /// The decision on the live objects is another one than the decision on the cache.
    Revised(Box<Snapshot>, Box<Plan>),
    /// The Pod, whose deletion was due at that time, is deleted.
    Deleted(Instant),
    /// The Pod does not exist any more.
    Gone,
    /// A node is about to be read.
    Reads(Text),
    /// The server has this state of a node.
    Node(Arc<Node>),
    /// The server has this renewal of the Lease of a node; `None` if it has no Lease.
    Lease(Text, Option<Renewal>),
    /// All reads of a node are done; nothing is known of it if one failed.
    Read(Text, View),
}

/// What memory says at a time after the snapshot.
pub struct Fresh {
    /// The timer under the name of the Pod.
    pub timer: Option<Timer>,
    /// That time.
    pub now: Instant,
    /// The node of the Pod.
    pub view: View,
    /// For how long at least that node may be well by what this process hears of it.
    pub doubt: Option<Duration>,
}

impl common::sequence::Note for Note {
    type Question = ();
    type Fresh = Fresh;
}

/// The live state of a Pod, with the conditions that the cache does not keep.
struct Live {
    pod: CachedPod,
    conditions: Vec<Condition>,
}

impl<'de> Deserialize<'de> for Live {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            status: Option<Status>,
        }
        #[derive(Default, Deserialize)]
        struct Status {
            conditions: Option<Vec<Condition>>,
        }
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let Wire { status } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let conditions = status.unwrap_or_default().conditions.unwrap_or_default();
        Ok(Self { pod: serde_json::from_str(text.get()).map_err(D::Error::custom)?, conditions })
    }
}

struct State<'a> {
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    attempt: usize,
    is_reported: bool,
    /// The snapshot with the live objects; in a forecast, that of the cache.
    live: Snapshot,
    /// The live conditions of the Pod; `None` in a forecast.
    conditions: Option<Vec<Condition>>,
}

/// The requests that carry out `plan`.
pub(crate) fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
    let live = snapshot.clone();
    Steps::new(State { snapshot, plan, attempt: 0, is_reported: false, live, conditions: None }, State::begin)
}

type Next<'a> = Step<State<'a>, Note>;

impl<'a> State<'a> {
    fn begin(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        self.report_cancellation(turn, self.plan);
        if let Then::Delete { .. } = self.plan.then { self.attempt(turn) } else { Step::Done }
    }

    /// Records the Event for a timer that was removed although its Pod was not deleted.
    fn report_cancellation(&self, turn: &mut Turn<Note>, plan: &Plan) {
        if plan.cancels {
            self.tell(turn, "Cancelling deletion of");
        }
    }

    fn tell(&self, turn: &mut Turn<Note>, what: &str) {
        turn.tell(EventType::Normal, "TaintManagerEviction", format!("{what} Pod {}", self.snapshot.key));
    }

    fn attempt(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        self.attempt += 1;
        if self.node().is_empty() { self.read_pod(turn) } else { Step::Observe((), Self::look_at_node) }
    }

    fn node(&self) -> Text {
        self.snapshot.pod.as_ref().map_or_else(Text::default, |pod| pod.node.clone())
    }

    /// Reads the node, unless its state is known or being read.
    fn look_at_node(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match turn.fresh().map_or(View::Unknown, |fresh| fresh.view) {
            View::Unknown => {
                turn.note(Note::Reads(self.node()));
                let request = Request::get(NODES, &"".into(), &(&*self.node()).into());
                Step::Send(request.because("it must still have the taint"), Self::node_read)
            }
            View::Awaited => Step::Pause(PAUSE, |_, _| Step::Observe((), Self::look_at_node)),
            View::Known(taints) => {
                turn.deviates("its node was read a moment ago for another Pod");
                self.weigh(taints)
            }
        }
    }

    fn node_read(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let cached: Option<Arc<[Taint]>> = self.live.taints.as_deref().map(Arc::from);
        let taints: Option<Arc<[Taint]>> = match turn.read::<Node>() {
            // A forecast.
            Ok(None) => cached.clone(),
            Ok(Some(mut node)) => {
                node.trim();
                let taints = node.evicting().cloned().collect();
                turn.note(Note::Node(Arc::new(node)));
                Some(taints)
            }
            Err(refusal) if refusal.error.is_not_found() => None,
            Err(refusal) => return self.node_unread(turn, &refusal),
        };
        let depends_on_lease =
            |taints: &Option<Arc<[Taint]>>| taints.as_deref().is_some_and(|t| !t.is_empty() && taints::are_ours(t));
        if depends_on_lease(&cached) != depends_on_lease(&taints) {
            turn.deviates("the taints of its node have changed");
        }
        self.live.taints = taints.as_deref().map(<[Taint]>::to_vec);
        if !depends_on_lease(&taints) {
            return self.node_known(turn);
        }
        let request = Request::get(LEASES, &LEASE_NAMESPACE.into(), &(&*self.node()).into());
        Step::Send(request.because("the node must not have renewed it"), Self::lease_read)
    }

    fn lease_read(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let lease = match turn.read::<Lease>() {
            Err(refusal) if refusal.error.is_not_found() => None,
            Err(refusal) => return self.node_unread(turn, &refusal),
            Ok(lease) => lease.map(|lease| lease.renewed()),
        };
        turn.note(Note::Lease(self.node(), lease));
        self.node_known(turn)
    }

    fn node_unread(&mut self, turn: &mut Turn<Note>, refusal: &Refusal) -> Next<'a> {
        turn.note(Note::Read(self.node(), View::Unknown));
        self.retry(turn, refusal)
    }

    fn node_known(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let taints: Option<Arc<[Taint]>> = self.live.taints.as_deref().map(Arc::from);
        turn.note(Note::Read(self.node(), View::Known(taints.clone())));
        self.weigh(taints)
    }

    /// Decides on the live node, so that the Pod is only read if it has to leave as far as the cache knows it.
    fn weigh(&mut self, taints: Option<Arc<[Taint]>>) -> Next<'a> {
        self.live.taints = taints.as_deref().map(<[Taint]>::to_vec);
        Step::Observe((), |state, turn| if state.has_to_leave(turn) { state.read_pod(turn) } else { Step::Done })
    }

    fn read_pod(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(pod) = &self.snapshot.pod else { return gone(turn) };
        let request = Request::get(PODS, &pod.meta.namespace, &pod.meta.name);
        Step::Send(request.because("it must still have to leave its node"), Self::pod_read)
    }

    fn pod_read(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match turn.read::<Live>() {
            Err(refusal) if refusal.error.is_not_found() => return gone(turn),
            Err(refusal) => return self.retry(turn, &refusal),
            Ok(Some(Live { pod, .. })) if self.snapshot.pod.as_ref().is_some_and(|p| p.meta.uid != pod.meta.uid) => {
                turn.deviates("another Pod has its name");
                return gone(turn);
            }
            Ok(Some(Live { pod, conditions })) => {
                self.live.pod = Some(Arc::new(pod));
                self.conditions = Some(conditions);
            }
            Ok(None) => {}
        }
        Step::Observe((), Self::judge)
    }

    /// Decides again, on what is known by now. Ends the sync if the Pod may stay.
    fn has_to_leave(&mut self, turn: &mut Turn<Note>) -> bool {
        if let Some(Fresh { timer, now, doubt, .. }) = turn.fresh() {
            (self.live.timer, self.live.now, self.live.doubt) = (timer, now, doubt);
        }
        let plan = decide(&self.live);
        if matches!(plan.then, Then::Delete { .. }) {
            return true;
        }
        turn.deviates(plan.why);
        self.report_cancellation(turn, &plan);
        turn.end(Ok(plan.requeue_after.map_or(Requeue::No, Requeue::After)));
        turn.note(Note::Revised(Box::new(self.live.clone()), Box::new(plan)));
        false
    }

    fn judge(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if !self.has_to_leave(turn) {
            return Step::Done;
        }
        if !std::mem::replace(&mut self.is_reported, true) {
            self.tell(turn, "Marking for deletion");
        }
        let Some(pod) = &self.live.pod else { return gone(turn) };
        let has_condition = self.snapshot.pod.as_ref().is_some_and(|pod| pod.disrupted.is_some());
        let lacks_condition = self.conditions.as_ref().map_or(!has_condition, |known| lacks_reason(known));
        if lacks_condition == has_condition {
            turn.deviates("its condition DisruptionTarget is not as the cache has it");
        }
        if !lacks_condition {
            return self.delete(turn);
        }
        let body = turn.body(|| json!({"status": {"conditions": [self.condition(pod, turn.now)]}}));
        let request = Request::patch(PODS, &pod.meta, Patch::Strategic, body).role(Role::Itself);
        let request = request.doing("write the condition DisruptionTarget").because(self.plan.why);
        Step::Send(Request { subresource: "status", ..request }, Self::wrote_condition)
    }

    /// The condition with the reason of the deletion.
    fn condition(&self, pod: &CachedPod, now: Timestamp) -> Value {
        let known = conditions::get(self.conditions.as_deref().unwrap_or_default(), DISRUPTION_TARGET);
        let since = known.filter(|known| known.is_true()).and_then(|known| known.last_transition_time).unwrap_or(now);
        let mut condition = json!({"type": DISRUPTION_TARGET, "status": TRUE, "reason": REASON, "message": MESSAGE,
            "lastTransitionTime": seconds::text(since)});
        if pod.meta.generation > 0 {
            condition["observedGeneration"] = json!(pod.meta.generation);
        }
        condition
    }

    fn wrote_condition(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match turn.written() {
            Ok(_) => self.delete(turn),
            Err(refusal) => self.retry(turn, &refusal),
        }
    }

    fn delete(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        let Some(pod) = &self.live.pod else { return gone(turn) };
        let request = Request::delete(PODS, &pod.meta).role(Role::Itself);
        Step::Send(request.because(self.plan.why), Self::deleted)
    }

    fn deleted(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match (turn.written(), &self.plan.then) {
            (Err(refusal), _) if refusal.error.is_not_found() => return gone(turn),
            (Err(refusal), _) => return self.retry(turn, &refusal),
            (Ok(_), Then::Delete { since }) => turn.note(Note::Deleted(*since)),
            (Ok(_), Then::Nothing | Then::Wait(_)) => {}
        }
        Step::Done
    }

    fn retry(&mut self, turn: &mut Turn<Note>, refusal: &Refusal) -> Next<'a> {
        if self.attempt == ATTEMPTS {
            turn.end(Err(Failed::request(&format!("delete Pod {}", self.snapshot.key), refusal)));
            return Step::Done;
        }
        turn.note(Note::Retries(refusal.error.to_string()));
        Step::Pause(PAUSE, Self::attempt)
    }
}

fn gone<'a>(turn: &mut Turn<Note>) -> Next<'a> {
    turn.note(Note::Gone);
    Step::Done
}

const REASON: &str = "DeletionByTaintManager";
const MESSAGE: &str = "Taint manager: deleting due to NoExecute taint";

/// Whether no condition gives the reason of the deletion.
fn lacks_reason(known: &[Condition]) -> bool {
    let known = conditions::get(known, DISRUPTION_TARGET).filter(|known| known.is_true());
    !known.is_some_and(|known| known.reason == REASON && *known.message == *MESSAGE)
}
