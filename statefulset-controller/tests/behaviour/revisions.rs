use crate::world::*;

async fn numbers(world: &World) -> Vec<(i64, String)> {
    let list = world.list(REVISIONS).await;
    let image =
        |r: &Value| r["data"]["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
    let mut numbers: Vec<_> = list.iter().map(|r| (r["revision"].as_i64().unwrap(), image(r))).collect();
    numbers.sort();
    numbers
}

fn numbered(list: &[(i64, &str)]) -> Vec<(i64, String)> {
    list.iter().map(|(number, image)| (*number, (*image).to_owned())).collect()
}

/// STATEFULSET-32, STATEFULSET-33.
#[tokio::test(start_paused = true)]
async fn a_revision_is_named_after_the_hash_of_its_template() {
    let world = cluster()
        .settled(merged(web(1), json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "first"}}})))
        .await;
    let revision = &world.list(REVISIONS).await[0];
    let hash = revision["metadata"]["labels"]["controller.kubernetes.io/hash"].as_str().unwrap();
    assert_eq!(name(revision), format!("web-{hash}"));
    assert_eq!(revision["metadata"]["labels"]["app"], "web");
    assert_eq!(revision["metadata"]["annotations"], json!({"kubernetes.io/change-cause": "first"}));
    assert_eq!((owners(revision), &revision["revision"]), (vec!["StatefulSet web".to_owned()], &json!(1)));
    assert_eq!(revision["data"]["spec"]["template"]["$patch"], "replace");
}

/// STATEFULSET-34.
#[tokio::test(start_paused = true)]
async fn the_revision_of_an_earlier_template_is_renumbered_and_its_pods_stay() {
    let world = cluster()
        .settled(set(2, json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}})))
        .await;
    world.roll_out_and_settle("img:2").await;
    assert_eq!(numbers(&world).await, numbered(&[(1, "img:1"), (2, "img:2")]));
    world.clear_log();
    world.roll_out_and_settle("img:1").await;
    assert_eq!(numbers(&world).await, numbered(&[(2, "img:2"), (3, "img:1")]));
    assert_eq!(pod_and_claim_writes(&world), [""; 0]);
    let status = world.status().await;
    assert_eq!(status["currentRevision"], status["updateRevision"]);
}

/// STATEFULSET-36.
#[tokio::test(start_paused = true)]
async fn a_name_taken_by_other_data_counts_as_a_collision() {
    let world = cluster().settled(web(1)).await;
    let taken = world.names(REVISIONS).await.remove(0);
    world.delete(SETS, "web").await;
    world.delete("pods", "web-0").await;
    world.delete_and_settle(REVISIONS, &taken).await;
    // Another client creates a revision with the name that the set's revision needs.
    world.create(
            json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": taken, "namespace": NAMESPACE},
            "revision": 1, "data": {"spec": {"template": {"$patch": "replace"}}}}),
        ).await;
    world.create_and_settle(web(1)).await;
    let status = world.status().await;
    assert_eq!(pick(&status, "collisionCount readyReplicas"), json!([1, 1]));
    let name = status["updateRevision"].as_str().unwrap();
    assert_ne!(name, taken);
    let labels = &world.get("pods", "web-0").await["metadata"]["labels"];
    assert_eq!(labels["controller-revision-hash"], name);
    let revision = world.get(REVISIONS, name).await;
    assert_eq!(
        format!("web-{}", revision["metadata"]["labels"]["controller.kubernetes.io/hash"].as_str().unwrap()),
        taken
    );
    world.clear_log();
    world.patch_and_settle(SETS, "web", json!({"metadata": {"annotations": {"poke": "1"}}})).await;
    world.assert_wrote_nothing();
}

/// STATEFULSET-10.
#[tokio::test(start_paused = true)]
async fn orphaned_revisions_that_match_are_adopted() {
    let world = cluster().settled(web(1)).await;
    let name = world.names(REVISIONS).await.remove(0);
    world.patch(REVISIONS, &name, json!({"metadata": {"ownerReferences": null}})).await;
    world.wait(1).await;
    world.patch_and_settle(SETS, "web", json!({"metadata": {"annotations": {"poke": "1"}}})).await;
    assert_eq!(owners(&world.get(REVISIONS, &name).await), ["StatefulSet web"]);
    assert_eq!(numbers(&world).await.len(), 1);
}

/// STATEFULSET-72.
#[tokio::test(start_paused = true)]
async fn conditions_of_other_writers_stay_in_the_status() {
    let world = cluster().settled(web(1)).await;
    let conditions =
        json!([{"type": "Checked", "status": "True", "lastTransitionTime": null, "reason": "R", "message": ""}]);
    world.patch_status(SETS, "web", json!({"conditions": conditions})).await;
    world.change_and_settle(json!({"replicas": 2})).await;
    let status = world.status().await;
    assert_eq!((&status["conditions"][0]["type"], &status["replicas"]), (&json!("Checked"), &json!(2)));
}

/// STATEFULSET-83.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_for_a_set_whose_children_are_orphaned() {
    let world = cluster().settled(web(2)).await;
    world.roll_out_and_settle("img:2").await;
    let revisions = world.names(REVISIONS).await;
    world.patch(SETS, "web", json!({"metadata": {"finalizers": ["orphan"]}})).await;
    world.delete_and_settle(SETS, "web").await;
    world.clear_log();
    // Removes the owner references, as the garbage collector does for a set that is deleted with the policy `Orphan`.
    for revision in &revisions {
        world.patch(REVISIONS, revision, json!({"metadata": {"ownerReferences": null}})).await;
    }
    for pod in ["web-0", "web-1"] {
        world.patch("pods", pod, json!({"metadata": {"ownerReferences": null}})).await;
    }
    world.settle().await;
    let asked = |verb: &str| world.count(verb, REVISIONS) + world.count(verb, "controllerrevisions");
    assert_eq!((asked("create"), asked("get"), asked("patch"), asked("update"), asked("delete")), (0, 0, 0, 0, 0));
    assert_eq!(world.names(REVISIONS).await, revisions);
    let status = world.status().await;
    assert!(revisions.contains(&status["updateRevision"].as_str().unwrap().to_owned()), "{status}");
}

/// STATEFULSET-36.
#[tokio::test(start_paused = true)]
async fn a_collision_with_the_current_revision_does_not_make_the_rollout_look_complete() {
    let world = cluster().settled(set(1, json!({"updateStrategy": {"type": "OnDelete"}}))).await;
    let before = world.status().await["currentRevision"].clone();
    world.roll_out_and_settle("img:2").await;
    let taken = world.status().await["updateRevision"].as_str().unwrap().to_owned();
    world.roll_out_and_settle("img:1").await;
    // The next rollout needs a name that the current revision has. Names are hashes, so the test creates such a revision
    // itself.
    let mut object = world.get(REVISIONS, before.as_str().unwrap()).await;
    world.delete_and_settle(REVISIONS, &taken).await;
    let owner = object["metadata"]["ownerReferences"].clone();
    object["metadata"] =
        json!({"name": taken, "namespace": NAMESPACE, "labels": {"app": "web"}, "ownerReferences": owner});
    object["revision"] = json!(5);
    world.create_and_settle(object).await;
    let status = json!({"currentRevision": taken, "updateRevision": taken});
    world.patch_status(SETS, "web", status).await;
    world.patch_and_settle("pods", "web-0", json!({"metadata": {"labels": {"controller-revision-hash": taken}}})).await;
    world.roll_out_and_settle("img:2").await;
    let status = world.status().await;
    assert_eq!(pick(&status, "collisionCount currentRevision"), json!([1, taken]), "{status}");
    assert_ne!(status["updateRevision"], json!(taken));
    assert_eq!(pick(&status, "currentReplicas updatedReplicas"), json!([1, null]));
}
