//! The request that sets the condition `Ready` of a Pod to `False`.

use common::{
    api::Patch,
    conditions::{FALSE, seconds},
    events::EventType,
    io::{Class, Failed, Request, Requeue, Role},
    pods::PODS,
};
use serde_json::json;

use super::{plan::Plan, snapshot::Snapshot};
use crate::{monitor::notes::Io, objects::READY};

/// Sends the planned request for one Pod. Its precondition is the version in the snapshot, so a changed Pod is judged again.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, Failed> {
    if !plan.marks {
        return Ok(Requeue::AsPlanned);
    }
    let meta = &snapshot.pod.meta;
    let condition = |since| json!({"type": READY, "status": FALSE, "lastTransitionTime": seconds::text(since)});
    let body = io.body(|| json!({"status": {"conditions": [condition(io.now())]}}));
    let request = Request::patch(PODS, meta, Patch::Strategic, body).role(Role::Itself);
    let request = request.doing("set its condition Ready to False").because(plan.why);
    match io.send(Request { subresource: "status", ..request }).await {
        Ok(_) => io.event(EventType::Warning, "NodeNotReady", "Node is not ready"),
        Err(refusal) if refusal.class == Class::Gone => {}
        Err(refusal) => return Err(Failed::request(&format!("mark Pod {} as not ready", meta.key()), &refusal)),
    }
    Ok(Requeue::AsPlanned)
}
