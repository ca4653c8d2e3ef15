//! A Kubernetes API server in memory that behaves like a real one towards controllers and kubectl.
//!
//! ```no_run
//! # use sandbox::{Sandbox, Tls};
//! # use common::clock::Clock;
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let sandbox = Sandbox::builder().clock(Clock::system()).build();
//! let client = sandbox.client("my-controller"); // a kube::Client without a socket
//! let server = sandbox.serve(([127, 0, 0, 1], 0).into(), Tls::On).await?; // the same over TCP
//! std::fs::write("kubeconfig", server.kubeconfig())?;
//! # drop(client);
//! # Ok(()) }
//! ```
//!
//! # What it is
//! The server has one store and one router under two transports. [`Sandbox::client`] passes the router to a `kube::Client`
//! as a service, which works under tokio's paused clock; [`Sandbox::serve`] listens on a socket. Built-in kinds come from data,
//! custom kinds from the `CustomResourceDefinition`s in the store. Answers and watches are in JSON, or in protobuf for clients
//! that ask for it ([`protobuf`], [`Builder::protobuf`]). Time and randomness come from the [`Clock`] alone, so a run can be
//! repeated from its seed.
//!
//! # What it offers to tests
//! - [`Sandbox::apply`], [`Sandbox::get`], [`Sandbox::list`], [`Sandbox::delete`]: objects as JSON, as the administrator;
//! - [`Sandbox::faults`]: faults for chosen clients and requests ([`Rule`], [`Action`]), withheld watches, an outage;
//! - [`Sandbox::webhooks`]: admission webhooks that change or deny writes, or are slow ([`Webhook`]);
//! - [`Sandbox::writes`]: every accepted write in order, with its writer and the object before and after;
//! - [`Sandbox::requests`]: the number of requests by client and kind of request;
//! - [`Sandbox::compact`]: discards the history, so that watches and pages expire;
//! - [`Sandbox::backup`], [`Sandbox::restore`]: loses the latest changes, as a restore of etcd does;
//! - [`Sandbox::load`]: objects of another server, as they are.
//!
//! # What it simulates besides the API server
//! Two controllers follow its writes, unless a test switches them off: one empties and finalizes deleted namespaces
//! ([`Builder::without_namespace_controller`]), the other keeps the status of quotas ([`Builder::without_quota_controller`]).
//! ClusterRoles grant the rules that they select ([`Builder::without_rule_aggregation`]). The sandbox also marks definitions of
//! custom resources as established. It does nothing else by itself: nodes with a scheduler
//! ([`nodes`]), the protection of storage in use ([`protection`]), controllers under test ([`loops`]) and a stand-in for the
//! ReplicaSet controller ([`replica_sets`]) are clients that a test starts.
//!
//! # Layers
//! Each of these modules uses only those before it: `value`, `api` (kinds, custom resources, protobuf), `store`, `verbs`
//! (what a request does with the store), `server` (HTTP), `actors` (controllers, nodes), and the crate's root.
//!
//! # Identities
//! A client is identified by a name: the argument of [`Sandbox::client`], or over TCP the name for which
//! [`Server::kubeconfig_for`] wrote the bearer token or client certificate. Without a name it is [`ADMIN`]. Faults, RBAC
//! ([`Builder::rbac`]), writes and counters use this name.

mod actors;
mod api;
pub mod declared;
pub mod guards;
pub mod memory;
pub mod recorded;
pub mod replica_sets;
mod server;
mod store;
mod value;
mod verbs;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
};

use bytes::Bytes;
use common::clock::Clock;
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use serde_json::Value;

use self::{
    actors::{definitions::Definitions, namespaces::NamespaceController, quotas::QuotaController},
    api::resource::{Key, Resource},
    value::{json, object},
    verbs::core::{Actor, Core, Setup},
};
pub use self::{
    actors::{loops, nodes, protection},
    api::protobuf,
    server::{
        certificates::CertificateError,
        serve::{Credential, ServeError, Server, Tls},
        transport::{InProcess, ResponseBody},
    },
    store::{
        Backup, Change,
        audit::{RequestKey, Requests, Write, Writes},
    },
    verbs::{
        access::{ADMIN, Right},
        faults::{Action, Faults, Matcher, Rule},
        status::ConnectionCut,
        webhooks::{Operation, Webhook, Webhooks},
    },
};

/// Whether objects of this built-in kind have a namespace; `None` if there is no such kind.
pub fn is_namespaced(api_version: &str, kind: &str) -> Option<bool> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let mut resources = api::kinds::builtin().iter().map(|recorded| &recorded.resource);
    let is_meant = |known: &&Arc<Resource>| known.group == group && known.version == version && known.kind == kind;
    resources.find(is_meant).map(|resource| resource.namespaced)
}

/// A running API server in memory. Cheap to clone; clones are the same server.
#[derive(Clone)]
pub struct Sandbox {
    core: Arc<Core>,
    identity: Arc<str>,
}

/// How a sandbox is to be set up.
#[derive(Clone, Debug)]
pub struct Builder {
    clock: Option<Clock>,
    setup: Setup,
    history: usize,
    writes: usize,
    namespace_controller: bool,
    quota_controller: bool,
}

/// A refusal, as [`Sandbox`]'s own helpers report it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{method} {path}: {code} {reason}: {message}")]
pub struct Refused {
    /// What was asked.
    pub method: Method,
    /// Of what.
    pub path: String,
    /// HTTP status; 0 if the connection broke.
    pub code: u16,
    /// Reason of the Status.
    pub reason: String,
    /// Message of the Status.
    pub message: String,
}

impl Default for Builder {
    fn default() -> Self {
        let setup = Setup {
            keep_unknown_fields: false,
            protobuf: true,
            managed_fields: false,
            rbac: false,
            aggregates_rules: true,
            records_rights: false,
            owner_references: false,
            restricted_endpoints: false,
            service_accounts: false,
            gates: BTreeMap::new(),
            advertised: None,
        };
        Self { clock: None, setup, history: 50_000, writes: 50_000, namespace_controller: true, quota_controller: true }
    }
}

impl Builder {
    /// Where time and randomness come from; the machine, if not given.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Keeps fields that the served versions do not know, as the server of a later release would.
    #[must_use]
    pub fn keep_unknown_fields(mut self, keep: bool) -> Self {
        self.setup.keep_unknown_fields = keep;
        self
    }

    /// Serves and accepts protobuf, which is the default. A server without it knows JSON and YAML only.
    #[must_use]
    pub fn protobuf(mut self, serve: bool) -> Self {
        self.setup.protobuf = serve;
        self
    }

    /// Keeps `metadata.managedFields` for all writes and not only for objects that were applied by the server.
    #[must_use]
    pub fn managed_fields(mut self, track: bool) -> Self {
        self.setup.managed_fields = track;
        self
    }

    /// Enforces RBAC from the roles and bindings in the store, also the right to grant rights. [`ADMIN`] may do everything still.
    #[must_use]
    pub fn rbac(mut self, enforce: bool) -> Self {
        self.setup.rbac = enforce;
        self
    }

    /// Enables the admission plugin `OwnerReferencesPermissionEnforcement`: changes of owner references, and references that
    /// block the deletion of their owners, need rights. Without [`Builder::rbac`] every user has every right.
    #[must_use]
    pub fn owner_references_permission_enforcement(mut self, enforce: bool) -> Self {
        self.setup.owner_references = enforce;
        self
    }

    /// Enables OpenShift's admission plugin `RestrictedEndpointsAdmission` for all networks: addresses in Endpoints and
    /// EndpointSlices need a right.
    #[must_use]
    pub fn restricted_endpoints_admission(mut self, enforce: bool) -> Self {
        self.setup.restricted_endpoints = enforce;
        self
    }

    /// Enables the admission plugin `ServiceAccount`: a Pod is refused in a namespace without the account that it names.
    #[must_use]
    pub fn service_account_admission(mut self, enforce: bool) -> Self {
        self.setup.service_accounts = enforce;
        self
    }

    /// Records the rights that each user asks for, whether it has them or not. [`Sandbox::rights_asked_by`] returns them.
    #[must_use]
    pub fn record_rights(mut self, record: bool) -> Self {
        self.setup.records_rights = record;
        self
    }

    /// Turns a feature gate of the API server on or off.
    #[must_use]
    pub fn gate(mut self, name: impl Into<String>, on: bool) -> Self {
        self.setup.gates.insert(name.into(), on);
        self
    }

    /// How many events of each resource can be watched again; 50,000 if not given.
    #[must_use]
    pub fn history(mut self, events: usize) -> Self {
        self.history = events;
        self
    }

    /// How many accepted writes are kept to be read; 50,000 if not given. 0 keeps none (subscribers still see all).
    #[must_use]
    pub fn writes(mut self, writes: usize) -> Self {
        self.writes = writes;
        self
    }

    /// The address the server says it is to be found at; the one the client used, if not given.
    #[must_use]
    pub fn advertised(mut self, address: impl Into<String>) -> Self {
        self.setup.advertised = Some(address.into());
        self
    }

    /// Leaves deleted namespaces to a controller of the test: the server neither empties nor finalizes them.
    #[must_use]
    pub fn without_namespace_controller(mut self) -> Self {
        self.namespace_controller = false;
        self
    }

    /// Leaves the status of `ResourceQuota`s to a controller of the test. Admission enforces what the status says, and adds to it
    /// what is created.
    #[must_use]
    pub fn without_quota_controller(mut self) -> Self {
        self.quota_controller = false;
        self
    }

    /// Leaves the rules of aggregated ClusterRoles to a controller of the test: they grant their own `rules` alone.
    #[must_use]
    pub fn without_rule_aggregation(mut self) -> Self {
        self.setup.aggregates_rules = false;
        self
    }

    /// Makes the server.
    pub fn build(self) -> Sandbox {
        let clock = self.clock.unwrap_or_else(Clock::system);
        let mut actors: Vec<Box<dyn Actor>> = vec![Box::new(Definitions)];
        if self.namespace_controller {
            actors.push(Box::new(NamespaceController));
        }
        if self.quota_controller {
            actors.push(Box::new(QuotaController));
        }
        let core = Core::new(clock, self.setup, self.history, self.writes, actors);
        Sandbox { core: Arc::new(core), identity: ADMIN.into() }
    }
}

impl Sandbox {
    /// A sandbox to be set up.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A client without a socket that is known as `identity`. Must be called inside a tokio runtime.
    pub fn client(&self, identity: &str) -> kube::Client {
        kube::Client::new(self.service(identity), "default")
    }

    /// The server as a service, to put other layers in front of it.
    pub fn service(&self, identity: &str) -> InProcess {
        InProcess::new(self.core.clone(), identity)
    }

    /// The same server, whose helper methods ([`Sandbox::create`] and the like) act for `identity` instead of [`ADMIN`].
    #[must_use]
    pub fn acting_as(&self, identity: &str) -> Self {
        Self { core: Arc::clone(&self.core), identity: identity.into() }
    }

    /// Serves the sandbox on a socket; port 0 takes a free one.
    pub async fn serve(&self, addr: SocketAddr, tls: Tls) -> Result<Server, ServeError> {
        server::serve::serve(self.core.clone(), addr, tls).await
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// What goes wrong.
    pub fn faults(&self) -> &Faults {
        &self.core.faults
    }

    /// The admission webhooks that writes pass through.
    pub fn webhooks(&self) -> &Webhooks {
        &self.core.webhooks
    }

    /// The log of accepted writes.
    pub fn writes(&self) -> &Writes {
        &self.core.writes
    }

    /// Counters of requests.
    pub fn requests(&self) -> &Requests {
        &self.core.requests
    }

    /// The newest resource version.
    pub fn resource_version(&self) -> u64 {
        self.core.store.lock().rv()
    }

    /// How many objects of a resource there are (`pods`, `deployments.apps`).
    pub fn count(&self, resource: &str) -> usize {
        self.core.store.lock().count(resource)
    }

    /// Forgets history: watches and pages from before now expire.
    pub fn compact(&self) {
        self.core.store.lock().compact();
    }

    /// The rights that a user has asked for, by its requests and by what admission plugins checked of them. Nothing unless the
    /// server records them ([`Builder::record_rights`]).
    pub fn rights_asked_by(&self, user: &str) -> BTreeSet<Right> {
        self.core.access.asked_by(user)
    }

    /// Copies everything stored, as a backup of etcd does.
    pub fn backup(&self) -> Backup {
        self.core.store.lock().backup()
    }

    /// Loses all changes since a backup, as a restore of etcd does. Watches from lost versions deliver nothing until the server has
    /// passed these versions. A real restore ends all connections as well: [`Faults::go_down_for`].
    pub fn restore(&self, backup: &Backup) {
        self.core.store.lock().restore(backup);
    }

    /// Stores objects as another server has them, with their UIDs, versions, times and statuses: no admission, no validation, no
    /// events, and no entries in [`Sandbox::writes`]. An object in a namespace names it.
    pub fn load(&self, objects: impl IntoIterator<Item = Value>) -> Result<(), Refused> {
        for mut object in objects {
            let (resource, _) = self.path_of(&object)?;
            let namespace = Some(object::meta(&object, "namespace")).filter(|_| resource.namespaced);
            let key = Key::new(namespace, object::meta(&object, "name"));
            resource.to_stored(&mut object);
            self.core.store.lock().load(&resource.table, key, object);
        }
        Ok(())
    }

    /// The bearer token by which a client over TCP is known as `identity`.
    pub fn token(&self, identity: &str) -> String {
        self.core.token(identity)
    }

    fn path_of(&self, object: &Value) -> Result<(Arc<Resource>, String), Refused> {
        let (api_version, kind) = (object::text(object, &["apiVersion"]), object::text(object, &["kind"]));
        let registry = self.core.registry();
        let resource = registry.of_kind(api_version, kind).cloned();
        let resource = resource.ok_or_else(|| not_served("", &format!("{api_version} {kind}")))?;
        let namespace = match object::meta(object, "namespace") {
            "" if resource.namespaced => Some("default"),
            "" => None,
            namespace => Some(namespace),
        };
        let path = collection(&resource, namespace);
        Ok((resource, path))
    }

    /// Creates an object, or applies it over what is there (server-side, as manager `sandbox`, by force).
    pub async fn apply(&self, object: Value) -> Result<Value, Refused> {
        let (_, path) = self.path_of(&object)?;
        let name = object::meta(&object, "name");
        if name.is_empty() {
            return self.send(Method::POST, &path, "application/json", Some(&object)).await;
        }
        let path = format!("{path}/{name}?fieldManager=sandbox&force=true");
        self.send(Method::PATCH, &path, "application/apply-patch+yaml", Some(&object)).await
    }

    /// Creates an object.
    pub async fn create(&self, object: Value) -> Result<Value, Refused> {
        let (_, path) = self.path_of(&object)?;
        self.send(Method::POST, &path, "application/json", Some(&object)).await
    }

    /// Gives a user the rights of these rules (`rules` of a ClusterRole) in all namespaces, in place of those of an earlier call.
    pub async fn grant(&self, user: &str, rules: Value) -> Result<(), Refused> {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let object = |kind: &str, mut rest: Value| {
            rest["apiVersion"] = format!("{GROUP}/v1").into();
            rest["kind"] = kind.into();
            rest["metadata"] = serde_json::json!({"name": format!("granted:{user}")});
            rest
        };
        self.apply(object("ClusterRole", serde_json::json!({"rules": rules}))).await?;
        let reference =
            serde_json::json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": format!("granted:{user}")});
        let subject = serde_json::json!({"apiGroup": GROUP, "kind": "User", "name": user});
        let binding = serde_json::json!({"roleRef": reference, "subjects": [subject]});
        self.apply(object("ClusterRoleBinding", binding)).await.map(drop)
    }

    /// Merges `patch` into an object, or into its status with `sub` `status`.
    pub async fn merge(
        &self,
        resource: &str,
        namespace: Option<&str>,
        name: &str,
        sub: Option<&str>,
        patch: Value,
    ) -> Result<Value, Refused> {
        let sub = sub.map(|s| format!("/{s}")).unwrap_or_default();
        let path = format!("{}/{name}{sub}", self.collection(resource, namespace)?);
        self.send(Method::PATCH, &path, "application/merge-patch+json", Some(&patch)).await
    }

    /// An object of a resource named as in `deployments.apps`.
    pub async fn get(&self, resource: &str, namespace: Option<&str>, name: &str) -> Result<Value, Refused> {
        let path = format!("{}/{name}", self.collection(resource, namespace)?);
        self.send(Method::GET, &path, "", None).await
    }

    /// The objects of a resource named as in `deployments.apps`, in one namespace or in all.
    pub async fn list(&self, resource: &str, namespace: Option<&str>) -> Result<Vec<Value>, Refused> {
        let path = self.collection(resource, namespace)?;
        let mut list = self.send(Method::GET, &path, "", None).await?;
        Ok(match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        })
    }

    /// Deletes an object, with the kind's own propagation.
    pub async fn delete(&self, resource: &str, namespace: Option<&str>, name: &str) -> Result<Value, Refused> {
        let path = format!("{}/{name}", self.collection(resource, namespace)?);
        self.send(Method::DELETE, &path, "", None).await
    }

    fn collection(&self, resource: &str, namespace: Option<&str>) -> Result<String, Refused> {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let registry = self.core.registry();
        let found = registry.any_version(group, plural).map(|r| collection(r, namespace));
        found.ok_or_else(|| not_served(resource, resource))
    }

    /// Sends one request as the administrator, or as the identity of [`Sandbox::acting_as`]; the answer must be JSON.
    pub async fn send(&self, method: Method, path: &str, media: &str, body: Option<&Value>) -> Result<Value, Refused> {
        let refused = |code: u16, reason: &str, message: String| Refused {
            method: method.clone(),
            path: path.to_owned(),
            code,
            reason: reason.into(),
            message,
        };
        let bytes = body.map(json::body).unwrap_or_default();
        let mut request = Request::builder().method(method.clone()).uri(path);
        request = request.header(header::ACCEPT, "application/json").header(header::USER_AGENT, "sandbox");
        if !media.is_empty() {
            request = request.header(header::CONTENT_TYPE, media);
        }
        let request: Request<Bytes> = request.body(bytes).map_err(|e| refused(400, "BadRequest", e.to_string()))?;
        let cut = |e: ConnectionCut| refused(0, "", e.to_string());
        let response = self.core.handle(&self.identity, request).await.map_err(cut)?;
        let status = response.status();
        let bytes = response.into_body().collect().await.map_err(cut)?.to_bytes();
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        let (reason, message) = (object::text(&answer, &["reason"]), object::text(&answer, &["message"]));
        Err(refused(status.as_u16(), reason, message.to_owned()))
    }
}

fn not_served(path: &str, what: &str) -> Refused {
    let message = format!("{what} is not served");
    Refused { method: Method::GET, path: path.to_owned(), code: 404, reason: "NotFound".into(), message }
}

fn collection(resource: &Resource, namespace: Option<&str>) -> String {
    let root = match &*resource.group {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    match namespace {
        Some(namespace) if resource.namespaced => format!("{root}/namespaces/{namespace}/{}", resource.plural),
        _ => format!("{root}/{}", resource.plural),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    const LAYERS: [&str; 6] = ["value", "api", "store", "verbs", "server", "actors"];

    fn sources(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let read = |path: std::path::PathBuf| match path.extension() {
            Some(_) => vec![fs::read_to_string(path).unwrap()],
            None => sources(&path),
        };
        entries.flat_map(read).collect()
    }

    #[test]
    fn each_layer_uses_only_those_before_it() {
        for (index, layer) in LAYERS.iter().enumerate() {
            for source in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(layer)) {
                let code = source.split("#[cfg(test)]").next().unwrap_or_default();
                for later in &LAYERS[index + 1..] {
                    let imports = [format!("crate::{later}::"), format!("\n    {later}::")];
                    let found = imports.iter().find(|import| code.contains(*import));
                    assert_eq!(found, None, "in {layer}: {}", source.lines().next().unwrap_or_default());
                }
            }
        }
    }
}
