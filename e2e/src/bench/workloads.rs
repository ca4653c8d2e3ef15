//! What is done while the controllers are measured: one file for each workload.

mod one_deployment;

use futures::future::LocalBoxFuture;

use super::{Error, stage::Stage};

/// A workload.
pub(super) trait Workload: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// One line about it.
    fn about(&self) -> &'static str;
    /// Does it, in phases of the stage.
    fn run<'a>(&'a self, stage: &'a mut Stage<'_>) -> LocalBoxFuture<'a, Result<(), Error>>;
}

/// All workloads.
const ALL: &[&dyn Workload] = &[&one_deployment::OneDeployment];

/// The workload of that name.
pub(super) fn find(name: &str) -> Result<&'static dyn Workload, String> {
    let names = || ALL.iter().map(|w| w.name()).collect::<Vec<_>>().join(", ");
    let found = ALL.iter().copied().find(|w| w.name() == name);
    found.ok_or_else(|| format!("--workload: there is no {name:?}; there are {}", names()))
}

/// The list for the help text.
pub(super) fn help() -> String {
    let lines: Vec<String> = ALL.iter().map(|w| format!("  {:<16} {}", w.name(), w.about())).collect();
    format!("Workloads:\n{}", lines.join("\n"))
}
