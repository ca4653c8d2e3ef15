//! The memory of cached Pods and Jobs, measured in a separate process.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

use common::prelude::*;
use job_controller::objects::{CachedPod, Job};
use serde_json::json;

const PODS: usize = 20_000;
const JOBS: usize = 5_000;

/// Builds a Pod as a real server sends it: two containers, probes, volumes, tolerations, conditions, statuses, managed fields.
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
        "metadata": {"name": "sum-@SET@-@INDEX@-@POD@", "generateName": "sum-@SET@-@INDEX@-",
            "namespace": "team-@TEAM@", "uid": "2ff731ae-b0d1-491c-a286-0000000@POD@", "resourceVersion": "1@POD@",
            "generation": 1, "creationTimestamp": "2026-11-21T08:@MINUTE@:01Z",
            "labels": {"job-name": "sum-@SET@", "batch.kubernetes.io/job-name": "sum-@SET@",
                "controller-uid": "3ff731ae-b0d1-491c-a286-00000000@SET@",
                "batch.kubernetes.io/controller-uid": "3ff731ae-b0d1-491c-a286-00000000@SET@",
                "batch.kubernetes.io/job-completion-index": "@INDEX@"},
            "annotations": {"batch.kubernetes.io/job-completion-index": "@INDEX@", "prometheus.io/scrape": "true"},
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "sum-@SET@",
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
    let (pod, set, index) = (format!("{at:05}"), format!("{:04}", at / 1000), (at % 1000).to_string());
    let (team, minute) = (format!("{:02}", at / 1000 % 20), format!("{:02}", at % 60));
    let json = template
        .replace("@POD@", &pod)
        .replace("@INDEX@", &index)
        .replace("@SET@", &set)
        .replace("@TEAM@", &team)
        .replace("@MINUTE@", &minute);
    let mut pod: CachedPod = serde_json::from_str(&json).unwrap();
    common::object::Object::drop_unneeded_fields(&mut pod);
    pod
}

/// Returns the resident memory of this process in bytes, if the system reports it.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()? * 1024)
}

/// Returns the result of `make`, and the growth of the resident memory in bytes.
fn cost<T>(make: impl FnOnce() -> T) -> Option<(T, u64)> {
    let before = resident()?;
    let made = make();
    Some((made, resident()?.saturating_sub(before)))
}

#[test]
fn cached_jobs_and_pods_are_small() {
    jobs_are_small();
    pods_are_small();
}

fn jobs_are_small() {
    // Each Job has a hundred thousand indexes.
    let jobs = |at: usize| {
        let json = json!({"metadata": {"name": format!("big-{at}"), "namespace": "shop", "uid": format!("u{at}")},
            "spec": {"parallelism": 1000, "completions": 100_000, "completionMode": "Indexed", "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}},
            "status": {"succeeded": 99_000, "completedIndexes": "0-49999,51000-99999"}});
        serde_json::from_str::<Job>(&json.to_string()).unwrap()
    };
    let store = Store::<Job>::default();
    store.replace_objects_for_tests(vec![jobs(0)], ResourceVersion::parse("1"));
    let Some((_, all)) =
        cost(|| store.replace_objects_for_tests((0..JOBS).map(jobs).collect(), ResourceVersion::parse("2")))
    else {
        return;
    };
    println!("{} bytes per Job of 100,000 indexes", all / JOBS as u64);
    assert!((500..8 * 1024).contains(&(all / JOBS as u64)), "{} bytes per Job", all / JOBS as u64);
}

fn pods_are_small() {
    let template = template();
    let store = Store::<CachedPod>::default();
    // A first Pod causes the allocations that happen only once, so that they are not measured.
    store.replace_objects_for_tests(vec![pod(&template, 0)], ResourceVersion::parse("1"));
    let Some((_, all)) = cost(|| {
        store.replace_objects_for_tests(
            (0..PODS).map(|at| pod(&template, at)).collect(),
            ResourceVersion::parse("200000"),
        )
    }) else {
        return;
    };
    assert_eq!(store.len(), PODS);
    let each = all / PODS as u64;
    println!("{each} bytes per cached Pod of an Indexed Job");
    assert!((100..1024).contains(&each), "{each} bytes per Pod");
}
