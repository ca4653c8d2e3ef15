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
    change::NodeChange,
    memory::NodeMonitor,
    nodes::{LiveNode, MAX_NODES_WITH_CONCURRENT_REQUESTS, change_node, has_unseen_lease_renewal, read_node},
    outage::OutageChange,
    tainting::{TaintingPassKey, decide::TaintedNodeShare},
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
                    io.update_memory(|Self(monitor)| monitor.record_server_contact());
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
        let is_next_pass_urgent = results.contains(&Ok(ActionResult::ConditionsSetUnknown))
            || plan.cluster_disruption == ClusterDisruption::TotalBegins;
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
        let share = TaintedNodeShare {
            tainted_node_count: node_records.tainted_node_count() + node_records.zones.taintable_waiting_node_count(),
            total_node_count: node_records.len(),
        };
        metrics.tainted_node_share.set(share.fraction());
        if !share.is_above_alarm_share(self.0.share_limits.alarm_share) {
            *self.0.is_taint_alarm_active.lock() = false;
        }
        drop(node_records);
        // Passes that cease to make decisions about nodes are logged and counted, and logged when they resume.
        match self.0.outage.record_pass(plan.outage_reason.is_some(), time_without_contact, snapshot.now) {
            Some(OutageChange::Began) => {
                metrics.outages_total.inc();
                let why = plan.outage_reason.as_deref().unwrap_or_default();
                tracing::warn!(
                    logger = "node-controller",
                    why,
                    "Nodes are not judged, because there is no live view of them"
                );
            }
            Some(OutageChange::Ended) => {
                tracing::info!(logger = "node-controller", "Nodes are judged again, and all grace periods restart");
            }
            None => {}
        }
    }
}

/// Whether the action on a node requires that the next pass follows at once.
#[derive(PartialEq, Eq)]
enum ActionResult {
    /// The conditions of the node became `Unknown`, so the next pass can taint the node.
    ConditionsSetUnknown,
    /// Any other result. If the action on the node failed, the next pass examines the node again.
    OtherResult,
}

async fn act_on_node(
    node: &Arc<Node>,
    action: &Action,
    io: Io<'_, NodeHealthController>,
) -> Result<ActionResult, Infallible> {
    let began = io.now();
    let result = match action {
        Action::SetConditionsUnknown(_) => set_conditions_unknown(node, io).await,
        Action::RemoveNoExecute => {
            change_node(node, NodeChange::RemoveNoExecute, "", io).await.map(|_| ActionResult::OtherResult)
        }
        Action::ReplaceNoExecute(cause) => {
            let why = format!("the new one is {}", cause.taint_key());
            change_node(node, NodeChange::ReplaceNoExecute, why, io).await.map(|_| ActionResult::OtherResult)
        }
        Action::WaitForTaint(_) => Ok(ActionResult::OtherResult),
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
    Ok(result.unwrap_or(ActionResult::OtherResult))
}

/// Sets the conditions of a node without heartbeats to `Unknown`, unless the server has a new heartbeat.
async fn set_conditions_unknown(node: &Arc<Node>, io: Io<'_, NodeHealthController>) -> Result<ActionResult, Refusal> {
    let mut node = Arc::clone(node);
    let name = Arc::clone(&node.metadata.name);
    let mut attempt = 1;
    loop {
        let renewed = io.await_unless_shutting_down(has_unseen_lease_renewal(&node, io)).await;
        if renewed.transpose()? != Some(false) {
            return Ok(ActionResult::OtherResult);
        }
        let stale_conditions = silence::conditions_to_set_unknown(&node);
        let is_silent = io.observe_again(|NodeHealthController(monitor)| {
            Some(monitor.node_records.lock().has_exceeded_grace_period(&name, monitor.now()))
        });
        if is_silent == Some(false) || stale_conditions.is_empty() {
            io.explain_deviation(format!("Node {name} is no longer silent"));
            return Ok(ActionResult::OtherResult);
        }
        let request = unknown_conditions_request(&node, &stale_conditions, io);
        let refusal = match io.send_and_decode::<LiveNode>(request).await {
            Ok(live) => {
                io.update_memory(|NodeHealthController(monitor)| {
                    if node.ready_status() == NodeReadyStatus::True {
                        monitor.record_not_ready(&name, &node.metadata.uid);
                    }
                    if let Some(live) = live {
                        monitor.heartbeats.record_read_node(&live.node);
                    }
                });
                return Ok(ActionResult::ConditionsSetUnknown);
            }
            Err(refusal) => refusal,
        };
        match refusal.class {
            RefusalClass::NotFound => return Ok(ActionResult::OtherResult),
            RefusalClass::VersionConflict if attempt < MAX_WRITE_ATTEMPTS => {}
            class => {
                io.update_memory(|NodeHealthController(monitor)| {
                    let mut node_records = monitor.node_records.lock();
                    if refusal.error.is_denied() {
                        node_records.record_denied_condition_write(&name, monitor.now());
                    } else if class != RefusalClass::VersionConflict {
                        // A server that rejects this write probably rejects heartbeats, too, so the grace period restarts.
                        let is_unanswered = class == RefusalClass::MaybeWritten;
                        node_records.restart_grace_period(&name, is_unanswered, monitor.now());
                    }
                });
                return Err(refusal);
            }
        }
        attempt += 1;
        io.pause(CONFLICT_PAUSE).await;
        let live = match read_node(&name, "it has changed", io).await {
            Err(refusal) if refusal.error.is_not_found() => None,
            live => live?,
        };
        match live {
            Some(live) if live.node.metadata.uid == node.metadata.uid => node = live.node,
            _ => return Ok(ActionResult::OtherResult),
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
        let created = meta.creation_timestamp.map(seconds::format_rfc3339);
        let conditions = stale_conditions.iter().map(|condition| unknown_condition(condition, created.as_ref(), &now));
        json!({"status": {"conditions": conditions.collect::<Vec<Value>>()}})
    });
    Request::patch_status(NODES, meta, body)
        .into_strategic_patch()
        .with_role(ObjectRole::Child)
        .with_verb_text("set to Unknown the conditions of")
        .with_reason("it has sent no heartbeat for its grace period")
}

/// Returns the JSON of an `Unknown` condition. `created` is the creation time of the node.
fn unknown_condition(
    StaleCondition { condition_type, is_missing }: &StaleCondition,
    created: Option<&String>,
    now: &str,
) -> Value {
    let (reason, message) =
        if *is_missing { KUBELET_NEVER_REPORTED_REASON_AND_MESSAGE } else { KUBELET_STOPPED_REASON_AND_MESSAGE };
    let mut condition = json!({"type": condition_type, "status": UNKNOWN, "reason": reason, "message": message,
        "lastTransitionTime": now});
    if let Some(created) = created.filter(|_| *is_missing) {
        condition["lastHeartbeatTime"] = json!(created);
    }
    condition
}
