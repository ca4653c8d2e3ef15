//! `ReplicaSets` and `ReplicationControllers`.

use serde_json::Value;

use super::{
    Env,
    behaviour::Behaviour,
    deployments,
    errors::Errors,
    pod_defaults,
    value::{child, entries, insert_default, size, take},
    workloads,
};

pub(super) fn replica_set() -> Behaviour {
    Behaviour {
        default: Some(pod_defaults::in_spec),
        prepare_status: Some(prepare_status),
        validate: Some(|errors, set, _| workloads::validate(errors, &set["spec"], "deployment")),
        validate_status: Some(validate_status),
        ..Behaviour::default()
    }
}

pub(super) fn controller() -> Behaviour {
    Behaviour {
        default: Some(default_controller),
        validate: Some(validate_controller),
        validate_status: Some(validate_status),
        ..Behaviour::default()
    }
}

/// Labels and selector of a controller are those of its template where they are not given.
fn default_controller(controller: &mut Value) {
    pod_defaults::in_spec(controller);
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

fn validate_controller(errors: &mut Errors, controller: &Value, _: &Value) {
    let spec = &controller["spec"];
    if size(&spec["selector"]) == 0 {
        errors.required(&"spec.selector", "");
    }
    let template = &spec["template"];
    if !template.is_object() {
        return;
    }
    let labels = &template["metadata"]["labels"];
    if !entries(&spec["selector"]).all(|(key, value)| labels.get(key) == Some(value)) {
        errors.invalid(&"spec.template.metadata.labels", labels, "`selector` does not match template `labels`");
    }
    workloads::validate_endless(errors, template);
}

fn validate_status(errors: &mut Errors, new: &Value, _: &Value) {
    let most = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    workloads::validate_at_most_replicas(errors, &new["status"], &most);
    workloads::validate_available(errors, &new["status"], "readyReplicas");
}
