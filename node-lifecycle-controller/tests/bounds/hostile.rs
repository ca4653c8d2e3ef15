//! Nodes and Pods with invalid or very large content neither make a decision fail nor make it expensive.
//!
//! The tests have their own process, because its memory is limited: an allocation beyond the limit aborts the process.

use node_lifecycle_controller::{
    objects::{CachedPod, Node},
    silence, taints as node_taints,
};
use proptest::prelude::*;
use testkit::bounds::{any_of, in_virtual_time, read};

use crate::{METER, world::*};

/// Maximum bytes that the decisions about one node may allocate.
const DECISIONS: usize = 32 << 20;
/// Maximum bytes for the API server, hostile nodes, their neighbours and the controller together.
const CLUSTER: usize = 512 << 20;
/// Maximum bytes of a cached node that had a megabyte of annotations.
const CACHED: usize = 4 << 10;

fn odd_text() -> impl Strategy<Value = Value> {
    let texts =
        ["", "True", "False", "Unknown", "true", "Odd", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "-1", "\u{0}"];
    prop_oneof![any_of(&texts.map(|text| json!(text))), Just(Value::Null), Just(json!("x".repeat(2_000)))]
}

fn any_condition() -> impl Strategy<Value = Value> {
    let kinds = ["Ready", "Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "Odd", ""];
    (any_of(&kinds), odd_text(), odd_text(), odd_text()).prop_map(|(kind, status, reason, time)| {
        json!({"type": kind, "status": status.as_str().unwrap_or("True"), "reason": reason.as_str().unwrap_or(""),
            "lastHeartbeatTime": time})
    })
}

fn any_taint() -> impl Strategy<Value = Value> {
    let keys = [NOT_READY, UNREACHABLE, node_taints::UNSCHEDULABLE_TAINT, "example.com/x", ""];
    let effects = ["NoExecute", "NoSchedule", "PreferNoSchedule", "Odd", ""];
    (any_of(&keys), any_of(&effects), odd_text())
        .prop_map(|(key, effect, value)| json!({"key": key, "effect": effect, "value": value}))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    fn any_no_list_of_conditions_and_taints_breaks_a_decision_or_loses_a_foreign_taint(
        conditions in prop::collection::vec(any_condition(), 0..12),
        listed in prop::collection::vec(any_taint(), 0..12),
        repeated in any_of(&[1usize, 1, 50]),
    ) {
        let listed: Vec<Value> = listed.iter().cycle().take(listed.len() * repeated).cloned().collect();
        let node = json!({"metadata": {"name": "n"}, "spec": {"taints": listed}, "status": {"conditions": conditions}});
        let Some(node) = read::<Node>(&node) else { return Ok(()) };
        METER.limited(DECISIONS, || {
            prop_assert!(silence::conditions_to_set_unknown(&node).len() <= 4);
            let mut changes = vec![node_taints::no_schedule_taint_change(&node), node_taints::removal_of_monitor_taints(&node)];
            changes.extend(node_taints::TaintCause::for_node(&node).map(|cause| node_taints::change_to_taint_of_cause(&node, cause)));
            for change in changes {
                prop_assert!(change.keys_to_add.len() + change.keys_to_remove.len() <= 9, "{change:?}");
                let after = node_taints::apply_taint_change(&listed, &change, "2026-11-21T10:00:00Z");
                let is_foreign = |taint: &&Value| !taint["key"].as_str().unwrap_or_default().starts_with("node.kubernetes.io/");
                prop_assert!(listed.iter().filter(is_foreign).eq(after.iter().filter(is_foreign)));
                let mut again: Value = json!({"metadata": {"name": "n"}, "spec": {"taints": after},
                    "status": {"conditions": conditions}});
                let settled = read::<Node>(&again.take()).unwrap();
                // After the change, the node has every added taint and no removed taint.
                let has = |key: &str| settled.taints().iter().any(|taint| taint.effect == change.effect && taint.key == key);
                prop_assert!(change.keys_to_add.iter().all(|key| has(key)) && !change.keys_to_remove.iter().any(|key| has(key)));
            }
            Ok(())
        })?;
    }
}

/// NODE-27.
#[test]
fn no_list_of_conditions_and_taints_breaks_a_decision_or_loses_a_foreign_taint() {
    // Generated values take memory, too.
    let _alone = METER.alone();
    any_no_list_of_conditions_and_taints_breaks_a_decision_or_loses_a_foreign_taint();
}

#[test]
fn a_node_with_a_megabyte_of_annotations_is_cached_without_them() {
    let _alone = METER.alone();
    let node = |size: usize| {
        let node = json!({"metadata": {"name": "n", "annotations": {"example.com/ballast": "x".repeat(size)}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        read::<Node>(&node).unwrap()
    };
    drop(node(10));
    let (_cached, kept) = METER.held(|| node(1 << 20));
    assert!(kept <= CACHED, "{kept} bytes");
}

#[test]
fn a_pod_with_thousands_of_odd_tolerations_is_read_within_its_size() {
    let _alone = METER.alone();
    let operators = ["Exists", "Equal", "Lt", "Gt", "In", "", "odd"];
    let toleration = |n: usize| {
        json!({"key": format!("example.com/{}", n % 100), "operator": operators[n % operators.len()],
            "value": "9999999999999999999999", "effect": "NoExecute", "tolerationSeconds": i64::MIN + n as i64})
    };
    let tolerations: Vec<Value> = (0..5000).map(toleration).collect();
    let pod =
        json!({"metadata": {"name": "p", "namespace": "shop"}, "spec": {"nodeName": "n", "tolerations": tolerations}});
    let size = pod.to_string().len();
    let pod = METER.limited(8 * size, || read::<CachedPod>(&pod)).unwrap();
    assert_eq!(pod.tolerations.iter().count(), 5000);
}

/// NODE-77.
#[test]
fn hostile_nodes_do_not_affect_their_neighbours() {
    let _alone = METER.alone();
    METER.limited(CLUSTER, || in_virtual_time(neighbours()));
}

/// Creates a node with exactly these taints and conditions; defaults that the server sets are replaced.
async fn hostile(world: &World, name: &str, metadata: Value, taints: Value, conditions: Value) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    world.create(merged(node, json!({ "metadata": metadata }))).await;
    set_taints(world, name, taints).await;
    world.patch_status("nodes", name, json!({ "conditions": conditions })).await;
}

async fn neighbours() {
    const HOSTILE: [&str; 5] = ["bare", "future", "past", "lists", "ballast"];
    let world = live_world(live_cluster(6), 0).await;
    let ready =
        |at: &str| json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": at, "lastTransitionTime": at}]);
    let many_taints: Vec<Value> =
        (0..1000).map(|n| json!({"key": format!("example.com/{n}"), "effect": "NoSchedule"})).collect();
    let many_labels: Value =
        (0..1000).map(|n| (format!("example.com/{n}"), json!("x"))).collect::<serde_json::Map<_, _>>().into();
    let many_conditions: Vec<Value> =
        (0..1000).map(|n| json!({"type": format!("Odd{n}"), "status": "True", "message": "x".repeat(200)})).collect();
    hostile(&world, "bare", json!({}), json!([]), json!([])).await;
    hostile(&world, "future", json!({}), json!([]), ready("9999-12-30T00:00:00Z")).await;
    hostile(&world, "past", json!({}), json!([]), ready("0001-01-02T00:00:00Z")).await;
    hostile(&world, "lists", json!({"labels": many_labels}), json!(many_taints), json!(many_conditions)).await;
    let ballast = json!({"annotations": {"example.com/ballast": "x".repeat(250 << 10)}});
    hostile(&world, "ballast", ballast, json!([]), ready("2026-11-21T09:00:00Z")).await;
    let since = world.clock.now();
    world.wait(300).await;
    assert_no_node_writes(&world, since);
    for node in HOSTILE {
        let node = world.get("nodes", node).await;
        assert_eq!(status(&node, "Ready"), "Unknown", "{}", node["metadata"]["name"]);
    }
    let lists = world.get("nodes", "lists").await;
    let taints = lists["spec"]["taints"].as_array().unwrap();
    assert_eq!(taints.iter().filter(|taint| taint["key"] != UNREACHABLE).count(), 1000, "no foreign taint is lost");
    assert_eq!(lists["status"]["conditions"].as_array().unwrap().len(), 1004);
    // The conditions of all hostile nodes are `Unknown` now, so that they cause no further requests.
    let examined = || world.metric("nonet_node_monitor_examined_nodes_total");
    let before = (request_count(&world), examined());
    world.wait(600).await;
    assert_eq!(request_count(&world), before.0);
    // Each of the six other nodes is examined about once in 40 seconds.
    let examined_nodes = examined() - before.1;
    assert!(examined_nodes <= 6 * 16, "{examined_nodes}");
}
