//! The bench: throughput and costs of the controllers, on any cluster of [`crate::cluster`].
//!
//! A workload is a sequence of phases. For each phase the bench measures the duration, and the processor time, memory, context
//! switches and requests of the processes under test. If it has started kube-apiserver and etcd, it measures their processor
//! time, too. With `--peer`, the same workload also runs on another cluster of the same kind, with the same loops in
//! kube-controller-manager. With `--repeat`, both run several times in turn.
//!
//! ```text
//!   workloads ──► stage ──► phases ──► report: tables, JSON, ratios
//!                   │
//!   subject: the controllers as processes, or the peer
//!   observer: whether all objects are as specified, and how fast controllers react
//! ```

mod counters;
mod flags;
mod objects;
mod observer;
mod report;
mod stage;
mod subject;
mod timeline;
mod workloads;

use std::{
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum as _;

use crate::{
    cluster::{self, Cluster, Kind},
    controllers,
    nodes::Nodes,
    program::{self, Signals, WrongUsage},
};
use flags::Flags;
use report::{Baseline, Report, Results, Run, Setup};
use stage::Stage;
use subject::{Choice, NONET};
use workloads::Workload;

const NAME: &str = "bench";

/// Runs the bench with the command line of this process.
pub fn main() -> ExitCode {
    let flags: Flags = match command_line::parse(NAME) {
        Ok(flags) => flags,
        Err(code) => return code,
    };
    common::process::logging::install_log(common::process::logging::LogSettings::default());
    program::run(NAME, until_interrupted(run(&flags)))
}

/// Runs until the end or until a signal, which drops the clusters and thereby ends all processes.
async fn until_interrupted(work: impl Future<Output = Result<()>>) -> Result<()> {
    let mut signals = Signals::new()?;
    tokio::select! {
        biased;
        () = signals.next() => bail!("interrupted"),
        result = work => result,
    }
}

async fn run(flags: &Flags) -> Result<()> {
    let workload = flags.workload;
    let name = workload.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let list = flags.controllers.clone().unwrap_or_else(|| workload.controllers());
    let chosen = controllers::choose(&list).map_err(|e| WrongUsage(format!("--controllers: {e}")))?;
    // Without controllers, those that run in the cluster do the work.
    if let Some(missing) = workload.needs().iter().find(|need| !chosen.iter().any(|d| d.name == **need))
        && !chosen.is_empty()
    {
        bail!(WrongUsage(format!("--controllers: {name} needs {missing}")));
    }
    let pods = flags.pods.unwrap_or_else(|| workload.pods());
    let nodes = flags.nodes.unwrap_or_else(|| workload.nodes(pods));
    let kind = flags.cluster.map_or_else(cluster::chosen_kind, Ok)?;
    let setup = Setup {
        cluster: kind.name().to_owned(),
        workload: name,
        controllers: chosen.iter().map(|definition| definition.name).collect(),
        pods,
        nodes,
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        optimized: !cfg!(debug_assertions),
    };
    let mut baseline = None;
    if let Some(path) = &flags.compare {
        let read = Baseline::read(path, &setup, NONET).map_err(|why| WrongUsage(format!("--compare: {why}")))?;
        baseline = Some((path.clone(), read));
    }
    let protects_storage = controllers::protect_storage(&chosen);
    let mut choices = vec![Choice::Nonet(chosen.clone())];
    if let Some(path) = &flags.peer {
        if !path.is_file() {
            bail!(WrongUsage(format!("--peer: {} is not a file", path.display())));
        }
        let loops = chosen.iter().flat_map(|d| d.loops).map(|l| l.name).collect();
        choices.push(Choice::Peer(path.clone(), loops));
    }
    let mut results: Vec<Results> =
        choices.iter().map(|choice| Results { name: choice.name(), runs: Vec::new() }).collect();
    // In turn, so that a machine that becomes slower affects all subjects alike.
    for _ in 0..flags.repeat {
        for (choice, results) in choices.iter().zip(&mut results) {
            results.runs.push(trial(kind, workload, pods, nodes, protects_storage, choice).await?);
        }
    }
    let report = Report { setup, results, baseline };
    io::stdout().write_all(report.table().as_bytes()).context("cannot write to stdout")?;
    if let Some(path) = &flags.json {
        write("--json", path, &(serde_json::to_string_pretty(&report.json())? + "\n"))?;
    }
    if let Some(path) = &flags.svg {
        write("--svg", path, &report.svg().context("--svg")?)?;
    }
    Ok(())
}

/// Writes the file that a flag names.
fn write(flag: &str, path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("{flag}: cannot write {}", path.display()))
}

/// Runs the workload once, on a cluster of its own.
async fn trial(
    kind: Kind,
    workload: Workload,
    pods: u32,
    nodes: u32,
    protects_storage: bool,
    choice: &Choice,
) -> Result<Run> {
    let builder = || Nodes::builder().count(nodes).zones(3);
    // The nodes of the sandbox use no sockets, whose costs are not the subject of the measurement.
    let cluster = Cluster::builder().kind(kind).nodes((kind != Kind::Sandbox).then(builder));
    let cluster = cluster.without_storage_protection(protects_storage);
    let cluster = cluster.sandbox(|sandbox| workload.sandbox(sandbox).writes(0)).count_requests().start().await?;
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
    let mut stage = Stage::set(&cluster, nodes, subject, pods, workload.kinds()).await?;
    let worked = workload.run(&mut stage).await;
    let cleared = stage.clear().await;
    let (subject, run) = stage.end();
    subject.stop().await;
    drop(own_nodes);
    worked.and(cleared)?;
    Ok(run)
}
