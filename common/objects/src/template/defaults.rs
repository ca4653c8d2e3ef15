//! Defaults of Pod templates: the fields that an API server of version 1.36 adds.
//!
//! Quantities remain unchanged, because the server rounds and rewrites them before it stores an object.

use serde_json::{Map, Value, json};

use crate::json::{for_each_object_in_list, insert_default, with_object_in_field};

type Object = Map<String, Value>;

/// Adds the defaults that apply both to Pods and to Pod templates. A value that is not a template remains unchanged.
///
/// Upstream: `pkg/apis/core/v1`, `SetDefaults_PodSpec` and the functions for all types below it.
pub fn apply_pod_template_defaults(template: &mut Value) {
    if let Value::Object(template) = template {
        with_object_in_field(template, "spec", apply_pod_spec_defaults);
    }
}

/// Adds the defaults of a Pod spec that also apply to templates.
pub fn apply_pod_spec_defaults(spec: &mut Object) {
    insert_default(spec, "dnsPolicy", "ClusterFirst");
    insert_default(spec, "restartPolicy", "Always");
    insert_default(spec, "schedulerName", "default-scheduler");
    insert_default(spec, "securityContext", Value::Object(Map::new()));
    insert_default(spec, "terminationGracePeriodSeconds", 30);
    service_account(spec);
    for_each_object_in_list(spec, "volumes", volume);
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        for_each_object_in_list(spec, containers, container);
    }
}

/// Copies `serviceAccountName` to its deprecated name `serviceAccount`, or in the other direction if only the latter is set.
fn service_account(spec: &mut Object) {
    match (spec.get("serviceAccountName").cloned(), spec.get("serviceAccount").cloned()) {
        (Some(name), old) if old.as_ref() != Some(&name) => {
            spec.insert("serviceAccount".to_owned(), name);
        }
        (None, Some(name)) => {
            spec.insert("serviceAccountName".to_owned(), name);
        }
        _ => {}
    }
}

fn container(container: &mut Object) {
    default_pull_policy(container, "imagePullPolicy", "image");
    insert_default(container, "terminationMessagePath", "/dev/termination-log");
    insert_default(container, "terminationMessagePolicy", "File");
    for_each_object_in_list(container, "ports", |port| insert_default(port, "protocol", "TCP"));
    for_each_object_in_list(container, "env", |variable| {
        with_object_in_field(variable, "valueFrom", |source| {
            with_object_in_field(source, "fieldRef", field_ref);
            with_object_in_field(source, "fileKeyRef", |file| insert_default(file, "optional", false));
        });
    });
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        with_object_in_field(container, kind, probe);
    }
    with_object_in_field(container, "lifecycle", |lifecycle| {
        for hook in ["postStart", "preStop"] {
            with_object_in_field(lifecycle, hook, |handler| with_object_in_field(handler, "httpGet", http_get));
        }
    });
}

/// Sets the field `policy` to the default pull policy of the image in the field `image`.
fn default_pull_policy(object: &mut Object, policy: &str, image: &str) {
    if !object.contains_key(policy) {
        let default = pull_policy(object.get(image).and_then(Value::as_str).unwrap_or_default());
        object.insert(policy.to_owned(), default.into());
    }
}

/// Returns `Always` for an image with the tag `latest` or without a tag and digest, and `IfNotPresent` for all other images and
/// for invalid names.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rfind('/').map_or(0, |at| at + 1);
    let (path, tag) = match name[last..].split_once(':') {
        Some((end, tag)) => (&name[..last + end.len()], Some(tag)),
        None => (name, None),
    };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    let valid = !path.is_empty() && path[last.min(path.len())..].chars().all(plain) && last < path.len();
    let latest = tag.map_or(digest.is_none(), |tag| tag == "latest");
    if valid && latest { "Always" } else { "IfNotPresent" }
}

fn field_ref(reference: &mut Object) {
    insert_default(reference, "apiVersion", "v1");
}

fn probe(probe: &mut Object) {
    insert_default(probe, "timeoutSeconds", 1);
    insert_default(probe, "periodSeconds", 10);
    insert_default(probe, "successThreshold", 1);
    insert_default(probe, "failureThreshold", 3);
    with_object_in_field(probe, "httpGet", http_get);
    with_object_in_field(probe, "grpc", |grpc| insert_default(grpc, "service", ""));
}

fn http_get(action: &mut Object) {
    insert_default(action, "path", "/");
    insert_default(action, "scheme", "HTTP");
}

/// Default mode of files in volumes of Secrets, ConfigMaps, the downward API and projected sources.
const FILE_MODE: i64 = 0o644;

fn volume(volume: &mut Object) {
    if !volume.keys().any(|field| field != "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    with_object_in_field(volume, "hostPath", |host_path| insert_default(host_path, "type", ""));
    for source in ["secret", "configMap"] {
        with_object_in_field(volume, source, |files| insert_default(files, "defaultMode", FILE_MODE));
    }
    with_object_in_field(volume, "downwardAPI", |files| {
        insert_default(files, "defaultMode", FILE_MODE);
        for_each_object_in_list(files, "items", |file| with_object_in_field(file, "fieldRef", field_ref));
    });
    with_object_in_field(volume, "projected", |projected| {
        insert_default(projected, "defaultMode", FILE_MODE);
        for_each_object_in_list(projected, "sources", |source| {
            with_object_in_field(source, "downwardAPI", |files| {
                for_each_object_in_list(files, "items", |file| with_object_in_field(file, "fieldRef", field_ref));
            });
            with_object_in_field(source, "serviceAccountToken", |token| {
                insert_default(token, "expirationSeconds", 3600);
            });
        });
    });
    with_object_in_field(volume, "ephemeral", |ephemeral| {
        with_object_in_field(ephemeral, "volumeClaimTemplate", |claim| {
            with_object_in_field(claim, "spec", apply_volume_claim_spec_defaults);
        });
    });
    with_object_in_field(volume, "image", |image| default_pull_policy(image, "pullPolicy", "reference"));
    apply_volume_source_defaults(volume);
}

/// Adds the defaults of volume sources that exist both in Pods and in `PersistentVolumes`.
pub fn apply_volume_source_defaults(volume: &mut Object) {
    with_object_in_field(volume, "iscsi", |iscsi| insert_default(iscsi, "iscsiInterface", "default"));
    with_object_in_field(volume, "rbd", |rbd| {
        for (field, value) in [("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")] {
            insert_default(rbd, field, value);
        }
    });
    with_object_in_field(volume, "azureDisk", |disk| {
        for (field, value) in [("cachingMode", "ReadWrite"), ("kind", "Shared"), ("fsType", "ext4")] {
            insert_default(disk, field, value);
        }
        insert_default(disk, "readOnly", false);
    });
    with_object_in_field(volume, "scaleIO", |scale_io| {
        insert_default(scale_io, "storageMode", "ThinProvisioned");
        insert_default(scale_io, "fsType", "xfs");
    });
}

/// Adds the defaults of a `PersistentVolumeClaim`'s spec.
pub fn apply_volume_claim_spec_defaults(spec: &mut Object) {
    insert_default(spec, "volumeMode", "Filesystem");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaulted(mut value: Value, default: fn(&mut Object)) -> Value {
        default(value.as_object_mut().unwrap());
        value
    }

    #[test]
    fn latest_images_are_always_pulled() {
        let table = [
            ("i", "Always"),
            ("img:1", "IfNotPresent"),
            ("img:latest", "Always"),
            ("host:5000/a/b", "Always"),
            ("host:5000/a/b:1", "IfNotPresent"),
            ("a@sha256:00", "IfNotPresent"),
            ("a:latest@sha256:00", "Always"),
            ("", "IfNotPresent"),
            ("UPPER", "IfNotPresent"),
            ("Host.io/a", "Always"),
        ];
        for (image, policy) in table {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }

    #[test]
    fn volumes_get_defaults() {
        assert_eq!(defaulted(json!({"name": "v"}), volume), json!({"name": "v", "emptyDir": {}}));
        let projected = json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}});
        let wanted = json!({"name": "v", "projected": {
            "defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}});
        assert_eq!(defaulted(projected, volume), wanted);
        assert_eq!(defaulted(json!({"name": "v", "hostPath": {"path": "/"}}), volume)["hostPath"]["type"], "");
    }
}
