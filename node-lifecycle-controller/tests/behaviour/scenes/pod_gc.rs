//! What pod-garbage-collector-controller promises for Pods that no kubelet will finish.

use testkit::scene::prelude::*;

use super::lost_node::{FINALIZER, is_leaving, node, node_with_pod, pod, set_phase, taint, until_terminating};

/// How long a node has to be gone before its Pods go.
const QUARANTINE: Duration = Duration::from_secs(4);
/// Several passes: long enough to see that a Pod stays.
const PASSES: Duration = Duration::from_secs(3);
/// How many terminated Pods are kept, of all tests together. The other tests have fewer than [`SPARE`].
const THRESHOLD: usize = 60;
const SPARE: usize = 20;
const FLAGS: &[&str] = &[
    "--tune=pod-gc-period=500ms,pod-gc-quarantine=4s",
    "--terminated-pod-gc-threshold=60",
    "--controllers=pod-garbage-collector-controller",
];

suite! {
    Suite::new("pod_gc").controller(&node_lifecycle_controller::DEFINITION, FLAGS).at_once(24);
    SIMULATED.sample() =>
        pods_of_a_node_that_is_gone_go;
    SIMULATED =>
        a_terminating_pod_goes_from_a_node_out_of_service
        a_terminating_pod_stays_on_a_node_that_is_ready_or_not_out_of_service
        pods_with_a_key_twice_go_with_their_node pods_of_a_node_that_returns_stay
        of_too_many_terminated_pods_the_evicted_go_first;
    EVERYWHERE =>
        a_terminating_pod_without_a_node_goes;
}

/// The taint of a node whose Pods may be given up.
fn out_of_service_taint(effect: &str) -> Value {
    json!([{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": effect}])
}

/// Waits until a Pod is marked as failed and has no time left to end.
async fn until_given_up(c: &Context, pod: &str) -> Result<Value, Failure> {
    c.until_object(PODS, pod, &format!("Pod {pod} to be given up"), |pod| {
        pod["status"]["phase"] == "Failed" && pod["metadata"]["deletionGracePeriodSeconds"] == 0
    })
    .await
}

/// Checks that a Pod that a user has deleted keeps its grace period.
async fn has_its_grace(c: &Context, pod: &str) -> Outcome {
    c.stays(&format!("Pod {pod} has its grace period"), PASSES, async || {
        c.get(PODS, pod).await.is_ok_and(|pod| pod["metadata"]["deletionGracePeriodSeconds"] == 30)
    })
    .await
}

/// NODE-66, NODE-69.
async fn a_terminating_pod_goes_from_a_node_out_of_service(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    for name in ["q", "bare", "stays"] {
        pod(&c, name, json!({})).await?;
    }
    // The other Pods have a finalizer, so that their last states can be read.
    c.merge(PODS, "bare", json!({"metadata": {"finalizers": null}})).await?;
    for (name, effect) in [("p", "NoSchedule"), ("q", "NoExecute")] {
        c.delete(PODS, name, "Background").await?;
        taint(&c, out_of_service_taint(effect)).await?;
        let pod = until_given_up(&c, name).await?;
        c.check(condition(&pod, "DisruptionTarget").is_none(), "nothing else marks it").await?;
        if name == "p" {
            taint(&c, json!([])).await?;
        }
    }
    c.delete(PODS, "bare", "Background").await?;
    c.until_gone(PODS, "bare").await?;
    c.stays("a Pod that is not terminating stays", PASSES, async || !is_leaving(&c, "stays").await).await
}

/// NODE-66.
async fn a_terminating_pod_stays_on_a_node_that_is_ready_or_not_out_of_service(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    taint(&c, json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}])).await?;
    c.delete(PODS, "p", "Background").await?;
    has_its_grace(&c, "p").await?;
    let ready = |status: &str, reason: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "reason": reason}]}});
    c.merge_status(NODES, c.namespace(), ready("True", "KubeletReady")).await?;
    taint(&c, out_of_service_taint("NoExecute")).await?;
    has_its_grace(&c, "p").await?;
    // Its kubelet stops: now the taint counts.
    c.merge_status(NODES, c.namespace(), ready("Unknown", "NodeStatusUnknown")).await?;
    until_given_up(&c, "p").await.map(drop)
}

/// NODE-67, NODE-69, NODE-70.
async fn pods_of_a_node_that_is_gone_go(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    for (name, phase) in [("runs", "Running"), ("succeeded", "Succeeded"), ("failed", "Failed")] {
        pod(&c, name, json!({})).await?;
        set_phase(&c, name, phase).await?;
    }
    let tracked = json!([FINALIZER, "batch.kubernetes.io/job-tracking"]);
    c.merge(PODS, "p", json!({"metadata": {"finalizers": tracked}})).await?;
    let deleted = c.clock().monotonic_now();
    c.delete(NODES, c.namespace(), "Background").await?;
    let pod = until_terminating(&c, "p").await?;
    let waited = c.clock().monotonic_now() - deleted;
    c.check(waited >= QUARANTINE, &format!("it waits for the node to return, not only {waited:?}")).await?;
    let target = condition(&pod, "DisruptionTarget").cloned().unwrap_or_default();
    let expected = ["True", "DeletionByPodGC", "PodGC: node no longer exists"];
    let found = ["status", "reason", "message"].map(|field| target[field].as_str().unwrap_or_default());
    // An API server before 1.34 drops the generation.
    let is_of_generation = target["observedGeneration"] == 1 || c.server_minor().await? < 34;
    c.check(found == expected && is_of_generation, "its condition gives the reason").await?;
    for pod in ["p", "runs"] {
        until_given_up(&c, pod).await?;
    }
    for (pod, phase) in [("succeeded", "Succeeded"), ("failed", "Failed")] {
        let pod = until_terminating(&c, pod).await?;
        c.check(pod["status"]["phase"] == phase, "it is as its kubelet left it").await?;
        c.check(condition(&pod, "DisruptionTarget").is_none(), "it was not disrupted").await?;
    }
    c.stays("finalizers of others stay", PASSES, async || {
        c.get(PODS, "p").await.is_ok_and(|pod| pod["metadata"]["finalizers"] == tracked)
    })
    .await
}

/// Pods of a node that never existed, with a list in which a key of the server's merges occurs twice.
async fn pods_with_a_key_twice_go_with_their_node(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    let env = json!([{"name": "XYZ", "value": "1"}, {"name": "XYZ", "value": "2"}]);
    let ports = json!([{"containerPort": 93, "hostPort": 9376}, {"containerPort": 93, "hostPort": 9377}]);
    for (name, field, twice) in [("variable", "env", env), ("port", "ports", ports)] {
        let container = json!({"name": "c", "image": "img:1", field: twice});
        pod(&c, name, json!({"nodeName": format!("{}-none", c.namespace()), "containers": [container]})).await?;
        let pod = until_given_up(&c, name).await?;
        let target = condition(&pod, "DisruptionTarget").cloned().unwrap_or_default();
        c.check(target["reason"] == "DeletionByPodGC", "its condition gives the reason").await?;
        c.check(target["lastTransitionTime"].is_string(), "its condition has a time").await?;
    }
    c.check(!is_leaving(&c, "p").await, "the Pod of a node that exists stays").await
}

/// NODE-67.
async fn pods_of_a_node_that_returns_stay(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    // Each time the node is back before the quarantine ends, and each absence counts for itself.
    for _ in 0..3 {
        c.delete(NODES, c.namespace(), "Background").await?;
        c.sleep(Duration::from_millis(1500)).await;
        node(&c).await?;
        c.sleep(Duration::from_millis(1500)).await;
    }
    c.stays("the Pod stays", QUARANTINE, async || !is_leaving(&c, "p").await).await?;
    let pod = c.get(PODS, "p").await?;
    c.check(pod["status"]["phase"] == "Pending", "nothing has marked it").await?;
    c.delete(NODES, c.namespace(), "Background").await?;
    until_given_up(&c, "p").await.map(drop)
}

/// NODE-68, NODE-69.
async fn a_terminating_pod_without_a_node_goes(c: Context) -> Outcome {
    for name in ["p", "waits"] {
        let spec = json!({"nodeSelector": {"nonet.io/none": "here"}, "containers": [{"name": "c", "image": "img:1"}]});
        let metadata = json!({"name": name, "finalizers": [FINALIZER]});
        c.create(PODS, json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})).await?;
    }
    c.delete(PODS, "p", "Background").await?;
    let pod = c
        .until("the Pod to end", async || c.get(PODS, "p").await.ok().filter(|pod| pod["status"]["phase"] == "Failed"))
        .await?;
    c.check(condition(&pod, "DisruptionTarget").is_none(), "nothing disrupts a Pod that never ran").await?;
    c.merge(PODS, "p", json!({"metadata": {"finalizers": null}})).await?;
    c.until_gone(PODS, "p").await?;
    c.stays("the other Pod waits for a node", PASSES, async || {
        let pod = c.get(PODS, "waits").await.unwrap_or_default();
        pod["status"]["phase"] == "Pending" && pod["metadata"].get("deletionTimestamp").is_none()
    })
    .await
}

/// As many evicted Pods as have to go are there, so that no Pod of another test is concerned.
async fn of_too_many_terminated_pods_the_evicted_go_first(c: Context) -> Outcome {
    const EACH: usize = 40;
    node(&c).await?;
    let create = async |name: String, status: Value| -> Outcome {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"nodeName": c.namespace(), "containers": [{"name": "c", "image": "img:1"}]}});
        c.create(PODS, pod).await?;
        c.merge_status(PODS, &name, json!({ "status": status })).await?;
        Ok(())
    };
    // Those that stay are older than those that go.
    let succeeded = json!({"phase": "Succeeded"});
    let evicted = json!({"phase": "Failed", "reason": "Evicted"});
    for (name, status) in [("done", succeeded), ("evicted", evicted)] {
        for n in 0..EACH {
            create(format!("{name}-{n}"), status.clone()).await?;
        }
    }
    let count = async |prefix: &str| -> Option<usize> {
        let pods = c.list(PODS).await.ok()?;
        let names = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str());
        Some(names.filter(|name| name.starts_with(prefix)).count())
    };
    let most = THRESHOLD - EACH;
    c.until("evicted Pods to go", async || (count("evicted-").await? <= most).then_some(())).await?;
    c.stays("the others stay", PASSES, async || count("done-").await == Some(EACH)).await?;
    let left = count("evicted-").await.unwrap_or_default();
    c.check(left > most - SPARE, &format!("no more go than have to: {left} of {EACH} are left")).await
}
