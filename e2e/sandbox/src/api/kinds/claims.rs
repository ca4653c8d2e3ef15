//! `PersistentVolumeClaims` and `PersistentVolumes`.

use serde_json::{Value, json};

use super::{
    Env,
    behaviour::Behaviour,
    canonical::format_time,
    errors::{Errors, Path},
    pod_defaults,
    quantity::Quantity,
    strategy,
    value::{child, entries, insert_default, list, object, take, text, with_object_in_field},
};

pub(super) fn claim() -> Behaviour {
    Behaviour {
        default: Some(|claim| with_object_in_field(object(claim), "spec", pod_defaults::claim_spec)),
        prepare_create: Some(create_claim),
        prepare_update: Some(update_claim),
        validate: Some(validate_claim),
        validate_status: Some(validate_claim_status),
        cell: Some(|claim, _, column| cell(claim, &claim["status"], column).map(Value::from)),
        ..Behaviour::default()
    }
}

pub(super) fn volume() -> Behaviour {
    Behaviour {
        default: Some(default_volume),
        prepare_create: Some(create_volume),
        validate: Some(validate_volume),
        cell: Some(|volume, _, column| cell(volume, &volume["spec"], column).map(Value::from)),
        ..Behaviour::default()
    }
}

/// Fields of a volume's spec that do not say where it is.
const PLAIN: [&str; 9] = [
    "capacity",
    "accessModes",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
];

/// `dataSource` and `dataSourceRef` stand for each other where they can; what was never allowed in the former is
/// silently dropped.
fn normalize_sources(claim: &mut Value, old: &Value) {
    let spec = child(claim, "spec");
    let held = ["dataSource", "dataSourceRef"].iter().any(|field| old["spec"][field].is_object());
    if !held && !spec.contains_key("dataSourceRef") {
        let known = spec.get("dataSource").is_none_or(|source| {
            let of = (text(&source["apiGroup"]), text(&source["kind"]));
            matches!(of, ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot"))
        });
        if !known {
            spec.remove("dataSource");
        }
    }
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source), None) => {
            spec.insert("dataSourceRef".to_owned(), source);
        }
        (None, Some(reference)) if text(&reference["namespace"]).is_empty() => {
            spec.insert("dataSource".to_owned(), reference);
        }
        _ => {}
    }
}

fn create_claim(claim: &mut Value, _: &Env<'_>) {
    object(claim).insert("status".to_owned(), json!({"phase": "Pending"}));
    normalize_sources(claim, &Value::Null);
    strategy::add_finalizer(claim, "kubernetes.io/pvc-protection");
}

fn update_claim(new: &mut Value, old: &Value, _: &Env<'_>) {
    strategy::update("core/v1.PersistentVolumeClaim", new, old, false);
    normalize_sources(new, old);
}

fn validate_claim(errors: &mut Errors, new: &Value, old: &Value) {
    validate_spec(errors, &new["spec"], &Path::new("spec"));
    if !old.is_null() {
        validate_claim_update(errors, new, old);
    }
}

/// Validates the spec of a claim, on its own or in a template.
pub(super) fn validate_spec(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let modes = list(&spec["accessModes"]);
    let modes_at = at.child("accessModes");
    if modes.is_empty() {
        errors.required(&modes_at, "at least 1 access mode is required");
    }
    let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes.iter().map(text).filter(|mode| !known.contains(mode)) {
        errors.not_supported(&modes_at, mode, &known);
    }
    if spec["resources"]["requests"].get("storage").is_none() {
        let resources = at.child("resources");
        errors.required(&resources.key("storage"), "");
    }
}

fn validate_claim_update(errors: &mut Errors, new: &Value, old: &Value) {
    let (mut wanted, mut held) = (new["spec"].clone(), old["spec"].clone());
    if text(&held["volumeName"]).is_empty() {
        take(&mut held, &wanted, "volumeName");
    }
    if held.get("storageClassName").is_none() {
        take(&mut held, &wanted, "storageClassName");
    }
    let bound = text(&new["status"]["phase"]) == "Bound";
    if bound {
        take(&mut wanted, &held, "volumeAttributesClassName");
        if let Some(requests) = wanted["resources"].get_mut("requests") {
            take(requests, &held["resources"]["requests"], "storage");
        }
    }
    if wanted != held {
        let message =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.forbidden(&"spec", message);
    }
    let size = |claim: &Value| Quantity::parse(text(&claim["resources"]["requests"]["storage"])).ok();
    let capacity = Quantity::parse(text(&old["status"]["capacity"]["storage"])).unwrap_or(Quantity::ZERO);
    if let (Some(wanted), Some(held)) = (size(&new["spec"]), size(&old["spec"]))
        && wanted < held
        && wanted <= capacity
    {
        errors.forbidden(&"spec.resources.requests.storage", "field can not be less than status.capacity");
    }
    errors.immutable(&"volumeMode", &new["spec"]["volumeMode"], &old["spec"]["volumeMode"]);
}

fn validate_claim_status(errors: &mut Errors, new: &Value, _: &Value) {
    let status = Path::new("status");
    let at = status.child("capacity");
    for (name, amount) in entries(&new["status"]["capacity"]) {
        let value = Quantity::parse(text(amount)).unwrap_or(Quantity::ZERO).value();
        if value < 0 {
            errors.invalid(&at.key(name), value as i64, "must be a valid resource quantity");
        }
    }
}

fn default_volume(volume: &mut Value) {
    with_object_in_field(object(volume), "spec", |spec| {
        with_object_in_field(spec, "hostPath", |host_path| insert_default(host_path, "type", ""));
        pod_defaults::apply_volume_source_defaults(spec);
    });
}

fn create_volume(volume: &mut Value, env: &Env<'_>) {
    let status = json!({"phase": "Pending", "lastPhaseTransitionTime": format_time(env.now)});
    object(volume).insert("status".to_owned(), status);
    strategy::add_finalizer(volume, "kubernetes.io/pv-protection");
}

/// A volume stays where it is.
fn validate_volume(errors: &mut Errors, new: &Value, old: &Value) {
    let source = |volume: &Value| -> Value {
        entries(&volume["spec"])
            .filter(|(field, _)| !PLAIN.contains(field))
            .map(|(field, held)| (field.to_owned(), held.clone()))
            .collect()
    };
    let (wanted, mut held) = (source(new), source(old));
    if old.is_null() {
        return;
    }
    if held["csi"].is_object() && held["csi"].get("controllerExpandSecretRef").is_none() {
        take(&mut held["csi"], &wanted["csi"], "controllerExpandSecretRef");
    }
    if wanted != held {
        errors.forbidden(&"spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation");
    }
    errors.immutable(&"volumeMode", &new["spec"]["volumeMode"], &old["spec"]["volumeMode"]);
}

/// `bound` has the access modes of the volume.
fn cell(object: &Value, bound: &Value, column: &str) -> Option<String> {
    let bare = bound != &object["spec"] && text(&object["spec"]["volumeName"]).is_empty();
    match column {
        "Access Modes" if bare => Some(String::new()),
        "Access Modes" => Some(modes_cell(&bound["accessModes"])),
        "StorageClass" => {
            let beta = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
            Some(beta.as_str().unwrap_or_else(|| text(&object["spec"]["storageClassName"])).to_owned())
        }
        "Status" if object["metadata"]["deletionTimestamp"].is_string() => Some("Terminating".to_owned()),
        "Status" => Some(text(&object["status"]["phase"]).to_owned()),
        _ => None,
    }
}

fn modes_cell(modes: &Value) -> String {
    let short =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let held = list(modes);
    let shown: Vec<&str> =
        short.iter().filter(|(mode, _)| held.iter().any(|held| held == mode)).map(|(_, short)| *short).collect();
    shown.join(",")
}
