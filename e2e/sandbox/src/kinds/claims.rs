//! `PersistentVolumeClaims` and `PersistentVolumes`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Env, FieldError,
    behaviour::{Behaviour, behaviour},
    canonical::canonicalize,
    diff, dump,
    errors::{Errors, Path},
    pod_defaults,
    quantity::Quantity,
    selectors, strategy, syntax,
    table::{age, name},
    value::{child, entries, insert_default, list, object, take, text, with_object_in_field},
};

/// `persistentvolumeclaims`.
pub(super) const CLAIM: Behaviour = behaviour!("core.PersistentVolumeClaim", plain,
    default: default_claim,
    prepare_create: create_claim,
    prepare_update: update_claim,
    validate_create: |claim| validate_claim(claim).into_list(),
    validate_update: validate_claim_update,
    validate_status: validate_claim_status,
    row: claim_row,
);

/// `persistentvolumes`.
pub(super) const VOLUME: Behaviour = behaviour!("core.PersistentVolume", plain,
    default: default_volume,
    prepare_create: create_volume,
    validate_create: |volume| validate_volume(volume).into_list(),
    validate_update: validate_volume_update,
    row: volume_row,
);

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

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Defaults a claim, on its own or in a template.
pub(super) fn default_fields(claim: &mut Value) {
    let map = object(claim);
    with_object_in_field(map, "spec", pod_defaults::claim_spec);
    if let Value::Object(status) = map.entry("status").or_insert_with(|| json!({})) {
        insert_default(status, "phase", "Pending");
    }
}

fn default_claim(claim: &mut Value) {
    canonicalize("core.PersistentVolumeClaim", claim);
    default_fields(claim);
}

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
    strategy::update("core.PersistentVolumeClaim", new, old, false);
    normalize_sources(new, old);
}

fn validate_claim(claim: &Value) -> Errors {
    let mut errors = Errors::new();
    validate_spec(&mut errors, &claim["spec"], &Path::new("spec"));
    errors
}

/// Validates the spec of a claim, on its own or in a template.
pub(super) fn validate_spec(errors: &mut Errors, spec: &Value, at: &Path<'_>) {
    let modes = list(&spec["accessModes"]);
    let modes_at = at.child("accessModes");
    if modes.is_empty() {
        errors.required(&modes_at, "at least 1 access mode is required");
    }
    selectors::validate(errors, &spec["selector"], &at.child("selector"));
    validate_modes(errors, modes, &modes_at);
    let resources = at.child("resources");
    let size_at = resources.key("storage");
    match spec["resources"]["requests"].get("storage") {
        None => errors.required(&size_at, ""),
        Some(size) => {
            if let Ok(quantity) = Quantity::parse(text(size))
                && quantity <= Quantity::ZERO
            {
                errors.invalid(&size_at, text(size), "must be greater than zero");
            }
        }
    }
    for field in ["storageClassName", "volumeAttributesClassName"] {
        let class = text(&spec[field]);
        if !class.is_empty() {
            errors.syntax(&at.child(field), class, syntax::subdomain(class));
        }
    }
    if let Some(mode) = spec["volumeMode"].as_str().filter(|mode| !["Block", "Filesystem"].contains(mode)) {
        errors.not_supported(&at.child("volumeMode"), mode, &["Block", "Filesystem"]);
    }
    for field in ["dataSource", "dataSourceRef"] {
        if spec[field].is_object() {
            validate_source(errors, &spec[field], &at.child(field));
        }
    }
}

fn validate_modes(errors: &mut Errors, modes: &[Value], at: &Path<'_>) {
    for mode in modes.iter().map(text).filter(|mode| !MODES.contains(mode)) {
        errors.not_supported(at, mode, &MODES);
    }
    if modes.iter().any(|mode| mode == "ReadWriteOncePod") && modes.iter().any(|mode| mode != "ReadWriteOncePod") {
        errors.forbidden(at, "may not use ReadWriteOncePod with other access modes");
    }
}

fn validate_source(errors: &mut Errors, source: &Value, at: &Path<'_>) {
    for field in ["name", "kind"] {
        if text(&source[field]).is_empty() {
            errors.required(&at.child(field), "");
        }
    }
    let (group, kind) = (text(&source["apiGroup"]), text(&source["kind"]));
    if group.is_empty() {
        if kind != "PersistentVolumeClaim" {
            errors.invalid(at, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
        }
    } else {
        errors.syntax(&at.child("apiGroup"), group, syntax::subdomain(group));
    }
}

fn validate_claim_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_claim(new);
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
        let show = |spec: &Value| dump::indented(&dump::internal("PersistentVolumeClaimSpec", spec));
        let difference = diff::unified(&show(&held), &show(&wanted));
        let message =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.forbidden(&"spec", &format!("{message}\n{difference}"));
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
    errors.into_list()
}

fn validate_claim_status(new: &Value, _: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let status = Path::new("status");
    let at = status.child("capacity");
    for (name, amount) in entries(&new["status"]["capacity"]) {
        let value = Quantity::parse(text(amount)).unwrap_or(Quantity::ZERO).value();
        if value < 0 {
            errors.invalid(&at.key(name), value as i64, "must be a valid resource quantity");
        }
    }
    errors.into_list()
}

fn default_volume(volume: &mut Value) {
    canonicalize("core.PersistentVolume", volume);
    let map = object(volume);
    with_object_in_field(map, "spec", |spec| {
        insert_default(spec, "persistentVolumeReclaimPolicy", "Retain");
        insert_default(spec, "volumeMode", "Filesystem");
        with_object_in_field(spec, "hostPath", |host_path| insert_default(host_path, "type", ""));
        pod_defaults::apply_volume_source_defaults(spec);
    });
    if let Value::Object(status) = map.entry("status").or_insert_with(|| json!({})) {
        insert_default(status, "phase", "Pending");
    }
}

fn create_volume(volume: &mut Value, env: &Env<'_>) {
    let now = super::canonical::format_time(env.now);
    let status = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
    object(volume).insert("status".to_owned(), status);
    strategy::add_finalizer(volume, "kubernetes.io/pv-protection");
}

fn validate_volume(volume: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = &volume["spec"];
    let at = Path::new("spec");
    let modes = list(&spec["accessModes"]);
    if modes.is_empty() {
        errors.required(&at.child("accessModes"), "");
    }
    validate_modes(&mut errors, modes, &at.child("accessModes"));
    let capacity = at.child("capacity");
    if entries(&spec["capacity"]).next().is_none() {
        errors.required(&capacity, "");
    }
    if spec["capacity"].get("storage").is_none() {
        errors.not_supported(&capacity, &spec["capacity"], &["storage"]);
    }
    let policies = ["Delete", "Recycle", "Retain"];
    let policy = text(&spec["persistentVolumeReclaimPolicy"]);
    if !policy.is_empty() && !policies.contains(&policy) {
        errors.not_supported(&at.child("persistentVolumeReclaimPolicy"), policy, &policies);
    }
    let sources: Vec<&str> = entries(spec).map(|(field, _)| field).filter(|field| !PLAIN.contains(field)).collect();
    for source in sources.iter().skip(1) {
        errors.forbidden(&at.child(source), "may not specify more than 1 volume type");
    }
    if sources.is_empty() {
        errors.required(&at, "must specify a volume type");
    }
    if let Some(mode) = spec["volumeMode"].as_str().filter(|mode| !["Block", "Filesystem"].contains(mode)) {
        errors.not_supported(&at.child("volumeMode"), mode, &["Block", "Filesystem"]);
    }
    errors
}

fn validate_volume_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_volume(new);
    let source = |volume: &Value| -> Value {
        entries(&volume["spec"])
            .filter(|(field, _)| !PLAIN.contains(field))
            .map(|(field, held)| (field.to_owned(), held.clone()))
            .collect()
    };
    let (wanted, mut held) = (source(new), source(old));
    if held["csi"].is_object() && held["csi"].get("controllerExpandSecretRef").is_none() {
        take(&mut held["csi"], &wanted["csi"], "controllerExpandSecretRef");
    }
    if wanted != held {
        let show = |source: &Value| dump::indented(&dump::internal("PersistentVolumeSource", source));
        let difference = diff::unified(&show(&held), &show(&wanted));
        let message = format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        errors.forbidden(&"spec.persistentvolumesource", &message);
    }
    errors.immutable(&"volumeMode", &new["spec"]["volumeMode"], &old["spec"]["volumeMode"]);
    errors.into_list()
}

fn modes_cell(modes: &Value) -> String {
    let short =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let held = list(modes);
    let shown: Vec<&str> =
        short.iter().filter(|(mode, _)| held.iter().any(|held| held == mode)).map(|(_, short)| *short).collect();
    shown.join(",")
}

fn class(object: &Value) -> &str {
    let beta = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    beta.as_str().unwrap_or_else(|| text(&object["spec"]["storageClassName"]))
}

fn phase(object: &Value) -> &str {
    if object["metadata"]["deletionTimestamp"].is_string() { "Terminating" } else { text(&object["status"]["phase"]) }
}

fn or_unset(word: &Value) -> &str {
    word.as_str().unwrap_or("<unset>")
}

fn amount(quantity: &Value) -> &str {
    quantity.as_str().unwrap_or("0")
}

fn claim_row(claim: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &claim["spec"];
    let volume = text(&spec["volumeName"]);
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        (amount(&claim["status"]["capacity"]["storage"]).to_owned(), modes_cell(&claim["status"]["accessModes"]))
    };
    vec![
        name(claim),
        phase(claim).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class(claim).into(),
        or_unset(&spec["volumeAttributesClassName"]).into(),
        age(claim, now),
        or_unset(&spec["volumeMode"]).into(),
    ]
}

fn volume_row(volume: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &volume["spec"];
    let claim = &spec["claimRef"];
    let claimed = if claim.is_object() {
        format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]))
    } else {
        String::new()
    };
    vec![
        name(volume),
        amount(&spec["capacity"]["storage"]).into(),
        modes_cell(&spec["accessModes"]).into(),
        text(&spec["persistentVolumeReclaimPolicy"]).into(),
        phase(volume).into(),
        claimed.into(),
        class(volume).into(),
        or_unset(&spec["volumeAttributesClassName"]).into(),
        text(&volume["status"]["reason"]).into(),
        age(volume, now),
        or_unset(&spec["volumeMode"]).into(),
    ]
}
