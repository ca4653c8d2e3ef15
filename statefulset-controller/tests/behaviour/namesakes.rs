//! Pods of other clients that have the names of a set's Pods.

use crate::world::*;

/// Builds a Pod with the label by which Pods are watched.
fn pod(name: &str, app: &str) -> Value {
    merged(orphan_pod(name, app), json!({"metadata": {"labels": {"statefulset.kubernetes.io/pod-name": name}}}))
}

/// Gives a Pod a ReplicaSet as its controller.
fn of_replica_set(pod: Value) -> Value {
    merged(pod, json!({"metadata": {"ownerReferences": foreign_controller("apps/v1", "ReplicaSet", "rs")}}))
}

/// Waits an hour. Returns the number of attempts to create a Pod, of reads of Pods, and of `FailedCreate` Events.
async fn hour(world: &World) -> (u64, u64, i64) {
    world.wait(3600).await;
    (world.count("create", "pods"), world.count("get", "pods"), world.event_repetitions("FailedCreate").await)
}

/// STATEFULSET-9, STATEFULSET-77.
#[tokio::test(start_paused = true)]
async fn a_taken_name_costs_one_event_an_hour_and_few_reads() {
    let unselected = "is not selected by the StatefulSet";
    for (stray, reads_each_time, holder) in [
        (pod("web-0", "other"), false, unselected),
        (orphan_pod("web-0", "other"), false, unselected),
        (of_replica_set(pod("web-0", "web")), true, "is controlled by ReplicaSet rs"),
        (of_replica_set(orphan_pod("web-0", "web")), true, "is controlled by ReplicaSet rs"),
    ] {
        let is_labelled = stray["metadata"]["labels"].as_object().unwrap().len() > 1;
        let world = cluster().start().await;
        let stray = world.create(stray).await;
        world.clear_log();
        world.create(web(1)).await;
        let (creates, read, events) = hour(&world).await;
        assert!((10..=25).contains(&creates), "{holder}: it backs off: {creates}");
        let reads = if reads_each_time { creates } else { u64::from(!is_labelled) };
        assert_eq!((read, events), (reads, 1), "{holder}: {:#?}", world.events().await);
        let event =
            "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: pods \"web-0\" already exists";
        world.assert_event(&format!("{event} and {holder}")).await;
        assert!(world.explain()["lastError"]["error"].as_str().unwrap().contains("already exists"), "{holder}");
        assert_eq!(pod_and_claim_writes(&world), [""; 0], "{holder}");
        assert_eq!(world.get("pods", "web-0").await["metadata"]["uid"], stray["metadata"]["uid"], "{holder}");
        // A hidden Pod (without the watched label) that may be adopted later is read once a minute.
        let repeated = world.count("list", "pods");
        assert!(if reads == 1 { (55..=75).contains(&repeated) } else { repeated == 0 }, "{holder}: {repeated}");
        let (creates, read, events) = hour(&world).await;
        assert!(read <= creates && events <= 2, "{holder}: {read} reads, {events} Events");
    }
}

/// STATEFULSET-77.
#[tokio::test(start_paused = true)]
async fn a_set_continues_soon_after_an_orphan_with_its_pod_name_is_deleted() {
    for (orphan, seconds) in [(pod("web-0", "other"), 0), (orphan_pod("web-0", "other"), 60)] {
        let world = cluster().start().await;
        world.create(orphan).await;
        world.create(web(1)).await;
        world.wait(900).await;
        world.clear_log();
        world.delete("pods", "web-0").await;
        world.wait(seconds).await;
        world.settle().await;
        assert_eq!(pod_and_claim_writes(&world), ["+web-0"], "the back-off has grown to minutes");
        assert_eq!(world.status().await["readyReplicas"], 1);
    }
}

/// STATEFULSET-79.
#[tokio::test(start_paused = true)]
async fn a_pod_that_was_replaced_by_hand_is_adopted_without_a_failed_create_event() {
    let world = cluster().settled(set(1, json!({"updateStrategy": {"type": "OnDelete"}}))).await;
    world.clear_log();
    // The controller sees the deletion seconds later, when the new Pod already exists.
    world.delay("pods", 3);
    let before = world.get("pods", "web-0").await["metadata"]["uid"].clone();
    world.delete("pods", "web-0").await;
    while world.sandbox.get("pods", Some(NAMESPACE), "web-0").await.is_ok() {
        world.wait(0.1).await;
    }
    world.wait(1).await;
    world.create(orphan_pod("web-0", "web")).await;
    let (creates, reads, events) = hour(&world).await;
    assert!((1..=15).contains(&creates), "the set retries until it finds the Pod: {creates}");
    assert!(reads <= creates && events == 0, "{reads} reads, {:#?}", world.events().await);
    let after = world.get("pods", "web-0").await;
    assert_ne!(after["metadata"]["uid"], before);
    assert_eq!(owners(&after), ["StatefulSet web"]);
    assert_eq!(world.event_repetitions("SuccessfulUpdate").await, 1, "{:#?}", world.events().await);
    assert_eq!(world.status().await["readyReplicas"], 1);
}

/// STATEFULSET-12, STATEFULSET-76.
#[tokio::test(start_paused = true)]
async fn a_pod_with_leading_zeros_in_range_occupies_its_ordinal() {
    let world = cluster().settled(pod("web-01", "web")).await;
    world.create(set(2, json!({"updateStrategy": {"type": "OnDelete"}}))).await;
    world.clear_log();
    world.wait(3600).await;
    assert_eq!(world.names("pods").await, ["web-0", "web-01"], "web-01 occupies ordinal 1");
    assert_eq!(world.status().await["replicas"], 2);
    world
        .assert_event(
            "Warning FailedUpdate Update Pod web-01 in StatefulSet web failed error: it has the ordinal of Pod web-1, \
                 and a Pod cannot be renamed",
        )
        .await;
    assert!((1..=30).contains(&world.event_repetitions("FailedUpdate").await), "it backs off");
    assert_eq!(world.count("patch", "pods"), 1, "only the adoption: a rename, which cannot succeed, is not sent");
}
