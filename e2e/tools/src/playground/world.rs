//! The objects of the cluster, from the accepted writes.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use common::{
    intern::Labels,
    intstr::{IntOrString, resolve_fenceposts},
    meta::{NamespacedName, Uid},
    object::Resource,
    pods::{Phase, Pod},
    selector::Selector,
};
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    sandbox::{Change, Write},
    suite::resources,
};

/// The kinds that are kept, besides Pods.
static KINDS: [Resource; 9] = [
    resources::DEPLOYMENTS,
    resources::REPLICA_SETS,
    resources::STATEFUL_SETS,
    resources::DAEMON_SETS,
    resources::SERVICES,
    resources::ENDPOINT_SLICES,
    resources::JOBS,
    resources::CRON_JOBS,
    resources::NODES,
];

/// The number of deleted objects whose names are kept.
const GONE: usize = 1000;

#[derive(Clone, Debug)]
pub(super) struct Object(pub(super) Arc<Value>);

impl Object {
    /// The number at a pointer; 0 if there is none.
    pub(super) fn number(&self, pointer: &str) -> i64 {
        self.0.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
    }

    /// The text at a pointer; empty if there is none.
    pub(super) fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn items(&self, pointer: &str) -> impl Iterator<Item = &Value> {
        self.0.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
    }

    /// Status and message of a condition; empty if there is none.
    pub(super) fn condition(&self, kind: &str) -> (&str, &str) {
        let condition = self.items("/status/conditions").find(|condition| condition["type"] == kind);
        let text = |field: &str| condition.and_then(|condition| condition[field].as_str()).unwrap_or_default();
        (text("status"), text("message"))
    }

    pub(super) fn key(&self) -> NamespacedName {
        NamespacedName::new(self.text("/metadata/namespace"), self.text("/metadata/name"))
    }

    pub(super) fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    /// The UID of its controller; empty if it has none.
    pub(super) fn owner(&self) -> &str {
        let owner = self.items("/metadata/ownerReferences").find(|owner| owner["controller"] == true);
        owner.and_then(|owner| owner["uid"].as_str()).unwrap_or_default()
    }

    /// The image of the first container of its template.
    pub(super) fn image(&self) -> &str {
        self.text("/spec/template/spec/containers/0/image")
    }

    /// The revision of a Deployment or a ReplicaSet; 0 before the controller has set it.
    pub(super) fn revision(&self) -> i64 {
        self.text("/metadata/annotations/deployment.kubernetes.io~1revision").parse().unwrap_or(0)
    }

    /// The wanted number of Pods.
    pub(super) fn replicas(&self) -> i32 {
        i32::try_from(self.number("/spec/replicas")).unwrap_or(i32::MAX)
    }

    /// The seconds for which a Pod has to be ready before it is available.
    pub(super) fn min_ready_seconds(&self) -> i32 {
        i32::try_from(self.number("/spec/minReadySeconds")).unwrap_or(i32::MAX)
    }

    /// The bounds of the rollouts of a Deployment; `None` if the strategy has none or they cannot be read.
    pub(super) fn bounds(&self) -> Option<Bounds> {
        let replicas = self.replicas();
        if self.text("/spec/strategy/type") == "Recreate" {
            return Some(Bounds { most: replicas, least: 0 });
        }
        let limit = |name: &str| {
            IntOrString::deserialize(self.0.pointer(&format!("/spec/strategy/rollingUpdate/{name}"))?).ok()
        };
        let (surge, unavailable) =
            resolve_fenceposts(limit("maxSurge").as_ref(), limit("maxUnavailable").as_ref(), replicas).ok()?;
        Some(Bounds { most: replicas.saturating_add(surge), least: replicas.saturating_sub(unavailable) })
    }
}

/// The bounds of a rollout, in Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    /// `replicas + maxSurge`.
    pub(super) most: i32,
    /// `replicas - maxUnavailable`.
    pub(super) least: i32,
}

/// The states of Pods, in the order of a Pod's life: not running yet; running; ready for less than `minReadySeconds`; ready for
/// long enough; being deleted; finished.
pub(super) const STATES: [&str; 6] = ["pending", "running", "ready", "available", "terminating", "ended"];
const AVAILABLE: usize = 3;

/// Numbers of Pods by state, in the order of [`STATES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Census(pub(super) [i32; 6]);

impl Census {
    /// Pods that count as replicas.
    pub(super) fn active(&self) -> i32 {
        self.0[..=AVAILABLE].iter().sum()
    }

    pub(super) fn available(&self) -> i32 {
        self.0[AVAILABLE]
    }

    /// The numbers that are not zero, in one line.
    pub(super) fn line(&self) -> String {
        let counted = STATES.iter().zip(self.0).filter(|(_, n)| *n > 0);
        counted.map(|(state, n)| format!("{n} {state}")).collect::<Vec<_>>().join(", ")
    }
}

impl std::iter::Sum for Census {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self(std::array::from_fn(|n| a.0[n] + b.0[n])))
    }
}

type Objects = BTreeMap<NamespacedName, Object>;

#[derive(Debug, Default)]
pub(super) struct World {
    /// By kind and name.
    objects: BTreeMap<&'static str, Objects>,
    /// Pods by the uid of their controller; Pods without a controller have the empty uid.
    pods: BTreeMap<Uid, BTreeMap<NamespacedName, Pod>>,
    /// Resources and names of all objects by uid, because the keys of some controllers are uids ...
    names: HashMap<String, String>,
    /// ... and the uids of deleted objects, oldest first.
    gone: VecDeque<String>,
}

/// The uid of the controller of a Pod; empty if it has none.
fn controller_uid(pod: &Pod) -> Uid {
    pod.meta.controller().map_or_else(|| Uid::new(""), |owner| owner.uid.clone())
}

/// A Pod as the controllers read it.
pub(super) fn pod(object: Option<Arc<Value>>) -> Option<Pod> {
    Pod::deserialize(object.as_deref()?).ok()
}

impl World {
    /// Takes over the object of a write.
    pub(super) fn apply(&mut self, write: &Write) {
        let key = NamespacedName::new(&write.namespace, &write.name);
        self.name(write);
        let is_written = |kind: &Resource| (kind.group(), kind.plural()) == (&*write.group, &*write.resource);
        if let Some(kind) = KINDS.iter().find(|kind| is_written(kind)) {
            let objects = self.objects.entry(kind.kind()).or_default();
            match write.after() {
                Some(object) => objects.insert(key, Object(object)),
                None => objects.remove(&key),
            };
        } else if is_written(&resources::PODS) {
            if let Some(old) = pod(write.before())
                && let Some(pods) = self.pods.get_mut(&controller_uid(&old))
            {
                pods.remove(&key);
            }
            if let Some(new) = pod(write.after()) {
                self.pods.entry(controller_uid(&new)).or_default().insert(key, new);
            }
            self.pods.retain(|_, pods| !pods.is_empty());
        }
    }

    fn name(&mut self, write: &Write) {
        let object = match write.change {
            Change::Added => write.after(),
            Change::Modified => return,
            Change::Deleted => write.before(),
        };
        let Some(uid) = object.as_ref().and_then(|object| object["metadata"]["uid"].as_str()) else { return };
        if write.change == Change::Added {
            let slash = if write.namespace.is_empty() { "" } else { "/" };
            let name = format!("{} {}{slash}{}", write.resource, write.namespace, write.name);
            self.names.insert(uid.to_owned(), name);
            return;
        }
        self.gone.push_back(uid.to_owned());
        if self.gone.len() > GONE
            && let Some(oldest) = self.gone.pop_front()
        {
            self.names.remove(&oldest);
        }
    }

    /// The object of a key that is a known uid; any other key is returned as it is.
    pub(super) fn name_of<'a>(&'a self, key: &'a str) -> &'a str {
        self.names.get(key).map_or(key, String::as_str)
    }

    pub(super) fn all(&self, kind: &str) -> impl Iterator<Item = &Object> {
        self.objects.get(kind).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn get(&self, kind: &str, key: &NamespacedName) -> Option<&Object> {
        self.objects.get(kind)?.get(key)
    }

    /// The objects of a kind that an object controls.
    pub(super) fn owned(&self, kind: &str, owner: &Object) -> impl Iterator<Item = &Object> {
        self.all(kind).filter(move |object| object.owner() == owner.uid())
    }

    pub(super) fn with_uid(&self, kind: &str, uid: &str) -> Option<&Object> {
        self.all(kind).find(|object| object.uid() == uid)
    }

    /// The sum of the sizes of the ReplicaSets of a Deployment.
    pub(super) fn sizes(&self, deployment: &Object) -> i32 {
        self.owned("ReplicaSet", deployment).map(Object::replicas).sum()
    }

    /// The number of ready Pods that a Service selects.
    pub(super) fn ready_pods(&self, service: &Object) -> usize {
        let selector = Selector::from_map(Labels::deserialize(&service.0["spec"]["selector"]).unwrap_or_default());
        let namespace = service.text("/metadata/namespace");
        let serves = |pod: &&Pod| pod.meta.namespace == *namespace && selector.matches(&pod.meta.labels);
        let pods = self.pods.values().flat_map(BTreeMap::values).filter(serves);
        // A terminating Pod may be ready for its probes, but gets no new connections.
        pods.filter(|pod| pod.is_ready() && !pod.phase.is_terminal() && !pod.meta.is_deleting()).count()
    }

    /// The states of the Pods of a controller.
    pub(super) fn census(&self, owner: &Object, now: Timestamp) -> Census {
        let mut census = Census::default();
        for pod in self.pods.get(&Uid::new(owner.uid())).into_iter().flat_map(BTreeMap::values) {
            let state = if pod.meta.is_deleting() {
                4
            } else if pod.phase.is_terminal() {
                5
            } else if pod.is_available(owner.min_ready_seconds(), now) {
                AVAILABLE
            } else if pod.is_ready() {
                2
            } else {
                usize::from(pod.phase == Phase::Running)
            };
            census.0[state] += 1;
        }
        census
    }

    /// The states of the Pods of the ReplicaSets of a Deployment, or of the Jobs of a CronJob.
    pub(super) fn census_of_owned(&self, kind: &str, owner: &Object, now: Timestamp) -> Census {
        self.owned(kind, owner).map(|object| self.census(object, now)).sum()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sandbox::Sandbox;

    #[tokio::test]
    async fn a_uid_has_the_name_of_its_object_also_for_a_while_after_its_deletion() {
        let sandbox = Sandbox::builder().writes(10).build();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}});
        let made = sandbox.apply(map).await.unwrap();
        let uid = made["metadata"]["uid"].as_str().unwrap();
        sandbox.delete("configmaps", Some("default"), "m").await.unwrap();
        let mut world = World::default();
        for write in sandbox.writes().all() {
            world.apply(&write);
        }
        assert_eq!((world.name_of(uid), world.name_of("default/m")), ("configmaps default/m", "default/m"));
        assert_eq!(world.gone.len(), 1);
    }

    #[test]
    fn bounds_round_surge_up_and_unavailable_down() {
        let bounds =
            |strategy: Value| Object(Arc::new(json!({"spec": {"replicas": 3, "strategy": strategy}}))).bounds();
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "50%"}});
        assert_eq!(bounds(rolling), Some(Bounds { most: 4, least: 2 }));
        assert_eq!(bounds(json!({"type": "Recreate"})), Some(Bounds { most: 3, least: 0 }));
        assert_eq!(bounds(json!({"rollingUpdate": {"maxSurge": "x%"}})), None);
    }
}
