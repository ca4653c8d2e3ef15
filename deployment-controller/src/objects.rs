//! Projections: the fields of Deployments, ReplicaSets and Pods that this controller reads.
//!
//! The template of a Deployment is kept as the server sent it, because ReplicaSets are created from it. For the template of a
//! ReplicaSet only a digest is kept, because it is only compared. For a Pod only its owner and its phase are kept.

use std::fmt;

use common::{
    conditions::Condition,
    head::ObjectHead,
    intern::Labels,
    intstr::IntOrString,
    json::null_as_default,
    meta::{Annotations, ReplaceableMeta},
    pods::PODS,
    prelude::*,
    store::ByNamespace,
    template::{POD_TEMPLATE_HASH_LABEL, Template},
    wire::{MessageSchema, RawMessage, WithUndeclared, messages},
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// API group, version, plural and kind of Deployments.
pub const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
/// API group, version, plural and kind of ReplicaSets.
pub const REPLICA_SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");

/// Annotation with the revision of a ReplicaSet; on a Deployment, the revision of its new ReplicaSet.
pub const REVISION_ANNOTATION: &str = "deployment.kubernetes.io/revision";
/// Annotation with the revisions that a ReplicaSet had before its current one: oldest first, joined by commas.
pub const REVISION_HISTORY_ANNOTATION: &str = "deployment.kubernetes.io/revision-history";
/// Annotation with `spec.replicas` of the Deployment at the last change of a ReplicaSet's size.
pub const DESIRED_REPLICAS_ANNOTATION: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation with `spec.replicas` plus maxSurge of the Deployment at the last change of a ReplicaSet's size.
pub const MAX_REPLICAS_ANNOTATION: &str = "deployment.kubernetes.io/max-replicas";
/// Annotation that requests a rollback to a revision; 0 means the revision before the newest.
pub const ROLLBACK_TO_ANNOTATION: &str = "deprecated.deployment.rollback.to";
/// Annotation in which `kubectl apply` stores the last applied manifest.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The value of `progressDeadlineSeconds` or `revisionHistoryLimit` that means "no limit".
pub const UNLIMITED: i32 = i32::MAX;
/// The maximum total size of all annotations of an object, in bytes. Upstream: `TotalAnnotationSizeLimitB`.
const ANNOTATIONS_LIMIT: usize = 256 << 10;

/// Whether an annotation is excluded from copying between a Deployment and its ReplicaSets, in both directions.
pub fn is_never_copied_annotation(key: &str) -> bool {
    matches!(
        key,
        REVISION_ANNOTATION
            | REVISION_HISTORY_ANNOTATION
            | DESIRED_REPLICAS_ANNOTATION
            | MAX_REPLICAS_ANNOTATION
            | ROLLBACK_TO_ANNOTATION
            | LAST_APPLIED
    )
}

/// Projection of an `apps/v1` Deployment.
#[derive(Debug, Deserialize)]
pub struct Deployment {
    /// `metadata`, decoded without labels and without the last applied manifest. Annotations are dropped if they exceed the size
    /// limit.
    #[serde(default)]
    pub metadata: ReplaceableMeta,
    /// `spec`; the defaults if it is absent.
    #[serde(default)]
    pub spec: DeploymentSpec,
    /// `status`; the defaults if it is absent or null.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: WithUndeclared<DeploymentStatus>,
    /// Size in bytes of the annotations, if they were dropped because they exceeded the size limit.
    #[serde(skip)]
    pub dropped_annotation_bytes: Option<usize>,
}

/// Projection of `spec` of a Deployment.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentSpec {
    /// Desired number of Pods; 1 if null.
    #[serde(deserialize_with = "one_if_null")]
    pub replicas: i32,
    /// Selects the ReplicaSets that the Deployment may own.
    pub selector: ReceivedSelector,
    /// The Pod template of new ReplicaSets.
    pub template: Template,
    /// How old Pods are replaced by new ones.
    #[serde(deserialize_with = "null_as_default")]
    pub strategy: Strategy,
    /// Seconds that a Pod must be ready to count as available.
    #[serde(deserialize_with = "null_as_default")]
    pub min_ready_seconds: i32,
    /// Number of old ReplicaSets to keep; see [`Self::effective_revision_history_limit`].
    pub revision_history_limit: Option<i32>,
    /// Whether rollouts are suspended; scaling continues.
    #[serde(deserialize_with = "null_as_default")]
    pub paused: bool,
    /// Seconds without progress after which the condition `Progressing` becomes False; see
    /// [`Self::effective_progress_deadline_seconds`].
    pub progress_deadline_seconds: Option<i32>,
}

impl Default for DeploymentSpec {
    fn default() -> Self {
        Self {
            replicas: 1,
            selector: ReceivedSelector::default(),
            template: Template::default(),
            strategy: Strategy::default(),
            min_ready_seconds: 0,
            revision_history_limit: None,
            paused: false,
            progress_deadline_seconds: None,
        }
    }
}

impl DeploymentSpec {
    /// Returns `progressDeadlineSeconds`; `None` if it is absent or [`UNLIMITED`].
    pub fn effective_progress_deadline_seconds(&self) -> Option<i64> {
        self.progress_deadline_seconds.filter(|seconds| *seconds != UNLIMITED).map(i64::from)
    }

    /// Returns `revisionHistoryLimit`; `None` if it is absent or [`UNLIMITED`].
    pub fn effective_revision_history_limit(&self) -> Option<i32> {
        self.revision_history_limit.filter(|limit| *limit != UNLIMITED)
    }
}

/// A label selector in two forms: compiled, and as the server sent it.
#[derive(Clone, Default)]
pub struct ReceivedSelector {
    /// The form that matches labels.
    pub compiled: Selector,
    /// The form that is copied into ReplicaSets; `None` if the selector is absent.
    pub raw: Option<RawMessage>,
}

/// Shows the compiled form, which is the same in every format.
impl fmt::Debug for ReceivedSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.compiled.fmt(f)
    }
}

impl<'de> Deserialize<'de> for ReceivedSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(raw) = Option::<RawMessage>::deserialize(deserializer)? else { return Ok(Self::default()) };
        let value = raw.decode(&messages::LABEL_SELECTOR).map_err(serde::de::Error::custom)?;
        Ok(Self { compiled: Selector::from_value(&value), raw: Some(raw) })
    }
}

/// Projection of `spec.strategy` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    /// `spec.strategy.type`.
    #[serde(rename = "type")]
    pub kind: StrategyType,
    /// maxSurge and maxUnavailable.
    #[serde(deserialize_with = "null_as_default")]
    pub rolling_update: RollingUpdate,
}

/// The strategy by which new Pods replace old ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrategyType {
    /// Replaces Pods step by step, within maxSurge and maxUnavailable.
    RollingUpdate,
    /// Ends all old Pods before the first new Pod is created.
    Recreate,
    /// An empty text, or a strategy unknown to Kubernetes 1.36.
    Other(Text),
}

impl Default for StrategyType {
    fn default() -> Self {
        Self::Other(Text::default())
    }
}

impl<'de> Deserialize<'de> for StrategyType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?;
        Ok(match text.as_str() {
            "RollingUpdate" => Self::RollingUpdate,
            "Recreate" => Self::Recreate,
            _ => Self::Other(text),
        })
    }
}

/// Projection of `spec.strategy.rollingUpdate` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// How many Pods may exist beyond `spec.replicas` during a rollout, as an integer or as a percentage of `spec.replicas`.
    pub max_surge: Option<IntOrString>,
    /// How many of the desired Pods may be unavailable during a rollout, as an integer or as a percentage of `spec.replicas`.
    pub max_unavailable: Option<IntOrString>,
}

/// `status` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    /// `metadata.generation` of the spec that this status describes.
    #[serde(deserialize_with = "null_as_default")]
    pub observed_generation: i64,
    /// Pods of all ReplicaSets.
    #[serde(deserialize_with = "null_as_default")]
    pub replicas: i64,
    /// Pods of the new ReplicaSet.
    #[serde(deserialize_with = "null_as_default")]
    pub updated_replicas: i64,
    /// Ready Pods of all ReplicaSets.
    #[serde(deserialize_with = "null_as_default")]
    pub ready_replicas: i64,
    /// Available Pods of all ReplicaSets.
    #[serde(deserialize_with = "null_as_default")]
    pub available_replicas: i64,
    /// Total size of all ReplicaSets minus the available Pods; at least 0.
    #[serde(deserialize_with = "null_as_default")]
    pub unavailable_replicas: i64,
    /// Terminating Pods of all ReplicaSets; `None` if a ReplicaSet does not report its terminating Pods.
    pub terminating_replicas: Option<i64>,
    /// How often the name of a new ReplicaSet was already taken. Never cleared once set.
    pub collision_count: Option<i32>,
    /// The conditions `Available`, `Progressing` and `ReplicaFailure`, and unknown ones.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

impl Object for Deployment {
    const RESOURCE: Resource = DEPLOYMENTS;
    type Indexes = (ByNamespace,);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::DEPLOYMENT);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.annotations.retain(|key| key != LAST_APPLIED);
        self.metadata.labels = Labels::empty();
        self.metadata.finalizers = Box::default();
        self.dropped_annotation_bytes = drop_if_oversized(&mut self.metadata.annotations);
    }
}

/// Projection of an `apps/v1` ReplicaSet.
#[derive(Debug, Deserialize)]
pub struct ReplicaSet {
    /// `metadata` without the last applied manifest. Annotations are dropped if they exceed the size limit.
    #[serde(default)]
    pub metadata: Meta,
    /// `spec`; the defaults if it is absent.
    #[serde(default)]
    pub spec: ReplicaSetSpec,
    /// `status` as its controller wrote it; the defaults if it is absent or null.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: ReplicaSetStatus,
    /// Size in bytes of the annotations, if they were dropped because they exceeded the size limit.
    #[serde(skip)]
    pub dropped_annotation_bytes: Option<usize>,
}

/// Projection of `spec` of a ReplicaSet.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetSpec {
    /// Desired number of Pods; 1 if null.
    #[serde(deserialize_with = "one_if_null")]
    pub replicas: i32,
    /// Seconds that a Pod must be ready to count as available.
    #[serde(deserialize_with = "null_as_default")]
    pub min_ready_seconds: i32,
    /// Digest of the Pod template.
    pub template: TemplateDigest,
    /// Selector as text, without the label `pod-template-hash`.
    #[serde(deserialize_with = "selector_without_hash")]
    pub selector: Text,
}

impl Default for ReplicaSetSpec {
    fn default() -> Self {
        Self { replicas: 1, min_ready_seconds: 0, template: TemplateDigest::default(), selector: Text::default() }
    }
}

/// Reads a selector as text, without `pod-template-hash`, so that ReplicaSets of one Deployment have equal texts.
fn selector_without_hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
    let mut selector = Value::deserialize(deserializer)?;
    if let Some(labels) = selector.get_mut("matchLabels").and_then(Value::as_object_mut) {
        labels.remove(POD_TEMPLATE_HASH_LABEL);
    }
    Ok(Text::from(&*Selector::from_value(&selector).to_string()))
}

/// Digest of a Pod template without the label `pod-template-hash`; equal templates have equal digests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Template")]
pub struct TemplateDigest {
    digest: u128,
    problem: Option<Box<str>>,
}

impl From<Template> for TemplateDigest {
    fn from(template: Template) -> Self {
        Self { digest: template.meaning_digest(), problem: template.validation_error().map(Box::from) }
    }
}

impl Default for TemplateDigest {
    fn default() -> Self {
        Template::default().into()
    }
}

impl TemplateDigest {
    /// Whether this is the digest of `template`; never true for a malformed template.
    pub fn is_digest_of(&self, template: &Template) -> bool {
        self.problem.is_none() && self.digest == template.meaning_digest()
    }

    /// Returns the error of a malformed template; `None` for a well-formed template.
    pub fn malformed_reason(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

/// Projection of `status` of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    /// `metadata.generation` of the spec that this status describes.
    #[serde(deserialize_with = "null_as_default")]
    pub observed_generation: i64,
    /// Number of Pods that have not finished and are not terminating.
    #[serde(deserialize_with = "null_as_default")]
    pub replicas: i32,
    /// Number of Pods with the condition `Ready`.
    #[serde(deserialize_with = "null_as_default")]
    pub ready_replicas: i32,
    /// Number of Pods that have been ready for `minReadySeconds`.
    #[serde(deserialize_with = "null_as_default")]
    pub available_replicas: i32,
    /// Number of terminating Pods; `None` if the server or the controller does not report them.
    pub terminating_replicas: Option<i32>,
    /// Conditions; the cache keeps only `ReplicaFailure`.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

impl Object for ReplicaSet {
    const RESOURCE: Resource = REPLICA_SETS;
    type Indexes = (ByController, OrphansByNamespace);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::REPLICA_SET);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.annotations.retain(|key| key != LAST_APPLIED);
        self.metadata.finalizers = Box::default();
        self.dropped_annotation_bytes = drop_if_oversized(&mut self.metadata.annotations);
        self.status.conditions.retain(|condition| condition.kind == REPLICA_FAILURE);
        self.status.conditions.shrink_to_fit();
    }
}

/// Condition type of a ReplicaSet that cannot create or delete Pods; the Deployment copies the condition.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Projection of a Pod, for the strategy `Recreate`.
#[derive(Debug, Deserialize)]
pub struct Pod {
    /// `metadata` without labels and annotations.
    #[serde(default)]
    pub metadata: Meta,
    #[serde(default, deserialize_with = "null_as_default")]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    phase: Text,
}

impl Pod {
    /// Whether the Pod has not finished. A terminating Pod has not finished.
    pub fn is_unfinished(&self) -> bool {
        !matches!(self.status.phase.as_str(), "Failed" | "Succeeded")
    }
}

impl Object for Pod {
    const RESOURCE: Resource = PODS;
    type Indexes = (ByController,);

    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::POD);
    const HEAD_FILTER: Option<fn(&ObjectHead<'_>) -> bool> =
        Some(|head| head.controller_kind() == Some(REPLICA_SETS.kind()));

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.labels = Labels::empty();
        self.metadata.drop_annotations_and_finalizers();
    }
}

/// Empties annotations above the size limit and returns their size in bytes.
fn drop_if_oversized(annotations: &mut Annotations) -> Option<usize> {
    let bytes = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    (bytes > ANNOTATIONS_LIMIT).then(|| {
        *annotations = Annotations::default();
        bytes
    })
}

fn one_if_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    Ok(Option::<i32>::deserialize(deserializer)?.unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nulls_read_as_defaults() {
        let deployment: Deployment = serde_json::from_value(json!({"metadata": {"name": "web"}, "status": null,
            "spec": {"replicas": null, "selector": null, "template": {}, "strategy": null, "paused": null}}))
        .unwrap();
        assert_eq!(deployment.spec.replicas, 1);
        assert!(deployment.spec.selector.compiled.is_null() && deployment.spec.selector.raw.is_none());
        assert_eq!(deployment.spec.strategy.kind, StrategyType::Other(Text::default()));
        assert_eq!(deployment.status.declared, DeploymentStatus::default());
    }

    /// DEPLOYMENT-50, DEPLOYMENT-61.
    #[test]
    fn the_largest_number_means_no_limit() {
        let spec: DeploymentSpec = serde_json::from_value(json!({"template": {},
            "revisionHistoryLimit": 2_147_483_647, "progressDeadlineSeconds": 2_147_483_647}))
        .unwrap();
        assert_eq!((spec.effective_progress_deadline_seconds(), spec.effective_revision_history_limit()), (None, None));
    }

    /// DEPLOYMENT-67.
    #[test]
    fn annotations_above_the_size_limit_are_dropped() {
        let big = "x".repeat(300 << 10);
        let mut deployment: Deployment =
            serde_json::from_value(json!({"metadata": {"name": "web", "annotations": {"a": big, "b": "1"}}})).unwrap();
        deployment.drop_unneeded_fields();
        assert_eq!(deployment.dropped_annotation_bytes, Some((300 << 10) + 3));
        assert!(deployment.metadata.annotations.is_empty());
        let mut applied: Deployment =
            serde_json::from_value(json!({"metadata": {"name": "web", "annotations": {LAST_APPLIED: big, "b": "1"}}}))
                .unwrap();
        applied.drop_unneeded_fields();
        assert_eq!((applied.dropped_annotation_bytes, applied.metadata.annotations.get("b")), (None, Some("1")));
    }

    /// DEPLOYMENT-35.
    #[test]
    fn only_pods_of_replica_sets_are_kept() {
        let pod = |owners: Value, phase: &str| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": "p", "ownerReferences": owners},
                "status": {"phase": phase}}))
            .unwrap()
        };
        let owner = |kind: &str| json!([{"kind": kind, "name": "o", "uid": "u", "controller": true}]);
        assert!(pod(owner("ReplicaSet"), "Running").is_cached());
        assert!(!pod(owner("Job"), "Running").is_cached());
        assert!(!pod(json!([]), "Running").is_cached());
        for (phase, runs) in [("Pending", true), ("Unknown", true), ("", true), ("Failed", false), ("Succeeded", false)]
        {
            assert_eq!(pod(owner("ReplicaSet"), phase).is_unfinished(), runs, "{phase}");
        }
    }

    /// DEPLOYMENT-12.
    #[test]
    fn a_template_digest_ignores_the_hash_label() {
        let template = Template::from_value(&json!({"metadata": {"labels": {"app": "web"}}, "spec": {}}));
        let set: ReplicaSetSpec = serde_json::from_value(json!({"template":
            {"spec": {}, "metadata": {"labels": {"app": "web", "pod-template-hash": "abc"}}}}))
        .unwrap();
        assert!(set.template.is_digest_of(&template));
        assert!(
            !TemplateDigest::from(Template::default()).is_digest_of(&Template::default()),
            "a malformed template equals none"
        );
    }
}
