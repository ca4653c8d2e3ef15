//! Pods of other clients that have the names of a set's Pods.

use crate::world::*;

/// Builds a Pod without the label by which Pods are watched.
fn unlabelled(name: &str, app: &str, owners: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": app}, "ownerReferences": owners},
        "spec": {"containers": [{"name": "c", "image": "img:0"}]}})
}

fn pod(name: &str, app: &str, owners: Value) -> Value {
    let mut pod = unlabelled(name, app, owners);
    pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = json!(name);
    pod
}

fn replica_set() -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs-uid", "controller": true}])
}

/// Waits an hour. Returns the number of attempts to create a Pod, of reads of Pods, and of `FailedCreate` Events.
async fn hour(world: &World) -> (u64, u64, i64) {
    world.wait(3600).await;
    (world.count("create", "pods"), world.count("get", "pods"), world.event_repetitions("FailedCreate").await)
}

/// STATEFULSET-77.
#[tokio::test(start_paused = true)]
async fn a_taken_name_costs_one_event_an_hour_and_few_reads() {
    let unselected = "is not selected by the StatefulSet";
    for (stray, reads_each_time, holder) in [
        (pod("web-0", "other", json!([])), false, unselected),
        (unlabelled("web-0", "other", json!([])), false, unselected),
        (pod("web-0", "web", replica_set()), true, "is controlled by ReplicaSet rs"),
        (unlabelled("web-0", "web", replica_set()), true, "is controlled by ReplicaSet rs"),
    ] {
        let is_labelled = stray["metadata"]["labels"].as_object().unwrap().len() > 1;
        let world = cluster().start().await;
        world.create(stray).await;
        world.clear_log();
        world.create(web(1)).await;
        let (creates, read, events) = hour(&world).await;
        assert!((10..=25).contains(&creates), "{holder}: it backs off: {creates}");
        let reads = if reads_each_time { creates } else { u64::from(!is_labelled) };
        assert_eq!((read, events), (reads, 1), "{holder}: {:#?}", world.events().await);
        let event =
            "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: pods \"web-0\" already exists";
        world.assert_event(&format!("{event} and {holder}")).await;
        assert_eq!(images(&world).await, ["web-0 img:0"]);
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
    for (orphan, seconds) in [(pod("web-0", "other", json!([])), 0), (unlabelled("web-0", "other", json!([])), 60)] {
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
    world.create(unlabelled("web-0", "web", json!([]))).await;
    let (creates, reads, events) = hour(&world).await;
    assert!((1..=15).contains(&creates), "the set retries until it finds the Pod: {creates}");
    assert!(reads <= creates && events == 0, "{reads} reads, {:#?}", world.events().await);
    let after = world.get("pods", "web-0").await;
    assert_ne!(after["metadata"]["uid"], before);
    assert_eq!(owners(&after), ["StatefulSet web"]);
    assert_eq!(world.event_repetitions("SuccessfulUpdate").await, 1, "{:#?}", world.events().await);
    assert_eq!(world.status().await["readyReplicas"], 1);
}

/// STATEFULSET-11, STATEFULSET-12.
#[tokio::test(start_paused = true)]
async fn a_pod_with_leading_zeros_out_of_range_is_deleted() {
    let world = cluster().start().await;
    let made = world.create_and_settle(web(2)).await;
    world.clear_log();
    let own = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": made["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true}]);
    world.create(pod("web-07", "web", own)).await;
    world.create_and_settle(pod("web-99999999999", "web", json!([]))).await;
    assert_eq!(world.names("pods").await, ["web-0", "web-1", "web-99999999999"]);
    world.assert_event("Normal SuccessfulDelete Delete Pod web-07 in StatefulSet web successful").await;
    assert_eq!(owners(&world.get("pods", "web-99999999999").await), ["StatefulSet web"], "it has no ordinal");
    assert_eq!(world.status().await["replicas"], 2);
}

/// STATEFULSET-12, STATEFULSET-76.
#[tokio::test(start_paused = true)]
async fn a_pod_with_leading_zeros_in_range_occupies_its_ordinal() {
    let world = cluster().settled(pod("web-01", "web", json!([]))).await;
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
    world.delete_and_settle("pods", "web-01").await;
    assert_eq!(world.names("pods").await, ["web-0", "web-1"]);
    // Beside `web-1`, `web-01` is ignored.
    world.create_and_settle(pod("web-01", "web", json!([]))).await;
    assert_eq!(world.names("pods").await, ["web-0", "web-01", "web-1"]);
    assert_eq!(world.status().await["replicas"], 2);
}
