//! A description of the state of a namespace, for failures: objects, Events and explanations.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Context, is_ready, resources};
use crate::objects::{name, text};

/// The number of shown objects of a kind. Objects that do not agree with their specs come first.
const OBJECTS: usize = 40;
/// The number of objects of a kind for which controllers are asked for explanations.
const EXPLAINED: usize = 8;
/// The shown fields of objects. The status of a Pod is shown in parts.
const FIELDS: [(&str, &str); 10] = [
    ("generation", "/metadata/generation"),
    ("deleted", "/metadata/deletionTimestamp"),
    ("annotations", "/metadata/annotations"),
    ("owner", "/metadata/ownerReferences/0/name"),
    ("replicas", "/spec/replicas"),
    ("node", "/spec/nodeName"),
    ("image", "/spec/containers/0/image"),
    ("phase", "/status/phase"),
    ("restarts", "/status/containerStatuses/0/restartCount"),
    ("status", "/status"),
];

pub(super) async fn namespace(context: &Context) -> String {
    let mut out = format!("--- namespace {} on {}\n", context.namespace(), context.kind().name());
    let mut explanations = String::new();
    for resource in resources::CLEANED {
        let plural = resource.plural();
        let mut objects = match context.list(resource.clone()).await {
            Ok(objects) => objects,
            Err(error) => {
                let _ = writeln!(out, "{plural}: {error}");
                continue;
            }
        };
        objects.sort_by_key(|object| is_settled(plural, object));
        for object in objects.iter().take(OBJECTS) {
            let _ = writeln!(out, "{plural} {}:{}", name(object), line(plural, object));
        }
        if objects.len() > OBJECTS {
            let _ = writeln!(out, "{plural}: {} more", objects.len() - OBJECTS);
        }
        if !["pods", "events"].contains(&plural) {
            for object in objects.iter().map(name).take(EXPLAINED) {
                let explained = context.environment().explain(&format!("{}/{object}", context.namespace())).await;
                let _ = writeln!(explanations, "--- {plural} {object} is explained:\n{}", explained.trim_end());
            }
        }
    }
    format!("{out}{explanations}--- logged\n{}", context.environment().log(context.namespace()))
}

fn is_settled(plural: &str, object: &Value) -> bool {
    let (spec, status) = (&object["spec"], &object["status"]);
    match plural {
        "events" => object["type"] == "Normal",
        "pods" => is_ready(object),
        _ => {
            let wanted = spec["replicas"].as_i64().unwrap_or(1);
            let number = |field: &str| status[field].as_i64().unwrap_or(0);
            let observed = status["observedGeneration"] == object["metadata"]["generation"];
            observed && number("replicas") == wanted && number("availableReplicas") == wanted
        }
    }
}

fn line(plural: &str, object: &Value) -> String {
    if plural == "events" {
        let about = &object["involvedObject"];
        let [kind, reason, message] = ["type", "reason", "message"].map(|field| text(object, field));
        let times = object["count"].as_u64().unwrap_or(1);
        return format!(" {kind} {reason} on {} {}: {message} (x{times})", text(about, "kind"), text(about, "name"));
    }
    let shown = FIELDS.iter().filter_map(|(field, pointer)| {
        let value = object.pointer(pointer)?;
        let is_ready = || format!(" ready={}", is_ready(object));
        Some(if plural == "pods" && *field == "status" { is_ready() } else { format!(" {field}={value}") })
    });
    shown.collect()
}
