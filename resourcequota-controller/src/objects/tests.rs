use common::partial_object::PartialObject;
use serde_json::{Value, json};

use super::*;
use crate::{
    usage::ScopeFacts,
    world::{GATES, amounts_of, at, decoded},
};

/// Compares the usage of an object with texts by name.
fn assert_usage<K: CountedObject>(object: &Value, expected: &[(&str, &str)]) {
    let expected = expected.iter().map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned())).collect();
    assert_eq!(amounts_of::<K>(object), expected, "{object}");
}

fn container(name: &str, requests: &Value, limits: &Value) -> Value {
    json!({"name": name, "resources": {"requests": requests, "limits": limits}})
}

#[test]
fn a_pod_uses_requests_under_two_names_and_limits_under_one() {
    // RESOURCEQUOTA-22, RESOURCEQUOTA-23, RESOURCEQUOTA-24
    let requests = json!({"cpu": "100m", "hugepages-2Mi": "4Mi", "example.com/gpu": "2", "kubernetes.io/x": "1"});
    let containers = [container("a", &requests, &json!({"cpu": "1", "example.com/gpu": "2"}))];
    assert_usage::<Pod>(
        &json!({"spec": {"containers": containers}}),
        &[
            ("cpu", "100m"),
            ("hugepages-2Mi", "4Mi"),
            ("limits.cpu", "1"),
            ("pods", "1"),
            ("requests.cpu", "100m"),
            ("requests.example.com/gpu", "2"),
            ("requests.hugepages-2Mi", "4Mi"),
        ],
    );
}

#[test]
fn init_containers_use_their_peak_and_sidecars_are_added() {
    // RESOURCEQUOTA-25
    let cpu = |amount: &str| json!({"cpu": amount});
    let mut sidecar = container("sidecar", &cpu("1"), &json!({}));
    sidecar["restartPolicy"] = json!("Always");
    let init = |amount| container("init", &cpu(amount), &json!({}));
    for (init_containers, used) in [
        (vec![init("3")], "3"),
        (vec![init("1")], "2"),
        (vec![sidecar.clone(), init("3")], "4"),
        (vec![init("3"), sidecar.clone()], "3"),
        (vec![sidecar.clone()], "3"),
    ] {
        let containers = [container("a", &cpu("2"), &json!({}))];
        let pod = json!({"spec": {"containers": containers, "initContainers": init_containers}});
        assert_eq!(amounts_of::<Pod>(&pod)["requests.cpu"], used, "{pod}");
    }
}

#[test]
fn resources_of_the_pod_replace_and_overhead_is_added() {
    // RESOURCEQUOTA-26, RESOURCEQUOTA-27
    let containers = [container("a", &json!({"cpu": "1", "memory": "1Gi"}), &json!({"cpu": "2", "memory": "0"}))];
    let spec = json!({"containers": containers, "resources": {"requests": {"cpu": "3"}},
        "overhead": {"cpu": "100m", "memory": "1Mi", "ephemeral-storage": "1Ki"}});
    let mut expected = vec![
        ("cpu", "3100m"),
        ("ephemeral-storage", "1Ki"),
        ("limits.cpu", "2100m"),
        ("limits.memory", "0"),
        ("memory", "1025Mi"),
        ("pods", "1"),
        ("requests.cpu", "3100m"),
        ("requests.ephemeral-storage", "1Ki"),
        ("requests.memory", "1025Mi"),
    ];
    assert_usage::<Pod>(&json!({"spec": spec}), &expected);
    let gates = Gates { pod_level_resources: false, ..GATES };
    let without_gate = decoded::<Pod>(&json!({"spec": spec})).usage(gates).usage.amounts;
    (expected[0].1, expected[6].1) = ("1100m", "1100m");
    let without_gate: Vec<_> =
        without_gate.iter().map(|(name, amount)| (name.to_string(), amount.to_string())).collect();
    assert_eq!(without_gate.iter().map(|(name, amount)| (&**name, &**amount)).collect::<Vec<_>>(), expected);
}

#[test]
fn a_resized_container_counts_with_the_larger_of_spec_and_status() {
    // RESOURCEQUOTA-28
    let spec = json!({"containers": [container("a", &json!({"cpu": "2"}), &json!({"cpu": "2"}))]});
    let status = |reason: Option<&str>, resources: Value| {
        let conditions: Vec<_> =
            reason.into_iter().map(|reason| json!({"type": "PodResizePending", "reason": reason})).collect();
        let container = json!({"name": "a", "allocatedResources": {"cpu": "1500m"}, "resources": resources});
        json!({"conditions": conditions, "containerStatuses": [container]})
    };
    let actual = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}});
    for (status, requests, limits) in [
        (status(None, actual.clone()), "2", "3"),
        (status(Some("Deferred"), actual.clone()), "2", "3"),
        (status(Some("Infeasible"), actual), "1500m", "3"),
        (status(Some("Infeasible"), Value::Null), "2", "2"),
    ] {
        let used = amounts_of::<Pod>(&json!({"spec": spec, "status": status}));
        assert_eq!((&*used["cpu"], &*used["limits.cpu"]), (requests, limits), "{status}");
    }
}

#[test]
fn a_finished_pod_uses_nothing_and_a_terminating_one_until_two_grace_periods_have_passed() {
    // RESOURCEQUOTA-29
    for phase in ["Succeeded", "Failed"] {
        assert_usage::<Pod>(&json!({"status": {"phase": phase}}), &[]);
    }
    let metadata = json!({"deletionTimestamp": at(0), "deletionGracePeriodSeconds": 30});
    let class = decoded::<Pod>(&json!({"metadata": metadata})).usage(GATES).usage.class;
    assert_eq!(class.amounts_end, Some(at(30)));
}

#[test]
fn pods_have_the_facts_of_their_scopes() {
    // RESOURCEQUOTA-51, RESOURCEQUOTA-52, RESOURCEQUOTA-53, RESOURCEQUOTA-54
    let term = |selector: Value| json!({"topologyKey": "zone", "namespaceSelector": selector});
    let anti = |terms: Value| json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}});
    for (pod, expected) in [
        (json!({}), (false, false, "", false)),
        (json!({"spec": {"activeDeadlineSeconds": 0}}), (true, false, "", false)),
        (json!({"status": {"qosClass": "BestEffort"}}), (false, true, "", false)),
        (json!({"spec": {"priorityClassName": "gold"}}), (false, false, "gold", false)),
        (
            json!({"spec": {"affinity": anti(json!([{"weight": 1, "podAffinityTerm": term(json!({}))}]))}}),
            (false, false, "", true),
        ),
        (
            json!({"spec": {"affinity": anti(json!([{"weight": 1, "podAffinityTerm": term(Value::Null)}]))}}),
            (false, false, "", false),
        ),
    ] {
        let (is_terminating, is_best_effort, priority_class, has_cross_namespace_affinity) = expected;
        let priority_class = priority_class.into();
        let facts = ScopeFacts::Pod { is_terminating, is_best_effort, priority_class, has_cross_namespace_affinity };
        assert_eq!(decoded::<Pod>(&pod).usage(GATES).usage.class.facts, facts, "{pod}");
    }
}

#[test]
fn services_use_ports_and_load_balancers_by_type() {
    // RESOURCEQUOTA-32, RESOURCEQUOTA-33, RESOURCEQUOTA-34
    let ports = json!([{"port": 80}, {"port": 81, "nodePort": 30000}]);
    for (spec, expected) in [
        (json!({"type": "ClusterIP", "ports": ports}), &[][..]),
        (json!({"type": "NodePort", "ports": ports}), &[("services.nodeports", "2")]),
        (
            json!({"type": "LoadBalancer", "ports": ports}),
            &[("services.loadbalancers", "1"), ("services.nodeports", "2")],
        ),
        (
            json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false}),
            &[("services.loadbalancers", "1"), ("services.nodeports", "1")],
        ),
    ] {
        assert_usage::<Service>(&json!({"spec": spec}), expected);
    }
}

#[test]
fn volume_claims_use_storage_by_class() {
    // RESOURCEQUOTA-36, RESOURCEQUOTA-37, RESOURCEQUOTA-38, RESOURCEQUOTA-39
    let spec = json!({"storageClassName": "gold", "resources": {"requests": {"storage": "1500m"}}});
    let of_class = |class: &str, storage| {
        [
            (format!("{class}.storageclass.storage.k8s.io/persistentvolumeclaims"), "1"),
            (format!("{class}.storageclass.storage.k8s.io/requests.storage"), storage),
            ("requests.storage".to_owned(), storage),
        ]
    };
    let beta = |class: &str| json!({"annotations": {"volume.beta.kubernetes.io/storage-class": class}});
    let allocated = json!({"allocatedResources": {"storage": "1Ki"}});
    for (claim, expected) in [
        (json!({"spec": spec}), of_class("gold", "2").to_vec()),
        (json!({"spec": spec, "status": allocated}), of_class("gold", "1Ki").to_vec()),
        (json!({"spec": spec, "metadata": beta("silver")}), of_class("silver", "2").to_vec()),
        (json!({"spec": spec, "metadata": beta("")}), of_class("", "2")[2..].to_vec()),
        (json!({"spec": {"storageClassName": "gold"}, "status": allocated}), of_class("gold", "")[..1].to_vec()),
    ] {
        let expected: Vec<_> = expected.iter().map(|(name, amount)| (&**name, *amount)).collect();
        assert_usage::<Claim>(&claim, &expected);
    }
}

#[test]
fn resource_claims_use_the_devices_that_they_may_get() {
    // RESOURCEQUOTA-42, RESOURCEQUOTA-43, RESOURCEQUOTA-44
    let devices =
        |class: &str, mode: &str, count: u32| json!({"deviceClassName": class, "allocationMode": mode, "count": count});
    let requests = json!([
        {"name": "a", "exactly": devices("gpu", "ExactCount", 2)},
        {"name": "b", "exactly": devices("gpu", "All", 0)},
        {"name": "c", "firstAvailable": [devices("gpu", "ExactCount", 1), devices("gpu", "ExactCount", 4), devices("nic", "ExactCount", 3)]},
        {"name": "d", "exactly": devices("other", "Unknown", 7)},
        {"name": "e"},
    ]);
    assert_usage::<ResourceClaim>(
        &json!({"spec": {"devices": {"requests": requests}}}),
        &[
            ("gpu.deviceclass.resource.k8s.io/devices", "38"),
            ("nic.deviceclass.resource.k8s.io/devices", "3"),
            ("other.deviceclass.resource.k8s.io/devices", "0"),
        ],
    );
}

#[test]
fn of_other_objects_only_the_number_matters() {
    // RESOURCEQUOTA-16
    assert_usage::<PartialObject>(&json!({"data": {"a": "b"}}), &[]);
}

#[test]
fn a_quota_whose_quantity_cannot_be_parsed_names_the_text() {
    let quota = json!({"metadata": {"name": "a"}, "spec": {"hard": {"pods": "many"}}}).to_string();
    let error = serde_json::from_str::<Quota>(&quota).unwrap_err().to_string();
    assert!(error.starts_with("\"many\": quantity is not a number with a suffix"), "{error}");
}
