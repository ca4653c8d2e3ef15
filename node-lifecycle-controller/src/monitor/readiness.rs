//! Marks Pods as not ready whose node is not ready.

use std::sync::Arc;

use common::{
    api::{Patch, Target},
    conditions::{FALSE, seconds},
    controller::{Controller, Observed, Requeue},
    events::{EventType, ObjectRef},
    informer::AnyInformer,
    meta::Key,
    pods::PODS,
};
use jiff::Timestamp;
use serde_json::json;

use crate::{
    decide::readiness::{self as decide, Plan, Snapshot},
    error::Error,
    objects::READY,
};

use super::Monitor;

/// The Pods of nodes that are not ready, by name.
pub(crate) struct Readiness(pub(crate) Arc<Monitor>);

impl Controller for Readiness {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Error = Error;

    fn observe(&self, key: &Key, _: Timestamp) -> Result<Observed<Snapshot>, Error> {
        let Some(pod) = self.0.caches.pods.store().get_readable(&key.namespace, &key.name) else {
            return Ok(Observed::Gone);
        };
        let now = self.0.context.clock.instant();
        let fleet = self.0.fleet.lock();
        if let Some(blind_for) = fleet.sight.blind_for(now) {
            let why = format!("this process does not see what nodes do, since {}s", blind_for.as_secs());
            return Ok(Observed::Waiting { why, at_most: self.0.period });
        }
        let node = fleet.node(&pod.node).map(|node| node.ready());
        Ok(Observed::Ready(Snapshot { pod, node }))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    /// Writes onto the version that was judged. A Pod that changed meanwhile is judged again.
    async fn act(&self, snapshot: Snapshot, plan: Plan) -> Result<Requeue, Error> {
        if !plan.marks {
            return Ok(Requeue::No);
        }
        let context = &self.0.context;
        let meta = &snapshot.pod.meta;
        let condition =
            json!({"type": READY, "status": FALSE, "lastTransitionTime": seconds::text(context.clock.now())});
        let patch = json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"conditions": [condition]}});
        let target = Target::status(PODS, &meta.namespace, &meta.name);
        match context.api.patch(target, Patch::Strategic, &patch).await {
            Err(error) if error.is_not_found() || error.is_another() => return Ok(Requeue::No),
            Err(error) => return Err(Error::new(format!("mark Pod {} as not ready", meta.key()), error)),
            Ok(_) => {}
        }
        let pod = ObjectRef::new(PODS, meta);
        context.recorder.event(&pod, EventType::Warning, "NodeNotReady", "Node is not ready".to_owned());
        Ok(Requeue::No)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        self.0.informers()
    }
}
