//! Tests of the condition `Unused` behind its gate.

use crate::world::*;

const GATE: &str = "PersistentVolumeClaimUnusedSinceTime";

async fn unused(world: &World) -> String {
    let condition = world.condition("Unused").await;
    format!("{} {} {}", text(&condition, "status"), text(&condition, "reason"), text(&condition, "message"))
}

const NO_PODS: &str = "True NoPodsUsingPVC No pods are currently referencing this PVC";
const PODS: &str = "False PodUsingPVC A pod is currently referencing this PVC";

/// VOLUME-28, VOLUME-30, VOLUME-31, VOLUME-32, VOLUME-33, VOLUME-64.
#[tokio::test(start_paused = true)]
async fn the_condition_follows_the_pods_without_a_list() {
    let world = cluster().gate(GATE, true).start().await;
    let other = json!({"type": "Resizing", "status": "True", "message": "kept"});
    world.create(claim("data")).await;
    world.patch_status(CLAIMS, "data", json!({"conditions": [other]})).await;
    world.settle().await;
    assert_eq!(unused(&world).await, NO_PODS);
    world.create_and_settle(without_node(pod_with_claims("p", &["data"]))).await;
    let condition = world.condition("Unused").await;
    assert_eq!((unused(&world).await, &condition["lastProbeTime"]), (PODS.to_owned(), &Value::Null));
    assert!((0..5).contains(&world.seconds_since(time(&condition["lastTransitionTime"]))));
    world.patch_pod_status("p", json!({"phase": "Failed"})).await;
    world.settle().await;
    assert_eq!(unused(&world).await, NO_PODS);
    assert_eq!(world.condition("Resizing").await["message"], "kept");
    assert_eq!((world.count("patch", "persistentvolumeclaims/status"), pod_lists(&world)), (3, 0));
    world.clear_log();
    world.touch(CLAIMS, "data").await;
    world.wait(600).await;
    world.assert_wrote_nothing();
}

/// VOLUME-28.
#[tokio::test(start_paused = true)]
async fn without_the_gate_the_condition_is_left_as_it_is() {
    let world = cluster().start().await;
    world.create(claim("data")).await;
    world.patch_status(CLAIMS, "data", json!({"conditions": [{"type": "Unused", "status": "True"}]})).await;
    world.create(pod_with_claims("p", &["data"])).await;
    world.wait(60).await;
    world.assert_wrote_nothing();
}

/// VOLUME-21, VOLUME-34, VOLUME-65.
#[tokio::test(start_paused = true)]
async fn one_sync_writes_the_condition_and_then_the_finalizer() {
    let mut world = cluster().gate(GATE, true).stopped().await;
    world.create(claim("data")).await;
    set_finalizers(&world, CLAIMS, "data", &[]).await;
    world.start();
    world.settle().await;
    let lines = [format!("patch {CLAIMS}/status data"), format!("patch {CLAIMS} data")];
    assert_eq!((world.own_write_lines(), unused(&world).await), (lines.to_vec(), NO_PODS.to_owned()));
    // A refused condition delays the finalizer.
    world.create(pod_with_claims("p", &["data"])).await;
    world.settle().await;
    world.fault(rule(Action::Forbidden, "patch", "persistentvolumeclaims/status"));
    remove_pod(&world, "p").await;
    set_finalizers(&world, CLAIMS, "data", &[]).await;
    world.wait(10).await;
    assert_eq!((finalizers_of(&world, CLAIMS, "data").await, unused(&world).await), (vec![], PODS.to_owned()));
    world.clear_faults();
    world.wait(60).await;
    assert_eq!(finalizers_of(&world, CLAIMS, "data").await, [CLAIM_FINALIZER]);
    assert_eq!(unused(&world).await, NO_PODS);
}
