//! Sets the condition `Ready` of Pods to `False` when their node is not ready.

mod decide;

use std::sync::Arc;

use common::{
    conditions::{FALSE, seconds},
    pods::PODS,
    prelude::*,
};
use jiff::Timestamp;
use serde_json::json;

use self::decide::{Plan, Snapshot};
use super::NodeMonitor;
use crate::objects::READY_CONDITION;

/// The loop that sets the condition `Ready` of Pods to `False` when their node is not ready.
pub(crate) struct PodReadinessController(pub(super) Arc<NodeMonitor>);

impl Controller for PodReadinessController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, _: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let pod = self.0.caches.pod(key).ok_or(NoSnapshot::Gone)?;
        let node_records = self.0.node_records.lock();
        if let Some(outage) = node_records.server_contact.time_without_contact(self.0.now()) {
            let why = format!("this process has had no live view of nodes for {}s", outage.as_secs());
            return Err(NoSnapshot::waiting_because(why, self.0.heartbeats.node_monitor_period));
        }
        let node_ready_status = node_records.node(&pod.node_name).map(|node| node.ready_status());
        Ok(Snapshot { pod, node_ready_status })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Sends the planned request for one Pod, with the version in the snapshot as precondition; a conflict repeats the sync.
    async fn act(Snapshot { pod, .. }: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        if !plan.marks_pod_not_ready {
            return Ok(Requeue::AfterPlannedDelay);
        }
        let body = io.encode_body(|| {
            let transition_time = seconds::format_rfc3339(io.now());
            let condition = json!({"type": READY_CONDITION, "status": FALSE, "lastTransitionTime": transition_time});
            json!({"status": {"conditions": [condition]}})
        });
        let request = Request::patch_status(PODS, &pod.meta, body).into_strategic_patch();
        match io.send(request.with_verb_text("set its condition Ready to False").with_reason(plan.reason)).await {
            Ok(_) => io.record_event(EventType::Warning, "NodeNotReady", "Node is not ready"),
            Err(refusal) if refusal.is_not_found() => {}
            Err(refusal) => {
                return Err(SyncError::from_refusal(&format!("mark Pod {} as not ready", pod.meta.key()), &refusal));
            }
        }
        Ok(Requeue::AfterPlannedDelay)
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(PODS, &snapshot.pod.meta)
    }
}
