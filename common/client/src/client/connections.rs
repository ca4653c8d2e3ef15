//! Clients that reload their kubeconfig when it changes.
//!
//! Certificates in a kubeconfig expire, and a renewal replaces the file. The file is therefore read again once a minute. If the
//! content has changed and clients can be built from it, every client sends its next request over new connections. Requests in
//! flight, including watches, continue on the old connections until the requests end.

use std::{hash::BuildHasher as _, path::PathBuf, sync::Arc, time::Duration};

use http::{Request, Response};
use hyper::body::Incoming;
use jiff::Timestamp;
use kube::{Config, client::Body};
use parking_lot::Mutex;
use tower::{BoxError, ServiceExt as _, service_fn, util::BoxCloneService};

use super::{ApiServerOptions, Error, build_service, certificate, connection::PingLimits, load_config};
use crate::{clock::Clock, map::SeededHashState};

/// Interval at which the kubeconfig is read.
const PERIOD: Duration = Duration::from_secs(60);

/// Connections of one client; a reload replaces all of them together.
type Slot = Arc<Mutex<BoxCloneService<Request<Body>, Response<Incoming>, BoxError>>>;

/// Clients of one API server that are made from the same kubeconfig.
pub struct ReloadingClients {
    options: ApiServerOptions,
    current: Mutex<Current>,
    clients: Mutex<Vec<(PingLimits, Slot)>>,
}

/// The configuration that the clients use now.
struct Current {
    config: Config,
    /// Hash of the kubeconfig in use; `None` without a kubeconfig.
    digest: Option<u64>,
    /// Hash of the last kubeconfig that could not be loaded; `None` after a successful load.
    refused: Option<u64>,
}

impl ReloadingClients {
    /// Loads the configuration that `options` name. Builds no client yet.
    pub async fn load(options: &ApiServerOptions) -> Result<Arc<Self>, Error> {
        // The hash is computed before the load, so that the next check notices a change of the file during the load.
        let digest = options.kubeconfig.as_ref().and_then(digest);
        let config = load_config(options).await?;
        Ok(Arc::new(Self {
            options: options.clone(),
            current: Mutex::new(Current { config, digest, refused: None }),
            clients: Mutex::default(),
        }))
    }

    /// Returns `host:port` of the API server, the value of the label `host` of metrics.
    pub fn host_and_port(&self) -> String {
        super::host_and_port(&self.current.lock().config)
    }

    /// Builds a client that shares no connection with other clients. Sends nothing yet.
    ///
    /// Must be called within a tokio runtime. Runs the exec plugin of the kubeconfig, if there is one.
    pub fn build_client(&self) -> Result<kube::Client, Error> {
        self.build_reloading_client(PingLimits::default_limits())
    }

    /// Builds a client for leader election. Its requests are cancelled after `request_timeout`.
    ///
    /// A cancelled request discards its connection, which may be dead. The next request uses a new connection, and can
    /// succeed before the Lease is lost.
    pub fn build_leader_election_client(&self, request_timeout: Duration) -> Result<kube::Client, Error> {
        self.build_reloading_client(PingLimits::leader_election_limits(request_timeout))
    }

    fn build_reloading_client(&self, limits: PingLimits) -> Result<kube::Client, Error> {
        let config = self.current.lock().config.clone();
        let (stack, namespace) = (build_service(&config, limits)?, config.default_namespace);
        if self.options.kubeconfig.is_none() {
            return Ok(kube::Client::new(stack, namespace));
        }
        let slot = Arc::new(Mutex::new(BoxCloneService::new(stack)));
        self.clients.lock().push((limits, Arc::clone(&slot)));
        Ok(kube::Client::new(service_fn(move |request| slot.lock().clone().oneshot(request)), namespace))
    }

    /// Returns the end of validity of the client certificate; `None` without a client certificate.
    ///
    /// Reads the certificate file again if the kubeconfig names one, as each new connection does.
    pub fn client_certificate_expiry(&self) -> Option<Timestamp> {
        certificate::client_certificate_expiry(&self.current.lock().config)
    }

    /// Reloads the kubeconfig whenever its content has changed. Returns only if the process has no kubeconfig.
    pub async fn reload_on_change(self: Arc<Self>, clock: Clock) {
        let Some(path) = self.options.kubeconfig.clone() else { return };
        loop {
            clock.sleep(PERIOD).await;
            self.read_again(&path).await;
        }
    }

    /// Reloads the kubeconfig if its content differs from the content in use, even if the last load of it failed.
    async fn read_again(&self, path: &PathBuf) {
        // A missing file is probably being replaced.
        let Some(found) = digest(path) else { return };
        if self.current.lock().digest == Some(found) {
            return;
        }
        match self.replace_connections().await {
            Ok(()) => {
                let mut current = self.current.lock();
                (current.digest, current.refused) = (Some(found), None);
                drop(current);
                let expiry = self.client_certificate_expiry().map(|at| at.to_string()).unwrap_or_default();
                tracing::info!(kubeconfig = %path.display(), certificateExpires = expiry, "The kubeconfig has changed and was reloaded");
            }
            // The reload is retried every minute, because a missing file that the kubeconfig names may appear later.
            Err(error) if self.current.lock().refused.replace(found) == Some(found) => {
                tracing::debug!(kubeconfig = %path.display(), err = %error, "The kubeconfig still cannot be used");
            }
            Err(error) => {
                tracing::error!(kubeconfig = %path.display(), err = %error, "The kubeconfig has changed and cannot be used, the previous one stays in use");
            }
        }
    }

    /// Loads the kubeconfig, and replaces the connections of every client.
    async fn replace_connections(&self) -> Result<(), Error> {
        let config = load_config(&self.options).await?;
        let clients: Vec<_> = self.clients.lock().clone();
        let stacks: Vec<_> =
            clients.iter().map(|(patience, _)| build_service(&config, *patience)).collect::<Result<_, Error>>()?;
        for ((_, slot), stack) in clients.iter().zip(stacks) {
            *slot.lock() = BoxCloneService::new(stack);
        }
        self.current.lock().config = config;
        Ok(())
    }
}

/// Returns a hash of the content of a file; `None` if the file cannot be read.
fn digest(path: &PathBuf) -> Option<u64> {
    std::fs::read(path).ok().map(|contents| SeededHashState::default().hash_one(contents))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use base64::Engine as _;
    use http_body_util::BodyExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// Starts an HTTP server that answers every request with `name`, and returns its URL.
    async fn server(name: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = axum::Router::new().fallback(move || async move { name });
        tokio::spawn(async move { axum::serve(listener, app).await });
        format!("http://{address}")
    }

    fn write(path: &Path, server: &str, expiry: &str) {
        let mut parameters = rcgen::CertificateParams::new(vec!["me".to_owned()]).unwrap();
        let (year, _) = expiry.split_once('-').unwrap();
        parameters.not_after = rcgen::date_time_ymd(year.parse().unwrap(), 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let encode = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
        let certificate = encode(parameters.self_signed(&key).unwrap().pem());
        let key = encode(key.serialize_pem());
        let text = format!(
            "{{kind: Config, apiVersion: v1, current-context: c, clusters: [{{name: k, cluster: {{server: '{server}'}}}}], \
             users: [{{name: u, user: {{client-certificate-data: {certificate}, client-key-data: {key}}}}}], \
             contexts: [{{name: c, context: {{cluster: k, user: u}}}}]}}"
        );
        // The file is written under another name and then renamed, as in a renewal of certificates.
        let beside = path.with_extension("new");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(beside, path).unwrap();
    }

    async fn ask(client: &kube::Client) -> String {
        let request = Request::get("/x").body(Body::empty()).unwrap();
        let answer = client.send(request).await.unwrap().into_body().collect().await.unwrap();
        String::from_utf8(answer.to_bytes().to_vec()).unwrap()
    }

    /// COMMON-25.
    #[tokio::test]
    async fn a_kubeconfig_that_is_replaced_is_used_without_a_restart() {
        let directory = std::env::temp_dir().join(format!("nonet-connections-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("kubeconfig");
        write(&path, &server("one").await, "2031-01-01");
        let options = ApiServerOptions { kubeconfig: Some(path.clone()), master: None };
        let connections = ReloadingClients::load(&options).await.unwrap();
        let clients = [
            connections.build_client().unwrap(),
            connections.build_leader_election_client(Duration::from_secs(5)).unwrap(),
        ];
        let all = async || [ask(&clients[0]).await, ask(&clients[1]).await];
        let expiry = || connections.client_certificate_expiry().unwrap().to_string();
        assert_eq!((all().await, expiry()), (["one".to_owned(), "one".to_owned()], "2031-01-01T00:00:00Z".to_owned()));

        write(&path, &server("two").await, "2032-01-01");
        connections.read_again(&path).await;
        assert_eq!((all().await, expiry()), (["two".to_owned(), "two".to_owned()], "2032-01-01T00:00:00Z".to_owned()));

        std::fs::write(&path, "][ not yaml: {").unwrap();
        connections.read_again(&path).await;
        std::fs::remove_file(&path).unwrap();
        connections.read_again(&path).await;
        assert_eq!(all().await, ["two".to_owned(), "two".to_owned()], "a file that cannot be used changes nothing");

        write(&path, &server("three").await, "2033-01-01");
        connections.read_again(&path).await;
        assert_eq!(
            (all().await, expiry()),
            (["three".to_owned(), "three".to_owned()], "2033-01-01T00:00:00Z".to_owned())
        );
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[tokio::test]
    async fn without_a_client_certificate_there_is_no_expiry() {
        let options = ApiServerOptions { kubeconfig: None, master: Some("127.0.0.1:8080".to_owned()) };
        assert_eq!(ReloadingClients::load(&options).await.unwrap().client_certificate_expiry(), None);
    }
}
