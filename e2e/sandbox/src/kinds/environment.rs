//! Validation of environment variables and of what they come from.

use serde_json::Value;

use super::{
    containers::Surroundings,
    errors::{Errors, Path},
    syntax,
    value::{entries, list, text},
};

/// What a variable may name of its Pod, sorted.
const POD_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// What a file may hold of its Pod, sorted.
pub(super) const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// What a resource that is counted in bytes may be divided by.
const BYTES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Validates the variables of a container.
pub(super) fn validate(errors: &mut Errors, variables: &[Value], pod: &Surroundings<'_>, at: &Path<'_>) {
    for (i, variable) in variables.iter().enumerate() {
        let at = at.index(i);
        let name = text(&variable["name"]);
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else {
            errors.syntax(&at.child("name"), name, syntax::env_name(name));
        }
        if variable["valueFrom"].is_object() {
            validate_source(errors, variable, pod, &at.child("valueFrom"));
        }
    }
}

fn validate_source(errors: &mut Errors, variable: &Value, pod: &Surroundings<'_>, at: &Path<'_>) {
    let source = &variable["valueFrom"];
    let mut sources = 0;
    if source["fieldRef"].is_object() {
        sources += 1;
        validate_field_ref(errors, &source["fieldRef"], &POD_FIELDS, &at.child("fieldRef"));
    }
    if source["resourceFieldRef"].is_object() {
        sources += 1;
        validate_resource_ref(errors, &source["resourceFieldRef"], false, &at.child("resourceFieldRef"));
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        if source[field].is_object() {
            sources += 1;
            let at = at.child(field);
            let name = text(&source[field]["name"]);
            errors.syntax(&at.child("name"), name, syntax::subdomain(name));
            match text(&source[field]["key"]) {
                "" => errors.required(&at.child("key"), ""),
                key => errors.syntax(&at.child("key"), key, syntax::config_key(key)),
            }
        }
    }
    if source["fileKeyRef"].is_object() {
        sources += 1;
        validate_file_ref(errors, &source["fileKeyRef"], pod, &at.child("fileKeyRef"));
    }
    if sources == 0 {
        let message =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(at, "", message);
    } else if !text(&variable["value"]).is_empty() {
        errors.invalid(at, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(at, "", "may not have more than one field specified at a time");
    }
}

fn validate_file_ref(errors: &mut Errors, file: &Value, pod: &Surroundings<'_>, at: &Path<'_>) {
    for field in ["key", "volumeName", "path"] {
        if text(&file[field]).is_empty() {
            errors.required(&at.child(field), "");
        }
    }
    let volume = text(&file["volumeName"]);
    match list(&pod.spec["volumes"]).iter().find(|held| text(&held["name"]) == volume) {
        None => errors.not_found(&at.child("volumeName"), volume),
        Some(held) if !held["emptyDir"].is_object() => {
            errors.invalid(&at.child("volumeName"), volume, "referenced volume must be of type emptyDir");
        }
        Some(_) => {}
    }
}

/// Validates a reference to a field of the Pod.
pub(super) fn validate_field_ref(errors: &mut Errors, reference: &Value, known: &[&str], at: &Path<'_>) {
    if text(&reference["apiVersion"]).is_empty() {
        return errors.required(&at.child("apiVersion"), "");
    }
    let path = text(&reference["fieldPath"]);
    if path.is_empty() {
        return errors.required(&at.child("fieldPath"), "");
    }
    let version = text(&reference["apiVersion"]);
    if version != "v1" {
        let message = format!("error converting fieldPath: unsupported pod version: {version}");
        return errors.invalid(&at.child("fieldPath"), path, &message);
    }
    let subscripted = path.strip_suffix("']").and_then(|path| path.split_once("['"));
    if let Some((field, key)) = subscripted {
        match field {
            "metadata.annotations" => {
                let key = key.to_lowercase();
                errors.syntax(at, &key, syntax::qualified_name(&key));
            }
            "metadata.labels" => errors.syntax(at, key, syntax::qualified_name(key)),
            _ => errors.invalid(at, field, "does not support subscript"),
        }
        return;
    }
    let convertible = POD_FIELDS.contains(&path) || FILE_FIELDS.contains(&path) || path == "spec.host";
    let path = if path == "spec.host" { "spec.nodeName" } else { path };
    if !convertible {
        let message = format!("error converting fieldPath: field label not supported: {path}");
        errors.invalid(&at.child("fieldPath"), path, &message);
    } else if !known.contains(&path) {
        errors.not_supported(&at.child("fieldPath"), path, known);
    }
}

/// Validates a reference to a resource of a container.
pub(super) fn validate_resource_ref(errors: &mut Errors, reference: &Value, in_volume: bool, at: &Path<'_>) {
    let resource = text(&reference["resource"]);
    let huge = resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if in_volume && text(&reference["containerName"]).is_empty() {
        errors.required(&at.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&at.child("resource"), "");
    } else if !RESOURCES.contains(&resource) && !huge {
        errors.not_supported(&at.child("resource"), resource, &RESOURCES);
    }
    let divisor = text(&reference["divisor"]);
    if divisor.is_empty() || divisor == "0" {
        return;
    }
    let bytes = "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the";
    let message = match resource.split_once('.').map(|(_, name)| name) {
        Some("cpu") if !["1m", "1"].contains(&divisor) => {
            "only divisor's values 1m and 1 are supported with the cpu resource".to_owned()
        }
        Some("memory") if !BYTES.contains(&divisor) => format!("{bytes} memory resource"),
        Some("ephemeral-storage") if !BYTES.contains(&divisor) => format!("{bytes} local ephemeral storage resource"),
        Some(_) if huge && !BYTES.contains(&divisor) => format!("{bytes} hugepages resource"),
        _ => return,
    };
    errors.invalid(&at.child("divisor"), resource, &message);
}

/// Validates the objects whose entries become variables.
pub(super) fn validate_sources(errors: &mut Errors, sources: &[Value], at: &Path<'_>) {
    for (i, source) in sources.iter().enumerate() {
        let here = at.index(i);
        let prefix = text(&source["prefix"]);
        if !prefix.is_empty() {
            errors.syntax(&here.child("prefix"), prefix, syntax::env_name(prefix));
        }
        let mut given = 0;
        for (field, held) in entries(source).filter(|(field, _)| matches!(*field, "configMapRef" | "secretRef")) {
            given += 1;
            let here = here.child(field);
            match text(&held["name"]) {
                "" => errors.required(&here.child("name"), ""),
                name => errors.syntax(&here.child("name"), name, syntax::subdomain(name.trim_end_matches('-'))),
            }
        }
        match given {
            0 => errors.invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(at, "", "may not have more than one field specified at a time"),
        }
    }
}
