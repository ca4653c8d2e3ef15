//! Deployments.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Env, FieldError,
    behaviour::{Behaviour, behaviour},
    canonical::canonicalize,
    dump,
    errors::{Bad, Errors, Path},
    pod_defaults, selectors, strategy,
    table::{age, containers, name},
    value::{child, insert_default, int, object, take, text, with_object_in_field},
    workloads::{self, Words},
};

/// `deployments`.
pub(super) const DEPLOYMENT: Behaviour = behaviour!("apps.Deployment", counted,
    default: default,
    prepare_update: prepare_update,
    prepare_status: prepare_status,
    validate_create: |deployment| validate(deployment).into_list(),
    validate_update: validate_update,
    validate_status: validate_status,
    row: row,
);

const WORDS: Words = Words { empty: "deployment", deadline: "ReplicaSet", unusable: "invalid label selector" };

fn default(deployment: &mut Value) {
    canonicalize("apps.Deployment", deployment);
    with_object_in_field(object(deployment), "spec", |spec| {
        with_object_in_field(spec, "template", pod_defaults::template);
        insert_default(spec, "replicas", 1);
        with_object_in_field(spec, "strategy", |strategy| {
            insert_default(strategy, "type", "RollingUpdate");
            if strategy.get("type").map(text) == Some("RollingUpdate") {
                insert_default(strategy, "rollingUpdate", json!({}));
                with_object_in_field(strategy, "rollingUpdate", |rolling| {
                    insert_default(rolling, "maxUnavailable", "25%");
                    insert_default(rolling, "maxSurge", "25%");
                });
            }
        });
        insert_default(spec, "revisionHistoryLimit", 10);
        insert_default(spec, "progressDeadlineSeconds", 600);
    });
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

fn validate(deployment: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = &deployment["spec"];
    let at = Path::new("spec");
    errors.non_negative(&at.child("replicas"), spec["replicas"].as_i64());
    workloads::validate_replicated(&mut errors, spec, &WORDS, &at);
    validate_strategy(&mut errors, &spec["strategy"], &at.child("strategy"));
    workloads::validate_counters(&mut errors, spec, &["minReadySeconds", "revisionHistoryLimit"], &at);
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64() {
        let at = at.child("progressDeadlineSeconds");
        errors.non_negative(&at, Some(deadline));
        if deadline <= int(&spec["minReadySeconds"]) {
            errors.invalid(&at, deadline, "must be greater than minReadySeconds");
        }
    }
    errors
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
        _ => {
            let shown = Bad::raw(dump::internal("DeploymentStrategy", strategy));
            errors.not_supported(at, shown, &["Recreate", "RollingUpdate"]);
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate(new);
    validate_same_selector(&mut errors, new, old);
    errors.into_list()
}

/// The selector never changes.
pub(super) fn validate_same_selector(errors: &mut Errors, new: &Value, old: &Value) {
    let (new, old) = (&new["spec"]["selector"], &old["spec"]["selector"]);
    if new != old {
        errors.invalid(&"spec.selector", selectors::shown(new), "field is immutable");
    }
}

fn validate_status(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let at = Path::new("status");
    let status = &new["status"];
    let counters = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    workloads::validate_counters(&mut errors, status, &counters, &at);
    let most = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    workloads::validate_at_most_replicas(&mut errors, status, &most, &at);
    workloads::validate_available(&mut errors, status, "readyReplicas", &at);
    workloads::validate_collisions(&mut errors, status, &old["status"], &at);
    errors.into_list()
}

fn row(deployment: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    let [names, images] = containers(&spec["template"]["spec"]["containers"]);
    let selector = &spec["selector"];
    let selector = if selectors::is_usable(selector) { selectors::query(selector) } else { "<invalid>".to_owned() };
    vec![
        name(deployment),
        format!("{}/{}", int(&status["readyReplicas"]), int(&spec["replicas"])).into(),
        int(&status["updatedReplicas"]).into(),
        int(&status["availableReplicas"]).into(),
        age(deployment, now),
        names,
        images,
        selector.into(),
    ]
}
