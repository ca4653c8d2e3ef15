//! Validation of the volumes of a Pod and of where its containers mount them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    claims,
    containers::is_privileged,
    environment,
    errors::{Errors, Path},
    quantity::Quantity,
    selectors, syntax,
    value::{entries, list, text, yes},
};

/// The volumes of a Pod that are in order, by name.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

const MODE_ERROR: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Validates volumes. `pod` is the name of the Pod, empty for templates.
pub(super) fn validate<'a>(errors: &mut Errors, volumes: &'a [Value], at: &Path<'_>, pod: &str) -> Volumes<'a> {
    let mut found: Volumes<'a> = BTreeMap::new();
    let created: BTreeSet<String> = volumes
        .iter()
        .filter(|volume| !pod.is_empty() && volume["ephemeral"].is_object())
        .map(|volume| format!("{pod}-{}", text(&volume["name"])))
        .collect();
    for (i, volume) in volumes.iter().enumerate() {
        let at = at.index(i);
        let before = errors.len();
        let name = text(&volume["name"]);
        validate_source(errors, volume, pod, &at);
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else {
            errors.syntax(&at.child("name"), name, syntax::label(name));
        }
        if found.contains_key(name) {
            errors.duplicate(&at.child("name"), name);
        }
        if errors.len() == before {
            found.insert(name, volume);
        }
        let claim = text(&volume["persistentVolumeClaim"]["claimName"]);
        if created.contains(claim) {
            let at = at.child("persistentVolumeClaim");
            errors.invalid(
                &at.child("claimName"),
                claim,
                "must not reference a PVC that gets created for an ephemeral volume",
            );
        }
    }
    found
}

fn validate_source(errors: &mut Errors, volume: &Value, pod: &str, at: &Path<'_>) {
    let mut sources = 0;
    for (kind, source) in entries(volume).filter(|(kind, _)| *kind != "name") {
        sources += 1;
        let at = at.child(kind);
        if sources > 1 {
            errors.forbidden(&at, "may not specify more than 1 volume type");
            continue;
        }
        match kind {
            "hostPath" => validate_host_path(errors, source, &at),
            "secret" => validate_files(errors, source, "secretName", &at),
            "configMap" => validate_files(errors, source, "name", &at),
            "persistentVolumeClaim" => require(errors, source, &["claimName"], &at),
            "nfs" => {
                require(errors, source, &["server", "path"], &at);
                if !text(&source["path"]).starts_with('/') {
                    errors.invalid(&at.child("path"), text(&source["path"]), "must be an absolute path");
                }
            }
            "downwardAPI" => {
                validate_mode(errors, source, "defaultMode", &at);
                for file in list(&source["items"]) {
                    validate_downward_file(errors, file, &at);
                }
            }
            "projected" => validate_projected(errors, source, &at),
            "csi" => require(errors, source, &["driver"], &at),
            "ephemeral" => validate_ephemeral(errors, &source["volumeClaimTemplate"], &at.child("volumeClaimTemplate")),
            "image" => {
                if !pod.is_empty() {
                    require(errors, source, &["reference"], &at);
                }
                let policies = ["Always", "IfNotPresent", "Never"];
                errors.one_of(&at.child("pullPolicy"), text(&source["pullPolicy"]), &policies);
            }
            "emptyDir" => {
                let limit = Quantity::parse(text(&source["sizeLimit"]));
                if limit.as_ref().is_ok_and(Quantity::is_negative) {
                    let message = "SizeLimit field must be a valid resource quantity";
                    errors.forbidden(&at.child("sizeLimit"), message);
                }
            }
            "gitRepo" => {
                require(errors, source, &["repository"], &at);
                validate_relative(errors, text(&source["directory"]), &at.child("directory"));
            }
            _ => {}
        }
    }
    if sources == 0 {
        errors.required(at, "must specify a volume type");
    }
}

fn require(errors: &mut Errors, source: &Value, fields: &[&str], at: &Path<'_>) {
    for field in fields {
        if text(&source[*field]).is_empty() {
            errors.required(&at.child(field), "");
        }
    }
}

fn validate_host_path(errors: &mut Errors, source: &Value, at: &Path<'_>) {
    let path = text(&source["path"]);
    if path.is_empty() {
        return errors.required(&at.child("path"), "");
    }
    validate_no_backsteps(errors, path, &at.child("path"));
    let types = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    if let Some(kind) = source["type"].as_str().filter(|kind| !types.contains(kind)) {
        errors.not_supported(&at.child("type"), kind, &types);
    }
}

fn validate_mode(errors: &mut Errors, source: &Value, field: &str, at: &Path<'_>) {
    if let Some(mode) = source[field].as_i64().filter(|mode| !(0..=0o777).contains(mode)) {
        errors.invalid(&at.child(field), mode, MODE_ERROR);
    }
}

fn validate_files(errors: &mut Errors, source: &Value, name: &str, at: &Path<'_>) {
    require(errors, source, &[name], at);
    validate_mode(errors, source, "defaultMode", at);
    validate_items(errors, source, at);
}

fn validate_items(errors: &mut Errors, source: &Value, at: &Path<'_>) {
    let at = at.child("items");
    for (i, item) in list(&source["items"]).iter().enumerate() {
        let at = at.index(i);
        require(errors, item, &["key", "path"], &at);
        validate_local(errors, text(&item["path"]), &at.child("path"));
        validate_mode(errors, item, "mode", &at);
    }
}

fn validate_no_backsteps(errors: &mut Errors, path: &str, at: &Path<'_>) {
    if path.split('/').any(|part| part == "..") {
        errors.invalid(at, path, "must not contain '..'");
    }
}

/// A path below some directory.
pub(super) fn validate_relative(errors: &mut Errors, path: &str, at: &Path<'_>) {
    if path.starts_with('/') {
        errors.invalid(at, path, "must be a relative path");
    }
    validate_no_backsteps(errors, path, at);
}

fn validate_local(errors: &mut Errors, path: &str, at: &Path<'_>) {
    validate_relative(errors, path, at);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.invalid(at, path, "must not start with '..'");
    }
}

fn validate_downward_file(errors: &mut Errors, file: &Value, at: &Path<'_>) {
    require(errors, file, &["path"], at);
    validate_local(errors, text(&file["path"]), &at.child("path"));
    if file["fieldRef"].is_object() {
        let known = &environment::FILE_FIELDS;
        environment::validate_field_ref(errors, &file["fieldRef"], known, &at.child("fieldRef"));
        if file["resourceFieldRef"].is_object() {
            errors.invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
        }
    } else if file["resourceFieldRef"].is_object() {
        environment::validate_resource_ref(errors, &file["resourceFieldRef"], true, &at.child("resourceFieldRef"));
    } else {
        errors.required(at, "one of fieldRef and resourceFieldRef is required");
    }
    validate_mode(errors, file, "mode", at);
}

fn validate_projected(errors: &mut Errors, source: &Value, at: &Path<'_>) {
    validate_mode(errors, source, "defaultMode", at);
    let mut paths = BTreeSet::new();
    let sources = at.child("sources");
    for (i, projection) in list(&source["sources"]).iter().enumerate() {
        let here = sources.index(i);
        let mut given = 0;
        for (kind, held) in entries(projection) {
            given += 1;
            let here = here.child(kind);
            match kind {
                "secret" | "configMap" => {
                    require(errors, held, &["name"], &here);
                    validate_items(errors, held, &here);
                }
                "downwardAPI" => {
                    for file in list(&held["items"]) {
                        validate_downward_file(errors, file, &here);
                    }
                }
                "serviceAccountToken" => {
                    let seconds = held["expirationSeconds"].as_i64().unwrap_or(3600);
                    let expiration = here.child("expirationSeconds");
                    if seconds < 600 {
                        errors.invalid(&expiration, seconds, "may not specify a duration less than 10 minutes");
                    }
                    if seconds > 1 << 32 {
                        errors.invalid(&expiration, seconds, "may not specify a duration larger than 2^32 seconds");
                    }
                    require(errors, held, &["path"], at);
                    validate_local(errors, text(&held["path"]), &at.child("path"));
                }
                _ => {}
            }
            let own = (kind == "serviceAccountToken").then(|| text(&held["path"]));
            for path in list(&held["items"]).iter().map(|item| text(&item["path"])).chain(own) {
                if !path.is_empty() && !paths.insert(path) {
                    let shown = if matches!(kind, "secret" | "configMap") { text(&held["name"]) } else { path };
                    errors.invalid(at, shown, "conflicting duplicate paths");
                }
            }
        }
        if given > 1 {
            errors.forbidden(&here, "may not specify more than 1 volume type");
        }
    }
}

fn validate_ephemeral(errors: &mut Errors, template: &Value, at: &Path<'_>) {
    if !template.is_object() {
        return errors.required(at, "");
    }
    let metadata = at.child("metadata");
    selectors::validate_annotations(errors, &template["metadata"]["annotations"], &metadata.child("annotations"));
    selectors::validate_labels(errors, &template["metadata"]["labels"], &metadata.child("labels"));
    for (field, _) in entries(&template["metadata"]) {
        if !matches!(field, "annotations" | "labels") {
            errors.forbidden(&metadata.child(field), "cannot be set");
        }
    }
    claims::validate_spec(errors, &template["spec"], &at.child("spec"));
}

/// Validates the mounts and devices of a container.
pub(super) fn validate_mounts(errors: &mut Errors, container: &Value, volumes: &Volumes<'_>, at: &Path<'_>) {
    let (mounts, devices) = (list(&container["volumeMounts"]), list(&container["volumeDevices"]));
    let at_mounts = at.child("volumeMounts");
    let mut paths = BTreeSet::new();
    for (i, mount) in mounts.iter().enumerate() {
        let at = at_mounts.index(i);
        let (name, path) = (text(&mount["name"]), text(&mount["mountPath"]));
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        }
        if !volumes.contains_key(name) {
            errors.not_found(&at.child("name"), name);
        }
        if path.is_empty() {
            errors.required(&at.child("mountPath"), "");
        }
        if !paths.insert(path) {
            errors.invalid(&at.child("mountPath"), path, "must be unique");
        }
        if devices.iter().any(|device| text(&device["name"]) == name) {
            errors.invalid(&at.child("name"), name, "must not already exist in volumeDevices");
        }
        if devices.iter().any(|device| text(&device["devicePath"]) == path) {
            errors.invalid(&at.child("mountPath"), path, "must not already exist as a path in volumeDevices");
        }
        let (below, pattern) = (text(&mount["subPath"]), text(&mount["subPathExpr"]));
        if !below.is_empty() {
            validate_relative(errors, below, &at_mounts.child("subPath"));
        }
        if !pattern.is_empty() {
            if !below.is_empty() {
                errors.invalid(&at.child("subPathExpr"), pattern, "subPathExpr and subPath are mutually exclusive");
            }
            validate_relative(errors, pattern, &at_mounts.child("subPathExpr"));
        }
        validate_propagation(errors, container, mount, &at_mounts);
    }
    let at_devices = at.child("volumeDevices");
    validate_devices(errors, devices, mounts, volumes, &at_devices);
}

fn validate_propagation(errors: &mut Errors, container: &Value, mount: &Value, at: &Path<'_>) {
    let propagation = mount["mountPropagation"].as_str();
    if let Some(mode) = propagation {
        let at = at.child("mountPropagation");
        if !["Bidirectional", "HostToContainer", "None"].contains(&mode) {
            errors.not_supported(&at, mode, &["Bidirectional", "HostToContainer", "None"]);
        }
        if mode == "Bidirectional" && !is_privileged(container) {
            errors.forbidden(&at, "Bidirectional mount propagation is available only to privileged containers");
        }
    }
    if let Some(mode) = mount["recursiveReadOnly"].as_str() {
        let at = at.child("recursiveReadOnly");
        match mode {
            "Disabled" => {}
            "Enabled" | "IfPossible" => {
                if !yes(&mount["readOnly"]) {
                    errors.forbidden(&at, "may only be specified when readOnly is true");
                }
                if propagation.is_some_and(|mode| mode != "None") {
                    errors.forbidden(&at, "may only be specified when mountPropagation is None or not specified");
                }
            }
            mode => errors.not_supported(&at, mode, &["Disabled", "Enabled", "IfPossible"]),
        }
    }
}

fn validate_devices(errors: &mut Errors, devices: &[Value], mounts: &[Value], volumes: &Volumes<'_>, at: &Path<'_>) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (i, device) in devices.iter().enumerate() {
        let at = at.index(i);
        let (name, path) = (text(&device["name"]), text(&device["devicePath"]));
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        }
        if !names.insert(name) {
            errors.invalid(&at.child("name"), name, "must be unique");
        }
        match volumes.get(name) {
            None => errors.not_found(&at.child("name"), name),
            Some(volume) => {
                let block =
                    volume.is_null() || volume["persistentVolumeClaim"].is_object() || volume["ephemeral"].is_object();
                if !block {
                    let message =
                        "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    errors.invalid(&at.child("name"), name, message);
                }
            }
        }
        if path.is_empty() {
            errors.required(&at.child("devicePath"), "");
        }
        if !paths.insert(path) {
            errors.invalid(&at.child("devicePath"), path, "must be unique");
        }
        if path.split('/').any(|part| part == "..") {
            errors.invalid(&at.child("devicePath"), path, "can not contain backsteps ('..')");
        }
        if mounts.iter().any(|mount| text(&mount["name"]) == name) {
            errors.invalid(&at.child("name"), name, "must not already exist in volumeMounts");
        }
        if mounts.iter().any(|mount| text(&mount["mountPath"]) == path) {
            errors.invalid(&at.child("devicePath"), path, "must not already exist as a path in volumeMounts");
        }
    }
}
