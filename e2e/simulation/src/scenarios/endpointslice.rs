//! What users do with Services. What always holds of their slices and Endpoints is in [`endpointslice_invariants`].
//!
//! A slice takes three endpoints here, so that most Services have several slices and a change touches more than one.
//!
//! [`endpointslice_invariants`]: super::endpointslice_invariants

use std::{sync::Arc, time::Duration};

use common::settings::TunableValue;

use serde_json::{Value, json};

use super::{
    endpointslice_invariants::{ENDPOINTS, INVARIANTS, PROMISES, SERVICE_NAME, SERVICES, SLICES, label},
    replicaset::pod_interferences,
};
use crate::{
    json::name,
    scenario::{Interference, Scenario, Step, Suite, What, after, settled},
    stage::NAMESPACE,
    world::World,
};

/// Services, with the controllers of their Pods.
pub(super) const SUITE: Suite = Suite {
    name: "endpointslice",
    programs: &[
        &endpointslice_controller::DEFINITION,
        &replicaset_controller::DEFINITION,
        &deployment_controller::DEFINITION,
        // Pods of a node that is gone are removed, which upstream leaves to Pod garbage collection, too.
        &super::node_lifecycle::OF_PODS,
    ],
    tunes: &[
        ("max-endpoints-per-slice", TunableValue::Count(super::endpointslice_invariants::MAX_ENDPOINTS)),
        // Services are small here.
        ("endpointslice-min-pods-of-packing", TunableValue::Count(1)),
    ],
    gates: &[],
    scenarios,
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "delete-pod", act: pod_interferences::delete },
        Interference { name: "delete-slice", act: delete_slice },
        Interference { name: "empty-slice", act: empty_slice },
        Interference { name: "take-slice", act: take_slice },
        Interference { name: "label-service", act: label_service },
    ],
};

/// The same in a cluster in which Pods have an address of each family.
pub(super) const DUAL_STACK: Suite = Suite {
    name: "endpointslice-dual-stack",
    gates: &[("IPv6DualStack", true)],
    scenarios: dual_stack_scenarios,
    ..SUITE
};

const REPLICA_SETS: &str = "replicasets.apps";
const DEPLOYMENTS: &str = "deployments.apps";
const WEB: &str = "web";

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

fn hand_made(ready: &[&str], not_ready: &[&str], port: i64) -> Value {
    let list = |ips: &[&str]| ips.iter().map(|ip| json!({"ip": ip})).collect::<Vec<Value>>();
    json!({"addresses": list(ready), "notReadyAddresses": list(not_ready),
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}]})
}

fn endpoints_of(subsets: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": WEB, "labels": {"team": "blue"}},
        "subsets": subsets})
}

fn subsets(subsets: Value) -> What {
    What::merge(ENDPOINTS, WEB, json!({ "subsets": subsets }))
}

/// Pods of the Service that declare the port `web` as the number given.
fn pods_with_port(set_name: &str, replicas: i64, port: i64) -> Value {
    let mut set = pods(replicas);
    set["metadata"]["name"] = json!(set_name);
    set["spec"]["selector"]["matchLabels"]["set"] = json!(set_name);
    set["spec"]["template"]["metadata"]["labels"]["set"] = json!(set_name);
    set["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"name": "web", "containerPort": port}]);
    set
}

fn deployment(replicas: i64) -> Value {
    let template = &pods(replicas)["spec"]["template"];
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": WEB},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": WEB}}, "template": template,
            "strategy": {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}}})
}

/// A slice of the Service that belongs to somebody else.
fn foreign_slice(slice_name: &str, managed_by: Value) -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": slice_name, "labels": {SERVICE_NAME: WEB, "endpointslice.kubernetes.io/managed-by": managed_by}},
        "endpoints": [{"addresses": ["10.250.0.1"]}], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]})
}

fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "pods-come-and-go",
            about: "a Service over a ReplicaSet that grows and shrinks",
            steps: vec![
                create(service(json!({}))),
                create(pods(3)),
                settled(scaled(8)),
                after(0.5, scaled(2)),
                settled(scaled(0)),
                settled(scaled(2)),
            ],
        },
        Scenario {
            name: "service-comes-late",
            about: "Pods are there before their Service",
            steps: vec![create(pods(4)), settled(What::Create(service(json!({}))))],
        },
        Scenario {
            name: "rollout",
            about: "the Pods of a Service are replaced by a Deployment, and none may be missed",
            steps: vec![
                create(service(json!({}))),
                create(deployment(4)),
                settled(What::merge(
                    DEPLOYMENTS,
                    WEB,
                    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "img:2"}]}}}}),
                )),
            ],
        },
        Scenario {
            name: "unready",
            about: "Pods fail their probes for a while",
            steps: vec![
                create(service(json!({}))),
                create(set(4, json!({"sim/unready-after": "20", "sim/unready-for": "30"}))),
            ],
        },
        Scenario {
            name: "not-ready-addresses",
            about: "a headless Service that publishes what is not ready, and then does not",
            steps: vec![
                create(service(json!({"clusterIP": "None", "publishNotReadyAddresses": true}))),
                create(set(4, json!({"sim/never-ready": "true"}))),
                settled(change(json!({"publishNotReadyAddresses": false}))),
            ],
        },
        Scenario {
            name: "service-changes",
            about: "labels and hints of a Service change",
            steps: vec![
                create(service(json!({}))),
                create(pods(4)),
                settled(change(json!({"trafficDistribution": "PreferSameZone"}))),
                settled(change(json!({"trafficDistribution": "PreferSameNode"}))),
                settled(What::merge(SERVICES, WEB, json!({"metadata": {"labels": {"tier": "b"}}}))),
            ],
        },
        Scenario {
            name: "port-changes",
            about: "all slices of a Service are replaced because its port changes",
            steps: vec![
                create(service(json!({}))),
                create(pods(7)),
                settled(change(json!({"ports": [{"name": "http", "port": 80, "targetPort": 9090}]}))),
            ],
        },
        Scenario {
            name: "named-port",
            about: "Pods of one Service resolve a port by its name to different numbers",
            steps: vec![
                create(service(json!({"ports": [{"name": "http", "port": 80, "targetPort": "web"}]}))),
                create(pods_with_port("old", 2, 8080)),
                create(pods_with_port("new", 4, 9090)),
                settled(What::merge(REPLICA_SETS, "old", json!({"spec": {"replicas": 0}}))),
            ],
        },
        Scenario {
            name: "service-again",
            about: "a Service is deleted and made again under its name",
            steps: vec![
                create(pods(4)),
                create(service(json!({}))),
                settled(What::delete_now(SERVICES, WEB)),
                after(0.1, What::Create(service(json!({})))),
            ],
        },
        Scenario {
            name: "others-slices",
            about: "slices of the Service that nobody or somebody else manages",
            steps: vec![
                create(foreign_slice("by-hand", json!(""))),
                create(foreign_slice("by-mesh", json!("mesh.example.com"))),
                create(service(json!({}))),
                create(pods(4)),
                settled(scaled(1)),
                settled(What::delete_now(SERVICES, WEB)),
            ],
        },
        Scenario {
            name: "node-lost",
            about: "a node is deleted with its Pods, which are replaced",
            steps: vec![create(service(json!({}))), create(pods(5)), settled(What::delete_now("nodes", "node-1"))],
        },
        Scenario {
            name: "mirrored",
            about: "Endpoints that somebody writes by hand",
            steps: vec![
                create(service(json!({"selector": null}))),
                create(endpoints_of(json!([hand_made(&["10.200.0.1", "10.200.0.2"], &[], 80)]))),
                settled(subsets(json!([hand_made(&["10.200.0.3"], &[], 80)]))),
                settled(What::merge(ENDPOINTS, WEB, json!({"metadata": {"annotations": {"a": "1"}}}))),
            ],
        },
        Scenario {
            name: "mirrored-subsets",
            about: "Endpoints of several subsets, which are deleted and come back",
            steps: vec![
                create(endpoints_of(json!([
                    hand_made(&["10.200.0.1", "10.200.0.2", "10.200.0.3", "10.200.0.4"], &["10.200.0.5"], 80),
                    hand_made(&["10.200.0.1"], &["10.200.0.6"], 81),
                ]))),
                create(service(json!({"selector": null}))),
                settled(subsets(json!([hand_made(&["10.200.0.1"], &[], 81)]))),
                settled(What::delete_now(ENDPOINTS, WEB)),
                settled(What::Create(endpoints_of(json!([hand_made(&["10.200.0.9"], &["10.200.0.8"], 82)])))),
                settled(What::merge(
                    ENDPOINTS,
                    WEB,
                    json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}),
                )),
            ],
        },
    ]
}

/// A headless Service of these families.
fn with_families(families: Value) -> Value {
    let policy = if families.as_array().is_some_and(|all| all.len() > 1) { "RequireDualStack" } else { "SingleStack" };
    json!({"clusterIP": "None", "ipFamilyPolicy": policy, "ipFamilies": families})
}

fn dual_stack_scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "families-change",
            about: "a Service gets a second family, and loses it again, while its Pods come and go",
            steps: vec![
                create(service(with_families(json!(["IPv4"])))),
                create(pods(4)),
                settled(change(with_families(json!(["IPv4", "IPv6"])))),
                settled(scaled(7)),
                after(0.5, change(with_families(json!(["IPv4"])))),
                settled(change(with_families(json!(["IPv4", "IPv6"])))),
                after(0.5, scaled(2)),
                settled(scaled(0)),
            ],
        },
        Scenario {
            name: "rollout-in-both-families",
            about: "the Pods of a Service of two families are replaced by a Deployment, and none may be missed",
            steps: vec![
                create(service(with_families(json!(["IPv6", "IPv4"])))),
                create(deployment(4)),
                settled(What::merge(
                    DEPLOYMENTS,
                    WEB,
                    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "img:2"}]}}}}),
                )),
                settled(change(json!({"ports": [{"name": "http", "port": 80, "targetPort": 9090}]}))),
            ],
        },
    ]
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

/// Gives a slice to another manager.
fn take_slice(world: &World, luck: u64) -> Vec<(Duration, What)> {
    let slice = a_slice(world, luck);
    let mesh = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": "mesh.example.com"}}});
    slice.map(|slice| (Duration::ZERO, What::merge(SLICES, name(slice), mesh))).into_iter().collect()
}

/// Adds a label, and takes it away after a while.
fn label_service(world: &World, luck: u64) -> Vec<(Duration, What)> {
    if world.get(SERVICES, NAMESPACE, WEB).is_none() {
        return Vec::new();
    }
    let labelled = |value: Value| What::merge(SERVICES, WEB, json!({"metadata": {"labels": {"x": value}}}));
    vec![(Duration::ZERO, labelled(json!("1"))), (Duration::from_secs(luck % 20), labelled(Value::Null))]
}
