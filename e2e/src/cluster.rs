//! The cluster for suites, the bench and the playground.
//!
//! The environment variable `NONET_CLUSTER` chooses it (the fourth kind, `virtual`, is that of `cargo test` in a controller's crate):
//!
//! | value | API server | nodes and protection of storage |
//! | --- | --- | --- |
//! | `sandbox` (default) | the API server in memory, on a free loopback port | simulated |
//! | `envtest` | etcd and kube-apiserver from the directory in `KUBEBUILDER_ASSETS`, on free loopback ports | simulated |
//! | `kubeconfig` | the cluster of your kubeconfig, whose built-in controllers are off | those of the cluster; simulated nodes if it has none |
//!
//! The admission plugin `OwnerReferencesPermissionEnforcement` is on for `envtest`, and for the sandbox if the builder asks for
//! it.
//!
//! Dropping a cluster stops its processes by their ids and removes its directories. On the cluster of a kubeconfig, the suites
//! delete the objects that they have created, and nothing else is changed.

mod audit;
mod directory;
mod envtest;
mod pki;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use common::clock::Clock;

use crate::{
    nodes::{self, Nodes},
    sandbox::{self, Credential, RequestKey, Sandbox, Server, Tls, protection::Protection},
};
pub use directory::{Directory, write_private};
pub use testkit::scene::Kind;

/// The variable that chooses the cluster.
pub const CLUSTER_VARIABLE: &str = "NONET_CLUSTER";
/// The variable that names the directory with the binaries of `envtest`.
pub const ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";
const KINDS: [Kind; 3] = [Kind::Sandbox, Kind::Envtest, Kind::Kubeconfig];

/// The kinds of clusters that the environment and command lines name.
pub fn kinds() -> impl TypedValueParser<Value = Kind> {
    let help = |kind| match kind {
        Kind::Envtest => "etcd and kube-apiserver from the directory in `KUBEBUILDER_ASSETS`",
        Kind::Kubeconfig => "The cluster of your kubeconfig, with its built-in controllers switched off",
        _ => "The API server in memory",
    };
    let values = KINDS.map(|kind| PossibleValue::new(kind.name()).help(help(kind)));
    PossibleValuesParser::new(values).try_map(|name| named(&name))
}

fn named(name: &str) -> Result<Kind, Error> {
    KINDS.into_iter().find(|kind| kind.name() == name).ok_or_else(|| Error::UnknownKind(name.to_owned()))
}

/// The kind of cluster that the environment asks for.
pub fn chosen_kind() -> Result<Kind, Error> {
    let chosen = std::env::var(CLUSTER_VARIABLE).unwrap_or_default();
    if chosen.is_empty() { Ok(Kind::Sandbox) } else { named(&chosen) }
}

/// The reason why there is no cluster.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The environment asks for something unknown.
    #[error("{CLUSTER_VARIABLE}={0:?} is not one of sandbox, envtest, kubeconfig")]
    UnknownKind(String),
    /// The binaries are missing, so that the test is skipped.
    #[error("skipped: {0}")]
    Missing(String),
    /// A file or a process.
    #[error("{0}: {1}")]
    Io(String, io::Error),
    /// The certificates cannot be created.
    #[error("cannot create the certificates: {0}")]
    Certificates(#[from] rcgen::Error),
    /// The sandbox cannot be served.
    #[error(transparent)]
    Serve(#[from] sandbox::ServeError),
    /// The API server cannot be reached.
    #[error(transparent)]
    Client(#[from] common::process::client::Error),
    /// A process of the cluster is not ready in time.
    #[error("{0}")]
    NotReady(String),
}

impl Error {
    /// Whether the error only means that no cluster is available.
    pub fn is_skip(&self) -> bool {
        matches!(self, Self::Missing(_))
    }
}

/// The settings of a new cluster.
#[derive(Clone, Debug)]
pub struct Builder {
    kind: Option<Kind>,
    nodes: Option<nodes::Builder>,
    sandbox: sandbox::Builder,
    envtest: envtest::Settings,
    without_storage_protection: bool,
}

impl Builder {
    /// Sets the kind; the default is that of the environment.
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Sets the simulated nodes; `None` for no nodes.
    #[must_use]
    pub fn nodes(mut self, nodes: Option<nodes::Builder>) -> Self {
        self.nodes = nodes;
        self
    }

    /// Sets the settings of the sandbox, for that kind.
    #[must_use]
    pub fn sandbox(mut self, change: impl FnOnce(sandbox::Builder) -> sandbox::Builder) -> Self {
        self.sandbox = change(self.sandbox);
        self
    }

    /// Starts no actor that removes the protection finalizers of storage, because a controller does.
    #[must_use]
    pub fn without_storage_protection(mut self, is_left_out: bool) -> Self {
        self.without_storage_protection = is_left_out;
        self
    }

    /// Counts the requests of every user also on `envtest`, except for those of the cluster's own client and of its nodes. This
    /// costs the API server some time. The sandbox always counts.
    #[must_use]
    pub fn count_requests(mut self) -> Self {
        self.envtest.counts_requests = true;
        self
    }

    /// Enables the admission plugin `ServiceAccount`: a Pod is refused in a namespace without the account that it names.
    #[must_use]
    pub fn service_account_admission(mut self, enforce: bool) -> Self {
        self.envtest.service_account_admission = enforce;
        self.sandbox = self.sandbox.service_account_admission(enforce);
        self
    }

    /// Starts it, and waits until the API server answers and the nodes are ready.
    pub async fn start(self) -> Result<Cluster, Error> {
        let kind = match self.kind {
            Some(kind) => kind,
            None => chosen_kind()?,
        };
        let clock = Clock::system();
        let directory = Directory::new("cluster")?;
        let kubeconfig = directory.path().join("kubeconfig");
        let backend = match kind {
            Kind::Sandbox => {
                let sandbox = self.sandbox.clock(clock.clone()).build();
                let server = sandbox.serve(([127, 0, 0, 1], 0).into(), Tls::On).await?;
                write_private(&kubeconfig, &server.kubeconfig())?;
                Backend::Sandbox { sandbox, server }
            }
            Kind::Envtest => {
                let envtest = envtest::Envtest::start(&directory, &clock, self.envtest).await?;
                write_private(&kubeconfig, &envtest.kubeconfig())?;
                Backend::Envtest(Box::new(envtest))
            }
            Kind::Kubeconfig => Backend::Kubeconfig(users_kubeconfig()?),
            Kind::Virtual => return Err(Error::UnknownKind(kind.name().to_owned())),
        };
        let kubeconfig = match &backend {
            Backend::Kubeconfig(path) => path.clone(),
            _ => kubeconfig,
        };
        let client = connect(&kubeconfig).await?;
        if let Backend::Envtest(envtest) = &backend {
            envtest.wait(&client, &clock).await?;
        }
        let protection = match kind {
            Kind::Kubeconfig => None,
            _ if self.without_storage_protection => None,
            _ => Some(Protection::start(connect(&kubeconfig).await?, clock.clone())),
        };
        let mut nodes = None;
        if let Some(builder) = self.nodes
            && (kind != Kind::Kubeconfig || !has_nodes(&client).await?)
        {
            let client = connect(&kubeconfig).await?;
            let started = builder.start(client, clock.clone());
            started.ready().await;
            nodes = Some(started);
        }
        Ok(Cluster { nodes, _protection: protection, client, kubeconfig, backend, clock, kind, directory })
    }
}

/// The server of a cluster. Fields are dropped in their order: the clients of a server before the server.
enum Backend {
    Sandbox { sandbox: Sandbox, server: Server },
    Envtest(Box<envtest::Envtest>),
    Kubeconfig(PathBuf),
}

/// A running cluster.
pub struct Cluster {
    nodes: Option<Nodes>,
    /// Removes the protection finalizers of deleted claims and volumes, if no controller does.
    _protection: Option<Protection>,
    client: kube::Client,
    kubeconfig: PathBuf,
    backend: Backend,
    clock: Clock,
    kind: Kind,
    directory: Directory,
}

impl Cluster {
    /// A builder for a cluster of the kind that the environment asks for, with six nodes.
    pub fn builder() -> Builder {
        let (nodes, envtest) = (Some(Nodes::builder()), envtest::Settings::default());
        Builder { kind: None, nodes, sandbox: Sandbox::builder(), envtest, without_storage_protection: false }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A client with all rights.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// A kubeconfig with all rights.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A kubeconfig for the user `identity`, with the rights that the cluster grants. On the cluster of a kubeconfig, it is the
    /// user's own.
    pub fn kubeconfig_for(&self, identity: &str) -> Result<PathBuf, Error> {
        let text = match &self.backend {
            Backend::Sandbox { server, .. } => server.kubeconfig_for(identity, Credential::Token),
            Backend::Envtest(envtest) => envtest.kubeconfig_for(identity)?,
            Backend::Kubeconfig(path) => return Ok(path.clone()),
        };
        self.write_kubeconfig(identity, &text)
    }

    /// A kubeconfig for the user `identity`, with all rights that the settings of the sandbox permit. On the cluster of a
    /// kubeconfig, it is the user's own.
    pub fn privileged_kubeconfig_for(&self, identity: &str) -> Result<PathBuf, Error> {
        match &self.backend {
            Backend::Envtest(envtest) => self.write_kubeconfig(identity, &envtest.privileged_kubeconfig_for(identity)?),
            Backend::Sandbox { .. } | Backend::Kubeconfig(_) => self.kubeconfig_for(identity),
        }
    }

    fn write_kubeconfig(&self, identity: &str, text: &str) -> Result<PathBuf, Error> {
        let name = identity.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        // A process that runs under the same identity may read its own file at this moment.
        let unique = self.clock.random_u64();
        let path = self.directory.path().join(format!("kubeconfig-{name}-{unique:016x}"));
        write_private(&path, text)?;
        Ok(path)
    }

    /// The clock of the cluster, which is also the source of randomness.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The simulated nodes, if there are any.
    pub fn nodes(&self) -> Option<&Nodes> {
        self.nodes.as_ref()
    }

    /// The sandbox, for that kind.
    pub fn sandbox(&self) -> Option<&Sandbox> {
        match &self.backend {
            Backend::Sandbox { sandbox, .. } => Some(sandbox),
            _ => None,
        }
    }

    /// Requests so far, by user, verb and resource. `None` on the cluster of a kubeconfig, and on `envtest` without
    /// [`Builder::count_requests`].
    pub fn requests(&self) -> Option<BTreeMap<RequestKey, u64>> {
        match &self.backend {
            Backend::Sandbox { sandbox, .. } => Some(sandbox.requests().all()),
            Backend::Envtest(envtest) => envtest.requests(),
            Backend::Kubeconfig(_) => None,
        }
    }

    /// The directory for files of processes of the cluster. It is removed with the cluster.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Stops it. On the cluster of a kubeconfig, the simulated nodes are deleted. Any other cluster is removed with its objects.
    pub async fn stop(self) {
        let Some(nodes) = self.nodes else { return };
        let names = nodes.names();
        drop(nodes);
        if self.kind != Kind::Kubeconfig {
            return;
        }
        for name in names {
            let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}");
            for path in [format!("/api/v1/nodes/{name}"), lease] {
                let Ok(request) = http::Request::delete(&path).body(Vec::new()) else { continue };
                match self.client.request_text(request).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => tracing::warn!(path, err = %error, "Could not be removed"),
                    Ok(_) => {}
                }
            }
        }
    }

    /// The processes behind the API server with their ids, for measurements.
    pub fn processes(&self) -> Vec<(&'static str, u32)> {
        match &self.backend {
            Backend::Envtest(envtest) => envtest.processes(),
            _ => Vec::new(),
        }
    }
}

/// A client with its own connections.
pub async fn connect(kubeconfig: &Path) -> Result<kube::Client, Error> {
    let options =
        common::process::client::ApiServerOptions { kubeconfig: Some(kubeconfig.to_owned()), ..Default::default() };
    let config = common::process::client::load_config(&options).await?;
    Ok(common::process::client::build_client(&config)?)
}

fn users_kubeconfig() -> Result<PathBuf, Error> {
    let listed = std::env::var_os("KUBECONFIG");
    let first = listed.as_deref().and_then(|list| std::env::split_paths(list).find(|p| p.is_file()));
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".kube/config")).filter(|p| p.is_file());
    first.or_else(home).ok_or_else(|| Error::Missing("there is no kubeconfig (KUBECONFIG, ~/.kube/config)".to_owned()))
}

/// Whether there are nodes that are not simulated.
async fn has_nodes(client: &kube::Client) -> Result<bool, Error> {
    let failed = |e: &dyn std::fmt::Display| Error::NotReady(format!("cannot list nodes: {e}"));
    let request = http::Request::get("/api/v1/nodes").body(Vec::new()).map_err(|e| failed(&e))?;
    let list: serde_json::Value = client.request(request).await.map_err(|e| failed(&e))?;
    let foreign = |node: &serde_json::Value| {
        let runtime = node["status"]["nodeInfo"]["containerRuntimeVersion"].as_str().unwrap_or_default();
        !runtime.starts_with(nodes::RUNTIME)
    };
    Ok(list["items"].as_array().into_iter().flatten().any(foreign))
}

const START_TIMEOUT: Duration = Duration::from_secs(120);
