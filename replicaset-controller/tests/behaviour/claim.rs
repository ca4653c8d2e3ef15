//! Adoption and release of Pods.

use crate::world::*;

/// REPLICASET-9, REPLICASET-11, REPLICASET-14.
#[tokio::test(start_paused = true)]
async fn a_matching_orphan_is_adopted_after_a_live_read() {
    let world = cluster().settled(orphan_pod("stray", "web")).await;
    world.clear_log();
    world.create_and_settle(web(3)).await;
    assert_eq!(owners(&world.get("pods", "stray").await), ["ReplicaSet web"]);
    assert_eq!((world.count("create", "pods"), world.count("patch", "pods"), world.count("get", SETS)), (2, 1, 1));
    assert_eq!(world.status().await["replicas"], 3);
    let first = world.own_writes()[0].clone();
    assert_eq!((first.verb, &*first.name), ("patch", "stray"), "Pods are claimed first");
}

/// REPLICASET-11, REPLICASET-15.
#[tokio::test(start_paused = true)]
async fn a_deleted_set_adopts_nothing() {
    let world = cluster().settled(web(1)).await;
    world.hold("replicasets");
    world.delete(SETS, "web").await;
    world.create(web(1)).await;
    world.clear_log();
    world.create(orphan_pod("stray", "web")).await;
    world.wait(1).await;
    assert!(owners(&world.get("pods", "stray").await).is_empty());
    assert!(world.count("get", SETS) > 0 && world.count("patch", "pods") == 0);
    let told = world.loops().explain(Some("shop/web"));
    assert!(
        told[0]["lastError"]["error"].as_str().unwrap().starts_with(
            "cannot claim Pods: can't recheck DeletionTimestamp: original ReplicaSet shop/web is gone: got uid"
        ),
        "{told}"
    );
    world.release("replicasets");
    world.settle().await;
    // The new set of the same name adopts the orphan.
    assert_eq!(owners(&world.get("pods", "stray").await), ["ReplicaSet web"]);
}

/// REPLICASET-16, REPLICASET-61.
#[tokio::test(start_paused = true)]
async fn each_of_many_orphans_is_adopted_by_one_set() {
    let world = cluster().start().await;
    for n in 0..20 {
        world.create(orphan_pod(&format!("stray-{n:02}"), "web")).await;
    }
    world.create(web(20)).await;
    world.create_and_settle(replication_controller("web", 20)).await;
    let pods = world.pods().await;
    assert!(pods.iter().all(|p| owners(p).len() == 1), "{:?}", pods.iter().map(name).collect::<Vec<_>>());
    let of = |kind: &str| pods.iter().filter(|p| owners(p)[0] == format!("{kind} web")).count();
    assert_eq!((of("ReplicaSet"), of("ReplicationController")), (20, 20));
    assert_eq!(world.count("create", "pods"), 20);
}

/// REPLICASET-14, REPLICASET-82.
#[tokio::test(start_paused = true)]
async fn denied_adoptions_are_reported_in_one_event_per_sync() {
    let orphans = ["a", "b", "c"].map(|name| orphan_pod(name, "web"));
    conformance::denied_adoptions_are_reported_in_one_event_per_sync(&cluster(), &orphans, web(3), 4..=14).await;
}
