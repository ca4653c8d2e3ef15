//! Changes of taints and labels of a node, decided on what the server says of the node and written onto that version.

use std::{sync::Arc, time::Duration};

use common::{
    api::{self, Patch, Target},
    conditions::seconds,
    controller::Requeue,
    events::{EventType, ObjectRef},
    intern::Text,
    meta::Uid,
    object::{Object as _, Resource},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    decide::{
        health,
        tainting::{Chosen, Plan},
        taints::{self, Cause, TaintChange},
    },
    error::Error,
    monitor::Monitor,
    objects::{LEASE_NAMESPACE, NODES, Node},
};

/// How often a change is attempted in one sync when the node changes meanwhile. Upstream: `UpdateTaintBackoff`.
const ATTEMPTS: usize = 5;
/// The pause after a conflict, lengthened by up to itself.
const PAUSE: Duration = Duration::from_millis(100);
const NAMESPACES: Resource =
    Resource { group: "", version: "v1", plural: "namespaces", kind: "Namespace", namespaced: false };

/// A change of a node.
pub(crate) struct Edit {
    pub(crate) taints: TaintChange,
    pub(crate) labels: Vec<(&'static str, Text)>,
}

impl Edit {
    fn is_empty(&self) -> bool {
        self.taints.is_empty() && self.labels.is_empty()
    }

    /// The patch that makes the change to this version of the node.
    fn patch(&self, node: &Node, taints: &[Value], since: &str) -> Value {
        let meta = node.meta();
        let mut patch = json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}});
        if !self.labels.is_empty() {
            let labels = self.labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
            patch["metadata"]["labels"] = Value::Object(labels.collect::<Map<_, _>>());
        }
        if !self.taints.is_empty() {
            let taints = taints::applied(taints, &[&self.taints], since);
            patch["spec"]["taints"] = if taints.is_empty() { Value::Null } else { Value::Array(taints) };
        }
        patch
    }
}

impl From<TaintChange> for Edit {
    fn from(taints: TaintChange) -> Self {
        Self { taints, labels: Vec::new() }
    }
}

/// Taints as the server wrote them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawTaints {
    spec: RawSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    taints: Option<Vec<Value>>,
}

impl Monitor {
    /// Makes the change that `decide` finds necessary on the live node. Returns whether the node was changed.
    pub(crate) async fn edit(&self, known: &Node, decide: impl Fn(&Node) -> Edit) -> Result<bool, api::Error> {
        let name = &*known.metadata.name;
        let target = Target::object(NODES, "", name);
        let mut attempt = 1;
        loop {
            let bytes = match self.context.api.get(target).await {
                Err(error) if error.is_not_found() => return Ok(false),
                answer => answer?,
            };
            let live = self.take_in(&bytes)?;
            if live.metadata.uid != known.metadata.uid {
                return Ok(false);
            }
            let edit = decide(&live);
            if edit.is_empty() {
                return Ok(false);
            }
            let RawTaints { spec } = serde_json::from_slice(&bytes)?;
            let since = seconds::text(self.context.clock.now());
            let patch = edit.patch(&live, &spec.taints.unwrap_or_default(), &since);
            match self.context.api.patch(target, Patch::Strategic, &patch).await {
                Err(error) if error.is_not_found() || error.is_another() => return Ok(false),
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
                answer => return self.take_in(&answer?).map(|_| true),
            }
            attempt += 1;
            self.context.clock.sleep(self.context.clock.jitter(PAUSE, 1.0)).await;
        }
    }

    /// Takes note of a node as the server sent it, which also proves that the server can be reached.
    pub(crate) fn take_in(&self, bytes: &[u8]) -> Result<Arc<Node>, api::Error> {
        let mut node: Node = serde_json::from_slice(bytes)?;
        node.trim();
        let node = Arc::new(node);
        let now = self.context.clock.instant();
        let mut fleet = self.fleet.lock();
        fleet.sight.note(now);
        // A node that is not known comes with its event.
        if fleet.node(&node.metadata.name).is_some_and(|known| known.metadata.uid == node.metadata.uid) {
            fleet.see(&node, None, now);
        }
        Ok(node)
    }

    /// Taints the nodes whose turn it is.
    pub(crate) async fn taint(&self, plan: Plan) -> Result<Requeue, Error> {
        if let Some(alarm) = plan.alarm {
            tracing::warn!(logger = "node-controller", alarm, "A large share of nodes is tainted");
            let leases = ObjectRef::bare(NAMESPACES, "", LEASE_NAMESPACE, Uid::default());
            self.context.recorder.event(&leases, EventType::Warning, "ManyNodesTainted", alarm);
        }
        for chosen in &plan.chosen {
            self.taint_one(chosen).await?;
        }
        Ok(Requeue::No)
    }

    /// Taints a node, if it still has to be. Otherwise it waits no longer.
    async fn taint_one(&self, Chosen { node, zone, cause }: &Chosen) -> Result<(), Error> {
        let name = &node.metadata.name;
        let result = self.try_to_taint(node).await;
        self.note_write(name, "add the NoExecute taint", result.as_ref().err());
        match result {
            Err(error @ api::Error::NotLeader) => return Err(Error::new(format!("taint Node {name}"), error)),
            Err(error) => {
                tracing::error!(logger = "node-controller", node = &**name, err = %error, "Failed to taint node");
                self.fleet.lock().postpone(name, self.context.clock.instant());
            }
            Ok(true) => {
                tracing::info!(logger = "node-controller", node = &**name, taint = cause.key(), "Added taint to node");
                self.metrics.evicted(zone);
            }
            Ok(false) => self.fleet.lock().release(name),
        }
        Ok(())
    }

    async fn try_to_taint(&self, node: &Node) -> Result<bool, api::Error> {
        if health::is_lapsed(node) && self.was_renewed(node).await? {
            return Ok(false);
        }
        let name = &node.metadata.name;
        let edit = |live: &Node| {
            // Something may have been heard of it, or nothing at all, while requests were on their way.
            let may_be_tainted = !health::is_lapsed(live) || self.is_silent(name);
            let cause = Cause::of(live).filter(|_| may_be_tainted);
            cause.map_or_else(TaintChange::default, |cause| taints::to_cause(live, cause)).into()
        };
        self.edit(node, edit).await
    }
}
