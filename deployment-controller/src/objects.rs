//! Projections: the fields of Deployments, ReplicaSets and Pods that this controller reads.
//!
//! A Deployment keeps its template as the server sent it, because ReplicaSets are made from it. Of a ReplicaSet's template
//! only the digest is kept: it is compared, never passed on from the cache. Of a Pod only its owner and phase matter.

use common::{
    conditions::Condition,
    head::Head,
    intern::{Labels, Text},
    intstr::IntOrString,
    json::{Raw, null_as_default},
    meta::{Annotations, Meta},
    object::{Object, Resource},
    pods::PODS,
    selector::Selector,
    store::{ByController, ByNamespace, OrphansByNamespace},
    template::{POD_TEMPLATE_HASH, Template},
    wire::{Message, messages},
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Deployments.
pub const DEPLOYMENTS: Resource =
    Resource { group: "apps", version: "v1", plural: "deployments", kind: "Deployment", namespaced: true };
/// ReplicaSets.
pub const REPLICA_SETS: Resource =
    Resource { group: "apps", version: "v1", plural: "replicasets", kind: "ReplicaSet", namespaced: true };

/// Revision of a ReplicaSet, and of a Deployment that of its newest one.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier revisions of a ReplicaSet, oldest first, joined by commas.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// `spec.replicas` of the Deployment when a ReplicaSet was last sized.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The most replicas the Deployment could have when a ReplicaSet was last sized.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Asks for a rollback to a revision; 0 is the one before the newest.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// What client-side apply remembers.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// "Unlimited" where a number of seconds or of revisions is asked for.
pub const UNLIMITED: i32 = i32::MAX;
/// The most bytes of annotations a server accepts. Upstream: `TotalAnnotationSizeLimitB`.
const ANNOTATIONS_LIMIT: usize = 256 << 10;

/// Whether an annotation stays where it is: it is copied neither from a Deployment to its ReplicaSets nor back.
pub fn is_never_copied(key: &str) -> bool {
    matches!(key, REVISION | REVISION_HISTORY | DESIRED_REPLICAS | MAX_REPLICAS | ROLLBACK_TO | LAST_APPLIED)
}

/// A Deployment.
#[derive(Debug, Deserialize)]
pub struct Deployment {
    /// Its metadata; without labels and what client-side apply remembers, and without annotations if there are too many
    /// bytes of them.
    #[serde(default)]
    pub metadata: Meta,
    /// What is wanted.
    #[serde(default)]
    pub spec: DeploymentSpec,
    /// What was last written.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: DeploymentStatus,
    /// How many bytes of annotations there were, if no server should have accepted as many.
    #[serde(skip)]
    pub oversized: Option<usize>,
}

/// `spec` of a Deployment.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentSpec {
    /// How many Pods.
    #[serde(deserialize_with = "one_if_null")]
    pub replicas: i32,
    /// Which ReplicaSets it may own.
    pub selector: RawSelector,
    /// What ReplicaSets are made from.
    pub template: Template,
    /// How Pods are replaced.
    #[serde(deserialize_with = "null_as_default")]
    pub strategy: Strategy,
    /// How long a Pod must be ready to be available.
    #[serde(deserialize_with = "null_as_default")]
    pub min_ready_seconds: i32,
    /// How many old ReplicaSets to keep.
    pub revision_history_limit: Option<i32>,
    /// Whether nothing is rolled out.
    #[serde(deserialize_with = "null_as_default")]
    pub paused: bool,
    /// How long a rollout may go without progress before that is said.
    pub progress_deadline_seconds: Option<i32>,
}

impl Default for DeploymentSpec {
    fn default() -> Self {
        Self {
            replicas: 1,
            selector: RawSelector::default(),
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
    /// The progress deadline in seconds, if there is one.
    pub fn deadline(&self) -> Option<i64> {
        self.progress_deadline_seconds.filter(|seconds| *seconds != UNLIMITED).map(i64::from)
    }

    /// How many old ReplicaSets to keep, if that is limited.
    pub fn history_limit(&self) -> Option<i32> {
        self.revision_history_limit.filter(|limit| *limit != UNLIMITED)
    }
}

/// A label selector, compiled and as the server sent it.
#[derive(Clone, Debug, Default)]
pub struct RawSelector {
    /// To match with.
    pub compiled: Selector,
    /// To pass on; nothing if there is none.
    pub raw: Option<Raw>,
}

impl<'de> Deserialize<'de> for RawSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Raw::deserialize(deserializer)?;
        let value = raw.value().map_err(serde::de::Error::custom)?;
        let compiled = Selector::from_value(&value);
        Ok(Self { compiled, raw: (value != Value::Null).then_some(raw) })
    }
}

/// `spec.strategy` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    /// How Pods are replaced.
    #[serde(rename = "type")]
    pub kind: StrategyType,
    /// The limits of a rolling update.
    #[serde(deserialize_with = "null_as_default")]
    pub rolling_update: RollingUpdate,
}

/// How Pods are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrategyType {
    /// Step by step, within limits.
    RollingUpdate,
    /// All old ones first.
    Recreate,
    /// A word no 1.36 knows.
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

/// `spec.strategy.rollingUpdate` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// How many Pods above the wanted number.
    pub max_surge: Option<IntOrString>,
    /// How many Pods below the wanted number.
    pub max_unavailable: Option<IntOrString>,
}

/// `status` of a Deployment. Every field is written, so that one that becomes empty does become so.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    /// The generation this status is about.
    #[serde(deserialize_with = "null_as_default")]
    pub observed_generation: i64,
    /// Pods of all ReplicaSets.
    #[serde(deserialize_with = "null_as_default")]
    pub replicas: i64,
    /// Pods of the newest ReplicaSet.
    #[serde(deserialize_with = "null_as_default")]
    pub updated_replicas: i64,
    /// Pods that are ready.
    #[serde(deserialize_with = "null_as_default")]
    pub ready_replicas: i64,
    /// Pods that are available.
    #[serde(deserialize_with = "null_as_default")]
    pub available_replicas: i64,
    /// Pods that are still to become available.
    #[serde(deserialize_with = "null_as_default")]
    pub unavailable_replicas: i64,
    /// Pods on their way out, where every ReplicaSet says how many.
    pub terminating_replicas: Option<i64>,
    /// How often a ReplicaSet's name was taken by something else. It never becomes empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Conditions.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

impl Object for Deployment {
    const RESOURCE: Resource = DEPLOYMENTS;
    type Indexes = (ByNamespace,);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.annotations.retain(|key| key != LAST_APPLIED);
        self.metadata.labels = Labels::empty();
        self.metadata.finalizers = Box::default();
        self.oversized = drop_if_oversized(&mut self.metadata.annotations);
    }
}

/// A ReplicaSet.
#[derive(Debug, Deserialize)]
pub struct ReplicaSet {
    /// Its metadata; without what client-side apply remembers, and without annotations if there are too many bytes of them.
    #[serde(default)]
    pub metadata: Meta,
    /// What is wanted.
    #[serde(default)]
    pub spec: ReplicaSetSpec,
    /// What its controller says.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: ReplicaSetStatus,
    /// How many bytes of annotations there were, if no server should have accepted as many.
    #[serde(skip)]
    pub oversized: Option<usize>,
}

/// `spec` of a ReplicaSet.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetSpec {
    /// How many Pods.
    #[serde(deserialize_with = "one_if_null")]
    pub replicas: i32,
    /// How long a Pod must be ready to be available.
    #[serde(deserialize_with = "null_as_default")]
    pub min_ready_seconds: i32,
    /// What its Pods are made from.
    pub template: TemplateDigest,
    /// Which Pods it selects, label `pod-template-hash` aside.
    #[serde(deserialize_with = "selector_without_hash")]
    pub selector: Text,
}

impl Default for ReplicaSetSpec {
    fn default() -> Self {
        Self { replicas: 1, min_ready_seconds: 0, template: TemplateDigest::default(), selector: Text::default() }
    }
}

/// A selector as text. Those of one Deployment's ReplicaSets are one.
fn selector_without_hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
    let mut selector = Value::deserialize(deserializer)?;
    if let Some(labels) = selector.get_mut("matchLabels").and_then(Value::as_object_mut) {
        labels.remove(POD_TEMPLATE_HASH);
    }
    Ok(Text::from(&*Selector::from_value(&selector).to_string()))
}

/// What a Pod template means, label `pod-template-hash` aside: templates of the same digest are equal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Template")]
pub struct TemplateDigest {
    digest: u128,
    problem: Option<Box<str>>,
}

impl From<Template> for TemplateDigest {
    fn from(template: Template) -> Self {
        Self { digest: template.digest(), problem: template.problem().map(Box::from) }
    }
}

impl Default for TemplateDigest {
    fn default() -> Self {
        Template::default().into()
    }
}

impl TemplateDigest {
    /// Whether it is the digest of `template`, and that is one.
    pub fn is_of(&self, template: &Template) -> bool {
        self.problem.is_none() && self.digest == template.digest()
    }

    /// Why it was no template, if it was none.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

/// `status` of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    /// The generation this status is about.
    #[serde(deserialize_with = "null_as_default")]
    pub observed_generation: i64,
    /// Its Pods.
    #[serde(deserialize_with = "null_as_default")]
    pub replicas: i32,
    /// Those that are ready.
    #[serde(deserialize_with = "null_as_default")]
    pub ready_replicas: i32,
    /// Those that are available.
    #[serde(deserialize_with = "null_as_default")]
    pub available_replicas: i32,
    /// Those on their way out, if its controller says so.
    pub terminating_replicas: Option<i32>,
    /// Conditions; in the cache only `ReplicaFailure`.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

impl Object for ReplicaSet {
    const RESOURCE: Resource = REPLICA_SETS;
    type Indexes = (ByController, OrphansByNamespace);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.annotations.retain(|key| key != LAST_APPLIED);
        self.metadata.finalizers = Box::default();
        self.oversized = drop_if_oversized(&mut self.metadata.annotations);
        self.status.conditions.retain(|condition| condition.kind == REPLICA_FAILURE);
        self.status.conditions.shrink_to_fit();
    }
}

/// The condition with which a ReplicaSet says that it cannot create or delete Pods, and a Deployment passes it on.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// A Pod, as far as the strategy `Recreate` looks at it.
#[derive(Debug, Deserialize)]
pub struct Pod {
    /// Its metadata, without labels and annotations.
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
    /// Whether it has not run to its end. A Pod that is being deleted still runs.
    pub fn runs(&self) -> bool {
        !matches!(self.status.phase.as_str(), "Failed" | "Succeeded")
    }
}

impl Object for Pod {
    const RESOURCE: Resource = PODS;
    type Indexes = (ByController,);

    const PROTOBUF: Option<&'static Message> = Some(&messages::POD);
    const CONCERNS: Option<fn(&Head<'_>) -> bool> = Some(|head| head.controller() == Some(REPLICA_SETS.kind));

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        self.metadata.labels = Labels::empty();
        self.metadata.annotations = Annotations::default();
        self.metadata.finalizers = Box::default();
    }
}

/// Empties annotations no server should have accepted, and says how many bytes they were.
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
        assert_eq!(deployment.status, DeploymentStatus::default());
    }

    #[test]
    fn the_sentinel_is_no_limit() {
        let spec: DeploymentSpec = serde_json::from_value(json!({"template": {},
            "revisionHistoryLimit": 2_147_483_647, "progressDeadlineSeconds": 2_147_483_647}))
        .unwrap();
        assert_eq!((spec.deadline(), spec.history_limit()), (None, None));
    }

    #[test]
    fn annotations_beyond_all_bounds_are_not_kept() {
        let big = "x".repeat(300 << 10);
        let mut deployment: Deployment =
            serde_json::from_value(json!({"metadata": {"name": "web", "annotations": {"a": big, "b": "1"}}})).unwrap();
        deployment.trim();
        assert_eq!(deployment.oversized, Some((300 << 10) + 3));
        assert!(deployment.metadata.annotations.is_empty());
        let mut applied: Deployment =
            serde_json::from_value(json!({"metadata": {"name": "web", "annotations": {LAST_APPLIED: big, "b": "1"}}}))
                .unwrap();
        applied.trim();
        assert_eq!((applied.oversized, applied.metadata.annotations.get("b")), (None, Some("1")));
    }

    #[test]
    fn only_pods_of_replica_sets_are_kept() {
        let pod = |owners: Value, phase: &str| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": "p", "ownerReferences": owners},
                "status": {"phase": phase}}))
            .unwrap()
        };
        let owner = |kind: &str| json!([{"kind": kind, "name": "o", "uid": "u", "controller": true}]);
        assert!(pod(owner("ReplicaSet"), "Running").keep());
        assert!(!pod(owner("Job"), "Running").keep());
        assert!(!pod(json!([]), "Running").keep());
        for (phase, runs) in [("Pending", true), ("Unknown", true), ("", true), ("Failed", false), ("Succeeded", false)]
        {
            assert_eq!(pod(owner("ReplicaSet"), phase).runs(), runs, "{phase}");
        }
    }

    #[test]
    fn a_template_digest_knows_its_template() {
        let template = Template::from_value(&json!({"metadata": {"labels": {"app": "web"}}, "spec": {}}));
        let set: ReplicaSetSpec = serde_json::from_value(json!({"template":
            {"spec": {}, "metadata": {"labels": {"app": "web", "pod-template-hash": "abc"}}}}))
        .unwrap();
        assert!(set.template.is_of(&template));
        assert!(!TemplateDigest::from(Template::default()).is_of(&Template::default()), "nothing equals no template");
    }
}
