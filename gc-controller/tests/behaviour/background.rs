//! Background deletion: dependents are deleted after their owner.

use crate::world::*;

/// GC-23, GC-77.
#[tokio::test(start_paused = true)]
async fn dependents_follow_their_owner_in_one_request_each() {
    let w = with_collector().await;
    let a = create_map(&w, "a", &[]).await;
    let b = create_map(&w, "b", &[&a]).await;
    for n in 0..50 {
        create_map(&w, &format!("c{n}"), &[&b]).await;
    }
    w.settle().await;
    w.clear_log();
    delete_map_and_settle(&w, "a", "Background").await;
    assert_eq!(maps(&w).await, [""; 0]);
    assert_eq!((w.count("delete", MAPS), w.count("get", MAPS)), (51, 0));
}

/// GC-20, GC-21.
#[tokio::test(start_paused = true)]
async fn an_object_with_a_living_owner_stays_and_loses_its_references_to_dead_ones() {
    let w = with_collector().await;
    let (a, b) = (create_map(&w, "a", &[]).await, create_map(&w, "b", &[]).await);
    create_map(&w, "c", &[&a, &b]).await;
    w.settle().await;
    delete_map_and_settle(&w, "a", "Background").await;
    assert_eq!(maps(&w).await, ["b", "c"]);
    assert_eq!(owner_names(&w.get(MAPS, "c").await), ["b"]);
    delete_map_and_settle(&w, "b", "Background").await;
    assert_eq!(maps(&w).await, [""; 0]);
}

/// GC-35.
#[tokio::test(start_paused = true)]
async fn a_cycle_stays_until_one_of_its_objects_is_deleted() {
    let w = with_collector().await;
    let a = create_map(&w, "a", &[]).await;
    let b = create_map(&w, "b", &[&a]).await;
    w.patch_and_settle(MAPS, "a", json!({"metadata": {"ownerReferences": [reference(&b, false)]}})).await;
    assert_eq!(maps(&w).await, ["a", "b"]);
    delete_map_and_settle(&w, "a", "Background").await;
    assert_eq!(maps(&w).await, [""; 0]);
}

/// GC-26, GC-34.
#[tokio::test(start_paused = true)]
async fn an_owner_recreated_under_its_name_does_not_keep_old_dependents() {
    let mut w = with_collector().await;
    let a = create_map(&w, "a", &[]).await;
    create_map(&w, "b", &[&a]).await;
    w.settle().await;
    w.crash();
    delete_map(&w, "a", "Background").await;
    let a = create_map(&w, "a", &[]).await;
    create_map(&w, "c", &[&a]).await;
    w.start();
    w.settle().await;
    assert_eq!(maps(&w).await, ["a", "c"]);
}

/// GC-34.
#[tokio::test(start_paused = true)]
async fn dependents_of_owners_deleted_while_no_collector_ran_are_collected() {
    let mut w = without_collector().await;
    let a = create_map(&w, "a", &[]).await;
    let b = create_map(&w, "b", &[&a]).await;
    create_map(&w, "c", &[&b]).await;
    delete_map(&w, "a", "Background").await;
    w.start();
    w.settle().await;
    assert_eq!(maps(&w).await, [""; 0]);
}

/// GC-24, GC-78.
#[tokio::test(start_paused = true)]
async fn an_object_that_gets_an_owner_at_the_last_moment_stays() {
    let w = with_collector().await;
    let (a, b) = (create_map(&w, "a", &[]).await, create_map(&w, "b", &[]).await);
    let c = create_map(&w, "c", &[&a]).await;
    w.settle().await;
    // While the watch is held, the collector's cache of ConfigMaps is stale.
    w.hold(MAPS);
    w.patch(MAPS, "c", json!({"metadata": {"ownerReferences": [reference(&a, false), reference(&b, false)]}})).await;
    delete_map(&w, "a", "Background").await;
    w.release(MAPS);
    w.settle().await;
    assert_eq!(maps(&w).await, ["b", "c"]);
    assert_eq!(w.get(MAPS, "c").await["metadata"]["uid"], c["metadata"]["uid"]);
}

/// GC-26.
#[tokio::test(start_paused = true)]
async fn a_delayed_watch_of_owners_deletes_no_dependent_of_an_existing_owner() {
    let w = with_collector().await;
    w.hold("secrets");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": NAMESPACE}});
    let secret = w.create(secret).await;
    w.create_and_settle(map("c", &[reference(&secret, false)])).await;
    assert_eq!(maps(&w).await, ["c"]);
    w.delete_and_settle("secrets", "s").await;
    w.release("secrets");
    w.wait(120).await;
    w.settle().await;
    assert_eq!(maps(&w).await, [""; 0]);
}

/// GC-72.
#[tokio::test(start_paused = true)]
async fn a_collector_that_is_switched_off_sends_no_requests() {
    let mut w = cluster().tunable(gc_controller::ENABLE_GARBAGE_COLLECTOR.name, false).stopped().await;
    let a = create_map(&w, "a", &[]).await;
    create_map(&w, "b", &[&a]).await;
    delete_map(&w, "a", "Background").await;
    w.clear_log();
    w.start();
    w.settle().await;
    assert_eq!(maps(&w).await, ["b"]);
    assert_eq!(w.count_all(), 0);
    assert!(w.loops().explain(None)[0]["off"].is_string());
}
