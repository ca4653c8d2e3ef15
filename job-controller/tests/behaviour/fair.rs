//! A Job that wants more Pods than any cluster holds, next to ordinary Jobs.

use std::time::Duration;

use common::settings::{OperatorSettings, TunableValue};
use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{CONTROLLER_IDENTITY, ClusterSetup, JOBS_RESOURCE, TestCluster, job_with_spec, name};

const ORDINARY: usize = 100;

/// Returns the time until each of a hundred Jobs has its two Pods, optionally beside a Job with two billion Pods.
async fn time_until_all_have_pods(greedy: bool) -> Duration {
    let settings = OperatorSettings::new().with_tunable("job-max-pods-per-sync", TunableValue::Count(100));
    let world = TestCluster::with_setup(ClusterSetup { settings, ..ClusterSetup::default() }).await;
    // Slow requests keep all workers busy, so that the Jobs compete for the workers.
    world.sandbox.faults().add(Rule::new(Action::Latency(Duration::from_millis(20))).identity(CONTROLLER_IDENTITY));
    if greedy {
        world
            .create_object(job_with_spec("greedy", &[], json!({"completions": i32::MAX, "parallelism": i32::MAX})))
            .await;
        world.wait_seconds(1).await;
    }
    let began = world.clock.monotonic_now();
    for at in 0..ORDINARY {
        world
            .create_object(job_with_spec(&format!("sum-{at}"), &[], json!({"completions": 2, "parallelism": 2})))
            .await;
    }
    for _ in 0..600 {
        world.clock.sleep(Duration::from_millis(100)).await;
        let objects = world.sandbox.list(JOBS_RESOURCE, Some(crate::world::NAMESPACE)).await.unwrap();
        let done = |object: &&serde_json::Value| name(object) != "greedy" && object["status"]["active"] == 2;
        if objects.iter().filter(done).count() == ORDINARY {
            let took = world.clock.monotonic_now() - began;
            let pods = world.active_pod_names().await;
            assert_eq!(pods.iter().filter(|pod| !pod.starts_with("greedy-")).count(), 2 * ORDINARY);
            assert_eq!(greedy, pods.iter().any(|pod| pod.starts_with("greedy-")));
            return took;
        }
    }
    panic!("the ordinary Jobs do not get their Pods");
}

/// JOB-67.
#[tokio::test(start_paused = true)]
async fn a_job_with_two_billion_pods_does_not_delay_others() {
    let (alone, beside) = (time_until_all_have_pods(false).await, time_until_all_have_pods(true).await);
    // One of five workers is busy with the large Job. The other four sync the ordinary Jobs.
    assert!(beside <= alone * 3 / 2 + Duration::from_millis(500), "{alone:?} alone, {beside:?} beside it");
}
