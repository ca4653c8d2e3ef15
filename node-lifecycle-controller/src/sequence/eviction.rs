//! The deletion of a Pod that has to leave its node.
//!
//! The Pod and its node are read from the server and the decision is made again. The condition and the deletion name the version
//! of the Pod that was judged: a toleration that is added in between prevents the deletion.

use std::{sync::Arc, time::Duration};

use common::{
    api::Patch,
    clock::Instant,
    conditions::{self, Condition, TRUE, seconds},
    controller::Requeue,
    events::EventType,
    pods::PODS,
    sequence::{Failed, Refusal, Request, Role, Sequence, Step, Steps, Turn},
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value, json, value::RawValue};

use crate::{
    decide::{
        eviction::{Plan, Snapshot, Then, Timer, decide},
        taints,
    },
    objects::{CachedPod, DISRUPTION_TARGET, LEASE_NAMESPACE, LEASES, Lease, NODES, Node},
};

/// How often a deletion is attempted in one sync.
const ATTEMPTS: usize = 5;
/// The pause after a failed attempt.
const PAUSE: Duration = Duration::from_millis(10);

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
}

/// What memory says at a time after the snapshot.
pub struct Fresh {
    /// The timer under the name of the Pod.
    pub timer: Option<Timer>,
    /// That time.
    pub now: Instant,
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
        let Some(pod) = &self.snapshot.pod else { return gone(turn) };
        self.attempt += 1;
        let request = Request::get(PODS, &pod.meta.namespace, &pod.meta.name);
        Step::Send(request.because("it must still have to leave its node"), Self::read_pod)
    }

    fn read_pod(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
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
        match self.node() {
            "" => {
                self.live.taints = None;
                self.live.is_contradicted = false;
                Step::Observe((), Self::judge)
            }
            node => Step::Send(Request::get(NODES, &"".into(), &node.into()), Self::read_node),
        }
    }

    fn node(&self) -> &str {
        self.live.pod.as_ref().map_or("", |pod| &pod.node)
    }

    fn read_node(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match turn.read::<Node>() {
            Err(refusal) if refusal.error.is_not_found() => {
                self.live.taints = None;
                self.live.is_contradicted = false;
            }
            Err(refusal) => return self.retry(turn, &refusal),
            Ok(Some(node)) => {
                self.live.taints = Some(node.evicting().cloned().collect());
                self.live.is_contradicted = taints::is_contradicted(&node);
                if self.live.is_contradicted != self.snapshot.is_contradicted {
                    turn.deviates("its node or the taints of its node have changed");
                }
            }
            Ok(None) => {}
        }
        self.live.renewal = None;
        if !self.live.is_contradicted {
            return Step::Observe((), Self::judge);
        }
        let request = Request::get(LEASES, &LEASE_NAMESPACE.into(), &self.node().into());
        Step::Send(request.because("its node reports to be ready"), Self::read_lease)
    }

    fn read_lease(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        match turn.read::<Lease>() {
            Err(refusal) if refusal.error.is_not_found() => {}
            Err(refusal) => return self.retry(turn, &refusal),
            Ok(lease) => self.live.renewal = lease.and_then(|lease| lease.renewed()),
        }
        Step::Observe((), Self::judge)
    }

    /// Decides again, on the live objects.
    fn judge(&mut self, turn: &mut Turn<Note>) -> Next<'a> {
        if let Some(Fresh { timer, now }) = turn.fresh() {
            self.live.timer = timer;
            self.live.now = now;
        }
        let plan = decide(&self.live);
        if !matches!(plan.then, Then::Delete { .. }) {
            turn.deviates(plan.why);
            self.report_cancellation(turn, &plan);
            turn.end(Ok(plan.requeue_after.map_or(Requeue::No, Requeue::After)));
            turn.note(Note::Revised(Box::new(self.live.clone()), Box::new(plan)));
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
