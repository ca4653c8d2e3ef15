//! Deletes a Pod that must leave its node.
//!
//! Before the deletion, the node and the Pod are read from the server, and the decision is made again. A node that was read
//! less than a second ago for another Pod is not read again. The write of the condition `DisruptionTarget` and the deletion
//! name the version of the judged Pod as precondition, so a toleration that is added meanwhile prevents the deletion.

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

/// Maximum number of attempts to delete a Pod in one sync; upstream's `retries`.
const ATTEMPTS: usize = 5;
/// Pause after a failed attempt to delete a Pod, and between two checks whether another sync has read the node.
const PAUSE: Duration = Duration::from_millis(10);

/// A change of the controller's memory that a sync requests.
#[derive(Debug)]
pub(crate) enum Note {
    /// A request failed with this error; the sync attempts the deletion again.
    Retries(String),
    /// The plan for the live objects. It replaces the plan for the cached objects, which was to delete the Pod.
    Revised(Box<Plan>),
    /// The Pod was deleted; its deletion was due at this time.
    Deleted(Instant),
    /// The Pod no longer exists.
    Gone,
    /// This sync starts to read the node with this name.
    Reads(Text),
    /// State of a node that was read from the server.
    Node(Arc<Node>),
    /// Name of a node, and the renewal time of its Lease on the server; `None` if the Lease does not exist.
    Lease(Text, Option<Renewal>),
    /// The reads of the node with this name and of its Lease are complete; the view is `Unknown` if a read failed.
    Read(Text, View),
}

/// Current state of the controller's memory, which a sync reads after its snapshot was taken.
pub(crate) struct Fresh {
    /// Timer that is stored under the name of the Pod; it may belong to an earlier Pod.
    pub(crate) timer: Option<Timer>,
    /// Time at which this state was read.
    pub(crate) now: Instant,
    /// Result of a recent read of the Pod's node.
    pub(crate) view: View,
    /// Minimum time until heartbeats can confirm the taints of the node; `None` if the taints are confirmed.
    pub(crate) doubt: Option<Duration>,
}

impl io::Note for Note {
    type Question = ();
    type Fresh = Fresh;
}

type Io<'r> = io::Io<'r, Note>;

/// Executes the plan for one Pod.
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

/// Records an Event for a timer that was removed although its Pod was not deleted.
fn report_cancellation(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) {
    if plan.cancels {
        report(snapshot, "Cancelling deletion of", io);
    }
}

fn report(snapshot: &Snapshot, what: &str, io: Io<'_>) {
    io.event(EventType::Normal, "TaintManagerEviction", format!("{what} Pod {}", snapshot.key));
}

/// A Pod as read from the server, with the conditions that the cache does not store.
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

/// Progress of the deletion of one Pod during a sync.
struct Deletion<'a> {
    snapshot: &'a Snapshot,
    /// Reason of the deletion according to the cached objects.
    why: &'static str,
    /// Time at which the deletion became due.
    since: Instant,
    /// The snapshot with the objects as read from the server; in a forecast, which reads nothing, with the cached objects.
    live: Snapshot,
    is_reported: bool,
    io: Io<'a>,
}

impl Deletion<'_> {
    /// Deletes the Pod if the live objects confirm the decision. After a refusal by the server, the caller repeats the attempt.
    async fn attempt(&mut self) -> Result<Requeue, Refusal> {
        let io = self.io;
        let Some(cached) = &self.snapshot.pod else { return Ok(self.gone()) };
        // The node is read before the Pod: if the taints were removed, the Pod need not be read.
        if !cached.node.is_empty() {
            self.know_node(&cached.node).await?;
            if let Some(requeue) = self.may_stay() {
                return Ok(requeue);
            }
        }
        let request = Request::get(PODS, &cached.meta.namespace, &cached.meta.name);
        let conditions = match io.send_and_read(request.because("it may tolerate the taints of its node by now")).await
        {
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
            // A forecast sends no request, and assumes that the Pod on the server equals the cached Pod.
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
            io.deviate("its condition DisruptionTarget differs from the cache");
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

    /// Updates the taints of the node: reads the node from the server, or uses a read by another sync that is at most 1 s old.
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
            // A forecast sends no request, and assumes that the node on the server equals the cached node.
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
            let renewal =
                match io.send_and_read::<Lease>(request.because("the node may have renewed it meanwhile")).await {
                    Err(refusal) if refusal.error.is_not_found() => None,
                    Err(refusal) => return Err(refusal),
                    Ok(lease) => lease.map(|lease| lease.renewed()),
                };
            io.note(Note::Lease(node.clone(), renewal));
        }
        Ok(())
    }

    /// Decides again with the live objects and the current timer. Returns the requeue of a Pod that may stay; otherwise `None`.
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

/// Builds the condition `DisruptionTarget`. Keeps the transition time of a known condition that is `True`.
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
