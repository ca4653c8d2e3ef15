//! A ReplicaSet with more replicas than any cluster can run does not delay ordinary ReplicaSets.

use std::time::Duration;

use common::settings::{Settings, TuneValue};
use sandbox::{Action, Rule};

use crate::world::{ME, SETS, Setup, World, name, set};

const ORDINARY: usize = 100;

/// Returns the time until each of a hundred ReplicaSets has its two Pods.
async fn time_needed(greedy: bool) -> Duration {
    let settings = Settings::new().with_tune("burst-replicas", TuneValue::Count(100));
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    // With slow requests, all workers are busy.
    world.sandbox.faults().add(Rule::new(Action::Latency(Duration::from_millis(20))).identity(ME));
    if greedy {
        world.apply(set("greedy", i32::MAX as usize)).await;
        world.wait(1).await;
    }
    let began = world.clock.instant();
    for at in 0..ORDINARY {
        world.apply(set(&format!("web-{at}"), 2)).await;
    }
    for _ in 0..600 {
        world.clock.sleep(Duration::from_millis(100)).await;
        let objects = world.sandbox.list(SETS, Some(crate::world::NS)).await.unwrap();
        let done = |object: &&serde_json::Value| name(object) != "greedy" && object["status"]["replicas"] == 2;
        if objects.iter().filter(done).count() == ORDINARY {
            let took = world.clock.instant() - began;
            let pods = world.active().await;
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
