//! What tries out the controllers of this workspace: suites on a chosen cluster, the simulation, the playground and
//! benchmarks. The cluster they run on by default is the [`sandbox`] crate, which knows no controller.

pub mod bench;
pub mod cluster;
mod command_line;
pub mod controllers;
pub mod playground;
pub mod process;
pub mod scrape;
pub mod simulation;
pub mod suite;

pub use sandbox::{self, loops, nodes};
