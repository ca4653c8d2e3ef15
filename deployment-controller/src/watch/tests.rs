use serde_json::{Value, json};

use super::*;
use crate::world::DeploymentBuilder;

const BATCH: Duration = Duration::from_secs(2);

/// Returns handlers with the Deployment of `world` in their cache.
fn watch(world: &DeploymentBuilder) -> EventHandlers {
    let clock = Clock::simulated(world.now, 0);
    let deployments: Arc<Store<Deployment>> = Arc::default();
    let deployment = Arc::into_inner(world.snapshot().deployment).unwrap();
    deployments.replace_objects_for_tests(vec![deployment], ResourceVersion::parse("9"));
    EventHandlers {
        queue: Queue::new(clock.clone(), BackoffSettings::default(), None),
        deployments,
        ledger: Ledger::new(clock, Duration::from_mins(5)),
        debounce_period_per_100_pods: BATCH,
        deployments_with_listed_sets: Mutex::default(),
        refused_releases: Mutex::default(),
        pod_informers: Mutex::default(),
    }
}

/// Updates a ReplicaSet with `size` Pods. Returns the waiting keys, and the delayed keys with their delay in seconds.
fn updated(size: i64, change: impl FnOnce(&mut Value)) -> Vec<String> {
    let world = DeploymentBuilder::new(size).with_set("web-1", size, 0);
    let watch = watch(&world);
    let mut old = world.sets[0].clone();
    old["metadata"]["generation"] = json!(1);
    let mut new = old.clone();
    new["metadata"]["resourceVersion"] = json!("1000");
    change(&mut new);
    let read = |set: &Value| -> Arc<ReplicaSet> { Arc::new(serde_json::from_str(&set.to_string()).unwrap()) };
    watch.on_replica_set_event(&CacheEvent::Updated { old: read(&old), new: read(&new) }, ChangeOrigin::Watch);
    let state = watch.queue.debug_state(10);
    state.waiting.into_iter().chain(state.delayed.iter().map(|(key, seconds)| format!("{key} in {seconds}"))).collect()
}

/// DEPLOYMENT-91.
#[tokio::test(start_paused = true)]
async fn the_status_of_a_large_replica_set_is_debounced() {
    let ready = |set: &mut Value| set["status"]["readyReplicas"] = json!(7);
    for (size, keys) in
        [(1, "shop/web"), (99, "shop/web"), (100, "shop/web in 2"), (450, "shop/web in 8"), (9000, "shop/web in 20")]
    {
        assert_eq!(updated(size, ready), [keys], "{size} Pods");
    }
}

/// DEPLOYMENT-91.
#[tokio::test(start_paused = true)]
async fn other_changes_of_a_large_replica_set_are_not_debounced() {
    let changes: [fn(&mut Value); 4] = [
        |set| set["metadata"]["generation"] = json!(2),
        |set| set["metadata"]["labels"]["new"] = json!("label"),
        |set| set["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
        |set| set["metadata"]["ownerReferences"] = json!([]),
    ];
    for change in changes {
        assert_eq!(updated(1000, change), ["shop/web"]);
    }
}
