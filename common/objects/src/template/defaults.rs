//! Defaults of Pod templates: the fields that an API server of version 1.36 adds.
//!
//! Quantities remain unchanged, because the server rounds and rewrites them before it stores an object.

use serde_json::{Map, Value, json};

use crate::json::{default_to, each, within};

type Object = Map<String, Value>;

/// Adds the defaults that apply both to Pods and to Pod templates. A value that is not a template remains unchanged.
///
/// Upstream: `pkg/apis/core/v1`, `SetDefaults_PodSpec` and the functions for all types below it.
pub fn apply_defaults(template: &mut Value) {
    if let Value::Object(template) = template {
        within(template, "spec", spec);
    }
}

/// Adds the defaults of a Pod spec that also apply to templates.
pub fn spec(spec: &mut Object) {
    default_to(spec, "dnsPolicy", "ClusterFirst");
    default_to(spec, "restartPolicy", "Always");
    default_to(spec, "schedulerName", "default-scheduler");
    default_to(spec, "securityContext", Value::Object(Map::new()));
    default_to(spec, "terminationGracePeriodSeconds", 30);
    service_account(spec);
    each(spec, "volumes", volume);
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, containers, container);
    }
}

/// Copies `serviceAccountName` to its deprecated name `serviceAccount`, or the other way if only the deprecated field is set.
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
    default_to(container, "terminationMessagePath", "/dev/termination-log");
    default_to(container, "terminationMessagePolicy", "File");
    each(container, "ports", |port| default_to(port, "protocol", "TCP"));
    each(container, "env", |variable| {
        within(variable, "valueFrom", |source| {
            within(source, "fieldRef", field_ref);
            within(source, "fileKeyRef", |file| default_to(file, "optional", false));
        });
    });
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        within(container, kind, probe);
    }
    within(container, "lifecycle", |lifecycle| {
        for hook in ["postStart", "preStop"] {
            within(lifecycle, hook, |handler| within(handler, "httpGet", http_get));
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
    default_to(reference, "apiVersion", "v1");
}

fn probe(probe: &mut Object) {
    default_to(probe, "timeoutSeconds", 1);
    default_to(probe, "periodSeconds", 10);
    default_to(probe, "successThreshold", 1);
    default_to(probe, "failureThreshold", 3);
    within(probe, "httpGet", http_get);
    within(probe, "grpc", |grpc| default_to(grpc, "service", ""));
}

fn http_get(action: &mut Object) {
    default_to(action, "path", "/");
    default_to(action, "scheme", "HTTP");
}

/// Default mode of files in volumes of Secrets, ConfigMaps, the downward API and projected sources.
const FILE_MODE: i64 = 0o644;

fn volume(volume: &mut Object) {
    if !volume.keys().any(|field| field != "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    within(volume, "hostPath", |host_path| default_to(host_path, "type", ""));
    for source in ["secret", "configMap"] {
        within(volume, source, |files| default_to(files, "defaultMode", FILE_MODE));
    }
    within(volume, "downwardAPI", |files| {
        default_to(files, "defaultMode", FILE_MODE);
        each(files, "items", |file| within(file, "fieldRef", field_ref));
    });
    within(volume, "projected", |projected| {
        default_to(projected, "defaultMode", FILE_MODE);
        each(projected, "sources", |source| {
            within(source, "downwardAPI", |files| each(files, "items", |file| within(file, "fieldRef", field_ref)));
            within(source, "serviceAccountToken", |token| default_to(token, "expirationSeconds", 3600));
        });
    });
    within(volume, "ephemeral", |ephemeral| {
        within(ephemeral, "volumeClaimTemplate", |claim| within(claim, "spec", claim_spec));
    });
    within(volume, "image", |image| default_pull_policy(image, "pullPolicy", "reference"));
    persistent_sources(volume);
}

/// Adds the defaults of volume sources that exist both in Pods and in `PersistentVolumes`.
pub fn persistent_sources(volume: &mut Object) {
    within(volume, "iscsi", |iscsi| default_to(iscsi, "iscsiInterface", "default"));
    within(volume, "rbd", |rbd| {
        for (field, value) in [("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")] {
            default_to(rbd, field, value);
        }
    });
    within(volume, "azureDisk", |disk| {
        for (field, value) in [("cachingMode", "ReadWrite"), ("kind", "Shared"), ("fsType", "ext4")] {
            default_to(disk, field, value);
        }
        default_to(disk, "readOnly", false);
    });
    within(volume, "scaleIO", |scale_io| {
        default_to(scale_io, "storageMode", "ThinProvisioned");
        default_to(scale_io, "fsType", "xfs");
    });
}

/// Adds the defaults of a `PersistentVolumeClaim`'s spec.
pub fn claim_spec(spec: &mut Object) {
    default_to(spec, "volumeMode", "Filesystem");
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
