//! Projections of ReplicaSets and ReplicationControllers, and the status that is written.

use std::{marker::PhantomData, sync::Arc};

use common::{
    conditions::Condition,
    intern::Labels,
    meta::ReplaceableMeta,
    prelude::*,
    store::ByNamespace,
    template::Template,
    wire::{MessageSchema, WithUndeclared},
};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;

use crate::kind::SetKind;

/// Projection of a ReplicaSet, or of a ReplicationController in the same form.
///
/// Decoding fails for values that API validation refuses (negative counts, no selector, a malformed template), because acting on
/// them could delete every Pod of a namespace.
#[derive(Debug)]
pub struct ReplicaSet {
    /// `metadata`, decoded without annotations and finalizers.
    pub metadata: ReplaceableMeta,
    /// `spec.replicas`: the desired count of Pods.
    pub replicas: usize,
    /// `spec.minReadySeconds`: seconds that a Pod must be ready to count as available.
    pub min_ready_seconds: i32,
    /// `spec.selector`: matches the Pods of the set.
    pub selector: Selector,
    /// `spec.template`; `None` if `spec.replicas` is 0.
    pub template: Option<Template>,
    /// `spec.template.metadata.labels`.
    pub template_labels: Labels,
    /// `status` from the cache; the defaults if it is absent.
    pub status: WithUndeclared<Status>,
}

/// The fields of a set's `status` that the controller computes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Count of active Pods, which have not finished and are not terminating.
    pub replicas: i32,
    /// Count of active Pods with every label of the template.
    pub fully_labeled_replicas: i32,
    /// Count of ready active Pods.
    pub ready_replicas: i32,
    /// Count of active Pods that have been ready for `minReadySeconds`.
    pub available_replicas: i32,
    /// Count of terminating Pods; `None` if the gate of this field is off, or for ReplicationControllers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// `metadata.generation` of the set from which the status was computed.
    pub observed_generation: i64,
    /// All conditions, including those of other writers.
    #[serde(deserialize_with = "read_conditions")]
    pub conditions: Vec<Condition>,
}

fn read_conditions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    let mut list = Option::<Vec<Condition>>::deserialize(deserializer)?.unwrap_or_default();
    list.shrink_to_fit();
    Ok(list)
}

/// A cached set of kind `K`.
#[derive(Debug)]
pub struct CachedSet<K> {
    /// The set in the form that both kinds share.
    pub replica_set: Arc<ReplicaSet>,
    kind: PhantomData<fn() -> K>,
}

impl<K: SetKind> Object for CachedSet<K> {
    const RESOURCE: Resource = K::RESOURCE;
    type Indexes = (ByController, ByNamespace);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(K::PROTOBUF_SCHEMA);

    fn meta(&self) -> &Meta {
        &self.replica_set.metadata
    }
}

#[derive(Deserialize)]
struct SetJson {
    metadata: ReplaceableMeta,
    spec: SetSpecJson,
    #[serde(default)]
    status: Option<WithUndeclared<Status>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetSpecJson {
    replicas: Option<i64>,
    #[serde(default)]
    min_ready_seconds: Option<i64>,
    #[serde(default)]
    selector: Value,
    template: Option<Template>,
}

impl<'de, K: SetKind> Deserialize<'de> for CachedSet<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let replica_set =
            SetJson::deserialize(deserializer)?.validate(K::compile_selector).map_err(D::Error::custom)?;
        Ok(Self { replica_set: Arc::new(replica_set), kind: PhantomData })
    }
}

impl SetJson {
    fn validate(self, compile: fn(&Value) -> Selector) -> Result<ReplicaSet, String> {
        let Self { mut metadata, spec, status } = self;
        let replicas = validate_count("spec.replicas", spec.replicas.ok_or("spec.replicas is missing")?)?;
        let min_ready_seconds = validate_count("spec.minReadySeconds", spec.min_ready_seconds.unwrap_or(0))?;
        let selector = compile(&spec.selector);
        if selector.is_null() {
            return Err("spec.selector is missing".to_owned());
        }
        if selector.is_empty() {
            return Err("spec.selector selects every Pod".to_owned());
        }
        let template = spec.template.unwrap_or_default();
        if let Some(problem) = template.validation_error() {
            return Err(format!("spec.template: {problem}"));
        }
        metadata.annotations = common::meta::Annotations::default();
        metadata.finalizers = Box::default();
        Ok(ReplicaSet {
            metadata,
            replicas: replicas as usize,
            min_ready_seconds,
            selector,
            template_labels: template.labels().clone(),
            template: (replicas > 0).then_some(template),
            status: status.unwrap_or_default(),
        })
    }
}

fn validate_count(field: &str, value: i64) -> Result<i32, String> {
    i32::try_from(value).ok().filter(|n| *n >= 0).ok_or_else(|| format!("{field} is {value}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kind::{ReplicaSets, ReplicationControllers};

    fn web() -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "annotations": {"a": "b"}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}, "spec": {"containers": []}}},
            "status": {"replicas": 2, "terminatingReplicas": 0,
                "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]},
        })
    }

    fn read<K: SetKind>(value: &Value) -> Result<Arc<ReplicaSet>, String> {
        serde_json::from_str::<CachedSet<K>>(&value.to_string()).map(|s| s.replica_set).map_err(|e| e.to_string())
    }

    #[test]
    fn a_set_is_decoded() {
        let set = read::<ReplicaSets>(&web()).unwrap();
        assert_eq!((set.replicas, set.min_ready_seconds, set.status.replicas), (3, 0, 2));
        assert_eq!(set.status.terminating_replicas, Some(0));
        assert_eq!(&*set.status.conditions[0].reason, "FailedCreate");
        assert!(set.selector.matches(&set.template_labels));
        assert!(set.metadata.annotations.is_empty());
        assert!(set.template.as_ref().unwrap().spec().is_some());
    }

    #[test]
    fn a_set_without_replicas_keeps_no_template() {
        let mut object = web();
        object["spec"]["replicas"] = json!(0);
        let set = read::<ReplicaSets>(&object).unwrap();
        assert!(set.template.is_none());
        assert_eq!(set.template_labels.get("tier"), Some("front"));
    }

    /// REPLICASET-58.
    #[test]
    fn a_replication_controller_selects_by_equality() {
        let mut object = web();
        object["spec"]["selector"] = json!({"app": "web"});
        let set = read::<ReplicationControllers>(&object).unwrap();
        assert!(set.selector.matches(&set.template_labels));
        for selector in [json!(null), json!({}), json!({"app": 1})] {
            object["spec"]["selector"] = selector.clone();
            let read = read::<ReplicationControllers>(&object);
            assert!(read.is_err() || read.unwrap().selector.validation_error().is_some(), "{selector}");
        }
    }

    /// REPLICASET-83.
    #[test]
    fn malformed_sets_are_not_decoded() {
        for (path, value, error) in [
            ("/spec/replicas", json!(-1), "spec.replicas is -1"),
            ("/spec/replicas", json!(3_000_000_000_u32), "spec.replicas is 3000000000"),
            ("/spec/replicas", json!(null), "spec.replicas is missing"),
            ("/spec/replicas", json!("three"), "invalid type"),
            ("/spec/minReadySeconds", json!(-7), "spec.minReadySeconds is -7"),
            ("/spec/selector", json!(null), "spec.selector is missing"),
            ("/spec/selector", json!({}), "spec.selector selects every Pod"),
            ("/spec/template", json!(null), "spec.template: Pod template is missing"),
            ("/spec/template", json!("x"), "expected an object"),
            ("/spec/template/metadata/labels", json!({"a": 1}), "spec.template: Pod template cannot be read"),
            ("/status", json!({"replicas": "many"}), "invalid type"),
        ] {
            let mut object = web();
            object["spec"]["minReadySeconds"] = json!(0);
            *object.pointer_mut(path).unwrap() = value.clone();
            let got = read::<ReplicaSets>(&object).unwrap_err();
            assert!(got.contains(error), "{path} = {value}: {got}");
        }
    }

    /// REPLICASET-49.
    #[test]
    fn a_set_with_an_invalid_selector_is_still_decoded() {
        let mut object = web();
        object["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]});
        assert!(read::<ReplicaSets>(&object).unwrap().selector.validation_error().is_some());
    }
}
