//! A cluster without a namespace controller of its own, and the namespace `shop`, which the tests delete.

use std::sync::Mutex;

pub(crate) use testkit::prelude::*;

pub(crate) const NAMESPACES: &str = "namespaces";
pub(crate) const FINALIZE: &str = "namespaces/finalize";
pub(crate) const STATUS: &str = "namespaces/status";
pub(crate) const MAPS: &str = "configmaps";
pub(crate) const WIDGETS: &str = "widgets.example.com";
/// A finalizer that no controller of the tests removes.
pub(crate) const HOLD: &str = "example.com/hold";

pub(crate) fn cluster() -> Cluster {
    let cluster = Cluster::new(namespace_controller::LOOPS, NAMESPACES, NAMESPACE).quiet_seconds(20);
    cluster.server(sandbox::Builder::without_namespace_controller)
}

/// Returns a ConfigMap with these finalizers.
pub(crate) fn map(name: &str, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "finalizers": finalizers}})
}

/// Returns a Pod that no node runs, with these finalizers.
pub(crate) fn pod(name: &str, finalizers: &[&str]) -> Value {
    merged(object("v1", "Pod", name, pod_spec("img:1")), json!({"metadata": {"finalizers": finalizers}}))
}

/// Creates the definition of the kind Widget, and a Widget.
pub(crate) async fn create_widget(world: &World) {
    let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
    world.create(custom_resource_definition(&widgets)).await;
    world.create(merged(map("w", &[]), json!({"apiVersion": "example.com/v1", "kind": "Widget"}))).await;
}

/// Starts the cluster, creates these objects, clears the log, and deletes the namespace.
pub(crate) async fn deleted(cluster: Cluster, objects: &[Value]) -> World {
    let world = cluster.start().await;
    for object in objects {
        world.create(object.clone()).await;
    }
    delete_namespace(&world).await;
    world
}

/// Clears the log and deletes the namespace.
pub(crate) async fn delete_namespace(world: &World) {
    world.wait(1).await;
    world.clear_log();
    world.delete(NAMESPACES, NAMESPACE).await;
}

pub(crate) async fn exists(world: &World) -> bool {
    world.find(NAMESPACES, NAMESPACE).await.is_some()
}

/// Asserts that the namespace is gone after so many seconds, and exists shortly before.
pub(crate) async fn assert_gone_after(world: &World, seconds: u32) {
    world.wait(f64::from(seconds) - 0.5).await;
    assert!(exists(world).await, "the namespace is gone before {seconds} s");
    world.wait(1).await;
    assert!(!exists(world).await, "{:#}", world.explain());
}

/// Returns status and message of a condition of the namespace.
pub(crate) async fn condition_of(world: &World, kind: &str) -> String {
    let condition = world.condition(kind).await;
    format!("{} {}: {}", text(&condition, "status"), text(&condition, "reason"), text(&condition, "message"))
}

/// Removes all finalizers of an object.
pub(crate) async fn release(world: &World, resource: &str, name: &str) {
    world.patch(resource, name, json!({"metadata": {"finalizers": null}})).await;
}

/// The requests of the loops that a filter has seen, as `METHOD PATH?QUERY`.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    /// Records each request, and lets `answer` answer some of them.
    pub(crate) fn filter(
        &self,
        answer: impl Fn(&Method, &str) -> Option<Answer> + Send + Sync + 'static,
    ) -> RequestFilter {
        let seen = self.clone();
        Arc::new(move |request: &LoopRequest| {
            let target = request.uri().to_string();
            seen.0.lock().unwrap().push(format!("{} {target}", request.method()));
            answer(request.method(), &target)
        })
    }

    /// Returns the recorded requests that contain this text.
    pub(crate) fn with(&self, text: &str) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|request| request.contains(text)).cloned().collect()
    }
}
