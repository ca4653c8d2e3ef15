//! The API server loses its latest changes, as after a restore of etcd, while the process runs on.

use std::time::Duration;

use common::{
    app::{LeadershipMode, RunningLoops, StartParameters, start_loops},
    metrics::Metrics,
    process::leader,
};
use sandbox::{Action, Backup, Rule};
use serde_json::json;

use crate::world::{CONTROLLER_IDENTITY, DEPLOYMENTS, NAMESPACE, REPLICA_SETS, World, size_of_set, web_deployment};

fn restart_count(metrics: &Metrics) -> String {
    let text = metrics.render_prometheus();
    let line = text.lines().find(|line| line.starts_with("nonet_lost_changes_restarts_total "));
    line.map_or_else(String::new, |line| line.split(' ').next_back().unwrap_or_default().to_owned())
}

/// Returns a world with a Deployment of two Pods and no other ReplicaSet controller, and a backup of it.
async fn world_with_backup() -> (World, Backup) {
    let mut world = World::new().await;
    world.create_object(web_deployment(2)).await;
    world.settle().await;
    world.replica_set_controller = None;
    let backup = world.sandbox.backup();
    (world, backup)
}

/// Restores the backup while the controller has no connection, and writes so much meanwhile that the server has passed all lost
/// versions when the controller connects again.
async fn restore_and_pass_lost_versions(world: &World, backup: &Backup) {
    let faults = world.sandbox.faults();
    faults.add(Rule::new(Action::CutBefore).identity(CONTROLLER_IDENTITY));
    faults.add(Rule::new(Action::CutWatch).identity(CONTROLLER_IDENTITY));
    world.wait(0.1).await;
    let lost = world.sandbox.resource_version();
    world.sandbox.restore(backup);
    for number in 0.. {
        let note = json!({"metadata": {"annotations": {"number": number.to_string()}}});
        world.sandbox.merge("namespaces", None, "default", None, note).await.unwrap();
        if world.sandbox.resource_version() > lost + 100 {
            break;
        }
    }
    world.wait(1.0).await;
    faults.clear();
}

/// COMMON-107.
#[tokio::test(start_paused = true)]
async fn a_deployment_is_followed_within_a_minute_after_a_restore_of_etcd() {
    let (world, backup) = world_with_backup().await;
    for number in 3..30 {
        world.set_replicas(number).await;
        world.wait(1.0).await;
    }
    let mut lost = web_deployment(1);
    lost["metadata"]["name"] = json!("lost");
    world.create_object(lost).await;
    world.wait(5.0).await;
    world.sandbox.faults().go_down_for(Duration::from_secs(10));
    world.sandbox.restore(&backup);
    world.wait(10.0).await;
    world.set_replicas(5).await;
    world.wait(60.0).await;
    let sets = world.list_sets().await;
    assert_eq!(sets.iter().map(size_of_set).collect::<Vec<_>>(), [5], "{:#}", world.explain());
    assert_eq!(restart_count(world.loops.as_ref().unwrap().metrics()), "1");
    // The loops do not start again without another loss.
    world.wait(3600.0).await;
    assert_eq!(restart_count(world.loops.as_ref().unwrap().metrics()), "1");
}

/// COMMON-107.
#[tokio::test(start_paused = true)]
async fn an_older_lease_reveals_lost_versions_that_the_server_has_passed_again() {
    let (mut world, _) = world_with_backup().await;
    world.crash();
    let election = leader::ElectionSettings {
        leads_without_release: true,
        ..leader::ElectionSettings::new("kube-system", "deployment-controller", "me".to_owned())
    };
    let client = world.sandbox.client(CONTROLLER_IDENTITY);
    let assembly: RunningLoops = start_loops(StartParameters {
        leadership: LeadershipMode::Elected(election),
        ..StartParameters::new(client, world.clock.clone(), deployment_controller::LOOPS)
    });
    world.wait(10.0).await;
    let backup = world.sandbox.backup();
    world.set_replicas(4).await;
    world.wait(5.0).await;
    restore_and_pass_lost_versions(&world, &backup).await;
    world.wait(60.0).await;
    // The Deployment wants two Pods again. Its ReplicaSet, which had four in the lost versions, has two in the backup.
    let set = world.list_sets().await.remove(0);
    let shrunk = json!({"spec": {"replicas": 1}});
    let name = set["metadata"]["name"].as_str().unwrap();
    world.sandbox.merge(REPLICA_SETS, Some(NAMESPACE), name, None, shrunk).await.unwrap();
    world.wait(10.0).await;
    assert_eq!(size_of_set(&world.list_sets().await[0]), 2);
    assert_eq!(restart_count(assembly.metrics()), "1");
    assert!(assembly.gate().is_open(), "the process still leads");
}

/// COMMON-107.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_refused_again_reveals_lost_versions_without_an_election() {
    let (world, backup) = world_with_backup().await;
    world.set_replicas(4).await;
    world.wait(5.0).await;
    restore_and_pass_lost_versions(&world, &backup).await;
    // The status of the Deployment has to change, and its cached version no longer exists.
    let set = world.list_sets().await.remove(0);
    let name = set["metadata"]["name"].as_str().unwrap();
    let status = json!({"status": {"readyReplicas": 1, "availableReplicas": 1}});
    world.sandbox.merge(REPLICA_SETS, Some(NAMESPACE), name, Some("status"), status).await.unwrap();
    world.wait(60.0).await;
    let web = world.sandbox.get(DEPLOYMENTS, Some(NAMESPACE), "web").await.unwrap();
    assert_eq!((&web["status"]["readyReplicas"], &web["spec"]["replicas"]), (&json!(1), &json!(2)));
    assert_eq!(size_of_set(&world.list_sets().await[0]), 2);
    assert_eq!(restart_count(world.loops.as_ref().unwrap().metrics()), "1");
}
