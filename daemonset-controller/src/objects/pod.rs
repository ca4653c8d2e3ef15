//! Cached Pods, and the nodes to which they are bound or pinned.

use std::ops::Deref;

use common::{
    head::ObjectHead,
    json::JsonStr,
    pods::{PODS, Phase, Pod, PodCondition, PodSpec, PodStatus},
    prelude::*,
    wire::{MessageSchema, messages},
};
use serde::{Deserialize, Deserializer};

use super::{DAEMON_SETS, REVISION_HASH_LABEL, TEMPLATE_GENERATION_LABEL, placement::Affinity};

/// The key in `matchFields` of a node affinity that pins a Pod to a node.
const NODE_NAME_FIELD: &str = "metadata.name";

/// A cached Pod with a DaemonSet as its controller, or without a controller.
#[derive(Clone, Debug)]
pub struct CachedPod {
    pod: Pod,
    target: Text,
}

impl Deref for CachedPod {
    type Target = Pod;
    fn deref(&self) -> &Pod {
        &self.pod
    }
}

impl CachedPod {
    /// Returns the metadata without annotations and finalizers, which the cache does not keep.
    pub fn meta(&self) -> &Meta {
        &self.pod.meta
    }

    /// Returns the name of the node to which the Pod is bound, or pinned by its node affinity; empty without such a node.
    ///
    /// Upstream: `pkg/controller/daemon/util`, `GetTargetNodeName`.
    pub fn target_node(&self) -> &Text {
        &self.target
    }

    /// Whether the controller is the DaemonSet with this name and uid. The DaemonSet must be in the Pod's namespace.
    ///
    /// An owner reference with the uid of the DaemonSet and another name does not count, because the event handlers find the
    /// DaemonSet of a Pod by name.
    pub(crate) fn is_controlled_by(&self, set: &str, uid: &Uid) -> bool {
        self.pod.meta.controller().is_some_and(|controller| {
            controller.kind == DAEMON_SETS.kind() && *controller.name == *set && controller.uid == *uid
        })
    }

    /// Whether `spec.nodeName` names a node.
    pub fn is_bound(&self) -> bool {
        !self.pod.node_name.is_empty()
    }

    /// Returns the value of the label `controller-revision-hash`; empty without the label.
    pub fn revision_hash(&self) -> &str {
        self.pod.meta.labels.get(REVISION_HASH_LABEL).unwrap_or_default()
    }

    /// Whether the Pod lacks the label `controller-revision-hash`, which the watch of Pods selects. A label with an empty value
    /// counts as present.
    pub fn lacks_revision_hash_label(&self) -> bool {
        self.pod.meta.labels.get(REVISION_HASH_LABEL).is_none()
    }

    /// Returns the value of the label `pod-template-generation`; `None` without the label.
    pub fn template_generation(&self) -> Option<&str> {
        self.pod.meta.labels.get(TEMPLATE_GENERATION_LABEL)
    }

    /// Whether the Pod has finished and is terminating. Every decision ignores such a Pod.
    pub fn is_finished_and_terminating(&self) -> bool {
        self.pod.phase.is_terminal() && self.pod.meta.is_deleting()
    }
}

impl Object for CachedPod {
    const RESOURCE: Resource = PODS;
    type Indexes = (ByController, OrphansByNamespace);

    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::POD);
    const HEAD_FILTER: Option<fn(&ObjectHead<'_>) -> bool> =
        Some(|head| head.controller_kind().is_none_or(|kind| kind == DAEMON_SETS.kind()));

    fn meta(&self) -> &Meta {
        &self.pod.meta
    }

    fn drop_unneeded_fields(&mut self) {
        self.pod.meta.drop_annotations_and_finalizers();
    }
}

#[derive(Deserialize)]
struct Wire<'a> {
    metadata: Meta,
    spec: Option<WireSpec>,
    #[serde(borrow)]
    status: Option<WireStatus<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSpec {
    #[serde(default)]
    node_name: Text,
    affinity: Option<Affinity>,
}

impl WireSpec {
    fn target(&self) -> Text {
        if !self.node_name.is_empty() {
            return self.node_name.clone();
        }
        let terms = self.affinity.as_ref().and_then(Affinity::required_terms).into_iter().flatten();
        let mut fields = terms.flat_map(|term| term.match_fields.iter().flatten());
        let pin = fields.find(|field| &*field.key == NODE_NAME_FIELD && &*field.operator == "In");
        match pin.and_then(|pin| pin.values.as_deref()) {
            Some([only]) => only.clone(),
            _ => Text::default(),
        }
    }
}

/// The fields of a Pod's `status` that this crate reads. The parser skips all other fields, above all the container statuses.
#[derive(Default, Deserialize)]
struct WireStatus<'a> {
    #[serde(borrow)]
    phase: Option<JsonStr<'a>>,
    #[serde(borrow)]
    conditions: Option<Vec<PodCondition<'a>>>,
}

impl<'de> Deserialize<'de> for CachedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Wire { metadata, spec, status } = Wire::deserialize(deserializer)?;
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        let target = spec.target();
        let phase = status.phase.as_deref().map_or(Phase::Other, Phase::parse);
        let status = PodStatus {
            phase,
            readiness: PodCondition::readiness(status.conditions.as_deref()),
            ..PodStatus::default()
        };
        Ok(Self {
            pod: Pod::new(metadata, PodSpec { node_name: spec.node_name, ..PodSpec::default() }, &status),
            target,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> CachedPod {
        serde_json::from_str(&json!({"metadata": {"name": "p"}, "spec": spec}).to_string()).unwrap()
    }

    fn pinned(terms: Value) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    }

    /// DAEMONSET-28.
    #[test]
    fn the_target_of_a_pod_is_the_node_to_which_it_is_bound_or_pinned() {
        let field =
            |operator: &str, values: Value| json!({"key": "metadata.name", "operator": operator, "values": values});
        let term = |field: Value| json!({"matchFields": [field]});
        for (spec, target) in [
            (json!({}), ""),
            (json!({"nodeName": "a"}), "a"),
            (json!({"affinity": null}), ""),
            (json!({"affinity": {"nodeAffinity": null, "podAffinity": {}}}), ""),
            (pinned(json!(null)), ""),
            (pinned(json!([{}, term(field("In", json!(["a"])))])), "a"),
            (pinned(json!([term(field("In", json!(["a"]))), term(field("In", json!(["b"])))])), "a"),
            (pinned(json!([term(field("NotIn", json!(["a"]))), term(field("In", json!(["b"])))])), "b"),
            (pinned(json!([term(field("In", json!(["a", "b"]))), term(field("In", json!(["c"])))])), ""),
            (pinned(json!([term(field("In", json!([])))])), ""),
            (pinned(json!([{"matchExpressions": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}])), ""),
        ] {
            assert_eq!(pod(spec.clone()).target_node(), target, "{spec}");
        }
        let mut both = pinned(json!([term(field("In", json!(["pinned"])))]));
        both["nodeName"] = json!("bound");
        assert_eq!(pod(both).target_node(), "bound");
    }

    /// DAEMONSET-2.
    #[test]
    fn only_pods_of_sets_and_orphans_are_cached() {
        for (owner, keep) in [(Some("DaemonSet"), true), (None, true), (Some("ReplicaSet"), false)] {
            let owners: Vec<Value> = owner
                .map(|kind| json!({"kind": kind, "name": "o", "uid": "u", "controller": true}))
                .into_iter()
                .collect();
            let json = json!({"metadata": {"name": "p", "ownerReferences": owners}});
            assert_eq!(serde_json::from_str::<CachedPod>(&json.to_string()).unwrap().is_cached(), keep, "{owner:?}");
        }
    }
}
