//! StatefulSets.

use std::ops::RangeInclusive;

use common::{
    intern::Text,
    intstr::IntOrString,
    json::{Raw, null_as_default},
    meta::Meta,
    object::{Object, Resource},
    selector::Selector,
    store::ByNamespace,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use super::{ClaimSpec, STATEFUL_SETS};

/// A StatefulSet.
///
/// An object with values that the API server's validation refuses (negative counts, no selector, no template) is not read at
/// all.
#[derive(Debug)]
pub struct StatefulSet {
    /// Metadata, without finalizers.
    pub metadata: Meta,
    /// How many Pods are wanted.
    pub replicas: i32,
    /// The number of the first.
    pub start: i32,
    /// How long a Pod must be ready before it is available.
    pub min_ready_seconds: i32,
    /// Which Pods are its own.
    pub selector: Selector,
    /// Its Pod template as the server sent it.
    pub template: Raw,
    /// What the claims of its Pods are made from, in their order.
    pub claims: Vec<ClaimTemplate>,
    /// What its Pods have as subdomain.
    pub service: Text,
    /// Whether Pods wait for each other.
    pub management: Management,
    /// How a new template reaches Pods.
    pub update: Update,
    /// How many revisions that nobody uses are kept; all of them if negative.
    pub history: i32,
    /// What becomes of claims.
    pub retention: Retention,
    /// As stored.
    pub status: Status,
}

/// What claims are made from.
#[derive(Clone, Debug)]
pub struct ClaimTemplate {
    /// Its name, and that of the volume.
    pub name: Text,
    /// What it requests.
    pub spec: ClaimSpec,
    /// All of it, unread.
    pub raw: Raw,
}

/// `podManagementPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Management {
    /// One after the other, each waiting for those before it.
    OrderedReady,
    /// All at once.
    Parallel,
}

/// `updateStrategy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Users delete Pods, and new ones are of the new template.
    OnDelete,
    /// Pods are replaced. Without details where the user gave none.
    Rolling(Option<Rolling>),
}

/// `updateStrategy.rollingUpdate`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rolling {
    /// How many of the first Pods stay as they are.
    #[serde(deserialize_with = "null_as_default")]
    pub partition: i32,
    /// How many may be unavailable at once.
    pub max_unavailable: Option<IntOrString>,
}

/// What becomes of a claim when who uses it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// It stays.
    #[default]
    Retain,
    /// It goes as well.
    Delete,
}

/// `persistentVolumeClaimRetentionPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// When the set is deleted.
    pub when_deleted: Keep,
    /// When its Pod is no longer wanted.
    pub when_scaled: Keep,
}

/// The status of a set, in the API's terms.
///
/// Fields the API leaves out when they are zero are written as null, so that a merge patch removes them; conditions are somebody else's,
/// and stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Pods there are.
    pub replicas: i32,
    /// Pods that have been ready for long enough.
    pub available_replicas: i32,
    /// Pods that run and are ready.
    #[serde(serialize_with = "zero_as_null")]
    pub ready_replicas: i32,
    /// Pods of the current revision.
    #[serde(serialize_with = "zero_as_null")]
    pub current_replicas: i32,
    /// Pods of the update revision.
    #[serde(serialize_with = "zero_as_null")]
    pub updated_replicas: i32,
    /// The revision Pods come from.
    pub current_revision: Text,
    /// The revision Pods go to.
    pub update_revision: Text,
    /// The generation all of this was computed for.
    pub observed_generation: i64,
    /// How often a revision's name was taken by another one.
    #[serde(serialize_with = "none_as_zero")]
    pub collision_count: Option<i32>,
}

impl Status {
    /// Whether it is worth a write onto `stored`: a collision count alone is not.
    pub fn differs(&self, stored: &Self) -> bool {
        let shown = |s: &Self| Self { observed_generation: 0, collision_count: None, ..s.clone() };
        self.observed_generation > stored.observed_generation || shown(self) != shown(stored)
    }
}

fn zero_as_null<N: Default + PartialEq + Serialize, S: Serializer>(n: &N, serializer: S) -> Result<S::Ok, S::Error> {
    Some(n).filter(|n| **n != N::default()).serialize(serializer)
}

#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
fn none_as_zero<S: Serializer>(n: &Option<i32>, serializer: S) -> Result<S::Ok, S::Error> {
    n.unwrap_or(0).serialize(serializer)
}

impl StatefulSet {
    /// Whether Pods wait for each other.
    pub fn is_monotonic(&self) -> bool {
        self.management == Management::OrderedReady
    }

    /// The ordinals in range. It may hold two thousand million of them: nothing may visit each.
    ///
    /// An ordinal is an `i32`, so the range ends there, however many replicas are wanted.
    pub fn ordinals(&self) -> RangeInclusive<i32> {
        let last = i64::from(self.start) + i64::from(self.replicas) - 1;
        self.start..=i32::try_from(last).unwrap_or(i32::MAX)
    }

    /// Whether an ordinal is in range.
    pub fn wants(&self, ordinal: i32) -> bool {
        self.ordinals().contains(&ordinal)
    }

    /// The name of its Pod of that number.
    pub fn pod_name(&self, ordinal: i32) -> String {
        format!("{}-{ordinal}", self.metadata.name)
    }

    /// The name of a claim of its Pod of that number.
    pub fn claim_name(&self, template: &ClaimTemplate, ordinal: i32) -> String {
        format!("{}-{}-{ordinal}", template.name, self.metadata.name)
    }

    /// How many of the first Pods a new template does not reach.
    pub fn partition(&self) -> i32 {
        match &self.update {
            Update::Rolling(Some(rolling)) => rolling.partition,
            Update::Rolling(None) | Update::OnDelete => 0,
        }
    }
}

impl Object for StatefulSet {
    const RESOURCE: Resource = STATEFUL_SETS;
    type Indexes = (ByNamespace,);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.finalizers = Box::default();
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: Meta,
    spec: WireSpec,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSpec {
    replicas: Option<i64>,
    #[serde(default)]
    min_ready_seconds: Option<i64>,
    #[serde(default)]
    ordinals: Option<Ordinals>,
    #[serde(default)]
    selector: Value,
    template: Option<Raw>,
    #[serde(default)]
    volume_claim_templates: Option<Vec<Raw>>,
    #[serde(default, deserialize_with = "null_as_default")]
    service_name: Text,
    #[serde(default, deserialize_with = "null_as_default")]
    pod_management_policy: Text,
    #[serde(default)]
    update_strategy: Option<WireUpdate>,
    #[serde(default)]
    revision_history_limit: Option<i32>,
    #[serde(default)]
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
    #[serde(default)]
    rolling_update: Option<Rolling>,
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
        let replicas = count("spec.replicas", spec.replicas.ok_or("spec.replicas is missing")?)?;
        let min_ready_seconds = count("spec.minReadySeconds", spec.min_ready_seconds.unwrap_or(0))?;
        let start = count("spec.ordinals.start", spec.ordinals.map_or(0, |ordinals| ordinals.start))?;
        let selector = Selector::from_value(&spec.selector);
        if selector.is_null() {
            return Err("spec.selector is missing".to_owned());
        }
        if selector.is_empty() {
            return Err("spec.selector selects every Pod".to_owned());
        }
        let template = spec.template.ok_or("spec.template is missing")?;
        if !template.text().starts_with('{') {
            return Err("spec.template is not an object".to_owned());
        }
        let claims = spec.volume_claim_templates.unwrap_or_default().into_iter().map(claim_template);
        let update = match spec.update_strategy {
            Some(update) if &*update.kind == "OnDelete" => Update::OnDelete,
            Some(update) => Update::Rolling(update.rolling_update),
            None => Update::Rolling(None),
        };
        if let Update::Rolling(Some(Rolling { partition: partition @ ..0, .. })) = update {
            return Err(format!("spec.updateStrategy.rollingUpdate.partition is {partition}"));
        }
        // Words that nobody knows are the careful ones.
        let parallel = &*spec.pod_management_policy == "Parallel";
        let retention = spec.persistent_volume_claim_retention_policy.map_or_else(Retention::default, |policy| {
            let known = |word: &Text| match word.as_str() {
                "Delete" => Some(Keep::Delete),
                "Retain" => Some(Keep::Retain),
                _ => None,
            };
            match (known(&policy.when_deleted), known(&policy.when_scaled)) {
                (Some(when_deleted), Some(when_scaled)) => Retention { when_deleted, when_scaled },
                _ => Retention::default(),
            }
        });
        Ok(StatefulSet {
            metadata,
            replicas,
            start,
            min_ready_seconds,
            selector,
            template,
            claims: claims.collect::<Result<_, _>>()?,
            service: spec.service_name,
            management: if parallel { Management::Parallel } else { Management::OrderedReady },
            update,
            history: spec.revision_history_limit.unwrap_or(10),
            retention,
            status: status.unwrap_or_default(),
        })
    }
}

fn claim_template(raw: Raw) -> Result<ClaimTemplate, String> {
    #[derive(Deserialize)]
    struct Named {
        metadata: Name,
        #[serde(default)]
        spec: Option<Raw>,
    }
    #[derive(Deserialize)]
    struct Name {
        name: Text,
    }
    let named: Named =
        serde_json::from_str(raw.text()).map_err(|error| format!("spec.volumeClaimTemplates: {error}"))?;
    // Whatever else a template holds, its set is managed.
    let spec = named.spec.and_then(|spec| serde_json::from_str(spec.text()).ok()).unwrap_or_default();
    Ok(ClaimTemplate { name: named.metadata.name, spec, raw })
}

fn count(field: &str, value: i64) -> Result<i32, String> {
    i32::try_from(value).ok().filter(|n| *n >= 0).ok_or_else(|| format!("{field} is {value}"))
}

#[cfg(test)]
mod tests;
