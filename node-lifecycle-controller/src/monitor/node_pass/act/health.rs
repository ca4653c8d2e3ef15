//! The requests of a pass over nodes: `Unknown` conditions, and removals and replacements of `NoExecute` taints.

use std::{convert::Infallible, sync::Arc, time::Duration};

use common::{
    api::{self, PatchFormat},
    conditions::{UNKNOWN, seconds},
    io::{GroupConcurrency, ObjectRole, RefusalClass, Request, Requeue, SyncError},
};
use serde_json::{Value, json};

use crate::{
    disruption::ClusterDisruption,
    monitor::{
        change::NodeChange,
        node_pass::plan::health::{Action, Plan},
        nodes::{LiveNode, MAX_NODES_WITH_CONCURRENT_REQUESTS, change_node, has_unseen_lease_renewal, read_node},
        notes::{Io, MonitorNote, MonitorQuery},
    },
    objects::{LEASES, NODE_LEASE_NAMESPACE, NODES, Node, NodeReadyStatus},
    silence::{self, KUBELET_NEVER_REPORTED_REASON_AND_MESSAGE, KUBELET_STOPPED_REASON_AND_MESSAGE, StaleCondition},
};

/// Maximum number of attempts of one pass to write the conditions of a node that other writers keep changing.
const MAX_WRITE_ATTEMPTS: usize = 5;
/// Pause before the next attempt after a conflict.
const CONFLICT_PAUSE: Duration = Duration::from_millis(20);
/// Pause before a pass that must follow at once, for example to taint nodes that have just become `Unknown`.
const IMMEDIATE_PASS_PAUSE: Duration = Duration::from_millis(1);

/// Executes the plan of one pass. Returns the pause before the next pass.
pub(super) async fn act(plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    let next_pass = |pause| Ok(Requeue::After(pause));
    io.apply_memory_note(MonitorNote::ReportNodes(plan.nodes_to_report.clone()));
    if plan.reads_leases {
        // The answer only has to show that this process reaches the server, so one Lease is enough.
        return match io.send(Request::list(LEASES, &NODE_LEASE_NAMESPACE.into(), "limit=1".to_owned())).await {
            Ok(_) => {
                io.apply_memory_note(MonitorNote::LeaseReadSucceeded);
                next_pass(IMMEDIATE_PASS_PAUSE)
            }
            Err(refusal) => {
                io.apply_memory_note(MonitorNote::LeaseReadFailed(refusal.error));
                next_pass(plan.next_pass_after)
            }
        };
    }
    if plan.outage_reason.is_some() {
        return next_pass(plan.next_pass_after);
    }
    let writes = plan.nodes_with_action().filter(|(_, action)| !matches!(action, Action::WaitForTaint(_)));
    let treated = io
        .run_group(GroupConcurrency::LimitedConcurrent(MAX_NODES_WITH_CONCURRENT_REQUESTS), writes, |(node, action)| {
            act_on_node(node, action, io)
        })
        .await;
    io.apply_memory_note(MonitorNote::PassFinished);
    let has_lapsed = treated.contains(&Ok(ActionResult::ConditionsSetUnknown));
    next_pass(if has_lapsed || plan.cluster_disruption == ClusterDisruption::TotalBegins {
        IMMEDIATE_PASS_PAUSE
    } else {
        plan.next_pass_after
    })
}

/// Whether the action on a node requires that the next pass follows at once.
#[derive(PartialEq, Eq)]
enum ActionResult {
    /// The conditions of the node became `Unknown`, so the next pass can taint the node.
    ConditionsSetUnknown,
    /// Any other result. If the action on the node failed, the next pass examines the node again.
    OtherResult,
}

async fn act_on_node(node: &Arc<Node>, action: &Action, io: Io<'_>) -> Result<ActionResult, Infallible> {
    let began = io.now();
    let outcome = match action {
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
    io.apply_memory_note(MonitorNote::ActionDuration(
        Duration::try_from(io.now().duration_since(began)).unwrap_or_default(),
    ));
    let (treated, error) = match outcome {
        Ok(treated) => (treated, None),
        Err(error) => (ActionResult::OtherResult, Some(error)),
    };
    io.apply_memory_note(MonitorNote::NodeChangeAttempted(Arc::clone(&node.metadata.name), action.describe(), error));
    Ok(treated)
}

/// Sets the conditions of a node without heartbeats to `Unknown`, unless the server has a new heartbeat.
async fn set_conditions_unknown(node: &Arc<Node>, io: Io<'_>) -> Result<ActionResult, api::Error> {
    let mut node = Arc::clone(node);
    let name = Arc::clone(&node.metadata.name);
    let mut attempt = 1;
    loop {
        let renewed = io.await_unless_shutting_down(has_unseen_lease_renewal(&node, io)).await;
        if renewed.transpose()? != Some(false) {
            return Ok(ActionResult::OtherResult);
        }
        let lapsing = silence::conditions_to_set_unknown(&node);
        let is_silent = io.observe_again(MonitorQuery::HasExceededGracePeriod(Arc::clone(&name))).unwrap_or(true);
        if !is_silent || lapsing.is_empty() {
            io.explain_deviation(format!("Node {name} is no longer silent"));
            return Ok(ActionResult::OtherResult);
        }
        let refusal = match io.send_and_decode::<LiveNode>(unknown_conditions_request(&node, &lapsing, io)).await {
            Ok(live) => {
                if node.ready_status() == NodeReadyStatus::True {
                    io.apply_memory_note(MonitorNote::BecameNotReady(name, node.metadata.uid.clone()));
                }
                if let Some(live) = live {
                    io.apply_memory_note(MonitorNote::NodeStateReceived(live.node));
                }
                return Ok(ActionResult::ConditionsSetUnknown);
            }
            Err(refusal) => refusal,
        };
        match refusal.class {
            RefusalClass::NotFound => return Ok(ActionResult::OtherResult),
            RefusalClass::VersionConflict if attempt < MAX_WRITE_ATTEMPTS => {}
            class => {
                if refusal.error.is_denied() {
                    io.apply_memory_note(MonitorNote::ConditionWriteDenied(name));
                } else if class != RefusalClass::VersionConflict {
                    // A server that rejects this write probably rejects heartbeats, too, so the grace period restarts.
                    io.apply_memory_note(MonitorNote::ConditionWriteFailed(name, class == RefusalClass::MaybeWritten));
                }
                return Err(refusal.error);
            }
        }
        attempt += 1;
        io.pause(CONFLICT_PAUSE).await;
        let live = match read_node(&name, "it has changed", io).await {
            Err(error) if error.is_not_found() => None,
            live => live?,
        };
        match live {
            Some(live) if live.node.metadata.uid == node.metadata.uid => node = live.node,
            _ => return Ok(ActionResult::OtherResult),
        }
    }
}

fn unknown_conditions_request(node: &Node, lapsing: &[StaleCondition], io: Io<'_>) -> Request {
    let meta = &node.metadata;
    let body = io.encode_body(|| {
        let now = seconds::format_rfc3339(io.now());
        let condition = |lapsed: &StaleCondition| {
            unknown_condition(lapsed, meta.creation_timestamp.map(seconds::format_rfc3339), &now)
        };
        json!({"status": {"conditions": lapsing.iter().map(condition).collect::<Vec<Value>>()}})
    });
    let request = Request::patch(NODES, meta, PatchFormat::Strategic, body).with_role(ObjectRole::Child);
    let request = request
        .with_verb_text("set to Unknown the conditions of")
        .with_reason("it has sent no heartbeat for its grace period");
    Request { subresource: "status", ..request }
}

/// Returns the JSON of an `Unknown` condition. `created` is the creation time of the node.
fn unknown_condition(
    StaleCondition { condition_type: kind, is_missing }: &StaleCondition,
    created: Option<String>,
    now: &str,
) -> Value {
    let (reason, message) =
        if *is_missing { KUBELET_NEVER_REPORTED_REASON_AND_MESSAGE } else { KUBELET_STOPPED_REASON_AND_MESSAGE };
    let mut condition = json!({"type": kind, "status": UNKNOWN, "reason": reason, "message": message,
        "lastTransitionTime": now});
    if let Some(created) = created.filter(|_| *is_missing) {
        condition["lastHeartbeatTime"] = json!(created);
    }
    condition
}
