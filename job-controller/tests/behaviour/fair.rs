//! A Job that wants more Pods than any cluster holds, next to ordinary Jobs.

use std::time::Duration;

use common::settings::{Settings, TuneValue};
use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{JOBS, ME, Setup, World, job_with, name};

const ORDINARY: usize = 100;

/// Returns the time until each of a hundred Jobs has its two Pods, optionally beside a Job with two billion Pods.
async fn time_needed(greedy: bool) -> Duration {
    let settings = Settings::new().with_tune("job-max-pods-per-sync", TuneValue::Count(100));
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    // Slow requests make workers the scarce resource.
    world.sandbox.faults().add(Rule::new(Action::Latency(Duration::from_millis(20))).identity(ME));
    if greedy {
        world.apply(job_with("greedy", &[], json!({"completions": i32::MAX, "parallelism": i32::MAX}))).await;
        world.wait(1).await;
    }
    let began = world.clock.instant();
    for at in 0..ORDINARY {
        world.apply(job_with(&format!("sum-{at}"), &[], json!({"completions": 2, "parallelism": 2}))).await;
    }
    for _ in 0..600 {
        world.clock.sleep(Duration::from_millis(100)).await;
        let objects = world.sandbox.list(JOBS, Some(crate::world::NS)).await.unwrap();
        let done = |object: &&serde_json::Value| name(object) != "greedy" && object["status"]["active"] == 2;
        if objects.iter().filter(done).count() == ORDINARY {
            let took = world.clock.instant() - began;
            let pods = world.active().await;
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
    let (alone, beside) = (time_needed(false).await, time_needed(true).await);
    // One of five workers is busy with the large Job. The other four sync the ordinary Jobs.
    assert!(beside <= alone * 3 / 2 + Duration::from_millis(500), "{alone:?} alone, {beside:?} beside it");
}
