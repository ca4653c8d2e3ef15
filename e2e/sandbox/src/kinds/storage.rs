//! The kinds of `storage.k8s.io`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    behaviour::{Behaviour, behaviour},
    canonical::canonicalize,
    errors::Errors,
    strategy, syntax,
    table::{age, name, name_and_created, or},
    value::{insert_default, list, object, text, with_object_in_field, yes},
};

/// `storageclasses`.
pub(super) const CLASS: Behaviour = behaviour!("storage.StorageClass", plain,
    default: |class| {
        canonicalize("storage.StorageClass", class);
        insert_default(object(class), "reclaimPolicy", "Delete");
        insert_default(object(class), "volumeBindingMode", "Immediate");
    },
    validate_create: |class| validate_class(class).into_list(),
    validate_update: |new, old| {
        let mut errors = Errors::new();
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            errors.immutable(&field, &new[field], &old[field]);
        }
        errors.into_list()
    },
    row: class_row,
);

/// `volumeattributesclasses`.
pub(super) const ATTRIBUTES_CLASS: Behaviour = behaviour!("storage.VolumeAttributesClass", plain,
    prepare_create: |class, _| strategy::add_finalizer(class, "kubernetes.io/vac-protection"),
    row: |class, now| vec![name(class), text(&class["driverName"]).into(), age(class, now)],
);

/// `csidrivers`.
pub(super) const DRIVER: Behaviour = behaviour!("storage.CSIDriver", plain,
    default: default_driver,
    prepare_update: |new, old, _| strategy::update("storage.CSIDriver", new, old, true),
    unconditional_update: false,
    row: driver_row,
);

/// `csinodes`.
pub(super) const NODE: Behaviour = behaviour!("storage.CSINode", plain,
    unconditional_update: false,
    row: |node, now| vec![name(node), list(&node["spec"]["drivers"]).len().into(), age(node, now)],
);

/// `csistoragecapacities`.
pub(super) const CAPACITY: Behaviour = behaviour!("storage.CSIStorageCapacity", plain,
    unconditional_update: false,
    row: name_and_created,
);

/// `volumeattachments`.
pub(super) const ATTACHMENT: Behaviour = behaviour!("storage.VolumeAttachment", plain,
    unconditional_update: false,
    row: |attachment, now| {
        let spec = &attachment["spec"];
        vec![
            name(attachment),
            text(&spec["attacher"]).into(),
            text(&spec["source"]["persistentVolumeName"]).into(),
            text(&spec["nodeName"]).into(),
            yes(&attachment["status"]["attached"]).into(),
            age(attachment, now),
        ]
    },
);

fn validate_class(class: &Value) -> Errors {
    let mut errors = Errors::new();
    match text(&class["provisioner"]).to_lowercase().as_str() {
        "" => errors.required(&"provisioner", ""),
        name => errors.syntax(&"provisioner", name, syntax::qualified_name(name)),
    }
    errors.one_of(&"reclaimPolicy", text(&class["reclaimPolicy"]), &["Delete", "Retain"]);
    errors.one_of(&"volumeBindingMode", text(&class["volumeBindingMode"]), &["Immediate", "WaitForFirstConsumer"]);
    errors
}

fn class_row(class: &Value, now: Timestamp) -> Vec<Value> {
    const DEFAULT: [&str; 2] =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let mut shown = text(&class["metadata"]["name"]).to_owned();
    if DEFAULT.iter().any(|annotation| text(&class["metadata"]["annotations"][*annotation]) == "true") {
        shown.push_str(" (default)");
    }
    vec![
        shown.into(),
        text(&class["provisioner"]).into(),
        or(text(&class["reclaimPolicy"]), "Delete").into(),
        or(text(&class["volumeBindingMode"]), "Immediate").into(),
        yes(&class["allowVolumeExpansion"]).into(),
        age(class, now),
    ]
}

fn default_driver(driver: &mut Value) {
    canonicalize("storage.CSIDriver", driver);
    with_object_in_field(object(driver), "spec", |spec| {
        insert_default(spec, "attachRequired", true);
        for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
            insert_default(spec, field, false);
        }
        insert_default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        insert_default(spec, "volumeLifecycleModes", json!(["Persistent"]));
    });
}

fn driver_row(driver: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &driver["spec"];
    let modes: Vec<&str> = list(&spec["volumeLifecycleModes"]).iter().map(text).collect();
    let tokens = if spec["tokenRequests"].is_array() {
        list(&spec["tokenRequests"]).iter().map(|token| text(&token["audience"])).collect::<Vec<_>>().join(",")
    } else {
        "<unset>".to_owned()
    };
    vec![
        name(driver),
        spec["attachRequired"].as_bool().unwrap_or(true).into(),
        yes(&spec["podInfoOnMount"]).into(),
        yes(&spec["storageCapacity"]).into(),
        tokens.into(),
        yes(&spec["requiresRepublish"]).into(),
        or(&modes.join(","), "<none>").into(),
        age(driver, now),
    ]
}
