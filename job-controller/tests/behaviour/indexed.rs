//! Jobs with completion mode `Indexed`, from their creation to their end.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    oracle,
    world::{COMPLETION_INDEX_KEY, NAMESPACE, TestCluster, job_with_spec},
};

fn index(pod: &Value) -> String {
    pod["metadata"]["annotations"][COMPLETION_INDEX_KEY].as_str().unwrap_or_default().to_owned()
}

async fn by_index(world: &TestCluster) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for pod in world.pods().await {
        *out.entry(index(&pod)).or_default() += 1;
    }
    out
}

/// JOB-25, JOB-27.
#[tokio::test(start_paused = true)]
async fn every_index_runs_once() {
    let world = TestCluster::new().await;
    let spec = json!({"completions": 5, "parallelism": 2, "completionMode": "Indexed"});
    world.create_object(job_with_spec("sum", &[("exit", "0"), ("after", "1")], spec)).await;
    world.wait_until_settled().await;
    let status = world.job_status("sum").await;
    assert_eq!(
        (&status["succeeded"], &status["completedIndexes"], status.get("failedIndexes")),
        (&json!(5), &json!("0-4"), None)
    );
    assert_eq!(by_index(&world).await, (0..5).map(|i| (i.to_string(), 1)).collect());
    for pod in world.pods().await {
        let index = index(&pod);
        assert_eq!(pod["metadata"]["labels"][COMPLETION_INDEX_KEY], index.as_str());
        assert_eq!(pod["spec"]["hostname"], format!("sum-{index}"));
        assert_eq!(pod["metadata"]["generateName"], format!("sum-{index}-"));
        let env = &pod["spec"]["containers"][0]["env"][0];
        assert_eq!(env["name"], "JOB_COMPLETION_INDEX");
        assert_eq!(env["valueFrom"]["fieldRef"]["fieldPath"], format!("metadata.labels['{COMPLETION_INDEX_KEY}']"));
    }
    oracle::check_all_writes(&world);
}

/// JOB-38.
#[tokio::test(start_paused = true)]
async fn an_index_that_fails_runs_again() {
    let world = TestCluster::new().await;
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"});
    world.create_object(job_with_spec("sum", &[("exit", "0"), ("exit-index-1", "1"), ("after", "1")], spec)).await;
    world.wait_seconds(15).await;
    let status = world.job_status("sum").await;
    assert_eq!((&status["completedIndexes"], &status["failed"]), (&json!("0,2"), &json!(2)));
    // The first retry starts at once, because other Pods succeeded in the same second. The second retry starts after 10 s.
    assert_eq!(by_index(&world).await["1"], 3);
    oracle::check_all_writes(&world);
}

/// JOB-32, JOB-34, JOB-36.
#[tokio::test(start_paused = true)]
async fn failures_are_limited_per_index() {
    let world = TestCluster::new().await;
    let spec = json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 1});
    world.create_object(job_with_spec("sum", &[("exit", "0"), ("exit-index-1", "3"), ("after", "1")], spec)).await;
    world.wait_seconds(5).await;
    let status = world.job_status("sum").await;
    assert_eq!((&status["completedIndexes"], &status["failedIndexes"]), (&json!("0,2,3"), &json!("")));
    assert_eq!(status.get("failed"), None, "the failed Pod is kept until its replacement exists");
    world.wait_seconds(30).await;
    let status = world.job_status("sum").await;
    assert_eq!(
        (&status["failedIndexes"], &status["failed"], &status["succeeded"]),
        (&json!("1"), &json!(2), &json!(3))
    );
    assert_eq!(world.conditions("sum").await, ["FailureTarget FailedIndexes", "Failed FailedIndexes"]);
    let mut counts: Vec<String> = Vec::new();
    for pod in world.pods().await.iter().filter(|pod| index(pod) == "1") {
        counts.push(pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"].to_string());
    }
    counts.sort();
    assert_eq!(counts, ["\"0\"", "\"1\""]);
    oracle::check_all_writes(&world);
}

/// JOB-36.
#[tokio::test(start_paused = true)]
async fn too_many_failed_indexes_end_the_job() {
    let world = TestCluster::new().await;
    let spec = json!({"completions": 9, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 0, "maxFailedIndexes": 1});
    world.create_object(job_with_spec("sum", &[("exit", "1"), ("exit-index-0", "0"), ("after", "1")], spec)).await;
    world.wait_until_settled().await;
    let status = world.job_status("sum").await;
    assert_eq!((&status["completedIndexes"], &status["failedIndexes"]), (&json!("0"), &json!("1,2")));
    assert_eq!(
        world.conditions("sum").await,
        ["FailureTarget MaxFailedIndexesExceeded", "Failed MaxFailedIndexesExceeded"]
    );
    oracle::check_all_writes(&world);
}

/// JOB-21, JOB-31.
#[tokio::test(start_paused = true)]
async fn an_elastic_job_grows_and_shrinks() {
    let world = TestCluster::new().await;
    let spec = json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed"});
    world.create_object(job_with_spec("sum", &[("exit-index-0", "0"), ("exit-index-3", "0")], spec)).await;
    world.wait_until_settled().await;
    assert_eq!(world.job_status("sum").await["completedIndexes"], "0,3");
    world.patch_job_spec("sum", json!({"completions": 2, "parallelism": 2})).await;
    world.wait_until_settled().await;
    let status = world.job_status("sum").await;
    assert_eq!(
        (&status["completedIndexes"], &status["succeeded"], &status["active"]),
        (&json!("0"), &json!(1), &json!(1))
    );
    assert_eq!(status.get("failed"), None, "index 2 was not wanted any more: it did not fail");
    world.patch_job_spec("sum", json!({"completions": 5, "parallelism": 5})).await;
    world.wait_until_settled().await;
    let status = world.job_status("sum").await;
    assert_eq!((&status["completedIndexes"], &status["active"]), (&json!("0,3"), &json!(3)), "index 3 ran again");
    oracle::check_all_writes(&world);
}

/// JOB-21, JOB-28.
#[tokio::test(start_paused = true)]
async fn a_second_pod_of_an_index_is_removed_uncounted() {
    let world = TestCluster::new().await;
    let spec = json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed"});
    world.create_object(job_with_spec("sum", &[], spec)).await;
    world.wait_until_settled().await;
    let mut twin = world.pods().await[0].clone();
    twin["metadata"] = json!({"name": "twin", "namespace": NAMESPACE, "labels": twin["metadata"]["labels"],
        "annotations": twin["metadata"]["annotations"], "ownerReferences": twin["metadata"]["ownerReferences"],
        "finalizers": twin["metadata"]["finalizers"]});
    twin["apiVersion"] = json!("v1");
    twin["kind"] = json!("Pod");
    twin["status"].take();
    twin["spec"]["nodeName"].take();
    world.create_object(twin).await;
    world.wait_until_settled().await;
    let status = world.job_status("sum").await;
    assert_eq!((&status["active"], status.get("failed"), world.pods().await.len()), (&json!(2), None, 2));
    oracle::check_all_writes(&world);
}

/// JOB-48, JOB-54.
#[tokio::test(start_paused = true)]
async fn a_job_may_be_complete_before_all_indexes_are() {
    let world = TestCluster::new().await;
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0-1"}]}});
    world
        .create_object(job_with_spec("sum", &[("exit-index-0", "0"), ("exit-index-1", "0"), ("after", "1")], spec))
        .await;
    world.wait_until_settled().await;
    let status = world.job_status("sum").await;
    assert_eq!((&status["completedIndexes"], status.get("failed")), (&json!("0,1"), None));
    assert_eq!(world.conditions("sum").await, ["SuccessCriteriaMet SuccessPolicy", "Complete SuccessPolicy"]);
    assert_eq!((world.pods().await.len(), world.request_count("delete", "pods")), (2, 1));
    oracle::check_all_writes(&world);
}
