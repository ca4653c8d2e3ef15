//! Deployments.

use serde_json::Value;

use super::{
    Env,
    behaviour::Behaviour,
    errors::{Errors, Path},
    pod_defaults, strategy,
    value::{child, int, take, text},
    workloads,
};

pub(super) fn deployment() -> Behaviour {
    Behaviour {
        default: Some(pod_defaults::in_spec),
        prepare_update: Some(prepare_update),
        prepare_status: Some(prepare_status),
        validate: Some(validate),
        validate_status: Some(validate_status),
        ..Behaviour::default()
    }
}

/// Annotations count, as they are copied to `ReplicaSets`.
fn prepare_update(new: &mut Value, old: &Value, _: &Env<'_>) {
    take(new, old, "status");
    let changed = new["spec"] != old["spec"] || new["metadata"]["annotations"] != old["metadata"]["annotations"];
    strategy::bump_generation(new, old, changed);
}

fn prepare_status(new: &mut Value, old: &Value, env: &Env<'_>) {
    take(new, old, "spec");
    strategy::keep_meta(new, old, "labels");
    drop_terminating(new, old, env);
}

/// A server without the feature does not keep the number of terminating Pods.
pub(super) fn drop_terminating(new: &mut Value, old: &Value, env: &Env<'_>) {
    let gate = "DeploymentReplicaSetTerminatingReplicas";
    if old["status"].get("terminatingReplicas").is_none() && !(env.gate)(gate) {
        child(new, "status").remove("terminatingReplicas");
    }
}

fn validate(errors: &mut Errors, deployment: &Value, _: &Value) {
    let spec = &deployment["spec"];
    let at = Path::new("spec");
    workloads::validate(errors, spec, "deployment");
    validate_strategy(errors, &spec["strategy"], &at.child("strategy"));
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64()
        && deadline <= int(&spec["minReadySeconds"])
    {
        errors.invalid(&at.child("progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds");
    }
}

fn validate_strategy(errors: &mut Errors, strategy: &Value, at: &Path<'_>) {
    let rolling = &strategy["rollingUpdate"];
    let rolling_at = at.child("rollingUpdate");
    match text(&strategy["type"]) {
        "Recreate" => {
            if rolling.is_object() {
                errors.forbidden(&rolling_at, "may not be specified when strategy `type` is 'Recreate'");
            }
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            let unavailable_at = rolling_at.child("maxUnavailable");
            workloads::validate_int_or_percent(errors, unavailable, &unavailable_at);
            workloads::validate_int_or_percent(errors, surge, &rolling_at.child("maxSurge"));
            if workloads::int_or_percents(unavailable) == 0 && workloads::int_or_percents(surge) == 0 {
                errors.invalid(&unavailable_at, unavailable, "may not be 0 when `maxSurge` is 0");
            }
            workloads::validate_at_most_all(errors, unavailable, &unavailable_at);
        }
        _ => errors.not_supported(at, strategy, &["Recreate", "RollingUpdate"]),
    }
}

fn validate_status(errors: &mut Errors, new: &Value, old: &Value) {
    let status = &new["status"];
    let most = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    workloads::validate_at_most_replicas(errors, status, &most);
    workloads::validate_available(errors, status, "readyReplicas");
    workloads::validate_collisions(errors, new, old);
}
