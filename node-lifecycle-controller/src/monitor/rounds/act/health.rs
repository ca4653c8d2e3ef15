//! The requests of a pass over nodes: conditions of silent nodes, and removals and replacements of `NoExecute` taints.

use std::{convert::Infallible, sync::Arc, time::Duration};

use common::{
    api::{self, Patch},
    conditions::{UNKNOWN, seconds},
    io::{Class, Failed, Pace, Request, Requeue, Role},
};
use serde_json::{Value, json};

use crate::{
    disruption::Disruption,
    monitor::{
        change::Change,
        nodes::{LiveNode, NODE_WORKERS, change_node, has_renewed, read_node},
        notes::{Io, Note, Question},
        rounds::plan::health::{Action, Plan},
    },
    objects::{LEASE_NAMESPACE, LEASES, NODES, Node, NodeReady},
    silence::{self, Lapsed, NEVER, STOPPED},
};

/// Maximum number of times that one pass attempts to write the conditions of a node whose version keeps changing.
const ATTEMPTS: usize = 5;
/// Pause before the next attempt after a conflict.
const PAUSE: Duration = Duration::from_millis(20);
/// Pause before a pass that must follow at once, for example to taint the nodes whose conditions were just written.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Executes the plan of one pass. Returns the pause before the next pass.
pub(super) async fn act(plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    let next_pass = |pause| Ok(Requeue::After(pause));
    io.note(Note::Reports(plan.reports.clone()));
    if plan.checks {
        // Any answer to a read of Leases is evidence of a live view, so one Lease is enough.
        return match io.send(Request::list(LEASES, &LEASE_NAMESPACE.into(), "limit=1".to_owned())).await {
            Ok(_) => {
                io.note(Note::Answered);
                next_pass(AT_ONCE)
            }
            Err(refusal) => {
                io.note(Note::Unanswered(refusal.error));
                next_pass(plan.pause)
            }
        };
    }
    if plan.blind.is_some() {
        return next_pass(plan.pause);
    }
    let writes = plan.actions().filter(|(_, action)| !matches!(action, Action::Wait(_)));
    let treated = io.all(Pace::AtMost(NODE_WORKERS), writes, |(node, action)| treat(node, action, io)).await;
    io.note(Note::Passed);
    let has_lapsed = treated.contains(&Ok(Treated::Lapsed));
    next_pass(if has_lapsed || plan.disruption == Disruption::Begins { AT_ONCE } else { plan.pause })
}

/// Result of the action on one node.
#[derive(PartialEq, Eq)]
enum Treated {
    /// The conditions of the node became `Unknown`, so the next pass can taint the node.
    Lapsed,
    /// Any other result. A node whose action failed is examined again by the next pass.
    Otherwise,
}

async fn treat(node: &Arc<Node>, action: &Action, io: Io<'_>) -> Result<Treated, Infallible> {
    let began = io.now();
    let outcome = match action {
        Action::Lapse(_) => lapse(node, io).await,
        Action::Relieve => change_node(node, Change::Relieve, "", io).await.map(|_| Treated::Otherwise),
        Action::Swap(cause) => {
            let why = format!("the new one is {}", cause.key());
            change_node(node, Change::Swap, why, io).await.map(|_| Treated::Otherwise)
        }
        Action::Wait(_) => Ok(Treated::Otherwise),
    };
    io.note(Note::Took(Duration::try_from(io.now().duration_since(began)).unwrap_or_default()));
    let (treated, error) = match outcome {
        Ok(treated) => (treated, None),
        Err(error) => (Treated::Otherwise, Some(error)),
    };
    io.note(Note::Changed(Arc::clone(&node.metadata.name), action.describe(), error));
    Ok(treated)
}

/// Sets the conditions of a silent node to `Unknown`, unless the server has a new heartbeat.
async fn lapse(node: &Arc<Node>, io: Io<'_>) -> Result<Treated, api::Error> {
    let mut node = Arc::clone(node);
    let name = Arc::clone(&node.metadata.name);
    let mut attempt = 1;
    loop {
        let renewed = io.unless_ending(has_renewed(&node, io)).await;
        if renewed.transpose()? != Some(false) {
            return Ok(Treated::Otherwise);
        }
        let lapsing = silence::lapsing(&node);
        let is_silent = io.observe_again(Question::IsSilent(Arc::clone(&name))).unwrap_or(true);
        if !is_silent || lapsing.is_empty() {
            io.deviate(format!("Node {name} is no longer silent"));
            return Ok(Treated::Otherwise);
        }
        let refusal = match io.send_and_read::<LiveNode>(lapse_request(&node, &lapsing, io)).await {
            Ok(live) => {
                if node.ready() == NodeReady::True {
                    io.note(Note::NotReady(name, node.metadata.uid.clone()));
                }
                if let Some(live) = live {
                    io.note(Note::Seen(live.node));
                }
                return Ok(Treated::Lapsed);
            }
            Err(refusal) => refusal,
        };
        match refusal.class {
            Class::Gone => return Ok(Treated::Otherwise),
            Class::Changed if attempt < ATTEMPTS => {}
            class => {
                if refusal.error.is_denied() {
                    io.note(Note::Denied(name));
                } else if class != Class::Changed {
                    // A server that rejects this write probably rejects heartbeats, too, so the grace period restarts.
                    io.note(Note::Spared(name, class == Class::Unknown));
                }
                return Err(refusal.error);
            }
        }
        attempt += 1;
        io.pause(PAUSE).await;
        let live = match read_node(&name, "it has changed", io).await {
            Err(error) if error.is_not_found() => None,
            live => live?,
        };
        match live {
            Some(live) if live.node.metadata.uid == node.metadata.uid => node = live.node,
            _ => return Ok(Treated::Otherwise),
        }
    }
}

fn lapse_request(node: &Node, lapsing: &[Lapsed], io: Io<'_>) -> Request {
    let meta = &node.metadata;
    let body = io.body(|| {
        let now = seconds::text(io.now());
        let condition = |lapsed: &Lapsed| lapsed_condition(lapsed, meta.created.map(seconds::text), &now);
        json!({"status": {"conditions": lapsing.iter().map(condition).collect::<Vec<Value>>()}})
    });
    let request = Request::patch(NODES, meta, Patch::Strategic, body).role(Role::Child);
    let request =
        request.doing("set to Unknown the conditions of").because("it has sent no heartbeat for its grace period");
    Request { subresource: "status", ..request }
}

/// Returns the JSON of a condition of a silent node. `created` is the creation time of the node.
fn lapsed_condition(Lapsed { kind, is_missing }: &Lapsed, created: Option<String>, now: &str) -> Value {
    let (reason, message) = if *is_missing { NEVER } else { STOPPED };
    let mut condition = json!({"type": kind, "status": UNKNOWN, "reason": reason, "message": message,
        "lastTransitionTime": now});
    if let Some(created) = created.filter(|_| *is_missing) {
        condition["lastHeartbeatTime"] = json!(created);
    }
    condition
}
