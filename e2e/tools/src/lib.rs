//! The tools of Nonet: programs that try, measure and describe the controllers. None of them is a test.
//!
//! | module | program | content |
//! | --- | --- | --- |
//! | [`playground`] | `playground` | a cluster with an example application, to watch and to try with kubectl |
//! | [`bench`](mod@bench) | `bench` | throughput, processor time, memory and requests of the controllers |
//! | [`generate`], [`mod@reference`] | `generate` | manifests, lists and reference pages that follow from the table of controllers |
//!
//! The clusters, the processes of the controllers and their rights are those of the suites, in the crate [`e2e`].

pub mod bench;
pub mod generate;
pub mod playground;
mod program;
pub mod reference;
mod scrape;

use e2e::{cluster, controllers, nodes, process, rights, sandbox, situations, suite};
