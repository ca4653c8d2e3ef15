//! A real etcd and a real kube-apiserver on loopback, for one run.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use common::clock::Clock;
use parking_lot::Mutex;
use rcgen::KeyPair;
use sandbox::RequestKey;
use serde_json::json;

use super::{
    ASSETS_VARIABLE, Directory, Error, START_TIMEOUT,
    audit::{self, Counters},
    directory::write_private,
    pki::{Authority, Pair},
};

/// Running processes. They are killed when this is dropped: API server first.
pub(super) struct Envtest {
    apiserver: Mutex<Killed>,
    etcd: Mutex<Killed>,
    authority: Authority,
    admin: Pair,
    port: u16,
    /// Requests of users other than [`ADMIN`], if they are counted.
    requests: Option<Counters>,
    _data: Directory,
}

/// What differs between two clusters of this kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settings {
    /// Whether requests are counted.
    pub(super) counts_requests: bool,
    /// Whether a Pod is refused in a namespace without the account that it names.
    pub(super) service_account_admission: bool,
}

/// The user of the cluster's own client and of its nodes.
const ADMIN: &str = "admin";
/// The group whose members may do everything.
const MASTERS: &str = "system:masters";

struct Killed {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Drop for Killed {
    fn drop(&mut self) {
        // Fails only if the child has ended before, and nothing of it is wanted any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Killed {
    /// Starts a program whose log is a file of the directory. `stdout` receives its standard output, which is part of the log
    /// otherwise.
    fn start(
        name: &'static str,
        program: &Path,
        arguments: &[String],
        directory: &Path,
        stdout: Option<Stdio>,
    ) -> Result<Self, Error> {
        let log = directory.join(format!("{name}.log"));
        let failed = |e| Error::Io(format!("cannot start {}", program.display()), e);
        let out = fs::File::create(&log).map_err(failed)?;
        let err = out.try_clone().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(stdout.unwrap_or_else(|| out.into())).stderr(err);
        Ok(Self { name, child: command.spawn().map_err(failed)?, log })
    }

    fn check(&mut self) -> Result<(), Error> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(Error::NotReady(format!("{} ended with {status}: {}", self.name, self.last_words())))
            }
            Err(e) => Err(Error::Io(format!("cannot wait for {}", self.name), e)),
        }
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().filter(|l| !l.trim().is_empty()).take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}

/// A loopback port that is free now, held until it is dropped.
fn port() -> Result<TcpListener, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| Error::Io("cannot find a free port".to_owned(), e))
}

fn number(listener: &TcpListener) -> Result<u16, Error> {
    let address = listener.local_addr().map_err(|e| Error::Io("cannot find a free port".to_owned(), e))?;
    Ok(address.port())
}

fn assets() -> Result<(PathBuf, PathBuf), Error> {
    let Some(directory) = std::env::var_os(ASSETS_VARIABLE).filter(|d| !d.is_empty()) else {
        return Err(Error::Missing(format!("{ASSETS_VARIABLE} is not set")));
    };
    let find = |name: &str| {
        let path = Path::new(&directory).join(name);
        let missing = || Error::Missing(format!("{ASSETS_VARIABLE} has no {name}: {}", path.display()));
        if path.is_file() { Ok(path) } else { Err(missing()) }
    };
    Ok((find("etcd")?, find("kube-apiserver")?))
}

impl Envtest {
    /// Starts both processes; [`Self::wait`] waits for them.
    pub(super) async fn start(directory: &Directory, clock: &Clock, settings: Settings) -> Result<Self, Error> {
        let (etcd, apiserver) = assets()?;
        let at = directory.path();
        let path = |name: &str| at.join(name).display().to_string();
        let authority = Authority::new()?;
        let (serving, admin) = (authority.serving()?, authority.client(ADMIN, Some(MASTERS))?);
        let accounts = KeyPair::generate()?;
        for (name, text) in [
            ("ca.crt", &authority.pem()),
            ("apiserver.crt", &serving.certificate),
            ("apiserver.key", &serving.key),
            ("sa.key", &accounts.serialize_pem()),
            ("sa.pub", &accounts.public_key_pem()),
        ] {
            write_private(&at.join(name), text)?;
        }
        let data = Directory::in_memory("etcd")?;
        let held = [port()?, port()?, port()?];
        let [clients, peers, secure] = [number(&held[0])?, number(&held[1])?, number(&held[2])?];
        drop(held);
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let arguments = [
            "--name=nonet".to_owned(),
            format!("--data-dir={}", data.path().display()),
            "--unsafe-no-fsync".to_owned(),
            format!("--listen-client-urls={}", url(clients)),
            format!("--advertise-client-urls={}", url(clients)),
            format!("--listen-peer-urls={}", url(peers)),
            format!("--initial-advertise-peer-urls={}", url(peers)),
            format!("--initial-cluster=nonet={}", url(peers)),
            "--log-level=warn".to_owned(),
            "--quota-backend-bytes=4294967296".to_owned(),
        ];
        let mut etcd = Killed::start("etcd", &etcd, &arguments, at, None)?;
        // kube-apiserver retries its first connection only after seconds.
        let started = clock.monotonic_now();
        while tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, clients)).await.is_err() {
            etcd.check()?;
            if clock.monotonic_now() - started > START_TIMEOUT {
                return Err(Error::NotReady(format!("etcd does not accept connections: {}", etcd.last_words())));
            }
            clock.sleep(Duration::from_millis(20)).await;
        }
        let mut arguments = vec![
            format!("--etcd-servers={}", url(clients)),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={secure}"),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--tls-cert-file={}", path("apiserver.crt")),
            format!("--tls-private-key-file={}", path("apiserver.key")),
            format!("--client-ca-file={}", path("ca.crt")),
            format!("--cert-dir={}", path("certs")),
            "--authorization-mode=RBAC".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", path("sa.pub")),
            format!("--service-account-signing-key-file={}", path("sa.key")),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--allow-privileged=true".to_owned(),
            // On in OpenShift and in many hardened clusters.
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned(),
        ];
        if !settings.service_account_admission {
            arguments.push("--disable-admission-plugins=ServiceAccount".to_owned());
        }
        let mut stdout = None;
        if settings.counts_requests {
            write_private(&at.join("audit.yaml"), &audit::policy(ADMIN))?;
            arguments.push(format!("--audit-policy-file={}", path("audit.yaml")));
            arguments.push("--audit-log-path=-".to_owned());
            stdout = Some(Stdio::piped());
        }
        let mut apiserver = Killed::start("kube-apiserver", &apiserver, &arguments, at, stdout)?;
        let requests = apiserver.child.stdout.take().map(Counters::follow);
        Ok(Self {
            apiserver: Mutex::new(apiserver),
            etcd: Mutex::new(etcd),
            authority,
            admin,
            port: secure,
            requests,
            _data: data,
        })
    }

    pub(super) async fn wait(&self, client: &kube::Client, clock: &Clock) -> Result<(), Error> {
        let started = clock.monotonic_now();
        for path in [
            "/readyz",
            "/api/v1/namespaces/default",
            "/api/v1/namespaces/kube-system",
            "/api/v1/namespaces/kube-node-lease",
        ] {
            loop {
                let Ok(request) = http::Request::get(path).body(Vec::new()) else { break };
                let Err(last) = client.request_text(request).await else { break };
                self.etcd.lock().check()?;
                self.apiserver.lock().check()?;
                if clock.monotonic_now() - started > START_TIMEOUT {
                    let words = self.apiserver.lock().last_words();
                    return Err(Error::NotReady(format!("kube-apiserver is not ready: {path}: {last}: {words}")));
                }
                clock.sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    pub(super) fn kubeconfig(&self) -> String {
        self.config(ADMIN, &self.admin)
    }

    pub(super) fn kubeconfig_for(&self, user: &str) -> Result<String, Error> {
        Ok(self.config(user, &self.authority.client(user, None)?))
    }

    pub(super) fn privileged_kubeconfig_for(&self, user: &str) -> Result<String, Error> {
        Ok(self.config(user, &self.authority.client(user, Some(MASTERS))?))
    }

    fn config(&self, user: &str, pair: &Pair) -> String {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "envtest", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port),
                "certificate-authority-data": STANDARD.encode(self.authority.pem()),
            }}],
            "users": [{"name": user, "user": {
                "client-certificate-data": STANDARD.encode(&pair.certificate),
                "client-key-data": STANDARD.encode(&pair.key),
            }}],
            "contexts": [{"name": "envtest", "context": {"cluster": "envtest", "user": user, "namespace": "default"}}],
            "current-context": "envtest",
        });
        // JSON is YAML.
        format!("{config:#}\n")
    }

    /// Requests so far, by user, verb and resource; none if they are not counted.
    pub(super) fn requests(&self) -> Option<BTreeMap<RequestKey, u64>> {
        self.requests.as_ref().map(Counters::all)
    }

    pub(super) fn processes(&self) -> Vec<(&'static str, u32)> {
        let process = |process: &Mutex<Killed>| {
            let process = process.lock();
            (process.name, process.child.id())
        };
        [&self.etcd, &self.apiserver].map(process).to_vec()
    }
}
