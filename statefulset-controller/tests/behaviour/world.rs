//! A sandbox with nodes and the StatefulSet loop.

use std::{sync::Arc, time::Duration};

use common::{clock::Clock, settings::OperatorSettings};
use sandbox::{Sandbox, Write, loops::Loops, nodes::Nodes};
use serde_json::{Value, json};

/// The identity of the controller at the sandbox.
pub(crate) const CONTROLLER_IDENTITY: &str = "controllers";
/// The namespace of the set, its Pods and its claims.
pub(crate) const NAMESPACE: &str = "shop";
pub(crate) const SETS: &str = "statefulsets.apps";
pub(crate) const REVISIONS: &str = "controllerrevisions.apps";
pub(crate) const CLAIMS: &str = "persistentvolumeclaims";

pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) clock: Clock,
    pub(crate) loops: Option<Loops>,
    _nodes: Nodes,
    settings: OperatorSettings,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with_settings(OperatorSettings::new()).await
    }

    pub(crate) async fn with_settings(settings: OperatorSettings) -> Self {
        Self::build(settings, None).await
    }

    /// Starts a sandbox with the admission plugin `OwnerReferencesPermissionEnforcement`, where the controller has only the
    /// rights of these rules.
    pub(crate) async fn with_rights(rules: Value) -> Self {
        Self::build(OperatorSettings::new(), Some(rules)).await
    }

    async fn build(settings: OperatorSettings, rights: Option<Value>) -> Self {
        let clock = Clock::simulated("2026-11-21T09:00:00Z".parse().unwrap(), 7);
        let gate = settings.is_feature_gate_on(&statefulset_controller::MAX_UNAVAILABLE_STATEFUL_SET);
        let builder = Sandbox::builder().gate("MaxUnavailableStatefulSet", gate).clock(clock.clone());
        let is_enforced = rights.is_some();
        let sandbox = builder.rbac(is_enforced).owner_references_permission_enforcement(is_enforced).build();
        if let Some(rights) = rights {
            let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
            sandbox.grant("nodes", everything).await.unwrap();
            sandbox.grant(CONTROLLER_IDENTITY, rights).await.unwrap();
        }
        let nodes = Nodes::builder().count(3).heartbeat(None).start(sandbox.client("nodes"), clock.clone());
        nodes.ready().await;
        sandbox
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
            .await
            .unwrap();
        let mut world = Self { sandbox, clock, loops: None, _nodes: nodes, settings };
        world.start();
        world.settle().await;
        world.reset_counters();
        world
    }

    /// Starts the loop as a new process.
    pub(crate) fn start(&mut self) {
        let client = self.sandbox.client(CONTROLLER_IDENTITY);
        self.loops = Some(Loops::start(&client, &self.clock, self.settings.clone(), statefulset_controller::LOOPS));
    }

    /// Starts the loop in shadow mode, where it writes nothing, as a new process. Restarts the count of requests and writes.
    pub(crate) fn start_shadow(&mut self) {
        self.settings = self.settings.clone().with_shadow_mode(true);
        self.start();
        self.reset_counters();
    }

    /// Stops the tasks of the loop without a clean shutdown.
    pub(crate) fn crash(&mut self) {
        self.loops = None;
    }

    pub(crate) async fn wait(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until nothing has been written for two seconds.
    pub(crate) async fn settle(&self) {
        for _ in 0..2000 {
            let writes = self.sandbox.writes().count();
            self.wait(2).await;
            if self.sandbox.writes().count() == writes {
                return;
            }
        }
        panic!("no rest: {:#?}", self.loops.as_ref().map(|l| l.explain(None)));
    }

    /// Restarts the count of requests and writes.
    pub(crate) fn reset_counters(&self) {
        self.sandbox.requests().clear();
        self.sandbox.writes().clear();
    }

    /// Returns the number of requests of the controller with this verb for this resource.
    pub(crate) fn request_count(&self, verb: &str, resource: &str) -> u64 {
        self.sandbox.requests().count(Some(CONTROLLER_IDENTITY), Some(verb), Some(resource))
    }

    /// Returns all writes of the controller, except writes of Events.
    pub(crate) fn controller_writes(&self) -> Vec<Arc<Write>> {
        let all = self.sandbox.writes().all();
        all.into_iter().filter(|w| w.identity == CONTROLLER_IDENTITY && w.resource != "events").collect()
    }

    /// Returns the writes of Pods and claims: `+web-0` is a creation, `-web-0` a deletion, `~web-0` a patch.
    pub(crate) fn pod_and_claim_writes(&self) -> Vec<String> {
        let written = self.controller_writes();
        let of = written.iter().filter(|w| w.resource == "pods" || w.resource == CLAIMS);
        of.map(|write| {
            let sign = match write.verb {
                "create" => '+',
                "delete" => '-',
                _ => '~',
            };
            format!("{sign}{}", write.name)
        })
        .collect()
    }

    pub(crate) async fn apply(&self, object: Value) -> Value {
        self.sandbox.create(object).await.unwrap()
    }

    pub(crate) async fn merge(&self, resource: &str, name: &str, patch: Value) -> Value {
        self.sandbox.merge(resource, Some(NAMESPACE), name, None, patch).await.unwrap()
    }

    /// Merges `spec` into the spec of `web`.
    pub(crate) async fn change_spec(&self, spec: Value) {
        self.merge(SETS, "web", json!({ "spec": spec })).await;
    }

    /// Changes the image and the annotations in the Pod template of `web`.
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
        self.get(SETS, "web").await["status"].clone()
    }

    pub(crate) async fn names(&self, resource: &str) -> Vec<String> {
        let list = self.sandbox.list(resource, Some(NAMESPACE)).await.unwrap();
        list.iter().map(|object| name(object).to_owned()).collect()
    }

    /// Returns name and image of each Pod, in the form `web-0 img:1`.
    pub(crate) async fn names_and_images(&self) -> Vec<String> {
        let pods = self.sandbox.list("pods", Some(NAMESPACE)).await.unwrap();
        let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        pods.iter().map(|pod| format!("{} {}", name(pod), image(pod))).collect()
    }

    /// Returns the Events as type, reason and message, sorted. An Event with a count above 1 is listed once.
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

    /// Returns the number of recorded Events with this reason, repetitions included.
    pub(crate) async fn event_count(&self, reason: &str) -> i64 {
        let events = self.sandbox.list("events", Some(NAMESPACE)).await.unwrap();
        events.iter().filter(|e| e["reason"] == reason).map(|e| e["count"].as_i64().unwrap_or(1)).sum()
    }

    pub(crate) fn explain(&self) -> Value {
        self.loops.as_ref().unwrap().explain(Some("shop/web"))[0].clone()
    }

    /// Removes the finalizer of a terminating claim, as the controller that protects claims does when no Pod uses the claim.
    pub(crate) async fn remove_claim_finalizer(&self, claim: &str) {
        self.merge(CLAIMS, claim, json!({"metadata": {"finalizers": null}})).await;
    }
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Builds a StatefulSet `web` of Pods with the label `app=web`. The fields of `spec` replace fields of its spec.
pub(crate) fn set(replicas: i32, spec: Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "img:1"}]}}},
    });
    for (field, value) in spec.as_object().unwrap() {
        set["spec"][field] = value.clone();
    }
    set
}

/// Returns the spec fields that give each Pod a claim called `data`, with this retention policy.
pub(crate) fn claims(when_deleted: &str, when_scaled: &str) -> Value {
    let template = json!({"metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    json!({"volumeClaimTemplates": [template],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": when_deleted, "whenScaled": when_scaled}})
}

/// Returns kind and name of each owner of an object.
pub(crate) fn owners(object: &Value) -> Vec<String> {
    let refs = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    refs.iter().map(|r| format!("{} {}", r["kind"].as_str().unwrap(), r["name"].as_str().unwrap())).collect()
}
