use common::{
    json::null_as_default,
    meta::OwnerRefs,
    prelude::*,
    taints::{NO_EXECUTE, NO_SCHEDULE, Taint},
    wire::{MessageSchema, messages},
};
use serde::Deserialize;

/// The resource `nodes`, which this controller only reads.
pub const NODES: Resource = Resource::cluster_scoped("", "v1", "nodes", "Node");

/// The name, labels and taints of a Node. The parser skips all other fields, above all conditions and images.
#[derive(Debug, Deserialize)]
pub struct Node {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(deserialize_with = "null_as_default")]
    taints: Vec<Taint>,
}

impl Node {
    /// Returns `metadata.name` as an interned string.
    pub fn name(&self) -> Text {
        Text::new(&self.metadata.name)
    }

    /// Returns the value of the label `key`; `None` without the label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key)
    }

    /// Returns the taints with the effects `NoSchedule` and `NoExecute`, without the times at which they were added.
    pub fn taints(&self) -> &[Taint] {
        &self.spec.taints
    }

    /// Whether two versions of a Node have the same labels and taints, so each DaemonSet has the same eligibility on both.
    pub fn has_same_labels_and_taints(&self, other: &Self) -> bool {
        self.metadata.labels == other.metadata.labels && self.spec.taints == other.spec.taints
    }
}

impl Object for Node {
    const RESOURCE: Resource = NODES;
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::NODE);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.drop_annotations_and_finalizers();
        self.metadata.owners = OwnerRefs::default();
        self.spec.taints.retain(|taint| [NO_SCHEDULE, NO_EXECUTE].contains(&taint.effect.as_str()));
        for taint in &mut self.spec.taints {
            taint.time_added = None;
        }
        self.spec.taints.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(value: &Value) -> Node {
        let mut node: Node = serde_json::from_str(&value.to_string()).unwrap();
        node.drop_unneeded_fields();
        node
    }

    /// DAEMONSET-3.
    #[test]
    fn heartbeats_images_and_times_of_taints_change_nothing() {
        let taint = |time: &str| json!({"key": "k", "effect": "NoSchedule", "timeAdded": time});
        let before = json!({"metadata": {"name": "n", "labels": {"zone": "a"}, "annotations": {"a": "1"}},
            "spec": {"taints": [taint("2026-11-21T09:00:00Z"), {"key": "soft", "effect": "PreferNoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let mut after = before.clone();
        after["metadata"]["annotations"] = json!({"a": "2"});
        after["spec"]["taints"] = json!([taint("2026-11-21T10:00:00Z")]);
        after["spec"]["unschedulable"] = json!(true);
        after["status"] = json!({"conditions": [], "images": [{"names": ["a"]}]});
        assert!(node(&before).has_same_labels_and_taints(&node(&after)));
        for (path, value) in [
            ("/metadata/labels/zone", json!("b")),
            ("/spec/taints", json!(null)),
            ("/spec/taints/0/effect", json!("NoExecute")),
            ("/spec/taints/0/key", json!("other")),
        ] {
            let mut other = after.clone();
            *other.pointer_mut(path).unwrap() = value.clone();
            assert!(!node(&before).has_same_labels_and_taints(&node(&other)), "{path} = {value}");
        }
    }

    #[test]
    fn a_node_without_labels_and_taints_is_decoded() {
        let node = node(&json!({"metadata": {"name": "n"}}));
        assert_eq!((node.name().as_str(), node.label("a"), node.taints().len()), ("n", None, 0));
    }
}
