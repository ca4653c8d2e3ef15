//! Projections of PodDisruptionBudgets, Pods, and the objects whose `spec.replicas` is the size of an owner.

use std::{borrow::Cow, collections::BTreeMap, marker::PhantomData};

use common::{
    conditions::{Condition, seconds},
    intern::Labels,
    intstr::IntOrString,
    json::{JsonStr, null_as_default, parse_count},
    meta::ReplaceableMeta,
    pods::{PODS, Phase},
    prelude::*,
    store::ByNamespace,
    wire::{MessageSchema, WithUndeclared, messages},
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// API resource of PodDisruptionBudgets.
pub const BUDGETS: Resource = Resource::namespaced("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget");
/// Type of the condition of a Pod that is about to be terminated because of a disruption.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// Reason with which a kubelet sets [`DISRUPTION_TARGET`]. Such a condition is not reset.
const TERMINATION_BY_KUBELET: &str = "TerminationByKubelet";

/// A PodDisruptionBudget.
#[derive(Debug)]
pub struct Budget {
    /// Metadata, also as received, because the status is replaced with them.
    pub metadata: ReplaceableMeta,
    /// The limits and the selector.
    pub spec: BudgetSpec,
    /// The status in the cache, zero and empty if the budget has none yet.
    pub status: WithUndeclared<Status>,
}

/// `spec` of a [`Budget`].
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSpec {
    /// `selector`; null selects nothing.
    pub selector: Selector,
    /// `minAvailable`: a number of Pods, or a percentage of the expected Pods.
    pub min_available: Option<IntOrString>,
    /// `maxUnavailable`: a number of Pods, or a percentage of the expected Pods. Has precedence over `min_available`.
    pub max_unavailable: Option<IntOrString>,
}

/// `status` of a [`Budget`]. The API server writes it, too, when it approves an eviction.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The generation of the budget from which the status was computed.
    pub observed_generation: i64,
    /// The Pods whose eviction was approved, with the time of the approval. The API server adds entries.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub disrupted_pods: BTreeMap<Text, Option<Timestamp>>,
    /// How many further Pods may be evicted now.
    pub disruptions_allowed: i32,
    /// Number of healthy Pods.
    pub current_healthy: i32,
    /// Number of healthy Pods that must remain.
    pub desired_healthy: i32,
    /// Number of Pods that should exist.
    pub expected_pods: i32,
    /// Conditions of all types.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

impl BudgetSpec {
    /// Whether the expected count is the sum over the owners of the Pods. Otherwise it is the number of Pods, or 0.
    pub fn sums_up_owners(&self) -> bool {
        self.max_unavailable.is_some() || matches!(self.min_available, Some(IntOrString::Text(_)))
    }
}

impl<'de> Deserialize<'de> for Budget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: ReplaceableMeta,
            #[serde(default)]
            spec: BudgetSpec,
            status: Option<WithUndeclared<Status>>,
        }
        let Wire { metadata, spec, status } = Wire::deserialize(deserializer)?;
        Ok(Self { metadata, spec, status: status.unwrap_or_default() })
    }
}

impl Object for Budget {
    const RESOURCE: Resource = BUDGETS;
    type Indexes = (ByNamespace,);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::POD_DISRUPTION_BUDGET);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.drop_annotations_and_finalizers();
    }
}

/// The fields of a Pod that decide whether it is healthy, and whether its condition [`DISRUPTION_TARGET`] may be stale.
#[derive(Debug, PartialEq)]
pub struct Pod {
    /// Metadata, without annotations and finalizers.
    pub metadata: Meta,
    /// Whether the condition `Ready` is `True`.
    pub is_ready: bool,
    /// The condition that becomes stale if the Pod stays; `None` for a Pod that is finished or terminating.
    pub disruption: Option<Disruption>,
}

/// A condition [`DISRUPTION_TARGET`] with the status `True` that a kubelet has not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disruption {
    /// `lastTransitionTime`; `None` if it is missing.
    pub since: Option<Timestamp>,
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            metadata: Meta,
            #[serde(borrow)]
            status: Option<WireStatus<'a>>,
        }
        #[derive(Default, Deserialize)]
        struct WireStatus<'a> {
            #[serde(borrow)]
            phase: Option<JsonStr<'a>>,
            #[serde(borrow)]
            conditions: Option<Vec<WireCondition<'a>>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct WireCondition<'a> {
            #[serde(rename = "type", borrow)]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            status: Option<JsonStr<'a>>,
            #[serde(borrow)]
            reason: Option<JsonStr<'a>>,
            #[serde(default, with = "seconds")]
            last_transition_time: Option<Timestamp>,
        }
        let Wire { metadata, status } = Wire::deserialize(deserializer)?;
        let WireStatus { phase, conditions } = status.unwrap_or_default();
        let first_true = |kind: &str| {
            let first = conditions.iter().flatten().find(|condition| condition.kind == kind);
            first.filter(|condition| condition.status.as_deref() == Some("True"))
        };
        let is_finished = phase.as_deref().map_or(Phase::Other, Phase::parse).is_terminal();
        let disruption = first_true(DISRUPTION_TARGET)
            .filter(|condition| condition.reason.as_deref() != Some(TERMINATION_BY_KUBELET))
            .filter(|_| !is_finished && !metadata.is_deleting())
            .map(|condition| Disruption { since: condition.last_transition_time });
        Ok(Self { is_ready: first_true("Ready").is_some(), disruption, metadata })
    }
}

impl Object for Pod {
    const RESOURCE: Resource = PODS;
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::POD);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.drop_annotations_and_finalizers();
    }
}

/// A kind of objects that own Pods and are cached with their size.
pub trait WorkloadKind: Send + Sync + 'static {
    /// The resource of the kind.
    const RESOURCE: Resource;
    /// Schema of an object in protobuf.
    const SCHEMA: &'static MessageSchema;
}

/// An object of the kind `K`, with its size.
#[derive(Debug)]
pub struct Workload<K> {
    /// Metadata, without annotations and finalizers.
    pub metadata: Meta,
    /// `spec.replicas`, 1 by default.
    pub replicas: i32,
    kind: PhantomData<fn() -> K>,
}

/// ReplicationControllers of `v1`.
#[derive(Debug)]
pub enum ReplicationControllers {}
/// ReplicaSets of `apps/v1`, which a Deployment may control.
#[derive(Debug)]
pub enum ReplicaSets {}
/// Deployments of `apps/v1`.
#[derive(Debug)]
pub enum Deployments {}
/// StatefulSets of `apps/v1`.
#[derive(Debug)]
pub enum StatefulSets {}

impl WorkloadKind for ReplicationControllers {
    const RESOURCE: Resource = Resource::namespaced("", "v1", "replicationcontrollers", "ReplicationController");
    const SCHEMA: &'static MessageSchema = &messages::REPLICATION_CONTROLLER;
}

impl WorkloadKind for ReplicaSets {
    const RESOURCE: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
    const SCHEMA: &'static MessageSchema = &messages::REPLICA_SET;
}

impl WorkloadKind for Deployments {
    const RESOURCE: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
    const SCHEMA: &'static MessageSchema = &messages::DEPLOYMENT;
}

impl WorkloadKind for StatefulSets {
    const RESOURCE: Resource = Resource::namespaced("apps", "v1", "statefulsets", "StatefulSet");
    const SCHEMA: &'static MessageSchema = &messages::STATEFUL_SET;
}

impl<'de, K> Deserialize<'de> for Workload<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: Meta,
            #[serde(default)]
            spec: WireSpec,
        }
        #[derive(Default, Deserialize)]
        struct WireSpec {
            replicas: Option<i64>,
        }
        let Wire { metadata, spec } = Wire::deserialize(deserializer)?;
        let replicas = parse_count("spec.replicas", spec.replicas.unwrap_or(1)).map_err(D::Error::custom)?;
        Ok(Self { metadata, replicas, kind: PhantomData })
    }
}

impl<K: WorkloadKind> Object for Workload<K> {
    const RESOURCE: Resource = K::RESOURCE;
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(K::SCHEMA);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.drop_annotations_and_finalizers();
        self.metadata.labels = Labels::default();
    }
}
