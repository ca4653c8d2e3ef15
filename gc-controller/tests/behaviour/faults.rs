//! Servers that fail, and kinds that cannot be watched.

use crate::{
    custom::{create_definition, delete_definition},
    world::*,
};

/// GC-10, GC-31, GC-63, GC-80.
#[tokio::test(start_paused = true)]
async fn a_resource_that_cannot_be_watched_delays_no_other_and_is_reported() {
    let mut w = without_collector().await;
    create_graph(&w, "a; b: a", "ConfigMap").await;
    let secret = w.create(secret(&[])).await;
    w.create(map("c", &[reference(&secret, false)])).await;
    fail(&w, &Action::InternalError, "secrets");
    w.start();
    w.wait(5).await;
    let waiting = w.loops().ready().unwrap_err();
    assert!(waiting.contains("secrets"), "{waiting}");
    w.wait(60).await;
    w.loops().ready().unwrap();
    delete_map(&w, "a", "Background").await;
    w.delete_and_settle("secrets", "s").await;
    assert_eq!(maps(&w).await, ["c"], "an object waits while the objects of its owner's kind are unknown");
    let failing = |resource| w.metric(&format!("nonet_gc_resource_failing{{group=\"\",resource=\"{resource}\"}}"));
    assert_eq!((failing("secrets"), failing(MAPS)), (1, 0));
    w.wait(120).await;
    w.loops().ready().unwrap();
    let troubles = w.loops().troubles().join("\n");
    assert!(troubles.contains("no list or watch of secrets"), "a resource that stays broken is reported: {troubles}");
    w.clear_faults();
    w.wait(120).await;
    w.settle().await;
    assert_eq!(w.loops().troubles(), [""; 0]);
    assert_eq!(graph(&w).await, "");
}

/// GC-68.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_delete_does_no_harm() {
    let w = collector_with("a; b0: a; b1: a; b2: a; b3: a; b4: a").await;
    for action in [Action::CutAfter, Action::CutBefore, Action::Conflict, Action::InternalError, Action::Unavailable] {
        w.fault(rule(action, "delete", MAPS).times(2));
    }
    delete_map_and_settle(&w, "a", "Background").await;
    w.wait(120).await;
    assert_eq!(graph(&w).await, "");
}

/// GC-88.
#[tokio::test(start_paused = true)]
async fn a_finalizer_is_removed_at_the_fourth_attempt_after_three_conflicts() {
    let w = collector_with("a").await;
    w.fault(rule(Action::Conflict, "patch", MAPS).times(3));
    delete_map(&w, "a", "Foreground").await;
    // The pauses of 10, 50 and 250 ms are up to a tenth longer.
    w.wait(0.3).await;
    assert_eq!((maps(&w).await.len(), w.count("patch", MAPS)), (1, 3));
    w.wait(0.2).await;
    assert_eq!((maps(&w).await.len(), w.count("patch", MAPS)), (0, 4));
}

/// GC-28.
#[tokio::test(start_paused = true)]
async fn an_owner_that_cannot_be_read_does_not_count_as_deleted() {
    let w = collector_with("a: held; b: a!").await;
    w.fault(rule(Action::InternalError, "get", MAPS));
    delete_map(&w, "a", "Foreground").await;
    w.wait(600).await;
    assert_eq!(maps(&w).await, ["a", "b"]);
    w.clear_faults();
    w.wait(1200).await;
    assert_eq!(maps(&w).await, ["a"]);
}

/// GC-1.
#[tokio::test(start_paused = true)]
async fn failed_discovery_is_retried() {
    let mut w = without_collector().await;
    create_graph(&w, "a; b: a", "ConfigMap").await;
    delete_map(&w, "a", "Background").await;
    w.sandbox.faults().go_down_for(Duration::from_secs(20));
    w.start();
    w.wait(10).await;
    w.loops().ready().unwrap_err();
    w.wait(120).await;
    w.settle().await;
    assert_eq!(graph(&w).await, "");
}

/// GC-64.
#[tokio::test(start_paused = true)]
async fn the_collector_is_not_ready_when_nothing_can_be_watched_or_discovered() {
    let w = with_collector().await;
    w.loops().ready().unwrap();
    w.sandbox.faults().go_down();
    w.wait(60).await;
    w.loops().ready().unwrap();
    w.wait(240).await;
    let lost = w.loops().ready().unwrap_err();
    assert!(lost.contains("discovery"), "{lost}");
    w.sandbox.faults().come_up();
    w.wait(120).await;
    w.loops().ready().unwrap();
    fail(&w, &Action::InternalError, "");
    w.fault(rule(Action::CutWatch, "", ""));
    w.wait(300).await;
    let lost = w.loops().ready().unwrap_err();
    assert!(lost.contains("no list or watch of") && lost.contains("more)"), "{lost}");
}

/// GC-10, GC-74.
#[tokio::test(start_paused = true)]
async fn a_timeout_of_first_full_sets_is_counted_once() {
    const ERRORS: &str = "garbagecollector_controller_resources_sync_error_total";
    let mut w = without_collector().await;
    fail(&w, &Action::InternalError, "secrets");
    w.start();
    w.wait(20).await;
    assert_eq!(w.metric(ERRORS), 0);
    w.wait(600).await;
    assert_eq!(w.metric(ERRORS), 1);
    create_definition(&w, "Namespaced").await;
    w.wait(600).await;
    assert_eq!(w.metric(ERRORS), 2, "a new resource cannot be read either");
    w.clear_faults();
    w.wait(120).await;
    delete_definition(&w).await;
    w.wait(120).await;
    assert_eq!(w.metric(ERRORS), 2, "all remaining sets are complete");
}
