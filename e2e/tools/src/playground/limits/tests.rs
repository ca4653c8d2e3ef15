use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use crate::{
    sandbox::Sandbox,
    suite::{deployment, pod, replica_set},
};

/// A Deployment of four with `maxSurge` 1 and `maxUnavailable` 1, one ReplicaSet for each size given, and a judge.
struct Trial {
    sandbox: Sandbox,
    writes: UnboundedReceiver<std::sync::Arc<Write>>,
    world: World,
    limits: Limits,
    deployment: Value,
}

fn owner(of: &Value) -> Value {
    json!([{"apiVersion": of["apiVersion"], "kind": of["kind"], "name": of["metadata"]["name"],
        "uid": of["metadata"]["uid"], "controller": true}])
}

impl Trial {
    async fn new() -> Self {
        let sandbox = Sandbox::builder().build();
        let writes = sandbox.writes().subscribe();
        let deployment = deployment("web").replicas(4).rolling(1, 1).set("metadata/namespace", "default").build();
        let deployment = sandbox.create(deployment).await.unwrap();
        Self { sandbox, writes, world: World::default(), limits: Limits::default(), deployment }
    }

    /// What a client that is called `agent` does, with its path and body.
    async fn send(&self, agent: &str, method: &str, path: &str, body: &Value) -> Value {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", media).header("user-agent", agent);
        let request = request.body(serde_json::to_vec(body).unwrap()).unwrap();
        self.sandbox.client("test").request(request).await.unwrap()
    }

    async fn set(&self, agent: &str, name: &str, size: u32) -> Value {
        let set = replica_set(name).replicas(size).set("metadata/ownerReferences", owner(&self.deployment));
        self.send(agent, "POST", "/apis/apps/v1/namespaces/default/replicasets", &set.build()).await
    }

    async fn resize(&self, agent: &str, name: &str, size: i32) {
        let path = format!("/apis/apps/v1/namespaces/default/replicasets/{name}");
        self.send(agent, "PATCH", &path, &json!({"spec": {"replicas": size}})).await;
    }

    async fn pod(&self, agent: &str, set: &Value, name: &str) {
        let body = pod(name, "web").set("metadata/ownerReferences", owner(set)).set("spec/nodeName", "node-0").build();
        self.send(agent, "POST", "/api/v1/namespaces/default/pods", &body).await;
        let status = json!({"status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}]}});
        self.send("kubelet", "PATCH", &format!("/api/v1/namespaces/default/pods/{name}/status"), &status).await;
    }

    async fn delete(&self, agent: &str, pod: &str) {
        self.send(agent, "DELETE", &format!("/api/v1/namespaces/default/pods/{pod}"), &json!({})).await;
    }

    fn verdict(&mut self) -> Vec<String> {
        let mut broken = Vec::new();
        while let Ok(write) = self.writes.try_recv() {
            self.world.apply(&write);
            broken.extend(self.limits.judge(&self.world, &write));
        }
        broken
    }
}

const DEPLOYMENTS: &str = "deployment-controller/v0 kubernetes/0/deployment-controller";
const REPLICA_SETS: &str = "replicaset-controller/v0 kubernetes/0/replicaset-controller";
const PERSON: &str = "kubectl/v1.36.0";

#[tokio::test]
async fn sizes_may_reach_the_surge_and_not_exceed_it() {
    let mut trial = Trial::new().await;
    trial.set(DEPLOYMENTS, "web-1", 4).await;
    trial.set(DEPLOYMENTS, "web-2", 1).await;
    assert_eq!(trial.verdict(), Vec::<String>::new());
    trial.resize(DEPLOYMENTS, "web-2", 2).await;
    let broken = trial.verdict();
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(
        broken[0].contains("web-2 grew to 2, which makes 6 Pods in all, but replicas + maxSurge is 5"),
        "{broken:?}"
    );
}

#[tokio::test]
async fn what_people_do_is_no_controllers_fault() {
    let mut trial = Trial::new().await;
    let set = trial.set(PERSON, "web-1", 9).await;
    for n in 0..3 {
        trial.pod(REPLICA_SETS, &set, &format!("p{n}")).await;
    }
    trial.delete(PERSON, "p0").await;
    trial.resize(DEPLOYMENTS, "web-1", 8).await;
    assert_eq!(trial.verdict(), Vec::<String>::new());
}

#[tokio::test]
async fn a_set_creates_what_it_was_granted_until_it_has_seen_a_smaller_size() {
    let mut trial = Trial::new().await;
    let set = trial.set(DEPLOYMENTS, "web-1", 2).await;
    trial.pod(REPLICA_SETS, &set, "p0").await;
    trial.resize(DEPLOYMENTS, "web-1", 1).await;
    // It cannot know yet.
    trial.pod(REPLICA_SETS, &set, "p1").await;
    assert_eq!(trial.verdict(), Vec::<String>::new());
    let seen = json!({"status": {"replicas": 2, "observedGeneration": 2}});
    trial.send(REPLICA_SETS, "PATCH", "/apis/apps/v1/namespaces/default/replicasets/web-1/status", &seen).await;
    trial.pod(REPLICA_SETS, &set, "p2").await;
    let broken = trial.verdict();
    assert_eq!(broken, ["ReplicaSet default/web-1: Pod p2 is number 3 of 1"]);
}

#[tokio::test]
async fn available_pods_are_not_deleted_below_the_limit() {
    let mut trial = Trial::new().await;
    let set = trial.set(DEPLOYMENTS, "web-1", 4).await;
    for n in 0..4 {
        trial.pod(REPLICA_SETS, &set, &format!("p{n}")).await;
    }
    trial.delete(REPLICA_SETS, "p0").await;
    assert_eq!(trial.verdict(), Vec::<String>::new());
    let extremes = trial.limits.extremes(&NamespacedName::new("default", "web")).unwrap();
    assert_eq!((extremes.most, extremes.least), (4, Some(3)));
    trial.delete(REPLICA_SETS, "p1").await;
    let broken = trial.verdict();
    assert!(broken[0].contains("leaves 2 available, but replicas - maxUnavailable is 3"), "{broken:?}");
}
