//! Lost answers, refusals, stale caches.

use std::time::Duration;

use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{CLAIMS, ME, REVISIONS, SETS, World, claims, set};

#[tokio::test(start_paused = true)]
async fn answers_that_are_lost_make_nothing_twice() {
    for (verb, resource) in [
        ("create", "pods"),
        ("create", CLAIMS),
        ("create", "controllerrevisions"),
        ("patch", "statefulsets/status"),
        ("patch", CLAIMS),
    ] {
        for lost in [Action::CutBefore, Action::CutAfter] {
            let world = World::new().await;
            let rule = Rule::new(lost.clone()).identity(ME).verb(verb).resource(resource).times(1);
            world.sandbox.faults().add(rule);
            world.apply(set(2, claims("Delete", "Retain"))).await;
            world.wait(30).await;
            let status = world.status().await;
            assert_eq!(status["readyReplicas"], 2, "{verb} {resource} {lost:?}");
            assert_eq!(status["collisionCount"], 0);
            assert_eq!(world.names(REVISIONS).await.len(), 1);
            let mut created = world.done();
            created.retain(|done| done.starts_with('+'));
            assert_eq!(created, ["+data-web-0", "+web-0", "+data-web-1", "+web-1"], "{verb} {resource} {lost:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_pod_is_told_of_and_tried_again() {
    let world = World::new().await;
    world.sandbox.faults().add(Rule::new(Action::Invalid).identity(ME).verb("create").resource("pods"));
    world.apply(set(2, json!({}))).await;
    world.wait(20).await;
    assert!(world.told("Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: ").await);
    assert_eq!(world.status().await["observedGeneration"], 1, "the status is written all the same");
    let tries = world.asked("create", "pods");
    assert!((5..=14).contains(&tries), "it backs off: {tries}");
    world.sandbox.faults().clear();
    world.wait(60).await;
    assert_eq!(world.status().await["readyReplicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_told_of_and_nothing_else_goes() {
    let world = World::new().await;
    world.apply(set(3, json!({}))).await;
    world.settle().await;
    world.sandbox.faults().add(Rule::new(Action::InternalError).identity(ME).verb("delete").resource("pods"));
    world.roll_out("img:2", json!({})).await;
    world.wait(20).await;
    assert!(world.told("Warning FailedDelete Delete Pod web-2 in StatefulSet web failed error: ").await);
    let status = world.status().await;
    assert_eq!((&status["currentReplicas"], world.names("pods").await.len()), (&json!(3), 3));
    world.sandbox.faults().clear();
    world.wait(60).await;
    assert!(world.images().await.iter().all(|image| image.ends_with("img:2")));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_done_on_a_cache_that_lags() {
    for held in ["pods", "controllerrevisions", "statefulsets"] {
        let world = World::new().await;
        world.apply(set(3, claims("Delete", "Delete"))).await;
        world.settle().await;
        world.forget();
        world.sandbox.faults().hold_watch(ME, held);
        world.roll_out("img:2", json!({})).await;
        for n in 0..20 {
            world.wait(1).await;
            world.merge(SETS, "web", json!({"metadata": {"annotations": {"poke": n.to_string()}}})).await;
        }
        assert!(world.asked("delete", "pods") <= 1, "{held}: {:?}", world.done());
        assert!(world.asked("create", "pods") <= 1 && world.asked("create", REVISIONS) <= 1, "{held}");
        world.sandbox.faults().release_watch(ME, held);
        world.settle().await;
        assert_eq!((world.asked("create", "pods"), world.asked("delete", "pods")), (3, 3), "{held}");
        assert!(world.images().await.iter().all(|image| image.ends_with("img:2")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_cache_costs_time_and_nothing_else() {
    let world = World::new().await;
    for plural in ["pods", CLAIMS, "statefulsets", "controllerrevisions"] {
        world.sandbox.faults().delay_watch(ME, plural, Duration::from_secs(3));
    }
    world.apply(set(3, claims("Delete", "Retain"))).await;
    world.wait(120).await;
    assert_eq!(world.status().await["readyReplicas"], 3);
    assert_eq!((world.asked("create", "pods"), world.asked("create", CLAIMS)), (3, 3));
    assert_eq!(world.asked("create", REVISIONS), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_its_name_that_is_another_controllers_is_never_touched() {
    let world = World::new().await;
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs-uid", "controller": true}]);
    world
        .apply(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-0", "namespace": "shop", "labels": {"app": "web"}, "ownerReferences": owner},
            "spec": {"containers": [{"name": "c", "image": "img:0"}]}}))
        .await;
    world.forget();
    world.apply(set(1, json!({}))).await;
    world.wait(60).await;
    assert_eq!(world.done(), Vec::<String>::new());
    assert_eq!(world.images().await, ["web-0 img:0"]);
    assert!(!world.told("Warning").await, "{:#?}", world.events().await);
    assert!(world.explain()["lastError"]["error"].as_str().unwrap().contains("already exists"), "{}", world.explain());
}

#[tokio::test(start_paused = true)]
async fn a_set_at_rest_is_left_alone() {
    let world = World::new().await;
    world.apply(set(3, claims("Delete", "Delete"))).await;
    world.settle().await;
    world.forget();
    world.wait(100_000).await;
    assert!(world.written().is_empty(), "{:?}", world.written());
}
