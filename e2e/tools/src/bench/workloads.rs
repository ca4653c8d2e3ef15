//! The workloads under which the controllers are measured, one file for each subject. `cluster` has every kind of workload.

mod cluster;
mod nodes;
mod one_deployment;
mod services;

use futures::future::LocalBoxFuture;

use super::{Error, stage::Stage};

/// A workload.
pub(super) trait Workload: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// One line about it.
    fn about(&self) -> &'static str;
    /// The default number of Pods.
    fn pods(&self) -> u32;
    /// The default number of nodes for a number of Pods, if the workload depends on it.
    fn nodes(&self, _pods: u32) -> Option<u32> {
        None
    }
    /// The number of zones.
    fn zones(&self) -> u32 {
        3
    }
    /// Whether each controller is measured separately: its requests, received bytes and reaction times.
    fn is_detailed(&self) -> bool {
        false
    }
    /// The controllers without which it cannot complete.
    fn needs(&self) -> &'static [&'static str];
    /// Runs it, in phases of the stage.
    fn run<'a>(&'a self, stage: &'a mut Stage<'_>) -> LocalBoxFuture<'a, Result<(), Error>>;
}

/// All workloads.
const ALL: &[&dyn Workload] = &[
    &one_deployment::OneDeployment,
    &services::MANY,
    &services::Rollout,
    &services::Changes,
    &nodes::Rest,
    &nodes::ZoneLost,
    &cluster::Cluster,
];

/// The workload with this name.
pub(super) fn find(name: &str) -> Result<&'static dyn Workload, String> {
    let names = || ALL.iter().map(|w| w.name()).collect::<Vec<_>>().join(", ");
    let found = ALL.iter().copied().find(|w| w.name() == name);
    found.ok_or_else(|| format!("--workload: there is no {name:?}; there are {}", names()))
}

/// The list for the help text.
pub(super) fn help() -> String {
    let lines: Vec<String> =
        ALL.iter().map(|w| format!("  {:<16} {} [{} Pods]", w.name(), w.about(), w.pods())).collect();
    format!("Workloads:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_found_by_name_and_need_what_there_is() {
        for workload in ALL {
            assert_eq!(find(workload.name()).map(Workload::name), Ok(workload.name()));
            assert!(help().contains(workload.name()));
            assert_eq!(crate::controllers::choose(&workload.needs().join(",")).unwrap().len(), workload.needs().len());
        }
        assert!(find("nodes").is_err_and(|why| why.contains("nodes-rest, zone-lost")));
    }
}
