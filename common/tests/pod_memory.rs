//! Measures the memory of a cached Pod. The test is alone in its process, because it counts all allocations of the process.

use std::{alloc::System, collections::BTreeSet, sync::Arc};

use cap::Cap;
use common::{
    meta::NamespacedName,
    object::Object,
    pods::{Phase, Pod},
};
use serde_json::json;

/// Counts the bytes that are allocated and not yet freed.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const PODS: usize = 20_000;
const LIMIT: usize = 300;

/// Returns the JSON of a Pod with two containers, as an API server sends it.
fn pod(number: usize) -> String {
    let set = number / 100;
    let container = |name: &str| {
        json!({"name": name, "image": "registry.example.com/shop/app:1.27.3", "command": ["/bin/app", "--verbose"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "256Mi"}},
            "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent"})
    };
    let status = |name: &str| {
        json!({"name": name, "restartCount": number % 3, "ready": true, "image": "registry.example.com/shop/app:1.27.3",
            "containerID": format!("containerd://{number:064}"), "state": {"running": {"startedAt": "2026-11-21T09:50:29Z"}}})
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-{set:03}-7c99d5cb8d-{number:05}"), "generateName": format!("web-{set:03}-7c99d5cb8d-"),
            "namespace": format!("shop-{}", set % 10), "uid": format!("2ff731ae-b0d1-491c-a286-{number:012x}"),
            "resourceVersion": number.to_string(), "creationTimestamp": "2026-11-21T09:50:20Z",
            "labels": {"app": format!("web-{set:03}"), "pod-template-hash": "7c99d5cb8d", "tier": "front"},
            "annotations": {"prometheus.io/scrape": "true", "checksum/config": "0f8e2b1b1f6f4f0a9a4a0c4f3fae27e5"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("web-{set:03}-7c99d5cb8d"),
                "uid": format!("30f731ae-b0d1-491c-a286-{set:012x}"), "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:phase": {}}}}],
        },
        "spec": {"nodeName": format!("node-{:03}", number % 50), "containers": [container("app"), container("sidecar")],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1",
            "conditions": [{"type": "Initialized", "status": "True"},
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T09:50:29Z"}],
            "containerStatuses": [status("app"), status("sidecar")]},
    })
    .to_string()
}

#[test]
fn a_cached_pod_takes_little_memory() {
    let decode = |number| {
        let mut pod: Pod = serde_json::from_str(&pod(number)).unwrap();
        pod.drop_unneeded_fields();
        assert_eq!(
            (pod.phase, pod.is_ready(), pod.restart_counts.max_of_regular_containers),
            (Phase::Running, true, number as i32 % 3)
        );
        Arc::new(pod)
    };
    // The interned strings that all Pods share are allocated before counting begins, as are the decoder's temporary buffers.
    let warm: Vec<_> = (0..PODS).step_by(50).map(decode).collect();
    let before = ALLOCATOR.allocated();
    let cached: Vec<Arc<Pod>> = (PODS..2 * PODS).map(|n| decode(n % PODS)).collect();
    let each = (ALLOCATOR.allocated() - before) / PODS;
    let size = size_of::<Pod>();
    println!("{each} bytes per cached Pod, including {size} bytes for the struct itself");
    assert!(each <= LIMIT, "{each} bytes per cached Pod, including {size} bytes for the struct itself");
    assert!(each >= size, "{each} bytes per cached Pod cannot be right: the struct alone has {size} bytes");
    let keys: BTreeSet<NamespacedName> = cached.iter().chain(&warm).map(|pod| pod.meta.key()).collect();
    assert_eq!(keys.len(), PODS);
}
