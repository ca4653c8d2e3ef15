//! What tries out the controllers of this workspace: suites on a chosen cluster, the playground and benchmarks.
//! The cluster they run on by default is the [`sandbox`] crate, which knows no controller; the simulation is a crate of its own.

pub mod bench;
pub mod cluster;
pub mod controllers;
pub mod playground;
pub mod process;
pub mod reference;
pub mod rights;
pub mod scrape;
pub mod skips;
pub mod suite;
pub mod tools;

pub use sandbox::{self, loops, nodes};
