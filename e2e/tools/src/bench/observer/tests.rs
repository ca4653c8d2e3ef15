//! What follows from the events of a watch.

use std::sync::Arc;

use common::clock::Clock;
use serde_json::json;

use super::{watched::SERVED, *};

struct World {
    state: State,
    clock: Clock,
    objects: BTreeMap<String, Arc<Watched>>,
}

impl World {
    fn new() -> Self {
        let clock = Clock::simulated("2026-01-01T00:00:30Z".parse().unwrap(), 1);
        Self { state: State { kinds: WORKLOAD_KINDS, ..State::default() }, clock, objects: BTreeMap::new() }
    }

    /// An event of the watch: the object is there in this state.
    fn shows(&mut self, resource: Resource, object: Value) {
        let new: Arc<Watched> = Arc::new(serde_json::from_value(object).unwrap());
        let old = self.objects.insert(new.metadata.uid.to_string(), Arc::clone(&new));
        self.state.object(&resource, old.as_deref(), Some(&new), &self.clock);
    }

    /// An event of the watch: the object is gone.
    fn loses(&mut self, resource: Resource, uid: &str) {
        let old = self.objects.remove(uid).unwrap();
        self.state.object(&resource, Some(&old), None, &self.clock);
    }

    async fn after(&self, milliseconds: u64) {
        self.clock.sleep(Duration::from_millis(milliseconds)).await;
    }

    fn latencies(&mut self, controller: &'static str) -> Vec<u128> {
        let all = self.state.reactions.take();
        all.get(controller).into_iter().flatten().map(Duration::as_millis).collect()
    }
}

fn owned(uid: &str, kind: &str, owner: &str) -> Value {
    json!({"name": uid, "namespace": "n", "uid": uid, "ownerReferences": [
        {"apiVersion": "v1", "kind": kind, "name": owner, "uid": owner, "controller": true}]})
}

fn replica_set(generation: i64, observed: i64, ready: i64) -> Value {
    json!({"metadata": {"name": "set", "namespace": "n", "uid": "set", "generation": generation}, "spec": {"replicas": 1},
        "status": {"observedGeneration": observed, "replicas": 1, "readyReplicas": ready, "availableReplicas": ready}})
}

fn pod(ready: bool) -> Value {
    let conditions = [json!({"type": "Ready", "status": if ready { "True" } else { "False" }})];
    json!({"metadata": owned("pod", "ReplicaSet", "set"), "spec": {"nodeName": "node-0"}, "status": {"conditions": conditions}})
}

#[tokio::test(start_paused = true)]
async fn a_status_answers_its_generation_and_the_readiness_of_its_pods() {
    let mut world = World::new();
    world.shows(resources::REPLICA_SETS, replica_set(1, 0, 0));
    world.after(3).await;
    world.shows(resources::REPLICA_SETS, replica_set(1, 1, 0));
    assert_eq!(world.latencies(REPLICA_SET), [3]);
    world.shows(resources::PODS, pod(false));
    world.shows(resources::PODS, pod(true));
    world.after(8).await;
    assert!(!world.state.unsettled.is_empty());
    world.shows(resources::REPLICA_SETS, replica_set(1, 1, 1));
    assert_eq!(world.latencies(REPLICA_SET), [8]);
    assert!(world.state.unsettled.is_empty());
    assert_eq!(world.state.movable.get("node-0"), Some(&1));
}

#[tokio::test(start_paused = true)]
async fn what_the_bench_has_written_is_not_settled_before_the_watch_shows_it() {
    let mut world = World::new();
    world.shows(resources::REPLICA_SETS, replica_set(1, 1, 1));
    assert!(world.state.unsettled.is_empty());
    world.state.expect(&resources::REPLICA_SETS, &json!({"metadata": {"name": "set", "uid": "set", "generation": 2}}));
    world.shows(resources::REPLICA_SETS, replica_set(1, 1, 1));
    assert_eq!(world.state.unsettled.len(), 1);
    world.shows(resources::REPLICA_SETS, replica_set(2, 2, 1));
    assert!(world.state.unsettled.is_empty());
}

#[tokio::test(start_paused = true)]
async fn dependents_of_a_lost_owner_are_orphans_until_they_are_deleted() {
    let mut world = World::new();
    world.shows(resources::REPLICA_SETS, replica_set(1, 1, 1));
    world.shows(resources::PODS, pod(true));
    world.loses(resources::REPLICA_SETS, "set");
    assert_eq!((world.state.orphans.len(), world.state.terminating), (1, 0));
    world.after(12).await;
    let mut deleting = pod(true);
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:31Z");
    world.shows(resources::PODS, deleting);
    assert_eq!(world.latencies(GARBAGE), [12]);
    assert_eq!((world.state.orphans.len(), world.state.terminating), (0, 1));
    world.loses(resources::PODS, "pod");
    assert_eq!(world.state.terminating, 0);
    assert!(world.state.counts.values().all(|count| *count == 0) && world.state.dependents.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_job_of_a_cron_job_is_late_since_the_minute_in_its_name() {
    let mut world = World::new();
    let minutes = world.clock.now().as_second() / 60;
    let job = |due: i64| json!({"metadata": owned(&format!("cron-{due}"), "CronJob", "cron")});
    world.state.firing_from = Some(world.clock.now());
    // It makes up for the minute before the CronJob was changed.
    world.shows(resources::JOBS, job(minutes));
    assert!(world.state.fired.is_empty());
    world.after(30_040).await;
    world.shows(resources::JOBS, job(minutes + 1));
    assert_eq!(world.state.fired.len(), 1);
    assert_eq!(world.latencies(CRON_JOB), [40]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_ready_is_to_be_tainted() {
    let mut world = World::new();
    let node = |ready: &str, taints: Value| {
        json!({"metadata": {"name": "node-0", "uid": "node"}, "spec": {"taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    };
    world.shows(resources::NODES, node("True", json!([])));
    world.shows(resources::NODES, node("Unknown", json!([])));
    world.after(5).await;
    let taint = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]);
    world.shows(resources::NODES, node("Unknown", taint));
    assert_eq!(world.latencies(NODE), [5]);
}

#[tokio::test(start_paused = true)]
async fn a_ready_pod_is_awaited_until_the_slices_show_it() {
    let mut world = World::new();
    let served = |ready: bool| {
        let mut pod = pod(ready);
        pod["metadata"]["labels"] = json!({SERVED: "web"});
        pod
    };
    let slice = |name: &str, pods: &[&str]| {
        let endpoint = |pod: &&str| json!({"conditions": {"ready": true}, "targetRef": {"uid": pod}});
        json!({"metadata": {"name": name, "namespace": "n", "uid": name},
            "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>()})
    };
    world.shows(resources::PODS, served(true));
    assert!(!world.state.is_settled());
    world.after(7).await;
    world.shows(resources::ENDPOINT_SLICES, slice("a", &["pod"]));
    assert_eq!(world.latencies(ENDPOINT_SLICE), [7]);
    // The Pod moves to another slice without a gap, and leaves.
    world.shows(resources::ENDPOINT_SLICES, slice("b", &["pod"]));
    world.shows(resources::ENDPOINT_SLICES, slice("a", &[]));
    world.shows(resources::PODS, served(false));
    assert!(!world.state.is_settled());
    world.after(20).await;
    world.shows(resources::ENDPOINT_SLICES, slice("b", &[]));
    assert_eq!((world.latencies(ENDPOINT_SLICE), world.state.is_settled()), (vec![20], true));
    // A slice that the watch shows before its Pod.
    world.shows(resources::ENDPOINT_SLICES, slice("b", &["pod"]));
    world.shows(resources::PODS, served(true));
    assert_eq!(world.latencies(ENDPOINT_SLICE), [0]);
}

#[tokio::test(start_paused = true)]
async fn what_each_namespace_has_is_counted_when_it_is_created_and_when_it_is_repaired() {
    let mut world = World::new();
    let map =
        |data: Value| json!({"metadata": {"name": "kube-root-ca.crt", "namespace": "n", "uid": "map"}, "data": data});
    world.shows(resources::CONFIG_MAPS, map(json!({"ca.crt": ""})));
    world.shows(resources::CONFIG_MAPS, map(json!({"ca.crt": "", "extra": ""})));
    assert_eq!(world.state.kept(&resources::CONFIG_MAPS), 1);
    world.shows(resources::CONFIG_MAPS, map(json!({"ca.crt": ""})));
    assert_eq!(world.state.kept(&resources::CONFIG_MAPS), 2);
    let role = |rules: Value| json!({"metadata": {"name": "all", "uid": "all"}, "aggregationRule": {}, "rules": rules});
    world.shows(resources::CLUSTER_ROLES, role(Value::Null));
    world.shows(resources::CLUSTER_ROLES, role(json!([{}, {}])));
    world.shows(resources::CLUSTER_ROLES, json!({"metadata": {"name": "plain", "uid": "plain"}, "rules": [{}]}));
    assert_eq!(world.state.total(&resources::CLUSTER_ROLES), 2);
    world.loses(resources::CLUSTER_ROLES, "all");
    assert_eq!(world.state.total(&resources::CLUSTER_ROLES), 0);
}

#[tokio::test(start_paused = true)]
async fn budgets_are_settled_and_quotas_count() {
    let mut world = World::new();
    let budget = |healthy: u32, allowed: u32, evicted: Value| {
        let status = json!({"observedGeneration": 1, "currentHealthy": healthy, "desiredHealthy": 2,
            "disruptionsAllowed": allowed, "disruptedPods": evicted});
        json!({"metadata": {"name": "web", "namespace": "n", "uid": "web", "generation": 1}, "status": status})
    };
    for (shown, is_settled) in [
        (budget(3, 0, json!({})), false),
        (budget(3, 1, json!({"web-0": "2026-01-01T00:00:00Z"})), false),
        (budget(3, 1, json!({})), true),
    ] {
        world.shows(resources::BUDGETS, shown);
        assert_eq!(world.state.is_as_specified(), is_settled);
    }
    assert_eq!(world.state.total(&resources::BUDGETS), 3);
    let used = json!({"used": {"pods": "40", "configmaps": "1", "requests.cpu": "2"}});
    world.shows(resources::RESOURCE_QUOTAS, json!({"metadata": {"name": "all", "uid": "all"}, "status": used}));
    assert_eq!(world.state.total(&resources::RESOURCE_QUOTAS), 41);
}
