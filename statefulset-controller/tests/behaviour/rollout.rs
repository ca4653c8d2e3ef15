//! Rolling updates, and the update strategy `OnDelete`.

use common::settings::OperatorSettings;
use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{CONTROLLER_IDENTITY, REVISIONS, World, set};

/// STATEFULSET-27, STATEFULSET-31.
#[tokio::test(start_paused = true)]
async fn a_rollout_replaces_one_pod_at_a_time_from_the_highest_ordinal() {
    let world = World::new().await;
    world.apply(set(3, json!({}))).await;
    world.settle().await;
    let before = world.status().await["currentRevision"].clone();
    world.reset_counters();
    world.roll_out("img:2", json!({})).await;
    world.settle().await;
    assert_eq!(world.pod_and_claim_writes(), ["-web-2", "+web-2", "-web-1", "+web-1", "-web-0", "+web-0"]);
    assert_eq!(world.names_and_images().await, ["web-0 img:2", "web-1 img:2", "web-2 img:2"]);
    let status = world.status().await;
    assert_eq!((&status["currentRevision"], &status["observedGeneration"]), (&status["updateRevision"], &json!(2)));
    assert_ne!(status["currentRevision"], before);
    assert_eq!((&status["currentReplicas"], &status["updatedReplicas"]), (&json!(3), &json!(3)));
}

/// STATEFULSET-16, STATEFULSET-29.
#[tokio::test(start_paused = true)]
async fn pods_below_the_partition_keep_their_revision_when_they_are_recreated() {
    let world = World::new().await;
    let partition = |n: i32| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": n}}});
    world.apply(set(3, partition(2))).await;
    world.settle().await;
    world.roll_out("img:2", json!({})).await;
    world.settle().await;
    assert_eq!(world.names_and_images().await, ["web-0 img:1", "web-1 img:1", "web-2 img:2"]);
    world.sandbox.delete("pods", Some("shop"), "web-1").await.unwrap();
    world.settle().await;
    assert_eq!(world.names_and_images().await[1], "web-1 img:1");
    let status = world.status().await;
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    assert_eq!((&status["currentReplicas"], &status["updatedReplicas"]), (&json!(2), &json!(1)));
    world.change_spec(partition(0)).await;
    world.settle().await;
    assert_eq!(world.names_and_images().await, ["web-0 img:2", "web-1 img:2", "web-2 img:2"]);
}

/// STATEFULSET-2, STATEFULSET-39.
#[tokio::test(start_paused = true)]
async fn an_earlier_template_is_read_only_to_create_a_pod_from_it() {
    let world = World::new().await;
    let partition = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}});
    world.apply(set(3, partition)).await;
    world.settle().await;
    let current = world.status().await["currentRevision"].as_str().unwrap().to_owned();
    assert_eq!(world.request_count("get", REVISIONS), 0, "the set itself has the template");
    world.roll_out("img:2", json!({})).await;
    world.settle().await;
    assert_eq!(world.request_count("get", REVISIONS), 0);
    world.sandbox.delete("pods", Some("shop"), "web-1").await.unwrap();
    world.settle().await;
    assert_eq!(world.names_and_images().await[1], "web-1 img:1");
    assert_eq!(world.request_count("get", REVISIONS), 1);
    // While the revision cannot be read, the Pod is missing, and an Event gives the reason.
    let refuse =
        Rule::new(Action::InternalError).identity(CONTROLLER_IDENTITY).verb("get").resource("controllerrevisions");
    world.sandbox.faults().add(refuse);
    world.sandbox.delete("pods", Some("shop"), "web-2").await.unwrap();
    world.wait(10).await;
    assert_eq!(world.names_and_images().await, ["web-0 img:1", "web-1 img:1"]);
    let start = "Warning FailedCreate Create Pod web-2 in StatefulSet web failed error: cannot read ControllerRevision";
    assert!(world.has_event(&format!("{start} {current}")).await, "{:?}", world.events().await);
    assert_eq!(world.status().await["readyReplicas"], json!(2));
    world.sandbox.faults().clear();
    world.settle().await;
    assert_eq!(world.names_and_images().await[2], "web-2 img:1");
}

/// STATEFULSET-2.
#[tokio::test(start_paused = true)]
async fn an_earlier_template_is_read_once_for_a_burst_of_pods() {
    let world = World::new().await;
    let more = json!({"podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 20}}});
    world.apply(set(20, more)).await;
    world.settle().await;
    world.roll_out("img:2", json!({})).await;
    world.settle().await;
    world.reset_counters();
    world.sandbox.faults().hold_watch(CONTROLLER_IDENTITY, "pods");
    for ordinal in 0..20 {
        world.sandbox.delete("pods", Some("shop"), &format!("web-{ordinal}")).await.unwrap();
    }
    world.wait(60).await;
    assert_eq!(world.pod_and_claim_writes(), Vec::<String>::new());
    world.sandbox.faults().release_watch(CONTROLLER_IDENTITY, "pods");
    world.settle().await;
    assert_eq!(world.pod_and_claim_writes().iter().filter(|what| what.starts_with('+')).count(), 20);
    assert!(world.names_and_images().await.iter().all(|image| image.ends_with("img:1")));
    let reads = world.request_count("get", REVISIONS);
    assert!((1..=2).contains(&reads), "{reads} reads; the deletions may be seen in two parts");
}

/// STATEFULSET-29, STATEFULSET-31, STATEFULSET-92.
#[tokio::test(start_paused = true)]
async fn on_delete_replaces_only_pods_that_users_delete() {
    let world = World::new().await;
    world.apply(set(2, json!({"updateStrategy": {"type": "OnDelete"}}))).await;
    world.settle().await;
    world.roll_out("img:2", json!({})).await;
    world.settle().await;
    assert_eq!(world.names_and_images().await, ["web-0 img:1", "web-1 img:1"]);
    world.sandbox.delete("pods", Some("shop"), "web-0").await.unwrap();
    world.settle().await;
    assert_eq!(world.names_and_images().await, ["web-0 img:2", "web-1 img:1"]);
    let status = world.status().await;
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    world.sandbox.delete("pods", Some("shop"), "web-1").await.unwrap();
    world.settle().await;
    let status = world.status().await;
    assert_eq!(status["currentRevision"], status["updateRevision"], "the rollout is complete");
    assert_eq!(status["currentReplicas"], 2);
}

/// STATEFULSET-30, STATEFULSET-69.
#[tokio::test(start_paused = true)]
async fn several_pods_are_updated_at_the_same_time_with_the_gate() {
    let world =
        World::with_settings(OperatorSettings::new().with_feature_gate("MaxUnavailableStatefulSet", true)).await;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}});
    world.apply(set(4, json!({"podManagementPolicy": "Parallel", "updateStrategy": strategy}))).await;
    world.settle().await;
    world.reset_counters();
    world.roll_out("img:2", json!({"sim/ready-after": "20"})).await;
    world.wait(10).await;
    let mut first = world.pod_and_claim_writes();
    first.sort();
    assert_eq!(first, ["+web-2", "+web-3", "-web-2", "-web-3"]);
    world.settle().await;
    world.wait(60).await;
    assert!(world.names_and_images().await.iter().all(|image| image.ends_with("img:2")));
    let metrics = world.loops.as_ref().unwrap().metrics().render_prometheus();
    let labels = "statefulset_namespace=\"shop\",statefulset_name=\"web\",pod_management_policy=\"Parallel\"";
    assert!(
        metrics.contains(&format!("statefulset_controller_statefulset_max_unavailable{{{labels}}} 2")),
        "{metrics}"
    );
    world.sandbox.delete("statefulsets.apps", Some("shop"), "web").await.unwrap();
    world.wait(1).await;
    assert!(
        !world.loops.as_ref().unwrap().metrics().render_prometheus().contains(labels),
        "the series is removed with the set"
    );
}

/// STATEFULSET-24.
#[tokio::test(start_paused = true)]
async fn a_new_start_moves_the_range_of_ordinals() {
    let world = World::new().await;
    world.apply(set(3, json!({}))).await;
    world.settle().await;
    world.reset_counters();
    world.change_spec(json!({"ordinals": {"start": 2}})).await;
    world.settle().await;
    assert_eq!(world.pod_and_claim_writes(), ["+web-3", "+web-4", "-web-1", "-web-0"]);
    assert_eq!(world.names("pods").await, ["web-2", "web-3", "web-4"]);
}
