//! Deployments, ReplicaSets and Pods from the accepted writes; other kinds are in [`super::workloads`].

use std::collections::BTreeMap;

use common::{
    conditions::Condition,
    intern::Labels,
    intstr::{IntOrString, resolve_fenceposts},
    meta::{Meta, NamespacedName, Uid},
    pods::Pod,
    selector::Selector,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::workloads::{Row, Workloads};
use crate::sandbox::Write;

/// The annotation with the revision of a Deployment or a ReplicaSet.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// The fields of a Deployment that are shown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Deployment {
    pub(super) metadata: Meta,
    pub(super) spec: DeploymentSpec,
    pub(super) status: DeploymentStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeploymentSpec {
    replicas: Option<i32>,
    pub(super) min_ready_seconds: i32,
    pub(super) paused: bool,
    strategy: Strategy,
    template: Template,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Strategy {
    r#type: String,
    rolling_update: RollingUpdate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RollingUpdate {
    max_surge: Option<IntOrString>,
    max_unavailable: Option<IntOrString>,
}

/// A Pod template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Template {
    spec: TemplateSpec,
}

impl Template {
    /// The image of its first container; empty if it has none.
    pub(super) fn image(&self) -> &str {
        self.spec.containers.first().map_or("", |container| &container.image)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TemplateSpec {
    containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    image: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeploymentStatus {
    pub(super) observed_generation: i64,
    pub(super) replicas: i32,
    pub(super) updated_replicas: i32,
    pub(super) available_replicas: i32,
    pub(super) conditions: Vec<Condition>,
}

/// The bounds of a rollout, in Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    /// `replicas + maxSurge`.
    pub(super) most: i32,
    /// `replicas - maxUnavailable`.
    pub(super) least: i32,
}

impl Deployment {
    /// The wanted number of Pods.
    pub(super) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// The bounds of its strategy; `None` if the strategy has none or they cannot be read.
    pub(super) fn bounds(&self) -> Option<Bounds> {
        let replicas = self.replicas();
        if self.spec.strategy.r#type == "Recreate" {
            return Some(Bounds { most: replicas, least: 0 });
        }
        let rolling = &self.spec.strategy.rolling_update;
        let (surge, unavailable) =
            resolve_fenceposts(rolling.max_surge.as_ref(), rolling.max_unavailable.as_ref(), replicas).ok()?;
        Some(Bounds { most: replicas.saturating_add(surge), least: replicas.saturating_sub(unavailable) })
    }

    /// The revision of its current template; empty before the controller has set it.
    pub(super) fn revision(&self) -> &str {
        self.metadata.annotations.get(REVISION).unwrap_or_default()
    }

    /// The image of its first container.
    pub(super) fn image(&self) -> &str {
        self.spec.template.image()
    }
}

/// The fields of a ReplicaSet that are shown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReplicaSet {
    pub(super) metadata: Meta,
    pub(super) spec: ReplicaSetSpec,
    pub(super) status: ReplicaSetStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReplicaSetSpec {
    replicas: Option<i32>,
    pub(super) min_ready_seconds: i32,
    template: Template,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReplicaSetStatus {
    pub(super) observed_generation: i64,
}

impl ReplicaSet {
    /// The wanted number of Pods.
    pub(super) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// The revision of its template.
    pub(super) fn revision(&self) -> i64 {
        self.metadata.annotations.get(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The image of its first container.
    pub(super) fn image(&self) -> &str {
        self.spec.template.image()
    }
}

/// Numbers of Pods by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Census {
    /// Not running yet.
    pub(super) pending: i32,
    /// Running, not ready.
    pub(super) running: i32,
    /// Ready for less than `minReadySeconds`.
    pub(super) ready: i32,
    /// Ready for long enough.
    pub(super) available: i32,
    /// Being deleted.
    pub(super) terminating: i32,
    /// Finished.
    pub(super) over: i32,
}

impl Census {
    /// Pods that count as replicas.
    pub(super) fn active(&self) -> i32 {
        self.pending + self.running + self.ready + self.available
    }

    /// The numbers with their names, in the order of a Pod's life.
    pub(super) fn named(&self) -> [(&'static str, i32); 6] {
        [
            ("pending", self.pending),
            ("running", self.running),
            ("ready", self.ready),
            ("available", self.available),
            ("terminating", self.terminating),
            ("ended", self.over),
        ]
    }

    /// The numbers that are not zero, in one line.
    pub(super) fn line(&self) -> String {
        let counted = self.named().into_iter().filter(|(_, n)| *n > 0);
        counted.map(|(state, n)| format!("{n} {state}")).collect::<Vec<_>>().join(", ")
    }
}

impl std::ops::Add for Census {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            pending: self.pending + other.pending,
            running: self.running + other.running,
            ready: self.ready + other.ready,
            available: self.available + other.available,
            terminating: self.terminating + other.terminating,
            over: self.over + other.over,
        }
    }
}

/// All objects that are shown, by name.
#[derive(Debug, Default)]
pub(super) struct World {
    deployments: BTreeMap<NamespacedName, Deployment>,
    sets: BTreeMap<Uid, ReplicaSet>,
    /// The ReplicaSets of each Deployment.
    sets_of: BTreeMap<Uid, Vec<Uid>>,
    /// Pods by the uid of their controller; Pods without a controller have the empty uid.
    pods: BTreeMap<Uid, BTreeMap<NamespacedName, Pod>>,
    workloads: Workloads,
}

/// Reads an object; `None` if a valid object does not fit the projection.
pub(super) fn read<'a, K: Deserialize<'a>>(value: &'a Value) -> Option<K> {
    K::deserialize(value).ok()
}

/// The uid of the controller of a Pod; empty if it has none.
fn controller_uid(pod: &Pod) -> Uid {
    pod.meta.controller().map_or_else(|| Uid::new(""), |owner| owner.uid.clone())
}

impl World {
    /// Takes over the object of a write. Writes to other kinds have no effect.
    pub(super) fn apply(&mut self, write: &Write) {
        let (before, after) = (write.before(), write.after());
        match (&*write.group, &*write.resource) {
            ("apps", "deployments") => {
                let key = NamespacedName::new(&write.namespace, &write.name);
                match after.as_deref().and_then(read) {
                    Some(deployment) => self.deployments.insert(key, deployment),
                    None => self.deployments.remove(&key),
                };
            }
            ("apps", "replicasets") => {
                if let Some(old) = before.as_deref().and_then(read) {
                    self.remove_set(&old);
                }
                if let Some(new) = after.as_deref().and_then(read) {
                    self.add_set(new);
                }
            }
            ("", "pods") => {
                if let Some(old) = before.as_deref().and_then(read) {
                    self.remove_pod(&old);
                }
                if let Some(new) = after.as_deref().and_then(read) {
                    self.add_pod(new);
                }
            }
            _ => self.workloads.apply(write),
        }
    }

    /// All StatefulSets, DaemonSets, Services, Jobs and CronJobs.
    pub(super) fn rows(&self, now: Timestamp) -> Vec<Row> {
        self.workloads.rows(self, now)
    }

    /// The number of ready Pods of a Service with this selector.
    pub(super) fn ready_pods(&self, namespace: &str, selector: &Labels) -> usize {
        let selector = Selector::from_map(selector.clone());
        let serves = |pod: &&Pod| pod.meta.namespace == *namespace && selector.matches(&pod.meta.labels);
        let pods = self.pods.values().flat_map(BTreeMap::values).filter(serves);
        // A terminating Pod may be ready for its probes, but gets no new connections.
        pods.filter(|pod| pod.is_ready() && !pod.phase.is_terminal() && !pod.meta.is_deleting()).count()
    }

    fn add_set(&mut self, set: ReplicaSet) {
        if let Some(owner) = set.metadata.controller() {
            self.sets_of.entry(owner.uid.clone()).or_default().push(set.metadata.uid.clone());
        }
        self.sets.insert(set.metadata.uid.clone(), set);
    }

    fn remove_set(&mut self, set: &ReplicaSet) {
        self.sets.remove(&set.metadata.uid);
        let Some(owner) = set.metadata.controller() else { return };
        if let Some(sets) = self.sets_of.get_mut(&owner.uid) {
            sets.retain(|uid| *uid != set.metadata.uid);
            if sets.is_empty() {
                self.sets_of.remove(&owner.uid);
            }
        }
    }

    fn add_pod(&mut self, pod: Pod) {
        self.pods.entry(controller_uid(&pod)).or_default().insert(pod.meta.key(), pod);
    }

    fn remove_pod(&mut self, pod: &Pod) {
        let owner = controller_uid(pod);
        if let Some(pods) = self.pods.get_mut(&owner) {
            pods.remove(&pod.meta.key());
            if pods.is_empty() {
                self.pods.remove(&owner);
            }
        }
    }

    /// All Deployments by name.
    pub(super) fn deployments(&self) -> impl Iterator<Item = (&NamespacedName, &Deployment)> {
        self.deployments.iter()
    }

    /// A Deployment.
    pub(super) fn deployment(&self, key: &NamespacedName) -> Option<&Deployment> {
        self.deployments.get(key)
    }

    /// The Deployment that controls a ReplicaSet, if it is here.
    pub(super) fn deployment_of(&self, set: &ReplicaSet) -> Option<&Deployment> {
        let owner = set.metadata.controller()?;
        let key = NamespacedName::new(&set.metadata.namespace, &owner.name);
        self.deployments.get(&key).filter(|d| d.metadata.uid == owner.uid)
    }

    /// A ReplicaSet.
    pub(super) fn set(&self, uid: &Uid) -> Option<&ReplicaSet> {
        self.sets.get(uid)
    }

    /// The ReplicaSets of a Deployment, newest template first.
    pub(super) fn sets_of(&self, deployment: &Deployment) -> Vec<&ReplicaSet> {
        let uids = self.sets_of.get(&deployment.metadata.uid).into_iter().flatten();
        let mut sets: Vec<&ReplicaSet> = uids.filter_map(|uid| self.sets.get(uid)).collect();
        sets.sort_by_key(|set| (std::cmp::Reverse(set.revision()), set.metadata.name.clone()));
        sets
    }

    /// The states of the Pods of a ReplicaSet.
    pub(super) fn census(&self, set: &ReplicaSet, now: Timestamp) -> Census {
        self.census_of_owner(&set.metadata.uid, set.spec.min_ready_seconds, now)
    }

    /// The states of the Pods of a controller.
    pub(super) fn census_of_owner(&self, owner: &Uid, min_ready_seconds: i32, now: Timestamp) -> Census {
        let mut census = Census::default();
        for pod in self.pods.get(owner).into_iter().flat_map(BTreeMap::values) {
            let place = if pod.meta.is_deleting() {
                &mut census.terminating
            } else if pod.phase.is_terminal() {
                &mut census.over
            } else if pod.is_available(min_ready_seconds, now) {
                &mut census.available
            } else if pod.is_ready() {
                &mut census.ready
            } else if pod.phase == common::pods::Phase::Running {
                &mut census.running
            } else {
                &mut census.pending
            };
            *place += 1;
        }
        census
    }

    /// The states of the Pods of a Deployment.
    pub(super) fn census_of(&self, deployment: &Deployment, now: Timestamp) -> Census {
        let uids = self.sets_of.get(&deployment.metadata.uid).into_iter().flatten();
        let sets = uids.filter_map(|uid| self.sets.get(uid));
        sets.map(|set| self.census(set, now)).fold(Census::default(), std::ops::Add::add)
    }
}
