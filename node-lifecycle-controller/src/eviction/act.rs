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
    events::EventType,
    intern::Text,
    io::{self, Failed, Refusal, Request, Requeue, Role},
    object::Object as _,
    pods::PODS,
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value, json, value::RawValue};

use super::{
    decide::{self, DISRUPTION},
    nodes::View,
    plan::{Plan, Then},
    snapshot::{Snapshot, Timer},
};
use crate::objects::{CachedPod, DISRUPTION_TARGET, LEASE_NAMESPACE, LEASES, Lease, NODES, Node, Renewal};

/// How often a deletion is attempted in one sync.
const ATTEMPTS: usize = 5;
/// The pause after a failed attempt, and while another sync reads the node.
const PAUSE: Duration = Duration::from_millis(10);

/// A change of the controller's memory.
#[derive(Debug)]
pub(crate) enum Note {
    /// A request failed for this reason; the deletion is attempted again.
    Retries(String),
    /// The decision on the live objects is another one than the decision on the cache.
    Revised(Box<Plan>),
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
pub(crate) struct Fresh {
    /// The timer under the name of the Pod.
    pub(crate) timer: Option<Timer>,
    /// That time.
    pub(crate) now: Instant,
    /// The node of the Pod.
    pub(crate) view: View,
    /// For how long at least that node may be well by what this process hears of it.
    pub(crate) doubt: Option<Duration>,
}

impl io::Note for Note {
    type Question = ();
    type Fresh = Fresh;
}

type Io<'r> = io::Io<'r, Note>;

/// Carries a plan out.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    report_cancellation(snapshot, plan, io);
    let Then::Delete { since } = plan.then else { return Ok(Requeue::AsPlanned) };
    let mut deletion = Deletion { snapshot, why: plan.why, since, live: snapshot.clone(), is_reported: false, io };
    let mut attempt = 1;
    loop {
        match deletion.attempt().await {
            Ok(requeue) => return Ok(requeue),
            Err(refusal) if attempt == ATTEMPTS => {
                return Err(Failed::request(&format!("delete Pod {}", snapshot.key), &refusal));
            }
            Err(refusal) => io.note(Note::Retries(refusal.error.to_string())),
        }
        io.pause(PAUSE).await;
        attempt += 1;
    }
}

/// Records the Event for a timer that was removed although its Pod was not deleted.
fn report_cancellation(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) {
    if plan.cancels {
        report(snapshot, "Cancelling deletion of", io);
    }
}

fn report(snapshot: &Snapshot, what: &str, io: Io<'_>) {
    io.event(EventType::Normal, "TaintManagerEviction", format!("{what} Pod {}", snapshot.key));
}

/// The live state of a Pod, with the conditions that the cache does not keep.
struct LivePod {
    pod: CachedPod,
    conditions: Vec<Condition>,
}

impl<'de> Deserialize<'de> for LivePod {
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

/// The deletion of one Pod.
struct Deletion<'a> {
    snapshot: &'a Snapshot,
    /// Why the Pod is deleted, as far as the cache knows.
    why: &'static str,
    /// When the deletion became due.
    since: Instant,
    /// The snapshot with the live objects; in a forecast, that of the cache.
    live: Snapshot,
    is_reported: bool,
    io: Io<'a>,
}

impl Deletion<'_> {
    /// Deletes the Pod if it has to leave by the live objects, too. A refusal is followed by another attempt.
    async fn attempt(&mut self) -> Result<Requeue, Refusal> {
        let io = self.io;
        let Some(cached) = &self.snapshot.pod else { return Ok(self.gone()) };
        // The node comes first, so that the Pod is only read if it has to leave as far as the cache knows it.
        if !cached.node.is_empty() {
            self.know_node(&cached.node).await?;
            if let Some(requeue) = self.may_stay() {
                return Ok(requeue);
            }
        }
        let request = Request::get(PODS, &cached.meta.namespace, &cached.meta.name);
        let conditions = match io.send_and_read(request.because("it must still have to leave its node")).await {
            Err(refusal) if refusal.error.is_not_found() => return Ok(self.gone()),
            Err(refusal) => return Err(refusal),
            Ok(Some(LivePod { pod, .. })) if pod.meta.uid != cached.meta.uid => {
                io.deviate("another Pod has its name");
                return Ok(self.gone());
            }
            Ok(Some(LivePod { pod, conditions })) => {
                self.live.pod = Some(Arc::new(pod));
                Some(conditions)
            }
            // A forecast expects the Pod to be as it is in the cache.
            Ok(None) => None,
        };
        if let Some(requeue) = self.may_stay() {
            return Ok(requeue);
        }
        if !std::mem::replace(&mut self.is_reported, true) {
            report(self.snapshot, "Marking for deletion", io);
        }
        let Some(pod) = &self.live.pod else { return Ok(self.gone()) };
        let has_condition = cached.disrupted.is_some();
        let lacks_condition = conditions.as_deref().map_or(!has_condition, decide::lacks_reason);
        if lacks_condition == has_condition {
            io.deviate("its condition DisruptionTarget is not as the cache has it");
        }
        if lacks_condition {
            let condition = || condition(pod, conditions.as_deref().unwrap_or_default(), io.now());
            let body = io.body(|| json!({"status": {"conditions": [condition()]}}));
            let request = Request::patch(PODS, &pod.meta, Patch::Strategic, body).role(Role::Itself);
            let request = request.doing("write the condition DisruptionTarget").because(self.why);
            io.send(Request { subresource: "status", ..request }).await?;
        }
        match io.send(Request::delete(PODS, &pod.meta).role(Role::Itself).because(self.why)).await {
            Ok(_) => io.note(Note::Deleted(self.since)),
            Err(refusal) if refusal.error.is_not_found() => return Ok(self.gone()),
            Err(refusal) => return Err(refusal),
        }
        Ok(Requeue::AsPlanned)
    }

    /// Finds out which taints the node has, by a read of it unless another sync has made one a moment ago.
    async fn know_node(&mut self, node: &Text) -> Result<(), Refusal> {
        let io = self.io;
        loop {
            match io.observe_again(()).map_or(View::Unknown, |fresh| fresh.view) {
                View::Unknown => break,
                View::Awaited => io.pause(PAUSE).await,
                View::Known(taints) => {
                    io.deviate("its node was read a moment ago for another Pod");
                    self.live.taints = taints;
                    return Ok(());
                }
            }
        }
        io.note(Note::Reads(node.clone()));
        let read = self.read_node(node).await;
        let view = if read.is_ok() { View::Known(self.live.taints.clone()) } else { View::Unknown };
        io.note(Note::Read(node.clone(), view));
        read
    }

    async fn read_node(&mut self, node: &Text) -> Result<(), Refusal> {
        let (io, name) = (self.io, Arc::from(&**node));
        let expected = self.live.taints.clone();
        let request = Request::get(NODES, &"".into(), &name);
        match io.send_and_read::<Node>(request.because("it must still have the taint")).await {
            // A forecast expects the node to be as it is in the cache.
            Ok(None) => {}
            Ok(Some(mut node)) => {
                node.trim();
                self.live.taints = Some(node.evicting().cloned().collect());
                io.note(Note::Node(Arc::new(node)));
            }
            Err(refusal) if refusal.error.is_not_found() => self.live.taints = None,
            Err(refusal) => return Err(refusal),
        }
        let depends_on_lease = decide::depends_on_lease(self.live.taints.as_deref());
        if decide::depends_on_lease(expected.as_deref()) != depends_on_lease {
            io.deviate("the taints of its node have changed");
        }
        if depends_on_lease {
            let request = Request::get(LEASES, &LEASE_NAMESPACE.into(), &name);
            let renewal = match io.send_and_read::<Lease>(request.because("the node must not have renewed it")).await {
                Err(refusal) if refusal.error.is_not_found() => None,
                Err(refusal) => return Err(refusal),
                Ok(lease) => lease.map(|lease| lease.renewed()),
            };
            io.note(Note::Lease(node.clone(), renewal));
        }
        Ok(())
    }

    /// Decides again, on what is known by now: if the Pod may stay, when its key comes back.
    fn may_stay(&mut self) -> Option<Requeue> {
        if let Some(Fresh { timer, now, doubt, .. }) = self.io.observe_again(()) {
            (self.live.timer, self.live.now, self.live.doubt) = (timer, now, doubt);
        }
        let plan = decide::decide(&self.live);
        if matches!(plan.then, Then::Delete { .. }) {
            return None;
        }
        self.io.deviate(plan.why);
        report_cancellation(self.snapshot, &plan, self.io);
        let requeue = plan.requeue_after.map_or(Requeue::AsPlanned, Requeue::After);
        self.io.note(Note::Revised(Box::new(plan)));
        Some(requeue)
    }

    fn gone(&self) -> Requeue {
        self.io.note(Note::Gone);
        Requeue::AsPlanned
    }
}

/// The condition with the reason of the deletion.
fn condition(pod: &CachedPod, known: &[Condition], now: Timestamp) -> Value {
    let known = conditions::get(known, DISRUPTION_TARGET).filter(|known| known.is_true());
    let since = known.and_then(|known| known.last_transition_time).unwrap_or(now);
    let (reason, message) = DISRUPTION;
    let mut condition = json!({"type": DISRUPTION_TARGET, "status": TRUE, "reason": reason, "message": message,
        "lastTransitionTime": seconds::text(since)});
    if pod.meta.generation > 0 {
        condition["observedGeneration"] = json!(pod.meta.generation);
    }
    condition
}
