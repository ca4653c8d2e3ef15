//! The memory of a cached Pod. This test has a process of its own, so that no other test changes the measured memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

use common::{meta::ResourceVersion, store::Store};
use replicaset_controller::pod_cache::CachedPod;
use serde_json::json;

const PODS: usize = 20_000;

/// Returns a Pod with the fields of a real server: two containers, probes, volumes, tolerations, conditions, statuses, managed
/// fields.
fn template() -> String {
    let container = |name: &str| {
        json!({"name": name, "image": format!("registry.example.com/team/{name}:v1.2.3"), "imagePullPolicy": "IfNotPresent",
            "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
            "env": [{"name": "A", "value": "1"}, {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 10},
            "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access"}]})
    };
    let status = |name: &str| {
        json!({"name": name, "ready": true, "restartCount": 0, "started": true, "image": name,
            "imageID": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "containerID": "containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "state": {"running": {"startedAt": "2026-11-21T09:50:29Z"}}})
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-11-21T09:@MINUTE@:29Z"});
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "web-@SET@-6d4cf56db6-@POD@", "generateName": "web-@SET@-6d4cf56db6-",
            "namespace": "team-@TEAM@", "uid": "2ff731ae-b0d1-491c-a286-0000000@POD@", "resourceVersion": "1@POD@",
            "generation": 1, "creationTimestamp": "2026-11-21T08:@MINUTE@:01Z",
            "labels": {"app": "web-@SET@", "pod-template-hash": "6d4cf56db6", "tier": "front"},
            "annotations": {"kubectl.kubernetes.io/restartedAt": "x", "prometheus.io/scrape": "true"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-@SET@-6d4cf56db6",
                "uid": "3ff731ae-b0d1-491c-a286-00000000@SET@", "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}}]},
        "spec": {"nodeName": "node-@TEAM@", "containers": [container("app"), container("proxy")],
            "restartPolicy": "Always", "serviceAccountName": "default", "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "startTime": "2026-11-21T09:50:29Z", "qosClass": "Burstable",
            "conditions": [condition("Initialized"), condition("Ready"), condition("ContainersReady"), condition("PodScheduled")],
            "containerStatuses": [status("app"), status("proxy")]},
    })
    .to_string()
}

fn pod(template: &str, at: usize) -> CachedPod {
    let (pod, set) = (format!("{at:05}"), format!("{:04}", at / 10));
    let (team, minute) = (format!("{:02}", at / 10 % 20), format!("{:02}", at % 60));
    let json =
        template.replace("@POD@", &pod).replace("@SET@", &set).replace("@TEAM@", &team).replace("@MINUTE@", &minute);
    let mut pod: CachedPod = serde_json::from_str(&json).unwrap();
    common::object::Object::drop_unneeded_fields(&mut pod);
    pod
}

/// Returns the resident memory of this process in bytes, if the operating system reports it.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()? * 1024)
}

/// REPLICASET-2.
#[test]
fn a_cached_pod_costs_less_than_a_kilobyte() {
    let template = template();
    let store = Store::<CachedPod>::default();
    // The first Pod causes the allocations that a process makes only once.
    store.replace_objects_for_tests(vec![pod(&template, 0)], ResourceVersion::parse("1"));
    let Some(before) = resident() else { return };
    store.replace_objects_for_tests((0..PODS).map(|at| pod(&template, at)).collect(), ResourceVersion::parse("200000"));
    let after = resident().unwrap();
    assert_eq!(store.len(), PODS);
    let each = after.saturating_sub(before) / PODS as u64;
    println!("{each} bytes per cached Pod");
    assert!((100..1024).contains(&each), "{each} bytes per Pod");
}
