//! Creation, deletion, adoption and availability of Pods.

use crate::world::*;

/// STATEFULSET-13, STATEFULSET-14, STATEFULSET-20, STATEFULSET-55.
#[tokio::test(start_paused = true)]
async fn pods_are_created_one_by_one_with_their_names_and_labels() {
    let world = cluster().settled(web(3)).await;
    assert_eq!(pod_and_claim_writes(&world), ["+web-0", "+web-1", "+web-2"]);
    let status = world.status().await;
    let revision = status["updateRevision"].as_str().unwrap();
    assert_eq!(
        status,
        json!({"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "currentReplicas": 3,
            "updatedReplicas": 3, "currentRevision": revision, "updateRevision": revision, "collisionCount": 0})
    );
    let mut pod = world.get("pods", "web-1").await;
    // The server copies topology labels from the node. The controller does not set them.
    pod["metadata"]["labels"].as_object_mut().unwrap().retain(|key, _| !key.starts_with("topology."));
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app": "web", "apps.kubernetes.io/pod-index": "1", "controller-revision-hash": revision,
            "statefulset.kubernetes.io/pod-name": "web-1"})
    );
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("web-1"), &json!("web")));
    assert_eq!((owners(&pod), &pod["metadata"]["generateName"]), (vec!["StatefulSet web".to_owned()], &json!("web-")));
    assert_eq!(
        world.events().await,
        [0, 1, 2].map(|n| format!("Normal SuccessfulCreate Create Pod web-{n} in StatefulSet web successful"))
    );
}

/// STATEFULSET-20.
#[tokio::test(start_paused = true)]
async fn the_next_pod_waits_for_the_availability_of_the_pod_before() {
    let world = cluster().start().await;
    world.create(set(2, json!({"minReadySeconds": 30}))).await;
    world.wait(29).await;
    assert_eq!(pod_and_claim_writes(&world), ["+web-0"]);
    assert_eq!(world.status().await["availableReplicas"], 0);
    world.wait(20).await;
    assert_eq!(world.status().await["readyReplicas"], 2);
    assert_eq!(world.status().await["availableReplicas"], 1);
    world.wait(15).await;
    assert_eq!(world.status().await["availableReplicas"], 2);
}

/// STATEFULSET-21.
#[tokio::test(start_paused = true)]
async fn parallel_pods_are_created_and_deleted_at_the_same_time() {
    let world = cluster().start().await;
    let parallel = set(20, json!({"podManagementPolicy": "Parallel", "ordinals": {"start": 5}}));
    world.create(annotated(parallel, json!({"sim/ready-after": "60"}))).await;
    world.wait(5).await;
    assert_eq!(world.count("create", "pods"), 20);
    assert!(world.names("pods").await.contains(&"web-24".to_owned()));
    world.scale(2).await;
    world.wait(40).await;
    assert_eq!(world.names("pods").await, ["web-5", "web-6"]);
}

/// STATEFULSET-22, STATEFULSET-55.
#[tokio::test(start_paused = true)]
async fn a_scale_down_deletes_one_pod_at_a_time_from_the_highest_ordinal() {
    let world = cluster().settled(annotated(web(4), json!({"sim/terminate-after": "1"}))).await;
    world.clear_log();
    world.change_and_settle(json!({"replicas": 1})).await;
    assert_eq!(pod_and_claim_writes(&world), ["-web-3", "-web-2", "-web-1"]);
    assert_each_pod_had_ended_before_the_next_deletion(&world);
    assert_eq!(world.names("pods").await, ["web-0"]);
    assert_eq!(world.status().await["replicas"], 1);
    world.assert_event("Normal SuccessfulDelete Delete Pod web-3 in StatefulSet web successful").await;
}

/// Asserts from the log of writes that at no time two Pods were terminating.
fn assert_each_pod_had_ended_before_the_next_deletion(world: &World) {
    let mut terminating = BTreeSet::new();
    for write in world.sandbox.writes().all().iter().filter(|write| write.resource == "pods") {
        match write.after() {
            Some(pod) if is_terminating(&pod) => terminating.insert(write.name.clone()),
            _ => terminating.remove(&write.name),
        };
        assert!(terminating.len() <= 1, "{terminating:?}");
    }
}

/// STATEFULSET-17.
#[tokio::test(start_paused = true)]
async fn a_finished_or_deleted_pod_is_replaced() {
    let world = cluster().settled(web(2)).await;
    for how in ["delete", "fail"] {
        let before = world.get("pods", "web-0").await;
        if how == "delete" {
            world.delete("pods", "web-0").await;
        } else {
            world.patch_pod_status("web-0", json!({"phase": "Failed", "reason": "Evicted"})).await;
        }
        world.settle().await;
        let after = world.get("pods", "web-0").await;
        assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"], "{how}");
        assert_eq!(world.status().await["readyReplicas"], 2);
    }
}

/// STATEFULSET-6, STATEFULSET-7.
#[tokio::test(start_paused = true)]
async fn an_orphan_with_a_pod_name_is_adopted_and_a_relabelled_pod_is_released() {
    let world = cluster().start().await;
    world.create(orphan_pod("web-1", "web")).await;
    world.create_and_settle(orphan_pod("web-x", "web")).await;
    world.create_and_settle(set(2, json!({"updateStrategy": {"type": "OnDelete"}}))).await;
    assert_eq!(owners(&world.get("pods", "web-1").await), ["StatefulSet web"]);
    assert!(owners(&world.get("pods", "web-x").await).is_empty(), "the name has no ordinal");
    let labels = &world.get("pods", "web-1").await["metadata"]["labels"];
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-1", "the missing label is added");
    world.assert_event("Normal SuccessfulUpdate Update Pod web-1 in StatefulSet web successful").await;
    world.patch_and_settle("pods", "web-1", json!({"metadata": {"labels": {"app": "other"}}})).await;
    assert!(owners(&world.get("pods", "web-1").await).is_empty());
}

/// STATEFULSET-19.
#[tokio::test(start_paused = true)]
async fn a_terminating_set_creates_and_deletes_nothing() {
    let world = cluster().settled(web(2)).await;
    world.patch(SETS, "web", json!({"metadata": {"finalizers": ["example.com/wait"]}})).await;
    world.delete(SETS, "web").await;
    world.clear_log();
    world.delete_and_settle("pods", "web-0").await;
    assert_eq!(pod_and_claim_writes(&world), [""; 0]);
    assert_eq!(name(&world.list("pods").await[0]), "web-1");
    assert_eq!(world.status().await["replicas"], 1, "the status still counts Pods");
}

/// STATEFULSET-68.
#[tokio::test(start_paused = true)]
async fn stuck_pods_of_a_rolled_back_template_are_replaced_with_the_tune() {
    for replace in [false, true] {
        let world = cluster().tunable("replace-stuck-pods", replace).settled(web(2)).await;
        world.roll_out("img:broken", json!({"sim/ready-after": "100000"})).await;
        world.wait(60).await;
        world.roll_out("img:1", json!({"sim/ready-after": null})).await;
        world.wait(120).await;
        let rolled_back = images(&world).await == ["web-0 img:1", "web-1 img:1"];
        assert_eq!(rolled_back, replace, "{:?}", images(&world).await);
    }
}
