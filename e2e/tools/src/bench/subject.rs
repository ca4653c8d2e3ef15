//! The processes under test: the controllers of Nonet, or kube-controller-manager.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use common::{app::ProgramDefinition, process::client::build_client};

use super::{counters::Counters, timeline::Sampler};
use crate::{
    cluster::Cluster,
    process::{Launch, Process, Usage},
    scrape::Samples,
};

/// Time limit for a process to start or to end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The names of both subjects in the results.
pub(super) const NONET: &str = "Nonet";
pub(super) const PEER: &str = "kube-controller-manager";

#[derive(Clone)]
pub(super) enum Choice {
    /// Controllers of this workspace.
    Nonet(Vec<&'static ProgramDefinition>),
    /// kube-controller-manager: its binary, and the names of its loops.
    Peer(PathBuf, Vec<&'static str>),
}

impl Choice {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Nonet(_) => NONET,
            Self::Peer(..) => PEER,
        }
    }

    /// Starts the processes on a cluster. Each has its own user, by which its requests are counted.
    pub(super) fn start(&self, cluster: &Cluster) -> Result<Subject> {
        let start = |launch: Launch, metrics| {
            let process = launch.start(cluster.clock())?;
            Ok(Player { process, metrics, earlier: Counters::default(), peak: 0 })
        };
        let players: Result<Vec<Player>> = match self {
            Self::Nonet(definitions) => {
                let start = |definition: &&ProgramDefinition| {
                    let kubeconfig = cluster.privileged_kubeconfig_for(definition.name)?;
                    start(Launch::controller(definition.name, &kubeconfig)?, None)
                };
                definitions.iter().map(start).collect()
            }
            Self::Peer(path, loops) => {
                let kubeconfig = cluster.privileged_kubeconfig_for(PEER)?;
                let (launch, client) = launch_peer(path, loops, &kubeconfig, cluster)?;
                start(launch, Some(client)).map(|player| vec![player])
            }
        };
        Ok(Subject(players?))
    }
}

/// The command of kube-controller-manager, and a client for its metrics.
fn launch_peer(path: &Path, loops: &[&str], kubeconfig: &Path, cluster: &Cluster) -> Result<(Launch, kube::Client)> {
    let certificate = rcgen::generate_simple_self_signed([Ipv4Addr::LOCALHOST.to_string()])?;
    let [cert, key] = ["peer.crt", "peer.key"].map(|name| cluster.directory().join(name));
    fs::write(&cert, certificate.cert.pem())?;
    fs::write(&key, certificate.signing_key.serialize_pem())?;
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let launch = Launch::program(PEER, path)
        .argument(format!("--kubeconfig={}", kubeconfig.display()))
        .argument(format!("--controllers={}", loops.join(",")))
        // No rate limit of the client, as for the controllers of Nonet.
        .argument("--kube-api-qps=100000")
        .argument("--kube-api-burst=100000")
        .argument("--bind-address=127.0.0.1")
        .argument(format!("--secure-port={port}"))
        .argument(format!("--tls-cert-file={}", cert.display()))
        .argument(format!("--tls-private-key-file={}", key.display()))
        .argument("--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics");
    let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse()?);
    config.root_cert = Some(vec![certificate.cert.der().to_vec()]);
    Ok((launch, build_client(&config)?))
}

/// One process, with the counters of the earlier ones.
struct Player {
    process: Process,
    /// A client for the metrics; `None` if the port of the diagnostics serves them.
    metrics: Option<kube::Client>,
    earlier: Counters,
    /// Peak memory of the earlier processes.
    peak: u64,
}

impl Player {
    /// Processor time of this process, and memory. Peak memory includes the earlier processes.
    fn usage(&self) -> Usage {
        let now = self.process.usage().unwrap_or_default();
        Usage { peak: self.peak.max(now.peak), ..now }
    }

    async fn metrics(&self) -> Result<Samples> {
        let text = match &self.metrics {
            Some(client) => {
                let request = || http::Request::get("/metrics").body(Vec::new());
                match client.request_text(request()?).await {
                    Ok(text) => text,
                    // kube-controller-manager closes a connection after 90 idle seconds, perhaps at this moment.
                    Err(_) => client.request_text(request()?).await?,
                }
            }
            None => match self.process.get("/metrics").await? {
                (200, text) => text,
                (code, _) => bail!("status {code}"),
            },
        };
        Ok(Samples(text))
    }

    /// The counters that only the process itself has.
    async fn scrape(&self, cluster: &Cluster) -> Result<Counters> {
        let metrics = self.metrics().await;
        let metrics = metrics.with_context(|| format!("cannot read the metrics of {}", self.process.name()))?;
        let mut counters = Counters {
            answered_bytes: metrics.sum("rest_client_response_size_bytes_sum") as u64,
            ..Counters::default()
        };
        if cluster.requests().is_none() {
            let sent = metrics.by("rest_client_requests_total", "method").into_iter();
            counters.requests = sent.map(|(method, count)| (verbs(&method), count as u64)).collect();
        }
        Ok(counters)
    }

    /// The counters that the system has.
    fn counters(&self, sampler: &Sampler) -> Counters {
        Counters {
            cpu_seconds: self.usage().cpu.as_secs_f64(),
            context_switches: self.process.context_switches().unwrap_or(0),
            received_bytes: sampler.received(self.process.pid()),
            ..Counters::default()
        }
    }
}

/// The verbs that a client sends with an HTTP method.
fn verbs(method: &str) -> String {
    match method {
        "GET" => "get/list/watch",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete/deletecollection",
        other => return other.to_ascii_lowercase(),
    }
    .to_owned()
}

pub(super) struct Subject(Vec<Player>);

impl Subject {
    /// Fails if one of the processes has ended.
    pub(super) fn check(&self) -> Result<()> {
        Ok(self.0.iter().try_for_each(|player| player.process.check())?)
    }

    /// Waits until the processes are ready, as far as they can be asked.
    pub(super) async fn ready(&mut self) -> Result<()> {
        for player in self.0.iter_mut().filter(|player| player.metrics.is_none()) {
            player.process.ready(TIMEOUT).await?;
        }
        Ok(())
    }

    pub(super) fn usage(&self) -> BTreeMap<String, Usage> {
        self.0.iter().map(|player| (player.process.name().to_owned(), player.usage())).collect()
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.pids_by_name().map(|(_, pid)| pid).collect()
    }

    pub(super) fn pids_by_name(&self) -> impl Iterator<Item = (String, u32)> {
        self.0.iter().map(|player| (player.process.name().to_owned(), player.process.pid()))
    }

    /// The counters of the system and of the API server for each process, with those of the processes before a restart.
    pub(super) fn counters(&self, cluster: &Cluster, sampler: &Sampler) -> BTreeMap<String, Counters> {
        let counted = cluster.requests().unwrap_or_default();
        let of = |player: &Player| {
            let mut counters = player.counters(sampler);
            counters.add(&player.earlier);
            for (key, count) in counted.iter().filter(|(key, _)| key.identity == player.process.name()) {
                *counters.requests.entry(format!("{} {}", key.verb, key.resource)).or_default() += count;
            }
            (player.process.name().to_owned(), counters)
        };
        self.0.iter().map(of).collect()
    }

    /// The counters that only the processes themselves have.
    pub(super) async fn scrape(&self, cluster: &Cluster) -> Result<BTreeMap<String, Counters>> {
        let mut all = BTreeMap::new();
        for player in &self.0 {
            all.insert(player.process.name().to_owned(), player.scrape(cluster).await?);
        }
        Ok(all)
    }

    /// Stops all processes by SIGTERM and starts them again. The caller waits until they are ready.
    pub(super) async fn restart(&mut self, cluster: &Cluster, sampler: &Sampler) -> Result<()> {
        for player in &mut self.0 {
            player.earlier.add(&player.scrape(cluster).await?);
            player.earlier.add(&player.counters(sampler));
            player.peak = player.usage().peak;
            player.process.terminate()?;
            player.process.ended(TIMEOUT).await?;
            player.process.restart()?;
        }
        Ok(())
    }

    pub(super) async fn stop(self) {
        for player in self.0 {
            if let Err(error) = player.process.stop(TIMEOUT).await {
                tracing::warn!(err = %error, "A process did not end in order");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_not_distinguished_by_http_methods() {
        assert_eq!((verbs("GET"), verbs("HEAD")), ("get/list/watch".to_owned(), "head".to_owned()));
    }
}
