//! A cluster in memory with the loops of several controllers, in virtual time.

use std::time::Duration;

use common::{clock::Clock, runtime::LoopDefinition, settings::OperatorSettings};
use e2e::{
    controllers,
    loops::Loops,
    nodes,
    sandbox::{self, Sandbox},
};
use serde_json::{Value, json};

/// A cluster, in which the objects of a test are in one namespace.
pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) clock: Clock,
    pub(crate) namespace: &'static str,
    nodes: Option<nodes::Nodes>,
    loops: Vec<Loops>,
}

impl World {
    /// Starts a server without nodes and controllers.
    pub(crate) async fn new(namespace: &'static str, time: &str, server: sandbox::Builder) -> Self {
        let clock = Clock::simulated(time.parse().unwrap(), 42);
        let sandbox = server.clock(clock.clone()).build();
        let world = Self { sandbox, clock, namespace, nodes: None, loops: Vec::new() };
        world.create_namespace(namespace).await;
        world
    }

    /// Creates a namespace, unless it exists.
    pub(crate) async fn create_namespace(&self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        drop(self.sandbox.create(namespace).await);
    }

    /// Starts nodes, and waits until they are ready.
    pub(crate) async fn start_nodes(&mut self, identity: &str, nodes: nodes::Builder) {
        let nodes = self.nodes.insert(nodes.start(self.sandbox.client(identity), self.clock.clone()));
        nodes.ready().await;
    }

    /// Starts these loops.
    pub(crate) fn start_loops(&mut self, identity: &str, settings: OperatorSettings, loops: &[LoopDefinition]) {
        self.loops.push(Loops::start(&self.sandbox.client(identity), &self.clock, settings, loops));
    }

    /// Starts all controllers except these, each with its own identity.
    pub(crate) fn start_controllers(&mut self, identity: fn(&str) -> String, without: &[String]) {
        for controller in controllers::ALL.iter().filter(|controller| !without.iter().any(|n| n == controller.name)) {
            self.start_loops(&identity(controller.name), OperatorSettings::new(), controller.loops);
        }
    }

    pub(crate) fn nodes(&self) -> &nodes::Nodes {
        self.nodes.as_ref().unwrap()
    }

    /// Waits for so many seconds.
    pub(crate) async fn pass(&self, seconds: impl Into<f64>) {
        self.clock.sleep(Duration::from_secs_f64(seconds.into())).await;
    }

    /// Creates an object in the namespace.
    pub(crate) async fn create(&self, mut object: Value) -> Value {
        object["metadata"]["namespace"] = self.namespace.into();
        self.sandbox.create(object).await.unwrap()
    }

    /// Merges a patch into an object in the namespace.
    pub(crate) async fn merge(&self, resource: &str, name: &str, patch: Value) {
        self.sandbox.merge(resource, Some(self.namespace), name, None, patch).await.unwrap();
    }

    /// Merges a patch into the status of an object in the namespace.
    pub(crate) async fn merge_status(&self, resource: &str, name: &str, status: &Value) {
        let patch = json!({ "status": status });
        self.sandbox.merge(resource, Some(self.namespace), name, Some("status"), patch).await.unwrap();
    }

    pub(crate) async fn list(&self, resource: &str) -> Vec<Value> {
        self.sandbox.list(resource, Some(self.namespace)).await.unwrap()
    }

    /// Deletes the object at a path below the namespace of a group and version, such as `deployments/web`.
    pub(crate) async fn delete(&self, group: &str, path: &str, propagation: &str) {
        let root = if group.contains('/') { "apis" } else { "api" };
        let path = format!("/{root}/{group}/namespaces/{}/{path}", self.namespace);
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation});
        self.sandbox.send(http::Method::DELETE, &path, "application/json", Some(&options)).await.unwrap();
    }
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
