//! The bench: throughput and costs of the controllers, on any cluster of [`crate::cluster`].
//!
//! A workload is a sequence of phases. For each phase the bench measures the duration, and the processor time, memory, context
//! switches and requests of the processes under test. If it has started kube-apiserver and etcd, it measures their processor
//! time, too. With `--peer`, the same workload also runs on another cluster of the same kind, with the same loops in
//! kube-controller-manager. With `--repeat`, both run several times in turn.
//!
//! ```text
//!   workloads/*.rs ──► stage ──► phases ──► report: table, JSON, ratios
//!                        │
//!   subject: the controllers as processes, or the peer
//! ```

mod flags;
mod observer;
mod peer;
mod report;
mod requests;
mod served;
mod stage;
mod subject;
mod template;
mod timeline;
mod workloads;

use std::{io, path::Path, process::ExitCode, time::Duration};

use tokio::signal::unix::{SignalKind, signal};

use crate::{
    cluster::{self, Cluster, Kind},
    controllers,
    nodes::Nodes,
    process, suite,
};
use flags::Flags;
use report::{Baseline, Report, Results, Run, Setup};
use stage::Stage;
use subject::{Choice, NONET};
use workloads::Workload;

/// The name of the program in its messages.
const NAME: &str = "bench";
/// The default number of nodes, for workloads without a default of their own.
const NODES: u32 = 10;

/// The reason why there is no result.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// A flag names something that does not exist or cannot be read.
    #[error("{0}")]
    Flags(String),
    /// The cluster cannot be started.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// A process under test has failed.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// A request of the workload was refused.
    #[error(transparent)]
    Refused(#[from] suite::Refused),
    /// No client can be made for the metrics of a process.
    #[error("{0}")]
    Metrics(String),
    /// A condition was not met in time.
    #[error("{0}")]
    TimedOut(String),
    /// A file or a signal caused an error of the operating system.
    #[error("{0}: {1}")]
    Io(String, io::Error),
    /// The user has interrupted the bench.
    #[error("interrupted")]
    Interrupted,
}

/// Runs the bench with the command line of this process.
pub fn main() -> ExitCode {
    let flags: Flags = match command_line::parse(NAME) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            command_line::complain(NAME, &error);
            return ExitCode::FAILURE;
        }
    };
    common::process::logging::install_log(common::process::logging::LogSettings::default());
    let ended = runtime.block_on(until_interrupted(run(&flags)));
    runtime.shutdown_timeout(Duration::from_secs(1));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            command_line::complain(NAME, &error);
            if matches!(error, Error::Flags(_)) { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Runs until the end or until Ctrl-C, which drops the clusters and thereby ends all processes.
async fn until_interrupted(work: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let listen = |kind| signal(kind).map_err(|e| Error::Io("cannot listen for signals".to_owned(), e));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    tokio::select! {
        biased;
        _ = interrupt.recv() => Err(Error::Interrupted),
        _ = terminate.recv() => Err(Error::Interrupted),
        result = work => result,
    }
}

async fn run(flags: &Flags) -> Result<(), Error> {
    let workload = workloads::find(&flags.workload).map_err(Error::Flags)?;
    let chosen = controllers::choose(&flags.controllers).map_err(|e| Error::Flags(format!("--controllers: {e}")))?;
    // Without controllers, those that run in the cluster do the work.
    if let Some(missing) = workload.needs().iter().find(|need| !chosen.iter().any(|d| d.name == **need))
        && !chosen.is_empty()
    {
        return Err(Error::Flags(format!("--controllers: {} needs {missing}", workload.name())));
    }
    let pods = flags.pods.unwrap_or_else(|| workload.pods());
    let nodes = flags.nodes.or_else(|| workload.nodes(pods)).unwrap_or(NODES);
    let kind = flags.cluster.map_or_else(Kind::from_env, |kind| Ok(kind.kind()))?;
    let setup = Setup {
        cluster: kind.name().to_owned(),
        workload: workload.name().to_owned(),
        controllers: chosen.iter().map(|definition| definition.name).collect(),
        pods,
        nodes,
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        optimized: !cfg!(debug_assertions),
    };
    let mut baseline = None;
    if let Some(path) = &flags.compare {
        let read = Baseline::read(path, &setup, NONET).map_err(|why| Error::Flags(format!("--compare: {why}")))?;
        baseline = Some((path.clone(), read));
    }
    let mut choices = vec![Choice::Nonet(chosen.clone())];
    if let Some(path) = &flags.peer {
        if !path.is_file() {
            return Err(Error::Flags(format!("--peer: {} is not a file", path.display())));
        }
        let loops = chosen.iter().flat_map(|d| d.loops).map(|l| l.name).collect();
        choices.push(Choice::Peer { path: path.clone(), loops });
    }
    let mut results: Vec<Results> =
        choices.iter().map(|choice| Results { name: choice.name(), runs: Vec::new() }).collect();
    // In turn, so that a machine that becomes slower affects all subjects alike.
    for _ in 0..flags.repeat {
        for (choice, results) in choices.iter().zip(&mut results) {
            results.runs.push(trial(kind, workload, pods, nodes, choice).await?);
        }
    }
    let report = Report { setup, results, baseline };
    report.print().map_err(|e| Error::Io("cannot write to stdout".to_owned(), e))?;
    if let Some(path) = &flags.json {
        let failed = |e: serde_json::Error| Error::Io("--json".to_owned(), e.into());
        write("--json", path, &(serde_json::to_string_pretty(&report.json()).map_err(failed)? + "\n"))?;
    }
    if let Some(path) = &flags.svg {
        write("--svg", path, &report.svg().map_err(|why| Error::Flags(format!("--svg: {why}")))?)?;
    }
    Ok(())
}

/// Writes the file that a flag names.
fn write(flag: &str, path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|e| Error::Io(format!("{flag}: cannot write {}", path.display()), e))
}

/// Runs the workload once, on a cluster of its own.
async fn trial(kind: Kind, workload: &dyn Workload, pods: u32, nodes: u32, choice: &Choice) -> Result<Run, Error> {
    let builder = || Nodes::builder().count(nodes).zones(workload.zones());
    // The nodes of the sandbox use no sockets, whose costs are not the subject of the measurement.
    let cluster = Cluster::builder().kind(kind).nodes((kind != Kind::Sandbox).then(builder));
    let cluster = cluster.sandbox(|sandbox| sandbox.writes(0)).count_requests().start().await?;
    let own_nodes = match cluster.sandbox() {
        Some(sandbox) => {
            let started = builder().start(sandbox.client("nodes"), cluster.clock().clone());
            started.ready().await;
            Some(started)
        }
        None => None,
    };
    let subject = choice.start(&cluster)?;
    let nodes = own_nodes.as_ref().or_else(|| cluster.nodes());
    let mut stage = Stage::set(&cluster, nodes, subject, pods, workload.is_detailed()).await?;
    let worked = workload.run(&mut stage).await;
    let cleared = stage.clear().await;
    let (subject, run) = stage.end();
    subject.stop().await;
    drop(own_nodes);
    worked.and(cleared)?;
    Ok(run)
}
