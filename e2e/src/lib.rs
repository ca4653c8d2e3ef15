//! End-to-end tests of the controllers: the suites, and what they share with the tools.
//!
//! They run on a [`cluster`], which is by default the API server in memory of the crate [`sandbox`]. That crate depends on no
//! controller. The simulation and the tools are separate crates.
//!
//! | module | content |
//! | --- | --- |
//! | [`suite`] | suites: scenes with the real binaries on a whole cluster |
//! | [`cluster`], [`process`], [`rights`] | the cluster, the processes of the controllers, and their rights |
//! | [`skips`] | records of skipped tests |

pub mod cluster;
pub mod controllers;
pub mod process;
pub mod situations;
pub mod skips;
pub mod suite;
pub mod tools;

pub use sandbox::{self, loops, nodes};
pub use testkit::rights;
