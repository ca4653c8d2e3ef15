//! Pods, with their requests and limits.

mod resources;

use common::{
    json::null_as_default,
    meta::MetaWithGracePeriod,
    pods::{PODS, Phase},
    prelude::*,
    quantity::Amount,
    wire::{MessageSchema, messages},
};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use self::resources::ResourceList;
use super::{CountedObject, CountedUsage, DeviceLink, Gates};
use crate::{
    names,
    usage::{Amounts, ScopeFacts, Usage, UsageClass},
};

/// The fields of a Pod that decide what it uses.
#[derive(Debug, Deserialize)]
pub struct Pod {
    metadata: MetaWithGracePeriod,
    #[serde(default)]
    spec: Spec,
    #[serde(default, deserialize_with = "null_as_default")]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "null_as_default")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "null_as_default")]
    init_containers: Vec<Container>,
    resources: Option<Requirements>,
    #[serde(deserialize_with = "null_as_default")]
    overhead: ResourceList,
    active_deadline_seconds: Option<i64>,
    #[serde(deserialize_with = "null_as_default")]
    priority_class_name: Text,
    #[serde(deserialize_with = "null_as_default")]
    affinity: Affinity,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: Text,
    #[serde(deserialize_with = "null_as_default")]
    resources: Requirements,
    restart_policy: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requirements {
    #[serde(deserialize_with = "null_as_default")]
    requests: ResourceList,
    #[serde(deserialize_with = "null_as_default")]
    limits: ResourceList,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    #[serde(deserialize_with = "null_as_default")]
    pod_affinity: AffinityTerms,
    #[serde(deserialize_with = "null_as_default")]
    pod_anti_affinity: AffinityTerms,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AffinityTerms {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "null_as_default")]
    required: Vec<AffinityTerm>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", deserialize_with = "null_as_default")]
    preferred: Vec<WeightedTerm>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WeightedTerm {
    pod_affinity_term: AffinityTerm,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AffinityTerm {
    #[serde(deserialize_with = "null_as_default")]
    namespaces: Vec<Text>,
    namespace_selector: Option<Selector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_field_names, reason = "the API has these names")]
struct Status {
    #[serde(deserialize_with = "null_as_default")]
    phase: Text,
    #[serde(deserialize_with = "null_as_default")]
    qos_class: Text,
    #[serde(deserialize_with = "null_as_default")]
    conditions: Vec<PodCondition>,
    #[serde(deserialize_with = "null_as_default")]
    container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "null_as_default")]
    init_container_statuses: Vec<ContainerStatus>,
    extended_resource_claim_status: Option<ExtendedResourceClaim>,
}

#[derive(Debug, Deserialize)]
struct PodCondition {
    #[serde(rename = "type")]
    kind: Text,
    #[serde(default, deserialize_with = "null_as_default")]
    reason: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: Text,
    resources: Option<Requirements>,
    #[serde(deserialize_with = "null_as_default")]
    allocated_resources: ResourceList,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExtendedResourceClaim {
    resource_claim_name: Text,
}

impl Affinity {
    /// Whether a term selects other namespaces.
    fn crosses_namespaces(&self) -> bool {
        let crosses = |term: &AffinityTerm| !term.namespaces.is_empty() || term.namespace_selector.is_some();
        [&self.pod_affinity, &self.pod_anti_affinity].into_iter().any(|AffinityTerms { required, preferred }| {
            required.iter().any(crosses) || preferred.iter().any(|term| crosses(&term.pod_affinity_term))
        })
    }
}

impl Pod {
    fn facts(&self) -> ScopeFacts {
        ScopeFacts::Pod {
            is_terminating: self.spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0),
            is_best_effort: self.status.qos_class == "BestEffort",
            priority_class: self.spec.priority_class_name.clone(),
            has_cross_namespace_affinity: self.spec.affinity.crosses_namespaces(),
        }
    }

    /// Returns the time after which a terminating Pod no longer counts, which is a grace period after its deletion timestamp.
    fn amounts_end(&self) -> Option<Timestamp> {
        let MetaWithGracePeriod { meta, deletion_grace_period_seconds } = &self.metadata;
        let grace_period = SignedDuration::from_secs((*deletion_grace_period_seconds)?);
        Some(meta.deletion_timestamp?.saturating_add(grace_period).unwrap_or(Timestamp::MAX))
    }

    fn amounts(&self, gates: Gates) -> Amounts {
        let mut amounts = Amounts::from([(Text::new("pods"), Amount::ONE)]);
        for (name, amount) in self.requests(gates.pod_level_resources) {
            if names::is_compute_resource(&name) || name.starts_with(names::HUGE_PAGES) {
                amounts.insert(name.clone(), amount);
            } else if !names::is_extended_resource(&name) {
                continue;
            }
            amounts.insert(Text::new(&format!("{}{name}", names::REQUESTS)), amount);
        }
        for (name, amount) in self.limits(gates.pod_level_resources) {
            if names::is_compute_resource(&name) {
                amounts.insert(Text::new(&format!("{}{name}", names::LIMITS)), amount);
            }
        }
        amounts
    }
}

impl Object for Pod {
    const RESOURCE: Resource = PODS;
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::POD);

    fn meta(&self) -> &Meta {
        &self.metadata.meta
    }
}

impl CountedObject for Pod {
    fn usage(&self, gates: Gates) -> CountedUsage {
        let is_finished = Phase::parse(&self.status.phase).is_terminal();
        let amounts = if is_finished { Amounts::new() } else { self.amounts(gates) };
        let amounts_end = self.amounts_end().filter(|_| !is_finished);
        let class = UsageClass { facts: self.facts(), amounts_end };
        let claim = self.status.extended_resource_claim_status.as_ref().filter(|_| gates.extended_resources);
        let link = claim.map(|status| Box::new(DeviceLink::Pod { claim: status.resource_claim_name.clone() }));
        CountedUsage { usage: Usage { class, amounts }, link }
    }
}
