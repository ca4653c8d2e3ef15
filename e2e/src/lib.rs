//! End-to-end tests and tools for the controllers: the suites, the playground and the bench.
//!
//! They run on a [`cluster`], which is by default the API server in memory of the crate [`sandbox`]. That crate depends on no
//! controller. The simulation is a separate crate.
//!
//! | module | content |
//! | --- | --- |
//! | [`suite`] | suites: tests of the real binaries on a whole cluster |
//! | [`playground`] | a cluster with an example application, to watch and to try with kubectl |
//! | [`bench`](mod@bench) | throughput, processor time, memory and requests of the controllers |
//! | [`cluster`], [`process`], [`rights`] | the cluster, the processes of the controllers, and their rights |
//! | [`generate`] | manifests, lists and reference pages that are written from the table of controllers |
//! | [`skips`] | records of skipped tests |

pub mod bench;
pub mod cluster;
pub mod controllers;
pub mod generate;
pub mod playground;
pub mod process;
pub mod reference;
pub mod rights;
pub mod scrape;
pub mod situations;
pub mod skips;
pub mod suite;
pub mod tools;

pub use sandbox::{self, loops, nodes};
