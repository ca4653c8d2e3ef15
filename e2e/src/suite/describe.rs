//! A description of the state of a namespace, for failures: objects, Events and explanations.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Context, objects::resources, request::Refused};

const LOG_LINES: usize = 30;
/// The number of shown objects of a kind. Objects that do not agree with their specs come first.
const OBJECTS: usize = 40;
/// The number of objects of a kind for which controllers are asked for explanations.
const EXPLAINED: usize = 8;

pub(super) async fn namespace(context: &Context) -> String {
    let mut out = format!("--- namespace {} on {}\n", context.namespace(), context.kind().name());
    for resource in [resources::DEPLOYMENTS, resources::REPLICA_SETS, resources::REPLICATION_CONTROLLERS] {
        objects(&mut out, resource.plural(), context.list(resource.clone()).await, &workload);
    }
    objects(&mut out, "pods", context.list(resources::PODS).await, &pod);
    objects(&mut out, "events", context.list(resources::EVENTS).await, &event);
    for controller in context.controllers() {
        let _ = writeln!(out, "--- {} explains", controller.name());
        for resource in [resources::DEPLOYMENTS, resources::REPLICA_SETS, resources::REPLICATION_CONTROLLERS] {
            let mut objects = context.list(resource.clone()).await.unwrap_or_default();
            objects.sort_by_key(|object| is_settled(resource.plural(), object));
            for object in objects.iter().take(EXPLAINED) {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                match controller.explain(&format!("{}/{name}", context.namespace())).await {
                    Ok(text) => {
                        let _ = writeln!(out, "{} {name}:\n{}", resource.kind(), text.trim_end());
                    }
                    Err(error) => {
                        let _ = writeln!(out, "{} {name}: no explanation: {error}", resource.kind());
                    }
                }
            }
        }
        let log = controller.log();
        let about: Vec<&String> = log.iter().filter(|line| line.contains(context.namespace())).collect();
        let _ = writeln!(out, "--- {} logged", controller.name());
        out.push_str(&end_of(&about));
    }
    out
}

pub(super) fn end_of<L: AsRef<str>>(log: &[L]) -> String {
    log.iter().skip(log.len().saturating_sub(LOG_LINES)).fold(String::new(), |out, line| out + line.as_ref() + "\n")
}

fn objects(
    out: &mut String,
    plural: &str,
    listed: Result<Vec<Value>, Refused>,
    describe: &dyn Fn(&mut String, &Value),
) {
    match listed {
        Ok(mut objects) => {
            objects.sort_by_key(|object| is_settled(plural, object));
            for object in objects.iter().take(OBJECTS) {
                let _ = write!(out, "{plural} {}: ", object["metadata"]["name"].as_str().unwrap_or("?"));
                describe(out, object);
                out.push('\n');
            }
            if objects.len() > OBJECTS {
                let _ = writeln!(out, "{plural}: {} more", objects.len() - OBJECTS);
            }
        }
        Err(error) => {
            let _ = writeln!(out, "{plural}: {error}");
        }
    }
}

fn is_settled(plural: &str, object: &Value) -> bool {
    let (spec, status) = (&object["spec"], &object["status"]);
    match plural {
        "events" => object["type"] == "Normal",
        "pods" => super::is_ready(object),
        _ => {
            let wanted = spec["replicas"].as_i64().unwrap_or(1);
            let number = |field: &str| status[field].as_i64().unwrap_or(0);
            let observed = status["observedGeneration"] == object["metadata"]["generation"];
            observed && number("replicas") == wanted && number("availableReplicas") == wanted
        }
    }
}

fn workload(out: &mut String, object: &Value) {
    let meta = &object["metadata"];
    let _ = write!(
        out,
        "replicas={} generation={} annotations={} status={}",
        object["spec"]["replicas"],
        meta["generation"],
        meta.get("annotations").unwrap_or(&Value::Null),
        object["status"],
    );
    if let Some(deleted) = meta.get("deletionTimestamp") {
        let _ = write!(out, " deleted={deleted}");
    }
}

fn pod(out: &mut String, object: &Value) {
    let owner = &object["metadata"]["ownerReferences"][0]["name"];
    let restarts = &object["status"]["containerStatuses"][0]["restartCount"];
    let _ = write!(
        out,
        "{} ready={} node={} owner={owner} restarts={restarts} image={}",
        object["status"]["phase"].as_str().unwrap_or("?"),
        super::is_ready(object),
        object["spec"]["nodeName"],
        object["spec"]["containers"][0]["image"],
    );
    if let Some(deleted) = object["metadata"].get("deletionTimestamp") {
        let _ = write!(out, " deleted={deleted}");
    }
}

fn event(out: &mut String, object: &Value) {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let about = &object["involvedObject"];
    let _ = write!(
        out,
        "{} {} on {} {}: {} (x{})",
        text("type"),
        text("reason"),
        about["kind"].as_str().unwrap_or_default(),
        about["name"].as_str().unwrap_or_default(),
        text("message"),
        object["count"].as_u64().unwrap_or(1),
    );
}
