//! The loop that resets the condition `DisruptionTarget` of Pods that were not terminated.

pub mod decide;

use std::{sync::Arc, time::Duration};

use common::{api::PatchFormat, conditions::seconds::format_rfc3339, pods::PODS, prelude::*};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::decide::{Plan, Snapshot};
use crate::{
    objects::{DISRUPTION_TARGET, Pod},
    watch::Watch,
};

/// The cache of the loop.
pub struct StalePodController {
    pub(crate) watch: Arc<Watch>,
    pub(crate) timeout: Duration,
}

impl Controller for StalePodController {
    type Key = NamespacedName;
    type Snapshot = Snapshot;
    type Plan = Plan;

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Snapshot, NoSnapshot> {
        let pod = self.watch.pods.get(&key.namespace, &key.name)?.ok_or(NoSnapshot::Gone)?;
        let disruption = pod.disruption.ok_or(NoSnapshot::Gone)?;
        Ok(Snapshot { pod, disruption, timeout: self.timeout, now })
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(Snapshot { pod, now, .. }: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        if *plan == Plan::Reset {
            let body = io.encode_body(|| reset(pod, *now));
            let request = Request::patch(PODS, &pod.metadata, PatchFormat::Strategic, body)
                .with_subresource("status")
                .with_reason("the Pod was not terminated after its disruption");
            io.send(request)
                .await
                .map_err(|refusal| SyncError::from_refusal("cannot reset the condition", &refusal))?;
        }
        Ok(Requeue::AfterPlannedDelay)
    }

    fn object(snapshot: &Snapshot) -> InvolvedObject {
        InvolvedObject::new(PODS, &snapshot.pod.metadata)
    }
}

/// Returns the patch that resets the condition. All other conditions stay, because the server merges them by type.
fn reset(pod: &Pod, now: Timestamp) -> Value {
    json!({"status": {"conditions": [{
        "type": DISRUPTION_TARGET, "status": "False", "lastTransitionTime": format_rfc3339(now),
        "observedGeneration": pod.metadata.generation, "reason": null, "message": null, "lastProbeTime": null,
    }]}})
}
