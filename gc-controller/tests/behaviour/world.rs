//! A sandbox with the collector, and ConfigMaps that own each other.

use std::{sync::Arc, time::Duration};

use common::{
    clock::Clock,
    settings::{OperatorSettings, TunableValue},
};
use sandbox::{Change, Sandbox, Write, loops::Loops};
use serde_json::{Value, json};

/// Identity of the collector at the sandbox.
pub(crate) const CONTROLLER_IDENTITY: &str = "collector";
/// Namespace of all test objects, except owners in [`OTHER_NAMESPACE`].
pub(crate) const NAMESPACE: &str = "shop";
/// Namespace of owners that an object in [`NAMESPACE`] may not name.
pub(crate) const OTHER_NAMESPACE: &str = "mall";

pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) clock: Clock,
    pub(crate) loops: Option<Loops>,
}

impl World {
    pub(crate) async fn new() -> Self {
        let mut world = Self::without_collector().await;
        world.start();
        world.settle().await;
        world.reset_counters();
        world
    }

    /// Creates a sandbox without a running collector.
    pub(crate) async fn without_collector() -> Self {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        for name in [NAMESPACE, OTHER_NAMESPACE] {
            sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await.unwrap();
        }
        Self { sandbox, clock, loops: None }
    }

    /// Starts a collector as a new process, with default settings except the discovery period.
    pub(crate) fn start(&mut self) {
        self.start_with(OperatorSettings::new());
    }

    /// Starts a collector with these settings and a discovery period of 5 seconds.
    pub(crate) fn start_with(&mut self, settings: OperatorSettings) {
        let settings = settings.with_tunable("gc-discovery-period", TunableValue::Duration(Duration::from_secs(5)));
        self.loops =
            Some(Loops::start(&self.sandbox.client(CONTROLLER_IDENTITY), &self.clock, settings, gc_controller::LOOPS));
    }

    /// Starts a collector as a standby, which fills its graph and writes nothing.
    pub(crate) fn stand_by(&mut self) {
        let settings =
            OperatorSettings::new().with_tunable("gc-discovery-period", TunableValue::Duration(Duration::from_secs(5)));
        self.loops = Some(Loops::stand_by(
            &self.sandbox.client(CONTROLLER_IDENTITY),
            &self.clock,
            settings,
            gc_controller::LOOPS,
        ));
    }

    pub(crate) fn running(&self) -> &Loops {
        self.loops.as_ref().unwrap()
    }

    /// Returns the value of one of the collector's metrics. `line` is the name of the metric with its labels.
    pub(crate) fn metric(&self, line: &str) -> u64 {
        let text = self.running().metrics().render_prometheus();
        let value = text.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {line} in {text}")).parse().unwrap()
    }

    /// Stops the tasks of the collector without a clean shutdown.
    pub(crate) fn crash(&mut self) {
        self.loops = None;
    }

    /// Creates the ConfigMaps `a` and `b`, which own each other and block each other's deletion.
    pub(crate) async fn create_cycle(&self) {
        let a = self.map("a", &[]).await;
        let b = self.blocking_map("b", &[&a]).await;
        let back = json!({"metadata": {"ownerReferences": [reference(&b, true)]}});
        self.sandbox.merge("configmaps", Some(NAMESPACE), "a", None, back).await.unwrap();
        self.settle().await;
    }

    pub(crate) async fn wait(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until nothing has been written for 8 seconds.
    pub(crate) async fn settle(&self) {
        for _ in 0..500 {
            let writes = self.sandbox.writes().count();
            self.wait(8).await;
            if self.sandbox.writes().count() == writes {
                return;
            }
        }
        panic!("no rest: {:#?}", self.loops.as_ref().map(|l| l.explain(None)));
    }

    /// Resets the counters of requests and writes.
    pub(crate) fn reset_counters(&self) {
        self.sandbox.requests().clear();
        self.sandbox.writes().clear();
    }

    /// Returns the number of requests of the collector with this verb and resource.
    pub(crate) fn request_count(&self, verb: &str, resource: &str) -> u64 {
        self.sandbox.requests().count(Some(CONTROLLER_IDENTITY), Some(verb), Some(resource))
    }

    /// Returns the names of the objects that the collector requested to delete, in the order of the requests.
    pub(crate) fn delete_requests(&self) -> Vec<String> {
        let deleted = |w: &Arc<Write>| w.identity == CONTROLLER_IDENTITY && w.verb == "delete";
        self.sandbox.writes().all().iter().filter(|w| deleted(w)).map(|w| w.name.clone()).collect()
    }

    /// Returns the names of objects in the order of their removal from the API server.
    pub(crate) fn removed_objects(&self) -> Vec<String> {
        let all = self.sandbox.writes().all();
        all.iter().filter(|w| w.change == Change::Deleted).map(|w| w.name.clone()).collect()
    }

    pub(crate) async fn create(&self, object: Value) -> Value {
        self.sandbox.create(object).await.unwrap()
    }

    /// Creates a ConfigMap owned by these objects.
    pub(crate) async fn map(&self, name: &str, owners: &[&Value]) -> Value {
        self.create(map(name, &owners.iter().map(|o| reference(o, false)).collect::<Vec<_>>())).await
    }

    /// Creates a ConfigMap that blocks the foreground deletion of these objects.
    pub(crate) async fn blocking_map(&self, name: &str, owners: &[&Value]) -> Value {
        self.create(map(name, &owners.iter().map(|o| reference(o, true)).collect::<Vec<_>>())).await
    }

    /// Deletes a ConfigMap with this propagation policy, as a user.
    pub(crate) async fn delete_map(&self, name: &str, propagation: &str) {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}");
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation});
        self.sandbox.send(http::Method::DELETE, &path, "application/json", Some(&options)).await.unwrap();
    }

    /// Returns the sorted names of the existing ConfigMaps.
    pub(crate) async fn maps(&self) -> Vec<String> {
        let mut all: Vec<String> =
            self.sandbox.list("configmaps", Some(NAMESPACE)).await.unwrap().iter().map(name).collect();
        all.sort();
        all
    }

    pub(crate) async fn get(&self, name: &str) -> Value {
        self.sandbox.get("configmaps", Some(NAMESPACE), name).await.unwrap()
    }

    /// Returns the output of `/debug/explain` for an object.
    pub(crate) fn explain(&self, object: &Value) -> Value {
        let key = object["metadata"]["uid"].as_str().unwrap();
        self.loops.as_ref().unwrap().explain(Some(key))[0].clone()
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Builds an owner reference to `owner`, with `blockOwnerDeletion` set to `blocks`.
pub(crate) fn reference(owner: &Value, blocks: bool) -> Value {
    let meta = &owner["metadata"];
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"],
        "blockOwnerDeletion": blocks})
}

/// Builds a ConfigMap in namespace [`NAMESPACE`] with these owner references.
pub(crate) fn map(name: &str, references: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": references}})
}

/// Returns the names in `metadata.ownerReferences`.
pub(crate) fn owners(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["ownerReferences"].as_array();
    list.map_or_else(Vec::new, |list| list.iter().map(|o| o["name"].as_str().unwrap()).collect())
}
