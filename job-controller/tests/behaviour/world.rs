//! The cluster of the tests, and the Jobs in it.

pub(crate) use testkit::prelude::*;

pub(crate) const JOBS: &str = "jobs.batch";
pub(crate) const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// A cluster of three nodes. Most tests are about the Job `sum`.
pub(crate) fn cluster() -> Cluster {
    Cluster::new(job_controller::LOOPS, JOBS, "sum").nodes(3)
}

/// Returns the annotations that make nodes run Pods so: `exit=1 after=30` is `sim/exit: 1` and `sim/after: 30`.
fn annotations(script: &str) -> Value {
    let annotation = |word: &str| {
        let (key, value) = word.split_once('=').unwrap();
        (format!("sim/{key}"), json!(value))
    };
    script.split_whitespace().map(annotation).collect::<serde_json::Map<_, _>>().into()
}

/// Returns a Job with these fields in its `spec`. The script says how its Pods run, such as `exit=1 after=30`.
pub(crate) fn job(name: &str, script: &str, spec: Value) -> Value {
    let template = json!({"metadata": {"annotations": annotations(script)}, "spec": job_pod_spec()});
    with_spec(object("batch/v1", "Job", name, json!({ "template": template })), spec)
}

/// Returns the Job `sum`.
pub(crate) fn sum(script: &str, spec: Value) -> Value {
    job("sum", script, spec)
}

/// Returns the Job `sum` with as many Pods at once as it has completions.
pub(crate) fn parallel(script: &str, pods: usize) -> Value {
    sum(script, json!({"completions": pods, "parallelism": pods}))
}

/// Returns the Job `sum` with these completions, one at a time for each index, all at once.
pub(crate) fn indexed(script: &str, pods: usize) -> Value {
    sum(script, json!({"completions": pods, "parallelism": pods, "completionMode": "Indexed"}))
}

fn job_pod_spec() -> Value {
    merged(pod_spec("img:1"), json!({"restartPolicy": "Never"}))
}

/// Returns a Pod with these labels and without a controller.
pub(crate) fn orphan(name: &str, labels: Value, script: &str) -> Value {
    let metadata = json!({"labels": labels, "annotations": annotations(script)});
    merged(object("v1", "Pod", name, job_pod_spec()), json!({ "metadata": metadata }))
}

/// Returns type and reason of each condition of a Job that is true.
pub(crate) async fn conditions(world: &World, job: &str) -> Vec<String> {
    true_conditions(&world.get(JOBS, job).await)
}

/// Deletes a Job with this propagation policy, such as `Foreground`.
pub(crate) async fn delete_job(world: &World, job: &str, propagation: &str) {
    let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}");
    world.delete_with(&path, json!({"propagationPolicy": propagation})).await;
}
