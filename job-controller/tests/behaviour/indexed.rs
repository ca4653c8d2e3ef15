//! Jobs with completion mode `Indexed`, from their creation to their end.

use crate::{oracle, world::*};

fn index(pod: &Value) -> String {
    pod["metadata"]["annotations"][COMPLETION_INDEX_KEY].as_str().unwrap_or_default().to_owned()
}

async fn by_index(world: &World) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for pod in world.pods().await {
        *out.entry(index(&pod)).or_default() += 1;
    }
    out
}

/// JOB-25, JOB-27.
#[tokio::test(start_paused = true)]
async fn every_index_runs_once() {
    let world = cluster().start().await;
    let spec = json!({"completions": 5, "parallelism": 2, "completionMode": "Indexed"});
    world.create_and_settle(sum("exit=0 after=1", spec)).await;
    assert_eq!(pick(&world.status().await, "succeeded completedIndexes failedIndexes"), json!([5, "0-4", null]));
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

/// JOB-36.
#[tokio::test(start_paused = true)]
async fn too_many_failed_indexes_end_the_job() {
    let spec = json!({"completions": 9, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 0,
        "maxFailedIndexes": 1});
    let world = cluster().settled(sum("exit=1 exit-index-0=0 after=1", spec)).await;
    assert_eq!(pick(&world.status().await, "completedIndexes failedIndexes"), json!(["0", "1,2"]));
    let reasons = ["FailureTarget MaxFailedIndexesExceeded", "Failed MaxFailedIndexesExceeded"];
    assert_eq!(world.true_conditions().await, reasons);
    oracle::check_all_writes(&world);
}

/// JOB-38.
#[tokio::test(start_paused = true)]
async fn an_index_that_fails_runs_again() {
    let world = cluster().start().await;
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"});
    world.create(sum("exit=0 exit-index-1=1 after=1", spec)).await;
    world.wait(15).await;
    assert_eq!(pick(&world.status().await, "completedIndexes failed"), json!(["0,2", 2]));
    // The first retry starts at once, because other Pods succeeded in the same second. The second retry starts after 10 s.
    assert_eq!(by_index(&world).await["1"], 3);
    oracle::check_all_writes(&world);
}

/// JOB-32, JOB-34, JOB-36.
#[tokio::test(start_paused = true)]
async fn failures_are_limited_per_index() {
    let world = cluster().start().await;
    let spec = json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 1});
    world.create(sum("exit=0 exit-index-1=3 after=1", spec)).await;
    world.wait(5).await;
    assert_eq!(pick(&world.status().await, "completedIndexes failedIndexes"), json!(["0,2,3", ""]));
    assert_eq!(world.status().await["failed"], Value::Null, "the failed Pod is kept until its replacement exists");
    world.wait(30).await;
    let status = world.status().await;
    assert_eq!(pick(&status, "failedIndexes failed succeeded"), json!(["1", 2, 3]));
    assert_eq!(world.true_conditions().await, ["FailureTarget FailedIndexes", "Failed FailedIndexes"]);
    let mut counts: Vec<String> = Vec::new();
    for pod in world.pods().await.iter().filter(|pod| index(pod) == "1") {
        counts.push(pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"].to_string());
    }
    counts.sort();
    assert_eq!(counts, ["\"0\"", "\"1\""]);
    oracle::check_all_writes(&world);
}

/// JOB-21, JOB-31.
#[tokio::test(start_paused = true)]
async fn an_elastic_job_grows_and_shrinks() {
    let world = cluster().start().await;
    let spec = json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed"});
    world.create_and_settle(sum("exit-index-0=0 exit-index-3=0", spec)).await;
    assert_eq!(world.status().await["completedIndexes"], "0,3");
    world.change_and_settle(json!({"completions": 2, "parallelism": 2})).await;
    assert_eq!(pick(&world.status().await, "completedIndexes succeeded active"), json!(["0", 1, 1]));
    assert_eq!(world.status().await["failed"], Value::Null, "index 2 was not wanted any more: it did not fail");
    world.change_and_settle(json!({"completions": 5, "parallelism": 5})).await;
    let status = world.status().await;
    assert_eq!(pick(&status, "completedIndexes active"), json!(["0,3", 3]), "index 3 ran again");
    oracle::check_all_writes(&world);
}

/// JOB-21, JOB-28.
#[tokio::test(start_paused = true)]
async fn a_second_pod_of_an_index_is_removed_uncounted() {
    let world = cluster().start().await;
    let spec = json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed"});
    world.create_and_settle(sum("", spec)).await;
    let mut twin = world.pods().await[0].clone();
    twin["metadata"] = json!({"name": "twin", "namespace": NAMESPACE, "labels": twin["metadata"]["labels"],
        "annotations": twin["metadata"]["annotations"], "ownerReferences": twin["metadata"]["ownerReferences"],
        "finalizers": twin["metadata"]["finalizers"]});
    twin["apiVersion"] = json!("v1");
    twin["kind"] = json!("Pod");
    twin["status"].take();
    twin["spec"]["nodeName"].take();
    world.create_and_settle(twin).await;
    let status = world.status().await;
    assert_eq!((&status["active"], status.get("failed"), world.pods().await.len()), (&json!(2), None, 2));
    oracle::check_all_writes(&world);
}

/// JOB-48, JOB-54.
#[tokio::test(start_paused = true)]
async fn a_job_may_be_complete_before_all_indexes_are() {
    let world = cluster().start().await;
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0-1"}]}});
    world.create_and_settle(sum("exit-index-0=0 exit-index-1=0 after=1", spec)).await;
    assert_eq!(pick(&world.status().await, "completedIndexes failed"), json!(["0,1", null]));
    assert_eq!(world.true_conditions().await, ["SuccessCriteriaMet SuccessPolicy", "Complete SuccessPolicy"]);
    assert_eq!((world.pods().await.len(), world.count("delete", "pods")), (2, 1));
    oracle::check_all_writes(&world);
}
