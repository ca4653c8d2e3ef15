//! The passes over nodes that changed or have reached their deadline: nodes without heartbeats get `Unknown` conditions, and
//! `NoExecute` taints are removed or replaced.

pub(crate) mod decide;

use std::{convert::Infallible, sync::Arc, time::Duration};

use common::{
    conditions::{UNKNOWN, seconds},
    prelude::*,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::decide::{Action, HealthSnapshot, Plan};
use super::{
    NodeMonitor,
    nodes::{
        MAX_NODES_WITH_CONCURRENT_REQUESTS, NodeChange, change_node, has_unseen_lease_renewal, send_and_decode_node,
        send_and_record_node,
    },
    tainting::TaintingPassKey,
};
use crate::{
    disruption::ClusterDisruption,
    objects::{LEASES, NODE_LEASE_NAMESPACE, NODES, Node, NodeReadyStatus},
    silence::{self, KUBELET_NEVER_REPORTED_REASON_AND_MESSAGE, KUBELET_STOPPED_REASON_AND_MESSAGE, StaleCondition},
};

/// Maximum number of attempts of one pass to write the conditions of a node that other writers keep changing.
const MAX_WRITE_ATTEMPTS: usize = 5;
/// Pause before the next attempt after a conflict.
const CONFLICT_PAUSE: Duration = Duration::from_millis(20);
/// Pause before a pass that must follow at once, for example to taint nodes that have just become `Unknown`.
const IMMEDIATE_PASS_PAUSE: Duration = Duration::from_millis(1);

periodic_key!(HealthPassKey, "health");

/// The loop that finds nodes without heartbeats, among the nodes that changed or have reached their deadline.
pub(crate) struct NodeHealthController(pub(super) Arc<NodeMonitor>);

impl AsRef<NodeMonitor> for NodeHealthController {
    fn as_ref(&self) -> &NodeMonitor {
        &self.0
    }
}

impl Controller for NodeHealthController {
    type Key = HealthPassKey;
    type Snapshot = HealthSnapshot;
    type Plan = Plan;

    fn observe(&self, _: &HealthPassKey, _: Timestamp) -> Result<HealthSnapshot, NoSnapshot> {
        let (now, watch_error) = (self.0.now(), self.0.heartbeats.contact_problem());
        let node_records = self.0.node_records.lock();
        Ok(node_records.health_snapshot(now, watch_error, self.0.heartbeats.node_monitor_period))
    }

    fn decide(snapshot: &HealthSnapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Executes the plan of one pass. Returns the pause before the next pass.
    async fn act(snapshot: &HealthSnapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        io.update_memory(|Self(monitor)| monitor.report_nodes(&plan.nodes_to_report));
        if plan.reads_leases {
            // The answer only has to show that this process reaches the server, so one Lease is enough.
            let request = Request::list(LEASES, &NODE_LEASE_NAMESPACE.into(), "limit=1".to_owned());
            return match io.send(request).await {
                Ok(_) => {
                    io.update_memory(|Self(monitor)| {
                        monitor.node_records.lock().server_contact.record_contact(monitor.now());
                    });
                    Ok(Requeue::After(IMMEDIATE_PASS_PAUSE))
                }
                Err(Refusal { error, .. }) => {
                    io.update_memory(|_| {
                        tracing::warn!(logger = "node-controller", err = %error, "Cannot read Leases");
                    });
                    Ok(Requeue::After(plan.next_pass_after))
                }
            };
        }
        if plan.outage_reason.is_some() {
            return Ok(Requeue::After(plan.next_pass_after));
        }
        let writes = plan.nodes_with_action().filter(|(_, action)| !matches!(action, Action::WaitForTaint(_)));
        let concurrency = GroupConcurrency::LimitedConcurrent(MAX_NODES_WITH_CONCURRENT_REQUESTS);
        let results = io.run_group(concurrency, writes, |(node, action)| act_on_node(node, action, io)).await;
        io.update_memory(|Self(monitor)| {
            let duration = monitor.now().saturating_duration_since(snapshot.now);
            monitor.metrics.pass_duration.observe(duration.as_secs_f64());
        });
        // The next pass can taint the nodes that are `Unknown` now.
        let is_next_pass_urgent =
            results.contains(&Ok(true)) || plan.cluster_disruption == ClusterDisruption::TotalBegins;
        Ok(Requeue::After(if is_next_pass_urgent { IMMEDIATE_PASS_PAUSE } else { plan.next_pass_after }))
    }

    fn record_plan(&self, snapshot: &HealthSnapshot, plan: &Plan) {
        let NodeMonitor { metrics, .. } = &*self.0;
        let time_without_contact = self.0.node_records.lock().server_contact.time_without_contact(snapshot.now);
        self.0.heartbeats.record_contact_problem(snapshot.watch_error.is_some());
        let mut node_records = self.0.node_records.lock();
        node_records.apply_health_plan(plan, snapshot.now);
        metrics.update_zones(&node_records.zones.zone_statuses(), &node_records.zones.take_vanished_zones());
        metrics.examined_nodes_total.inc_by(plan.node_decisions.len() as u64);
        if node_records.zones.waiting_node_count() > 0 {
            self.0.tainting_queue.add(TaintingPassKey, Priority::Normal);
        } else {
            metrics.nodes_blocked_by_max_share.set(0.0);
        }
        let share = node_records.expected_tainted_node_share();
        metrics.tainted_node_share.set(share);
        if !self.0.share_limits.is_above_alarm_share(share) {
            *self.0.is_taint_alarm_active.lock() = false;
        }
        drop(node_records);
        let outage_reason = plan.outage_reason.as_deref();
        self.0.outage.record_pass(outage_reason, time_without_contact, snapshot.now, &metrics.outages_total);
    }
}

/// Executes the action on a node. Returns whether the conditions of the node became `Unknown`. After a failure, the next pass
/// examines the node again.
async fn act_on_node(node: &Arc<Node>, action: &Action, io: Io<'_, NodeHealthController>) -> Result<bool, Infallible> {
    let began = io.now();
    let result = match action {
        Action::SetConditionsUnknown(_) => set_conditions_unknown(node, io).await,
        Action::RemoveNoExecute => change_node(node, NodeChange::RemoveNoExecute, "", io).await.map(|_| false),
        Action::ReplaceNoExecute(cause) => {
            let why = format!("the new one is {}", cause.taint_key());
            change_node(node, NodeChange::ReplaceNoExecute, why, io).await.map(|_| false)
        }
        Action::WaitForTaint(_) => Ok(false),
    };
    let duration = Duration::try_from(io.now().duration_since(began)).unwrap_or_default();
    io.update_memory(|NodeHealthController(monitor)| {
        monitor.metrics.node_update_duration.observe(duration.as_secs_f64());
        let (name, error) = (&node.metadata.name, result.as_ref().err().map(|refusal| &*refusal.error));
        if let Some(error) = error {
            tracing::error!(logger = "node-controller", node = &**name, err = %error, "Failed to update node");
        }
        monitor.record_change_result(name, action.describe(), error);
    });
    Ok(result.unwrap_or(false))
}

/// Sets the conditions of a node to `Unknown`, unless the server has a new heartbeat. Returns whether they were set.
async fn set_conditions_unknown(node: &Arc<Node>, io: Io<'_, NodeHealthController>) -> Result<bool, Refusal> {
    let mut node = Arc::clone(node);
    let name = Arc::clone(&node.metadata.name);
    let mut attempt = 1;
    loop {
        let renewed = io.await_unless_shutting_down(has_unseen_lease_renewal(&node, io)).await;
        if renewed.transpose()? != Some(false) {
            return Ok(false);
        }
        let stale_conditions = silence::conditions_to_set_unknown(&node);
        let is_silent = io.observe_again(|NodeHealthController(monitor)| {
            Some(monitor.node_records.lock().has_exceeded_grace_period(&name, monitor.now()))
        });
        if is_silent == Some(false) || stale_conditions.is_empty() {
            io.explain_deviation(format!("Node {name} is no longer silent"));
            return Ok(false);
        }
        match send_and_decode_node(unknown_conditions_request(&node, &stale_conditions, io), io).await {
            Ok(live) => {
                io.update_memory(|NodeHealthController(monitor)| {
                    if node.ready_status() == NodeReadyStatus::True {
                        monitor.record_not_ready(&name, &node.metadata.uid);
                    }
                    if let Some(live) = live {
                        monitor.heartbeats.record_read_node(&live.node);
                    }
                });
                return Ok(true);
            }
            Err(refusal) if refusal.is_not_found() => return Ok(false),
            Err(refusal) if refusal.class == RefusalClass::VersionConflict && attempt < MAX_WRITE_ATTEMPTS => {}
            Err(refusal) => {
                io.update_memory(|NodeHealthController(monitor)| {
                    let mut node_records = monitor.node_records.lock();
                    if refusal.error.is_denied() {
                        node_records.record_denied_condition_write(&name, monitor.now());
                    } else if refusal.class != RefusalClass::VersionConflict {
                        // A server that rejects this write probably rejects heartbeats, too, so the grace period restarts.
                        let is_unanswered = refusal.class == RefusalClass::MaybeWritten;
                        node_records.restart_grace_period(&name, is_unanswered, monitor.now());
                    }
                });
                return Err(refusal);
            }
        }
        attempt += 1;
        io.pause(CONFLICT_PAUSE).await;
        let read = Request::get(NODES, &"".into(), &name).with_reason("it has changed");
        match send_and_record_node(read, io).await {
            Ok(Some(live)) if live.node.metadata.uid == node.metadata.uid => node = live.node,
            Err(refusal) if !refusal.error.is_not_found() => return Err(refusal),
            _ => return Ok(false),
        }
    }
}

fn unknown_conditions_request(
    node: &Node,
    stale_conditions: &[StaleCondition],
    io: Io<'_, NodeHealthController>,
) -> Request {
    let meta = &node.metadata;
    let body = io.encode_body(|| {
        let now = seconds::format_rfc3339(io.now());
        let unknown_condition = |StaleCondition { condition_type, is_missing }: &StaleCondition| {
            let (reason, message) = if *is_missing {
                KUBELET_NEVER_REPORTED_REASON_AND_MESSAGE
            } else {
                KUBELET_STOPPED_REASON_AND_MESSAGE
            };
            let mut condition = json!({"type": condition_type, "status": UNKNOWN, "reason": reason,
                "message": message, "lastTransitionTime": now});
            if let Some(created) = meta.creation_timestamp.filter(|_| *is_missing) {
                condition["lastHeartbeatTime"] = json!(seconds::format_rfc3339(created));
            }
            condition
        };
        json!({"status": {"conditions": stale_conditions.iter().map(unknown_condition).collect::<Vec<Value>>()}})
    });
    Request::patch_status(NODES, meta, body)
        .into_strategic_patch()
        .with_role(ObjectRole::Child)
        .with_verb_text("set to Unknown the conditions of")
        .with_reason("it has sent no heartbeat for its grace period")
}
