//! The memory of a cached Pod.

use std::sync::Arc;

use common::{meta::ResourceVersion, object::Object as _, store::Store};
use node_lifecycle_controller::objects::CachedPod;
use serde_json::json;

use crate::METER;

/// Maximum bytes of a cached Pod: the texts that no other Pod shares, and the memory for the Pod in the store and its indexes,
/// including unused capacity.
const BUDGET: usize = 300;
/// Bytes per cached Pod for the list of ended Pods in the order of their removal; one Pod in ten has ended.
const ORDERED: usize = 2;
const PODS: usize = 20_000;

/// Builds a Pod as a server sends it. 100 Pods share their owner, and all Pods share their tolerations.
fn pod(number: usize) -> CachedPod {
    let set = number / 100;
    let tolerated = |key: &str| {
        json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 300})
    };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-{set:03}-7c99d5cb8d-{number:05}"), "generateName": format!("web-{set:03}-7c99d5cb8d-"),
            "namespace": format!("shop-{}", set % 10), "uid": format!("2ff731ae-b0d1-491c-a286-{number:012x}"),
            "resourceVersion": (number + 1).to_string(), "creationTimestamp": "2026-11-21T09:50:20Z",
            "labels": {"app": format!("web-{set:03}"), "pod-template-hash": "7c99d5cb8d", "number": number.to_string()},
            "annotations": {"checksum/config": format!("{number:064}")},
            "finalizers": ["example.com/f"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("web-{set:03}-7c99d5cb8d"),
                "uid": format!("30f731ae-b0d1-491c-a286-{set:012x}"), "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {"nodeName": format!("node-{:03}", number % 50), "containers": [{"name": "app", "image": "img:1"}],
            "tolerations": [tolerated("not-ready"), tolerated("unreachable")]},
        "status": {"phase": if number.is_multiple_of(10) { "Succeeded" } else { "Running" },
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T09:50:29Z"}]},
    });
    let mut pod: CachedPod = serde_json::from_str(&pod.to_string()).unwrap();
    pod.drop_unneeded_fields();
    pod
}

#[test]
fn a_cached_pod_costs_less_than_its_budget() {
    let _alone = METER.alone();
    // Shared texts and one-time allocations must exist before the measurement starts.
    let warm: Vec<Arc<CachedPod>> = (0..PODS).step_by(10).map(pod).map(Arc::new).collect();
    let mut pods = Vec::with_capacity(PODS);
    let before = METER.allocated();
    pods.extend((0..PODS).map(pod).map(Arc::new));
    let each = (METER.allocated() - before) / PODS;
    let size = size_of::<CachedPod>();
    println!("{each} bytes per Pod, including {size} bytes of the structure itself");
    assert!(each >= size, "{each} bytes cannot be right, the structure itself has {size}");
    drop(pods);

    let before = METER.allocated();
    let store = Store::default();
    drop(store.replace_objects_for_tests((0..PODS).map(pod).collect(), ResourceVersion::parse("1")));
    let cached = (METER.allocated() - before) / PODS;
    println!("{cached} bytes per Pod with its places in the cache and in the indexes");
    assert_eq!(store.len(), PODS);
    assert!(cached >= each, "{cached} bytes in the cache cannot be right, the Pod itself has {each}");
    assert!(cached + ORDERED <= BUDGET, "{cached} bytes in the cache, {each} of them the Pod");
    drop(warm);
}
