//! All suites, one a controller. Another controller is another file and another line here.

mod cronjob;
mod deployment;
mod deployment_invariants;
mod endpointslice;
mod endpointslice_invariants;
mod gc;
mod gc_invariants;
mod job;
mod job_gang;
mod job_history;
mod job_invariants;
mod job_reads;
mod node_lifecycle;
mod node_lifecycle_invariants;
mod replicaset;
mod replicaset_invariants;
mod statefulset;
mod statefulset_invariants;

use super::scenario::{Scenario, Suite};

/// Every suite.
pub const SUITES: &[&Suite] = &[
    &deployment::SUITE,
    &replicaset::SUITE,
    &job::SUITE,
    &job::CAPPED,
    &job::STALE,
    &job::DELETION,
    &job_gang::GANG,
    &cronjob::SUITE,
    &endpointslice::SUITE,
    &statefulset::SUITE,
    &statefulset::MAX_UNAVAILABLE,
    &gc::SUITE,
    &node_lifecycle::SUITE,
];

/// A scenario by the name `<suite>/<scenario>`.
pub fn find(name: &str) -> Option<(&'static Suite, Scenario)> {
    let (suite, scenario) = name.split_once('/')?;
    let suite = SUITES.iter().copied().find(|s| s.name == suite)?;
    let scenario = (suite.scenarios)().into_iter().find(|s| s.name == scenario)?;
    Some((suite, scenario))
}
