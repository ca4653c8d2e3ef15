//! The memory of a cached Pod.

use replicaset_controller::pod_cache::CachedPod;
use serde_json::json;
use testkit::bounds::full_pod;

use crate::METER;

fn pod(at: usize) -> CachedPod {
    let set = format!("{:04}", at / 10);
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("web-{set}-6d4cf56db6"),
        "uid": format!("3ff731ae-b0d1-491c-a286-00000000{set}"), "controller": true, "blockOwnerDeletion": true});
    let metadata = json!({"name": format!("web-{set}-6d4cf56db6-{at:05}"), "generateName": format!("web-{set}-6d4cf56db6-"),
        "namespace": format!("team-{:02}", at / 10 % 20), "uid": format!("2ff731ae-b0d1-491c-a286-0000000{at:05}"),
        "resourceVersion": format!("1{at:05}"),
        "labels": {"app": format!("web-{set}"), "pod-template-hash": "6d4cf56db6", "tier": "front"},
        "annotations": {"kubectl.kubernetes.io/restartedAt": "x", "prometheus.io/scrape": "true"},
        "ownerReferences": [owner]});
    serde_json::from_str(&full_pod(metadata, at % 60)).unwrap()
}

/// REPLICASET-2.
#[test]
fn a_cached_pod_costs_less_than_a_kilobyte() {
    let each = METER.bytes_per_cached_object(20_000, pod);
    assert!((100..1024).contains(&each), "{each} bytes per Pod");
}
