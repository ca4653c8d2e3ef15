//! Suite: what pod-garbage-collector-controller promises for Pods that no kubelet will finish.

use crate::lost_node::{
    FINALIZER, LONG, clean, is_terminating, node, node_with_pod, pod, set_phase, taint, until_terminating,
};
use e2e::suite::prelude::*;
use futures::future::try_join_all;

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

pub(crate) fn suite() -> Suite {
    let scenes = scenes! {
        SIMULATED =>
            a_terminating_pod_goes_from_a_node_out_of_service
            a_pod_without_finalizer_is_removed_from_a_node_out_of_service
            a_pod_that_is_not_terminating_stays_on_a_node_out_of_service
            a_terminating_pod_stays_on_a_node_out_of_service_that_is_ready
            a_terminating_pod_stays_on_a_node_that_is_not_ready pods_of_a_node_that_is_gone_go
            pods_that_have_finished_keep_their_phase a_pod_with_a_variable_twice_goes_with_its_node
            a_pod_with_a_port_twice_goes_with_its_node pods_of_a_node_that_returns_stay finalizers_of_others_stay
            pods_of_other_nodes_stay of_too_many_terminated_pods_the_evicted_go_first;
        EVERYWHERE =>
            a_terminating_pod_without_a_node_goes a_pod_without_a_node_that_is_not_terminating_stays;
    };
    Suite::new("pod_gc", &[("node-lifecycle-controller", FLAGS)], scenes).at_once(24)
}

/// The taint of a node whose Pods may be given up.
fn out_of_service_taint(effect: &str) -> Value {
    json!([{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": effect}])
}

/// Waits until a Pod is marked as failed and has no time left to end.
async fn until_given_up(c: &Context, pod: &str) -> Result<Value, Failure> {
    c.until_within(&format!("Pod {pod} to be given up"), LONG, async || {
        let pod = c.get(PODS, pod).await.ok()?;
        (pod["status"]["phase"] == "Failed" && pod["metadata"]["deletionGracePeriodSeconds"] == 0).then_some(pod)
    })
    .await
}

async fn until_gone(c: &Context, pod: &str) -> Outcome {
    c.until_within(&format!("Pod {pod} to be gone"), LONG, async || {
        c.get(PODS, pod).await.is_err_and(|refused| refused.code == 404).then_some(())
    })
    .await
}

/// Checks that a Pod that was deleted by somebody else has all its time to end.
async fn has_its_grace(c: &Context, pod: &str) -> Outcome {
    c.stays(&format!("Pod {pod} has its grace period"), PASSES, async || {
        c.get(PODS, pod).await.is_ok_and(|pod| pod["metadata"]["deletionGracePeriodSeconds"] == 30)
    })
    .await
}

async fn a_terminating_pod_goes_from_a_node_out_of_service(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    for (name, effect) in [("p", "NoSchedule"), ("q", "NoExecute")] {
        if name == "q" {
            pod(&c, name, json!({})).await?;
        }
        c.delete(PODS, name, "Background").await?;
        taint(&c, out_of_service_taint(effect)).await?;
        let pod = until_given_up(&c, name).await?;
        c.check(condition(&pod, "DisruptionTarget").is_none(), "nothing else marks it").await?;
        taint(&c, json!([])).await?;
    }
    clean(&c).await
}

async fn a_pod_without_finalizer_is_removed_from_a_node_out_of_service(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    c.merge(PODS, "p", json!({"metadata": {"finalizers": null}})).await?;
    taint(&c, out_of_service_taint("NoExecute")).await?;
    c.delete(PODS, "p", "Background").await?;
    until_gone(&c, "p").await?;
    clean(&c).await
}

async fn a_pod_that_is_not_terminating_stays_on_a_node_out_of_service(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    taint(&c, out_of_service_taint("NoExecute")).await?;
    c.stays("the Pod stays", PASSES, async || !is_terminating(&c, "p").await).await?;
    clean(&c).await
}

async fn a_terminating_pod_stays_on_a_node_out_of_service_that_is_ready(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
    c.merge_status(NODES, c.namespace(), ready).await?;
    taint(&c, out_of_service_taint("NoExecute")).await?;
    c.delete(PODS, "p", "Background").await?;
    has_its_grace(&c, "p").await?;
    // Its kubelet stops: now the taint counts.
    let unknown =
        json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}});
    c.merge_status(NODES, c.namespace(), unknown).await?;
    until_given_up(&c, "p").await?;
    clean(&c).await
}

async fn a_terminating_pod_stays_on_a_node_that_is_not_ready(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    taint(&c, json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}])).await?;
    c.delete(PODS, "p", "Background").await?;
    has_its_grace(&c, "p").await?;
    clean(&c).await
}

async fn pods_of_a_node_that_is_gone_go(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    pod(&c, "runs", json!({})).await?;
    set_phase(&c, "runs", "Running").await?;
    let deleted = c.cluster().clock().monotonic_now();
    c.delete(NODES, c.namespace(), "Background").await?;
    let pod = until_terminating(&c, "p").await?;
    let waited = c.cluster().clock().monotonic_now() - deleted;
    c.check(waited >= QUARANTINE, &format!("it waits for the node to return, not only {waited:?}")).await?;
    let target = condition(&pod, "DisruptionTarget").cloned().unwrap_or_default();
    let expected = ["True", "DeletionByPodGC", "PodGC: node no longer exists"];
    let found = ["status", "reason", "message"].map(|field| target[field].as_str().unwrap_or_default());
    c.check(found == expected && target["observedGeneration"] == 1, "its condition gives the reason").await?;
    for pod in ["p", "runs"] {
        until_given_up(&c, pod).await?;
    }
    clean(&c).await
}

async fn pods_that_have_finished_keep_their_phase(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    pod(&c, "failed", json!({})).await?;
    let phases = [("p", "Succeeded"), ("failed", "Failed")];
    for (pod, phase) in phases {
        set_phase(&c, pod, phase).await?;
    }
    c.delete(NODES, c.namespace(), "Background").await?;
    for (pod, phase) in phases {
        let pod = until_terminating(&c, pod).await?;
        c.check(pod["status"]["phase"] == phase, "it is as its kubelet left it").await?;
        c.check(condition(&pod, "DisruptionTarget").is_none(), "it was not disrupted").await?;
    }
    clean(&c).await
}

/// A Pod of a node that never existed, with a list in which a key of the server's merges occurs twice.
async fn listed_twice(c: &Context, container: Value) -> Outcome {
    pod(c, "p", json!({"nodeName": format!("{}-none", c.namespace()), "containers": [container]})).await?;
    let pod = until_given_up(c, "p").await?;
    let target = condition(&pod, "DisruptionTarget").cloned().unwrap_or_default();
    c.check(target["reason"] == "DeletionByPodGC", "its condition gives the reason").await?;
    c.check(target["lastTransitionTime"].is_string(), "its condition has a time").await?;
    clean(c).await
}

async fn a_pod_with_a_variable_twice_goes_with_its_node(c: Context) -> Outcome {
    let twice = json!([{"name": "XYZ", "value": "1"}, {"name": "XYZ", "value": "2"}]);
    listed_twice(&c, json!({"name": "c", "image": "img:1", "env": twice})).await
}

async fn a_pod_with_a_port_twice_goes_with_its_node(c: Context) -> Outcome {
    let twice = json!([{"containerPort": 93, "hostPort": 9376}, {"containerPort": 93, "hostPort": 9377}]);
    listed_twice(&c, json!({"name": "c", "image": "img:1", "ports": twice})).await
}

async fn pods_of_a_node_that_returns_stay(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    // Each time the node is back before the quarantine ends, and each absence counts for itself.
    for _ in 0..3 {
        c.delete(NODES, c.namespace(), "Background").await?;
        c.sleep(Duration::from_millis(1500)).await;
        node(&c).await?;
        c.sleep(Duration::from_millis(1500)).await;
    }
    c.stays("the Pod stays", QUARANTINE, async || !is_terminating(&c, "p").await).await?;
    let pod = c.get(PODS, "p").await?;
    c.check(pod["status"]["phase"] == "Pending", "nothing has marked it").await?;
    clean(&c).await
}

async fn finalizers_of_others_stay(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    let tracked = json!([FINALIZER, "batch.kubernetes.io/job-tracking"]);
    c.merge(PODS, "p", json!({"metadata": {"finalizers": tracked}})).await?;
    c.delete(NODES, c.namespace(), "Background").await?;
    until_given_up(&c, "p").await?;
    c.stays("its finalizers stay", PASSES, async || {
        c.get(PODS, "p").await.is_ok_and(|pod| pod["metadata"]["finalizers"] == tracked)
    })
    .await?;
    clean(&c).await
}

async fn pods_of_other_nodes_stay(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    pod(&c, "none", json!({"nodeName": format!("{}-none", c.namespace())})).await?;
    until_given_up(&c, "none").await?;
    c.check(!is_terminating(&c, "p").await, "the Pod of a node that exists stays").await?;
    clean(&c).await
}

/// Creates a Pod that fits no node.
async fn homeless(c: &Context) -> Outcome {
    c.create(
        PODS,
        json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "finalizers": [FINALIZER]},
        "spec": {"nodeSelector": {"nonet.io/none": "here"}, "containers": [{"name": "c", "image": "img:1"}]}}),
    )
    .await?;
    Ok(())
}

async fn a_terminating_pod_without_a_node_goes(c: Context) -> Outcome {
    homeless(&c).await?;
    c.delete(PODS, "p", "Background").await?;
    let pod = c
        .until_within("the Pod to end", LONG, async || {
            c.get(PODS, "p").await.ok().filter(|pod| pod["status"]["phase"] == "Failed")
        })
        .await?;
    c.check(condition(&pod, "DisruptionTarget").is_none(), "nothing disrupts a Pod that never ran").await?;
    clean(&c).await
}

async fn a_pod_without_a_node_that_is_not_terminating_stays(c: Context) -> Outcome {
    homeless(&c).await?;
    c.stays("the Pod waits for a node", PASSES, async || {
        c.get(PODS, "p")
            .await
            .is_ok_and(|pod| pod["status"]["phase"] == "Pending" && pod["metadata"].get("deletionTimestamp").is_none())
    })
    .await?;
    clean(&c).await
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
    let create = &create;
    try_join_all((0..EACH).map(|n| create(format!("done-{n}"), json!({"phase": "Succeeded"})))).await?;
    let evicted = json!({"phase": "Failed", "reason": "Evicted"});
    try_join_all((0..EACH).map(|n| create(format!("evicted-{n}"), evicted.clone()))).await?;
    let count = async |prefix: &str| -> Option<usize> {
        let pods = c.list(PODS).await.ok()?;
        let names = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str());
        Some(names.filter(|name| name.starts_with(prefix)).count())
    };
    let most = THRESHOLD - EACH;
    c.until_within("evicted Pods to go", LONG, async || (count("evicted-").await? <= most).then_some(())).await?;
    c.stays("the others stay", PASSES, async || count("done-").await == Some(EACH)).await?;
    let left = count("evicted-").await.unwrap_or_default();
    c.check(left > most - SPARE, &format!("no more go than have to: {left} of {EACH} are left")).await?;
    clean(&c).await
}
