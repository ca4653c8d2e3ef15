//! The projection of the observer for objects of all kinds.

use std::collections::{BTreeMap, BTreeSet};

use common::{
    intern::Text,
    meta::{Meta, Uid},
    object::{Object, Resource},
};
use jiff::Timestamp;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value};

use crate::suite::resources;

/// The label of Pods that a Service selects; its value is the name of the Service.
pub(super) const SERVED: &str = "bench.nonet.io/service";
/// The label of Jobs that come to an end by themselves.
const ENDS: &str = "bench.nonet.io/ends";
/// The finalizer of Pods that their Job has not counted yet.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// An object: its metadata and the fields that are read of any kind.
#[derive(Debug, Deserialize)]
pub(super) struct Watched {
    pub(super) metadata: Meta,
    #[serde(default)]
    pub(super) spec: Spec,
    #[serde(default)]
    pub(super) status: Status,
    /// The endpoints of a slice.
    #[serde(default)]
    endpoints: Option<Vec<Endpoint>>,
    /// The data of a ConfigMap.
    #[serde(default)]
    data: Option<Map<String, Value>>,
    /// The rules of a ClusterRole.
    #[serde(default)]
    rules: Option<Vec<IgnoredAny>>,
    #[serde(default, rename = "aggregationRule")]
    aggregation_rule: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    #[serde(default)]
    conditions: EndpointConditions,
    target_ref: Option<Target>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EndpointConditions {
    ready: bool,
}

#[derive(Debug, Deserialize)]
struct Target {
    uid: Uid,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    pub(super) node_name: Text,
    replicas: Option<i64>,
    parallelism: Option<i64>,
    taints: Vec<Taint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Taint {
    key: Text,
    effect: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) observed_generation: i64,
    pub(super) start_time: Option<Timestamp>,
    completion_time: Option<Timestamp>,
    phase: Text,
    replicas: i64,
    ready_replicas: i64,
    available_replicas: i64,
    updated_replicas: i64,
    desired_number_scheduled: i64,
    updated_number_scheduled: i64,
    number_available: i64,
    number_ready: i64,
    active: i64,
    ready: i64,
    conditions: Vec<Condition>,
    current_healthy: i64,
    desired_healthy: i64,
    disruptions_allowed: i64,
    disrupted_pods: Map<String, Value>,
    used: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: Text,
    status: Text,
}

impl Object for Watched {
    /// Not used: the informer of each kind has its own resource.
    const RESOURCE: Resource = resources::PODS;
    type Indexes = ();

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.annotations = common::meta::Annotations::default();
    }
}

impl Watched {
    /// Whether a workload has all Pods that its spec asks for, from its newest template.
    pub(super) fn is_settled(&self, kind: &str) -> bool {
        let status = &self.status;
        let is_observed = status.observed_generation >= self.metadata.generation;
        let replicas = self.spec.replicas.unwrap_or(1);
        let all = |counts: &[i64], wanted: i64| counts.iter().all(|count| *count == wanted);
        match kind {
            "Deployment" | "StatefulSet" => {
                let counts = [status.replicas, status.updated_replicas, status.available_replicas];
                is_observed && all(&counts, replicas)
            }
            "ReplicaSet" => is_observed && all(&[status.replicas, status.available_replicas], replicas),
            "DaemonSet" => {
                let counts = [status.updated_number_scheduled, status.number_available];
                is_observed && status.desired_number_scheduled > 0 && all(&counts, status.desired_number_scheduled)
            }
            "PodDisruptionBudget" => {
                let surplus = (status.current_healthy - status.desired_healthy).max(0);
                is_observed && status.disrupted_pods.is_empty() && status.disruptions_allowed == surplus
            }
            "Job" if self.metadata.labels.get(ENDS).is_some() => status.completion_time.is_some(),
            "Job" => all(&[status.active, status.ready], self.spec.parallelism.unwrap_or(1)),
            _ => true,
        }
    }

    /// Whether the condition `Ready` is true.
    pub(super) fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|c| c.kind == "Ready" && c.status == "True")
    }

    /// Whether a Node has a taint that keeps Pods off it because it is not ready.
    pub(super) fn is_tainted(&self) -> bool {
        let keys = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
        self.spec.taints.iter().any(|taint| keys.contains(&&*taint.key) && taint.effect == "NoSchedule")
    }

    /// Whether a slice has to show this Pod as ready.
    pub(super) fn is_served(&self) -> bool {
        self.is_ready() && !self.metadata.is_deleting() && self.metadata.labels.get(SERVED).is_some()
    }

    /// The Pods that a slice shows as ready.
    pub(super) fn ready_endpoints(&self) -> BTreeSet<Uid> {
        let endpoints = self.endpoints.iter().flatten().filter(|endpoint| endpoint.conditions.ready);
        endpoints.filter_map(|endpoint| Some(endpoint.target_ref.as_ref()?.uid.clone())).collect()
    }

    /// Whether this is an object that each namespace has, with its right content.
    pub(super) fn is_kept(&self) -> bool {
        match &*self.metadata.name {
            "default" => true,
            "kube-root-ca.crt" => self.data.as_ref().is_some_and(|data| data.len() == 1),
            _ => false,
        }
    }

    /// What the controller of this kind has counted: rules of an aggregated ClusterRole, healthy Pods of a budget, or Pods and
    /// ConfigMaps of a quota.
    pub(super) fn counted(&self, kind: &str) -> i64 {
        match kind {
            "ClusterRole" => self.aggregation_rule.map_or(0, |_| self.rules.as_ref().map_or(0, Vec::len) as i64),
            "PodDisruptionBudget" => self.status.current_healthy,
            "ResourceQuota" => {
                let used =
                    ["pods", "configmaps"].iter().filter_map(|name| self.status.used.get(*name)?.parse::<i64>().ok());
                used.sum()
            }
            _ => 0,
        }
    }

    /// Whether this Pod counts as ready in the status of an owner of this kind. A ReplicaSet does not count terminating Pods; the
    /// other kinds do.
    pub(super) fn counts_as_ready(&self, kind: &str) -> bool {
        self.is_ready() && (kind != "ReplicaSet" || !self.metadata.is_deleting())
    }

    /// The number of ready Pods in the status.
    pub(super) fn ready_in_status(&self) -> i64 {
        // Each kind has one of the two.
        self.status.ready_replicas + self.status.number_ready
    }

    /// Whether this Pod is on a node and is evicted if the node is lost.
    pub(super) fn is_movable(&self) -> bool {
        let is_daemon = self.metadata.controller().is_some_and(|owner| owner.kind == "DaemonSet");
        let is_running = !matches!(&*self.status.phase, "Succeeded" | "Failed");
        !is_daemon && is_running && !self.metadata.is_deleting() && !self.spec.node_name.is_empty()
    }

    /// Whether this is a finished Pod that its Job has to count.
    pub(super) fn awaits_counting(&self) -> bool {
        let is_finished = matches!(&*self.status.phase, "Succeeded" | "Failed");
        is_finished && self.metadata.finalizers.iter().any(|finalizer| finalizer == TRACKING)
    }

    /// The scheduled time of a Job of a CronJob, from the minutes since 1970 at the end of its name.
    pub(super) fn due(&self) -> Option<Timestamp> {
        let (_, minutes) = self.metadata.name.rsplit_once('-')?;
        Timestamp::from_second(minutes.parse::<i64>().ok()?.checked_mul(60)?).ok()
    }
}
