//! The command line of the simulation.

use std::time::Duration;

use clap::Parser;

use super::safeguard::Safeguard;

/// Runs the controllers against a cluster in memory in virtual time, lets things go wrong, and sees that what must hold
/// holds. Run it in release mode.
#[derive(Clone, Debug, Parser)]
#[command(name = "simulate", max_term_width = 120)]
pub(super) struct Flags {
    /// List scenarios, perturbations and what must hold
    #[arg(long, conflicts_with_all = ["all", "budget"])]
    pub(super) list: bool,
    /// Make every run there is: each scenario with each fault at each write
    #[arg(long, conflicts_with = "budget")]
    pub(super) all: bool,
    /// Make random runs, several faults in each, for that long (10m, 1h30m); the seed is a new one each time, unless
    /// given. Violations that known-violations.txt lists do not count
    #[arg(long, value_name = "TIME", value_parser = common::duration::parse)]
    pub(super) budget: Option<Duration>,
    /// Only this suite or scenario: deployment, deployment/quota
    #[arg(long, value_name = "NAME")]
    pub(super) scenario: Option<String>,
    /// What goes wrong in a single run, as --list shows; with --all, only perturbations that start like this
    #[arg(long, value_name = "FAULTS")]
    pub(super) perturb: Option<String>,
    /// The seed of all randomness [default: 1, with --budget a new one that is printed]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// How many runs are made at once [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    pub(super) threads: Option<usize>,
    /// Take a safeguard away from the suite's own controller, to see what it is for
    #[arg(long, value_name = "SAFEGUARD")]
    pub(super) without: Option<Safeguard>,
    /// Print the writes of a single run also if nothing is wrong with it
    #[arg(long)]
    pub(super) trace: bool,
    /// How many failures are told in full
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(super) failures: usize,
}

/// The seed of runs that are the same each time.
const SEED: u64 = 1;

impl Flags {
    /// The seed to use where runs are to be the same each time.
    pub(super) fn fixed_seed(&self) -> u64 {
        self.seed.unwrap_or(SEED)
    }
}
