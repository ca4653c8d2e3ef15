//! `PodDisruptionBudgets`, Leases, `HorizontalPodAutoscalers`, `PriorityClasses`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    Env, FieldError, Hub,
    behaviour::{Behaviour, behaviour},
    canonical::canonicalize,
    conditions,
    errors::{Bad, Errors, Path},
    selectors, strategy,
    table::{age, name},
    value::{child, insert_default, int, list, object, text, with_object_in_field, yes},
    workloads,
};

/// `poddisruptionbudgets`.
pub(super) const BUDGET: Behaviour = behaviour!("policy.PodDisruptionBudget", counted,
    validate_create: validate_budget,
    validate_update: |new, _| validate_budget(new),
    validate_status: |new, _| {
        let mut errors = Errors::new();
        let counters = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
        let status = Path::new("status");
        conditions::validate(&mut errors, list(&new["status"]["conditions"]), &status.child("conditions"));
        workloads::validate_counters(&mut errors, &new["status"], &counters, &status);
        errors.into_list()
    },
    unconditional_update: false,
    row: budget_row,
);

/// `leases`.
pub(super) const LEASE: Behaviour = behaviour!("coordination.Lease", plain,
    prepare_create: |lease, env| drop_election(lease, &Value::Null, env),
    prepare_update: drop_election,
    validate_create: validate_lease,
    validate_update: |new, _| validate_lease(new),
    unconditional_update: false,
    create_on_update: true,
    row: |lease, now| vec![name(lease), text(&lease["spec"]["holderIdentity"]).into(), age(lease, now)],
);

/// `priorityclasses`.
pub(super) const PRIORITY_CLASS: Behaviour = behaviour!("scheduling.PriorityClass", plain,
    prepare_create: |class, _| strategy::set_generation(class, 1),
    prepare_update: |new, old, _| strategy::bump_generation(new, old, false),
    default: |class| {
        canonicalize("scheduling.PriorityClass", class);
        insert_default(object(class), "preemptionPolicy", "PreemptLowerPriority");
    },
    validate_update: validate_priority_update,
    row: |class, now| {
        let policy = text(&class["preemptionPolicy"]);
        vec![name(class), int(&class["value"]).into(), yes(&class["globalDefault"]).into(), age(class, now), policy.into()]
    },
);

/// `horizontalpodautoscalers` of v2.
pub(super) const AUTOSCALER: Behaviour = behaviour!("autoscalingv2.HorizontalPodAutoscaler", plain,
    default: default_autoscaler,
    validate_create: |scaler| validate_autoscaler(scaler, &Value::Null),
    validate_update: validate_autoscaler,
    row: autoscaler_row,
);

/// `horizontalpodautoscalers` of v1.
pub(super) const AUTOSCALER_V1: Behaviour = behaviour!("autoscaling.HorizontalPodAutoscaler", plain,
    default: |scaler| {
        canonicalize("autoscaling.HorizontalPodAutoscaler", scaler);
        with_object_in_field(object(scaler), "spec", |spec| insert_default(spec, "minReplicas", 1));
    },
    validate_create: |scaler| validate_autoscaler(scaler, &Value::Null),
    validate_update: validate_autoscaler,
    row: |scaler, now| {
        let mut scaler = scaler.clone();
        to_v2(&mut scaler);
        autoscaler_row(&scaler, now)
    },
    hub: Some(Hub { group: "autoscaling", version: "v2", to_hub: to_v2, from_hub: from_v2 }),
);

fn validate_budget(budget: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let spec = &budget["spec"];
    let at = Path::new("spec");
    let fields = ["minAvailable", "maxUnavailable"];
    if fields.iter().all(|field| !spec[*field].is_null()) {
        let shown = format!(
            r#"{{"MinAvailable":{},"Selector":{},"MaxUnavailable":{},"UnhealthyPodEvictionPolicy":{}}}"#,
            spec["minAvailable"], spec["selector"], spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]
        );
        errors.invalid(&at, Bad::raw(shown), "minAvailable and maxUnavailable cannot be both set");
    }
    for field in fields {
        if !spec[field].is_null() {
            workloads::validate_int_or_percent(&mut errors, &spec[field], &at.child(field));
            workloads::validate_at_most_all(&mut errors, &spec[field], &at.child(field));
        }
    }
    selectors::validate(&mut errors, &spec["selector"], &at.child("selector"));
    let known = ["AlwaysAllow", "IfHealthyBudget"];
    if let Some(policy) = spec["unhealthyPodEvictionPolicy"].as_str().filter(|policy| !known.contains(policy)) {
        errors.not_supported(&at.child("unhealthyPodEvictionPolicy"), policy, &known);
    }
    errors.into_list()
}

fn budget_row(budget: &Value, now: Timestamp) -> Vec<Value> {
    let shown = |field: &str| match &budget["spec"][field] {
        Value::Null => "N/A".to_owned(),
        Value::String(percent) => percent.clone(),
        number => number.to_string(),
    };
    let allowed = int(&budget["status"]["disruptionsAllowed"]);
    vec![name(budget), shown("minAvailable").into(), shown("maxUnavailable").into(), allowed.into(), age(budget, now)]
}

/// The fields of coordinated leader election are not kept while it is off.
fn drop_election(new: &mut Value, old: &Value, env: &Env<'_>) {
    if (env.gate)("CoordinatedLeaderElection") {
        return;
    }
    let spec = child(new, "spec");
    for field in ["strategy", "preferredHolder"] {
        if old["spec"].get(field).is_none() {
            spec.remove(field);
        }
    }
}

fn validate_lease(lease: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let spec = &lease["spec"];
    let at = Path::new("spec");
    if let Some(seconds) = spec["leaseDurationSeconds"].as_i64().filter(|seconds| *seconds <= 0) {
        errors.invalid(&at.child("leaseDurationSeconds"), seconds, "must be greater than 0");
    }
    errors.non_negative(&at.child("leaseTransitions"), spec["leaseTransitions"].as_i64());
    let strategy = text(&spec["strategy"]);
    if !text(&spec["preferredHolder"]).is_empty() && strategy.is_empty() {
        errors.forbidden(&at.child("preferredHolder"), "may only be specified if `strategy` is defined");
    }
    errors.into_list()
}

fn validate_priority_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    if new["value"] != old["value"] {
        errors.forbidden(&"value", "may not be changed in an update.");
    }
    errors.immutable(&"preemptionPolicy", &new["preemptionPolicy"], &old["preemptionPolicy"]);
    errors.into_list()
}

fn cpu_metric(utilization: impl Into<Value>) -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": utilization.into()}},
    })
}

fn default_autoscaler(scaler: &mut Value) {
    canonicalize("autoscalingv2.HorizontalPodAutoscaler", scaler);
    with_object_in_field(object(scaler), "spec", |spec| {
        insert_default(spec, "minReplicas", 1);
        insert_default(spec, "metrics", json!([cpu_metric(80)]));
        with_object_in_field(spec, "behavior", |behavior| {
            let policy = |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 15});
            with_object_in_field(behavior, "scaleUp", |rules| {
                insert_default(rules, "stabilizationWindowSeconds", 0);
                insert_default(rules, "selectPolicy", "Max");
                insert_default(rules, "policies", json!([policy("Pods", 4), policy("Percent", 100)]));
            });
            with_object_in_field(behavior, "scaleDown", |rules| {
                insert_default(rules, "selectPolicy", "Max");
                insert_default(rules, "policies", json!([policy("Percent", 100)]));
            });
        });
    });
}

fn validate_autoscaler(scaler: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let spec = &scaler["spec"];
    let at = Path::new("spec");
    let (least, most) = (spec["minReplicas"].as_i64(), int(&spec["maxReplicas"]));
    if let Some(least) = least.filter(|least| *least < 1) {
        errors.invalid(&at.child("minReplicas"), least, "must be greater than or equal to 1");
    }
    if most == 0 {
        errors.required(&at.child("maxReplicas"), "must be set and greater than 0");
    } else if most < 0 {
        errors.invalid(&at.child("maxReplicas"), most, "must be greater than or equal to 1");
    }
    if least.is_some_and(|least| most < least) {
        errors.invalid(&at.child("maxReplicas"), most, "must be greater than or equal to `minReplicas`");
    }
    let target = at.child("scaleTargetRef");
    for field in ["kind", "name"] {
        if text(&spec["scaleTargetRef"][field]).is_empty() {
            errors.required(&target.child(field), "");
        }
    }
    let reference = &spec["scaleTargetRef"];
    let known = ["apiVersion", "kind"].iter().all(|field| old["spec"]["scaleTargetRef"][field] == reference[*field]);
    let core = reference["kind"] == "ReplicationController";
    if !known && !core && !text(&reference["apiVersion"]).contains('/') {
        errors.invalid(
            &target.child("apiVersion"),
            text(&reference["apiVersion"]),
            "apiVersion must specify API group",
        );
    }
    errors.into_list()
}

/// Annotation that holds what v1 has no field for.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";

fn to_v2(scaler: &mut Value) {
    let others = text(&scaler["metadata"]["annotations"][METRICS]).to_owned();
    let mut metrics: Vec<Value> = serde_json::from_str(&others).unwrap_or_default();
    let map = object(scaler);
    map.insert("apiVersion".to_owned(), "autoscaling/v2".into());
    with_object_in_field(map, "spec", |spec| {
        if let Some(percent) = spec.remove("targetCPUUtilizationPercentage") {
            metrics.insert(0, cpu_metric(percent));
        }
        if !metrics.is_empty() {
            spec.insert("metrics".to_owned(), metrics.into());
        }
    });
    with_object_in_field(map, "status", |status| {
        if let Some(percent) = status.remove("currentCPUUtilizationPercentage") {
            let current =
                json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}});
            status.insert("currentMetrics".to_owned(), json!([current]));
        }
    });
    with_object_in_field(map, "metadata", |metadata| {
        with_object_in_field(metadata, "annotations", |annotations| {
            annotations.remove(METRICS);
        });
    });
    default_autoscaler(scaler);
}

fn from_v2(scaler: &mut Value) {
    let map = object(scaler);
    map.insert("apiVersion".to_owned(), "autoscaling/v1".into());
    let is_cpu = |metric: &Value| {
        text(&metric["resource"]["name"]) == "cpu" && metric["resource"]["target"]["averageUtilization"].is_number()
    };
    let mut others = vec![];
    with_object_in_field(map, "spec", |spec| {
        let Some(Value::Array(metrics)) = spec.remove("metrics") else { return };
        for metric in metrics {
            if is_cpu(&metric) && !spec.contains_key("targetCPUUtilizationPercentage") {
                let percent = metric["resource"]["target"]["averageUtilization"].clone();
                spec.insert("targetCPUUtilizationPercentage".to_owned(), percent);
            } else {
                others.push(metric);
            }
        }
        spec.remove("behavior");
    });
    with_object_in_field(map, "status", |status| {
        if let Some(current) = status.remove("currentMetrics") {
            let percent = &current[0]["resource"]["current"]["averageUtilization"];
            if percent.is_number() {
                status.insert("currentCPUUtilizationPercentage".to_owned(), percent.clone());
            }
        }
        status.remove("conditions");
    });
    if !others.is_empty() {
        let annotations = child(scaler, "metadata").entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        object(annotations).insert(METRICS.to_owned(), Value::Array(others).to_string().into());
    }
    canonicalize("autoscaling.HorizontalPodAutoscaler", scaler);
}

/// A metric as `current/target`.
fn metric_cell(spec: &Value, status: &Value) -> String {
    let field = match text(&spec["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (target, current) = (&spec[field]["target"], &status[field]["current"]);
    let known = |value: &Value| value.as_str().unwrap_or("<unknown>").to_owned();
    let percent =
        |value: &Value, otherwise: &str| value.as_i64().map_or(otherwise.to_owned(), |percent| format!("{percent}%"));
    let average = target["averageValue"].as_str();
    let name = text(&spec[field]["name"]);
    match (field, average) {
        ("resource" | "containerResource", Some(average)) => {
            format!("{name}: {}/{average}", known(&current["averageValue"]))
        }
        ("resource" | "containerResource", None) => {
            let target = percent(&target["averageUtilization"], "<auto>");
            format!("{name}: {}/{target}", percent(&current["averageUtilization"], "<unknown>"))
        }
        ("pods", average) => format!("{}/{}", known(&current["averageValue"]), average.unwrap_or("0")),
        (_, Some(average)) => format!("{}/{average} (avg)", known(&current["averageValue"])),
        (_, None) => format!("{}/{}", known(&current["value"]), text(&target["value"])),
    }
}

fn autoscaler_row(scaler: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&scaler["spec"], &scaler["status"]);
    let target = &spec["scaleTargetRef"];
    let current = list(&status["currentMetrics"]);
    let metrics: Vec<String> = list(&spec["metrics"])
        .iter()
        .enumerate()
        .map(|(i, metric)| metric_cell(metric, current.get(i).unwrap_or(&Value::Null)))
        .collect();
    let shown = match metrics.len() {
        0 => "<none>".to_owned(),
        1 | 2 => metrics.join(", "),
        all => format!("{} + {} more...", metrics[..2].join(", "), all - 2),
    };
    vec![
        name(scaler),
        format!("{}/{}", text(&target["kind"]), text(&target["name"])).into(),
        shown.into(),
        spec["minReplicas"].as_i64().map_or("<unset>".to_owned(), |least| least.to_string()).into(),
        int(&spec["maxReplicas"]).into(),
        int(&status["currentReplicas"]).into(),
        age(scaler, now),
    ]
}
