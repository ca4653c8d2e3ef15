//! `deploy/chart`: the values of each controller, and the schema of all values.

use std::io;

use serde_json::{Map, Value, json};

use super::{File, MARK, by_port, expand, template};

/// The values and their schema.
pub(super) fn files() -> io::Result<[File; 2]> {
    let (path, template) = template!("chart/values.yaml");
    let mut schema = serde_json::to_string_pretty(&schema())?;
    schema.push('\n');
    Ok([
        File::of_deploy(path, &expand(template, by_port())),
        File { path: "deploy/chart/values.schema.json".to_owned(), text: schema },
    ])
}

/// An object with only these properties.
fn object(properties: Value) -> Value {
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

/// An object with any keys.
fn map(values: Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn of_type(name: &str) -> Value {
    json!({"type": name})
}

fn matching(pattern: &str) -> Value {
    json!({"type": "string", "pattern": pattern})
}

fn one_of(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

fn defined(name: &str) -> Value {
    json!({"$ref": format!("#/definitions/{name}")})
}

fn schema() -> Value {
    const REPOSITORY: &str = "^[a-z0-9./:_-]*$";
    let boolean = || of_type("boolean");
    let filled = || json!({"type": "string", "minLength": 1});
    let controllers: Map<String, Value> =
        by_port().into_iter().map(|controller| (controller.name.to_owned(), defined("controller"))).collect();
    let mut schema = object(json!({
        "leadAtOnce": boolean(),
        "controllers": object(controllers.into()),
        "image": object(json!({
            "registry": matching(REPOSITORY),
            "tag": defined("tag"),
            "pullPolicy": one_of(&["", "Always", "IfNotPresent", "Never"]),
            "pullSecrets": list(filled()),
        })),
        "ha": boolean(),
        "anyNode": boolean(),
        "probation": matching(r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))*$"),
        "flowSchemas": one_of(&["auto", "always", "never"]),
        "gangScheduling": boolean(),
        "monitoring": object(json!({
            "enabled": boolean(), "namespace": filled(), "labels": map(of_type("string")),
        })),
        "debugReader": boolean(),
        "tolerations": list(defined("toleration")),
        "global": {"description": "Helm adds this value if the chart is a subchart.", "type": "object"},
    }));
    schema["$comment"] = format!("{MARK}.").into();
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "Values of the chart nonet".into();
    schema["definitions"] = json!({
        "controller": object(json!({
            "enabled": boolean(),
            "replicas": {"type": ["integer", "null"], "minimum": 0},
            "flags": list(matching("^--[a-z]")),
            "resources": object(json!({"requests": defined("quantities"), "limits": defined("quantities")})),
            "image": object(json!({
                "repository": matching(REPOSITORY),
                "tag": defined("tag"),
                "digest": matching("^(sha256:[0-9a-f]{64}|none)?$"),
            })),
        })),
        "quantities": map(json!({"type": ["string", "integer"]})),
        "tag": matching("^([A-Za-z0-9_][A-Za-z0-9._-]{0,127})?$"),
        "toleration": object(json!({
            "key": of_type("string"),
            "operator": one_of(&["Exists", "Equal"]),
            "value": of_type("string"),
            "effect": one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"]),
            "tolerationSeconds": of_type("integer"),
        })),
    });
    schema
}
