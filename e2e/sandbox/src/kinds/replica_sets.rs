//! `ReplicaSets` and `ReplicationControllers`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Env, FieldError, Propagation,
    behaviour::{Behaviour, behaviour},
    canonical::canonicalize,
    deployments,
    errors::{Errors, Path},
    pod_defaults, pod_spec, selectors,
    table::{age, containers, name},
    value::{child, entries, insert_default, int, object, size, take, with_object_in_field},
    workloads::{self, Words},
};

/// `replicasets`.
pub(super) const REPLICA_SET: Behaviour = behaviour!("apps.ReplicaSet", counted,
    default: default_set,
    prepare_status: prepare_status,
    validate_create: |set| validate_set(set).into_list(),
    validate_update: |new, old| {
        let mut errors = validate_set(new);
        deployments::validate_same_selector(&mut errors, new, old);
        errors.into_list()
    },
    validate_status: |new, _| validate_status(new),
    row: |set, now| row(set, &set["spec"]["selector"], now),
);

/// `replicationcontrollers`.
pub(super) const CONTROLLER: Behaviour = behaviour!("core.ReplicationController", counted,
    default: default_controller,
    validate_create: validate_controller,
    validate_update: |new, _| validate_controller(new),
    validate_status: |new, _| validate_status(new),
    field: |controller, field| {
        (field == "status.replicas").then(|| int(&controller["status"]["replicas"]).to_string())
    },
    field_labels: true,
    default_propagation: Propagation::Orphan,
    row: |controller, now| row(controller, &json!({"matchLabels": controller["spec"]["selector"]}), now),
);

const WORDS: Words = Words { empty: "deployment", deadline: "ReplicaSet", unusable: "invalid label selector" };
const CONTROLLER_WORDS: Words = Words { empty: "", deadline: "ReplicationController", unusable: "" };

fn default_set(set: &mut Value) {
    canonicalize("apps.ReplicaSet", set);
    with_object_in_field(object(set), "spec", |spec| {
        with_object_in_field(spec, "template", pod_defaults::template);
        insert_default(spec, "replicas", 1);
    });
}

/// Labels and selector of a controller are those of its template where they are not given.
fn default_controller(controller: &mut Value) {
    canonicalize("core.ReplicationController", controller);
    with_object_in_field(object(controller), "spec", |spec| {
        with_object_in_field(spec, "template", pod_defaults::template);
        insert_default(spec, "replicas", 1);
    });
    let labels = controller["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() {
        insert_default(child(controller, "spec"), "selector", labels.clone());
        insert_default(child(controller, "metadata"), "labels", labels);
    }
}

fn prepare_status(new: &mut Value, old: &Value, env: &Env<'_>) {
    take(new, old, "spec");
    deployments::drop_terminating(new, old, env);
}

fn validate_set(set: &Value) -> Errors {
    let mut errors = Errors::new();
    let at = Path::new("spec");
    workloads::validate_counters(&mut errors, &set["spec"], &["replicas", "minReadySeconds"], &at);
    workloads::validate_replicated(&mut errors, &set["spec"], &WORDS, &at);
    errors
}

fn validate_controller(controller: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let spec = &controller["spec"];
    let at = Path::new("spec");
    workloads::validate_counters(&mut errors, spec, &["minReadySeconds"], &at);
    if size(&spec["selector"]) == 0 {
        errors.required(&at.child("selector"), "");
    }
    workloads::validate_counters(&mut errors, spec, &["replicas"], &at);
    let template = &spec["template"];
    let at = at.child("template");
    if !template.is_object() {
        errors.required(&at, "");
        return errors.into_list();
    }
    let labels = &template["metadata"]["labels"];
    if !entries(&spec["selector"]).all(|(key, value)| labels.get(key) == Some(value)) {
        let metadata = at.child("metadata");
        let message = "`selector` does not match template `labels`";
        errors.invalid(&metadata.child("labels"), super::errors::Bad::json(labels), message);
    }
    pod_spec::validate_template(&mut errors, template, &at);
    workloads::validate_endless(&mut errors, template, &CONTROLLER_WORDS, &at);
    errors.into_list()
}

fn validate_status(new: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let at = Path::new("status");
    let status = &new["status"];
    let counters = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    workloads::validate_counters(&mut errors, status, &counters, &at);
    let most = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    workloads::validate_at_most_replicas(&mut errors, status, &most, &at);
    workloads::validate_available(&mut errors, status, "readyReplicas", &at);
    errors.into_list()
}

fn row(object: &Value, selector: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [names, images] = containers(&spec["template"]["spec"]["containers"]);
    vec![
        name(object),
        int(&spec["replicas"]).into(),
        int(&status["replicas"]).into(),
        int(&status["readyReplicas"]).into(),
        age(object, now),
        names,
        images,
        selectors::cell(selector).into(),
    ]
}
