//! A ReplicaSet with more replicas than any cluster can run does not delay ordinary ReplicaSets.

use std::time::Duration;

use common::settings::{OperatorSettings, TunableValue};
use sandbox::{Action, Rule};

use crate::world::{
    CONTROLLER_IDENTITY, REPLICA_SET_RESOURCE, TestCluster, TestClusterSetup, object_name, replica_set,
};

const ORDINARY: usize = 100;

/// Returns the time until each of a hundred ReplicaSets has two Pods, with a huge ReplicaSet beside them if `greedy` is true.
async fn time_needed(greedy: bool) -> Duration {
    let settings = OperatorSettings::new().with_tunable("burst-replicas", TunableValue::Count(100));
    let world = TestCluster::with_setup(TestClusterSetup { settings, ..TestClusterSetup::default() }).await;
    // With slow requests, all workers are busy.
    world.sandbox.faults().add(Rule::new(Action::Latency(Duration::from_millis(20))).identity(CONTROLLER_IDENTITY));
    if greedy {
        world.create_object(replica_set("greedy", i32::MAX as usize)).await;
        world.wait_seconds(1).await;
    }
    let began = world.clock.monotonic_now();
    for at in 0..ORDINARY {
        world.create_object(replica_set(&format!("web-{at}"), 2)).await;
    }
    for _ in 0..600 {
        world.clock.sleep(Duration::from_millis(100)).await;
        let objects = world.sandbox.list(REPLICA_SET_RESOURCE, Some(crate::world::NAMESPACE)).await.unwrap();
        let done = |object: &&serde_json::Value| object_name(object) != "greedy" && object["status"]["replicas"] == 2;
        if objects.iter().filter(done).count() == ORDINARY {
            let took = world.clock.monotonic_now() - began;
            let pods = world.active_pod_names().await;
            assert_eq!(pods.iter().filter(|pod| !pod.starts_with("greedy-")).count(), 2 * ORDINARY);
            assert_eq!(greedy, pods.iter().any(|pod| pod.starts_with("greedy-")));
            return took;
        }
    }
    panic!("the ordinary sets do not get their Pods");
}

/// REPLICASET-57.
#[tokio::test(start_paused = true)]
async fn a_set_of_two_billion_replicas_does_not_delay_others() {
    let (alone, beside) = (time_needed(false).await, time_needed(true).await);
    // The greedy set occupies one of five workers at any time.
    assert!(beside <= alone * 3 / 2 + Duration::from_millis(500), "{alone:?} alone, {beside:?} beside it");
}
