//! What is measured: Nonet's controllers, or their peer, as processes.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use common::app::Definition;

use super::{
    Error, peer,
    requests::{Requests, verb},
};
use crate::{
    cluster::{Cluster, Kind},
    process::{Launch, Process, Usage},
    scrape::Samples,
};

/// How long a process may take to come up or to end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Who is to be measured.
#[derive(Clone)]
pub(super) enum Choice {
    /// Controllers of this workspace.
    Nonet(Vec<&'static Definition>),
    /// kube-controller-manager with these loops.
    Peer {
        /// Its binary.
        path: PathBuf,
        /// The names of the loops.
        loops: Vec<&'static str>,
    },
}

impl Choice {
    /// Starts the processes on a cluster.
    pub(super) fn start(&self, cluster: &Cluster) -> Result<Subject, Error> {
        let mut players = Vec::new();
        match self {
            Self::Nonet(definitions) => {
                for definition in definitions {
                    let kubeconfig = kubeconfig(cluster, definition.name)?;
                    let launch = Launch::controller(definition.name, &kubeconfig)?;
                    players.push(Player::start(launch, Metrics::Diagnostics, cluster)?);
                }
            }
            Self::Peer { path, loops } => {
                let kubeconfig = kubeconfig(cluster, peer::NAME)?;
                let (launch, client) = peer::launch(path, loops, &kubeconfig, cluster)?;
                players.push(Player::start(launch, Metrics::Client(client), cluster)?);
            }
        }
        let name = match self {
            Self::Nonet(_) => "Nonet",
            Self::Peer { .. } => peer::NAME,
        };
        Ok(Subject { name: name.to_owned(), players })
    }
}

/// On the sandbox everybody is known by name, so that requests can be told apart; elsewhere rights are not what is measured.
fn kubeconfig(cluster: &Cluster, name: &str) -> Result<PathBuf, Error> {
    match cluster.kind() {
        Kind::Sandbox => Ok(cluster.kubeconfig_for(name)?),
        Kind::Envtest | Kind::Kubeconfig => Ok(cluster.kubeconfig().to_owned()),
    }
}

/// Where the metrics of a process are served.
enum Metrics {
    /// With its diagnostics.
    Diagnostics,
    /// Behind TLS.
    Client(kube::Client),
}

/// One process.
struct Player {
    process: Process,
    launch: Launch,
    metrics: Metrics,
    /// What the processes before this one have cost: it is one and the same controller.
    before: Duration,
    requests_before: Requests,
    peak_before: u64,
}

impl Player {
    fn start(launch: Launch, metrics: Metrics, cluster: &Cluster) -> Result<Self, Error> {
        let process = launch.clone().start(cluster.clock())?;
        let (before, requests_before, peak_before) = (Duration::ZERO, Requests::default(), 0);
        Ok(Self { process, launch, metrics, before, requests_before, peak_before })
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

    /// What this process has sent, as it counts itself.
    async fn sent(&self) -> Result<Requests, Error> {
        let mut requests = Requests::default();
        for (method, count) in self.metrics().await?.by("rest_client_requests_total", "method") {
            requests.add(verb(&method), count as u64);
        }
        Ok(requests)
    }
}

/// The processes under test.
pub(super) struct Subject {
    name: String,
    players: Vec<Player>,
}

/// Counters of the processes under test at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// By process.
    pub(super) usage: BTreeMap<String, Usage>,
    /// Of all of them.
    pub(super) requests: Requests,
}

impl Subject {
    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Fails if one of the processes has ended.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.players.iter().try_for_each(|player| player.process.check()).map_err(Error::from)
    }

    /// Waits until the processes answer, where they can be asked.
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
        let one = |player: &Player| {
            let now = player.process.usage().unwrap_or_default();
            let usage = Usage { cpu: player.before + now.cpu, peak: player.peak_before.max(now.peak), ..now };
            (player.process.name().to_owned(), usage)
        };
        self.players.iter().map(one).collect()
    }

    /// Everything that is counted.
    pub(super) async fn sample(&self, cluster: &Cluster) -> Result<Sample, Error> {
        let mut requests = Requests::default();
        if let Some(sandbox) = cluster.sandbox() {
            // The API server has counted them, by resource.
            for (key, count) in sandbox.requests().all() {
                if self.players.iter().any(|player| player.process.name() == key.identity) {
                    requests.add(format!("{} {}", key.verb, key.resource), count);
                }
            }
        } else {
            for player in &self.players {
                requests.merge(&player.requests_before);
                requests.merge(&player.sent().await?);
            }
        }
        Ok(Sample { usage: self.usage(), requests })
    }

    /// Ends all processes in order and starts them again.
    pub(super) async fn restart(&mut self, cluster: &Cluster) -> Result<(), Error> {
        let counted = cluster.sandbox().is_some();
        let mut next = Vec::new();
        for mut player in self.players.drain(..) {
            if !counted {
                player.requests_before.merge(&player.sent().await?);
            }
            let usage = player.process.usage().unwrap_or_default();
            player.before += usage.cpu;
            player.peak_before = player.peak_before.max(usage.peak);
            player.process.terminate()?;
            player.process.ended(TIMEOUT).await?;
            player.process = player.launch.clone().start(cluster.clock())?;
            next.push(player);
        }
        self.players = next;
        self.ready().await
    }

    /// Ends all processes.
    pub(super) async fn stop(self) {
        for player in self.players {
            if let Err(error) = player.process.stop(TIMEOUT).await {
                tracing::warn!(err = %error, "A process did not end in order");
            }
        }
    }
}
