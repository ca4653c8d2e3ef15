//! What is read of Pods.

use common::{
    conditions::{FALSE, TRUE, seconds},
    intern::{Labels, Text},
    meta::{Annotations, Meta, Owners},
    object::{Object, Resource},
    pods::{PODS, Phase},
    store::{Index, IndexValue},
    taints::Tolerations,
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::DISRUPTION_TARGET;

/// Whether a Pod says that it can serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyCondition {
    /// It says nothing.
    #[default]
    Absent,
    /// It says no.
    False,
    /// It says anything else.
    Other,
}

/// A Pod.
#[derive(Clone, Debug, Default)]
pub struct CachedPod {
    /// Metadata, without what nobody asks for here: labels, annotations, owners, finalizers.
    pub meta: Meta,
    /// The node it is assigned to; empty if none.
    pub node: Text,
    /// What it tolerates.
    pub tolerations: Tolerations,
    /// Where it is in its life.
    pub phase: Phase,
    /// Whether its node threw it out for want of resources.
    pub evicted: bool,
    /// Whether it says that it can serve.
    pub ready: ReadyCondition,
    /// Since when it is known to go because of a disruption, if it is.
    pub disrupted: Option<Timestamp>,
}

impl Object for CachedPod {
    const RESOURCE: Resource = PODS;

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn trim(&mut self) {
        self.meta.labels = Labels::default();
        self.meta.annotations = Annotations::default();
        self.meta.owners = Owners::default();
        self.meta.finalizers = Box::default();
    }
}

/// Files Pods under their node.
pub(crate) fn by_node() -> Index<CachedPod> {
    Index {
        name: "node",
        of: |_, pod| pod.filter(|pod| !pod.node.is_empty()).map(|pod| IndexValue::Text(pod.node.clone())),
    }
}

impl<'de> Deserialize<'de> for CachedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: Meta,
            #[serde(default)]
            spec: Option<Spec>,
            #[serde(default)]
            status: Option<Status>,
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
        struct Status {
            #[serde(default)]
            phase: Text,
            #[serde(default)]
            reason: Text,
            conditions: Option<Vec<Condition>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Condition {
            #[serde(rename = "type")]
            kind: Text,
            #[serde(default)]
            status: Text,
            #[serde(default, with = "seconds")]
            last_transition_time: Option<Timestamp>,
        }
        let Wire { metadata, spec, status } = Wire::deserialize(deserializer)?;
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        let mut pod = Self {
            meta: metadata,
            node: spec.node_name,
            tolerations: spec.tolerations,
            phase: Phase::parse(&status.phase),
            evicted: status.reason == "Evicted",
            ready: ReadyCondition::Absent,
            disrupted: None,
        };
        for condition in status.conditions.into_iter().flatten() {
            if condition.kind == "Ready" && pod.ready == ReadyCondition::Absent {
                pod.ready = if condition.status == FALSE { ReadyCondition::False } else { ReadyCondition::Other };
            } else if condition.kind == DISRUPTION_TARGET && condition.status == TRUE {
                pod.disrupted = Some(condition.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH));
            }
        }
        Ok(pod)
    }
}
