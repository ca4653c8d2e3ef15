//! The memory of a cached Pod.

use common::{meta::ResourceVersion, object::Object as _, store::Store};
use node_lifecycle_controller::objects::CachedPod;
use serde_json::json;
use testkit::bounds::full_pod;

use crate::METER;

/// Maximum bytes of a cached Pod: the texts that no other Pod shares, and the memory for the Pod in the store and its indexes,
/// including unused capacity.
const BUDGET: usize = 300;
/// Bytes per cached Pod for the list of ended Pods in the order of their removal; one Pod in ten has ended.
const ORDERED: usize = 2;
const PODS: usize = 20_000;

/// Reads a Pod as a server sends it. 100 Pods share their owner, and all Pods share their tolerations.
fn pod(number: usize) -> CachedPod {
    let set = number / 100;
    let replica_set = format!("web-{set:03}-7c99d5cb8d");
    let metadata = json!({
        "name": format!("{replica_set}-{number:05}"), "generateName": format!("{replica_set}-"),
        "namespace": format!("shop-{}", set % 10), "uid": format!("2ff731ae-b0d1-491c-a286-{number:012x}"),
        "resourceVersion": (number + 1).to_string(),
        "labels": {"app": format!("web-{set:03}"), "pod-template-hash": "7c99d5cb8d", "number": number.to_string()},
        "annotations": {"checksum/config": format!("{number:064}")}, "finalizers": ["example.com/f"],
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set,
            "uid": format!("30f731ae-b0d1-491c-a286-{set:012x}"), "controller": true, "blockOwnerDeletion": true}],
    });
    let pod = full_pod(metadata, number % 60);
    let phase = if number.is_multiple_of(10) { "Succeeded" } else { "Running" };
    let pod = pod.replace("\"phase\":\"Running\"", &format!("\"phase\":\"{phase}\""));
    let mut pod: CachedPod = serde_json::from_str(&pod).unwrap();
    pod.drop_unneeded_fields();
    pod
}

#[test]
fn a_cached_pod_costs_less_than_its_budget() {
    let _alone = METER.alone();
    // Shared texts and one-time allocations must exist before the measurement starts.
    let _warm: Vec<CachedPod> = (0..PODS).step_by(10).map(pod).collect();
    let store = Store::default();
    let fill = || drop(store.replace_objects_for_tests((0..PODS).map(pod).collect(), ResourceVersion::parse("1")));
    let ((), held) = METER.held(fill);
    assert_eq!(store.len(), PODS);
    let each = held / PODS;
    println!("{each} bytes per Pod with its places in the cache and in the indexes");
    assert!((size_of::<CachedPod>()..=BUDGET - ORDERED).contains(&each), "{each} bytes");
}
