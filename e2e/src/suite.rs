//! Suites: tests of the real binaries on a whole cluster.
//!
//! [`run_all`] runs suites, each in a process of its own. A suite starts one cluster ([`crate::cluster`]) and the controllers under test
//! ([`crate::process`]), and runs its tests in parallel. Its output and its flags are those of `cargo test`. Each test has its
//! own namespace. If a condition is not met in time, the failure shows the objects, their Events, and the explanations of the
//! controllers.
//!
//! The controllers have only the rights that `deploy/` gives them, and the admission plugin
//! `OwnerReferencesPermissionEnforcement` is on. On the cluster of a kubeconfig they have the rights of its user.
//!
//! With `NONET_CONTROLLERS=none` a suite starts no controllers, and tests those that already run in the cluster.

mod describe;
pub mod handover;
mod kubectl;
mod objects;
mod parts;
mod record;
mod request;
mod runner;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::object::Resource;
use futures::future::LocalBoxFuture;
use http_body_util::BodyExt as _;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Kind},
    process::{Process, Witness},
    rights::Holder,
};
pub use kubectl::Printed;
pub use objects::{
    Builder, daemon_set, deployment, job, pod, replica_set, replication_controller, resources, stateful_set,
};
pub use parts::run_all;
pub use record::{Recorder, State};
pub use request::{Client, PatchKind, Refused};
pub use runner::{Condition, ENVTEST, EVERYWHERE, Requirements, SANDBOX, SIMULATED, Suite, Test};
pub use sandbox::nodes::{condition, is_ready};

/// Everything that a suite uses.
pub mod prelude {
    pub use std::time::Duration;

    pub use serde_json::{Value, json};

    pub use super::{
        Builder, Client, Context, ENVTEST, EVERYWHERE, Failure, Outcome, PatchKind, SANDBOX, SIMULATED, State, Suite,
        condition, daemon_set, deployment, is_ready, job, pod, replica_set, replication_controller, resources::*,
        stateful_set,
    };
    pub use crate::{cluster::Kind, scenes, tools};
}

/// The time limit of [`Context::until`].
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The duration of Leases in suites that do not test elections: longer than a busy machine may delay a renewal.
pub const PATIENT_ELECTION: &[&str] = &["--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=50s"];
/// The first and the longest pause between two checks. The pauses grow, so that the checks do not keep the server busy.
const LOOK_EVERY: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];

/// The reason of a failed test, as text.
#[derive(Debug)]
pub struct Failure(pub String);

impl Failure {
    /// A failure with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self(text)
    }
}

/// The result of a test.
pub type Outcome = Result<(), Failure>;

/// The parts that all tests of a suite share.
pub struct Shared {
    /// The cluster.
    pub cluster: Cluster,
    /// The controllers, unless the cluster has them already.
    pub controllers: Vec<Process>,
    /// A client with all rights.
    pub client: Client,
}

/// The namespace, the clients and the controllers of one test.
#[derive(Clone)]
pub struct Context {
    shared: Arc<Shared>,
    namespace: Arc<str>,
    started: Arc<Mutex<Vec<Witness>>>,
}

impl Context {
    async fn new(shared: Arc<Shared>, test: &str) -> Result<Self, Failure> {
        let name: String = test.replace(|c: char| !c.is_ascii_alphanumeric(), "-").chars().take(40).collect();
        let name = name.trim_matches('-').to_ascii_lowercase();
        let unique = shared.cluster.clock().random_u64() & 0xffff_ffff;
        let namespace: Arc<str> = format!("{name}-{unique:08x}").into();
        let context = Self { shared, namespace, started: Arc::default() };
        let meta = json!({"name": &*context.namespace, "labels": {"nonet.io/suite": "true"}});
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta});
        context.client().create(resources::NAMESPACES, "", &body).await?;
        if context.kind() == Kind::Kubeconfig {
            // Without it no Pod is admitted.
            context
                .until("the namespace to have its ServiceAccount", async || {
                    context.client().get(resources::SERVICE_ACCOUNTS, &context.namespace, "default").await.ok()
                })
                .await?;
        }
        Ok(context)
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.shared.cluster
    }

    /// The kind of the cluster.
    pub fn kind(&self) -> Kind {
        self.shared.cluster.kind()
    }

    /// The controllers that the suite runs.
    pub fn controllers(&self) -> &[Process] {
        &self.shared.controllers
    }

    /// Starts one more controller, which holds its Lease in the test's namespace, and waits until it is ready.
    pub async fn start(&self, name: &str, flags: &[&str]) -> Result<Process, Failure> {
        self.start_with(None, name, flags).await
    }

    /// The same with a separate user, whose requests the sandbox counts separately.
    pub async fn start_as(&self, user: &str, name: &str, flags: &[&str]) -> Result<Process, Failure> {
        self.start_with(Some(user), name, flags).await
    }

    async fn start_with(&self, user: Option<&str>, name: &str, flags: &[&str]) -> Result<Process, Failure> {
        let namespace = format!("--leader-elect-resource-namespace={}", self.namespace);
        let mut all = vec![namespace.as_str()];
        all.extend(flags);
        let holder = Holder { user, lease_namespace: &self.namespace };
        let process = runner::controller(self.cluster(), holder, name, &all).await?;
        self.started.lock().push(process.witness());
        Ok(process)
    }

    /// Fails with the end of the log if a controller has ended unexpectedly, because further waiting would be useless.
    fn check_controllers(&self) -> Outcome {
        let all = self.shared.controllers.iter().map(Process::witness);
        let own = self.started.lock().clone();
        match all.chain(own).find_map(|witness| witness.ended()) {
            None => Ok(()),
            Some((error, log)) => Err(Failure(format!("{error}\n{}", describe::end_of(&log)))),
        }
    }

    /// The test's namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A client with all rights in all namespaces.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Creates an object in the test's namespace.
    pub async fn create(&self, resource: Resource, object: impl Into<Value>) -> Result<Value, Refused> {
        self.client().create(resource, &self.namespace, &object.into()).await
    }

    /// Reads an object of the test's namespace.
    pub async fn get(&self, resource: Resource, name: &str) -> Result<Value, Refused> {
        self.client().get(resource, &self.namespace, name).await
    }

    /// Reads all objects of one resource in the test's namespace, sorted by name.
    pub async fn list(&self, resource: Resource) -> Result<Vec<Value>, Refused> {
        self.client().list(resource, &self.namespace, "").await
    }

    /// Merges `patch` into an object.
    pub async fn merge(&self, resource: Resource, name: &str, patch: Value) -> Result<Value, Refused> {
        self.client().patch(resource, &self.namespace, name, "", PatchKind::Merge, &patch).await
    }

    /// Merges `patch` into the status of an object.
    pub async fn merge_status(&self, resource: Resource, name: &str, patch: Value) -> Result<Value, Refused> {
        self.client().patch(resource, &self.namespace, name, "status", PatchKind::Strategic, &patch).await
    }

    /// Applies a JSON patch (RFC 6902), as `kubectl rollout undo` does.
    pub async fn json_patch(&self, resource: Resource, name: &str, patch: Value) -> Result<Value, Refused> {
        self.client().patch(resource, &self.namespace, name, "", PatchKind::Json, &patch).await
    }

    /// Sets the size of a workload, through `/scale`.
    pub async fn scale(&self, resource: Resource, name: &str, replicas: u32) -> Result<Value, Refused> {
        let patch = json!({"spec": {"replicas": replicas}});
        self.client().patch(resource, &self.namespace, name, "scale", PatchKind::Merge, &patch).await
    }

    /// Deletes an object; `propagation` is `Background`, `Foreground` or `Orphan`.
    pub async fn delete(&self, resource: Resource, name: &str, propagation: &str) -> Result<Value, Refused> {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation});
        self.client().delete(resource, &self.namespace, name, &options).await
    }

    /// Waits until `look` returns a value. Fails with a description of the namespace after [`PATIENCE`].
    pub async fn until<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> Result<T, Failure> {
        self.until_within(what, PATIENCE, look).await
    }

    /// Waits until `look` returns a value, with another time limit.
    pub async fn until_within<T>(
        &self,
        what: &str,
        patience: Duration,
        look: impl AsyncFn() -> Option<T>,
    ) -> Result<T, Failure> {
        let clock = self.cluster().clock();
        let deadline = clock.monotonic_now() + patience;
        let mut wait = LOOK_EVERY[0];
        loop {
            if let Some(found) = look().await {
                return Ok(found);
            }
            self.check_controllers()?;
            if clock.monotonic_now() >= deadline {
                let picture = self.describe().await;
                return Err(Failure(format!(
                    "timed out after {} s while waiting for {what}\n{picture}",
                    patience.as_secs()
                )));
            }
            clock.sleep(wait).await;
            wait = wait.mul_f64(1.25).min(LOOK_EVERY[1]);
        }
    }

    /// Waits until an object of the test's namespace is as wanted.
    pub async fn until_object(
        &self,
        resource: Resource,
        name: &str,
        what: &str,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, Failure> {
        self.until(what, async || self.get(resource.clone(), name).await.ok().filter(&is_wanted)).await
    }

    /// Waits until the objects of one resource in the test's namespace are as wanted.
    pub async fn until_list(
        &self,
        resource: Resource,
        what: &str,
        are_wanted: impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>, Failure> {
        self.until(what, async || self.list(resource.clone()).await.ok().filter(|all| are_wanted(all))).await
    }

    /// Waits for an Event on one object. `event` is the beginning of `<type> <reason> <note>`.
    pub async fn until_event(&self, kind: &str, name: &str, event: &str) -> Outcome {
        self.until(&format!("Event {event}"), async || {
            let events = self.events_of(kind, name).await.ok()?;
            events.iter().any(|each| each.starts_with(event)).then_some(())
        })
        .await
    }

    /// Checks that `holds` is true for the whole time.
    pub async fn stays(&self, what: &str, long: Duration, holds: impl AsyncFn() -> bool) -> Outcome {
        let clock = self.cluster().clock();
        let deadline = clock.monotonic_now() + long;
        loop {
            self.check_controllers()?;
            if !holds().await {
                return self.fail(&format!("this did not hold for the whole time: {what}")).await;
            }
            if clock.monotonic_now() >= deadline {
                return Ok(());
            }
            clock.sleep(LOOK_EVERY[0]).await;
        }
    }

    /// Sleeps for this time.
    pub async fn sleep(&self, long: Duration) {
        self.cluster().clock().sleep(long).await;
    }

    /// Fails with a description of the namespace.
    pub async fn fail<T>(&self, why: &str) -> Result<T, Failure> {
        Err(Failure(format!("{why}\n{}", self.describe().await)))
    }

    /// Fails unless `holds`.
    pub async fn check(&self, holds: bool, why: &str) -> Outcome {
        if holds { Ok(()) } else { self.fail(why).await }
    }

    /// Waits until a Deployment has rolled out: all Pods are updated and available, the status is observed, and no old Pods are
    /// left.
    pub async fn rolled_out(&self, name: &str) -> Result<Value, Failure> {
        self.until(&format!("Deployment {name} to be rolled out"), async || {
            self.get(resources::DEPLOYMENTS, name).await.ok().filter(objects::is_rolled_out)
        })
        .await
    }

    /// The Events on one object, oldest first, as `<type> <reason> <note>`.
    pub async fn events_of(&self, kind: &str, name: &str) -> Result<Vec<String>, Refused> {
        let selector = format!("fieldSelector=involvedObject.kind%3D{kind}%2CinvolvedObject.name%3D{name}");
        let mut events = self.client().list(resources::EVENTS, &self.namespace, &selector).await?;
        events.sort_by_key(|e| e["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse::<u64>().ok()));
        let text = |e: &Value, field: &str| e[field].as_str().unwrap_or_default().to_owned();
        Ok(events.iter().map(|e| [text(e, "type"), text(e, "reason"), text(e, "message")].join(" ")).collect())
    }

    /// The row that `kubectl get -o wide` shows of an object, by column.
    pub async fn table_row(&self, resource: Resource, name: &str) -> Result<BTreeMap<String, Value>, Failure> {
        let request = http::Request::get(resource.path(&self.namespace, name, ""))
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Body::empty())?;
        let answer = self.client().kube().send(request).await?;
        let table: Value = serde_json::from_slice(&answer.into_body().collect().await?.to_bytes())?;
        let columns = table["columnDefinitions"].as_array().into_iter().flatten();
        let columns = columns.map(|column| column["name"].as_str().unwrap_or_default().to_owned());
        let cells = table["rows"][0]["cells"].as_array().into_iter().flatten().cloned();
        Ok(columns.zip(cells).collect())
    }

    /// The Pods that an object controls, sorted by name.
    pub async fn pods_of(&self, owner: &Value) -> Result<Vec<Value>, Refused> {
        let mut pods = self.list(resources::PODS).await?;
        pods.retain(|p| objects::controller_of(p) == owner["metadata"]["uid"].as_str());
        Ok(pods)
    }

    /// The ReplicaSets that a Deployment controls, by revision.
    pub async fn replica_sets_of(&self, deployment: &Value) -> Result<Vec<Value>, Refused> {
        let mut sets = self.list(resources::REPLICA_SETS).await?;
        sets.retain(|s| objects::controller_of(s) == deployment["metadata"]["uid"].as_str());
        sets.sort_by_key(objects::revision);
        Ok(sets)
    }

    /// Records everything that happens to ReplicaSets and Pods of the namespace from now on.
    pub async fn record(&self) -> Result<Recorder, Failure> {
        Recorder::start(self).await
    }

    /// A description of the state of the namespace: objects, Events and explanations.
    pub async fn describe(&self) -> String {
        describe::namespace(self).await
    }

    async fn clean(&self) -> Result<(), Refused> {
        let client = self.client();
        if !self.cluster().manages_namespaces() {
            for resource in resources::CLEANED {
                let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
                client.delete(resource, &self.namespace, "", &now).await?;
            }
        }
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        let namespace = client.delete(resources::NAMESPACES, "", &self.namespace, &options).await?;
        if !self.cluster().manages_namespaces() {
            let mut finalized = namespace;
            finalized["spec"] = json!({"finalizers": []});
            let path = resources::NAMESPACES.path("", &self.namespace, "finalize");
            client.send("PUT", &path, "application/json", Some(&finalized)).await?;
        }
        Ok(())
    }
}

/// A test in the list of a suite.
pub type TestFn = fn(Context) -> LocalBoxFuture<'static, Outcome>;
