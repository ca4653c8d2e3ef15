//! Deletes a Pod that must leave its node.
//!
//! Before the deletion, the node and the Pod are read from the server, and the decision is made again. A node that was read
//! less than a second ago for another Pod is not read again. The precondition of both writes, the condition `DisruptionTarget`
//! and the deletion, is the version of the Pod that was read: a toleration that is added afterwards prevents the deletion.

use std::{sync::Arc, time::Duration};

use common::{
    api::PatchFormat,
    clock::Instant,
    conditions::{self, Condition, TRUE, seconds},
    events::EventType,
    intern::Text,
    io::{self, ObjectRole, Refusal, Request, Requeue, SyncError},
    object::Object as _,
    pods::PODS,
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value, json, value::RawValue};

use super::{
    decide::{self, DISRUPTION_REASON_AND_MESSAGE},
    nodes::NodeReadState,
    plan::{Plan, PodAction},
    snapshot::{DeletionTimer, Snapshot},
};
use crate::objects::{
    CachedPod, DISRUPTION_TARGET_CONDITION, LEASES, Lease, NODE_LEASE_NAMESPACE, NODES, Node, RenewTime,
};

/// Maximum number of attempts to delete a Pod in one sync; upstream's `retries`.
const MAX_DELETE_ATTEMPTS: usize = 5;
/// Pause after a failed attempt to delete a Pod, and between two checks whether another sync has read the node.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// A message from a sync to its controller, which logs it, counts it, or updates timers and reads of nodes.
#[derive(Debug)]
pub(crate) enum EvictionNote {
    /// A request failed with this error, and the sync repeats the attempt to delete the Pod.
    AttemptFailed(String),
    /// The plan for the objects on the server. It replaces the plan for the cached objects, which was to delete the Pod.
    PlanRevised(Box<Plan>),
    /// The Pod was deleted; its deletion was due at this time.
    PodDeleted(Instant),
    /// The Pod no longer exists.
    PodGone,
    /// This sync starts to read the node with this name.
    NodeReadStarted(Text),
    /// A node as read from the server.
    NodeRead(Arc<Node>),
    /// Name of a node, and the renewal time of its Lease on the server; `None` if the Lease does not exist.
    LeaseRead(Text, Option<RenewTime>),
    /// The reads of the node with this name and of its Lease are complete; the result is `NotRead` if a read failed.
    NodeReadEnded(Text, NodeReadState),
}

/// The timer, the node and the heartbeats as the controller knows them now; the snapshot of a sync may be outdated.
pub(crate) struct CurrentEvictionState {
    /// Timer stored under the namespace and name of the Pod; it may belong to a deleted Pod with that name.
    pub(crate) timer: Option<DeletionTimer>,
    /// Time at which this state was read.
    pub(crate) now: Instant,
    /// Result of a recent read of the Pod's node.
    pub(crate) node_read_state: NodeReadState,
    /// Minimum time until heartbeats can confirm the taints of the node; `None` if the taints are confirmed.
    pub(crate) time_until_taint_confirmation: Option<Duration>,
}

impl io::MemoryNote for EvictionNote {
    type Query = ();
    type NewState = CurrentEvictionState;
}

type Io<'r> = io::Io<'r, EvictionNote>;

/// Deletes the Pod if the plan says so, with up to `MAX_DELETE_ATTEMPTS` attempts, and reports a cancelled timer.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    report_cancellation(snapshot, plan, io);
    let PodAction::Delete { since } = plan.pod_action else { return Ok(Requeue::AfterPlannedDelay) };
    let mut deletion = PodDeletion {
        snapshot,
        reason: plan.reason,
        due_since: since,
        live_snapshot: snapshot.clone(),
        is_reported: false,
        io,
    };
    let mut attempt = 1;
    loop {
        match deletion.attempt_deletion().await {
            Ok(requeue) => return Ok(requeue),
            Err(refusal) if attempt == MAX_DELETE_ATTEMPTS => {
                return Err(SyncError::from_refusal(&format!("delete Pod {}", snapshot.key), &refusal));
            }
            Err(refusal) => io.apply_memory_note(EvictionNote::AttemptFailed(refusal.error.to_string())),
        }
        io.pause(RETRY_PAUSE).await;
        attempt += 1;
    }
}

/// Records an Event for a timer that was removed although its Pod was not deleted.
fn report_cancellation(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) {
    if plan.cancels_timer {
        report_event(snapshot, "Cancelling deletion of", io);
    }
}

fn report_event(snapshot: &Snapshot, what: &str, io: Io<'_>) {
    io.record_event(EventType::Normal, "TaintManagerEviction", format!("{what} Pod {}", snapshot.key));
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
struct PodDeletion<'a> {
    snapshot: &'a Snapshot,
    /// Reason of the deletion according to the cached objects.
    reason: &'static str,
    /// Time at which the deletion became due.
    due_since: Instant,
    /// The snapshot with the objects as read from the server; in a forecast, which reads nothing, with the cached objects.
    live_snapshot: Snapshot,
    is_reported: bool,
    io: Io<'a>,
}

impl PodDeletion<'_> {
    /// Deletes the Pod if the objects on the server confirm the decision. After a refusal, the caller repeats the attempt.
    async fn attempt_deletion(&mut self) -> Result<Requeue, Refusal> {
        let io = self.io;
        let Some(cached) = &self.snapshot.pod else { return Ok(self.note_pod_gone()) };
        // The node is read before the Pod: if the taints were removed, the Pod need not be read.
        if !cached.node_name.is_empty() {
            self.refresh_node_taints(&cached.node_name).await?;
            if let Some(requeue) = self.requeue_if_may_stay() {
                return Ok(requeue);
            }
        }
        let request = Request::get(PODS, &cached.meta.namespace, &cached.meta.name);
        let conditions =
            match io.send_and_decode(request.with_reason("it may tolerate the taints of its node by now")).await {
                Err(refusal) if refusal.error.is_not_found() => return Ok(self.note_pod_gone()),
                Err(refusal) => return Err(refusal),
                Ok(Some(LivePod { pod, .. })) if pod.meta.uid != cached.meta.uid => {
                    io.explain_deviation("another Pod has its name");
                    return Ok(self.note_pod_gone());
                }
                Ok(Some(LivePod { pod, conditions })) => {
                    self.live_snapshot.pod = Some(Arc::new(pod));
                    Some(conditions)
                }
                // A forecast sends no request, and assumes that the Pod on the server equals the cached Pod.
                Ok(None) => None,
            };
        if let Some(requeue) = self.requeue_if_may_stay() {
            return Ok(requeue);
        }
        if !std::mem::replace(&mut self.is_reported, true) {
            report_event(self.snapshot, "Marking for deletion", io);
        }
        let Some(pod) = &self.live_snapshot.pod else { return Ok(self.note_pod_gone()) };
        let has_condition = cached.disruption_time.is_some();
        let lacks_condition = conditions.as_deref().map_or(!has_condition, decide::lacks_disruption_condition);
        if lacks_condition == has_condition {
            io.explain_deviation("its condition DisruptionTarget differs from the cache");
        }
        if lacks_condition {
            let condition = || disruption_condition(pod, conditions.as_deref().unwrap_or_default(), io.now());
            let body = io.encode_body(|| json!({"status": {"conditions": [condition()]}}));
            let request =
                Request::patch(PODS, &pod.meta, PatchFormat::Strategic, body).with_role(ObjectRole::SyncedObject);
            let request = request.with_verb_text("write the condition DisruptionTarget").with_reason(self.reason);
            io.send(Request { subresource: "status", ..request }).await?;
        }
        match io
            .send(Request::delete(PODS, &pod.meta).with_role(ObjectRole::SyncedObject).with_reason(self.reason))
            .await
        {
            Ok(_) => io.apply_memory_note(EvictionNote::PodDeleted(self.due_since)),
            Err(refusal) if refusal.error.is_not_found() => return Ok(self.note_pod_gone()),
            Err(refusal) => return Err(refusal),
        }
        Ok(Requeue::AfterPlannedDelay)
    }

    /// Updates the taints of the node in the snapshot: reads the node, or uses a read by another sync that is at most 1 s old.
    async fn refresh_node_taints(&mut self, node: &Text) -> Result<(), Refusal> {
        let io = self.io;
        loop {
            match io.observe_again(()).map_or(NodeReadState::NotRead, |fresh| fresh.node_read_state) {
                NodeReadState::NotRead => break,
                NodeReadState::BeingRead => io.pause(RETRY_PAUSE).await,
                NodeReadState::ReadTaints(taints) => {
                    io.explain_deviation("its node was read a moment ago for another Pod");
                    self.live_snapshot.no_execute_taints = taints;
                    return Ok(());
                }
            }
        }
        io.apply_memory_note(EvictionNote::NodeReadStarted(node.clone()));
        let read = self.read_node(node).await;
        let view = if read.is_ok() {
            NodeReadState::ReadTaints(self.live_snapshot.no_execute_taints.clone())
        } else {
            NodeReadState::NotRead
        };
        io.apply_memory_note(EvictionNote::NodeReadEnded(node.clone(), view));
        read
    }

    async fn read_node(&mut self, node: &Text) -> Result<(), Refusal> {
        let (io, name) = (self.io, Arc::from(&**node));
        let expected = self.live_snapshot.no_execute_taints.clone();
        let request = Request::get(NODES, &"".into(), &name);
        match io.send_and_decode::<Node>(request.with_reason("it must still have the taint")).await {
            // A forecast sends no request, and assumes that the node on the server equals the cached node.
            Ok(None) => {}
            Ok(Some(mut node)) => {
                node.drop_unneeded_fields();
                self.live_snapshot.no_execute_taints = Some(node.no_execute_taints().cloned().collect());
                io.apply_memory_note(EvictionNote::NodeRead(Arc::new(node)));
            }
            Err(refusal) if refusal.error.is_not_found() => self.live_snapshot.no_execute_taints = None,
            Err(refusal) => return Err(refusal),
        }
        let depends_on_lease = decide::has_only_monitor_taints(self.live_snapshot.no_execute_taints.as_deref());
        if decide::has_only_monitor_taints(expected.as_deref()) != depends_on_lease {
            io.explain_deviation("the taints of its node have changed");
        }
        if depends_on_lease {
            let request = Request::get(LEASES, &NODE_LEASE_NAMESPACE.into(), &name);
            let renewal = match io
                .send_and_decode::<Lease>(request.with_reason("the node may have renewed it meanwhile"))
                .await
            {
                Err(refusal) if refusal.error.is_not_found() => None,
                Err(refusal) => return Err(refusal),
                Ok(lease) => lease.map(|lease| lease.renew_time()),
            };
            io.apply_memory_note(EvictionNote::LeaseRead(node.clone(), renewal));
        }
        Ok(())
    }

    /// Decides again with the objects on the server and the current timer. Returns `None` if the Pod must be deleted.
    fn requeue_if_may_stay(&mut self) -> Option<Requeue> {
        if let Some(CurrentEvictionState { timer, now, time_until_taint_confirmation: doubt, .. }) =
            self.io.observe_again(())
        {
            (self.live_snapshot.timer, self.live_snapshot.now, self.live_snapshot.time_until_taint_confirmation) =
                (timer, now, doubt);
        }
        let plan = decide::decide(&self.live_snapshot);
        if matches!(plan.pod_action, PodAction::Delete { .. }) {
            return None;
        }
        self.io.explain_deviation(plan.reason);
        report_cancellation(self.snapshot, &plan, self.io);
        let requeue = plan.requeue_after.map_or(Requeue::AfterPlannedDelay, Requeue::After);
        self.io.apply_memory_note(EvictionNote::PlanRevised(Box::new(plan)));
        Some(requeue)
    }

    fn note_pod_gone(&self) -> Requeue {
        self.io.apply_memory_note(EvictionNote::PodGone);
        Requeue::AfterPlannedDelay
    }
}

/// Builds the condition `DisruptionTarget`. If the Pod already has it with the status `True`, its transition time is kept.
fn disruption_condition(pod: &CachedPod, known: &[Condition], now: Timestamp) -> Value {
    let known = conditions::get(known, DISRUPTION_TARGET_CONDITION).filter(|known| known.is_true());
    let since = known.and_then(|known| known.last_transition_time).unwrap_or(now);
    let (reason, message) = DISRUPTION_REASON_AND_MESSAGE;
    let mut condition = json!({"type": DISRUPTION_TARGET_CONDITION, "status": TRUE, "reason": reason, "message": message,
        "lastTransitionTime": seconds::format_rfc3339(since)});
    if pod.meta.generation > 0 {
        condition["observedGeneration"] = json!(pod.meta.generation);
    }
    condition
}
