//! The memory of cached Pods and Jobs.

use job_controller::objects::{CachedPod, Job};
use serde_json::json;
use testkit::bounds::full_pod;

use crate::METER;

#[test]
fn a_cached_job_of_a_hundred_thousand_indexes_is_small() {
    let job = |at: usize| {
        let json = json!({"metadata": {"name": format!("big-{at}"), "namespace": "shop", "uid": format!("u{at}")},
            "spec": {"parallelism": 1000, "completions": 100_000, "completionMode": "Indexed", "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}},
            "status": {"succeeded": 99_000, "completedIndexes": "0-49999,51000-99999"}});
        serde_json::from_str::<Job>(&json.to_string()).unwrap()
    };
    let each = METER.bytes_per_cached_object(5_000, job);
    assert!((500..8 * 1024).contains(&each), "{each} bytes per Job");
}

#[test]
fn a_cached_pod_of_an_indexed_job_is_small() {
    let each = METER.bytes_per_cached_object(20_000, pod);
    assert!((100..1024).contains(&each), "{each} bytes per Pod");
}

fn pod(at: usize) -> CachedPod {
    let (job, index) = (format!("sum-{:04}", at / 1000), (at % 1000).to_string());
    let uid = format!("3ff731ae-b0d1-491c-a286-00000000{:04}", at / 1000);
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid,
        "controller": true, "blockOwnerDeletion": true});
    let metadata = json!({"name": format!("{job}-{index}-{at:05}"), "generateName": format!("{job}-{index}-"),
        "namespace": format!("team-{:02}", at / 1000 % 20), "uid": format!("2ff731ae-b0d1-491c-a286-0000000{at:05}"),
        "resourceVersion": format!("1{at:05}"),
        "labels": {"job-name": job, "batch.kubernetes.io/job-name": job, "controller-uid": uid,
            "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-completion-index": index},
        "annotations": {"batch.kubernetes.io/job-completion-index": index, "prometheus.io/scrape": "true"},
        "finalizers": ["batch.kubernetes.io/job-tracking"], "ownerReferences": [owner]});
    serde_json::from_str(&full_pod(metadata, at % 60)).unwrap()
}
