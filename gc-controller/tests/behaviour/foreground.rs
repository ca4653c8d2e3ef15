//! Foreground deletion: dependents are deleted before their owner.

use crate::world::*;

/// GC-47.
#[tokio::test(start_paused = true)]
async fn a_tree_is_deleted_from_its_leaves() {
    let w = with_collector().await;
    let a = create_map(&w, "a", &[]).await;
    let b = create_blocking_map(&w, "b", &[&a]).await;
    create_blocking_map(&w, "c", &[&b]).await;
    w.settle().await;
    w.clear_log();
    delete_map_and_settle(&w, "a", "Foreground").await;
    assert_eq!(removed_objects(&w), ["c", "b", "a"]);
}

/// GC-48.
#[tokio::test(start_paused = true)]
async fn a_dependent_that_does_not_block_is_deleted_without_delaying_its_owner() {
    let w = with_collector().await;
    let a = create_map(&w, "a", &[]).await;
    let b = create_map(&w, "b", &[&a]).await;
    w.patch_and_settle(MAPS, "b", json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    delete_map_and_settle(&w, "a", "Foreground").await;
    assert_eq!(maps(&w).await, ["b"]);
    assert!(!w.get(MAPS, "b").await["metadata"]["deletionTimestamp"].is_null(), "{b}");
}

/// GC-49.
#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_a_dependent_with_a_foreign_finalizer() {
    let w = with_collector().await;
    let a = create_map(&w, "a", &[]).await;
    create_blocking_map(&w, "b", &[&a]).await;
    w.patch_and_settle(MAPS, "b", json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    delete_map_and_settle(&w, "a", "Foreground").await;
    assert_eq!(maps(&w).await, ["a", "b"]);
    w.patch_and_settle(MAPS, "b", json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(maps(&w).await, [""; 0]);
}

/// GC-50.
#[tokio::test(start_paused = true)]
async fn a_dependent_with_another_owner_stays_and_stops_blocking() {
    let w = with_collector().await;
    let (a, p) = (create_map(&w, "a", &[]).await, create_map(&w, "p", &[]).await);
    create_blocking_map(&w, "d", &[&a, &p]).await;
    w.settle().await;
    delete_map_and_settle(&w, "a", "Foreground").await;
    assert_eq!(maps(&w).await, ["d", "p"]);
    assert_eq!(owner_names(&w.get(MAPS, "d").await), ["p"]);
}

/// GC-51.
#[tokio::test(start_paused = true)]
async fn a_cycle_of_blocking_owners_is_broken() {
    let w = with_collector().await;
    create_cycle(&w).await;
    delete_map_and_settle(&w, "a", "Foreground").await;
    w.wait(600).await;
    assert_eq!(maps(&w).await, [""; 0]);
}

/// GC-62.
#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_that_began_before_the_collector_started_finishes() {
    let mut w = without_collector().await;
    let a = create_map(&w, "a", &[]).await;
    create_blocking_map(&w, "b", &[&a]).await;
    delete_map(&w, "a", "Foreground").await;
    w.start();
    w.settle().await;
    assert_eq!(maps(&w).await, [""; 0]);
}

/// GC-52.
#[tokio::test(start_paused = true)]
async fn an_owner_of_many_dependents_is_read_once_after_the_last_is_deleted() {
    const MANY: u64 = 1000;
    let w = with_collector().await;
    let a = create_map(&w, "a", &[]).await;
    for n in 0..MANY {
        create_blocking_map(&w, &format!("b{n}"), &[&a]).await;
    }
    w.settle().await;
    w.clear_log();
    delete_map_and_settle(&w, "a", "Foreground").await;
    assert_eq!(maps(&w).await, [""; 0]);
    assert_eq!(removed_objects(&w).last().map(String::as_str), Some("a"));
    assert_eq!((w.count("delete", MAPS), w.count("patch", MAPS)), (MANY, 1));
    // One read for each dependent shows that its owner waits, and one read precedes the removal of the finalizer.
    let reads = w.count("get", MAPS);
    assert!(reads <= MANY + 1, "{reads} reads");
}
