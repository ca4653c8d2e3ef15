//! The endpoints and ports of slices, from Pods and Services as the API server sends them.

use serde_json::Value;
use testkit::objects::merged;

use super::*;

/// Returns the plan for a Service with these fields in `spec`, and Pods `p0`, `p1` and so on with these fields.
fn plan(spec: Value, pods: &[Value]) -> Plan {
    let pods = pods.iter().enumerate().map(|(index, fields)| {
        let (name, ip) = (format!("p{index}"), format!("10.1.0.{index}"));
        let pod = json!({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"nodeName": NODE_NAME},
            "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                "conditions": [{"type": "Ready", "status": "True"}]}});
        serde_json::from_value(merged(pod, fields.clone())).unwrap()
    });
    decide(&Snapshot { service: service(&spec), ..snapshot(pods, 100) })
}

/// Returns the ports and the endpoints of each slice that the plan creates.
fn created(plan: &Plan) -> Vec<(Value, Vec<Value>)> {
    let drafts = plan.slice_writes[0].slices_to_create.iter();
    drafts
        .map(|draft| (json!(draft.ports[..]), draft.endpoints.iter().map(|endpoint| json!(endpoint)).collect()))
        .collect()
}

/// ENDPOINTSLICE-15.
#[test]
fn the_conditions_of_an_endpoint_follow_its_pod_and_its_service() {
    for (is_ready, is_terminating, publishes, [ready, serving, terminating]) in [
        (true, false, false, [true, true, false]),
        (false, false, false, [false, false, false]),
        (true, true, false, [false, true, true]),
        (false, false, true, [true, false, false]),
        (true, true, true, [true, true, true]),
    ] {
        let pod = json!({"metadata": {"deletionTimestamp": is_terminating.then_some("2026-01-01T10:00:00Z")},
            "status": {"conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}]}});
        let plan = plan(json!({ "publishNotReadyAddresses": publishes }), &[pod]);
        let expected = json!({"ready": ready, "serving": serving, "terminating": terminating});
        assert_eq!(created(&plan)[0].1[0]["conditions"], expected, "{is_ready} {is_terminating} {publishes}");
    }
}

/// ENDPOINTSLICE-16.
#[test]
fn a_hostname_is_listed_only_in_the_domain_of_its_service() {
    let pods = [("a", "web"), ("b", "other")]
        .map(|(hostname, subdomain)| json!({"spec": {"hostname": hostname, "subdomain": subdomain}}));
    let endpoints = created(&plan(json!({}), &pods)).remove(0).1;
    assert_eq!(endpoints.iter().map(|endpoint| &endpoint["hostname"]).collect::<Vec<_>>(), [&json!("a"), &json!(null)]);
}

/// ENDPOINTSLICE-21, ENDPOINTSLICE-22, ENDPOINTSLICE-23.
#[test]
fn pods_with_different_ports_are_in_different_slices() {
    let named = json!([{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"},
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"}]);
    let pods = [("web", 8080), ("web", 9090), ("dns", 53), ("web", 8080)]
        .map(|(name, port)| json!({"spec": {"containers": [{"ports": [{"name": name, "containerPort": port}]}]}}));
    let mut slices: Vec<(String, String)> = created(&plan(json!({ "ports": named }), &pods))
        .iter()
        .map(|(ports, endpoints)| {
            let names = endpoints.iter().map(|endpoint| endpoint["targetRef"]["name"].as_str().unwrap());
            (names.collect::<Vec<_>>().join(" "), ports.to_string())
        })
        .collect();
    slices.sort();
    let port = |number: i32| json!([{"name": "http", "port": number, "protocol": "TCP"}]).to_string();
    let expected = [("p0 p3", port(8080)), ("p1", port(9090)), ("p2", "[]".to_owned())];
    let expected = expected.map(|(names, ports)| (names.to_owned(), ports));
    assert_eq!(slices, expected, "a named port must have the same protocol");
}

/// ENDPOINTSLICE-17.
#[test]
fn a_pod_without_a_known_node_is_omitted_unless_all_are_published() {
    let pods = [json!({}), json!({"spec": {"nodeName": ""}}), json!({"spec": {"nodeName": "late"}})];
    for (publishes, count, omitted) in [(false, 1, 2), (true, 3, 0)] {
        let plan = plan(json!({ "publishNotReadyAddresses": publishes }), &pods);
        let endpoints = created(&plan).remove(0).1;
        assert_eq!((endpoints.len(), plan.slice_writes[0].omitted_pod_messages.len()), (count, omitted));
        assert!(endpoints.iter().all(|endpoint| endpoint.get("zone").is_none()), "{endpoints:?}");
    }
}
