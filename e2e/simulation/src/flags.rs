//! The command line of the simulation.

use std::time::Duration;

use clap::Parser;

use super::safeguard::Safeguard;

/// Runs the controllers on a cluster in memory in virtual time, injects faults, and checks the oracles. Run it in release
/// mode.
#[derive(Clone, Debug, Parser)]
#[command(name = "simulate", max_term_width = 120)]
pub(super) struct Flags {
    /// List the scenarios, the perturbations and the oracles
    #[arg(long, conflicts_with_all = ["all", "budget"])]
    pub(super) list: bool,
    /// Make all planned runs: each scenario with each fault at each write
    #[arg(long, conflicts_with = "budget")]
    pub(super) all: bool,
    /// Make random runs with several faults each, for this time (10m, 1h30m); without --seed, each start uses a new seed.
    /// Violations that known-violations.txt lists are not counted
    #[arg(long, value_name = "TIME", value_parser = common::duration::parse)]
    pub(super) budget: Option<Duration>,
    /// Suite or scenario to run, for example deployment or deployment/quota [default: all]
    #[arg(long, value_name = "NAME")]
    pub(super) scenario: Option<String>,
    /// Perturbation of a single run, in the form that --list shows; with --all, the beginning of the perturbations to run
    #[arg(long, value_name = "FAULTS")]
    pub(super) perturb: Option<String>,
    /// Seed of all randomness [default: 1; with --budget a new one, which is printed]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Number of concurrent runs [default: the number of processors]
    #[arg(long, value_name = "N")]
    pub(super) threads: Option<usize>,
    /// Switch off a safeguard of the suite's own controller, to see the violations that it prevents
    #[arg(long, value_name = "SAFEGUARD")]
    pub(super) without: Option<Safeguard>,
    /// Print the writes of a single run even if there is no violation
    #[arg(long)]
    pub(super) trace: bool,
    /// Number of violations that are reported with all details
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(super) failures: usize,
}

const SEED: u64 = 1;

impl Flags {
    pub(super) fn fixed_seed(&self) -> u64 {
        self.seed.unwrap_or(SEED)
    }
}
