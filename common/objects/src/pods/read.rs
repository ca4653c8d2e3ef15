//! Decodes Pods from JSON and protobuf. Fields that the structs of this module do not declare are skipped.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

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

impl<'de> Deserialize<'de> for PodStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            #[serde(borrow)]
            phase: Option<JsonStr<'a>>,
            #[serde(borrow)]
            conditions: Option<Vec<Condition<'a>>>,
            #[serde(borrow)]
            container_statuses: Option<Vec<Container<'a>>>,
            #[serde(borrow)]
            init_container_statuses: Option<Vec<Container<'a>>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Condition<'a> {
            #[serde(rename = "type", borrow)]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            status: Option<JsonStr<'a>>,
            #[serde(default, with = "seconds")]
            last_transition_time: Option<Timestamp>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Container<'a> {
            #[serde(borrow)]
            name: Option<JsonStr<'a>>,
            restart_count: Option<i32>,
        }
        let wire = Wire::deserialize(deserializer)?;
        let ready = wire.conditions.into_iter().flatten().find(|c| c.kind == "Ready");
        let ready = ready.filter(|c| c.status.as_deref() == Some("True"));
        let regular = wire.container_statuses.into_iter().flatten();
        let init = wire.init_container_statuses.into_iter().flatten();
        let init = init.map(|c| (Box::from(&*c.name.unwrap_or_default()), c.restart_count.unwrap_or(0)));
        Ok(Self {
            phase: wire.phase.map_or(Phase::Other, |phase| Phase::parse(&phase)),
            readiness: ready.map_or(Readiness::NotReady, |c| Readiness::Ready { since: c.last_transition_time }),
            max_regular_restart_count: regular.map(|c| c.restart_count.unwrap_or(0)).max().unwrap_or(0),
            init_container_restart_counts: init.filter(|(_, count)| *count > 0).collect(),
        })
    }
}
