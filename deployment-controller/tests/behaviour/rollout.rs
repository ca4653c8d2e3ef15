//! Rollouts from one template to the next under `RollingUpdate`.

use sandbox::Sandbox;
use serde_json::json;

use crate::world::{DEPLOYMENTS, NAMESPACE, World, name_of, revision_of, size_of_set, web_deployment};

/// DEPLOYMENT-20, DEPLOYMENT-27, DEPLOYMENT-28, DEPLOYMENT-55, DEPLOYMENT-58.
#[tokio::test(start_paused = true)]
async fn the_steps_of_a_rollout_are_those_of_upstream() {
    let world = World::new().await;
    world.create_object(web_deployment(4)).await;
    world.settle().await;
    assert_eq!(world.size_history(), ["a 4"]);
    let first = world.list_sets().await.remove(0);
    let progressed = format!("ReplicaSet \"{}\" has successfully progressed.", name_of(&first));
    assert_eq!(world.condition("Progressing").await, ("NewReplicaSetAvailable".into(), "True".into(), progressed));
    assert_eq!(world.condition("Available").await.0, "MinimumReplicasAvailable");
    world.clear_logs();
    world.set_image("img:2").await;
    world.settle().await;
    // The log of writes was cleared, so `a` is now the ReplicaSet with the first write after that: the new one.
    assert_eq!(world.size_history(), ["a 1", "b 3", "a 2", "b 1", "a 4", "b 0"]);
    let sets = world.list_sets().await;
    assert_eq!(sets.iter().map(|set| (size_of_set(set), revision_of(set))).collect::<Vec<_>>(), [(0, 1), (4, 2)]);
    let deployment = world.get_web().await;
    assert_eq!(revision_of(&deployment), 2);
    assert_eq!(deployment["metadata"]["generation"], 2, "only the user raises the generation");
    let status = &deployment["status"];
    for count in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(status[count], 4, "{count}");
    }
    assert_eq!((&status["observedGeneration"], &status["terminatingReplicas"]), (&json!(2), &json!(0)));
    let (old, new) = (name_of(&sets[0]), name_of(&sets[1]));
    assert_eq!(
        world.deployment_events().await,
        [
            format!("ScalingReplicaSet Scaled up replica set {old} from 0 to 4"),
            format!("ScalingReplicaSet Scaled up replica set {new} from 0 to 1"),
            format!("ScalingReplicaSet Scaled down replica set {old} from 4 to 3"),
            format!("ScalingReplicaSet Scaled up replica set {new} from 1 to 2"),
            format!("ScalingReplicaSet Scaled down replica set {old} from 3 to 1"),
            format!("ScalingReplicaSet Scaled up replica set {new} from 2 to 4"),
            format!("ScalingReplicaSet Scaled down replica set {old} from 1 to 0"),
        ]
    );
}

/// DEPLOYMENT-29, DEPLOYMENT-31.
#[tokio::test(start_paused = true)]
async fn limits_are_kept_at_all_times() {
    for (surge, unavailable, most, fewest) in
        [(json!(3), json!(0), 13, 10), (json!(0), json!(2), 10, 8), (json!("30%"), json!("20%"), 13, 8)]
    {
        let world = World::new().await;
        let mut object = web_deployment(10);
        object["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        object["spec"]["template"]["metadata"]["annotations"] =
            json!({"sim/ready-after": "2", "sim/terminate-after": "3"});
        world.create_object(object).await;
        world.settle().await;
        world.set_image("img:2").await;
        world.settle().await;
        let (got_most, got_fewest) = world.pod_count_extremes(10);
        assert!(got_most <= most && got_fewest >= fewest, "{got_most} {got_fewest}");
        assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable");
    }
}

/// DEPLOYMENT-71, DEPLOYMENT-77.
#[tokio::test(start_paused = true)]
async fn the_first_creation_takes_three_writes_and_no_read() {
    let mut world = World::new().await;
    world.replica_set_controller = None;
    // The Deployment is younger than this leader's term, so no earlier leader can have created a ReplicaSet for it.
    world.wait(30.0).await;
    world.create_object(web_deployment(4)).await;
    world.settle().await;
    let set = name_of(&world.list_sets().await[0]).to_owned();
    assert_eq!(
        world.own_writes(),
        [
            format!("create replicasets {set}"),
            "patch deployments/status web".to_owned(),
            "patch deployments/status web".to_owned(),
        ]
    );
    assert_eq!((world.request_count("get", DEPLOYMENTS), world.request_count("list", "replicasets.apps")), (0, 0));
    assert!(world.failed_syncs().is_empty(), "{:?}", world.failed_syncs());
}

/// DEPLOYMENT-60.
#[tokio::test(start_paused = true)]
async fn a_stuck_rollout_is_reported_after_its_deadline_and_completes_later() {
    let world = World::new().await;
    let mut object = web_deployment(4);
    object["spec"]["progressDeadlineSeconds"] = json!(30);
    world.create_object(object).await;
    world.settle().await;
    world.patch_web(json!({"spec": {"template": {"metadata": {"annotations": {"sim/never-ready": "true"}}}}})).await;
    world.wait(20.0).await;
    assert_eq!(world.condition("Progressing").await.0, "ReplicaSetUpdated");
    let told = world.explain();
    assert_eq!(
        told["waiting"][0],
        "2 new Pods are not available yet (minimum available 3, 3 available now; maxUnavailable 1)"
    );
    world.wait(20.0).await;
    let new = name_of(&world.list_sets().await[1]).to_owned();
    let message = format!("ReplicaSet \"{new}\" has timed out progressing.");
    assert_eq!(world.condition("Progressing").await, ("ProgressDeadlineExceeded".into(), "False".into(), message));
    assert!(world.explain()["waiting"][0].as_str().unwrap().starts_with("progress deadline exceeded"));
    world.clear_logs();
    world.wait(3600.0).await;
    assert!(world.own_writes().is_empty(), "a stuck rollout gets no writes: {:?}", world.own_writes());
    world.patch_web(json!({"spec": {"template": {"metadata": {"annotations": {"sim/never-ready": null}}}}})).await;
    world.settle().await;
    assert_eq!(world.condition("Progressing").await.0, "NewReplicaSetAvailable");
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [4, 0]);
}

/// DEPLOYMENT-3.
#[tokio::test(start_paused = true)]
async fn an_unknown_field_is_copied_to_the_set_and_counts_in_comparisons() {
    let world =
        World::with_sandbox(Sandbox::builder().keep_unknown_fields(true), common::settings::OperatorSettings::new())
            .await;
    let mut object = web_deployment(2);
    object["spec"]["template"]["spec"]["fromTheFuture"] = json!({"levels": [1, {"deep": true}]});
    world.create_object(object.clone()).await;
    world.settle().await;
    let set = world.list_sets().await.remove(0);
    assert_eq!(set["spec"]["template"]["spec"]["fromTheFuture"], object["spec"]["template"]["spec"]["fromTheFuture"]);
    assert!(world.list_pods().await.iter().all(|pod| pod["spec"]["fromTheFuture"]["levels"][1]["deep"] == true));
    // A change of an unknown field makes a different template.
    world.patch_web(json!({"spec": {"template": {"spec": {"fromTheFuture": {"levels": [2]}}}}})).await;
    world.settle().await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [0, 2]);
}

/// DEPLOYMENT-50.
#[tokio::test(start_paused = true)]
async fn the_history_is_limited() {
    let world = World::new().await;
    let mut object = web_deployment(1);
    object["spec"]["revisionHistoryLimit"] = json!(2);
    world.create_object(object).await;
    for n in 2..7 {
        world.settle().await;
        world.set_image(&format!("img:{n}")).await;
    }
    world.settle().await;
    assert_eq!(world.list_sets().await.iter().map(revision_of).collect::<Vec<_>>(), [4, 5, 6]);
}

/// DEPLOYMENT-16.
#[tokio::test(start_paused = true)]
async fn annotations_and_min_ready_seconds_follow_without_a_rollout() {
    let world = World::new().await;
    world.create_object(web_deployment(2)).await;
    world.settle().await;
    world.patch_web(json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "because"}}, "spec": {"minReadySeconds": 5}})).await;
    world.settle().await;
    let sets = world.list_sets().await;
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0]["metadata"]["annotations"]["kubernetes.io/change-cause"], "because");
    assert_eq!(sets[0]["spec"]["minReadySeconds"], 5);
}

/// DEPLOYMENT-56.
#[tokio::test(start_paused = true)]
async fn a_deployment_that_is_being_deleted_gets_only_a_status() {
    let world = World::new().await;
    world.create_object(web_deployment(2)).await;
    world.settle().await;
    world.patch_web(json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    world.sandbox.delete(DEPLOYMENTS, Some(NAMESPACE), "web").await.unwrap();
    world.set_image("img:2").await;
    world.set_replicas(7).await;
    world.settle().await;
    assert_eq!(world.list_sets().await.iter().map(size_of_set).collect::<Vec<_>>(), [2]);
    let web = world.get_web().await;
    assert_eq!(web["status"]["observedGeneration"], web["metadata"]["generation"]);
}
