//! The processes under test: the controllers of Nonet, or kube-controller-manager.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use common::app::ProgramDefinition;

use super::{
    Error, peer,
    requests::{Requests, verbs},
    timeline::{CONTROLLERS, Pids},
};
use crate::{
    cluster::Cluster,
    process::{Launch, Process, Usage},
    scrape::Samples,
};

/// Time limit for a process to start or to end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The name of Nonet's controllers in the results.
pub(super) const NONET: &str = "Nonet";

/// The controllers to measure.
#[derive(Clone)]
pub(super) enum Choice {
    /// Controllers of this workspace.
    Nonet(Vec<&'static ProgramDefinition>),
    /// kube-controller-manager with these loops.
    Peer {
        /// Its binary.
        path: PathBuf,
        /// The names of the loops.
        loops: Vec<&'static str>,
    },
}

impl Choice {
    /// Its name in the results.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Nonet(_) => NONET,
            Self::Peer { .. } => peer::NAME,
        }
    }

    /// Starts the processes on a cluster. Each has its own user, by which its requests are counted.
    pub(super) fn start(&self, cluster: &Cluster) -> Result<Subject, Error> {
        let mut players = Vec::new();
        match self {
            Self::Nonet(definitions) => {
                for definition in definitions {
                    let kubeconfig = cluster.privileged_kubeconfig_for(definition.name)?;
                    let launch = Launch::controller(definition.name, &kubeconfig)?;
                    players.push(Player::start(launch, Metrics::Diagnostics, cluster)?);
                }
            }
            Self::Peer { path, loops } => {
                let kubeconfig = cluster.privileged_kubeconfig_for(peer::NAME)?;
                let (launch, client) = peer::launch(path, loops, &kubeconfig, cluster)?;
                players.push(Player::start(launch, Metrics::Client(client), cluster)?);
            }
        }
        let subject = Subject { players, pids: Pids::default() };
        subject.tell_pids();
        Ok(subject)
    }
}

/// The port that serves the metrics of a process.
enum Metrics {
    /// The port of its diagnostics.
    Diagnostics,
    /// A port with TLS.
    Client(kube::Client),
}

/// One controller: its present process, and the sums of the earlier ones.
struct Player {
    process: Process,
    launch: Launch,
    metrics: Metrics,
    /// Processor time and peak memory of the earlier processes.
    usage_before: Usage,
    /// Voluntary context switches of the earlier processes.
    context_switches_before: Option<u64>,
    /// Requests of the earlier processes, if the API server does not count them.
    requests_before: Requests,
}

impl Player {
    fn start(launch: Launch, metrics: Metrics, cluster: &Cluster) -> Result<Self, Error> {
        let process = launch.clone().start(cluster.clock())?;
        Ok(Self {
            process,
            launch,
            metrics,
            usage_before: Usage::default(),
            context_switches_before: None,
            requests_before: Requests::default(),
        })
    }

    /// Processor time and memory. Processor time and peak memory include the earlier processes.
    fn usage(&self) -> Usage {
        let now = self.process.usage().unwrap_or_default();
        let before = &self.usage_before;
        Usage { cpu: before.cpu + now.cpu, peak: before.peak.max(now.peak), ..now }
    }

    /// Voluntary context switches, with those of the earlier processes.
    fn context_switches(&self) -> Option<u64> {
        let parts = [self.context_switches_before, self.process.context_switches()];
        parts.into_iter().flatten().reduce(|a, b| a + b)
    }

    async fn metrics(&self) -> Result<Samples, Error> {
        let failed = |why: String| Error::Metrics(format!("cannot read the metrics of {}: {why}", self.process.name()));
        let text = match &self.metrics {
            Metrics::Diagnostics => match self.process.get("/metrics").await {
                Ok((200, text)) => text,
                Ok((code, _)) => return Err(failed(format!("status {code}"))),
                Err(error) => return Err(failed(error.to_string())),
            },
            Metrics::Client(client) => peer::metrics(client).await.map_err(|e| failed(e.to_string()))?,
        };
        Ok(Samples::parse(&text))
    }

    /// The requests of this process by HTTP method, from its own metrics.
    async fn sent(&self) -> Result<Requests, Error> {
        let mut requests = Requests::default();
        for (method, count) in self.metrics().await?.by("rest_client_requests_total", "method") {
            requests.add(verbs(&method), count as u64);
        }
        Ok(requests)
    }
}

/// The processes under test.
pub(super) struct Subject {
    players: Vec<Player>,
    /// The ids of the processes, for sampling.
    pids: Pids,
}

/// Counters at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// Processor time and memory by process under test.
    pub(super) usage: BTreeMap<String, Usage>,
    /// Processor time by process of the cluster, if the bench has started them.
    pub(super) server_cpu: BTreeMap<String, Duration>,
    /// Requests of all processes under test.
    pub(super) requests: Requests,
    /// Voluntary context switches of all processes under test; `None` without processes.
    pub(super) context_switches: Option<u64>,
    /// Requests by process under test.
    pub(super) requests_by_process: BTreeMap<String, Requests>,
    /// Processor time of the bench itself, with the nodes that it simulates and, on the sandbox, the API server.
    pub(super) bench_cpu: Duration,
}

impl Subject {
    /// Fails if one of the processes has ended.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.players.iter().try_for_each(|player| player.process.check()).map_err(Error::from)
    }

    /// Waits until the processes are ready, as far as they can be asked.
    pub(super) async fn ready(&mut self) -> Result<(), Error> {
        for player in &mut self.players {
            if matches!(player.metrics, Metrics::Diagnostics) {
                player.process.ready(TIMEOUT).await?;
            }
        }
        Ok(())
    }

    /// Processor time and memory.
    pub(super) fn usage(&self) -> BTreeMap<String, Usage> {
        self.players.iter().map(|player| (player.process.name().to_owned(), player.usage())).collect()
    }

    /// All counters, with those of the processes of the cluster.
    pub(super) async fn sample(&self, cluster: &Cluster) -> Result<Sample, Error> {
        let mut by_process: BTreeMap<String, Requests> =
            self.players.iter().map(|player| (player.process.name().to_owned(), Requests::default())).collect();
        if let Some(counted) = cluster.requests() {
            for (key, count) in counted {
                if let Some(requests) = by_process.get_mut(&key.identity) {
                    requests.add(format!("{} {}", key.verb, key.resource), count);
                }
            }
        } else {
            for player in &self.players {
                let requests = by_process.entry(player.process.name().to_owned()).or_default();
                requests.merge(&player.requests_before);
                requests.merge(&player.sent().await?);
            }
        }
        let mut requests = Requests::default();
        for of_process in by_process.values() {
            requests.merge(of_process);
        }
        let servers = cluster.processes().into_iter();
        let server_cpu = servers.filter_map(|(name, pid)| Some((name.to_owned(), Usage::of(pid)?.cpu))).collect();
        let context_switches = self.players.iter().filter_map(Player::context_switches).reduce(|a, b| a + b);
        let bench_cpu = Usage::of(std::process::id()).unwrap_or_default().cpu;
        Ok(Sample {
            usage: self.usage(),
            server_cpu,
            requests,
            context_switches,
            requests_by_process: by_process,
            bench_cpu,
        })
    }

    /// The ids of the processes, which restarts update.
    pub(super) fn pids(&self) -> &Pids {
        &self.pids
    }

    /// The ids of the processes by their names.
    pub(super) fn process_ids(&self) -> impl Iterator<Item = (String, u32)> {
        self.players.iter().map(|player| (player.process.name().to_owned(), player.process.pid()))
    }

    /// The bytes of all answers except watches, from the metrics of each process.
    pub(super) async fn answered(&self) -> Result<BTreeMap<String, u64>, Error> {
        let mut bytes = BTreeMap::new();
        for player in &self.players {
            let sum = player.metrics().await?.sum("rest_client_response_size_bytes_sum").unwrap_or(0.0);
            bytes.insert(player.process.name().to_owned(), sum as u64);
        }
        Ok(bytes)
    }

    fn tell_pids(&self) {
        self.pids.set(CONTROLLERS, self.players.iter().map(|player| player.process.pid()).collect());
    }

    /// Stops all processes by SIGTERM and starts them again.
    pub(super) async fn restart(&mut self, cluster: &Cluster) -> Result<(), Error> {
        let is_counted_by_cluster = cluster.requests().is_some();
        let mut next = Vec::new();
        for mut player in self.players.drain(..) {
            if !is_counted_by_cluster {
                player.requests_before.merge(&player.sent().await?);
            }
            player.context_switches_before = player.context_switches();
            player.usage_before = player.usage();
            player.process.terminate()?;
            player.process.ended(TIMEOUT).await?;
            player.process = player.launch.clone().start(cluster.clock())?;
            next.push(player);
        }
        self.players = next;
        self.tell_pids();
        self.ready().await
    }

    /// Stops all processes.
    pub(super) async fn stop(self) {
        for player in self.players {
            if let Err(error) = player.process.stop(TIMEOUT).await {
                tracing::warn!(err = %error, "A process did not end in order");
            }
        }
    }
}
