//! What users do with Services, and what always holds of their slices and Endpoints.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::replicaset::pod_interferences;
use crate::simulation::{
    json::{at, condition, is_deleting, name, text, uid},
    scenario::{Interference, Invariant, Promise, Scenario, Step, Suite, What, after, settled},
    stage::NAMESPACE,
    world::{Logged, World},
};

/// Services, with the controller of their Pods.
pub(super) const SUITE: Suite = Suite {
    name: "endpointslice",
    programs: &[&endpointslice_controller::DEFINITION, &replicaset_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    scenarios,
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "delete-pod", act: pod_interferences::delete },
        Interference { name: "delete-slice", act: delete_slice },
        Interference { name: "empty-slice", act: empty_slice },
        Interference { name: "label-service", act: label_service },
    ],
};

const CONTROLLER: &str = "endpointslice-controller";
const SERVICES: &str = "services";
const SLICES: &str = "endpointslices.discovery.k8s.io";
const ENDPOINTS: &str = "endpoints";
const REPLICA_SETS: &str = "replicasets.apps";
const PODS: &str = "pods";
const WEB: &str = "web";
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const OURS: &str = "endpointslice-controller.k8s.io";
const MIRRORED: &str = "endpointslicemirroring-controller.k8s.io";

fn service(spec: Value) -> Value {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": WEB, "labels": {"tier": "a"}},
        "spec": {"selector": {"app": WEB}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}});
    if let (Value::Object(into), Value::Object(from)) = (&mut service["spec"], spec) {
        into.extend(from);
    }
    service
}

fn set(replicas: i64, annotations: Value) -> Value {
    let template = json!({"metadata": {"labels": {"app": WEB}, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}});
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": WEB},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": WEB}}, "template": template}})
}

fn pods(replicas: i64) -> Value {
    set(replicas, json!({"sim/ready-after": "1", "sim/terminate-after": "2"}))
}

fn create(object: Value) -> Step {
    after(0.1, What::Create(object))
}

fn scaled(replicas: i64) -> What {
    What::merge(REPLICA_SETS, WEB, json!({"spec": {"replicas": replicas}}))
}

fn change(spec: Value) -> What {
    What::merge(SERVICES, WEB, json!({ "spec": spec }))
}

fn hand_made(ips: &[&str]) -> Value {
    let addresses: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    json!([{"addresses": addresses, "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}])
}

fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "pods-come-and-go",
            about: "a Service over a ReplicaSet that grows and shrinks",
            steps: vec![
                create(service(json!({}))),
                create(pods(3)),
                settled(scaled(6)),
                after(0.5, scaled(2)),
                settled(scaled(0)),
                settled(scaled(2)),
            ],
        },
        Scenario {
            name: "service-comes-late",
            about: "Pods are there before their Service",
            steps: vec![create(pods(3)), settled(What::Create(service(json!({}))))],
        },
        Scenario {
            name: "unready",
            about: "Pods fail their probes for a while",
            steps: vec![
                create(service(json!({}))),
                create(set(2, json!({"sim/unready-after": "20", "sim/unready-for": "30"}))),
            ],
        },
        Scenario {
            name: "service-changes",
            about: "ports, labels and hints of a Service change",
            steps: vec![
                create(service(json!({}))),
                create(pods(2)),
                settled(change(json!({"trafficDistribution": "PreferSameZone"}))),
                settled(change(json!({"ports": [{"name": "http", "port": 80, "targetPort": 9090}]}))),
                settled(What::merge(SERVICES, WEB, json!({"metadata": {"labels": {"tier": "b"}}}))),
            ],
        },
        Scenario {
            name: "service-again",
            about: "a Service is deleted and made again under its name",
            steps: vec![
                create(pods(2)),
                create(service(json!({}))),
                settled(What::delete_now(SERVICES, WEB)),
                after(0.1, What::Create(service(json!({})))),
            ],
        },
        Scenario {
            name: "mirrored",
            about: "Endpoints that somebody writes by hand",
            steps: vec![
                create(service(json!({"selector": null}))),
                create(json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": WEB},
                    "subsets": hand_made(&["10.200.0.1", "10.200.0.2"])})),
                settled(What::merge(ENDPOINTS, WEB, json!({"subsets": hand_made(&["10.200.0.3"])}))),
                settled(What::merge(ENDPOINTS, WEB, json!({"metadata": {"annotations": {"a": "1"}}}))),
            ],
        },
    ]
}

fn label<'a>(slice: &'a Value, key: &str) -> &'a str {
    slice["metadata"]["labels"][key].as_str().unwrap_or_default()
}

/// A slice of the Service, by chance.
fn a_slice(world: &World, luck: u64) -> Option<&Arc<Value>> {
    let slices: Vec<&Arc<Value>> = world.list(SLICES).filter(|slice| label(slice, SERVICE_NAME) == WEB).collect();
    let at = usize::try_from(luck).unwrap_or(0).checked_rem(slices.len())?;
    slices.get(at).copied()
}

fn delete_slice(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let slice = a_slice(world, luck);
    slice.map(|slice| (Duration::ZERO, What::delete_now(SLICES, name(slice)))).into_iter().collect()
}

fn empty_slice(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let slice = a_slice(world, luck);
    let empty = |slice: &Arc<Value>| What::merge(SLICES, name(slice), json!({"endpoints": []}));
    slice.map(|slice| (Duration::ZERO, empty(slice))).into_iter().collect()
}

/// Adds a label, and takes it away after a while.
fn label_service(world: &World, luck: u64) -> Vec<(Duration, What)> {
    if world.get(SERVICES, NAMESPACE, WEB).is_none() {
        return Vec::new();
    }
    let labelled = |value: Value| What::merge(SERVICES, WEB, json!({"metadata": {"labels": {"x": value}}}));
    vec![(Duration::ZERO, labelled(json!("1"))), (Duration::from_secs(luck % 20), labelled(Value::Null))]
}

const INVARIANTS: &[Invariant] = &[
    Invariant { name: "others-slices-stay", spec: "endpointslice 13.5", check: others_slices_stay },
    Invariant { name: "address-types-stay", spec: "endpointslice 13.6", check: address_types_stay },
    Invariant { name: "who-goes-is-not-ready", spec: "endpointslice 13.7", check: who_goes_is_not_ready },
    Invariant { name: "made-for-the-living", spec: "endpointslice 13.9", check: made_for_the_living },
    Invariant { name: "writes-change-something", spec: "endpointslice 13.1", check: writes_change_something },
];

const PROMISES: &[Promise] = &[
    Promise { name: "slices-tell-the-truth", spec: "endpointslice 13.2, 13.3, 13.11", check: slices_tell_the_truth },
    Promise { name: "endpoints-tell-the-truth", spec: "endpointslice 16.1", check: endpoints_tell_the_truth },
    Promise { name: "mirrors-tell-the-truth", spec: "endpointslice 15", check: mirrors_tell_the_truth },
];

/// A slice that the controller has just written, as it was.
fn written(logged: &Logged) -> bool {
    logged.by(CONTROLLER) && logged.resource() == SLICES
}

fn endpoints(slice: &Value) -> &[Value] {
    at(slice, "/endpoints").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn others_slices_stay(_: &World, logged: &Logged) -> Result<(), String> {
    let Some(before) = logged.before().filter(|_| written(logged)) else { return Ok(()) };
    if [OURS, MIRRORED].contains(&label(&before, MANAGED_BY)) {
        Ok(())
    } else {
        Err(format!("{} is somebody else's", name(&before)))
    }
}

fn address_types_stay(_: &World, logged: &Logged) -> Result<(), String> {
    let (Some(before), Some(after)) = (logged.before(), logged.after()) else { return Ok(()) };
    if !written(logged) || before["addressType"] == after["addressType"] {
        return Ok(());
    }
    Err(format!("{} has other addresses now", name(&after)))
}

fn who_goes_is_not_ready(_: &World, logged: &Logged) -> Result<(), String> {
    let Some(after) = logged.after().filter(|_| written(logged)) else { return Ok(()) };
    let conditions = |endpoint: &Value| {
        let holds = |kind: &str| endpoint["conditions"][kind] == json!(true);
        (holds("ready"), holds("serving"), holds("terminating"))
    };
    let ours = label(&after, MANAGED_BY) == OURS;
    match endpoints(&after).iter().map(conditions).find(|(ready, serving, going)| *ready && (*going || !*serving)) {
        Some(wrong) if ours => Err(format!("an endpoint is ready, serving and going: {wrong:?}")),
        _ => Ok(()),
    }
}

fn made_for_the_living(world: &World, logged: &Logged) -> Result<(), String> {
    let Some(slice) = logged.after().filter(|_| written(logged) && logged.creates()) else { return Ok(()) };
    let (kind, owner) =
        (text(&slice, "/metadata/ownerReferences/0/kind"), text(&slice, "/metadata/ownerReferences/0/uid"));
    let resource = if kind == "Service" { SERVICES } else { ENDPOINTS };
    let lives =
        |state: Option<&Arc<Value>>| state.is_some_and(|owner_now| uid(owner_now) == owner && !is_deleting(owner_now));
    if world.recent(resource, NAMESPACE, label(&slice, SERVICE_NAME)).into_iter().any(lives) {
        Ok(())
    } else {
        Err(format!("{} is made for a {kind} that is gone", name(&slice)))
    }
}

fn writes_change_something(_: &World, logged: &Logged) -> Result<(), String> {
    let (Some(before), Some(after)) = (logged.before(), logged.after()) else { return Ok(()) };
    if !written(logged) || logged.deletes() {
        return Ok(());
    }
    let content =
        |slice: &Value| (slice["endpoints"].clone(), slice["ports"].clone(), slice["metadata"]["labels"].clone());
    let mirrored = label(&after, MANAGED_BY) == MIRRORED;
    if mirrored || content(&before) != content(&after) {
        Ok(())
    } else {
        Err(format!("{} comes out as it was", name(&after)))
    }
}

/// What a Pod is in slices: its uid and its conditions.
fn expected(world: &World) -> BTreeSet<String> {
    let counts = |pod: &&Arc<Value>| {
        text(pod, "/metadata/labels/app") == WEB
            && !text(pod, "/status/podIP").is_empty()
            && !["Succeeded", "Failed"].contains(&text(pod, "/status/phase"))
    };
    let state = |pod: &Arc<Value>| {
        let (serving, going) = (condition(pod, "Ready", "status") == "True", is_deleting(pod));
        format!("{} {} {serving} {going}", uid(pod), serving && !going)
    };
    world.list(PODS).filter(counts).map(state).collect()
}

fn selects(service: &Value) -> bool {
    at(service, "/spec/selector").is_some_and(|selector| !selector.is_null())
}

fn slices_tell_the_truth(world: &World) -> Result<(), String> {
    for service in world.list(SERVICES).filter(|service| selects(service)) {
        let slices: Vec<&Arc<Value>> = world
            .list(SLICES)
            .filter(|slice| label(slice, SERVICE_NAME) == name(service) && label(slice, MANAGED_BY) == OURS)
            .filter(|slice| text(slice, "/metadata/ownerReferences/0/uid") == uid(service))
            .collect();
        let told: Vec<String> = slices
            .iter()
            .flat_map(|slice| endpoints(slice))
            .map(|endpoint| {
                let holds = |kind: &str| endpoint["conditions"][kind] == json!(true);
                let target = text(endpoint, "/targetRef/uid");
                format!("{target} {} {} {}", holds("ready"), holds("serving"), holds("terminating"))
            })
            .collect();
        let set: BTreeSet<String> = told.iter().cloned().collect();
        if set != expected(world) || set.len() != told.len() || slices.is_empty() {
            return Err(format!("{} slices tell of {told:?}, and there are {:?}", slices.len(), expected(world)));
        }
        if slices.iter().any(|slice| slice["metadata"]["labels"]["tier"] != service["metadata"]["labels"]["tier"]) {
            return Err("a slice has labels that its Service has not".to_owned());
        }
    }
    Ok(())
}

fn endpoints_tell_the_truth(world: &World) -> Result<(), String> {
    let of = |endpoints: &Arc<Value>| world.get(SERVICES, NAMESPACE, name(endpoints));
    for endpoints in world.list(ENDPOINTS) {
        let Some(service) = of(endpoints) else { return Err(format!("{} have no Service", name(endpoints))) };
        if !selects(service) {
            continue;
        }
        let list = |field: &str| -> Vec<&str> {
            let subsets = at(endpoints, "/subsets").and_then(Value::as_array).into_iter().flatten();
            let all = subsets.filter_map(|subset| at(subset, field)?.as_array()).flatten();
            all.map(|address| text(address, "/targetRef/uid")).collect()
        };
        let told: BTreeSet<String> = list("/addresses").iter().map(|uid| format!("{uid} true")).collect();
        let not_ready: BTreeSet<String> = list("/notReadyAddresses").iter().map(|uid| format!("{uid} false")).collect();
        let wanted: BTreeSet<String> = expected(world)
            .iter()
            .filter(|state| state.ends_with(" false"))
            .map(|state| state.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" "))
            .collect();
        if &told | &not_ready != wanted {
            return Err(format!("Endpoints tell of {told:?} and {not_ready:?}, and there are {wanted:?}"));
        }
    }
    Ok(())
}

fn mirrors_tell_the_truth(world: &World) -> Result<(), String> {
    let mirrors = world.list(SLICES).filter(|slice| label(slice, MANAGED_BY) == MIRRORED);
    let told: Vec<&str> = mirrors.flat_map(|slice| endpoints(slice)).map(|e| text(e, "/addresses/0")).collect();
    let hand_made = world
        .list(ENDPOINTS)
        .filter(|endpoints| world.get(SERVICES, NAMESPACE, name(endpoints)).is_some_and(|service| !selects(service)));
    let wanted: Vec<&str> = hand_made
        .filter_map(|endpoints| at(endpoints, "/subsets/0/addresses")?.as_array())
        .flatten()
        .map(|address| text(address, "/ip"))
        .collect();
    if told == wanted { Ok(()) } else { Err(format!("mirrors tell of {told:?}, and there are {wanted:?}")) }
}
