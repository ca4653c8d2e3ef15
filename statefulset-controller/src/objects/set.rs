use std::ops::RangeInclusive;

use common::{
    intstr::IntOrString,
    json::{null_as_default, parse_count},
    meta::ReplaceableMeta,
    prelude::*,
    store::ByNamespace,
    wire::{MessageSchema, RawMessage, WithUndeclared, messages},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use super::{STATEFUL_SETS, VolumeClaimSpec};

/// The fields of a StatefulSet that the controller reads.
///
/// The decoder refuses values that the API server's validation refuses: negative counts, no selector, no template.
#[derive(Debug)]
pub struct StatefulSet {
    /// Metadata, decoded without finalizers.
    pub metadata: ReplaceableMeta,
    /// `spec.replicas`: the number of ordinals in range, not negative.
    pub replicas: i32,
    /// The lowest ordinal (`spec.ordinals.start`), 0 by default.
    pub first_ordinal: i32,
    /// How long a Pod must be ready before it is available (`spec.minReadySeconds`), 0 by default.
    pub min_ready_seconds: i32,
    /// `spec.selector`, which is never empty.
    pub selector: Selector,
    /// `spec.template` as the server sent it.
    pub template: RawMessage,
    /// `spec.volumeClaimTemplates` in their order.
    pub volume_claim_templates: Vec<VolumeClaimTemplate>,
    /// The subdomain of the Pods (`spec.serviceName`).
    pub service_name: Text,
    /// The order of creations and deletions (`spec.podManagementPolicy`). Unknown values count as `OrderedReady`.
    pub pod_management_policy: PodManagementPolicy,
    /// `spec.updateStrategy`. Unknown types count as `RollingUpdate`.
    pub update_strategy: UpdateStrategy,
    /// How many unused revisions are kept (`spec.revisionHistoryLimit`), 10 by default. A negative number keeps all.
    pub revision_history_limit: i32,
    /// `spec.persistentVolumeClaimRetentionPolicy`. If one of the two values is unknown, all claims are retained.
    pub volume_claim_retention_policy: VolumeClaimRetentionPolicy,
    /// The status in the cache, zero and empty if the set has no status yet.
    pub status: WithUndeclared<Status>,
}

/// An element of `spec.volumeClaimTemplates`.
#[derive(Clone, Debug)]
pub struct VolumeClaimTemplate {
    /// `metadata.name`, which is also the name of the volume.
    pub name: Text,
    /// The requested storage, access modes, storage class and volume mode.
    pub spec: VolumeClaimSpec,
    /// The complete template as the server sent it.
    pub raw: RawMessage,
}

/// The order in which Pods are created and deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodManagementPolicy {
    /// One Pod after the other, each after the Pods before it are available.
    OrderedReady,
    /// All Pods at the same time.
    Parallel,
}

/// The way in which a changed template reaches existing Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateStrategy {
    /// Users delete Pods, and the controller creates the replacements from the new template.
    OnDelete,
    /// The controller replaces outdated Pods. `None` if `rollingUpdate` is not set.
    RollingUpdate(Option<RollingUpdate>),
}

/// The limits of a rolling update (`spec.updateStrategy.rollingUpdate`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// The number of Pods, counted from the lowest ordinal, that keep the current revision. 0 by default.
    #[serde(deserialize_with = "null_as_default")]
    pub partition: i32,
    /// How many Pods may be unavailable at the same time, as a number or a percentage. 1 by default.
    pub max_unavailable: Option<IntOrString>,
}

/// What happens to a claim when its Pod or its set is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumeClaimRetention {
    /// The claim is kept.
    #[default]
    Retain,
    /// The garbage collector deletes the claim.
    Delete,
}

/// What happens to claims (`spec.persistentVolumeClaimRetentionPolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeClaimRetentionPolicy {
    /// What happens to the claims when the set is deleted.
    pub when_deleted: VolumeClaimRetention,
    /// What happens to the claims of a Pod when a scale-down deletes the Pod.
    pub when_scaled: VolumeClaimRetention,
}

/// The fields of a set's `status` that this controller writes.
///
/// The conditions belong to other writers and are kept as they were received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Number of Pods, terminating Pods included.
    pub replicas: i32,
    /// Number of Pods that have been ready for `minReadySeconds`.
    pub available_replicas: i32,
    /// Number of Pods that are running and ready.
    pub ready_replicas: i32,
    /// Number of Pods that have the current revision and are not terminating.
    pub current_replicas: i32,
    /// Number of Pods that have the update revision and are not terminating.
    pub updated_replicas: i32,
    /// Name of the revision before the rolling update. The update revision becomes the current one when the rollout is
    /// complete.
    pub current_revision: Text,
    /// Name of the revision of the set's template.
    pub update_revision: Text,
    /// The generation of the set from which the status was computed.
    pub observed_generation: i64,
    /// Number of times that the name of a new revision was taken by a revision with other data.
    #[serde(serialize_with = "none_as_zero")]
    pub collision_count: Option<i32>,
}

impl Status {
    /// Returns whether this status must be written over `stored`. A different collision count alone is no reason to write.
    pub fn differs_from(&self, stored: &Self) -> bool {
        let shown = |s: &Self| Self { observed_generation: 0, collision_count: None, ..s.clone() };
        self.observed_generation > stored.observed_generation || shown(self) != shown(stored)
    }
}

#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
fn none_as_zero<S: Serializer>(n: &Option<i32>, serializer: S) -> Result<S::Ok, S::Error> {
    n.unwrap_or(0).serialize(serializer)
}

impl StatefulSet {
    /// Returns whether each Pod waits for the Pods before it (`OrderedReady`).
    pub fn is_ordered_ready(&self) -> bool {
        self.pod_management_policy == PodManagementPolicy::OrderedReady
    }

    /// Returns the `replicas` ordinals from `first_ordinal` on.
    ///
    /// The range can hold two thousand million ordinals, so no code may visit each of them. The range ends at `i32::MAX`, the
    /// greatest ordinal.
    pub fn ordinals(&self) -> RangeInclusive<i32> {
        let last = i64::from(self.first_ordinal) + i64::from(self.replicas) - 1;
        self.first_ordinal..=i32::try_from(last).unwrap_or(i32::MAX)
    }

    /// Returns whether the ordinal is in [`ordinals`](Self::ordinals).
    pub fn contains_ordinal(&self, ordinal: i32) -> bool {
        self.ordinals().contains(&ordinal)
    }

    /// Returns `<set>-<ordinal>`.
    pub fn pod_name(&self, ordinal: i32) -> String {
        format!("{}-{ordinal}", self.metadata.name)
    }

    /// Returns `<template>-<set>-<ordinal>`.
    pub fn volume_claim_name(&self, template: &VolumeClaimTemplate, ordinal: i32) -> String {
        format!("{}-{}-{ordinal}", template.name, self.metadata.name)
    }

    /// Returns the number of Pods, counted from the lowest ordinal, that a rolling update does not replace.
    pub fn partition(&self) -> i32 {
        match &self.update_strategy {
            UpdateStrategy::RollingUpdate(Some(rolling)) => rolling.partition,
            UpdateStrategy::RollingUpdate(None) | UpdateStrategy::OnDelete => 0,
        }
    }
}

impl Object for StatefulSet {
    const RESOURCE: Resource = STATEFUL_SETS;
    type Indexes = (ByNamespace,);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::STATEFUL_SET);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.finalizers = Box::default();
    }

    /// A revision has all fields of the template, and a claim all fields of its template.
    fn has_hidden_fields(&self) -> bool {
        let mut claims = self.volume_claim_templates.iter();
        self.template.has_unknown_fields(&messages::POD_TEMPLATE_SPEC)
            || claims.any(|claim| claim.raw.has_unknown_fields(&messages::PERSISTENT_VOLUME_CLAIM))
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: ReplaceableMeta,
    spec: WireSpec,
    status: Option<WithUndeclared<Status>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSpec {
    replicas: Option<i64>,
    min_ready_seconds: Option<i64>,
    ordinals: Option<Ordinals>,
    #[serde(default)]
    selector: Value,
    template: Option<RawMessage>,
    volume_claim_templates: Option<Vec<RawMessage>>,
    #[serde(default, deserialize_with = "null_as_default")]
    service_name: Text,
    #[serde(default, deserialize_with = "null_as_default")]
    pod_management_policy: Text,
    update_strategy: Option<WireUpdate>,
    revision_history_limit: Option<i32>,
    persistent_volume_claim_retention_policy: Option<WireRetention>,
}

#[derive(Deserialize)]
struct Ordinals {
    #[serde(default)]
    start: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireUpdate {
    #[serde(default, rename = "type")]
    kind: Text,
    rolling_update: Option<RollingUpdate>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireRetention {
    #[serde(default)]
    when_deleted: Text,
    #[serde(default)]
    when_scaled: Text,
}

impl<'de> Deserialize<'de> for StatefulSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Wire::deserialize(deserializer)?.check().map_err(D::Error::custom)
    }
}

impl Wire {
    fn check(self) -> Result<StatefulSet, String> {
        let Self { metadata, spec, status } = self;
        let replicas = parse_count("spec.replicas", spec.replicas.ok_or("spec.replicas is missing")?)?;
        let min_ready_seconds = parse_count("spec.minReadySeconds", spec.min_ready_seconds.unwrap_or(0))?;
        let first_ordinal = parse_count("spec.ordinals.start", spec.ordinals.map_or(0, |ordinals| ordinals.start))?;
        let selector = Selector::from_value(&spec.selector);
        if selector.is_null() {
            return Err("spec.selector is missing".to_owned());
        }
        if selector.is_empty() {
            return Err("spec.selector selects every Pod".to_owned());
        }
        let template = spec.template.ok_or("spec.template is missing")?;
        let claims = spec.volume_claim_templates.unwrap_or_default().into_iter().map(claim_template);
        let update_strategy = match spec.update_strategy {
            Some(update) if &*update.kind == "OnDelete" => UpdateStrategy::OnDelete,
            Some(update) => UpdateStrategy::RollingUpdate(update.rolling_update),
            None => UpdateStrategy::RollingUpdate(None),
        };
        if let UpdateStrategy::RollingUpdate(Some(RollingUpdate { partition: partition @ ..0, .. })) = update_strategy {
            return Err(format!("spec.updateStrategy.rollingUpdate.partition is {partition}"));
        }
        // Unknown values count as the values that delete less: `OrderedReady`, and `Retain` for both events.
        let is_parallel = &*spec.pod_management_policy == "Parallel";
        let retention = |word: &Text| match word.as_str() {
            "Delete" => Some(VolumeClaimRetention::Delete),
            "Retain" => Some(VolumeClaimRetention::Retain),
            _ => None,
        };
        let retention_policy = spec.persistent_volume_claim_retention_policy.and_then(|policy| {
            let (when_deleted, when_scaled) = (retention(&policy.when_deleted)?, retention(&policy.when_scaled)?);
            Some(VolumeClaimRetentionPolicy { when_deleted, when_scaled })
        });
        let pod_management_policy =
            if is_parallel { PodManagementPolicy::Parallel } else { PodManagementPolicy::OrderedReady };
        Ok(StatefulSet {
            metadata,
            replicas,
            first_ordinal,
            min_ready_seconds,
            selector,
            template,
            volume_claim_templates: claims.collect::<Result<_, _>>()?,
            service_name: spec.service_name,
            pod_management_policy,
            update_strategy,
            revision_history_limit: spec.revision_history_limit.unwrap_or(10),
            volume_claim_retention_policy: retention_policy.unwrap_or_default(),
            status: status.unwrap_or_default(),
        })
    }
}

fn claim_template(raw: RawMessage) -> Result<VolumeClaimTemplate, String> {
    #[derive(Deserialize)]
    struct Named {
        metadata: Name,
    }
    #[derive(Deserialize)]
    struct Specified {
        spec: Option<VolumeClaimSpec>,
    }
    #[derive(Deserialize)]
    struct Name {
        name: Text,
    }
    let schema = &messages::PERSISTENT_VOLUME_CLAIM;
    let named: Named = raw.decode(schema).map_err(|error| format!("spec.volumeClaimTemplates: {error}"))?;
    // A spec that cannot be decoded is not compared with claims, and the set is still managed.
    let spec = raw.decode::<Specified>(schema).ok().and_then(|claim| claim.spec).unwrap_or_default();
    Ok(VolumeClaimTemplate { name: named.metadata.name, spec, raw })
}

#[cfg(test)]
mod tests;
