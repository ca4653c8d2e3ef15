//! `ConfigMaps`, Secrets, `ServiceAccounts`, `LimitRanges` and `ResourceQuotas`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    behaviour::Behaviour,
    errors::{Errors, Path},
    syntax,
    value::{entries, for_each_object_in_list, object, text, with_object_in_field, yes},
};

pub(super) fn config_map() -> Behaviour {
    Behaviour {
        validate: Some(|errors, new, old| validate(errors, new, old, &["data", "binaryData"])),
        ..Behaviour::default()
    }
}

pub(super) fn secret() -> Behaviour {
    Behaviour {
        default: Some(default_secret),
        validate: Some(|errors, new, old| validate(errors, new, old, &["data"])),
        ..Behaviour::default()
    }
}

pub(super) fn service_account() -> Behaviour {
    Behaviour {
        prepare_create: Some(|account, _| keep_names(account)),
        prepare_update: Some(|account, _, _| keep_names(account)),
        ..Behaviour::default()
    }
}

pub(super) fn limit_range() -> Behaviour {
    Behaviour { default: Some(default_limit_range), ..Behaviour::default() }
}

pub(super) fn resource_quota() -> Behaviour {
    Behaviour { cell: Some(|quota, _, column| quota_cell(quota, column).map(Value::from)), ..Behaviour::default() }
}

/// Validates the keys of an object's content, and that what is immutable stays.
fn validate(errors: &mut Errors, new: &Value, old: &Value, content: &[&str]) {
    validate_immutable(errors, new, old, content);
    for field in content {
        let at = Path::new(field);
        for (key, _) in entries(&new[*field]) {
            errors.syntax(&at.key(key), key, syntax::config_key(key));
        }
    }
}

/// An immutable object keeps its content, and stays immutable.
fn validate_immutable(errors: &mut Errors, new: &Value, old: &Value, content: &[&str]) {
    let message = "field is immutable when `immutable` is set";
    if !yes(&old["immutable"]) {
        return;
    }
    if !yes(&new["immutable"]) {
        errors.forbidden(&"immutable", message);
    }
    for field in content {
        if new[*field] != old[*field] {
            errors.forbidden(field, message);
        }
    }
}

/// What was given as plain text is stored like everything else.
fn default_secret(secret: &mut Value) {
    let map = object(secret);
    if let Some(Value::Object(plain)) = map.remove("stringData")
        && let Value::Object(data) = map.entry("data").or_insert_with(|| json!({}))
    {
        for (key, value) in plain {
            data.insert(key, STANDARD.encode(text(&value)).into());
        }
    }
}

/// Of the Secrets of an account only the names are kept.
fn keep_names(account: &mut Value) {
    for_each_object_in_list(object(account), "secrets", |secret| secret.retain(|field, _| field == "name"));
}

fn default_limit_range(range: &mut Value) {
    with_object_in_field(object(range), "spec", |spec| {
        for_each_object_in_list(spec, "limits", |item| {
            if item.get("type").map(text) != Some("Container") {
                return;
            }
            for (target, source) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
                let Some(Value::Object(amounts)) = item.get(source).cloned() else { continue };
                if let Value::Object(target) = item.entry(target).or_insert_with(|| json!({})) {
                    for (resource, amount) in amounts {
                        target.entry(resource).or_insert(amount);
                    }
                }
            }
        });
    });
}

fn quota_cell(quota: &Value, column: &str) -> Option<String> {
    let limits = match column {
        "Request" => false,
        "Limit" => true,
        _ => return None,
    };
    let status = &quota["status"];
    let shown: Vec<String> = entries(&status["hard"])
        .filter(|(resource, _)| resource.starts_with("limits.") == limits)
        .map(|(resource, hard)| {
            let used = status["used"][resource].as_str().unwrap_or("0");
            format!("{resource}: {used}/{}", text(hard))
        })
        .collect();
    Some(shown.join(", "))
}
