//! Rollouts from one template to the next under `RollingUpdate`.

use crate::world::*;

/// DEPLOYMENT-20, DEPLOYMENT-27, DEPLOYMENT-28, DEPLOYMENT-55, DEPLOYMENT-58.
#[tokio::test(start_paused = true)]
async fn the_steps_of_a_rollout_are_those_of_upstream() {
    let world = cluster().settled(web(4)).await;
    assert_eq!(size_history(&world), ["a 4"]);
    let first = sets(&world).await.remove(0);
    let progressed = format!("ReplicaSet \"{}\" has successfully progressed.", name(&first));
    assert_eq!(whole_progress(&world).await, json!(["NewReplicaSetAvailable", "True", progressed]));
    assert_eq!(world.condition("Available").await["reason"], "MinimumReplicasAvailable");
    world.clear_log();
    world.roll_out_and_settle("img:2").await;
    // The log of writes was cleared, so `a` is now the ReplicaSet with the first write after that: the new one.
    assert_eq!(size_history(&world), ["a 1", "b 3", "a 2", "b 1", "a 4", "b 0"]);
    let sets = sets(&world).await;
    assert_eq!(sets.iter().map(|set| (size_of(set), revision_of(set))).collect::<Vec<_>>(), [(0, 1), (4, 2)]);
    let deployment = world.subject().await;
    assert_eq!(revision_of(&deployment), 2);
    assert_eq!(deployment["metadata"]["generation"], 2, "only the user raises the generation");
    let status = &deployment["status"];
    for count in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(status[count], 4, "{count}");
    }
    assert_eq!(pick(status, "observedGeneration terminatingReplicas"), json!([2, 0]));
    let (old, new) = (name(&sets[0]), name(&sets[1]));
    assert_eq!(
        deployment_events(&world).await,
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
        let world = cluster().start().await;
        let mut object = web(10);
        object["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        object["spec"]["template"]["metadata"]["annotations"] =
            json!({"sim/ready-after": "2", "sim/terminate-after": "3"});
        world.create_and_settle(object).await;
        world.roll_out_and_settle("img:2").await;
        let (got_most, got_fewest) = world.pod_extremes(10);
        assert!(got_most <= most && got_fewest >= fewest, "{got_most} {got_fewest}");
        assert_eq!(progress(&world).await, "NewReplicaSetAvailable");
    }
}

/// DEPLOYMENT-71, DEPLOYMENT-77.
#[tokio::test(start_paused = true)]
async fn the_first_creation_takes_three_writes_and_no_read() {
    let mut world = cluster().start().await;
    world.stop_replica_sets();
    // The Deployment is younger than this leader's term, so no earlier leader can have created a ReplicaSet for it.
    world.wait(30).await;
    world.create_and_settle(web(4)).await;
    let set = name(&sets(&world).await[0]).to_owned();
    assert_eq!(
        world.own_write_lines(),
        [
            format!("create replicasets {set}"),
            "patch deployments/status web".to_owned(),
            "patch deployments/status web".to_owned(),
        ]
    );
    assert_eq!((world.count("get", DEPLOYMENTS), world.count("list", "replicasets.apps")), (0, 0));
    assert!(!world.metrics().contains("\nnonet_sync_errors_total{"), "{}", world.metrics());
}

/// DEPLOYMENT-50.
#[tokio::test(start_paused = true)]
async fn the_history_is_limited() {
    let world = cluster().settled(with_spec(web(1), json!({"revisionHistoryLimit": 2}))).await;
    for n in 2..7 {
        world.roll_out_and_settle(&format!("img:{n}")).await;
    }
    assert_eq!(sets(&world).await.iter().map(revision_of).collect::<Vec<_>>(), [4, 5, 6]);
}

/// DEPLOYMENT-56.
#[tokio::test(start_paused = true)]
async fn a_deployment_that_is_being_deleted_gets_only_a_status() {
    let world = cluster().settled(merged(web(2), json!({"metadata": {"finalizers": ["example.com/hold"]}}))).await;
    world.delete(DEPLOYMENTS, "web").await;
    world.roll_out("img:2", json!({})).await;
    world.change_and_settle(json!({"replicas": 7})).await;
    assert_eq!(sizes(&world).await, [2]);
    let web = world.subject().await;
    assert_eq!(web["status"]["observedGeneration"], web["metadata"]["generation"]);
}

/// DEPLOYMENT-60.
#[tokio::test(start_paused = true)]
async fn a_stuck_rollout_is_reported_after_its_deadline_and_completes_later() {
    let world = cluster().settled(with_spec(web(4), json!({"progressDeadlineSeconds": 30}))).await;
    annotate_template(&world, json!({"sim/never-ready": "true"})).await;
    world.wait(20).await;
    assert_eq!(progress(&world).await, "ReplicaSetUpdated");
    assert_eq!(
        world.explain()["waiting"][0],
        "2 new Pods are not available yet (minimum available 3, 3 available now; maxUnavailable 1)"
    );
    world.wait(20).await;
    let new = name(&sets(&world).await[1]).to_owned();
    let message = format!("ReplicaSet \"{new}\" has timed out progressing.");
    assert_eq!(whole_progress(&world).await, json!(["ProgressDeadlineExceeded", "False", message]));
    assert!(world.explain()["waiting"][0].as_str().unwrap().starts_with("progress deadline exceeded"));
    world.clear_log();
    world.wait(3600).await;
    assert!(world.own_write_lines().is_empty(), "a stuck rollout gets no writes: {:?}", world.own_write_lines());
    annotate_template(&world, json!({"sim/never-ready": null})).await;
    world.settle().await;
    assert_eq!(progress(&world).await, "NewReplicaSetAvailable");
    assert_eq!(sizes(&world).await, [4, 0]);
}

/// DEPLOYMENT-3.
#[tokio::test(start_paused = true)]
async fn an_unknown_field_is_copied_to_the_set_and_counts_in_comparisons() {
    let world = cluster().server(|server| server.keep_unknown_fields(true)).start().await;
    let mut object = web(2);
    object["spec"]["template"]["spec"]["fromTheFuture"] = json!({"levels": [1, {"deep": true}]});
    world.create_and_settle(object.clone()).await;
    let set = sets(&world).await.remove(0);
    assert_eq!(set["spec"]["template"]["spec"]["fromTheFuture"], object["spec"]["template"]["spec"]["fromTheFuture"]);
    assert!(world.pods().await.iter().all(|pod| pod["spec"]["fromTheFuture"]["levels"][1]["deep"] == true));
    // A change of an unknown field makes a different template.
    world.change_and_settle(json!({"template": {"spec": {"fromTheFuture": {"levels": [2]}}}})).await;
    assert_eq!(sizes(&world).await, [0, 2]);
}

/// DEPLOYMENT-16.
#[tokio::test(start_paused = true)]
async fn annotations_and_min_ready_seconds_follow_without_a_rollout() {
    let world = cluster().settled(web(2)).await;
    patch_web(
        &world,
        json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "because"}}, "spec": {"minReadySeconds": 5}}),
    )
    .await;
    world.settle().await;
    let sets = sets(&world).await;
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0]["metadata"]["annotations"]["kubernetes.io/change-cause"], "because");
    assert_eq!(sets[0]["spec"]["minReadySeconds"], 5);
}
