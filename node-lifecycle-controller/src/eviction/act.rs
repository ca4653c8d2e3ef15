//! Deletes a Pod that must leave its node.
//!
//! Before the deletion, the node and the Pod are read from the server, and the decision is made again. A node that was read
//! less than a second ago for another Pod is not read again. The precondition of both writes, the condition `DisruptionTarget`
//! and the deletion, is the version of the Pod that was read: a toleration that is added afterwards prevents the deletion.

use std::{sync::Arc, time::Duration};

use common::{
    conditions::{self, Condition},
    pods::PODS,
    prelude::*,
};
use serde::Deserialize;
use serde_json::json;

use super::{
    TaintEvictionController,
    decide::{self, DISRUPTION_REASON_AND_MESSAGE, Plan, PodAction, Snapshot},
    nodes::NodeReadState,
};
use crate::{
    heartbeats::read_lease_renewal,
    objects::{CachedPod, DISRUPTION_TARGET_CONDITION, NODES, Node},
};

/// Maximum number of attempts to delete a Pod in one sync; upstream's `retries`.
const MAX_DELETE_ATTEMPTS: usize = 5;
/// Pause after a failed attempt to delete a Pod, and between two checks whether another sync has read the node.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Records an Event for a timer that was removed although its Pod was not deleted.
pub(super) fn report_cancellation(snapshot: &Snapshot, plan: &Plan, io: Io<'_, TaintEvictionController>) {
    if plan.cancels_timer {
        report_event(snapshot, "Cancelling deletion of", io);
    }
}

fn report_event(snapshot: &Snapshot, what: &str, io: Io<'_, TaintEvictionController>) {
    io.record_event(EventType::Normal, "TaintManagerEviction", format!("{what} Pod {}", snapshot.key));
}

/// The conditions of a Pod on the server, which the cache does not store.
#[derive(Deserialize)]
struct PodConditions {
    status: Option<StatusConditions>,
}

#[derive(Deserialize)]
struct StatusConditions {
    conditions: Option<Vec<Condition>>,
}

/// Deletes the Pod of a snapshot, with up to `MAX_DELETE_ATTEMPTS` attempts. The deletion became due at `due_since`.
pub(super) async fn delete_pod(
    snapshot: &Snapshot,
    reason: &'static str,
    due_since: Instant,
    io: Io<'_, TaintEvictionController>,
) -> Result<Requeue, SyncError> {
    let live_snapshot = snapshot.clone();
    let mut deletion = PodDeletion { snapshot, reason, due_since, live_snapshot, is_reported: false, io };
    let mut attempt = 1;
    loop {
        match deletion.attempt_deletion().await {
            Ok(requeue) => return Ok(requeue),
            Err(refusal) if attempt == MAX_DELETE_ATTEMPTS => {
                return Err(SyncError::from_refusal(&format!("delete Pod {}", snapshot.key), &refusal));
            }
            Err(Refusal { error, .. }) => io.update_memory(|_| {
                let pod = &snapshot.key;
                let logger = "taint-eviction-controller";
                tracing::debug!(logger, %pod, err = %error, "Retrying the deletion of a Pod");
            }),
        }
        io.pause(RETRY_PAUSE).await;
        attempt += 1;
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
    io: Io<'a, TaintEvictionController>,
}

impl PodDeletion<'_> {
    /// Deletes the Pod if the objects on the server confirm the decision. After a refusal, the caller repeats the attempt.
    async fn attempt_deletion(&mut self) -> Result<Requeue, Refusal> {
        let io = self.io;
        let Some(cached) = &self.snapshot.pod else { return Ok(self.forget_timer()) };
        // The node is read before the Pod: if the taints were removed, the Pod need not be read.
        if !cached.node_name.is_empty() {
            self.refresh_node_taints(&cached.node_name).await?;
            if let Some(requeue) = self.requeue_if_may_stay() {
                return Ok(requeue);
            }
        }
        let request = Request::get(PODS, &cached.meta.namespace, &cached.meta.name);
        let request = request.with_reason("it may tolerate the taints of its node by now");
        let answer = match io.send(request).await {
            Err(refusal) if refusal.error.is_not_found() => return Ok(self.forget_timer()),
            answer => answer?,
        };
        // A forecast sends no request, and assumes that the Pod on the server equals the cached Pod.
        let live = answer.decode::<PodConditions>()?;
        let conditions = live.map(|pod| pod.status.and_then(|status| status.conditions).unwrap_or_default());
        if let Some(pod) = answer.decode::<CachedPod>()? {
            if pod.meta.uid != cached.meta.uid {
                io.explain_deviation("another Pod has its name");
                return Ok(self.forget_timer());
            }
            self.live_snapshot.pod = Some(Arc::new(pod));
        }
        if let Some(requeue) = self.requeue_if_may_stay() {
            return Ok(requeue);
        }
        if !std::mem::replace(&mut self.is_reported, true) {
            report_event(self.snapshot, "Marking for deletion", io);
        }
        let Some(pod) = &self.live_snapshot.pod else { return Ok(self.forget_timer()) };
        let has_condition = cached.disruption_time.is_some();
        let lacks_condition = conditions.as_deref().map_or(!has_condition, decide::lacks_disruption_condition);
        if lacks_condition == has_condition {
            io.explain_deviation("its condition DisruptionTarget differs from the cache");
        }
        if lacks_condition {
            let body = io.encode_body(|| {
                // If the Pod already has the condition with the status `True`, its transition time is kept.
                let known = conditions::get(conditions.as_deref().unwrap_or_default(), DISRUPTION_TARGET_CONDITION);
                let since = known.filter(|known| known.is_true()).and_then(|known| known.last_transition_time);
                let condition =
                    pod.disruption_target_condition(DISRUPTION_REASON_AND_MESSAGE, since.unwrap_or(io.now()));
                json!({"status": {"conditions": [condition]}})
            });
            let request = Request::patch_status(PODS, &pod.meta, body).into_strategic_patch();
            let request = request.with_verb_text("write the condition DisruptionTarget");
            io.send(request.with_reason(self.reason)).await?;
        }
        let request = Request::delete(PODS, &pod.meta).with_role(ObjectRole::SyncedObject).with_reason(self.reason);
        match io.send(request).await {
            Ok(_) => io.update_memory(|controller| {
                controller.deletions_total.inc();
                let latency = controller.context.clock.monotonic_now().saturating_duration_since(self.due_since);
                controller.deletion_latency.observe(latency.as_secs_f64());
            }),
            Err(refusal) if refusal.error.is_not_found() => {}
            Err(refusal) => return Err(refusal),
        }
        Ok(self.forget_timer())
    }

    /// Updates the taints of the node in the snapshot: reads the node, or uses a read by another sync that is at most 1 s old.
    async fn refresh_node_taints(&mut self, node: &Text) -> Result<(), Refusal> {
        let io = self.io;
        loop {
            let recent_read = io.observe_again(|controller| {
                let now = controller.context.clock.monotonic_now();
                Some(controller.state.node_reads.lock().recent_read_state(node, now))
            });
            match recent_read.unwrap_or(NodeReadState::NotRead) {
                NodeReadState::NotRead => break,
                NodeReadState::BeingRead => io.pause(RETRY_PAUSE).await,
                NodeReadState::ReadTaints(taints) => {
                    io.explain_deviation("its node was read a moment ago for another Pod");
                    self.live_snapshot.no_execute_taints = taints;
                    return Ok(());
                }
            }
        }
        let key = &self.snapshot.key;
        io.update_memory(|controller| {
            let now = controller.context.clock.monotonic_now();
            controller.state.node_reads.lock().begin_read(node.clone(), key.clone(), now);
        });
        let result = self.read_node(node).await;
        io.update_memory(|controller| {
            let taints = &self.live_snapshot.no_execute_taints;
            let is_read = result.is_ok();
            let state = if is_read { NodeReadState::ReadTaints(taints.clone()) } else { NodeReadState::NotRead };
            controller.state.node_reads.lock().end_read(node, key, state);
        });
        result
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
                io.update_memory(|controller| controller.heartbeats.record_read_node(&Arc::new(node)));
            }
            Err(refusal) if refusal.error.is_not_found() => self.live_snapshot.no_execute_taints = None,
            Err(refusal) => return Err(refusal),
        }
        let depends_on_lease = decide::has_only_monitor_taints(self.live_snapshot.no_execute_taints.as_deref());
        if decide::has_only_monitor_taints(expected.as_deref()) != depends_on_lease {
            io.explain_deviation("the taints of its node have changed");
        }
        if depends_on_lease {
            let renew_time = read_lease_renewal(&name, io).await?;
            io.update_memory(|controller| controller.heartbeats.record_read_lease(node, renew_time));
        }
        Ok(())
    }

    /// Decides again with the objects on the server and the current timer. Returns `None` if the Pod must be deleted.
    fn requeue_if_may_stay(&mut self) -> Option<Requeue> {
        let (key, live_snapshot) = (&self.snapshot.key, &self.live_snapshot);
        let node_name = self.snapshot.pod.as_ref().map_or("", |pod| &pod.node_name);
        let current_snapshot = self.io.observe_again(|controller| {
            Some(Snapshot {
                now: controller.context.clock.monotonic_now(),
                time_until_taint_confirmation: controller.heartbeats.time_until_taint_confirmation(node_name),
                timer: controller.state.timers.get(key),
                ..live_snapshot.clone()
            })
        });
        if let Some(current_snapshot) = current_snapshot {
            self.live_snapshot = current_snapshot;
        }
        let plan = decide::decide(&self.live_snapshot);
        if matches!(plan.pod_action, PodAction::Delete { .. }) {
            return None;
        }
        self.io.explain_deviation(plan.reason);
        report_cancellation(self.snapshot, &plan, self.io);
        self.io.update_memory(|controller| controller.state.timers.apply_plan(key, &plan));
        Some(plan.requeue_after.map_or(Requeue::AfterPlannedDelay, Requeue::After))
    }

    /// Removes the timer of the Pod, which was deleted or no longer exists.
    fn forget_timer(&self) -> Requeue {
        let uid = self.snapshot.pod.as_ref().map(|pod| &pod.meta.uid);
        self.io.update_memory(|controller| controller.state.timers.remove_timer_of_pod(&self.snapshot.key, uid));
        Requeue::AfterPlannedDelay
    }
}
