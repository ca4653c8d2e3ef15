//! Suites: the scenes of [`testkit::scene`] with the real binaries on a whole cluster.
//!
//! [`run_all`] runs suites, each in a process of its own. A suite starts one cluster ([`crate::cluster`]) and the controllers under test
//! ([`crate::process`]), and runs its scenes in parallel. Its output and its flags are those of `cargo test`.
//!
//! On the sandbox, scenes that also run in virtual time in the crate of their controller are ignored unless they are samples;
//! `--include-ignored` runs them, too. With `NONET_CONTROLLERS=none` a suite starts no controllers, and tests those that already
//! run in the cluster.

mod environment;
pub mod handover;
mod parts;
mod runner;

pub use environment::{OnProcesses, Processes};
pub use parts::run_all;
pub use testkit::scene::*;

/// What the scenes of this crate use, which need processes.
pub mod prelude {
    pub use testkit::scene::prelude::*;

    pub use super::OnProcesses;
    pub use crate::tools;
}

/// The duration of Leases in suites that do not test elections: longer than a busy machine may delay a renewal.
pub const PATIENT_ELECTION: &[&str] = &["--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=50s"];
