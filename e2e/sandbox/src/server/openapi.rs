//! The little `OpenAPI` that clients ask for: that PATCH, POST and PUT of each kind take `fieldValidation` and `dryRun`.
//!
//! kubectl looks for this before it leaves validation to the server. There are no schemas: `kubectl explain` says that a
//! kind has none.

use http::HeaderMap;
use serde_json::{Map, Value, json};

use crate::{
    api::resource::{Registry, Resource},
    value::json,
    verbs::{
        reply::Reply,
        status::{ApiError, ApiResult},
    },
};

fn prefix(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

pub(crate) fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, version) in registry.group_versions() {
        let path = prefix(group, version);
        let size = registry.of_version(group, version).count();
        let url = format!("/openapi/v3/{path}?hash={size}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

fn paths(resource: &Resource) -> (String, String) {
    let root = prefix(&resource.group, &resource.version);
    let below = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
    let collection = format!("/{root}/{below}{}", resource.plural);
    let object = format!("{collection}/{{name}}");
    (collection, object)
}

fn operation(resource: &Resource, action: &str, parameters: &[Value]) -> Value {
    json!({
        "operationId": format!("{action}{}{}", resource.version, resource.kind),
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": resource.group, "version": resource.version, "kind": resource.kind
        },
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}}
    })
}

pub(crate) fn v3(registry: &Registry, group: &str, version: &str) -> Value {
    let parameter =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let parameters = [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")];
    let mut all = Map::new();
    let mut schemas = Map::new();
    for resource in registry.of_version(group, version) {
        let (collection, object) = paths(resource);
        if resource.allows("create") {
            all.insert(collection, json!({"post": operation(resource, "post", &parameters)}));
        }
        let mut item = Map::new();
        for (verb, method) in [("patch", "patch"), ("update", "put")] {
            if resource.allows(verb) {
                item.insert(method.into(), operation(resource, method, &parameters));
            }
        }
        if !item.is_empty() {
            all.insert(object, Value::Object(item));
        }
        let schema = json!({
            "type": "object",
            "x-kubernetes-group-version-kind": [
                {"group": resource.group, "version": resource.version, "kind": resource.kind}
            ]
        });
        let name = if group.is_empty() { "core" } else { group };
        schemas.insert(format!("{name}.{version}.{}", resource.kind), schema);
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.2"},
        "paths": all,
        "components": {"schemas": schemas}
    })
}

/// The older document, of all kinds at once, in JSON only.
pub(crate) fn v2(registry: &Registry, headers: &HeaderMap) -> ApiResult<Reply> {
    let accept = headers.get(http::header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("*/*");
    if !(accept.contains("json") || accept.contains("*/*")) {
        return Err(ApiError::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json",
        ));
    }
    let parameter = |name: &str| json!({"name": name, "in": "query", "type": "string", "uniqueItems": true});
    let parameters = [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")];
    let mut all = Map::new();
    for resource in registry.all() {
        let (_, object) = paths(resource);
        if resource.allows("patch") {
            all.insert(object, json!({"patch": operation(resource, "patch", &parameters)}));
        }
    }
    let document = json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.2"}, "paths": all, "definitions": {}
    });
    Ok(Reply::Json(http::StatusCode::OK, json::body(&document)))
}
