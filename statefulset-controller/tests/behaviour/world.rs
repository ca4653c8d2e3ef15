//! A cluster of three nodes, and the StatefulSet `web` in it.

pub(crate) use testkit::prelude::*;

pub(crate) const SETS: &str = "statefulsets.apps";
pub(crate) const REVISIONS: &str = "controllerrevisions.apps";
pub(crate) const CLAIMS: &str = "persistentvolumeclaims";

pub(crate) fn cluster() -> Cluster {
    Cluster::new(statefulset_controller::LOOPS, SETS, "web").nodes(3)
}

/// Builds a StatefulSet `web` of Pods with the label `app=web`. The fields of `spec` replace fields of its spec.
pub(crate) fn set(replicas: i32, spec: Value) -> Value {
    let set = with_spec(workload("StatefulSet", "web"), json!({"replicas": replicas, "serviceName": "web"}));
    with_spec(set, spec)
}

/// Returns a StatefulSet `web` without anything special.
pub(crate) fn web(replicas: i32) -> Value {
    set(replicas, json!({}))
}

/// Returns the spec fields that give each Pod a claim called `data`, with this retention policy.
pub(crate) fn claims(when_deleted: &str, when_scaled: &str) -> Value {
    let template = json!({"metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    json!({"volumeClaimTemplates": [template],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": when_deleted, "whenScaled": when_scaled}})
}

/// Returns the writes of Pods and claims: `+web-0` is a creation, `-web-0` a deletion, `~web-0` a patch.
pub(crate) fn pod_and_claim_writes(world: &World) -> Vec<String> {
    let writes = world.own_writes().into_iter().filter(|write| write.resource == "pods" || write.resource == CLAIMS);
    let line = |write: Arc<Write>| match write.verb {
        "create" => format!("+{}", write.name),
        "delete" => format!("-{}", write.name),
        _ => format!("~{}", write.name),
    };
    writes.map(line).collect()
}

/// Returns name and image of each Pod, in the form `web-0 img:1`.
pub(crate) async fn images(world: &World) -> Vec<String> {
    let line = |pod: &Value| format!("{} {}", name(pod), text(&pod["spec"]["containers"][0], "image"));
    world.pods().await.iter().map(line).collect()
}

/// Asserts that all Pods have this image.
pub(crate) async fn assert_images(world: &World, image: &str) {
    assert!(images(world).await.iter().all(|pod| pod.ends_with(image)), "{:?}", images(world).await);
}

/// Removes the finalizer of a terminating claim, as the controller that protects claims does when no Pod uses the claim.
pub(crate) async fn remove_claim_finalizer(world: &World, claim: &str) {
    world.patch(CLAIMS, claim, json!({"metadata": {"finalizers": null}})).await;
}
