//! The deletion of a Pod that has to leave its node.

use std::{sync::Arc, time::Duration};

use common::{
    api::{self, Delete, Patch, Target, Written},
    clock::Instant,
    conditions::{self, Condition, TRUE, seconds},
    controller::{Controller as _, Explain as _, Requeue},
    meta::Version,
    pods::PODS,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    decide::{
        eviction::{self as decide, Plan, Snapshot, Then},
        taints,
    },
    error::Error,
    eviction::Evictor,
    objects::{CachedPod, DISRUPTION_TARGET, LEASE_NAMESPACE, LEASES, Lease, NODES, Node},
};

/// How often a deletion is attempted in one sync.
const ATTEMPTS: usize = 5;
/// The pause after a failed attempt.
const PAUSE: Duration = Duration::from_millis(10);

/// What an attempt came to.
enum Attempt {
    /// The server accepted the deletion.
    Deleted,
    /// The Pod does not exist any more.
    Gone,
    /// The decision on the live objects is another one than the decision on the cache.
    Revised(Box<Snapshot>, Plan),
}

/// The live state of a Pod, with the conditions that the cache does not keep.
struct Live {
    pod: Arc<CachedPod>,
    conditions: Vec<Condition>,
}

impl Live {
    fn read(bytes: &[u8]) -> Result<Self, api::Error> {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            status: Option<Status>,
        }
        #[derive(Default, Deserialize)]
        struct Status {
            conditions: Option<Vec<Condition>>,
        }
        let Wire { status } = serde_json::from_slice(bytes)?;
        let conditions = status.unwrap_or_default().conditions.unwrap_or_default();
        Ok(Self { pod: Arc::new(serde_json::from_slice(bytes)?), conditions })
    }
}

impl Evictor {
    /// Deletes the Pod of the snapshot, unless the live objects say otherwise.
    pub(crate) async fn evict(&self, snapshot: &Snapshot, since: Instant) -> Result<Requeue, Error> {
        let key = &snapshot.key;
        let mut is_reported = false;
        let mut attempt = 1;
        let outcome = loop {
            match self.attempt(snapshot, &mut is_reported).await {
                Err(error) if attempt == ATTEMPTS || matches!(error, api::Error::NotLeader) => {
                    return Err(Error::new(format!("delete Pod {key}"), error));
                }
                Err(error) => {
                    tracing::debug!(logger = "taint-eviction-controller", pod = %key, err = %error, "Trying again");
                }
                Ok(outcome) => break outcome,
            }
            attempt += 1;
            self.context.clock.sleep(PAUSE).await;
        };
        match outcome {
            Attempt::Revised(live, plan) => {
                self.record(&live, &plan);
                self.report_cancellation(key, &plan);
                return Ok(plan.requeue_after().map_or(Requeue::No, Requeue::After));
            }
            Attempt::Deleted => {
                self.deleted.inc();
                let latency = self.context.clock.instant().saturating_duration_since(since);
                self.latency.observe(latency.as_secs_f64());
            }
            Attempt::Gone => {}
        }
        let evicted = snapshot.pod.as_ref().map(|pod| &pod.meta.uid);
        let mut timers = self.timers.lock();
        if timers.get(key).is_some_and(|timer| Some(&timer.pod) == evicted) {
            timers.remove(key);
        }
        Ok(Requeue::No)
    }

    /// Reads the Pod and its node, decides again, writes the condition and deletes the Pod.
    ///
    /// Both writes name the version of the Pod that was judged: a toleration that is added in between prevents the deletion.
    async fn attempt(&self, snapshot: &Snapshot, is_reported: &mut bool) -> Result<Attempt, api::Error> {
        let Some(cached) = &snapshot.pod else { return Ok(Attempt::Gone) };
        let (namespace, name) = (cached.meta.namespace.as_str(), &*cached.meta.name);
        let target = Target::object(PODS, namespace, name);
        let live = match self.context.api.get(target).await {
            Err(error) if error.is_not_found() => return Ok(Attempt::Gone),
            answer => Live::read(&answer?)?,
        };
        if live.pod.meta.uid != cached.meta.uid {
            return Ok(Attempt::Gone);
        }
        let node = self.live_node(&live.pod.node).await?;
        let is_contradicted = node.as_ref().is_some_and(taints::is_contradicted);
        let renewal = if is_contradicted { self.live_renewal(&live.pod.node).await? } else { None };
        let live_snapshot = Snapshot {
            key: snapshot.key.clone(),
            pod: Some(Arc::clone(&live.pod)),
            is_contradicted,
            renewal,
            grace: self.grace,
            taints: node.map(|node| node.evicting().cloned().collect()),
            timer: self.timer(&snapshot.key),
            now: self.context.clock.instant(),
            compares: snapshot.compares,
        };
        let plan = decide::decide(&live_snapshot);
        if !matches!(plan.then, Then::Delete { .. }) {
            return Ok(Attempt::Revised(Box::new(live_snapshot), plan));
        }
        if !std::mem::replace(is_reported, true) {
            self.event(&snapshot.key, format!("Marking for deletion Pod {}", snapshot.key));
        }
        let version = self.write_condition(&live).await?;
        let options = Delete { uid: Some(cached.meta.uid.clone()), version: Some(version), ..Delete::default() };
        match self.context.api.delete(target, &options).await {
            Err(error) if error.is_not_found() => Ok(Attempt::Gone),
            Err(error) => Err(error),
            Ok(_) => Ok(Attempt::Deleted),
        }
    }

    /// The node as the server has it, if it exists.
    async fn live_node(&self, name: &str) -> Result<Option<Node>, api::Error> {
        if name.is_empty() {
            return Ok(None);
        }
        match self.context.api.get(Target::object(NODES, "", name)).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => Ok(Some(serde_json::from_slice(&answer?)?)),
        }
    }

    /// When the node renewed its Lease last, as the server has it.
    async fn live_renewal(&self, node: &str) -> Result<Option<Timestamp>, api::Error> {
        match self.context.api.get(Target::object(LEASES, LEASE_NAMESPACE, node)).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => Ok(serde_json::from_slice::<Lease>(&answer?)?.renewed()),
        }
    }

    /// Writes the condition that gives the reason of the deletion, and returns the version of the Pod that carries it.
    async fn write_condition(&self, live: &Live) -> Result<Version, api::Error> {
        let meta = &live.pod.meta;
        let Some(condition) = condition(live, self.context.clock.now()) else { return Ok(meta.resource_version) };
        let patch = json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"conditions": [condition]}});
        let target = Target::status(PODS, &meta.namespace, &meta.name);
        let answer = self.context.api.patch(target, Patch::Strategic, &patch).await?;
        let written: Written = serde_json::from_slice(&answer)?;
        Ok(written.metadata.resource_version)
    }
}

/// The condition with the reason of the deletion; none if the Pod has it already.
fn condition(live: &Live, now: Timestamp) -> Option<Value> {
    const REASON: &str = "DeletionByTaintManager";
    const MESSAGE: &str = "Taint manager: deleting due to NoExecute taint";
    let known = conditions::get(&live.conditions, DISRUPTION_TARGET).filter(|known| known.is_true());
    if known.is_some_and(|known| known.reason == REASON && *known.message == *MESSAGE) {
        return None;
    }
    let since = known.and_then(|known| known.last_transition_time).unwrap_or(now);
    let mut condition = json!({"type": DISRUPTION_TARGET, "status": TRUE, "reason": REASON, "message": MESSAGE,
        "lastTransitionTime": seconds::text(since)});
    let generation = live.pod.meta.generation;
    if generation > 0 {
        condition["observedGeneration"] = json!(generation);
    }
    Some(condition)
}
