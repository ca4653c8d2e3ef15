//! What a pass of the node monitor writes.

use std::{sync::Arc, time::Duration};

use common::{
    api::{self, Patch, Target},
    clock::Instant,
    conditions::{UNKNOWN, seconds},
    controller::Requeue,
    events::{EventType, ObjectRef},
    meta::Uid,
};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::{
    decide::{
        health::{self, Action, Lapsed, NEVER, Plan, STOPPED},
        taints,
        upkeep::Failure,
        zones::Disruption,
    },
    error::Error,
    monitor::{Monitor, NODE_WORKERS, fleet::Name},
    objects::{LEASE_NAMESPACE, LEASES, Lease, NODES, Node, NodeReady},
};

/// How often conditions are written in one pass when the node changes meanwhile.
const ATTEMPTS: usize = 5;
/// The pause after a conflict.
const PAUSE: Duration = Duration::from_millis(20);
/// The pause before a pass that goes on where this one could not.
const AT_ONCE: Duration = Duration::from_millis(1);

impl Monitor {
    /// Carries out a pass.
    pub(crate) async fn pass(&self, plan: Plan) -> Result<Requeue, Error> {
        let began = self.context.clock.instant();
        for (list, reason, does) in
            [(&plan.arrived, "RegisteredNode", "Registered"), (&plan.departed, "RemovingNode", "Removing")]
        {
            let place = if reason == "RegisteredNode" { "in" } else { "from" };
            for (name, uid) in list {
                self.report(name, uid, reason, format!("Node {name} event: {does} Node {name} {place} Controller"));
            }
        }
        if plan.checks || plan.blind.is_some() {
            let sees = plan.checks && self.check().await;
            return Ok(Requeue::After(if sees { AT_ONCE } else { self.period }));
        }
        let actions: Vec<_> = plan.actions().map(|(node, action)| self.carry_out(node, action)).collect();
        let mut results = stream::iter(actions).buffer_unordered(NODE_WORKERS);
        let mut goes_on = plan.disruption == Disruption::Begins;
        while let Some(wrote) = results.next().await {
            goes_on |= wrote?;
        }
        drop(results);
        self.metrics.pass_duration.observe(self.since(began));
        Ok(Requeue::After(if goes_on { AT_ONCE } else { self.period }))
    }

    fn since(&self, began: Instant) -> f64 {
        self.context.clock.instant().saturating_duration_since(began).as_secs_f64()
    }

    fn report(&self, name: &str, uid: &Uid, reason: &'static str, message: String) {
        let node = ObjectRef::bare(NODES, "", name, uid.clone());
        self.context.recorder.event(&node, EventType::Normal, reason, message);
    }

    /// Asks the server for a sign that this process sees. Returns whether there is one.
    async fn check(&self) -> bool {
        match self.context.api.list(LEASES, LEASE_NAMESPACE, "limit=1").await {
            Ok(_) => {
                self.fleet.lock().sight.note(self.context.clock.instant());
                true
            }
            Err(error) => {
                tracing::warn!(logger = "node-controller", err = %error, "Leases cannot be read");
                false
            }
        }
    }

    /// Does what was decided about a node, and returns whether another pass has to follow at once. A node whose action
    /// failed is looked at again with the next pass.
    async fn carry_out(&self, node: &Arc<Node>, action: &Action) -> Result<bool, Error> {
        let began = self.context.clock.instant();
        let result = match action {
            Action::Lapse(_) => self.lapse(node).await,
            Action::Relieve => self.edit(node, |live| taints::to_reachable(live).into()).await.map(|_| false),
            Action::Swap(_) => self.swap(node).await.map(|_| false),
            Action::Wait(_) => return Ok(false),
        };
        self.metrics.node_duration.observe(self.since(began));
        let name = &node.metadata.name;
        self.note_write(name, action.describe(), result.as_ref().err());
        match result {
            Err(error @ api::Error::NotLeader) => Err(Error::new(format!("update Node {name}"), error)),
            Err(error) => {
                tracing::error!(logger = "node-controller", node = &**name, err = %error, "Failed to update node");
                Ok(false)
            }
            Ok(is_lapsed) => Ok(is_lapsed),
        }
    }

    /// Counts a change of a node that failed, and keeps it for explanations until a change succeeds.
    pub(super) fn note_write(&self, name: &str, what: &str, error: Option<&api::Error>) {
        let failure = match error {
            // Another process makes the change.
            Some(api::Error::NotLeader) => return,
            Some(error) => {
                self.metrics.write_failed(error);
                Some(Failure { error: format!("{what}: {error}"), at: self.context.clock.now() })
            }
            None => None,
        };
        self.fleet.lock().note_write(name, failure);
    }

    async fn swap(&self, node: &Node) -> Result<bool, api::Error> {
        let edit = |live: &Node| {
            let cause = taints::Cause::of(live).filter(|cause| taints::has_cause(live, cause.other()));
            cause.map_or_else(Default::default, |cause| taints::to_cause(live, cause)).into()
        };
        self.edit(node, edit).await
    }

    /// Sets the conditions of a silent node to `Unknown`, unless the server knows of a sign of life. Returns whether that
    /// was done.
    async fn lapse(&self, node: &Arc<Node>) -> Result<bool, api::Error> {
        let name = &node.metadata.name;
        let mut judged = Arc::clone(node);
        for attempt in 1..=ATTEMPTS {
            if self.was_renewed(&judged).await? || !self.is_silent(name) {
                return Ok(false);
            }
            let lapsing = health::lapsing(&judged);
            if lapsing.is_empty() {
                return Ok(false);
            }
            let was_ready = judged.ready() == NodeReady::True;
            match self.write_lapse(&judged, &lapsing).await {
                Ok(()) => {
                    if was_ready {
                        let message = format!("Node {name} status is now: NodeNotReady");
                        self.report(name, &judged.metadata.uid, "NodeNotReady", message);
                    }
                    return Ok(true);
                }
                Err(error) if error.is_not_found() || error.is_another() => return Ok(false),
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
                Err(error) => {
                    // A server that takes no writes from here takes none from nodes either.
                    if !error.is_conflict() && !matches!(error, api::Error::NotLeader) {
                        self.fleet.lock().spare(name, self.context.clock.instant());
                    }
                    return Err(error);
                }
            }
            self.context.clock.sleep(PAUSE).await;
            let live = match self.context.api.get(Target::object(NODES, "", name)).await {
                Err(error) if error.is_not_found() => return Ok(false),
                answer => self.take_in(&answer?)?,
            };
            if live.metadata.uid != judged.metadata.uid {
                return Ok(false);
            }
            judged = live;
        }
        Ok(false)
    }

    async fn write_lapse(&self, node: &Node, lapsing: &[Lapsed]) -> Result<(), api::Error> {
        let meta = &node.metadata;
        let now = seconds::text(self.context.clock.now());
        let condition = |lapsed: &Lapsed| lapsed_condition(lapsed, meta.created.map(seconds::text), &now);
        let conditions: Vec<Value> = lapsing.iter().map(condition).collect();
        let patch = json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"conditions": conditions}});
        let answer = self.context.api.patch(Target::status(NODES, "", &meta.name), Patch::Strategic, &patch).await?;
        self.take_in(&answer).map(drop)
    }

    /// Whether the server knows of a renewal of the node's Lease that was not seen here.
    pub(crate) async fn was_renewed(&self, node: &Node) -> Result<bool, api::Error> {
        let name: &Name = &node.metadata.name;
        let lease = match self.context.api.get(Target::object(LEASES, LEASE_NAMESPACE, name)).await {
            Err(error) if error.is_not_found() => None,
            answer => Some(serde_json::from_slice::<Lease>(&answer?)?.renewed()),
        };
        let now = self.context.clock.instant();
        let mut fleet = self.fleet.lock();
        fleet.sight.note(now);
        let Some(renewal) = lease else { return Ok(false) };
        let is_news = fleet.is_news(name, renewal);
        if is_news {
            fleet.renewed(name, renewal, now);
            fleet.touch(name);
        }
        Ok(is_news)
    }

    /// Whether nothing has been heard of the node for its grace period, while this process would have heard.
    pub(crate) fn is_silent(&self, name: &str) -> bool {
        self.fleet.lock().is_silent(name, self.context.clock.instant())
    }
}

/// The condition that a silent node gets. `created`: the time at which the node was created.
fn lapsed_condition(Lapsed { kind, is_missing }: &Lapsed, created: Option<String>, now: &str) -> Value {
    let (reason, message) = if *is_missing { NEVER } else { STOPPED };
    let mut condition = json!({"type": kind, "status": UNKNOWN, "reason": reason, "message": message,
        "lastTransitionTime": now});
    if let Some(created) = created.filter(|_| *is_missing) {
        condition["lastHeartbeatTime"] = json!(created);
    }
    condition
}
