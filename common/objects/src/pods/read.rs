//! Decodes Pods from JSON and protobuf. Fields that the structs of this module do not declare are skipped.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de::IgnoredAny};

use super::{Phase, Pod, PodSpec, PodStatus, Readiness};
use crate::{conditions::seconds, intern::Text, json::JsonStr, meta::Meta};

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: Meta,
            spec: Option<PodSpec>,
            status: Option<PodStatus>,
        }
        let Wire { metadata, spec, status } = Wire::deserialize(deserializer)?;
        Ok(Self::new(metadata, spec.unwrap_or_default(), &status.unwrap_or_default()))
    }
}

impl<'de> Deserialize<'de> for PodSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            #[serde(default)]
            node_name: Text,
            #[serde(borrow)]
            init_containers: Option<Vec<Container<'a>>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Container<'a> {
            #[serde(borrow)]
            name: Cow<'a, str>,
            #[serde(borrow)]
            restart_policy: Option<JsonStr<'a>>,
        }
        let wire = Wire::deserialize(deserializer)?;
        let restartable = wire.init_containers.into_iter().flatten();
        let restartable = restartable.filter(|c| c.restart_policy.as_deref() == Some("Always"));
        Ok(Self {
            node_name: wire.node_name,
            restartable_init_container_names: restartable.map(|c| c.name.into()).collect(),
        })
    }
}

/// A condition in the `status` of a Pod, for projections that read other fields than [`PodStatus`].
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodCondition<'a> {
    /// `type` of the condition.
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    /// `status`: `True`, `False` or `Unknown`.
    #[serde(borrow)]
    pub status: Option<JsonStr<'a>>,
    /// `lastTransitionTime`: when the status of the condition changed.
    #[serde(default, with = "seconds")]
    pub last_transition_time: Option<Timestamp>,
}

impl PodCondition<'_> {
    /// Returns the condition `Ready`; `None` if it is missing.
    pub fn find_ready(conditions: Option<&[Self]>) -> Option<&Self> {
        conditions?.iter().find(|condition| condition.kind == "Ready")
    }

    /// Whether the status of the condition is `True`.
    pub fn is_true(&self) -> bool {
        self.status.as_deref() == Some("True")
    }

    /// Returns the state of the condition `Ready`.
    pub fn readiness(conditions: Option<&[Self]>) -> Readiness {
        match Self::find_ready(conditions) {
            Some(ready) if ready.is_true() => Readiness::Ready { since: ready.last_transition_time },
            _ => Readiness::NotReady,
        }
    }
}

impl<'de> Deserialize<'de> for PodStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RawPodStatus::<IgnoredAny>::deserialize(deserializer).map(|status| status.pod_status())
    }
}

/// `status` of a Pod with borrowed texts, for projections that need more fields than [`PodStatus`].
///
/// `S` is decoded from the `state` of each container; a container without a state has the default.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "S: Default + Deserialize<'de>"))]
pub struct RawPodStatus<'a, S> {
    #[serde(borrow)]
    phase: Option<JsonStr<'a>>,
    #[serde(borrow)]
    conditions: Option<Vec<PodCondition<'a>>>,
    #[serde(borrow)]
    container_statuses: Option<Vec<RawContainerStatus<'a, S>>>,
    #[serde(borrow)]
    init_container_statuses: Option<Vec<RawContainerStatus<'a, S>>>,
}

/// The status of a container in [`RawPodStatus`].
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "S: Default + Deserialize<'de>"))]
pub struct RawContainerStatus<'a, S> {
    #[serde(borrow)]
    name: Option<JsonStr<'a>>,
    restart_count: Option<i32>,
    /// `state`; the default if it is absent.
    #[serde(default)]
    pub state: S,
}

impl<S> RawContainerStatus<'_, S> {
    /// Returns `name`; empty if it is absent.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Returns `restartCount`; 0 if it is absent or negative.
    pub fn restart_count(&self) -> i32 {
        self.restart_count.unwrap_or(0).max(0)
    }
}

impl<'a, S> RawPodStatus<'a, S> {
    /// Parses `phase`.
    pub fn phase(&self) -> Phase {
        self.phase.as_deref().map_or(Phase::Other, Phase::parse)
    }

    /// Iterates over `conditions`, in the order of the API.
    pub fn conditions(&self) -> impl Iterator<Item = &PodCondition<'a>> {
        self.conditions.iter().flatten()
    }

    /// Returns the condition `Ready`, if it has this status.
    pub fn ready_condition(&self, status: &str) -> Option<&PodCondition<'a>> {
        PodCondition::find_ready(self.conditions.as_deref()).filter(|ready| ready.status.as_deref() == Some(status))
    }

    /// Iterates over the regular containers.
    pub fn regular_containers(&self) -> impl Iterator<Item = &RawContainerStatus<'a, S>> {
        self.container_statuses.iter().flatten()
    }

    /// Iterates over the init containers.
    pub fn init_containers(&self) -> impl Iterator<Item = &RawContainerStatus<'a, S>> {
        self.init_container_statuses.iter().flatten()
    }

    /// Returns the fields that [`Pod`] needs.
    pub fn pod_status(&self) -> PodStatus {
        let restarted = self.init_containers().filter(|container| container.restart_count() > 0);
        PodStatus {
            phase: self.phase(),
            readiness: PodCondition::readiness(self.conditions.as_deref()),
            max_regular_restart_count: self
                .regular_containers()
                .map(RawContainerStatus::restart_count)
                .max()
                .unwrap_or(0),
            init_container_restart_counts: restarted.map(|c| (c.name().into(), c.restart_count())).collect(),
        }
    }
}
