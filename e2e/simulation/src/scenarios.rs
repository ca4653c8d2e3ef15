//! All suites, one a controller. Another controller is another file and another line here.

mod availability;
mod clusterrole;
mod clusterrole_invariants;
mod cronjob;
mod cronjob_invariants;
mod daemonset;
mod daemonset_invariants;
mod daemonset_view;
mod deployment;
mod deployment_invariants;
mod disruption;
mod disruption_invariants;
mod endpointslice;
mod endpointslice_invariants;
mod gc;
mod gc_invariants;
mod interferences;
mod job;
mod job_gang;
mod job_history;
mod job_invariants;
mod job_reads;
mod namespace;
mod namespace_invariants;
mod neighbour;
mod node_health;
mod node_health_invariants;
mod node_lifecycle;
mod node_lifecycle_invariants;
mod node_zones;
mod replicaset;
mod replicaset_invariants;
mod resourcequota;
mod resourcequota_invariants;
mod rules;
mod serviceaccount;
mod serviceaccount_invariants;
mod statefulset;
mod statefulset_deletion;
mod statefulset_invariants;
mod volume;
mod volume_invariants;

use std::{collections::BTreeMap, sync::LazyLock, time::Duration};

use common::{app::ProgramDefinition, clock::Clock, settings::TunableValue};
use jiff::Timestamp;
use node_lifecycle_controller::monitor::NODE_LIFECYCLE_LOOP;
use sandbox::{
    Sandbox,
    nodes::{self, Nodes},
};

pub(super) use job_history::pods_ended_untracked;

use super::{
    notation::{Notation, Unreadable},
    scenario::{Scenario, Suite},
};

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
    &cronjob::SERIES,
    &cronjob::DOWNTIME,
    &cronjob::SPRING,
    &cronjob::AUTUMN,
    &endpointslice::SUITE,
    &endpointslice::DUAL_STACK,
    &statefulset::SUITE,
    &statefulset::MAX_UNAVAILABLE,
    &statefulset_deletion::SUITE,
    &daemonset::SUITE,
    &daemonset::STALE,
    &gc::SUITE,
    &clusterrole::SUITE,
    &serviceaccount::SUITE,
    &namespace::SUITE,
    &disruption::SUITE,
    &resourcequota::SUITE,
    &volume::SUITE,
    &node_lifecycle::SUITE,
    &node_health::SUITE,
    &node_zones::SUITE,
    &node_zones::LARGE,
    &node_zones::CAPPED,
    &neighbour::SUITE,
];

static SCENARIOS: LazyLock<BTreeMap<&str, Result<Vec<Scenario>, Unreadable>>> =
    LazyLock::new(|| SUITES.iter().map(|suite| (suite.name, read(suite))).collect());

fn read(suite: &Suite) -> Result<Vec<Scenario>, Unreadable> {
    Notation::read(suite.text)?.scenarios(suite.name)
}

/// The scenarios of a suite.
///
/// # Errors
/// Its text cannot be read.
pub fn of(suite: &Suite) -> Result<&'static [Scenario], Unreadable> {
    match SCENARIOS.get(suite.name) {
        Some(Ok(scenarios)) => Ok(scenarios),
        Some(Err(why)) => Err(why.clone()),
        None => Ok(&[]),
    }
}

/// A scenario by the name `<suite>/<scenario>`.
pub fn find(name: &str) -> Option<(&'static Suite, &'static Scenario)> {
    let (suite, scenario) = name.split_once('/')?;
    let suite = SUITES.iter().copied().find(|s| s.name == suite)?;
    let scenario = of(suite).ok()?.iter().find(|s| s.name == scenario)?;
    Some((suite, scenario))
}

/// When runs of a suite begin: on a Saturday morning and a fraction of a second, unless clocks are about to change.
pub(super) fn start(suite: &Suite) -> Timestamp {
    let milliseconds = match suite.name {
        "cronjob-spring" => cronjob::SPRING_START,
        "cronjob-autumn" => cronjob::AUTUMN_START,
        _ => 1_795_254_447_200,
    };
    Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

pub(super) fn judges_nodes(suite: &Suite) -> bool {
    suite.programs.iter().flat_map(|program| program.loops).any(|each| each.name == NODE_LIFECYCLE_LOOP.name)
}

/// The API server of a suite, without controllers of its own where one of the programs replaces them.
pub(super) fn server(suite: &Suite, clock: &Clock) -> sandbox::Builder {
    let builder = Sandbox::builder().clock(clock.clone());
    // The API server has the gates as the controllers do.
    let builder = suite.gates.iter().fold(builder, |builder, (name, on)| builder.gate(*name, *on));
    let runs = |definition: &ProgramDefinition| suite.programs.iter().any(|program| program.name == definition.name);
    let builder =
        if runs(&namespace_controller::DEFINITION) { builder.without_namespace_controller() } else { builder };
    if runs(&resourcequota_controller::DEFINITION) { builder.without_quota_controller() } else { builder }
}

/// The nodes of a suite. They are quiet when nothing happens, except where somebody judges them by their heartbeats.
pub(super) fn nodes(suite: &Suite) -> nodes::Builder {
    let has_two_zones =
        [&node_zones::SUITE, &node_zones::LARGE, &node_zones::CAPPED].iter().any(|s| s.name == suite.name);
    let (count, zones) = if has_two_zones { (7, 2) } else { (3, 3) };
    let heartbeat = judges_nodes(suite).then_some(Duration::from_secs(10));
    let both_families = suite.name == endpointslice::DUAL_STACK.name;
    Nodes::builder().count(count).zones(zones).heartbeat(heartbeat).dual_stack(both_families)
}

/// The time without a write in which a run ends. It is longer than the longest back-off of a key (1000 s), and than
/// the period of every loop that [`acts_hourly`] does not name.
const REST: Duration = Duration::from_mins(20);
/// The same for suites with a loop that may write once an hour.
const LONG_REST: Duration = Duration::from_hours(1);

/// How long a run of a suite has to rest without a write at its end.
pub(super) fn rest(suite: &Suite) -> Duration {
    let has_long_periods = suite.programs.iter().any(|program| acts_hourly(program.name))
        || suite.tunes.iter().any(|(_, value)| matches!(value, TunableValue::Duration(period) if *period >= REST));
    if has_long_periods { LONG_REST } else { REST }
}

/// Whether a program has a loop that may write with a period of up to an hour: cronjob-controller follows schedules, and
/// statefulset-controller repeats an Event about a mismatch after an hour.
fn acts_hourly(program: &str) -> bool {
    [cronjob_controller::DEFINITION.name, statefulset_controller::DEFINITION.name].contains(&program)
}

/// Whether the end of a run depends on what the clocks of controllers show in between, so that one that is wrong by hours
/// rightly leads to another end.
pub(super) fn follows_clocks(suite: &Suite) -> bool {
    ["cronjob-series", "cronjob-downtime", "cronjob-spring", "cronjob-autumn"].contains(&suite.name)
}

/// Whether hostile neighbours are planned for a suite. They can be asked for in any other one.
pub(super) fn has_neighbours(suite: &Suite) -> bool {
    suite.name == neighbour::SUITE.name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_has_scenarios_that_can_be_read() {
        for suite in SUITES {
            let name = suite.name;
            assert!(of(suite).is_ok(), "the text of the suite {name} cannot be read: {:?}", of(suite).err());
            let is_empty = of(suite).is_ok_and(<[Scenario]>::is_empty);
            assert!(!is_empty, "the text of the suite {name} has no scenario after a line `suite {name}`");
        }
    }
}
