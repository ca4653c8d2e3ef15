//! Runs of Services.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Replay, Step, replicas, signature::Signature};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// What two runs must have in common: slices as created, every state an endpoint was in, whether a slice then told of a
/// change, and what was left in the end. How many endpoints came with one write is a matter of timing.
fn story(steps: &[Step]) -> Signature {
    let mut out = Signature::default();
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for step in steps.iter().filter(|step| step.resource == "endpointslices" && !step.removed) {
        let object = &step.object;
        let meta = &object["metadata"];
        let service = meta["labels"][SERVICE_NAME].as_str().unwrap().to_owned();
        let tells = meta["annotations"][TRIGGER_TIME].is_string();
        let endpoints = object["endpoints"].as_array().cloned().unwrap_or_default();
        let states: Vec<String> = endpoints.iter().map(|endpoint| state(endpoint).to_string()).collect();
        if step.created {
            let mut owner = meta["ownerReferences"][0].clone();
            owner["uid"].take();
            let shape = json!({"labels": meta["labels"], "generateName": meta["generateName"], "owner": owner,
                "type": object["addressType"], "ports": object["ports"], "endpoints": states, "tells": tells});
            out.insert(format!("{service}: as created"), shape.to_string());
        } else if endpoints.is_empty() {
            out.insert(format!("{service}: empty"), format!("{tells} {}", object["ports"]));
        }
        for state in &states {
            out.insert(format!("{service}: states"), state.clone());
            out.insert(format!("{service}: ports"), object["ports"].to_string());
        }
        let most = sizes.entry(service.clone()).or_default();
        *most = states.len().max(*most);
        // A change of the Service's wishes is none that began with a Pod. Who goes may end before it is gone: then that is told.
        if states.len() == 3 && states.iter().all(|state| state.contains("own")) {
            out.insert(format!("{service}: tells when all get hints"), tells.to_string());
        }
        out.set(format!("{service}: most"), *most);
        out.set(format!("{service}: in the end"), format!("{states:?}"));
    }
    out
}

/// An endpoint without what differs from run to run.
fn state(endpoint: &Value) -> Value {
    let target = &endpoint["targetRef"];
    let named = target["name"].as_str().is_some_and(|name| name.starts_with("web-"));
    let own_zone = json!([{"name": endpoint["zone"]}]);
    let hints = match &endpoint["hints"] {
        Value::Null => "none",
        hints if hints["forZones"] == own_zone => "own",
        _ => "other",
    };
    let fields: Vec<&String> = endpoint.as_object().unwrap().keys().collect();
    json!({"conditions": endpoint["conditions"], "hints": hints, "fields": fields, "kind": target["kind"], "named": named,
        "reference": target.as_object().map(serde_json::Map::len)})
}

#[tokio::test(start_paused = true)]
async fn two_services_over_a_deployment() {
    let replay = Replay::at("endpointslice-basic", "2026-11-21T09:42:54.2Z").await;
    replay.create("services", 1.0).await;
    replay.create("deployments", 2.2).await;
    let nearby = json!({"spec": {"trafficDistribution": "PreferSameZone"}});
    replay.merge("services", "web", nearby, 2.0).await;
    replay.merge("deployments.apps", "web", replicas(1), 3.0).await;
    replay.compare(story);
}
