//! The take-over from an earlier process, and from upstream's controller.

use std::collections::BTreeMap;

use sandbox::{Action, Rule};
use serde_json::{Value, json};

use crate::world::{CONTROLLER_IDENTITY, NAMESPACE, REVISIONS, SETS, TestCluster, daemon_set, rolling_update_spec};

/// DAEMONSET-58.
#[tokio::test(start_paused = true)]
async fn the_take_over_of_a_settled_set_writes_nothing() {
    let mut world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    world.crash();
    world.clear_records();
    world.start();
    world.wait_until_settled().await;
    assert!(world.own_writes().is_empty(), "{:?}", world.own_writes());
    assert_eq!(world.request_count("get", SETS), 0);
}

/// DAEMONSET-79.
#[tokio::test(start_paused = true)]
async fn a_revision_of_another_release_restarts_no_pod() {
    let mut world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    world.crash();
    // Up to 1.33, kube-controller-manager stored a null timestamp in revisions. Only those releases compute the hash `55f`.
    let name = world.object_names(REVISIONS).await.remove(0);
    let mut old = world.get(REVISIONS, &name).await;
    old["data"]["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    old["metadata"] = json!({"name": "agent-55f", "namespace": NAMESPACE, "ownerReferences": old["metadata"]["ownerReferences"],
        "labels": {"app": "agent", "controller-revision-hash": "55f"}});
    world.sandbox.delete(REVISIONS, Some(NAMESPACE), &name).await.unwrap();
    world.create_object(old).await;
    for pod in world.object_names("pods").await {
        world.merge_patch("pods", &pod, json!({"metadata": {"labels": {"controller-revision-hash": "55f"}}})).await;
    }
    world.clear_records();
    world.start();
    world.wait_until_settled().await;
    assert!(world.own_writes().is_empty(), "{:?}", world.own_writes());
}

/// DAEMONSET-45.
#[tokio::test(start_paused = true)]
async fn pods_of_the_same_template_generation_survive_a_new_revision() {
    let mut world = TestCluster::new().await;
    world.create_object(daemon_set(json!({}))).await;
    world.wait_until_settled().await;
    world.crash();
    // The hash on the Pods belongs to no revision, as if an earlier process had stored other bytes for the same template.
    let name = world.object_names(REVISIONS).await.remove(0);
    world.sandbox.delete(REVISIONS, Some(NAMESPACE), &name).await.unwrap();
    for pod in world.object_names("pods").await {
        world.merge_patch("pods", &pod, json!({"metadata": {"labels": {"controller-revision-hash": "55f"}}})).await;
    }
    world.clear_records();
    world.start();
    world.wait_until_settled().await;
    assert!(world.pod_writes().is_empty(), "{:?}", world.pod_writes());
    assert_eq!(world.object_names(REVISIONS).await.len(), 1);
    assert_eq!(world.status().await["updatedNumberScheduled"], json!(3));
}

/// DAEMONSET-62.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_of_a_rollout_does_not_change_the_final_state() {
    for strategy in [rolling_update_spec(json!(1), json!(0)), rolling_update_spec(json!(0), json!(1))] {
        let mut lost_at = BTreeMap::new();
        for at in 0..16 {
            for lost in [Action::CutBefore, Action::CutAfter] {
                let mut world = TestCluster::new().await;
                world.create_object(daemon_set(strategy.clone())).await;
                world.wait_until_settled().await;
                world.clear_records();
                for verb in ["create", "patch", "delete", "update"] {
                    // The first `at` writes of this verb succeed, and every further one is lost.
                    world
                        .sandbox
                        .faults()
                        .add(Rule::new(lost.clone()).identity(CONTROLLER_IDENTITY).verb(verb).skip(at));
                }
                world.roll_out("img:2", json!({})).await;
                world.wait(5).await;
                lost_at.insert((at, format!("{lost:?}")), world.sandbox.faults().hits(&lost));
                world.crash();
                world.sandbox.faults().clear();
                world.start();
                world.wait_until_settled().await;
                assert_eq!(world.images().await, ["node-0 img:2", "node-1 img:2", "node-2 img:2"], "{at} {lost:?}");
                assert_eq!(world.object_names(REVISIONS).await.len(), 2, "{at} {lost:?}");
                let status = world.get(SETS, "agent").await["status"].clone();
                assert_eq!(status["numberAvailable"], json!(3), "{at} {lost:?}");
            }
        }
        // The rollout has at least four writes of one verb. A fault after more writes may have no effect.
        assert!(lost_at.iter().all(|((at, _), hits)| *at >= 4 || *hits > 0), "{lost_at:?}");
    }
}
