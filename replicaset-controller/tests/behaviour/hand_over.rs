//! Take-overs from upstream and from an earlier leader.

use sandbox::{Action, Rule};
use serde_json::json;

use crate::world::{ME, NS, RCS, SETS, World, rc, set, stray};

/// REPLICASET-51.
#[tokio::test(start_paused = true)]
async fn a_settled_set_is_taken_over_without_a_write() {
    let mut world = World::new().await;
    world.apply(set("web", 3)).await;
    world.apply(set("none", 0)).await;
    world.apply(rc("old", 2)).await;
    world.settle().await;
    world.crash();
    world.forget();
    world.start();
    world.settle().await;
    assert!(world.written().is_empty(), "{:?}", world.written());
    for resource in [SETS, RCS, "pods"] {
        assert_eq!(world.asked("get", resource), 0);
    }
}

/// REPLICASET-51.
#[tokio::test(start_paused = true)]
async fn a_set_settled_by_upstream_is_taken_over_without_a_write() {
    let mut world = World::new().await;
    world.crash();
    let owner = world.apply(set("web", 1)).await;
    let mut pod = stray("web-abcde", "web");
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}]);
    world.apply(pod).await;
    world.settle().await;
    // Upstream writes every counter of the status, and no null.
    let status = json!({"status": {"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "terminatingReplicas": 0, "observedGeneration": 1}});
    world.sandbox.merge(SETS, Some(NS), "web", Some("status"), status).await.unwrap();
    world.forget();
    world.start();
    world.settle().await;
    assert!(world.written().is_empty());
}

/// REPLICASET-52.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_creates_no_surplus_pod() {
    // A run has 6 creations, at least 2 status writes and 3 deletions. The crash at a write loses the next requests or their
    // answers.
    for at in 0..12 {
        for lost in [Action::CutBefore, Action::CutAfter] {
            let mut world = World::new().await;
            world.apply(stray("stray", "web")).await;
            world.settle().await;
            world.forget();
            let mut writes = world.sandbox.writes().subscribe();
            let verbs = ["create", "patch", "delete"];
            world.apply(set("web", 6)).await;
            let mut ours = 0;
            let mut scaled = false;
            loop {
                let next = tokio::time::timeout(std::time::Duration::from_secs(5), writes.recv()).await;
                match next {
                    Ok(Some(write)) if write.identity == ME && write.resource != "events" => {
                        ours += 1;
                        if ours == at {
                            for verb in verbs {
                                world.sandbox.faults().add(Rule::new(lost.clone()).identity(ME).verb(verb).times(1));
                            }
                            tokio::task::yield_now().await;
                            world.crash();
                            world.sandbox.faults().clear();
                            world.start();
                        }
                    }
                    Ok(Some(_)) => {}
                    _ if !scaled => {
                        scaled = true;
                        world.scale("web", 3).await;
                    }
                    _ => break,
                }
            }
            world.settle().await;
            assert_eq!(world.active().await.len(), 3, "crash at {at}");
            assert!(world.peak() <= 6, "crash at {at}: {} Pods", world.peak());
            let status = world.get(SETS, "web").await["status"].clone();
            assert_eq!((&status["replicas"], &status["readyReplicas"]), (&json!(3), &json!(3)), "crash at {at}");
        }
    }
}

/// REPLICASET-53.
#[tokio::test(start_paused = true)]
async fn a_deposed_leader_writes_nothing() {
    let world = World::new().await;
    world
        .sandbox
        .faults()
        .add(Rule::new(Action::Latency(std::time::Duration::from_millis(10))).identity(ME).verb("create"));
    world.apply(set("web", 100)).await;
    world.clock.sleep(std::time::Duration::from_millis(35)).await;
    world.loops.as_ref().unwrap().depose();
    let then = world.written().len();
    assert!(then > 0 && then < 100);
    world.wait(60).await;
    // Only requests that had reached the server before the loss of leadership take effect.
    let later = world.written().len();
    assert!(later <= then + 8, "{then} then, {later} later");
    assert!(world.conditions("web").await.is_empty());
    assert!(world.events().await.iter().all(|e| e.starts_with("Normal")));
}

/// REPLICASET-44.
#[tokio::test(start_paused = true)]
async fn a_new_set_of_the_same_name_starts_without_expectations() {
    let world = World::new().await;
    world.apply(set("web", 3)).await;
    world.settle().await;
    world.sandbox.faults().hold_watch(ME, "pods");
    world.scale("web", 1).await;
    world.wait(1).await;
    world.sandbox.delete(SETS, Some(NS), "web").await.unwrap();
    world.apply(set("web", 2)).await;
    world.forget();
    world.wait(1).await;
    // The new set does not wait for deletions of the old set, and does not own its Pods.
    assert_eq!(world.asked("create", "pods"), 2);
    world.sandbox.faults().release_watch(ME, "pods");
    world.settle().await;
    assert_eq!(world.asked("create", "pods"), 2);
}

/// REPLICASET-18, REPLICASET-54.
#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_large_set() {
    let mut world = World::new().await;
    let slow = Action::Latency(std::time::Duration::from_millis(100));
    world.sandbox.faults().add(Rule::new(slow).identity(ME).verb("create").resource("pods"));
    world.apply(set("web", 100)).await;
    world.clock.sleep(std::time::Duration::from_millis(350)).await;
    let stopping = world.loops.take().unwrap();
    let begun = world.clock.instant();
    stopping.shutdown().await;
    assert!(begun.elapsed() < std::time::Duration::from_millis(200), "{:?}", begun.elapsed());
    // The batches of the slow start have 1, 2, 4 and 8 Pods.
    assert_eq!((world.active().await.len(), world.asked("create", "pods")), (15, 15));
    assert!(world.conditions("web").await.is_empty());
    world.sandbox.faults().clear();
    world.start();
    world.settle().await;
    assert_eq!((world.active().await.len(), world.peak()), (100, 100));
}
