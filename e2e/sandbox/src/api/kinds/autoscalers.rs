//! `HorizontalPodAutoscalers`, stored as v2 and served as v1, too.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    Hub,
    behaviour::Behaviour,
    canonical::canonicalize,
    value::{child, insert_default, list, object, text, with_object_in_field},
};

pub(super) fn autoscaler(version: &str) -> Behaviour {
    if version == "v2" {
        let cell = |scaler: &Value, _: Timestamp, column: &str| (column == "Targets").then(|| targets_cell(scaler));
        return Behaviour { default: Some(default_behavior), cell: Some(cell), ..Behaviour::default() };
    }
    Behaviour {
        cell: Some(|scaler, _, column| {
            (column == "Targets").then(|| {
                let mut scaler = scaler.clone();
                to_v2(&mut scaler);
                targets_cell(&scaler)
            })
        }),
        hub: Some(Hub { group: "autoscaling", to_stored: to_v2, to_served: from_v2 }),
        ..Behaviour::default()
    }
}

fn cpu_metric(utilization: impl Into<Value>) -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": utilization.into()}},
    })
}

fn default_behavior(scaler: &mut Value) {
    with_object_in_field(object(scaler), "spec", |spec| {
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
    canonicalize("autoscaling/v2.HorizontalPodAutoscaler", scaler);
    default_behavior(scaler);
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
    canonicalize("autoscaling/v1.HorizontalPodAutoscaler", scaler);
}

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

fn targets_cell(scaler: &Value) -> Value {
    let current = list(&scaler["status"]["currentMetrics"]);
    let metrics: Vec<String> = list(&scaler["spec"]["metrics"])
        .iter()
        .enumerate()
        .map(|(i, metric)| metric_cell(metric, current.get(i).unwrap_or(&Value::Null)))
        .collect();
    match metrics.len() {
        0 => "<none>".into(),
        1 | 2 => metrics.join(", ").into(),
        all => format!("{} + {} more...", metrics[..2].join(", "), all - 2).into(),
    }
}
