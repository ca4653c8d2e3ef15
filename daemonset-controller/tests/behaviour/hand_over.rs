//! The take-over from an earlier process, and from upstream's controller.

use crate::world::*;

/// DAEMONSET-58.
#[tokio::test(start_paused = true)]
async fn the_take_over_of_a_settled_set_writes_nothing() {
    let mut world = cluster().settled(agent()).await;
    conformance::settled_objects_are_left_alone(&mut world, &[("get", SETS)]).await;
}

/// DAEMONSET-79.
#[tokio::test(start_paused = true)]
async fn a_revision_of_another_release_restarts_no_pod() {
    let mut world = cluster().settled(agent()).await;
    world.crash();
    // Up to 1.33, kube-controller-manager stored a null timestamp in revisions. Only those releases compute the hash `55f`.
    let name = world.names(REVISIONS).await.remove(0);
    let mut old = world.get(REVISIONS, &name).await;
    old["data"]["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    old["metadata"] = json!({"name": "agent-55f", "namespace": NAMESPACE, "ownerReferences": old["metadata"]["ownerReferences"],
        "labels": {"app": "agent", "controller-revision-hash": "55f"}});
    world.delete(REVISIONS, &name).await;
    world.create(old).await;
    for pod in world.names("pods").await {
        world.label("pods", &pod, json!({"controller-revision-hash": "55f"})).await;
    }
    world.clear_log();
    world.start();
    world.settle().await;
    world.assert_wrote_nothing();
    // The set is managed from then on, and its revision is that of new Pods.
    world.add_nodes(1).await;
    world.settle().await;
    assert_eq!(pod_writes(&world), ["+node-3"]);
    assert_eq!(pod_on(&world, "node-3").await["metadata"]["labels"]["controller-revision-hash"], "55f");
}

/// DAEMONSET-62.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_of_a_rollout_does_not_change_the_final_state() {
    for set in [rolling(1, 0), rolling(0, 1)] {
        let steps = vec![Step::Change(new_image("img:2", json!({})))];
        let scene = Scene { cluster: cluster(), settled: vec![set], steps };
        // A revision, three Pods in place of three others, and statuses.
        scene
            .crash_at_any_write(9, async |world, case| {
                assert_images(world, "img:2", case).await;
                assert_eq!(world.names(REVISIONS).await.len(), 2, "{case}");
                assert_eq!(world.status().await["numberAvailable"], 3, "{case}");
            })
            .await;
    }
}
