//! The command line of the bench.

use std::path::PathBuf;

use clap::Parser;

use super::workloads::Workload;
use crate::cluster::{self, Kind};

/// Measures the controllers of Nonet: Pods per second; processor time, requests and context switches per Pod; memory.
///
/// Prints tables: the figures of each phase and of the whole workload; processor time, memory, bytes received by watches and
/// requests of each controller; the time from an event to the write that answers it; and all requests by verb and resource.
/// Build with --release to get meaningful figures.
///
/// On sandbox and envtest the API server counts the requests, by verb. On other clusters the controllers count them, by HTTP
/// method, which does not distinguish GET, LIST and WATCH. On envtest the table also shows the processor time of kube-apiserver
/// and etcd, which serve the controllers, the simulated nodes and the bench itself.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench", max_term_width = 120)]
pub(super) struct Flags {
    /// Workload to measure
    #[arg(long, value_name = "NAME", default_value = "one-deployment")]
    pub(super) workload: Workload,
    /// Number of Pods, or of namespaces for namespaces and drain [default: 5000 for one-deployment, 1000 for cluster and claims, 200
    /// for namespaces, 50 for drain]
    #[arg(long, visible_alias = "scale", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) pods: Option<u32>,
    /// Number of simulated nodes [default: 10; for cluster and claims one for every 50 Pods, and at least 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) nodes: Option<u32>,
    /// Kind of cluster [default: the value of `NONET_CLUSTER`, or sandbox]
    #[arg(long, value_name = "KIND", value_parser = cluster::kinds())]
    pub(super) cluster: Option<Kind>,
    /// Controllers to run: `all`, `none` (measures the throughput of controllers that run in the cluster), or names separated by
    /// commas [default: all; for namespaces, drain and claims those that the workload needs]
    #[arg(long, value_name = "LIST")]
    pub(super) controllers: Option<String>,
    /// Binary of kube-controller-manager to compare with; it runs the same loops on another cluster of the same kind
    #[arg(long, value_name = "FILE")]
    pub(super) peer: Option<PathBuf>,
    /// Number of runs of Nonet and of the peer, which take turns, each on a new cluster; the table then shows the median, the
    /// minimum and the maximum
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeat: u32,
    /// File for the results of all runs and the figures of the table, as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// File for a chart, as SVG: processor time and memory of Nonet, of the peer and of their API servers during the first run
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// File with the results of an earlier run with the same setup, written by --json; the table then shows the ratio of the
    /// figures of Nonet to those of that run
    #[arg(long, value_name = "FILE")]
    pub(super) compare: Option<PathBuf>,
}
