//! Validation of Pod specs and Pod templates beyond their single fields.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    errors::{Bad, Errors, Path},
    selectors,
    value::{int, list, text},
};

/// Annotation that marks a Pod as the mirror of a static one.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Validates what a Pod template says of its Pods beside their spec.
pub(super) fn validate_template(errors: &mut Errors, template: &Value, at: &Path<'_>) {
    let metadata = &template["metadata"];
    selectors::validate_labels(errors, &metadata["labels"], &at.child("labels"));
    selectors::validate_annotations(errors, &metadata["annotations"], &at.child("annotations"));
    validate_deletion_cost(errors, &metadata["annotations"], &at.child("annotations"));
    if !list(&template["spec"]["ephemeralContainers"]).is_empty() {
        let spec = at.child("spec");
        errors.forbidden(&spec.child("ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
}

pub(super) fn validate_annotations(errors: &mut Errors, pod: &Value) {
    let metadata = Path::new("metadata");
    let at = metadata.child("annotations");
    let annotations = &pod["metadata"]["annotations"];
    if let Some(mirror) = annotations.get(MIRROR)
        && text(&pod["spec"]["nodeName"]).is_empty()
    {
        errors.invalid(&at.key(MIRROR), mirror, "must set spec.nodeName if mirror pod annotation is set");
    }
    validate_deletion_cost(errors, annotations, &at);
}

fn validate_deletion_cost(errors: &mut Errors, annotations: &Value, at: &Path<'_>) {
    if let Some(cost) = annotations.get(DELETION_COST).map(text) {
        let plain = !cost.starts_with('+') && (cost == "0" || !cost.trim_start_matches('-').starts_with('0'));
        if !plain || cost.parse::<i32>().is_err() {
            errors.invalid(&at.key(DELETION_COST), cost, "must be a 32bit integer");
        }
    }
}

/// Names that occur once only, mounts of volumes that exist, and the group of the Pod.
pub(super) fn validate(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let mut volumes = BTreeSet::new();
    validate_names(errors, &spec["volumes"], &mut volumes, &at.child("volumes"));
    let (mut names, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        let at = at.child(field);
        validate_names(errors, &spec[field], &mut names, &at);
        for (i, container) in list(&spec[field]).iter().enumerate() {
            let at = at.index(i);
            validate_mounts(errors, &container["volumeMounts"], &volumes, &at.child("volumeMounts"));
            validate_host_ports(errors, &container["ports"], &mut ports, &at.child("ports"));
        }
    }
    if spec["schedulingGroup"].is_object() && spec["schedulingGroup"]["podGroupName"].is_null() {
        let at = at.child("schedulingGroup");
        errors.invalid(&at.child("podGroupName"), Bad::raw("null"), "must specify one of: `podGroupName`");
    }
}

/// The names of a list; one that is there already is a duplicate.
fn validate_names<'a>(errors: &mut Errors, elements: &'a Value, taken: &mut BTreeSet<&'a str>, at: &Path<'_>) {
    for (i, name) in list(elements).iter().map(|element| text(&element["name"])).enumerate() {
        if !taken.insert(name) {
            errors.duplicate(&at.index(i).child("name"), name);
        }
    }
}

fn validate_mounts(errors: &mut Errors, mounts: &Value, volumes: &BTreeSet<&str>, at: &Path<'_>) {
    let mut paths = BTreeSet::new();
    for (i, mount) in list(mounts).iter().enumerate() {
        let (name, path) = (text(&mount["name"]), text(&mount["mountPath"]));
        if !volumes.contains(name) {
            errors.not_found(&at.index(i).child("name"), name);
        }
        if !paths.insert(path) {
            errors.invalid(&at.index(i).child("mountPath"), path, "must be unique");
        }
    }
}

fn validate_host_ports<'a>(
    errors: &mut Errors,
    ports: &'a Value,
    taken: &mut BTreeSet<(&'a str, &'a str, i64)>,
    at: &Path<'_>,
) {
    for (i, port) in list(ports).iter().enumerate() {
        let (protocol, ip, number) = (text(&port["protocol"]), text(&port["hostIP"]), int(&port["hostPort"]));
        if number != 0 && !taken.insert((protocol, ip, number)) {
            errors.duplicate(&at.index(i).child("hostPort"), format!("{protocol}/{ip}/{number}").as_str());
        }
    }
}
