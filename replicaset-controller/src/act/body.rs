//! The bodies of the requests that create Pods.

use common::{
    intern::Labels,
    meta::{Annotations, OwnerRef},
    template::Template,
};
use serde::{Serialize, Serializer, ser::SerializeMap as _};

/// The body of a request to create a Pod. All bodies of one sync are equal.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewPodBody<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: Metadata<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<common::wire::RawMessage>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    generate_name: String,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    labels: &'a Labels,
    #[serde(skip_serializing_if = "Annotations::is_empty", serialize_with = "serialize_annotations")]
    annotations: Annotations,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    finalizers: Vec<common::intern::Text>,
    owner_references: [OwnerRef; 1],
}

fn serialize_annotations<S: Serializer>(annotations: &Annotations, serializer: S) -> Result<S::Ok, S::Error> {
    let mut out = serializer.serialize_map(None)?;
    for (key, value) in annotations.iter() {
        out.serialize_entry(key, value)?;
    }
    out.end()
}

/// Returns `metadata.generateName` of an owner's Pods, such as `web-`.
pub(super) fn pod_name_prefix(owner: &str) -> String {
    format!("{owner}-")
}

/// Builds a Pod from a template: labels, annotations and finalizers of the template's metadata, and its `spec` without decoding.
///
/// Upstream: `pkg/controller`, `GetPodFromTemplate`.
pub(super) fn new_pod_body<'a>(owner: &'a str, template: &'a Template, reference: OwnerRef) -> NewPodBody<'a> {
    NewPodBody {
        kind: "Pod",
        api_version: "v1",
        metadata: Metadata {
            generate_name: pod_name_prefix(owner),
            labels: template.labels(),
            annotations: template.annotations(),
            finalizers: template.finalizers(),
            owner_references: [reference],
        },
        spec: template.spec(),
    }
}

#[cfg(test)]
mod tests {
    use common::meta::Uid;
    use serde_json::{Value, json};

    use super::*;

    /// REPLICASET-19.
    #[test]
    fn a_pod_consists_of_its_template_and_its_owner_reference() {
        let template = Template::from_value(&json!({
            "metadata": {"labels": {"app": "web"}, "annotations": {"a": "1"}, "finalizers": ["example.com/f"],
                "name": "ignored", "namespace": "ignored", "generateName": "ignored-"},
            "spec": {"containers": [{"name": "c", "futureField": {"x": [1, 2.50]}}], "fromTheFuture": true},
        }));
        let reference =
            OwnerRef { kind: "ReplicaSet".into(), uid: Uid::new("U"), controller: Some(true), ..OwnerRef::default() };
        let body: Value = serde_json::to_value(new_pod_body("web", &template, reference)).unwrap();
        assert_eq!(
            body,
            json!({"kind": "Pod", "apiVersion": "v1",
                "metadata": {"generateName": "web-", "labels": {"app": "web"}, "annotations": {"a": "1"},
                    "finalizers": ["example.com/f"],
                    "ownerReferences": [{"apiVersion": "", "kind": "ReplicaSet", "name": "", "uid": "U", "controller": true}]},
                "spec": {"containers": [{"name": "c", "futureField": {"x": [1, 2.50]}}], "fromTheFuture": true}})
        );
    }

    /// REPLICASET-19.
    #[test]
    fn fields_missing_in_the_template_are_missing_in_the_pod() {
        let template = Template::from_value(&json!({"metadata": {"labels": {"app": "web"}}, "spec": {}}));
        let body: Value = serde_json::to_value(new_pod_body("web", &template, OwnerRef::default())).unwrap();
        let metadata = body["metadata"].as_object().unwrap();
        assert_eq!(metadata.keys().collect::<Vec<_>>(), ["generateName", "labels", "ownerReferences"]);
    }
}
