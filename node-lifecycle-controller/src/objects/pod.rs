//! The fields of Pods that this program reads and caches.

use std::num::NonZeroU32;

use common::{
    conditions::{FALSE, TRUE, seconds},
    intern::{Labels, Text},
    json::JsonStr,
    meta::{Annotations, Meta, MetaWithGracePeriod, OwnerRefs},
    object::{Object, Resource},
    pods::{PODS, Phase},
    store::{IndexValue, StoreIndex},
    taints::Tolerations,
    wire::{MessageSchema, messages},
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// Type of the condition that marks a Pod as the target of a disruption, for example of an eviction because of a taint.
pub const DISRUPTION_TARGET_CONDITION: &str = "DisruptionTarget";

/// Status of the condition `Ready` of a Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodReadyStatus {
    /// The condition is missing.
    #[default]
    Missing,
    /// The Pod is already marked as not ready.
    False,
    /// Any status except `False`: the Pod is marked as not ready if its node is not ready.
    Other,
}

/// Time of the condition `DisruptionTarget`; by default, the Pod does not have the condition with the status `True`.
///
/// The time is stored in whole seconds (the precision of the API) from 1970 to 2106, plus one, in 4 bytes; an
/// `Option<Timestamp>` takes 24.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisruptionTime(Option<NonZeroU32>);

impl DisruptionTime {
    /// Converts a time; times outside the range are clamped.
    pub fn new(since: Timestamp) -> Self {
        Self(NonZeroU32::new((since.as_second().clamp(0, i64::from(u32::MAX) - 1) + 1) as u32))
    }

    /// Returns the time; `None` if the Pod does not have the condition.
    pub fn get(self) -> Option<Timestamp> {
        Timestamp::from_second(i64::from(self.0?.get()) - 1).ok()
    }

    /// Whether the Pod has the condition with the status `True`.
    pub fn is_some(self) -> bool {
        self.0.is_some()
    }
}

/// The fields of a Pod that the cache stores.
#[derive(Clone, Debug, Default)]
pub struct CachedPod {
    /// Metadata without labels, annotations, owners and finalizers, which this program does not read.
    pub meta: Meta,
    /// `spec.nodeName`; empty if the Pod is not assigned to a node.
    pub node_name: Text,
    /// `spec.tolerations`, including those that admission added.
    pub tolerations: Tolerations,
    /// `status.phase`; a missing and an unknown phase are not distinguished.
    pub phase: Phase,
    /// Whether `status.reason` is `Evicted`: the kubelet evicted the Pod because of a lack of resources.
    pub is_evicted_by_kubelet: bool,
    /// Status of the first condition `Ready`.
    pub ready_status: PodReadyStatus,
    /// Last transition of the condition `DisruptionTarget` if its status is `True`.
    pub disruption_time: DisruptionTime,
    /// Whether the Pod was deleted with a grace period of 0, so that it exists only until its finalizers are removed.
    pub is_deleted_without_grace: bool,
}

impl Object for CachedPod {
    const RESOURCE: Resource = PODS;
    type Indexes = (PodsByNode, TerminatingPodsByNode);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::POD);

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn drop_unneeded_fields(&mut self) {
        self.meta.labels = Labels::default();
        self.meta.annotations = Annotations::default();
        self.meta.owners = OwnerRefs::default();
        self.meta.finalizers = Box::default();
    }
}

impl CachedPod {
    /// Whether the phase is not `Pending`, `Running` or `Unknown`. As in upstream, an empty phase counts as finished.
    pub fn is_finished(&self) -> bool {
        !matches!(self.phase, Phase::Pending | Phase::Running | Phase::Unknown)
    }

    /// Whether the removal of the Pod is complete, except for finalizers: its phase is terminal, and it was deleted with a grace
    /// period of 0. A further request would change nothing.
    pub fn is_removed(&self) -> bool {
        self.is_deleted_without_grace && self.phase.is_terminal()
    }

    /// Returns the JSON of a condition `DisruptionTarget` with the status `True` since this time.
    pub(crate) fn disruption_target_condition(&self, (reason, message): (&str, &str), since: Timestamp) -> Value {
        let mut condition = json!({"type": DISRUPTION_TARGET_CONDITION, "status": TRUE, "reason": reason,
            "message": message, "lastTransitionTime": seconds::format_rfc3339(since)});
        if self.meta.generation > 0 {
            condition["observedGeneration"] = json!(self.meta.generation);
        }
        condition
    }
}

/// Index of the Pods that are assigned to a node, by the name of the node.
#[derive(Clone, Copy, Debug)]
pub struct PodsByNode;

impl StoreIndex<CachedPod> for PodsByNode {
    fn value(_: &Meta, pod: Option<&CachedPod>) -> Option<IndexValue> {
        pod.filter(|pod| !pod.node_name.is_empty()).map(|pod| IndexValue::Text(pod.node_name.clone()))
    }
}

/// Index of the terminating Pods by the name of their node; the name is empty for a Pod that has no node.
#[derive(Clone, Copy, Debug)]
pub struct TerminatingPodsByNode;

impl StoreIndex<CachedPod> for TerminatingPodsByNode {
    fn value(meta: &Meta, pod: Option<&CachedPod>) -> Option<IndexValue> {
        pod.filter(|_| meta.is_deleting()).map(|pod| IndexValue::Text(pod.node_name.clone()))
    }
}

impl<'de> Deserialize<'de> for CachedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            metadata: MetaWithGracePeriod,
            spec: Option<Spec>,
            #[serde(borrow)]
            status: Option<Status<'a>>,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            #[serde(default)]
            node_name: Text,
            #[serde(default)]
            tolerations: Tolerations,
        }
        #[derive(Default, Deserialize)]
        struct Status<'a> {
            #[serde(borrow)]
            phase: Option<JsonStr<'a>>,
            #[serde(borrow)]
            reason: Option<JsonStr<'a>>,
            #[serde(borrow)]
            conditions: Option<Vec<Condition<'a>>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Condition<'a> {
            #[serde(borrow, rename = "type")]
            kind: Option<JsonStr<'a>>,
            #[serde(borrow)]
            status: Option<JsonStr<'a>>,
            #[serde(default, with = "seconds")]
            last_transition_time: Option<Timestamp>,
        }
        let Wire { metadata, spec, status } = Wire::deserialize(deserializer)?;
        let MetaWithGracePeriod { meta, deletion_grace_period_seconds } = metadata;
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        let mut pod = Self {
            meta,
            node_name: spec.node_name,
            tolerations: spec.tolerations,
            phase: Phase::parse(status.phase.as_deref().unwrap_or_default()),
            is_evicted_by_kubelet: status.reason.as_deref() == Some("Evicted"),
            ready_status: PodReadyStatus::Missing,
            disruption_time: DisruptionTime::default(),
            is_deleted_without_grace: deletion_grace_period_seconds == Some(0),
        };
        for condition in status.conditions.into_iter().flatten() {
            let (kind, status) = (condition.kind.as_deref(), condition.status.as_deref());
            if kind == Some("Ready") && pod.ready_status == PodReadyStatus::Missing {
                pod.ready_status = if status == Some(FALSE) { PodReadyStatus::False } else { PodReadyStatus::Other };
            } else if kind == Some(DISRUPTION_TARGET_CONDITION) && status == Some(TRUE) {
                pod.disruption_time =
                    DisruptionTime::new(condition.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH));
            }
        }
        Ok(pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_counts_while_it_is_true() {
        let pod = |status: &str, since: Value| {
            let condition = json!({"type": DISRUPTION_TARGET_CONDITION, "status": status, "lastTransitionTime": since});
            let pod = json!({"metadata": {"name": "p"}, "status": {"conditions": [condition]}});
            serde_json::from_str::<CachedPod>(&pod.to_string()).unwrap().disruption_time
        };
        let time: Timestamp = "2026-11-21T09:00:00Z".parse().unwrap();
        assert_eq!(pod("True", json!("2026-11-21T09:00:00Z")).get(), Some(time));
        assert_eq!(pod("True", json!(null)).get(), Some(Timestamp::UNIX_EPOCH));
        assert_eq!(pod("False", json!("2026-11-21T09:00:00Z")).get(), None);
        assert!(pod("True", json!(null)).is_some() && !pod("Unknown", json!(null)).is_some());
    }
}
