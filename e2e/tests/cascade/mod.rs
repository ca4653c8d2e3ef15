//! `kubectl delete deployment` with each `--cascade`, among the controllers and nodes that it concerns, in virtual time.

mod trace;

use std::time::Duration;

use common::{clock::Clock, settings::OperatorSettings};
use sandbox::{Change, Sandbox, loops::Loops, nodes::Nodes};
use serde_json::{Value, json};

/// Where everything happens.
const NS: &str = "shop";

pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    clock: Clock,
    _nodes: Nodes,
    _loops: Loops,
}

impl World {
    /// A cluster with these Deployments of two Pods each, which have rolled out.
    pub(crate) async fn new(names: &[&str]) -> Self {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        let nodes = Nodes::builder().count(3).heartbeat(None).start(sandbox.client("nodes"), clock.clone());
        nodes.ready().await;
        sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})).await.unwrap();
        let loops = [replicaset_controller::LOOPS, deployment_controller::LOOPS, gc_controller::LOOPS].concat();
        let loops = Loops::start(&sandbox.client("controllers"), &clock, OperatorSettings::new(), &loops);
        for name in names {
            let labels = json!({"app": name});
            let containers = json!([{"name": "c", "image": "img:1"}]);
            let deployment = json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": NS},
                "spec": {"replicas": 2, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}},
            });
            sandbox.create(deployment).await.unwrap();
        }
        let world = Self { sandbox, clock, _nodes: nodes, _loops: loops };
        world.pass(30).await;
        assert_eq!(world.count("pods").await, 2 * names.len());
        world
    }

    async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    async fn count(&self, resource: &str) -> usize {
        self.sandbox.list(resource, Some(NS)).await.unwrap().len()
    }

    /// As `kubectl delete deployment` does it, and waits for what follows.
    pub(crate) async fn delete(&self, name: &str, propagation: &str) {
        let path = format!("/apis/apps/v1/namespaces/{NS}/deployments/{name}");
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation});
        self.sandbox.send(http::Method::DELETE, &path, "application/json", Some(&options)).await.unwrap();
        self.pass(120).await;
    }

    /// The resources of objects in the order in which they ceased to exist.
    fn ended(&self) -> Vec<String> {
        let all = self.sandbox.writes().all();
        all.iter()
            .filter(|w| w.change == Change::Deleted && w.resource != "events")
            .map(|w| w.resource.clone())
            .collect()
    }
}

#[tokio::test(start_paused = true)]
async fn in_the_background_it_goes_first() {
    let w = World::new(&["a"]).await;
    w.delete("a", "Background").await;
    assert_eq!(w.ended(), ["deployments", "replicasets", "pods", "pods"]);
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground_it_goes_last() {
    let w = World::new(&["a"]).await;
    w.delete("a", "Foreground").await;
    assert_eq!(w.ended(), ["pods", "pods", "replicasets", "deployments"]);
}

#[tokio::test(start_paused = true)]
async fn without_its_dependents_it_goes_alone() {
    let w = World::new(&["a"]).await;
    w.delete("a", "Orphan").await;
    assert_eq!(w.ended(), ["deployments"]);
    let sets = w.sandbox.list("replicasets.apps", Some(NS)).await.unwrap();
    let owners = sets[0]["metadata"].get("ownerReferences").and_then(Value::as_array);
    assert!(sets.len() == 1 && owners.is_none_or(Vec::is_empty), "{sets:#?}");
    assert_eq!(w.count("pods").await, 2);
}
