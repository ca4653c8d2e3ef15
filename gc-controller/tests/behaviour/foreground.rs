//! Foreground deletion: dependents are deleted before their owner.

use serde_json::json;

use crate::world::{NAMESPACE, World, owners};

/// GC-47.
#[tokio::test(start_paused = true)]
async fn a_tree_is_deleted_from_its_leaves() {
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    let b = w.blocking_map("b", &[&a]).await;
    w.blocking_map("c", &[&b]).await;
    w.settle().await;
    w.reset_counters();
    w.delete_map("a", "Foreground").await;
    w.settle().await;
    assert_eq!(w.removed_objects(), ["c", "b", "a"]);
}

/// GC-48.
#[tokio::test(start_paused = true)]
async fn a_dependent_that_does_not_block_is_deleted_without_delaying_its_owner() {
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    let b = w.map("b", &[&a]).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    w.sandbox.merge("configmaps", Some(NAMESPACE), "b", None, hold).await.unwrap();
    w.settle().await;
    w.delete_map("a", "Foreground").await;
    w.settle().await;
    assert_eq!(w.maps().await, ["b"]);
    assert!(!w.get("b").await["metadata"]["deletionTimestamp"].is_null(), "{b}");
}

/// GC-49.
#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_a_dependent_with_a_foreign_finalizer() {
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    w.blocking_map("b", &[&a]).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    w.sandbox.merge("configmaps", Some(NAMESPACE), "b", None, hold).await.unwrap();
    w.settle().await;
    w.delete_map("a", "Foreground").await;
    w.settle().await;
    assert_eq!(w.maps().await, ["a", "b"]);
    let release = json!({"metadata": {"finalizers": null}});
    w.sandbox.merge("configmaps", Some(NAMESPACE), "b", None, release).await.unwrap();
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
}

/// GC-50.
#[tokio::test(start_paused = true)]
async fn a_dependent_with_another_owner_stays_and_stops_blocking() {
    let w = World::new().await;
    let (a, p) = (w.map("a", &[]).await, w.map("p", &[]).await);
    w.blocking_map("d", &[&a, &p]).await;
    w.settle().await;
    w.delete_map("a", "Foreground").await;
    w.settle().await;
    assert_eq!(w.maps().await, ["d", "p"]);
    assert_eq!(owners(&w.get("d").await), ["p"]);
}

/// GC-51.
#[tokio::test(start_paused = true)]
async fn a_cycle_of_blocking_owners_is_broken() {
    let w = World::new().await;
    w.create_cycle().await;
    w.delete_map("a", "Foreground").await;
    w.settle().await;
    w.wait(600).await;
    assert_eq!(w.maps().await, [""; 0]);
}

/// GC-62.
#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_that_began_before_the_collector_started_finishes() {
    let mut w = World::without_collector().await;
    let a = w.map("a", &[]).await;
    w.blocking_map("b", &[&a]).await;
    w.delete_map("a", "Foreground").await;
    w.start();
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
}

/// GC-52.
#[tokio::test(start_paused = true)]
async fn an_owner_of_many_dependents_is_read_once_after_the_last_is_deleted() {
    const MANY: u64 = 1000;
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    for n in 0..MANY {
        w.blocking_map(&format!("b{n}"), &[&a]).await;
    }
    w.settle().await;
    w.reset_counters();
    w.delete_map("a", "Foreground").await;
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
    assert_eq!(w.removed_objects().last().map(String::as_str), Some("a"));
    assert_eq!((w.request_count("delete", "configmaps"), w.request_count("patch", "configmaps")), (MANY, 1));
    // One read for each dependent shows that its owner waits, and one read precedes the removal of the finalizer.
    let reads = w.request_count("get", "configmaps");
    assert!(reads <= MANY + 1, "{reads} reads");
}
