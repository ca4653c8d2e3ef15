//! Connections to the API server: its address, the credentials, and the transport.
//!
//! [`load_config`] reads the configuration, and [`build_client`] builds a client over the connections of this crate
//! ([`connection`]): HTTP/2 with pings, so that a dead connection is noticed within a minute, and HTTP/1.1 if the server does
//! not support HTTP/2. This module retries nothing and compresses nothing.

mod certificate;
mod connection;
mod connections;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use kube::{
    Config,
    client::{Body, ConfigExt as _},
    config::{Cluster, KubeConfigOptions, Kubeconfig},
};
use tower::{BoxError, Service, ServiceBuilder, service_fn};

use crate::version;
pub use connections::ReloadingClients;

/// The command-line options that determine the API server and the credentials.
#[derive(Clone, Debug, Default)]
pub struct ApiServerOptions {
    /// `--kubeconfig`: path of the kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`: URL of the server, which overrides the URL in the kubeconfig.
    pub master: Option<String>,
}

/// Why a client could not be built, or could not connect. No request was sent.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    fn new(what: impl fmt::Display, cause: &(dyn std::error::Error + 'static)) -> Self {
        Self(append_error_causes(format!("{what}: {cause}"), cause).replace('\n', " "))
    }
}

/// Appends the causes of `error` to `text`, except causes that `text` already contains.
pub(crate) fn append_error_causes(mut text: String, error: &(dyn std::error::Error + 'static)) -> String {
    for cause in std::iter::successors(error.source(), |cause| cause.source()) {
        let part = cause.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
    }
    text
}

/// Loads the configuration from the kubeconfig, from the URL of the server alone, or from the environment of a Pod.
pub async fn load_config(options: &ApiServerOptions) -> Result<Config, Error> {
    let master = options.master.as_deref().filter(|m| !m.is_empty()).map(parse_server_url).transpose()?;
    let mut config = match (&options.kubeconfig, &master) {
        (Some(path), _) => {
            from_file(path).await.map_err(|e| Error::new(format!("cannot use kubeconfig {}", path.display()), &*e))?
        }
        (None, Some(master)) => Config::new(master.clone()),
        (None, None) => {
            if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
                return Err(Error(
                    "no API server is configured: give --kubeconfig or --master, or run inside a cluster".to_owned(),
                ));
            }
            Config::incluster_env().map_err(|e| Error::new("cannot use the in-cluster configuration", &e))?
        }
    };
    if let Some(master) = master {
        config.cluster_url = master;
    }
    Ok(config)
}

async fn from_file(path: &Path) -> Result<Config, BoxError> {
    std::fs::metadata(path)?;
    let kubeconfig = Kubeconfig::read_from(path)?;
    let authority = authority_file(&kubeconfig);
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    check_authority(&config)?;
    // kube-rs sets this path only inside a cluster. If the path is set, a replaced file is read again.
    config.root_cert_file = authority;
    Ok(config)
}

/// Reads the certificate authority of the current cluster of a kubeconfig: its data, or the file that it names.
pub fn read_authority(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |error: &dyn fmt::Display| {
        Error(format!("cannot use kubeconfig {}: {error}", path.display()).replace('\n', " "))
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| failed(&error))?;
    if let Some(file) = authority_file(&kubeconfig) {
        return std::fs::read(&file).map_err(|error| Error(format!("cannot read {}: {error}", file.display())));
    }
    let data = current_cluster(&kubeconfig).and_then(|cluster| cluster.certificate_authority_data.as_deref());
    let data = data.filter(|data| !data.is_empty()).ok_or_else(|| failed(&"it has no certificate authority"))?;
    STANDARD.decode(data).map_err(|error| failed(&error))
}

fn current_cluster(kubeconfig: &Kubeconfig) -> Option<&Cluster> {
    let name = kubeconfig.current_context.as_deref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == name)?.context.as_ref()?;
    kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster)?.cluster.as_ref()
}

/// Returns the file with the certificate authority of the current cluster; `None` if the kubeconfig contains the certificates
/// as data.
fn authority_file(kubeconfig: &Kubeconfig) -> Option<PathBuf> {
    let cluster = current_cluster(kubeconfig)?;
    let file = cluster.certificate_authority.as_deref().filter(|file| !file.is_empty())?;
    cluster.certificate_authority_data.as_ref().is_none_or(String::is_empty).then(|| file.into())
}

/// Checks that the certificate authority has usable certificates. Without this check, the error would appear only when a
/// connection is made.
fn check_authority(config: &Config) -> Result<(), String> {
    let Some(certificates) = &config.root_cert else { return Ok(()) };
    if certificates.is_empty() {
        return Err("its certificate authority contains no certificate".to_owned());
    }
    let mut roots = rustls::RootCertStore::empty();
    for certificate in certificates {
        roots
            .add(certificate.clone().into())
            .map_err(|e| format!("a certificate of its certificate authority cannot be read: {e}"))?;
    }
    Ok(())
}

/// Parses the value of `--master`. As upstream, a bare `host:port` means plain HTTP.
fn parse_server_url(text: &str) -> Result<http::Uri, Error> {
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: http::Uri = text.parse().map_err(|e| Error::new(format!("cannot use --master {text}"), &e))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(uri),
        _ => Err(Error(format!("cannot use --master {text}: it is not of the form https://host:port"))),
    }
}

/// Returns `host:port` of the server, the value of the label `host` of metrics.
pub fn host_and_port(config: &Config) -> String {
    let uri = &config.cluster_url;
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
    format!("{}:{port}", uri.host().unwrap_or_default())
}

/// Builds a client with its own connections. Sends nothing yet.
///
/// Must be called within a tokio runtime. Runs the exec plugin of the kubeconfig, if there is one.
pub fn build_client(config: &Config) -> Result<kube::Client, Error> {
    Ok(kube::Client::new(
        build_service(config, connection::PingLimits::default_limits())?,
        config.default_namespace.clone(),
    ))
}

/// Builds the service that authenticates requests and sends them. Each service has its own connections.
fn build_service(
    config: &Config,
    limits: connection::PingLimits,
) -> Result<
    impl Service<Request<Body>, Response = Response<Incoming>, Error = BoxError, Future: Send> + Clone + Send + 'static,
    Error,
> {
    let failed = |e: kube::Error| Error::new("cannot set up the connection to the API server", &e);
    let wire = Arc::new(connection::ServerConnections::new(config, limits)?);
    Ok(ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(failed)?)
        .layer(config.extra_headers_layer().map_err(failed)?)
        .map_request(|mut request: Request<Body>| {
            // Newer servers compress each watch event separately, which costs the client and the server more than it saves.
            request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            request
        })
        .service(service_fn(move |request| Arc::clone(&wire).send(request))))
}

/// Returns the `User-Agent` header of a client, for example `replicaset-controller/v0.1.0 (linux/amd64)
/// kubernetes/0a1b2c3/replicaset-controller`.
///
/// Upstream: `rest.DefaultKubernetesUserAgent` with the client's name.
pub fn user_agent(client_name: &str) -> String {
    let program = std::env::args().next().unwrap_or_default();
    let program = program.rsplit('/').next().filter(|p| !p.is_empty()).unwrap_or("unknown");
    // A header value contains only printable ASCII characters, so other characters are replaced.
    let program: String = program.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).collect();
    let v = version::KUBERNETES_VERSION;
    let number = version::program_version();
    let number = number.split('-').next().unwrap_or(number);
    let commit = v.commit.get(..7).unwrap_or(v.commit);
    format!("{program}/v{number} ({}/{}) kubernetes/{commit}/{client_name}", version::os(), version::arch())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_agent_names_the_client_and_the_platform() {
        let agent = user_agent("job-controller");
        assert!(
            agent.ends_with("/job-controller") && agent.contains(" kubernetes/") && agent.contains("linux/"),
            "{agent}"
        );
    }

    #[tokio::test]
    async fn an_unusable_configuration_is_reported_in_one_line() {
        let directory = std::env::temp_dir().join(format!("nonet-client-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let trusting = |name: &str, authority: &str| {
            let cluster = format!("{{server: 'https://h', {authority}}}");
            let text = format!(
                "{{kind: Config, apiVersion: v1, current-context: c, users: [{{name: u, user: {{}}}}], \
                 clusters: [{{name: k, cluster: {cluster}}}], contexts: [{{name: c, context: {{cluster: k, user: u}}}}]}}"
            );
            file(name, &text)
        };
        let pem = file("garbage.pem", "-----BEGIN CERTIFICATE-----\nZ2FyYmFnZQ==\n-----END CERTIFICATE-----\n");
        let in_file = |path: &std::path::Path| format!("certificate-authority: '{}'", path.display());
        let unusable = "certificate of its certificate authority cannot be read";
        for (kubeconfig, master, expected) in [
            (Some(trusting("ca-no-pem", "certificate-authority-data: Z2FyYmFnZQ==")), None, "no certificate"),
            (Some(trusting("ca-no-base64", "certificate-authority-data: '***'")), None, "ca-no-base64: "),
            (Some(trusting("ca-empty", &in_file(&file("empty.pem", "")))), None, "no certificate"),
            (Some(trusting("ca-garbage", &in_file(&pem))), None, unusable),
            (Some(trusting("ca-missing", &in_file(&directory.join("none.pem")))), None, "none.pem"),
            (Some(directory.join("missing")), None, "missing: No such file"),
            (Some(file("garbage", "][ not yaml: {")), None, "garbage"),
            (Some(file("empty", "")), None, "empty"),
            (Some(file("dangling", "kind: Config\napiVersion: v1\ncurrent-context: gone\n")), None, "gone"),
            (None, Some("ftp://x".to_owned()), "ftp://x"),
            (None, Some("https://".to_owned()), "--master https://"),
            (None, None, "give --kubeconfig or --master"),
        ] {
            let error = load_config(&ApiServerOptions { kubeconfig, master }).await.unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{error:?} lacks {expected:?}");
        }
        std::fs::remove_dir_all(directory).unwrap();
    }

    /// COMMON-25.
    #[tokio::test]
    async fn the_file_of_a_certificate_authority_is_read_again() {
        let directory = std::env::temp_dir().join(format!("nonet-authority-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap().cert.pem();
        std::fs::write(directory.join("ca.pem"), &certificate).unwrap();
        let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &certificate);
        for (authority, followed) in [
            ("certificate-authority: ca.pem".to_owned(), Some(directory.join("ca.pem"))),
            (format!("certificate-authority-data: {data}"), None),
            (format!("certificate-authority: ca.pem, certificate-authority-data: {data}"), None),
        ] {
            let text = format!(
                "{{kind: Config, apiVersion: v1, current-context: c, users: [{{name: u, user: {{}}}}], \
                 clusters: [{{name: k, cluster: {{server: 'https://h', {authority}}}}}], \
                 contexts: [{{name: c, context: {{cluster: k, user: u}}}}]}}"
            );
            let path = directory.join("kubeconfig");
            std::fs::write(&path, text).unwrap();
            let options = ApiServerOptions { kubeconfig: Some(path.clone()), master: None };
            assert_eq!(load_config(&options).await.unwrap().root_cert_file, followed, "{authority}");
            assert_eq!(read_authority(&path).unwrap(), certificate.as_bytes(), "{authority}");
        }
        let path = directory.join("kubeconfig");
        for (text, expected) in
            [("apiVersion: v1", "kubeconfig: it has no certificate authority"), ("][", "cannot use kubeconfig")]
        {
            std::fs::write(&path, text).unwrap();
            let error = read_authority(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error:?} lacks {expected:?}");
        }
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[tokio::test]
    async fn the_server_named_on_the_command_line_wins() {
        let options = ApiServerOptions { kubeconfig: None, master: Some("127.0.0.1:8080".to_owned()) };
        assert_eq!(host_and_port(&load_config(&options).await.unwrap()), "127.0.0.1:8080");
        let options = ApiServerOptions { kubeconfig: None, master: Some("https://api.example".to_owned()) };
        assert_eq!(host_and_port(&load_config(&options).await.unwrap()), "api.example:443");
    }
}
