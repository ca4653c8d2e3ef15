//! Content and time of status writes.

use std::time::Duration;

use common::settings::Settings;
use sandbox::Sandbox;
use serde_json::json;

use crate::world::{ME, NS, RCS, SETS, Setup, World, rc, set};

const STATUS: &str = "replicasets.apps/status";

/// REPLICASET-36, REPLICASET-56.
#[tokio::test(start_paused = true)]
async fn pods_become_available_on_time() {
    let world = World::new().await;
    let mut web = set("web", 3);
    web["spec"]["minReadySeconds"] = json!(30);
    world.apply(web).await;
    world.wait(29).await;
    let status = world.get(SETS, "web").await["status"].clone();
    assert_eq!((&status["readyReplicas"], &status["availableReplicas"]), (&json!(3), &json!(null)));
    let told = world.loops.as_ref().unwrap().explain(Some("shop/web"));
    assert_eq!(told[0]["waiting"], json!(["3 ready Pods are not available yet, the next in 1s"]));
    world.wait(2).await;
    assert_eq!(world.get(SETS, "web").await["status"]["availableReplicas"], 3);
    world.forget();
    world.wait(600).await;
    assert!(world.written().is_empty());
}

/// REPLICASET-31, REPLICASET-63.
#[tokio::test(start_paused = true)]
async fn terminating_pods_are_counted_if_the_gate_is_on() {
    for (gate, then) in [(true, json!(2)), (false, json!(null))] {
        let settings = Settings::new().with_gate("DeploymentReplicaSetTerminatingReplicas", gate);
        let world = World::with(Setup { settings, ..Setup::default() }).await;
        let mut web = set("web", 3);
        web["spec"]["template"]["metadata"]["annotations"] = json!({"sim/terminate-after": "20"});
        world.apply(web).await;
        world.settle().await;
        world.scale("web", 1).await;
        world.settle().await;
        let status = world.get(SETS, "web").await["status"].clone();
        assert_eq!((&status["replicas"], &status["terminatingReplicas"]), (&json!(1), &then));
        world.wait(30).await;
        let after = if gate { json!(0) } else { json!(null) };
        assert_eq!(world.get(SETS, "web").await["status"]["terminatingReplicas"], after);
    }
}

/// REPLICASET-59.
#[tokio::test(start_paused = true)]
async fn a_replication_controller_has_no_count_of_terminating_pods() {
    let world = World::new().await;
    let mut old = rc("old", 2);
    old["spec"]["template"]["metadata"]["annotations"] = json!({"sim/terminate-after": "20"});
    world.apply(old).await;
    world.settle().await;
    world.merge(RCS, "old", json!({"spec": {"replicas": 1}})).await;
    world.settle().await;
    assert_eq!(world.get(RCS, "old").await["status"]["terminatingReplicas"], json!(null));
}

/// REPLICASET-63.
#[tokio::test(start_paused = true)]
async fn a_server_without_the_terminating_field_gets_no_repeated_writes() {
    let builder = Sandbox::builder().gate("DeploymentReplicaSetTerminatingReplicas", false);
    let world = World::with(Setup { builder, ..Setup::default() }).await;
    world.apply(set("web", 2)).await;
    world.settle().await;
    assert_eq!(world.get(SETS, "web").await["status"].get("terminatingReplicas"), None);
    world.forget();
    for _ in 0..10 {
        world.poke(SETS, "web").await;
        world.wait(1).await;
    }
    assert_eq!(world.asked("patch", STATUS), 0);
}

/// REPLICASET-76.
#[tokio::test(start_paused = true)]
async fn a_status_conflict_is_retried_once_onto_the_live_object() {
    let world = World::new().await;
    world.apply(set("web", 2)).await;
    world.settle().await;
    let pod = world.active().await.into_iter().next().unwrap();
    world.sandbox.faults().hold_watch(ME, "replicasets");
    world.poke(SETS, "web").await;
    world.forget();
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    world.sandbox.merge("pods", Some(NS), &pod, Some("status"), unready).await.unwrap();
    world.wait(1).await;
    let status = world.get(SETS, "web").await["status"].clone();
    assert_eq!((&status["replicas"], &status["readyReplicas"]), (&json!(2), &json!(1)));
    assert_eq!((world.asked("patch", STATUS), world.asked("get", SETS)), (2, 1));
    // No further status write follows until the cache shows the last one.
    world.wait(60).await;
    assert_eq!((world.asked("patch", STATUS), world.asked("get", SETS)), (2, 1));
    world.sandbox.faults().release_watch(ME, "replicasets");
    world.settle().await;
}

/// REPLICASET-76.
#[tokio::test(start_paused = true)]
async fn a_status_conflict_that_the_watch_resolves_soon_costs_no_read() {
    let world = World::new().await;
    world.apply(set("web", 2)).await;
    world.settle().await;
    let pod = world.active().await.into_iter().next().unwrap();
    world.sandbox.faults().delay_watch(ME, "replicasets", Duration::from_millis(90));
    world.poke(SETS, "web").await;
    world.forget();
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    world.sandbox.merge("pods", Some(NS), &pod, Some("status"), unready).await.unwrap();
    world.wait(1).await;
    assert_eq!(world.get(SETS, "web").await["status"]["readyReplicas"], 1);
    assert_eq!((world.asked("patch", STATUS), world.asked("get", SETS)), (2, 0));
}

/// REPLICASET-76.
#[tokio::test(start_paused = true)]
async fn a_status_is_never_written_onto_a_new_set_of_the_same_name() {
    let world = World::new().await;
    world.apply(set("web", 2)).await;
    world.settle().await;
    let pod = world.active().await.into_iter().next().unwrap();
    world.sandbox.faults().hold_watch(ME, "replicasets");
    world.sandbox.delete(SETS, Some(NS), "web").await.unwrap();
    world.apply(set("web", 0)).await;
    world.forget();
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    world.sandbox.merge("pods", Some(NS), &pod, Some("status"), unready).await.unwrap();
    world.wait(1).await;
    assert!(world.asked("patch", STATUS) > 0);
    assert_eq!(world.get(SETS, "web").await["status"], json!({"replicas": 0}));
}

/// REPLICASET-34.
#[tokio::test(start_paused = true)]
async fn unknown_status_fields_are_kept() {
    let builder = Sandbox::builder().keep_unknown_fields(true);
    let world = World::with(Setup { builder, ..Setup::default() }).await;
    world.apply(set("web", 1)).await;
    world.settle().await;
    let more = json!({"status": {"fromTheFuture": 3,
        "conditions": [{"type": "Other", "status": "True", "alsoNew": [1]}]}});
    let before =
        world.sandbox.merge(SETS, Some(NS), "web", Some("status"), more).await.unwrap()["status"]["conditions"].clone();
    assert_eq!(before[0]["alsoNew"], json!([1]));
    world.scale("web", 2).await;
    world.settle().await;
    let status = world.get(SETS, "web").await["status"].clone();
    assert_eq!((&status["replicas"], &status["fromTheFuture"]), (&json!(2), &json!(3)));
    assert_eq!(status["conditions"], before);
}

/// REPLICASET-30.
#[tokio::test(start_paused = true)]
async fn fully_labelled_pods_follow_the_template() {
    let world = World::new().await;
    world.apply(set("web", 2)).await;
    world.settle().await;
    world.merge(SETS, "web", json!({"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})).await;
    world.settle().await;
    let status = world.get(SETS, "web").await["status"].clone();
    assert_eq!((&status["fullyLabeledReplicas"], &status["observedGeneration"]), (&json!(null), &json!(2)));
    world.scale("web", 3).await;
    world.settle().await;
    assert_eq!(world.get(SETS, "web").await["status"]["fullyLabeledReplicas"], 1);
}
