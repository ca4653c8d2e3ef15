//! The take-over from an earlier process, and from upstream's controller.

use std::collections::BTreeMap;

use sandbox::{Action, Rule};
use serde_json::{Value, json};

use crate::world::{ME, NS, REVISIONS, SETS, World, limits, set};

/// DAEMONSET-58.
#[tokio::test(start_paused = true)]
async fn the_take_over_of_a_settled_set_writes_nothing() {
    let mut world = World::new().await;
    world.apply(set(json!({}))).await;
    world.settle().await;
    world.crash();
    world.forget();
    world.start();
    world.settle().await;
    assert!(world.written().is_empty(), "{:?}", world.written());
    assert_eq!(world.asked("get", SETS), 0);
}

/// DAEMONSET-79.
#[tokio::test(start_paused = true)]
async fn a_revision_of_another_release_restarts_no_pod() {
    let mut world = World::new().await;
    world.apply(set(json!({}))).await;
    world.settle().await;
    world.crash();
    // Up to 1.33, kube-controller-manager stored a null timestamp in revisions. Only that release computes the hash `55f`.
    let name = world.names(REVISIONS).await.remove(0);
    let mut old = world.get(REVISIONS, &name).await;
    old["data"]["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    old["metadata"] = json!({"name": "agent-55f", "namespace": NS, "ownerReferences": old["metadata"]["ownerReferences"],
        "labels": {"app": "agent", "controller-revision-hash": "55f"}});
    world.sandbox.delete(REVISIONS, Some(NS), &name).await.unwrap();
    world.apply(old).await;
    for pod in world.names("pods").await {
        world.merge("pods", &pod, json!({"metadata": {"labels": {"controller-revision-hash": "55f"}}})).await;
    }
    world.forget();
    world.start();
    world.settle().await;
    assert!(world.written().is_empty(), "{:?}", world.written());
}

/// DAEMONSET-45.
#[tokio::test(start_paused = true)]
async fn pods_of_the_same_template_generation_survive_a_new_revision() {
    let mut world = World::new().await;
    world.apply(set(json!({}))).await;
    world.settle().await;
    world.crash();
    // As after a predecessor that stored other bytes for the same template, the hash on the Pods belongs to no revision.
    let name = world.names(REVISIONS).await.remove(0);
    world.sandbox.delete(REVISIONS, Some(NS), &name).await.unwrap();
    for pod in world.names("pods").await {
        world.merge("pods", &pod, json!({"metadata": {"labels": {"controller-revision-hash": "55f"}}})).await;
    }
    world.forget();
    world.start();
    world.settle().await;
    assert!(world.done().is_empty(), "{:?}", world.done());
    assert_eq!(world.names(REVISIONS).await.len(), 1);
    assert_eq!(world.status().await["updatedNumberScheduled"], json!(3));
}

/// DAEMONSET-62.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_of_a_rollout_does_not_change_the_final_state() {
    for strategy in [limits(json!(1), json!(0)), limits(json!(0), json!(1))] {
        let mut lost_at = BTreeMap::new();
        for at in 0..16 {
            for lost in [Action::CutBefore, Action::CutAfter] {
                let mut world = World::new().await;
                world.apply(set(strategy.clone())).await;
                world.settle().await;
                world.forget();
                for verb in ["create", "patch", "delete", "update"] {
                    // After `at` writes, every further write of this verb is lost.
                    world.sandbox.faults().add(Rule::new(lost.clone()).identity(ME).verb(verb).skip(at));
                }
                world.roll_out("img:2", json!({})).await;
                world.wait(5).await;
                lost_at.insert((at, format!("{lost:?}")), world.sandbox.faults().hits(&lost));
                world.crash();
                world.sandbox.faults().clear();
                world.start();
                world.settle().await;
                assert_eq!(world.images().await, ["node-0 img:2", "node-1 img:2", "node-2 img:2"], "{at} {lost:?}");
                assert_eq!(world.names(REVISIONS).await.len(), 2, "{at} {lost:?}");
                let status = world.get(SETS, "agent").await["status"].clone();
                assert_eq!(status["numberAvailable"], json!(3), "{at} {lost:?}");
            }
        }
        // The rollout has at least four writes of one verb. A fault after more writes may have no effect.
        assert!(lost_at.iter().all(|((at, _), hits)| *at >= 4 || *hits > 0), "{lost_at:?}");
    }
}
