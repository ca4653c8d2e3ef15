//! Scenes: what users do with the objects of a controller, and what the controller makes of it, on any kind of cluster.
//!
//! A scene is a function of a [`Context`]. The scenes of a controller are in its crate, which names them once by
//! [`suite!`](crate::suite!):
//!
//! ```text
//! suite! {
//!     Suite::new("job").controller(&job_controller::DEFINITION, &[]);
//!     SIMULATED.sample() => runs_until_enough_has_succeeded;
//!     EVERYWHERE => a_job_at_rest_is_left_alone;
//! }
//!
//! async fn runs_until_enough_has_succeeded(c: Context) -> Outcome {
//!     c.create(JOBS, job("sum").set("spec/completions", 4).script("sim/exit", "0")).await?;
//! ```
//!
//! In the crate of the controller, each scene is a test in virtual time with an API server in memory of its own ([`virtual_time`]).
//! The crate `e2e` runs the same scenes with the real binaries, on the sandbox and on real API servers. There, the scenes of a suite
//! share a cluster, and each has a namespace of its own.
//!
//! The controllers have only the rights that `deploy/` gives them, and the admission plugin `OwnerReferencesPermissionEnforcement` is
//! on, except on the cluster of a kubeconfig. If a condition is not met in time, the failure shows the objects, their Events, and
//! the explanations of the controllers.

mod describe;
mod objects;
mod record;
mod request;
mod suite;
mod virtual_time;

use std::{any::Any, collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use common::{clock::Clock, object::Resource};
use futures::future::LocalBoxFuture;
use http_body_util::BodyExt as _;
use kube::client::Body;
use sandbox::nodes::Nodes;
use serde_json::{Value, json};

use crate::objects::{finalizers, has_finished, is_terminating, name, text};
pub use objects::{
    Builder, daemon_set, deployment, image, job, pod, replica_set, replication_controller, resources, stateful_set,
};
pub use record::{Recorder, State};
pub use request::{Client, PatchKind, Refused};
pub use sandbox::nodes::{condition, is_ready};
pub use suite::{Condition, ENVTEST, EVERYWHERE, Requirements, SANDBOX, SIMULATED, Scene, Suite};
pub use virtual_time::program_options;

/// What a scene uses, for `use testkit::scene::prelude::*`.
pub mod prelude {
    pub use std::time::Duration;

    pub use serde_json::{Value, json};

    pub use super::{
        Builder, Client, Context, ENVTEST, EVERYWHERE, Failure, Kind, Outcome, PatchKind, SANDBOX, SIMULATED, State,
        Suite, condition, daemon_set, deployment, image, is_ready, job, pod, replica_set, replication_controller,
        resources::*, stateful_set,
    };
    pub use crate::{
        objects::{custom_resource_definition, is_terminating, name, text, time, true_conditions},
        scenes, suite,
    };
}

/// The kinds of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The sandbox and the loops of the controller in this process, in virtual time.
    Virtual,
    /// The sandbox, served to processes.
    Sandbox,
    /// A real etcd and a real kube-apiserver.
    Envtest,
    /// The cluster of the user's kubeconfig.
    Kubeconfig,
}

impl Kind {
    /// Its name in the environment variable `NONET_CLUSTER`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Virtual => "virtual",
            Self::Sandbox => "sandbox",
            Self::Envtest => "envtest",
            Self::Kubeconfig => "kubeconfig",
        }
    }
}

/// The cluster of a scene, with the controllers of the suite.
pub trait Environment: Any + Send + Sync {
    /// Its kind.
    fn kind(&self) -> Kind;
    /// Its clock, which is also the source of randomness.
    fn clock(&self) -> &Clock;
    /// A client with all rights in all namespaces.
    fn client(&self) -> &Client;
    /// The simulated nodes, if there are any.
    fn nodes(&self) -> Option<&Nodes>;
    /// Fails with the end of the log if a controller has ended unexpectedly, because further waiting would be useless.
    fn check_controllers(&self) -> Outcome;
    /// The metrics of each controller in the format of Prometheus.
    fn metrics(&self) -> LocalBoxFuture<'_, Result<Vec<String>, Failure>>;
    /// The explanations of all controllers for an object, by its key `NAMESPACE/NAME`.
    fn explain<'a>(&'a self, key: &'a str) -> LocalBoxFuture<'a, String>;
    /// The last lines about a namespace in the logs of the controllers.
    fn log(&self, namespace: &str) -> String;

    /// Whether the cluster has a namespace controller, which empties deleted namespaces and creates ServiceAccounts in new ones.
    fn manages_namespaces(&self) -> bool {
        self.kind() != Kind::Envtest
    }
}

/// The time limit of [`Context::until`].
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The first and the longest pause between two checks. The pauses grow, so that the checks do not keep the server busy.
const LOOK_EVERY: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];

/// The reason of a failed scene, as text.
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

/// The result of a scene.
pub type Outcome = Result<(), Failure>;

/// The cluster and the namespace of one scene.
#[derive(Clone)]
pub struct Context {
    environment: Arc<dyn Environment>,
    namespace: Arc<str>,
}

impl Context {
    /// Creates the namespace of a scene.
    pub async fn new(environment: Arc<dyn Environment>, scene: &str) -> Result<Self, Failure> {
        let name: String = scene.replace(|c: char| !c.is_ascii_alphanumeric(), "-").chars().take(40).collect();
        let name = name.trim_matches('-').to_ascii_lowercase();
        let unique = environment.clock().random_u64() & 0xffff_ffff;
        let namespace: Arc<str> = format!("{name}-{unique:08x}").into();
        let context = Self { environment, namespace };
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

    /// Creates another namespace on the same cluster.
    pub async fn in_new_namespace(&self, name: &str) -> Result<Self, Failure> {
        Self::new(Arc::clone(&self.environment), name).await
    }

    /// The cluster.
    pub fn environment(&self) -> &dyn Environment {
        &*self.environment
    }

    /// The kind of the cluster.
    pub fn kind(&self) -> Kind {
        self.environment.kind()
    }

    /// The clock of the cluster.
    pub fn clock(&self) -> &Clock {
        self.environment.clock()
    }

    /// The simulated nodes of the cluster.
    pub fn nodes(&self) -> &Nodes {
        self.environment.nodes().expect("the nodes of this cluster are not simulated")
    }

    /// The metrics of each controller in the format of Prometheus.
    pub async fn metrics(&self) -> Result<Vec<String>, Failure> {
        self.environment.metrics().await
    }

    /// The namespace of the scene.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A client with all rights in all namespaces.
    pub fn client(&self) -> &Client {
        self.environment.client()
    }

    /// Creates an object in the namespace of the scene.
    pub async fn create(&self, resource: Resource, object: impl Into<Value>) -> Result<Value, Refused> {
        self.client().create(resource, &self.namespace, &object.into()).await
    }

    /// Reads an object of the namespace of the scene.
    pub async fn get(&self, resource: Resource, name: &str) -> Result<Value, Refused> {
        self.client().get(resource, &self.namespace, name).await
    }

    /// Reads all objects of one resource in the namespace of the scene, sorted by name.
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
        let clock = self.clock();
        let deadline = clock.monotonic_now() + patience;
        let mut wait = LOOK_EVERY[0];
        loop {
            if let Some(found) = look().await {
                return Ok(found);
            }
            self.environment.check_controllers()?;
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

    /// Waits until an object of the namespace of the scene is as wanted.
    pub async fn until_object(
        &self,
        resource: Resource,
        name: &str,
        what: &str,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, Failure> {
        self.until(what, async || self.get(resource.clone(), name).await.ok().filter(&is_wanted)).await
    }

    /// Waits until the status of an object of the namespace of the scene is as wanted.
    pub async fn until_status(
        &self,
        resource: Resource,
        name: &str,
        what: &str,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, Failure> {
        let what = format!("{} {name}: {what}", resource.kind());
        self.until_object(resource, name, &what, |object| is_wanted(&object["status"])).await
    }

    /// Waits until an object of the namespace of the scene is gone.
    pub async fn until_gone(&self, resource: Resource, name: &str) -> Outcome {
        self.until(&format!("{resource} {name} to be gone"), async || {
            self.get(resource.clone(), name).await.is_err_and(|refused| refused.code == 404).then_some(())
        })
        .await
    }

    /// Waits until the objects of one resource in the namespace of the scene are as wanted.
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
        let clock = self.clock();
        let deadline = clock.monotonic_now() + long;
        loop {
            self.environment.check_controllers()?;
            if !holds().await {
                return self.fail(&format!("this did not hold for the whole time: {what}")).await;
            }
            if clock.monotonic_now() >= deadline {
                return Ok(());
            }
            clock.sleep(LOOK_EVERY[0]).await;
        }
    }

    /// Checks that nothing is written to objects of these resources in the namespace of the scene, and that none is created or
    /// deleted, although `change` is made.
    pub async fn left_alone(&self, resources: &[Resource], change: impl AsyncFnOnce() -> Outcome) -> Outcome {
        // Status writes of nodes and controllers may still be on their way.
        self.sleep(Duration::from_secs(2)).await;
        let before = self.versions(resources).await?;
        change().await?;
        self.sleep(Duration::from_secs(3)).await;
        assert_eq!(self.versions(resources).await?, before, "nothing is written");
        Ok(())
    }

    /// The resource versions of all objects of these resources in the namespace of the scene, by resource and name.
    pub async fn versions(&self, resources: &[Resource]) -> Result<BTreeMap<String, Value>, Refused> {
        let mut versions = BTreeMap::new();
        for resource in resources {
            for object in self.list(resource.clone()).await? {
                let metadata = &object["metadata"];
                versions.insert(format!("{resource} {}", metadata["name"]), metadata["resourceVersion"].clone());
            }
        }
        Ok(versions)
    }

    /// Sleeps for this time.
    pub async fn sleep(&self, long: Duration) {
        self.clock().sleep(long).await;
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

    /// Sends a GET and returns the whole answer in this media type.
    pub async fn read(&self, path: &str, media_type: &str) -> Result<Bytes, Failure> {
        let request = http::Request::get(path).header("accept", media_type).body(Body::empty())?;
        let answer = self.client().kube().send(request).await?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await?.to_bytes();
        if status.is_success() { Ok(bytes) } else { Err(Failure(format!("{path}: {status}"))) }
    }

    /// The minor version of Kubernetes of the API server, or the one that it emulates.
    pub async fn server_minor(&self) -> Result<u32, Failure> {
        let version: Value = serde_json::from_slice(&self.read("/version", "application/json").await?)?;
        let minor = version["emulationMinor"].as_str().or(version["minor"].as_str()).unwrap_or_default();
        minor.parse().map_err(|_| Failure(format!("no minor version of the API server: {version}")))
    }

    /// The row that `kubectl get -o wide` shows of an object, by column.
    pub async fn table_row(&self, resource: Resource, name: &str) -> Result<BTreeMap<String, Value>, Failure> {
        let path = resource.path(&self.namespace, name, "");
        let table = self.read(&path, "application/json;as=Table;v=v1;g=meta.k8s.io").await?;
        let table: Value = serde_json::from_slice(&table)?;
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

    /// The Pods that an object controls and that are neither terminating nor finished, sorted by name.
    pub async fn active_pods_of(&self, owner: &Value) -> Result<Vec<Value>, Refused> {
        let mut pods = self.pods_of(owner).await?;
        pods.retain(|pod| !is_terminating(pod) && !has_finished(pod));
        Ok(pods)
    }

    /// The ReplicaSets that a Deployment controls, by revision.
    pub async fn replica_sets_of(&self, deployment: &Value) -> Result<Vec<Value>, Refused> {
        let mut sets = self.list(resources::REPLICA_SETS).await?;
        sets.retain(|s| objects::controller_of(s) == deployment["metadata"]["uid"].as_str());
        sets.sort_by_key(objects::revision);
        Ok(sets)
    }

    /// A line for each ControllerRevision that an object controls, by number: number, image and change cause, as `kubectl
    /// rollout history` shows them.
    pub async fn revisions_of(&self, owner: &Value) -> Result<Vec<String>, Refused> {
        let mut revisions = self.list(resources::CONTROLLER_REVISIONS).await?;
        revisions.retain(|r| objects::controller_of(r) == owner["metadata"]["uid"].as_str());
        revisions.sort_by_key(|r| r["revision"].as_i64());
        let line = |r: &Value| {
            let image = text(&r["data"]["spec"]["template"]["spec"]["containers"][0], "image");
            let cause = text(&r["metadata"]["annotations"], "kubernetes.io/change-cause");
            format!("{} {image} {cause}", r["revision"]).trim_end().to_owned()
        };
        Ok(revisions.iter().map(line).collect())
    }

    /// Records everything that happens to ReplicaSets and Pods of the namespace from now on.
    pub async fn record(&self) -> Result<Recorder, Failure> {
        Recorder::start(self).await
    }

    /// A description of the state of the namespace: objects, Events and explanations.
    pub async fn describe(&self) -> String {
        describe::namespace(self).await
    }

    /// Removes the namespace with its objects, and the Nodes and ClusterRoles whose names begin with its name.
    pub async fn clean(&self) -> Result<(), Refused> {
        let client = self.client();
        let background = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        let roles = client.list(resources::CLUSTER_ROLES, "", "").await?;
        for role in roles.iter().map(name).filter(|role| role.starts_with(&*self.namespace)) {
            client.delete(resources::CLUSTER_ROLES, "", role, &background).await?;
        }
        if self.kind() != Kind::Kubeconfig {
            for resource in resources::CLEANED {
                let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
                client.delete(resource, &self.namespace, "", &now).await?;
            }
            let nodes = client.list(resources::NODES, "", "").await?;
            for node in nodes.iter().map(name).filter(|node| node.starts_with(&*self.namespace)) {
                client.delete(resources::NODES, "", node, &background).await?;
                // Not every Node has a Lease.
                let _ = client.delete(resources::LEASES, "kube-node-lease", node, &background).await;
            }
        }
        let mut namespace = client.delete(resources::NAMESPACES, "", &self.namespace, &background).await?;
        for resource in resources::CLEANED {
            let objects = self.list(resource.clone()).await?;
            for object in objects.iter().filter(|object| !finalizers(object).is_empty()) {
                // It may be gone by now.
                let _ = self.merge(resource.clone(), name(object), json!({"metadata": {"finalizers": null}})).await;
            }
        }
        if !self.environment.manages_namespaces() {
            namespace["spec"] = json!({"finalizers": []});
            let path = resources::NAMESPACES.path("", &self.namespace, "finalize");
            client.send("PUT", &path, "application/json", Some(&namespace)).await?;
        }
        Ok(())
    }
}
