//! Requests for one piece of work: all controllers on the sandbox, in virtual time, each with an identity of its own.

use std::{collections::BTreeMap, time::Duration};

use e2e::{
    controllers::ALL,
    nodes::{Nodes, is_ready},
    sandbox::{
        Action, RequestKey, Rule, Sandbox,
        guards::{Guards, Unmeasured},
    },
};
use serde_json::{Value, json};

use super::hold;
use crate::world::{World, name};

/// Nodes of the cluster.
const NODES: u32 = 5;

/// Work in a cluster with all controllers, and the requests that they have made for it.
struct Work {
    guards: Guards,
    world: World,
}

impl Work {
    /// Starts everything and waits until it is quiet. `section` names the work in the table.
    async fn new(section: &'static str) -> Self {
        let work = Self::start(section).await;
        work.world.sandbox.requests().clear();
        work
    }

    /// The same, with the requests of the start.
    async fn start(section: &'static str) -> Self {
        let mut world = World::new("shop", "2026-11-21T09:37:27.2Z", Sandbox::builder()).await;
        // Nodes take a moment for everything they do.
        world.sandbox.faults().add(Rule::new(Action::Latency(Duration::from_millis(10))).identity("nodes"));
        world.start_nodes("nodes", Nodes::builder().count(NODES)).await;
        world.start_controllers(str::to_owned, &[]);
        world.pass(60).await;
        Self { guards: Guards::new(section, Unmeasured::IsZero), world }
    }

    /// Creates an object.
    async fn create(&self, api_version: &str, kind: &str, name: &str, spec: Value) {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
        self.world.create(object).await;
    }

    async fn delete(&self, resource: &str, name: &str) {
        self.world.sandbox.delete(resource, Some(self.world.namespace), name).await.unwrap();
    }

    /// Waits for so many seconds, after which so many Pods are ready.
    async fn until_ready(&self, pods: usize, seconds: u32) {
        self.world.pass(seconds).await;
        let ready = self.world.list("pods").await.iter().filter(|pod| is_ready(pod)).count();
        assert_eq!(ready, pods, "ready Pods");
    }

    /// The requests of the controllers since the part before.
    fn requests(&self) -> Vec<(RequestKey, u64)> {
        let is_controller = |identity: &str| ALL.iter().any(|controller| controller.name == identity);
        self.world.sandbox.requests().all().into_iter().filter(|(key, _)| is_controller(&key.identity)).collect()
    }

    /// Ends a part of the work: adds the requests since the part before it, by controller, verb and resource.
    ///
    /// Without watches: how long each of them lasts is drawn, and has nothing to do with the work.
    fn count(&mut self, part: &str) {
        for (key, requests) in self.requests().into_iter().filter(|(key, _)| key.verb != "watch") {
            let path = format!("{part}/{}/{}/{}", key.identity, key.verb, key.resource);
            self.guards.add(&path, "requests", requests);
        }
        self.world.sandbox.requests().clear();
    }
}

/// A Pod template whose containers run this image.
fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// The spec of a set of that many Pods.
fn set(replicas: u32) -> Value {
    json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("img:1")})
}

fn new_image() -> Value {
    json!({"spec": {"template": template("img:2")}})
}

/// The spec of a Service of those Pods.
fn service() -> Value {
    json!({"selector": {"app": "web"}, "ports": [{"port": 80}]})
}

#[tokio::test(start_paused = true)]
async fn the_start_opens_one_watch_for_each_resource() {
    let mut work = Work::start("requests/start").await;
    let mut numbers: BTreeMap<String, u64> = BTreeMap::new();
    for (key, requests) in work.requests() {
        *numbers.entry(format!("{}/{}", key.identity, key.verb)).or_default() += requests;
        assert!(key.verb != "watch" || requests == 1, "{requests} times {key:?}");
    }
    for (path, requests) in numbers {
        work.guards.add(&path, "requests", requests);
    }
    hold(work.guards);
}

/// Creates a workload, rolls it out, scales a Deployment down, and deletes it.
async fn workload_is_rolled_and_deleted(section: &'static str, kind: &str, pods: usize, spec: Value) {
    let mut work = Work::new(section).await;
    let resource = format!("{}s.apps", kind.to_lowercase());
    work.create("apps/v1", kind, "web", spec).await;
    work.until_ready(pods, 60).await;
    work.count("create");
    work.world.merge(&resource, "web", new_image()).await;
    work.until_ready(pods, 120).await;
    work.count("roll");
    if kind == "Deployment" {
        work.world.merge(&resource, "web", json!({"spec": {"replicas": 5}})).await;
        work.until_ready(5, 60).await;
        work.count("scale-down");
    }
    work.delete(&resource, "web").await;
    work.world.pass(60).await;
    assert_eq!(work.world.sandbox.count("pods") + work.world.sandbox.count("replicasets.apps"), 0);
    work.count("delete");
    hold(work.guards);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_created_rolled_scaled_and_deleted() {
    workload_is_rolled_and_deleted("requests/deployment-of-20", "Deployment", 20, set(20)).await;
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_is_created_rolled_and_deleted() {
    workload_is_rolled_and_deleted("requests/statefulset-of-5", "StatefulSet", 5, set(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_is_created_rolled_and_deleted() {
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template("img:1")});
    workload_is_rolled_and_deleted("requests/daemonset-on-5", "DaemonSet", 5, spec).await;
}

/// The spec of a Job whose Pods end well after a second.
fn job(completions: u32) -> Value {
    let metadata = json!({"annotations": {"sim/exit": "0", "sim/after": "1"}});
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "img:1"}]});
    json!({"completions": completions, "parallelism": completions, "template": {"metadata": metadata, "spec": spec}})
}

#[tokio::test(start_paused = true)]
async fn a_job_completes_and_is_deleted() {
    let mut work = Work::new("requests/job-of-20").await;
    work.create("batch/v1", "Job", "work", job(20)).await;
    work.world.pass(60).await;
    assert_eq!(work.world.list("jobs.batch").await[0]["status"]["succeeded"], 20);
    work.count("complete");
    // The kind's own propagation would orphan the Pods.
    work.world.delete("batch/v1", "jobs/work", "Background").await;
    work.world.pass(60).await;
    assert_eq!(work.world.sandbox.count("pods"), 0);
    work.count("delete");
    hold(work.guards);
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_starts_three_jobs() {
    let mut work = Work::new("requests/cronjob-of-3").await;
    let spec = json!({"schedule": "* * * * *", "jobTemplate": {"spec": job(1)}});
    work.create("batch/v1", "CronJob", "tick", spec).await;
    work.world.pass(3 * 60).await;
    work.world.merge("cronjobs.batch", "tick", json!({"spec": {"suspend": true}})).await;
    work.world.pass(30).await;
    assert_eq!(work.world.sandbox.count("jobs.batch"), 3);
    work.count("three-starts");
    hold(work.guards);
}

#[tokio::test(start_paused = true)]
async fn a_service_gets_twenty_endpoints_and_loses_them() {
    let mut work = Work::new("requests/service-of-20").await;
    work.create("v1", "Service", "web", service()).await;
    work.create("apps/v1", "Deployment", "web", set(20)).await;
    work.until_ready(20, 60).await;
    let slices = work.world.list("endpointslices.discovery.k8s.io").await;
    assert_eq!(slices.iter().map(|slice| slice["endpoints"].as_array().unwrap().len()).sum::<usize>(), 20);
    work.count("fill");
    work.delete("services", "web").await;
    work.world.pass(60).await;
    assert_eq!(work.world.list("endpointslices.discovery.k8s.io").await.len(), 0);
    work.count("delete");
    hold(work.guards);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_of_owned_objects_is_collected() {
    let mut work = Work::new("requests/namespace").await;
    let map = |name: &str, owners: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}});
    for owner in ["first", "second"] {
        let created = work.world.create(map(owner, json!([]))).await;
        let reference =
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": created["metadata"]["uid"]}]);
        for number in 0..20 {
            work.world.create(map(&format!("{owner}-{number}"), reference.clone())).await;
        }
    }
    work.create("apps/v1", "Deployment", "web", set(5)).await;
    work.until_ready(5, 60).await;
    work.count("create");
    work.delete("configmaps", "first").await;
    work.world.pass(60).await;
    assert!(work.world.list("configmaps").await.iter().all(|map| !name(map).starts_with("first")));
    work.count("delete-an-owner-of-20");
    work.world.sandbox.delete("namespaces", None, work.world.namespace).await.unwrap();
    work.world.pass(120).await;
    assert!(work.world.sandbox.get("namespaces", None, work.world.namespace).await.is_err());
    work.count("delete-the-namespace");
    hold(work.guards);
}

#[tokio::test(start_paused = true)]
async fn a_node_is_lost_and_comes_back() {
    let mut work = Work::new("requests/lost-node").await;
    let is_tainted = async |world: &World| {
        let node = world.sandbox.get("nodes", None, "node-1").await.unwrap();
        node["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty())
    };
    work.create("apps/v1", "Deployment", "web", set(20)).await;
    work.world.pass(60).await;
    work.count("create");
    work.world.nodes().silence("node-1").unwrap();
    // Long enough for the grace period and the tolerations of the Pods.
    work.until_ready(20, 420).await;
    assert!(is_tainted(&work.world).await);
    work.count("lost");
    work.world.nodes().restore("node-1").unwrap();
    work.world.pass(120).await;
    assert!(!is_tainted(&work.world).await);
    work.count("back");
    hold(work.guards);
}

#[tokio::test(start_paused = true)]
async fn an_idle_hour_with_heartbeats_costs_next_to_nothing() {
    let mut work = Work::new("requests/idle-hour").await;
    work.create("apps/v1", "Deployment", "web", set(20)).await;
    work.create("v1", "Service", "web", service()).await;
    work.until_ready(20, 300).await;
    work.world.sandbox.requests().clear();
    work.world.pass(3600).await;
    let requests = work.world.sandbox.requests();
    let of_leases = |verb: &str| requests.count(Some("nodes"), Some(verb), Some("leases.coordination.k8s.io"));
    let heartbeats = of_leases("update") + of_leases("patch");
    assert!(heartbeats >= 360 * u64::from(NODES), "{heartbeats} heartbeats");
    // Watches end and are opened again; nothing else happens. All of them are one number, because the length of each is drawn.
    let requests = work.requests();
    let others: Vec<_> = requests.iter().filter(|(key, _)| key.verb != "watch").collect();
    assert!(others.is_empty(), "{others:?}");
    work.guards.add("watch", "requests", requests.iter().map(|(_, requests)| requests).sum());
    let watched = work.world.sandbox.requests().watched_bytes();
    for controller in ALL {
        work.guards.add(controller.name, "bytes", watched.get(controller.name).copied().unwrap_or_default());
    }
    hold(work.guards);
}
