//! Deletion in the foreground: dependents go first.

use serde_json::json;

use crate::world::{NS, World, owners};

#[tokio::test(start_paused = true)]
async fn a_tree_goes_from_its_leaves() {
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    let b = w.blocking_map("b", &[&a]).await;
    w.blocking_map("c", &[&b]).await;
    w.settle().await;
    w.forget();
    w.remove("a", "Foreground").await;
    w.settle().await;
    assert_eq!(w.ended(), ["c", "b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_dependent_that_does_not_block_goes_and_is_not_waited_for() {
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    let b = w.map("b", &[&a]).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    w.sandbox.merge("configmaps", Some(NS), "b", None, hold).await.unwrap();
    w.settle().await;
    w.remove("a", "Foreground").await;
    w.settle().await;
    assert_eq!(w.maps().await, ["b"]);
    assert!(!w.get("b").await["metadata"]["deletionTimestamp"].is_null(), "{b}");
}

#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_a_dependent_with_a_finalizer_of_somebody_else() {
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    w.blocking_map("b", &[&a]).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    w.sandbox.merge("configmaps", Some(NS), "b", None, hold).await.unwrap();
    w.settle().await;
    w.remove("a", "Foreground").await;
    w.settle().await;
    assert_eq!(w.maps().await, ["a", "b"]);
    let release = json!({"metadata": {"finalizers": null}});
    w.sandbox.merge("configmaps", Some(NS), "b", None, release).await.unwrap();
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_dependent_that_somebody_else_owns_as_well_stays_and_unblocks() {
    let w = World::new().await;
    let (a, p) = (w.map("a", &[]).await, w.map("p", &[]).await);
    w.blocking_map("d", &[&a, &p]).await;
    w.settle().await;
    w.remove("a", "Foreground").await;
    w.settle().await;
    assert_eq!(w.maps().await, ["d", "p"]);
    assert_eq!(owners(&w.get("d").await), ["p"]);
}

#[tokio::test(start_paused = true)]
async fn a_cycle_of_blocking_owners_is_broken() {
    let w = World::new().await;
    w.cycle().await;
    w.remove("a", "Foreground").await;
    w.settle().await;
    w.wait(600).await;
    assert_eq!(w.maps().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_was_going_when_the_collector_started_goes_on() {
    let mut w = World::idle().await;
    let a = w.map("a", &[]).await;
    w.blocking_map("b", &[&a]).await;
    w.remove("a", "Foreground").await;
    w.start();
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_many_is_looked_at_when_the_last_of_them_has_gone() {
    const MANY: u64 = 1000;
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    for n in 0..MANY {
        w.blocking_map(&format!("b{n}"), &[&a]).await;
    }
    w.settle().await;
    w.forget();
    w.remove("a", "Foreground").await;
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
    assert_eq!(w.ended().last().map(String::as_str), Some("a"));
    assert_eq!((w.asked("delete", "configmaps"), w.asked("patch", "configmaps")), (MANY, 1));
    // For each dependent, to see that its owner waits, and once to finish.
    let reads = w.asked("get", "configmaps");
    assert!(reads <= MANY + 1, "{reads} reads");
}
