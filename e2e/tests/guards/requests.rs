//! Requests for one piece of work: all controllers on the sandbox, in virtual time, each with an identity of its own.

use std::{collections::BTreeMap, time::Duration};

use common::{clock::Clock, settings::OperatorSettings};
use e2e::{
    controllers::ALL,
    loops::Loops,
    nodes::{Nodes, is_ready},
    sandbox::{
        Action, RequestKey, Rule, Sandbox,
        guards::{Guards, Unmeasured},
    },
};
use serde_json::{Value, json};

use super::hold;

const NS: &str = "shop";
/// Nodes of the cluster.
const NODES: u32 = 5;

/// A cluster with all controllers, and the requests that they have made.
struct World {
    guards: Guards,
    sandbox: Sandbox,
    clock: Clock,
    nodes: Nodes,
    _loops: Vec<Loops>,
}

impl World {
    /// Starts everything and waits until it is quiet. `section` names the work in the table.
    async fn new(section: &'static str) -> Self {
        let world = Self::start(section).await;
        world.sandbox.requests().clear();
        world
    }

    /// The same, with the requests of the start.
    async fn start(section: &'static str) -> Self {
        let clock = Clock::simulated("2026-11-21T09:37:27.2Z".parse().unwrap(), 42);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        // Nodes take a moment for everything they do.
        sandbox.faults().add(Rule::new(Action::Latency(Duration::from_millis(10))).identity("nodes"));
        let nodes = Nodes::builder().count(NODES).start(sandbox.client("nodes"), clock.clone());
        nodes.ready().await;
        let start = |controller: &common::app::ProgramDefinition| {
            Loops::start(&sandbox.client(controller.name), &clock, OperatorSettings::new(), controller.loops)
        };
        let loops: Vec<Loops> = ALL.iter().map(|controller| start(controller)).collect();
        sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})).await.unwrap();
        let guards = Guards::new(section, Unmeasured::IsZero);
        let world = Self { guards, sandbox, clock, nodes, _loops: loops };
        world.pass(60).await;
        world
    }

    async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    async fn create(&self, api_version: &str, kind: &str, name: &str, spec: Value) {
        let metadata = json!({"name": name, "namespace": NS});
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
        self.sandbox.create(object).await.unwrap();
    }

    async fn merge(&self, resource: &str, name: &str, patch: Value) {
        self.sandbox.merge(resource, Some(NS), name, None, patch).await.unwrap();
    }

    async fn delete(&self, resource: &str, name: &str) {
        self.sandbox.delete(resource, Some(NS), name).await.unwrap();
    }

    async fn ready_pods(&self) -> usize {
        self.sandbox.list("pods", Some(NS)).await.unwrap().iter().filter(|pod| is_ready(pod)).count()
    }

    /// The requests of the controllers since the part before.
    fn requests(&self) -> Vec<(RequestKey, u64)> {
        let is_controller = |identity: &str| ALL.iter().any(|controller| controller.name == identity);
        self.sandbox.requests().all().into_iter().filter(|(key, _)| is_controller(&key.identity)).collect()
    }

    /// Ends a part of the work: adds the requests since the part before it, by controller, verb and resource.
    ///
    /// Without watches: how long each of them lasts is drawn, and has nothing to do with the work.
    fn count(&mut self, part: &str) {
        for (key, requests) in self.requests().into_iter().filter(|(key, _)| key.verb != "watch") {
            let path = format!("{part}/{}/{}/{}", key.identity, key.verb, key.resource);
            self.guards.add(&path, "requests", requests);
        }
        self.sandbox.requests().clear();
    }
}

/// A Pod template whose containers run this image.
fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// The spec of a set of that many Pods.
fn set(replicas: u32, image: &str) -> Value {
    json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(image)})
}

fn new_image() -> Value {
    json!({"spec": {"template": template("img:2")}})
}

#[tokio::test(start_paused = true)]
async fn the_start_opens_one_watch_for_each_resource() {
    let mut world = World::start("requests/start").await;
    let mut numbers: BTreeMap<String, u64> = BTreeMap::new();
    for (key, requests) in world.requests() {
        *numbers.entry(format!("{}/{}", key.identity, key.verb)).or_default() += requests;
        assert!(key.verb != "watch" || requests == 1, "{requests} times {key:?}");
    }
    for (path, requests) in numbers {
        world.guards.add(&path, "requests", requests);
    }
    hold(world.guards);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_created_rolled_scaled_and_deleted() {
    let mut world = World::new("requests/deployment-of-20").await;
    world.create("apps/v1", "Deployment", "web", set(20, "img:1")).await;
    world.pass(60).await;
    assert_eq!(world.ready_pods().await, 20);
    world.count("create");
    world.merge("deployments.apps", "web", new_image()).await;
    world.pass(120).await;
    assert_eq!(world.ready_pods().await, 20);
    world.count("roll");
    world.merge("deployments.apps", "web", json!({"spec": {"replicas": 5}})).await;
    world.pass(60).await;
    assert_eq!(world.ready_pods().await, 5);
    world.count("scale-down");
    world.delete("deployments.apps", "web").await;
    world.pass(60).await;
    assert_eq!(world.sandbox.count("pods") + world.sandbox.count("replicasets.apps"), 0);
    world.count("delete");
    hold(world.guards);
}

/// Creates a set of five Pods, rolls it out, and deletes it.
async fn set_is_created_rolled_and_deleted(section: &'static str, kind: &str, resource: &str, spec: Value) {
    let mut world = World::new(section).await;
    world.create("apps/v1", kind, "web", spec).await;
    world.pass(60).await;
    assert_eq!(world.ready_pods().await, 5);
    world.count("create");
    world.merge(resource, "web", new_image()).await;
    world.pass(120).await;
    assert_eq!(world.ready_pods().await, 5);
    world.count("roll");
    world.delete(resource, "web").await;
    world.pass(60).await;
    assert_eq!(world.sandbox.count("pods"), 0);
    world.count("delete");
    hold(world.guards);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_is_created_rolled_and_deleted() {
    let spec = set(5, "img:1");
    set_is_created_rolled_and_deleted("requests/statefulset-of-5", "StatefulSet", "statefulsets.apps", spec).await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_is_created_rolled_and_deleted() {
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template("img:1")});
    set_is_created_rolled_and_deleted("requests/daemonset-on-5", "DaemonSet", "daemonsets.apps", spec).await;
}

/// The spec of a Job whose Pods end well after a second.
fn job(completions: u32) -> Value {
    let metadata = json!({"annotations": {"sim/exit": "0", "sim/after": "1"}});
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]});
    json!({"completions": completions, "parallelism": completions, "template": {"metadata": metadata, "spec": spec}})
}

#[tokio::test(start_paused = true)]
async fn a_job_completes_and_is_deleted() {
    let mut world = World::new("requests/job-of-20").await;
    world.create("batch/v1", "Job", "work", job(20)).await;
    world.pass(60).await;
    let done = world.sandbox.get("jobs.batch", Some(NS), "work").await.unwrap();
    assert_eq!(done["status"]["succeeded"], 20);
    world.count("complete");
    // The kind's own propagation would orphan the Pods.
    let path = format!("/apis/batch/v1/namespaces/{NS}/jobs/work?propagationPolicy=Background");
    world.sandbox.send(http::Method::DELETE, &path, "", None).await.unwrap();
    world.pass(60).await;
    assert_eq!(world.sandbox.count("pods"), 0);
    world.count("delete");
    hold(world.guards);
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_starts_three_jobs() {
    let mut world = World::new("requests/cronjob-of-3").await;
    let spec = json!({"schedule": "* * * * *", "jobTemplate": {"spec": job(1)}});
    world.create("batch/v1", "CronJob", "tick", spec).await;
    world.pass(3 * 60).await;
    world.merge("cronjobs.batch", "tick", json!({"spec": {"suspend": true}})).await;
    world.pass(30).await;
    assert_eq!(world.sandbox.count("jobs.batch"), 3);
    world.count("three-starts");
    hold(world.guards);
}

#[tokio::test(start_paused = true)]
async fn a_service_gets_twenty_endpoints_and_loses_them() {
    let mut world = World::new("requests/service-of-20").await;
    world.create("v1", "Service", "web", json!({"selector": {"app": "web"}, "ports": [{"port": 80}]})).await;
    world.create("apps/v1", "Deployment", "web", set(20, "img:1")).await;
    world.pass(60).await;
    assert_eq!(world.ready_pods().await, 20);
    let slices = world.sandbox.list("endpointslices.discovery.k8s.io", Some(NS)).await.unwrap();
    assert_eq!(slices.iter().map(|slice| slice["endpoints"].as_array().unwrap().len()).sum::<usize>(), 20);
    world.count("fill");
    world.delete("services", "web").await;
    world.pass(60).await;
    assert_eq!(world.sandbox.list("endpointslices.discovery.k8s.io", Some(NS)).await.unwrap().len(), 0);
    world.count("delete");
    hold(world.guards);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_of_owned_objects_is_collected() {
    let mut world = World::new("requests/namespace").await;
    let map = |name: &str, owners: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": NS, "ownerReferences": owners}})
    };
    for owner in ["first", "second"] {
        let created = world.sandbox.create(map(owner, json!([]))).await.unwrap();
        let reference =
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": created["metadata"]["uid"]}]);
        for number in 0..20 {
            world.sandbox.create(map(&format!("{owner}-{number}"), reference.clone())).await.unwrap();
        }
    }
    world.create("apps/v1", "Deployment", "web", set(5, "img:1")).await;
    world.pass(60).await;
    assert_eq!(world.ready_pods().await, 5);
    world.count("create");
    world.delete("configmaps", "first").await;
    world.pass(60).await;
    let left = world.sandbox.list("configmaps", Some(NS)).await.unwrap();
    assert!(left.iter().all(|map| !map["metadata"]["name"].as_str().unwrap().starts_with("first")));
    world.count("delete-an-owner-of-20");
    world.sandbox.delete("namespaces", None, NS).await.unwrap();
    world.pass(120).await;
    assert!(world.sandbox.get("namespaces", None, NS).await.is_err());
    world.count("delete-the-namespace");
    hold(world.guards);
}

#[tokio::test(start_paused = true)]
async fn a_node_is_lost_and_comes_back() {
    let mut world = World::new("requests/lost-node").await;
    world.create("apps/v1", "Deployment", "web", set(20, "img:1")).await;
    world.pass(60).await;
    world.count("create");
    world.nodes.silence("node-1").unwrap();
    // Long enough for the grace period and the tolerations of the Pods.
    world.pass(420).await;
    let node = world.sandbox.get("nodes", None, "node-1").await.unwrap();
    assert!(node["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty()), "{node}");
    assert_eq!(world.ready_pods().await, 20);
    world.count("lost");
    world.nodes.restore("node-1").unwrap();
    world.pass(120).await;
    let node = world.sandbox.get("nodes", None, "node-1").await.unwrap();
    assert!(node["spec"]["taints"].as_array().is_none_or(Vec::is_empty), "{node}");
    world.count("back");
    hold(world.guards);
}

#[tokio::test(start_paused = true)]
async fn an_idle_hour_with_heartbeats_costs_next_to_nothing() {
    let mut world = World::new("requests/idle-hour").await;
    world.create("apps/v1", "Deployment", "web", set(20, "img:1")).await;
    world.create("v1", "Service", "web", json!({"selector": {"app": "web"}, "ports": [{"port": 80}]})).await;
    world.pass(300).await;
    assert_eq!(world.ready_pods().await, 20);
    world.sandbox.requests().clear();
    world.pass(3600).await;
    let heartbeats = world.sandbox.requests().count(Some("nodes"), Some("update"), Some("leases.coordination.k8s.io"))
        + world.sandbox.requests().count(Some("nodes"), Some("patch"), Some("leases.coordination.k8s.io"));
    assert!(heartbeats >= 360 * u64::from(NODES), "{heartbeats} heartbeats");
    // Watches end and are opened again; nothing else happens. All of them are one number, because the length of each is drawn.
    let requests = world.requests();
    let others: Vec<_> = requests.iter().filter(|(key, _)| key.verb != "watch").collect();
    assert!(others.is_empty(), "{others:?}");
    world.guards.add("watch", "requests", requests.iter().map(|(_, requests)| requests).sum());
    hold(world.guards);
}
