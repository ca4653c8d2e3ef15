//! Servers that fail, and kinds that cannot be watched.

use std::time::Duration;

use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{CONTROLLER_IDENTITY, NAMESPACE, World, map, reference};

/// GC-10, GC-31, GC-63, GC-80.
#[tokio::test(start_paused = true)]
async fn a_resource_that_cannot_be_watched_delays_no_other_and_is_reported() {
    let mut w = World::without_collector().await;
    let (a, secret) = (
        w.map("a", &[]).await,
        w.create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": NAMESPACE}}))
            .await,
    );
    w.map("b", &[&a]).await;
    w.create(map("c", &[reference(&secret, false)])).await;
    for verb in ["list", "watch"] {
        w.sandbox
            .faults()
            .add(Rule::new(Action::InternalError).identity(CONTROLLER_IDENTITY).verb(verb).resource("secrets"));
    }
    w.start();
    w.wait(5).await;
    let waiting = w.loops.as_ref().unwrap().ready().unwrap_err();
    assert!(waiting.contains("secrets"), "{waiting}");
    w.wait(60).await;
    w.loops.as_ref().unwrap().ready().unwrap();
    w.delete_map("a", "Background").await;
    w.sandbox.delete("secrets", Some(NAMESPACE), "s").await.unwrap();
    w.settle().await;
    assert_eq!(w.maps().await, ["c"], "an object waits while the objects of its owner's kind are unknown");
    let text = w.loops.as_ref().unwrap().metrics().render_prometheus();
    assert!(text.contains("nonet_gc_resource_failing{group=\"\",resource=\"secrets\"} 1"), "{text}");
    assert!(text.contains("nonet_gc_resource_failing{group=\"\",resource=\"configmaps\"} 0"), "{text}");
    w.wait(120).await;
    w.running().ready().unwrap();
    let troubles = w.running().troubles().join("\n");
    assert!(troubles.contains("no list or watch of secrets"), "a resource that stays broken is reported: {troubles}");
    w.sandbox.faults().clear();
    w.wait(120).await;
    w.settle().await;
    assert_eq!(w.running().troubles(), [""; 0]);
    assert_eq!(w.maps().await, [""; 0]);
}

/// GC-68.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_delete_does_no_harm() {
    let w = World::new().await;
    let a = w.map("a", &[]).await;
    for n in 0..5 {
        w.map(&format!("b{n}"), &[&a]).await;
    }
    w.settle().await;
    for action in [Action::CutAfter, Action::CutBefore, Action::Conflict, Action::InternalError, Action::Unavailable] {
        w.sandbox
            .faults()
            .add(Rule::new(action).identity(CONTROLLER_IDENTITY).verb("delete").resource("configmaps").times(2));
    }
    w.delete_map("a", "Background").await;
    w.settle().await;
    w.wait(120).await;
    assert_eq!(w.maps().await, [""; 0]);
}

/// GC-88.
#[tokio::test(start_paused = true)]
async fn a_finalizer_is_removed_at_the_fourth_attempt_after_three_conflicts() {
    let w = World::new().await;
    w.map("a", &[]).await;
    w.settle().await;
    let conflicts = Rule::new(Action::Conflict).identity(CONTROLLER_IDENTITY).verb("patch").resource("configmaps");
    w.sandbox.faults().add(conflicts.times(3));
    w.reset_counters();
    w.delete_map("a", "Foreground").await;
    // The pauses of 10, 50 and 250 ms are up to a tenth longer.
    w.clock.sleep(Duration::from_millis(300)).await;
    assert_eq!((w.maps().await.len(), w.request_count("patch", "configmaps")), (1, 3));
    w.clock.sleep(Duration::from_millis(200)).await;
    assert_eq!((w.maps().await.len(), w.request_count("patch", "configmaps")), (0, 4));
}

/// GC-28.
#[tokio::test(start_paused = true)]
async fn an_owner_that_cannot_be_read_does_not_count_as_deleted() {
    let w = World::new().await;
    let mut owner = map("a", &[]);
    owner["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let a = w.create(owner).await;
    w.blocking_map("b", &[&a]).await;
    w.settle().await;
    w.sandbox
        .faults()
        .add(Rule::new(Action::InternalError).identity(CONTROLLER_IDENTITY).verb("get").resource("configmaps"));
    w.delete_map("a", "Foreground").await;
    w.wait(600).await;
    assert_eq!(w.maps().await, ["a", "b"]);
    w.sandbox.faults().clear();
    w.wait(1200).await;
    assert_eq!(w.maps().await, ["a"]);
}

/// GC-1.
#[tokio::test(start_paused = true)]
async fn failed_discovery_is_retried() {
    let mut w = World::without_collector().await;
    let a = w.map("a", &[]).await;
    w.map("b", &[&a]).await;
    w.delete_map("a", "Background").await;
    w.sandbox.faults().go_down_for(Duration::from_secs(20));
    w.start();
    w.wait(10).await;
    w.loops.as_ref().unwrap().ready().unwrap_err();
    w.wait(120).await;
    w.settle().await;
    assert_eq!(w.maps().await, [""; 0]);
}

/// GC-64.
#[tokio::test(start_paused = true)]
async fn the_collector_is_not_ready_when_nothing_can_be_watched_or_discovered() {
    let w = World::new().await;
    w.running().ready().unwrap();
    w.sandbox.faults().go_down();
    w.wait(60).await;
    w.running().ready().unwrap();
    w.wait(240).await;
    let lost = w.running().ready().unwrap_err();
    assert!(lost.contains("discovery"), "{lost}");
    w.sandbox.faults().come_up();
    w.wait(120).await;
    w.running().ready().unwrap();
    for verb in ["list", "watch"] {
        w.sandbox.faults().add(Rule::new(Action::InternalError).identity(CONTROLLER_IDENTITY).verb(verb));
    }
    w.sandbox.faults().add(Rule::new(Action::CutWatch).identity(CONTROLLER_IDENTITY));
    w.wait(300).await;
    let lost = w.running().ready().unwrap_err();
    assert!(lost.contains("no list or watch of") && lost.contains("more)"), "{lost}");
}

/// GC-10, GC-74.
#[tokio::test(start_paused = true)]
async fn a_timeout_of_first_full_sets_is_counted_once() {
    const ERRORS: &str = "garbagecollector_controller_resources_sync_error_total";
    let mut w = World::without_collector().await;
    for verb in ["list", "watch"] {
        w.sandbox
            .faults()
            .add(Rule::new(Action::InternalError).identity(CONTROLLER_IDENTITY).verb(verb).resource("secrets"));
    }
    w.start();
    w.wait(20).await;
    assert_eq!(w.metric(ERRORS), 0);
    w.wait(600).await;
    assert_eq!(w.metric(ERRORS), 1);
    w.create(crate::custom::definition("Namespaced")).await;
    w.wait(600).await;
    assert_eq!(w.metric(ERRORS), 2, "a new resource cannot be read either");
    w.sandbox.faults().clear();
    w.wait(120).await;
    w.sandbox.delete("customresourcedefinitions.apiextensions.k8s.io", None, "widgets.example.com").await.unwrap();
    w.wait(120).await;
    assert_eq!(w.metric(ERRORS), 2, "all remaining sets are complete");
}
