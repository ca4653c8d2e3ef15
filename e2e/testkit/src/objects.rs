//! Builders of objects, and what tests read from objects.

use common::object::Resource;
use serde_json::{Value, json};

use crate::NAMESPACE;

/// Merges `patch` into `value`: fields of objects one by one, anything else as a whole. Unlike in a merge patch, null is a value.
pub fn merge(value: &mut Value, patch: &Value) {
    match (value, patch) {
        (Value::Object(fields), Value::Object(patch)) => {
            for (field, patch) in patch {
                merge(fields.entry(field.clone()).or_insert(Value::Null), patch);
            }
        }
        (value, patch) => *value = patch.clone(),
    }
}

/// Returns the object with `patch` merged into it.
pub fn merged(mut object: Value, patch: Value) -> Value {
    merge(&mut object, &patch);
    object
}

/// Returns the object with these fields in its `spec`. A field that is an object replaces the earlier one.
pub fn with_spec(mut object: Value, spec: Value) -> Value {
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object
}

/// Returns an object in the namespace of the tests.
pub fn object(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
}

/// Returns the definition of a kind of custom resources, whose objects may have any fields.
pub fn custom_resource_definition(resource: &Resource) -> Value {
    let scope = if resource.is_namespaced() { "Namespaced" } else { "Cluster" };
    let names = json!({"plural": resource.plural(), "kind": resource.kind()});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = json!({"name": resource.version(), "served": true, "storage": true, "schema": schema});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.to_string()},
        "spec": {"group": resource.group(), "scope": scope, "names": names, "versions": [version]}})
}

/// Returns a Namespace.
pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Returns the spec of a Pod with the container `c` of this image.
pub fn pod_spec(image: &str) -> Value {
    json!({"containers": [{"name": "c", "image": image}]})
}

/// Returns a Pod template with the label `app` and the image `img:1`.
pub fn template(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": pod_spec("img:1")})
}

/// Returns an object that selects Pods with the label `app`, whose value is the name, and creates them from a template.
pub fn workload(kind: &str, name: &str) -> Value {
    object("apps/v1", kind, name, json!({"selector": {"matchLabels": {"app": name}}, "template": template(name)}))
}

/// Returns a workload with these annotations in its Pod template.
pub fn annotated(workload: Value, annotations: Value) -> Value {
    merged(workload, json!({"spec": {"template": {"metadata": {"annotations": annotations}}}}))
}

/// Gives a workload another name and namespace, and its Pods the name as their label `app`.
pub fn renamed(mut workload: Value, namespace: &str, name: &str) -> Value {
    workload["metadata"]["name"] = json!(name);
    workload["metadata"]["namespace"] = json!(namespace);
    workload["spec"]["selector"] = json!({"matchLabels": {"app": name}});
    workload["spec"]["template"]["metadata"]["labels"] = json!({"app": name});
    workload
}

/// Returns a Pod without a controller and with the label `app`.
pub fn orphan_pod(name: &str, app: &str) -> Value {
    merged(object("v1", "Pod", name, pod_spec("img:1")), json!({"metadata": {"labels": {"app": app}}}))
}

/// Returns the reference of a dependent to an object that controls it. The object is as the API server returned it.
pub fn controller_reference(owner: &Value) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true})
}

/// Returns the object with `owner` as its controller.
pub fn controlled_by(mut object: Value, owner: &Value) -> Value {
    object["metadata"]["ownerReferences"] = json!([controller_reference(owner)]);
    object
}

/// Returns a reference to a controller of this kind that does not exist.
pub fn foreign_controller(api_version: &str, kind: &str, name: &str) -> Value {
    json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": "11111111-1111-4111-8111-111111111111",
        "controller": true}])
}

/// Returns the change of a `spec` that gives the container in the Pod template this image, and the template these annotations.
pub fn new_image(image: &str, annotations: Value) -> Value {
    json!({"template": {"metadata": {"annotations": annotations}, "spec": pod_spec(image)}})
}

/// Returns the condition `Ready` in the list `conditions` of a status.
pub fn ready_condition(status: &str) -> Value {
    json!({"conditions": [{"type": "Ready", "status": status}]})
}

/// Returns the name of an object.
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Returns kind and name of each owner.
pub fn owners(object: &Value) -> Vec<String> {
    let references = object["metadata"]["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
    references.iter().map(|owner| format!("{} {}", text(owner, "kind"), text(owner, "name"))).collect()
}

/// Returns the finalizers of an object.
pub fn finalizers(object: &Value) -> Vec<&str> {
    let finalizers = object["metadata"]["finalizers"].as_array().map_or(&[][..], Vec::as_slice);
    finalizers.iter().filter_map(Value::as_str).collect()
}

/// Whether the object has a time of deletion.
pub fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Whether a Pod has succeeded or failed.
pub fn has_finished(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&text(&pod["status"], "phase"))
}

/// Returns the condition of a type; null if it is absent.
pub fn condition(object: &Value, kind: &str) -> Value {
    sandbox::nodes::condition(object, kind).cloned().unwrap_or_default()
}

/// Returns type and reason of each condition that is true, in their order.
pub fn true_conditions(object: &Value) -> Vec<String> {
    let conditions = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let holding = conditions.iter().filter(|condition| condition["status"] == "True");
    holding.map(|condition| format!("{} {}", text(condition, "type"), text(condition, "reason"))).collect()
}

/// Returns the text in a field; empty if it is absent or no text.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// Returns the time in a field, such as `metadata.creationTimestamp`.
pub fn time(value: &Value) -> jiff::Timestamp {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{value} is not a time"))
}

/// Returns the values of these fields, separated by spaces, as a list; null for a field that is absent.
pub fn pick(object: &Value, fields: &str) -> Value {
    fields.split(' ').map(|field| object[field].clone()).collect()
}
