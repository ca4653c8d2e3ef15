//! Nodes and Namespaces.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Env,
    behaviour::Behaviour,
    errors::{Errors, Path},
    quantity::Quantity,
    syntax,
    value::{child, entries, insert_default, list, object, take, text, with_object_in_field, yes},
};

pub(super) fn node() -> Behaviour {
    Behaviour {
        default: Some(default_node),
        prepare_create: Some(create_node),
        prepare_update: Some(update_node),
        prepare_status: Some(node_status),
        validate: Some(validate_node),
        validate_status: Some(validate_node),
        cell: Some(node_cell),
        ..Behaviour::default()
    }
}

pub(super) fn namespace() -> Behaviour {
    Behaviour {
        default: Some(label_namespace),
        prepare_create: Some(create_namespace),
        prepare_update: Some(|new, old, _| {
            take(new, old, "status");
            take(new, old, "spec");
        }),
        validate: Some(validate_namespace),
        validate_status: Some(validate_namespace_status),
        ..Behaviour::default()
    }
}

fn default_node(node: &mut Value) {
    let map = object(node);
    with_object_in_field(map, "spec", |spec| {
        // `podCIDR` is the first of `podCIDRs`.
        let single = spec.get("podCIDR").map(text).unwrap_or_default().to_owned();
        let first = spec.get("podCIDRs").map(|cidrs| text(&cidrs[0])).unwrap_or_default().to_owned();
        if !single.is_empty() && single != first {
            spec.insert("podCIDRs".to_owned(), json!([single]));
        } else if single.is_empty() && !first.is_empty() {
            spec.insert("podCIDR".to_owned(), first.into());
        }
    });
    with_object_in_field(map, "status", |status| {
        if let Some(capacity) = status.get("capacity").cloned() {
            insert_default(status, "allocatable", capacity);
        }
    });
}

/// A Node is not ready until it says so; admission puts that into its taints.
fn create_node(node: &mut Value, _: &Env<'_>) {
    child(node, "spec").remove("configSource");
    child(node, "status").remove("config");
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let taints = child(node, "spec").entry("taints").or_insert_with(|| Value::Array(vec![]));
    if let Value::Array(taints) = taints
        && !taints.iter().any(|held| held["key"] == taint["key"] && held["effect"] == taint["effect"])
    {
        taints.push(taint);
    }
}

fn update_node(new: &mut Value, old: &Value, _: &Env<'_>) {
    take(new, old, "status");
    if old["spec"].get("configSource").is_none() {
        child(new, "spec").remove("configSource");
    }
}

fn node_status(new: &mut Value, old: &Value, _: &Env<'_>) {
    take(new, old, "spec");
    if old["status"].get("config").is_none() {
        child(new, "status").remove("config");
    }
}

fn validate_namespace(errors: &mut Errors, namespace: &Value, old: &Value) {
    let finalizers = list(&namespace["spec"]["finalizers"]).iter().map(text);
    for finalizer in finalizers.filter(|_| old.is_null()) {
        errors.syntax(&"spec.finalizers", finalizer, syntax::qualified_name(finalizer));
        let standard = ["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer);
        if !standard && !finalizer.contains('/') {
            let message = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(&"spec.finalizers", finalizer, message);
        }
    }
}

/// Taints are of one effect and key once; what was given to a Node stays; addresses differ.
fn validate_node(errors: &mut Errors, new: &Value, old: &Value) {
    let (spec, before) = (&new["spec"], &old["spec"]);
    let mut taints = BTreeSet::new();
    let at = Path::new("metadata");
    let at = at.child("taints");
    for (i, taint) in list(&spec["taints"]).iter().enumerate() {
        if !taints.insert((text(&taint["key"]), text(&taint["effect"]))) {
            errors.duplicate_because(&at.index(i), taint, "taints must be unique by key and effect pair");
        }
    }
    validate_amounts(errors, new);
    if old.is_null() {
        return;
    }
    let mut addresses = BTreeSet::new();
    let at = Path::new("status");
    let at = at.child("addresses");
    for (i, address) in list(&new["status"]["addresses"]).iter().enumerate() {
        if !addresses.insert((text(&address["type"]), text(&address["address"]))) {
            errors.duplicate(&at.index(i), address);
        }
    }
    if !list(&before["podCIDRs"]).is_empty() && spec["podCIDRs"] != before["podCIDRs"] {
        errors.forbidden(&"spec.podCIDRs", "node updates may not change podCIDR except from \"\" to valid");
    }
    if !text(&before["providerID"]).is_empty() && spec["providerID"] != before["providerID"] {
        errors.forbidden(&"spec.providerID", "node updates may not change providerID except from \"\" to valid");
    }
}

fn validate_amounts(errors: &mut Errors, node: &Value) {
    let status = Path::new("status");
    for field in ["capacity", "allocatable"] {
        let at = status.child(field);
        for (resource, amount) in entries(&node["status"][field]) {
            let Ok(quantity) = Quantity::parse(text(amount)) else { continue };
            if quantity.is_negative() {
                errors.invalid(&at.child(resource), text(amount), "must be greater than or equal to 0");
            }
        }
    }
}

fn node_cell(node: &Value, _: Timestamp, column: &str) -> Option<Value> {
    match column {
        "Status" => {
            let ready = list(&node["status"]["conditions"]).iter().find(|c| text(&c["type"]) == "Ready");
            let status = match ready.map(|ready| text(&ready["status"])) {
                Some("True") => "Ready",
                Some(_) => "NotReady",
                None => "Unknown",
            };
            let cordoned = if yes(&node["spec"]["unschedulable"]) { ",SchedulingDisabled" } else { "" };
            Some(format!("{status}{cordoned}").into())
        }
        "Roles" => {
            let roles: BTreeSet<&str> = entries(&node["metadata"]["labels"])
                .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                    None if key == "kubernetes.io/role" => Some(text(value)),
                    role => role,
                })
                .filter(|role| !role.is_empty())
                .collect();
            let roles = roles.into_iter().collect::<Vec<_>>().join(",");
            Some(super::table::or(&roles, "<none>").into())
        }
        _ => None,
    }
}

fn label_namespace(namespace: &mut Value) {
    let name = text(&namespace["metadata"]["name"]).to_owned();
    if !name.is_empty() {
        let labels = child(namespace, "metadata").entry("labels").or_insert_with(|| json!({}));
        object(labels).insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

fn create_namespace(namespace: &mut Value, _: &Env<'_>) {
    object(namespace).insert("status".to_owned(), json!({"phase": "Active"}));
    let finalizers = child(namespace, "spec").entry("finalizers").or_insert_with(|| Value::Array(vec![]));
    if let Value::Array(finalizers) = finalizers
        && !finalizers.iter().any(|held| held == "kubernetes")
    {
        finalizers.push("kubernetes".into());
    }
    label_namespace(namespace);
}

fn validate_namespace_status(errors: &mut Errors, new: &Value, _: &Value) {
    let phase = text(&new["status"]["phase"]);
    let deleting = new["metadata"]["deletionTimestamp"].is_string();
    if deleting && phase != "Terminating" {
        errors.invalid(&"status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty");
    } else if !deleting && phase != "Active" {
        errors.invalid(&"status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty");
    }
}
