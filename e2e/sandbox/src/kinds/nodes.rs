//! Nodes and Namespaces.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Env, FieldError, NameRule,
    behaviour::{Behaviour, behaviour},
    canonical::canonicalize,
    errors::{Bad, Errors, Path},
    resources, syntax,
    table::{age, name, or},
    tolerations,
    value::{child, entries, insert_default, list, object, take, text, with_object_in_field, yes},
};

/// `nodes`.
pub(super) const NODE: Behaviour = behaviour!("core.Node", plain,
    default: default_node,
    prepare_create: create_node,
    prepare_update: update_node,
    prepare_status: node_status,
    validate_create: |node| validate_node(node).into_list(),
    validate_update: validate_node_update,
    validate_status: validate_node_update,
    field: |node, field| (field == "spec.unschedulable").then(|| yes(&node["spec"]["unschedulable"]).to_string()),
    field_labels: true,
    row: node_row,
);

/// `namespaces`.
pub(super) const NAMESPACE: Behaviour = behaviour!("core.Namespace", plain,
    default: default_namespace,
    prepare_create: create_namespace,
    prepare_update: |new, old, _| {
        take(new, old, "status");
        take(new, old, "spec");
    },
    validate_create: validate_namespace,
    validate_status: validate_namespace_status,
    name: NameRule::Label,
    field: |namespace, field| (field == "status.phase").then(|| text(&namespace["status"]["phase"]).to_owned()),
    field_labels: true,
    row: |namespace, now| vec![name(namespace), text(&namespace["status"]["phase"]).into(), age(namespace, now)],
);

fn default_node(node: &mut Value) {
    canonicalize("core.Node", node);
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

fn validate_namespace(namespace: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    for finalizer in list(&namespace["spec"]["finalizers"]).iter().map(text) {
        errors.syntax(&"spec.finalizers", finalizer, syntax::qualified_name(finalizer));
        let standard = ["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer);
        if !standard && !finalizer.contains('/') {
            let message = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(&"spec.finalizers", finalizer, message);
        }
    }
    errors.into_list()
}

fn validate_node(node: &Value) -> Errors {
    let mut errors = Errors::new();
    let metadata = Path::new("metadata");
    tolerations::validate_taints(&mut errors, list(&node["spec"]["taints"]), &metadata.child("taints"));
    validate_resources(&mut errors, node);
    let spec = Path::new("spec");
    let at = spec.child("podCIDRs");
    let cidrs = list(&node["spec"]["podCIDRs"]);
    for (i, cidr) in cidrs.iter().map(text).enumerate() {
        if let Some(wrong) = syntax::cidr_error(cidr) {
            errors.invalid(&at.index(i), cidr, wrong);
        }
    }
    let broken = cidrs.iter().map(text).position(|cidr| {
        let parts = cidr.split_once('/').map(|(ip, bits)| (ip.parse::<std::net::IpAddr>(), bits.parse::<u8>()));
        !matches!(parts, Some((Ok(ip), Ok(bits))) if bits <= if ip.is_ipv4() { 32 } else { 128 })
    });
    if let Some(i) = broken.filter(|_| cidrs.len() > 1) {
        let cidr = text(&cidrs[i]);
        let message = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{i}]: <nil> (invalid CIDR address: {cidr})"
        );
        errors.internal(&at, &message);
    }
    let families: BTreeSet<bool> = cidrs.iter().map(|cidr| text(cidr).contains(':')).collect();
    if cidrs.len() > 1 && (families.len() != 2 || cidrs.len() > 2) {
        let message = "may specify no more than one CIDR for each IP family";
        errors.invalid(&at, &node["spec"]["podCIDRs"], message);
    }
    errors
}

fn validate_resources(errors: &mut Errors, node: &Value) {
    let status = Path::new("status");
    for field in ["capacity", "allocatable"] {
        let at = status.child(field);
        for (resource, amount) in entries(&node["status"][field]) {
            resources::validate_quantity(errors, resource, amount, &at.child(resource));
        }
    }
}

fn validate_node_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_node(new);
    validate_resources(&mut errors, new);
    let mut addresses = BTreeSet::new();
    let status = Path::new("status");
    let at = status.child("addresses");
    for (i, address) in list(&new["status"]["addresses"]).iter().enumerate() {
        let (kind, held) = (text(&address["type"]), text(&address["address"]));
        if !addresses.insert((kind, held)) {
            let shown = format!(r#"{{"Type":"{kind}","Address":"{held}"}}"#);
            errors.duplicate(&at.index(i), Bad::raw(shown));
        }
    }
    let (spec, before) = (&new["spec"], &old["spec"]);
    if !list(&before["podCIDRs"]).is_empty() && spec["podCIDRs"] != before["podCIDRs"] {
        errors.forbidden(&"spec.podCIDRs", "node updates may not change podCIDR except from \"\" to valid");
    }
    if !text(&before["providerID"]).is_empty() && spec["providerID"] != before["providerID"] {
        errors.forbidden(&"spec.providerID", "node updates may not change providerID except from \"\" to valid");
    }
    let metadata = Path::new("metadata");
    tolerations::validate_taints(&mut errors, list(&spec["taints"]), &metadata.child("taints"));
    if spec["externalID"] != before["externalID"] {
        errors.forbidden(&"spec.externalID", "may not be updated");
    }
    errors.into_list()
}

fn node_row(node: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list(&node["status"]["conditions"]).iter().find(|condition| text(&condition["type"]) == "Ready");
    let mut status = match ready.map(|ready| text(&ready["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if yes(&node["spec"]["unschedulable"]) {
        status.push_str(",SchedulingDisabled");
    }
    let roles: BTreeSet<&str> = entries(&node["metadata"]["labels"])
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            None if key == "kubernetes.io/role" => Some(text(value)),
            role => role,
        })
        .filter(|role| !role.is_empty())
        .collect();
    let roles = roles.into_iter().collect::<Vec<_>>().join(",");
    let info = &node["status"]["nodeInfo"];
    let address = |kind: &str| {
        let found = list(&node["status"]["addresses"]).iter().find(|address| text(&address["type"]) == kind);
        Value::from(found.map_or("<none>", |address| text(&address["address"])))
    };
    let mut kernel = or(text(&info["kernelVersion"]), "<unknown>").to_owned();
    let architecture = text(&info["architecture"]);
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        name(node),
        status.into(),
        or(&roles, "<none>").into(),
        age(node, now),
        text(&info["kubeletVersion"]).into(),
        address("InternalIP"),
        address("ExternalIP"),
        or(text(&info["osImage"]), "<unknown>").into(),
        kernel.into(),
        or(text(&info["containerRuntimeVersion"]), "<unknown>").into(),
    ]
}

fn default_namespace(namespace: &mut Value) {
    canonicalize("core.Namespace", namespace);
    insert_default(child(namespace, "status"), "phase", "Active");
    label_namespace(namespace);
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

fn validate_namespace_status(new: &Value, _: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let phase = text(&new["status"]["phase"]);
    let deleting = new["metadata"]["deletionTimestamp"].is_string();
    if deleting && phase != "Terminating" {
        errors.invalid(&"status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty");
    } else if !deleting && phase != "Active" {
        errors.invalid(&"status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty");
    }
    errors.into_list()
}
