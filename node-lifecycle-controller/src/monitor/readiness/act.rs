//! The request that sets the condition `Ready` of a Pod to `False`.

use common::{
    api::PatchFormat,
    conditions::{FALSE, seconds},
    events::EventType,
    io::{ObjectRole, RefusalClass, Request, Requeue, SyncError},
    pods::PODS,
};
use serde_json::json;

use super::{plan::Plan, snapshot::Snapshot};
use crate::{monitor::notes::Io, objects::READY_CONDITION};

/// Sends the planned request for one Pod, with the version in the snapshot as precondition; a conflict repeats the sync.
pub(super) async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_>) -> Result<Requeue, SyncError> {
    if !plan.marks_pod_not_ready {
        return Ok(Requeue::AfterPlannedDelay);
    }
    let meta = &snapshot.pod.meta;
    let condition =
        |since| json!({"type": READY_CONDITION, "status": FALSE, "lastTransitionTime": seconds::format_rfc3339(since)});
    let body = io.encode_body(|| json!({"status": {"conditions": [condition(io.now())]}}));
    let request = Request::patch(PODS, meta, PatchFormat::Strategic, body).with_role(ObjectRole::SyncedObject);
    let request = request.with_verb_text("set its condition Ready to False").with_reason(plan.reason);
    match io.send(Request { subresource: "status", ..request }).await {
        Ok(_) => io.record_event(EventType::Warning, "NodeNotReady", "Node is not ready"),
        Err(refusal) if refusal.class == RefusalClass::NotFound => {}
        Err(refusal) => {
            return Err(SyncError::from_refusal(&format!("mark Pod {} as not ready", meta.key()), &refusal));
        }
    }
    Ok(Requeue::AfterPlannedDelay)
}
