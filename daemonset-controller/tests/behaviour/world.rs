//! A sandbox with three nodes, and the DaemonSet controller under test.

use std::{sync::Arc, time::Duration};

use common::{clock::Clock, settings::OperatorSettings};
use sandbox::{Sandbox, Write, loops::Loops, nodes::Nodes};
use serde_json::{Value, json};

/// The client identity of the controller on the sandbox.
pub(crate) const CONTROLLER_IDENTITY: &str = "controllers";
/// The namespace of all namespaced objects of these tests.
pub(crate) const NAMESPACE: &str = "shop";
pub(crate) const SETS: &str = "daemonsets.apps";
pub(crate) const REVISIONS: &str = "controllerrevisions.apps";

pub(crate) struct TestCluster {
    pub(crate) sandbox: Sandbox,
    pub(crate) clock: Clock,
    pub(crate) loops: Option<Loops>,
    pub(crate) nodes: Nodes,
    settings: OperatorSettings,
}

impl TestCluster {
    pub(crate) async fn new() -> Self {
        Self::with_settings(OperatorSettings::new()).await
    }

    pub(crate) async fn with_settings(settings: OperatorSettings) -> Self {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        let nodes = Nodes::builder().count(3).heartbeat(None).start(sandbox.client("nodes"), clock.clone());
        nodes.ready().await;
        sandbox
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
            .await
            .unwrap();
        let mut world = Self { sandbox, clock, loops: None, nodes, settings };
        world.start();
        world.wait_until_settled().await;
        world.clear_records();
        world
    }

    /// Starts the controller with empty memory, as a new process.
    pub(crate) fn start(&mut self) {
        let client = self.sandbox.client(CONTROLLER_IDENTITY);
        self.loops = Some(Loops::start(&client, &self.clock, self.settings.clone(), daemonset_controller::LOOPS));
    }

    /// Starts the controller again in shadow mode, as a new process. Clears the recorded requests and writes.
    pub(crate) fn start_shadow(&mut self) {
        self.settings = self.settings.clone().with_shadow_mode(true);
        self.start();
        self.clear_records();
    }

    /// Drops the loops without a shutdown, as a crash of the process does: no sync is finished, and no Lease is released.
    pub(crate) fn crash(&mut self) {
        self.loops = None;
    }

    pub(crate) async fn wait(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until nothing has been written for two seconds. Panics after 4000 seconds.
    pub(crate) async fn wait_until_settled(&self) {
        for _ in 0..2000 {
            let writes = self.sandbox.writes().count();
            self.wait(2).await;
            if self.sandbox.writes().count() == writes {
                return;
            }
        }
        panic!("no rest: {:#?}", self.loops.as_ref().map(|l| l.explain(None)));
    }

    pub(crate) fn clear_records(&self) {
        self.sandbox.requests().clear();
        self.sandbox.writes().clear();
    }

    /// Returns how many requests the controller has sent since the records were last cleared.
    pub(crate) fn request_count(&self, verb: &str, resource: &str) -> u64 {
        self.sandbox.requests().count(Some(CONTROLLER_IDENTITY), Some(verb), Some(resource))
    }

    /// Returns the writes of the controller since the records were last cleared, except for Events.
    pub(crate) fn own_writes(&self) -> Vec<Arc<Write>> {
        let all = self.sandbox.writes().all();
        all.into_iter().filter(|w| w.identity == CONTROLLER_IDENTITY && w.resource != "events").collect()
    }

    /// Returns the writes of Pods by node: `+node-0` for a creation, `-node-0` for a deletion, `~node-0` for a change.
    pub(crate) fn pod_writes(&self) -> Vec<String> {
        let written = self.own_writes();
        // The sandbox records an immediate deletion twice: as the request, and as the removal of the terminating Pod.
        let is_removal = |w: &Write| {
            w.verb == "delete" && w.before().is_some_and(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
        };
        let pods = written.iter().filter(|w| w.resource == "pods" && !is_removal(w));
        pods.map(|write| {
            let (sign, state) = match write.verb {
                "create" => ('+', write.after()),
                "delete" => ('-', write.before()),
                _ => ('~', write.after()),
            };
            format!("{sign}{}", target_node(&state.unwrap()))
        })
        .collect()
    }

    pub(crate) async fn create_object(&self, object: Value) -> Value {
        self.sandbox.create(object).await.unwrap()
    }

    pub(crate) async fn merge_patch(&self, resource: &str, name: &str, patch: Value) -> Value {
        self.sandbox.merge(resource, Some(NAMESPACE), name, None, patch).await.unwrap()
    }

    /// Merges `spec` into the spec of the DaemonSet `agent`.
    pub(crate) async fn change_spec(&self, spec: Value) {
        self.merge_patch(SETS, "agent", json!({ "spec": spec })).await;
    }

    /// Changes the image and the annotations in the Pod template of the DaemonSet `agent`.
    pub(crate) async fn roll_out(&self, image: &str, annotations: Value) {
        let containers = json!([{"name": "c", "image": image}]);
        self.change_spec(
            json!({"template": {"metadata": {"annotations": annotations}, "spec": {"containers": containers}}}),
        )
        .await;
    }

    pub(crate) async fn get(&self, resource: &str, name: &str) -> Value {
        self.sandbox.get(resource, Some(NAMESPACE), name).await.unwrap()
    }

    pub(crate) async fn status(&self) -> Value {
        self.get(SETS, "agent").await["status"].clone()
    }

    pub(crate) async fn object_names(&self, resource: &str) -> Vec<String> {
        let list = self.sandbox.list(resource, Some(NAMESPACE)).await.unwrap();
        list.iter().map(|object| object_name(object).to_owned()).collect()
    }

    /// Returns a line for each Pod, such as `node-0 img:1`, ordered by node.
    pub(crate) async fn images(&self) -> Vec<String> {
        let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        let mut images: Vec<String> =
            self.pods().await.iter().map(|pod| format!("{} {}", target_node(pod), image(pod))).collect();
        images.sort();
        images
    }

    pub(crate) async fn pods(&self) -> Vec<Value> {
        self.sandbox.list("pods", Some(NAMESPACE)).await.unwrap()
    }

    /// Returns the Pod that is bound or pinned to the node. Panics without such a Pod.
    pub(crate) async fn pod_on(&self, node: &str) -> Value {
        let pods = self.pods().await;
        pods.into_iter().find(|pod| target_node(pod) == node).unwrap_or_else(|| panic!("no Pod for {node}"))
    }

    pub(crate) async fn change_node(&self, node: &str, patch: Value) {
        self.sandbox.merge("nodes", None, node, None, patch).await.unwrap();
    }

    /// Returns a line with type, reason and message for each Event object, sorted. Repeated Events share an object.
    pub(crate) async fn events(&self) -> Vec<String> {
        let events = self.sandbox.list("events", Some(NAMESPACE)).await.unwrap();
        let text = |e: &Value, field: &str| e[field].as_str().unwrap_or_default().to_owned();
        let line = |e: &Value| format!("{} {} {}", text(e, "type"), text(e, "reason"), text(e, "message"));
        let mut out: Vec<String> = events.iter().map(line).collect();
        out.sort();
        out
    }

    pub(crate) async fn has_event(&self, start: &str) -> bool {
        self.events().await.iter().any(|event| event.starts_with(start))
    }

    pub(crate) fn explain(&self) -> Value {
        self.loops.as_ref().unwrap().explain(Some("shop/agent"))[0].clone()
    }

    /// Returns the value of the metric that counts the decisions about a node.
    pub(crate) fn decided_nodes(&self) -> u64 {
        let metrics = self.loops.as_ref().unwrap().metrics().render_prometheus();
        let line = metrics.lines().find(|line| line.starts_with("nonet_daemonset_nodes_decided_total"));
        line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
    }
}

pub(crate) fn object_name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Returns the name of the node to which a Pod is bound or pinned; empty without such a node.
pub(crate) fn target_node(pod: &Value) -> String {
    let bound = pod["spec"]["nodeName"].as_str();
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0";
    let pinned = || pod.pointer(&format!("{terms}/matchFields/0/values/0")).and_then(Value::as_str);
    bound.or_else(pinned).unwrap_or_default().to_owned()
}

/// A DaemonSet `agent` with the selector `app=agent` and the image `img:1`. `spec` is merged into its spec.
pub(crate) fn daemon_set(spec: Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": "img:1"}]}}},
    });
    merge(&mut set["spec"], &spec);
    set
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.iter().for_each(|(field, value)| merge(into.entry(field.clone()).or_insert(Value::Null), value));
        }
        (into, from) => *into = from.clone(),
    }
}

/// A Pod without a controller on the node. It matches the selector of `agent`, as if an earlier DaemonSet had left it behind.
pub(crate) fn orphan_pod(name: &str, node: &str) -> Value {
    let labels = json!({"app": "agent", "controller-revision-hash": "old"});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "img:0"}]}})
}

/// The part of a spec that sets a rolling update with these limits, for [`daemon_set`].
pub(crate) fn rolling_update_spec(max_unavailable: Value, max_surge: Value) -> Value {
    let rolling = json!({"maxUnavailable": max_unavailable, "maxSurge": max_surge});
    json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}})
}
