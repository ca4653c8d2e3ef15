//! A namespace, and what users do in it.

use std::{future::Future, pin::Pin, time::Duration};

use http::Method;
use sandbox::Sandbox;
use serde_json::{Value, json};

/// What users do.
pub(crate) type Acting = Pin<Box<dyn Future<Output = ()>>>;
/// What users do in a place.
pub(crate) type Act = fn(Place) -> Acting;

/// A namespace. The same name stands for a node, too, in situations of nodes.
#[derive(Clone)]
pub(crate) struct Place {
    sandbox: Sandbox,
    pub(crate) name: String,
}

impl Place {
    pub(crate) async fn new(sandbox: &Sandbox, name: &str) -> Self {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        sandbox.create(namespace).await.unwrap();
        Self { sandbox: sandbox.clone(), name: name.to_owned() }
    }

    /// Creates an object here.
    pub(crate) async fn create(&self, mut object: Value) -> Value {
        if object["kind"] != "Node" {
            object["metadata"]["namespace"] = json!(self.name);
        }
        self.sandbox.create(object).await.unwrap()
    }

    /// Another namespace, which is there.
    pub(crate) fn at(&self, namespace: &str) -> Self {
        Self { name: namespace.to_owned(), ..self.clone() }
    }

    /// Renews the Lease of a node, and waits until it is to be renewed again.
    pub(crate) async fn renew(&self, name: &str) {
        let clock = self.sandbox.clock();
        let time = jiff::fmt::strtime::format("%Y-%m-%dT%H:%M:%S.%6fZ", clock.now()).unwrap();
        self.merge("leases.coordination.k8s.io", name, json!({"spec": {"renewTime": time}})).await;
        clock.sleep(Duration::from_secs(25)).await;
    }

    /// Creates an object here that another one controls.
    pub(crate) async fn create_owned(&self, owner: &Value, mut object: Value) -> Value {
        let mut reference =
            json!({"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": true});
        reference["apiVersion"] = owner["apiVersion"].clone();
        reference["kind"] = owner["kind"].clone();
        object["metadata"]["ownerReferences"] = json!([reference]);
        self.create(object).await
    }

    fn namespace(&self, resource: &str) -> Option<&str> {
        (resource != "nodes").then_some(&self.name)
    }

    /// Merges a patch into an object.
    pub(crate) async fn merge(&self, resource: &str, name: &str, patch: Value) {
        self.sandbox.merge(resource, self.namespace(resource), name, None, patch).await.unwrap();
    }

    /// Merges a patch into the status of an object.
    pub(crate) async fn status(&self, resource: &str, name: &str, status: Value) {
        let patch = json!({"status": status});
        self.sandbox.merge(resource, self.namespace(resource), name, Some("status"), patch).await.unwrap();
    }

    /// Deletes an object.
    pub(crate) async fn delete(&self, resource: &str, name: &str) {
        self.sandbox.delete(resource, Some(&self.name), name).await.unwrap();
    }

    /// Deletes an object with this propagation policy; `path` ends with its name.
    pub(crate) async fn delete_with(&self, collection: &str, name: &str, propagation: &str) {
        let path = format!("/api/v1/namespaces/{}/{collection}/{name}", self.name);
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation});
        self.sandbox.send(Method::DELETE, &path, "application/json", Some(&options)).await.unwrap();
    }

    /// The name of the only object of a resource here.
    pub(crate) async fn only(&self, resource: &str) -> String {
        let list = self.sandbox.list(resource, Some(&self.name)).await.unwrap();
        assert_eq!(list.len(), 1, "{resource} in {}", self.name);
        list[0]["metadata"]["name"].as_str().unwrap().to_owned()
    }
}

/// A template of Pods with the label `app: web`.
pub(crate) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// A Pod that nobody controls, with the label `app: web`.
pub(crate) fn stray(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}})
}

/// The status of a Pod that is ready.
pub(crate) fn ready() -> Value {
    json!({"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True"}]})
}

/// Makes a node that takes Pods.
pub(crate) async fn worker(place: Place) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}});
    place.create(node).await;
    place.merge("nodes", "worker", json!({"spec": {"taints": null}})).await;
}
