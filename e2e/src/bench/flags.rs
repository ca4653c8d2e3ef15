//! The bench's command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use super::workloads;
use crate::cluster::Kind;

/// The clusters, as the flag names them.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ClusterFlag {
    /// The API server in memory
    Sandbox,
    /// etcd and kube-apiserver from the directory in `KUBEBUILDER_ASSETS`
    Envtest,
    /// The cluster of your kubeconfig, whose built-in controllers are off
    Kubeconfig,
}

impl ClusterFlag {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Sandbox => Kind::Sandbox,
            Self::Envtest => Kind::Envtest,
            Self::Kubeconfig => Kind::Kubeconfig,
        }
    }
}

/// Measures Nonet's controllers: Pods a second, processor time and requests per Pod, memory. Prints a table, and JSON where
/// asked for. Run it in release mode.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench", max_term_width = 120, after_help = workloads::help())]
pub(super) struct Flags {
    /// What is done, listed below
    #[arg(long, value_name = "NAME", default_value = "one-deployment")]
    pub(super) workload: String,
    /// How many Pods it is done with [default: what is said of it below]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) pods: Option<u32>,
    /// How many nodes there are, where they are the bench's own [default: 10; for
    /// DaemonSets, nodes-rest and zone-lost what follows from the Pods]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) nodes: Option<u32>,
    /// The cluster to run on [default: what `NONET_CLUSTER` says, or sandbox]
    #[arg(long, value_name = "KIND")]
    pub(super) cluster: Option<ClusterFlag>,
    /// Controllers to run: `all`, `none` (those of the cluster are measured by what they get done), or names separated by commas
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(super) controllers: String,
    /// A kube-controller-manager that does the same afterwards, with the same loops on the same kind of cluster
    #[arg(long, value_name = "FILE")]
    pub(super) peer: Option<PathBuf>,
    /// Where to write everything as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}
