//! Pods and `PodTemplates`.

use serde_json::{Value, json};

use super::{
    Env,
    behaviour::Behaviour,
    canonical::format_time,
    errors::Errors,
    pod_defaults, pod_spec, pod_table, pod_update, resources, strategy,
    value::{child, for_each_object_in_list, insert_default, int, list, object, take, text, with_object_in_field},
};

pub(super) fn pod() -> Behaviour {
    Behaviour {
        default: Some(default),
        prepare_create: Some(prepare_create),
        prepare_update: Some(prepare_update),
        prepare_status: Some(prepare_status),
        validate: Some(validate),
        validate_status: Some(pod_update::validate_status),
        cell: Some(pod_table::cell),
        row_conditions: Some(pod_table::conditions),
        ..Behaviour::default()
    }
}

pub(super) fn template() -> Behaviour {
    Behaviour { default: Some(|template| pod_defaults::template(object(template))), ..Behaviour::default() }
}

fn default(pod: &mut Value) {
    let pod = object(pod);
    with_object_in_field(pod, "spec", |spec| {
        pod_defaults::spec(spec);
        pod_defaults::pod(spec);
    });
    with_object_in_field(pod, "status", |status| {
        // `podIP` is the first of `podIPs`.
        let single = status.get("podIP").map(text).unwrap_or_default().to_owned();
        let first = status.get("podIPs").map(|ips| text(&ips[0]["ip"])).unwrap_or_default().to_owned();
        if !single.is_empty() && single != first {
            status.insert("podIPs".to_owned(), json!([{ "ip": single }]));
        } else if single.is_empty() && !first.is_empty() {
            status.insert("podIP".to_owned(), first.into());
        }
    });
}

fn prepare_create(pod: &mut Value, env: &Env<'_>) {
    admit_tolerations(pod);
    admit_priority(pod);
    apply_label_keys(pod);
    drop_scheduling_group(pod, &Value::Null, env);
    strategy::set_generation(pod, 1);
    let spec = &pod["spec"];
    let mut status = json!({"phase": "Pending", "qosClass": resources::qos_class(spec)});
    if !list(&spec["schedulingGates"]).is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": format_time(env.now),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    object(pod).insert("status".to_owned(), status);
}

/// Tolerations for the loss of the Node that every Pod gets.
fn admit_tolerations(pod: &mut Value) {
    let tolerations = child(pod, "spec").entry("tolerations").or_insert_with(|| Value::Array(vec![]));
    let Value::Array(tolerations) = tolerations else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.iter().any(|held| {
            let (held_key, effect) = (text(&held["key"]), text(&held["effect"]));
            (held_key == key || held_key.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !tolerated {
            let toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
            tolerations.push(toleration);
        }
    }
}

/// Priorities of the classes that every cluster has.
fn admit_priority(pod: &mut Value) {
    let spec = child(pod, "spec");
    let priority = match spec.get("priorityClassName").map(text).unwrap_or_default() {
        "system-node-critical" => 2_000_001_000,
        "system-cluster-critical" => 2_000_000_000,
        _ => 0,
    };
    insert_default(spec, "priority", priority);
    insert_default(spec, "preemptionPolicy", "PreemptLowerPriority");
}

/// Selectors of affinity and spread terms get the Pod's own values of the labels named in `matchLabelKeys`.
fn apply_label_keys(pod: &mut Value) {
    if !pod["spec"]["affinity"].is_object() && !pod["spec"]["topologySpreadConstraints"].is_array() {
        return;
    }
    let labels = pod["metadata"]["labels"].clone();
    let apply = |term: &mut serde_json::Map<String, Value>| {
        for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            let keys: Vec<String> =
                term.get(field).map(list).unwrap_or_default().iter().map(|k| text(k).into()).collect();
            with_object_in_field(term, "labelSelector", |selector| {
                for key in keys {
                    let Some(value) = labels.get(&key) else { continue };
                    let expressions = selector.entry("matchExpressions").or_insert_with(|| Value::Array(vec![]));
                    if let Value::Array(expressions) = expressions {
                        expressions.push(json!({"key": key, "operator": operator, "values": [value]}));
                    }
                }
            });
        }
    };
    let spec = child(pod, "spec");
    with_object_in_field(spec, "affinity", |affinity| {
        for field in ["podAffinity", "podAntiAffinity"] {
            with_object_in_field(affinity, field, |affinity| {
                for_each_object_in_list(affinity, "requiredDuringSchedulingIgnoredDuringExecution", apply);
                for_each_object_in_list(affinity, "preferredDuringSchedulingIgnoredDuringExecution", |term| {
                    with_object_in_field(term, "podAffinityTerm", apply);
                });
            });
        }
    });
    for_each_object_in_list(spec, "topologySpreadConstraints", apply);
}

/// The group of a Pod is not kept while the gate of groups is off.
fn drop_scheduling_group(new: &mut Value, old: &Value, env: &Env<'_>) {
    let field = "schedulingGroup";
    if !(env.gate)("GenericWorkload") && old["spec"].get(field).is_none() {
        child(new, "spec").remove(field);
    }
}

fn prepare_update(new: &mut Value, old: &Value, env: &Env<'_>) {
    drop_scheduling_group(new, old, env);
    admit_tolerations(new);
    // What admission decided once is kept where an old client leaves it out.
    let spec = child(new, "spec");
    for field in ["priority", "preemptionPolicy"] {
        if let Some(held) = old["spec"].get(field) {
            insert_default(spec, field, held.clone());
        }
    }
    take(new, old, "status");
    let changed = new["spec"] != old["spec"];
    strategy::bump_generation(new, old, changed);
}

fn prepare_status(new: &mut Value, old: &Value, _: &Env<'_>) {
    take(new, old, "spec");
    for field in ["deletionTimestamp", "ownerReferences"] {
        strategy::keep_meta(new, old, field);
    }
    let status = child(new, "status");
    for field in ["qosClass", "observedGeneration"] {
        if let Some(held) = old["status"].get(field) {
            insert_default(status, field, held.clone());
        }
    }
    keep_condition_generations(status, old);
}

/// An `observedGeneration` that a client leaves out of a condition is kept.
fn keep_condition_generations(status: &mut serde_json::Map<String, Value>, old: &Value) {
    let mut held: Vec<(&str, i64)> = list(&old["status"]["conditions"])
        .iter()
        .map(|condition| (text(&condition["type"]), int(&condition["observedGeneration"])))
        .collect();
    for_each_object_in_list(status, "conditions", |condition| {
        let kind = condition.get("type").map(text).unwrap_or_default();
        let Some(at) = held.iter().position(|(held, _)| *held == kind) else { return };
        let (_, generation) = held.remove(at);
        if generation > 0 {
            insert_default(condition, "observedGeneration", generation);
        }
    });
}

fn validate(errors: &mut Errors, pod: &Value, old: &Value) {
    pod_spec::validate_annotations(errors, pod);
    if !old.is_null() {
        return pod_update::validate(errors, pod, old);
    }
    if !list(&pod["spec"]["ephemeralContainers"]).is_empty() {
        errors.forbidden(&"spec.ephemeralContainers", "cannot be set on create");
    }
}
