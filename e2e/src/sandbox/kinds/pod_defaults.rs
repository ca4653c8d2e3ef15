//! Defaults of Pod specs and Pod templates.

use serde_json::{Map, Value, json};

use super::{
    quantity::Quantity,
    value::{default_to, each, int, text, within},
};

type Object = Map<String, Value>;

/// Defaults a Pod template: what is shared by Pods and everything that makes Pods.
pub(super) fn template(template: &mut Object) {
    within(template, "spec", spec);
}

/// Defaults the parts of a Pod spec that templates have too.
pub(super) fn spec(spec: &mut Object) {
    for (field, value) in
        [("dnsPolicy", "ClusterFirst"), ("restartPolicy", "Always"), ("schedulerName", "default-scheduler")]
    {
        default_to(spec, field, value);
    }
    default_to(spec, "securityContext", Value::Object(Map::new()));
    default_to(spec, "terminationGracePeriodSeconds", 30);
    service_account(spec);
    each(spec, "volumes", volume);
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, containers, container);
    }
    within(spec, "overhead", round_up);
    within(spec, "resources", resources);
}

/// `serviceAccount` is the old name of `serviceAccountName`: both are written.
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
    if !container.contains_key("imagePullPolicy") {
        let image = container.get("image").map(text).unwrap_or_default();
        let policy = pull_policy(image);
        container.insert("imagePullPolicy".to_owned(), policy.into());
    }
    default_to(container, "terminationMessagePath", "/dev/termination-log");
    default_to(container, "terminationMessagePolicy", "File");
    each(container, "ports", |port| default_to(port, "protocol", "TCP"));
    each(container, "env", |variable| {
        within(variable, "valueFrom", |source| {
            within(source, "fieldRef", field_ref);
            within(source, "fileKeyRef", |file| default_to(file, "optional", false));
        });
    });
    within(container, "resources", resources);
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        within(container, kind, probe);
    }
    within(container, "lifecycle", |lifecycle| {
        for hook in ["postStart", "preStop"] {
            within(lifecycle, hook, |handler| within(handler, "httpGet", http_get));
        }
    });
}

/// `Always` for images that say or imply `latest`, `IfNotPresent` for all others and for what is not an image's name.
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

fn resources(resources: &mut Object) {
    within(resources, "limits", round_up);
    within(resources, "requests", round_up);
}

/// Resources are kept in thousandths.
fn round_up(list: &mut Object) {
    for amount in list.values_mut() {
        let fine = matches!(amount, Value::String(s) if s.ends_with(['n', 'u']) || s.contains("e-"));
        if fine && let Ok(quantity) = Quantity::parse(text(amount)) {
            *amount = quantity.round_up_to_milli().to_string().into();
        }
    }
}

fn probe(probe: &mut Object) {
    for (field, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        default_to(probe, field, value);
    }
    within(probe, "httpGet", http_get);
    within(probe, "grpc", |grpc| default_to(grpc, "service", ""));
}

fn http_get(action: &mut Object) {
    default_to(action, "path", "/");
    default_to(action, "scheme", "HTTP");
}

/// Mode of files in volumes that are made from API objects.
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
    within(volume, "image", |image| {
        if !image.contains_key("pullPolicy") {
            let policy = pull_policy(image.get("reference").map(text).unwrap_or_default());
            image.insert("pullPolicy".to_owned(), policy.into());
        }
    });
    persistent_sources(volume);
}

/// Defaults of volume sources that `PersistentVolumes` have too.
pub(super) fn persistent_sources(volume: &mut Object) {
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

/// Defaults of a claim's spec.
pub(super) fn claim_spec(spec: &mut Object) {
    default_to(spec, "volumeMode", "Filesystem");
    within(spec, "resources", resources);
}

/// Defaults of a Pod itself, after those of its spec: what templates do not get.
pub(super) fn pod(spec: &mut Object) {
    for containers in ["containers", "initContainers"] {
        each(spec, containers, |container| within(container, "resources", requests_from_limits));
    }
    pod_requests(spec);
    default_to(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        for containers in ["containers", "initContainers"] {
            each(spec, containers, |container| each(container, "ports", host_port));
        }
    }
}

fn requests_from_limits(resources: &mut Object) {
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    if let Value::Object(requests) = resources.entry("requests").or_insert_with(|| json!({})) {
        for (name, amount) in limits {
            requests.entry(name).or_insert(amount);
        }
    }
}

fn host_port(port: &mut Object) {
    if let Some(number) = port.get("containerPort").map(int) {
        default_to(port, "hostPort", number);
    }
}

/// A Pod with limits of its own requests what its containers request together, or else its limits.
fn pod_requests(spec: &mut Object) {
    let Some(Value::Object(limits)) = spec.get("resources").and_then(|resources| resources.get("limits")).cloned()
    else {
        return;
    };
    let mut wanted = container_requests(spec);
    wanted.retain(|name, _| matches!(name.as_str(), "cpu" | "memory"));
    for (name, amount) in limits {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            wanted.entry(name).or_insert(amount);
        }
    }
    within(spec, "resources", |resources| {
        if let Value::Object(requests) = resources.entry("requests").or_insert_with(|| json!({})) {
            for (name, amount) in wanted {
                requests.entry(name).or_insert(amount);
            }
        }
    });
}

/// What the containers of a Pod need at once: those that run together summed up, and each init container on its own.
fn container_requests(spec: &Object) -> Object {
    let requests = |container: &Value| -> Vec<(String, Quantity)> {
        let list = container["resources"]["requests"].as_object();
        let parsed = list
            .into_iter()
            .flatten()
            .filter_map(|(name, amount)| Quantity::parse(text(amount)).ok().map(|quantity| (name.clone(), quantity)));
        parsed.collect()
    };
    let containers = |field: &str| spec.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut total: Vec<(String, Quantity)> = vec![];
    let add = |total: &mut Vec<(String, Quantity)>, name: String, amount: Quantity| match total
        .iter_mut()
        .find(|(held, _)| *held == name)
    {
        Some((_, sum)) => *sum = sum.plus(amount),
        None => total.push((name, amount)),
    };
    for container in containers("containers") {
        for (name, amount) in requests(&container) {
            add(&mut total, name, amount);
        }
    }
    let mut sidecars: Vec<(String, Quantity)> = vec![];
    let mut peaks: Vec<(String, Quantity)> = vec![];
    for container in containers("initContainers") {
        let sidecar = text(&container["restartPolicy"]) == "Always";
        for (name, amount) in requests(&container) {
            let beside = sidecars.iter().find(|(held, _)| *held == name).map_or(Quantity::ZERO, |(_, sum)| *sum);
            let peak = beside.plus(amount);
            match peaks.iter_mut().find(|(held, _)| *held == name) {
                Some((_, most)) if *most < peak => *most = peak,
                Some(_) => {}
                None => peaks.push((name.clone(), peak)),
            }
            if sidecar {
                add(&mut sidecars, name.clone(), amount);
                add(&mut total, name, amount);
            }
        }
    }
    for (name, peak) in peaks {
        match total.iter_mut().find(|(held, _)| *held == name) {
            Some((_, sum)) if *sum < peak => *sum = peak,
            Some(_) => {}
            None => total.push((name, peak)),
        }
    }
    total.into_iter().map(|(name, amount)| (name, amount.to_string().into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaulted(mut value: Value, default: fn(&mut Object)) -> Value {
        default(value.as_object_mut().unwrap());
        value
    }

    #[test]
    fn pulls_latest_images_always() {
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
    fn defaults_volumes() {
        assert_eq!(defaulted(json!({"name": "v"}), volume), json!({"name": "v", "emptyDir": {}}));
        let projected = json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}});
        let wanted = json!({"name": "v", "projected": {
            "defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}});
        assert_eq!(defaulted(projected, volume), wanted);
        assert_eq!(defaulted(json!({"name": "v", "hostPath": {"path": "/"}}), volume)["hostPath"]["type"], "");
    }

    #[test]
    fn requests_what_is_limited() {
        let spec = json!({
            "hostNetwork": true,
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
                "ports": [{"containerPort": 80}]}],
        });
        let spec = defaulted(spec, pod);
        assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
        assert_eq!(spec["containers"][0]["ports"][0]["hostPort"], 80);
        assert_eq!(spec["enableServiceLinks"], true);
        let spec = json!({
            "resources": {"limits": {"cpu": "4", "memory": "1Gi"}},
            "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "3"}}}],
            "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        });
        assert_eq!(defaulted(spec, pod)["resources"]["requests"], json!({"cpu": "4", "memory": "1Gi"}));
    }
}
