//! Background deletion: dependents are deleted after their owner.

use common::settings::{OperatorSettings, TunableValue};
use serde_json::json;

use crate::world::{NAMESPACE, World, map, reference};

/// GC-23, GC-77.
#[tokio::test(start_paused = true)]
async fn dependents_follow_their_owner_in_one_request_each() {
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    let b = w.map("b", &[&a]).await;
    for n in 0..50 {
        w.map(&format!("c{n}"), &[&b]).await;
    }
    w.settle().await;
    w.reset_counters();
    w.delete_map("a", "Background").await;
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
    assert_eq!((w.request_count("delete", "configmaps"), w.request_count("get", "configmaps")), (51, 0));
}

/// GC-20, GC-21.
#[tokio::test(start_paused = true)]
async fn an_object_with_a_living_owner_stays_and_loses_its_references_to_dead_ones() {
    let w = World::new().await;
    let (a, b) = (w.map("a", &[]).await, w.map("b", &[]).await);
    w.map("c", &[&a, &b]).await;
    w.settle().await;
    w.delete_map("a", "Background").await;
    w.settle().await;
    assert_eq!(w.maps().await, ["b", "c"]);
    assert_eq!(crate::world::owners(&w.get("c").await), ["b"]);
    w.delete_map("b", "Background").await;
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
}

/// GC-35.
#[tokio::test(start_paused = true)]
async fn a_cycle_stays_until_one_of_its_objects_is_deleted() {
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    let b = w.map("b", &[&a]).await;
    let patch = json!({"metadata": {"ownerReferences": [reference(&b, false)]}});
    w.sandbox.merge("configmaps", Some(NAMESPACE), "a", None, patch).await.unwrap();
    w.settle().await;
    assert_eq!(w.maps().await, ["a", "b"]);
    w.delete_map("a", "Background").await;
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
}

/// GC-26, GC-34.
#[tokio::test(start_paused = true)]
async fn an_owner_recreated_under_its_name_does_not_keep_old_dependents() {
    let mut w = World::new().await;
    let a = w.map("a", &[]).await;
    w.map("b", &[&a]).await;
    w.settle().await;
    w.crash();
    w.delete_map("a", "Background").await;
    let a = w.map("a", &[]).await;
    w.map("c", &[&a]).await;
    w.start();
    w.settle().await;
    assert_eq!(w.maps().await, ["a", "c"]);
}

/// GC-34.
#[tokio::test(start_paused = true)]
async fn dependents_of_owners_deleted_while_no_collector_ran_are_collected() {
    let mut w = World::without_collector().await;
    let a = w.map("a", &[]).await;
    let b = w.map("b", &[&a]).await;
    w.map("c", &[&b]).await;
    w.delete_map("a", "Background").await;
    w.start();
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
}

/// GC-24, GC-78.
#[tokio::test(start_paused = true)]
async fn an_object_that_gets_an_owner_at_the_last_moment_stays() {
    let w = World::new().await;
    let (a, b) = (w.map("a", &[]).await, w.map("b", &[]).await);
    let c = w.map("c", &[&a]).await;
    w.settle().await;
    // While the watch is held, the collector's cache of ConfigMaps is stale.
    w.sandbox.faults().hold_watch(crate::world::CONTROLLER_IDENTITY, "configmaps");
    let both = json!({"metadata": {"ownerReferences": [reference(&a, false), reference(&b, false)]}});
    w.sandbox.merge("configmaps", Some(NAMESPACE), "c", None, both).await.unwrap();
    w.delete_map("a", "Background").await;
    w.sandbox.faults().release_watch(crate::world::CONTROLLER_IDENTITY, "configmaps");
    w.settle().await;
    assert_eq!(w.maps().await, ["b", "c"]);
    assert_eq!(w.get("c").await["metadata"]["uid"], c["metadata"]["uid"]);
}

/// GC-26.
#[tokio::test(start_paused = true)]
async fn a_delayed_watch_of_owners_deletes_no_dependent_of_an_existing_owner() {
    let w = World::new().await;
    w.sandbox.faults().hold_watch(crate::world::CONTROLLER_IDENTITY, "secrets");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": NAMESPACE}});
    let secret = w.create(secret).await;
    w.create(map("c", &[reference(&secret, false)])).await;
    w.settle().await;
    assert_eq!(w.maps().await, ["c"]);
    w.sandbox.delete("secrets", Some(NAMESPACE), "s").await.unwrap();
    w.settle().await;
    w.sandbox.faults().release_watch(crate::world::CONTROLLER_IDENTITY, "secrets");
    w.wait(120).await;
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
}

/// GC-72.
#[tokio::test(start_paused = true)]
async fn a_collector_that_is_switched_off_sends_no_requests() {
    let mut w = World::without_collector().await;
    let a = w.map("a", &[]).await;
    w.map("b", &[&a]).await;
    w.delete_map("a", "Background").await;
    w.reset_counters();
    w.start_with(
        OperatorSettings::new().with_tunable(gc_controller::ENABLE_GARBAGE_COLLECTOR.name, TunableValue::Switch(false)),
    );
    w.settle().await;
    assert_eq!(w.maps().await, ["b"]);
    assert_eq!(w.sandbox.requests().count(Some(crate::world::CONTROLLER_IDENTITY), None, None), 0);
    assert!(w.loops.as_ref().unwrap().explain(None)[0]["off"].is_string());
}
