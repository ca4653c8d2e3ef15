//! The API server loses its latest changes, as after a restore of etcd, while the process runs on.

use common::{
    app::{LeadershipMode, RunningLoops, StartParameters, start_loops},
    metrics::Metrics,
    process::leader,
};
use sandbox::Backup;

use crate::world::*;

/// Starts the loops as a process does that takes part in an election, and that searches for second writers every five minutes.
pub(crate) fn start_elected(world: &World) -> RunningLoops {
    let election = leader::ElectionSettings {
        leads_without_release: true,
        ..leader::ElectionSettings::new("kube-system", "deployment-controller", "me".to_owned())
    };
    start_loops(StartParameters {
        leadership: LeadershipMode::Elected(election),
        second_writer_search_period: Duration::from_mins(5),
        ..StartParameters::new(world.sandbox.client(CONTROLLER), world.clock.clone(), deployment_controller::LOOPS)
    })
}

fn restart_count(metrics: &Metrics) -> String {
    let text = metrics.render_prometheus();
    let line = text.lines().find_map(|line| line.strip_prefix("nonet_lost_changes_restarts_total "));
    line.unwrap_or_default().to_owned()
}

/// Returns a world with a Deployment of two Pods and no other ReplicaSet controller, and a backup of it.
async fn world_with_backup() -> (World, Backup) {
    let mut world = cluster().settled(web(2)).await;
    world.stop_replica_sets();
    let backup = world.sandbox.backup();
    (world, backup)
}

/// Restores the backup while the controller has no connection, and writes so much meanwhile that the server has passed all lost
/// versions when the controller connects again.
async fn restore_and_pass_lost_versions(world: &World, backup: &Backup) {
    let faults = world.sandbox.faults();
    faults.add(rule(Action::CutBefore, "", ""));
    faults.add(rule(Action::CutWatch, "", ""));
    world.wait(0.1).await;
    let lost = world.sandbox.resource_version();
    world.sandbox.restore(backup);
    while world.sandbox.resource_version() <= lost + 100 {
        world.wait(0.01).await;
        world.touch("namespaces", "default").await;
    }
    faults.clear();
}

/// COMMON-107.
#[tokio::test(start_paused = true)]
async fn a_deployment_is_followed_within_a_minute_after_a_restore_of_etcd() {
    let (world, backup) = world_with_backup().await;
    for number in 3..30 {
        world.scale(number).await;
        world.wait(1).await;
    }
    world.create(merged(web(1), json!({"metadata": {"name": "lost"}}))).await;
    world.wait(5).await;
    world.sandbox.faults().go_down_for(Duration::from_secs(10));
    world.sandbox.restore(&backup);
    world.wait(10).await;
    world.scale(5).await;
    world.wait(60).await;
    assert_eq!(sizes(&world).await, [5], "{:#}", world.explain());
    assert_eq!(restart_count(world.loops().metrics()), "1");
    // The loops do not start again without another loss.
    world.wait(3600).await;
    assert_eq!(restart_count(world.loops().metrics()), "1");
}

/// COMMON-107.
#[tokio::test(start_paused = true)]
async fn an_older_lease_reveals_lost_versions_that_the_server_has_passed_again() {
    let (mut world, _) = world_with_backup().await;
    world.crash();
    let assembly = start_elected(&world);
    world.wait(10).await;
    let backup = world.sandbox.backup();
    world.scale(4).await;
    // A leader that writes renews its Lease within eight seconds.
    world.wait(10).await;
    restore_and_pass_lost_versions(&world, &backup).await;
    world.wait(60).await;
    // The Deployment wants two Pods again. Its ReplicaSet, which had four in the lost versions, has two in the backup.
    let set = sets(&world).await.remove(0);
    world.patch(REPLICA_SETS, name(&set), json!({"spec": {"replicas": 1}})).await;
    world.wait(10).await;
    assert_eq!(size_of(&sets(&world).await[0]), 2);
    assert_eq!(restart_count(assembly.metrics()), "1");
    assert!(assembly.gate().is_leading(), "the process still leads");
}

/// COMMON-107.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_refused_again_reveals_lost_versions_without_an_election() {
    let (world, backup) = world_with_backup().await;
    world.scale(4).await;
    world.wait(5).await;
    restore_and_pass_lost_versions(&world, &backup).await;
    // The status of the Deployment has to change, and its cached version no longer exists.
    let set = sets(&world).await.remove(0);
    world.patch_status(REPLICA_SETS, name(&set), json!({"readyReplicas": 1, "availableReplicas": 1})).await;
    world.wait(60).await;
    let web = world.subject().await;
    assert_eq!((&web["status"]["readyReplicas"], &web["spec"]["replicas"]), (&json!(1), &json!(2)));
    assert_eq!(size_of(&sets(&world).await[0]), 2);
    assert_eq!(restart_count(world.loops().metrics()), "1");
}
