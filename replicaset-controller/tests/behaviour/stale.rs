//! Syncs on stale caches, while the sandbox holds back or breaks the watches.

use std::time::Duration;

use common::settings::{Settings, TuneValue};
use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{ME, RCS, SETS, Setup, World, rc, set};

/// REPLICASET-40, REPLICASET-64, REPLICASET-72, REPLICASET-73.
#[tokio::test(start_paused = true)]
async fn no_pod_is_created_twice_while_the_cache_is_stale() {
    for gate in [true, false] {
        let settings = Settings::new().with_gate("StaleControllerConsistencyReplicaSet", gate);
        let world = World::with(Setup { settings, ..Setup::default() }).await;
        world.sandbox.faults().hold_watch(ME, "pods");
        world.apply(set("web", 3)).await;
        for _ in 0..20 {
            world.wait(1).await;
            world.poke(SETS, "web").await;
        }
        assert_eq!((world.asked("create", "pods"), world.active().await.len()), (3, 3));
        let text = world.loops.as_ref().unwrap().metrics().prometheus();
        let counted = text.contains("replicaset_controller_stale_sync_skips_total{group=\"\",resource=\"pods\"}");
        assert_eq!(counted, gate);
        world.sandbox.faults().release_watch(ME, "pods");
        world.settle().await;
        assert_eq!((world.asked("create", "pods"), world.peak()), (3, 3));
        assert_eq!(world.get(SETS, "web").await["status"]["readyReplicas"], 3);
    }
}

/// REPLICASET-41, REPLICASET-73.
#[tokio::test(start_paused = true)]
async fn no_pod_is_deleted_twice_while_the_cache_is_stale() {
    let world = World::new().await;
    world.apply(set("web", 5)).await;
    world.settle().await;
    world.sandbox.faults().hold_watch(ME, "pods");
    world.forget();
    world.scale("web", 3).await;
    for _ in 0..20 {
        world.wait(1).await;
        world.poke(SETS, "web").await;
    }
    assert_eq!((world.asked("delete", "pods"), world.active().await.len()), (2, 3));
    world.scale("web", 5).await;
    world.wait(20).await;
    assert_eq!(world.asked("create", "pods"), 0);
    world.sandbox.faults().release_watch(ME, "pods");
    world.settle().await;
    assert_eq!((world.active().await.len(), world.asked("create", "pods")), (5, 2));
}

/// REPLICASET-60.
#[tokio::test(start_paused = true)]
async fn a_replication_controller_does_not_act_on_stale_caches() {
    let world = World::new().await;
    world.sandbox.faults().delay_watch(ME, "pods", Duration::from_secs(3));
    world.sandbox.faults().delay_watch(ME, "replicationcontrollers", Duration::from_secs(5));
    world.apply(rc("old", 4)).await;
    for _ in 0..30 {
        world.wait(1).await;
        world.poke(RCS, "old").await;
    }
    assert_eq!((world.asked("create", "pods"), world.active().await.len()), (4, 4));
    world.merge(RCS, "old", json!({"spec": {"replicas": 1}})).await;
    world.wait(60).await;
    assert_eq!((world.asked("delete", "pods"), world.active().await.len()), (3, 1));
}

/// REPLICASET-43.
#[tokio::test(start_paused = true)]
async fn a_set_waits_at_most_for_the_expectations_timeout() {
    let settings = Settings::new().with_tune("expectations-timeout", TuneValue::Duration(Duration::from_secs(10)));
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    world.apply(set("web", 1)).await;
    world.settle().await;
    world.sandbox.faults().hold_watch(ME, "pods");
    world.scale("web", 2).await;
    world.wait(8).await;
    assert_eq!(world.active().await.len(), 2);
    world.wait(8).await;
    assert_eq!(world.active().await.len(), 3, "after the timeout the set acts on the stale cache");
    world.sandbox.faults().release_watch(ME, "pods");
    world.settle().await;
    assert_eq!(world.active().await.len(), 2);
}

/// REPLICASET-45.
#[tokio::test(start_paused = true)]
async fn a_set_reaches_its_size_after_any_failure_of_a_watch() {
    for action in [Action::CloseWatch, Action::CutWatch, Action::Garbage, Action::HalfLine, Action::ExpireWatch] {
        let world = World::new().await;
        for resource in ["pods", "replicasets"] {
            let rule = Rule::new(action.clone()).identity(ME).verb("watch").resource(resource).skip(3);
            world.sandbox.faults().add(rule.times(3));
        }
        world.apply(set("web", 20)).await;
        world.wait(120).await;
        world.scale("web", 7).await;
        world.wait(120).await;
        world.settle().await;
        assert_eq!((world.active().await.len(), world.peak()), (7, 20), "{action:?}");
        assert_eq!((world.asked("create", "pods"), world.asked("delete", "pods")), (20, 13), "{action:?}");
        assert_eq!(world.get(SETS, "web").await["status"]["readyReplicas"], 7, "{action:?}");
    }
}
