//! Derives findings from the facts about a cluster. Pure: without I/O and clocks.

mod certificates;
mod clocks;
mod election;
mod installation;
mod installed;
mod leases;
mod loops;
mod pods;
pub(crate) mod release;
mod rights;
pub mod status;
pub(crate) mod switch;
#[cfg(test)]
mod tests;
mod versions;

use clap::ValueEnum;
use jiff::Timestamp;

use crate::{
    facts::Facts,
    finding::{Finding, FindingStatus, Topic},
};

pub(crate) use election::{needs_second_reading, pause_before_second_reading};
use installation::Installation;

/// The operation that the check prepares.
///
/// The help of `--before` shows the comments of the variants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PlannedOperation {
    /// No operation is planned, so the check reports on the running cluster.
    #[default]
    #[value(skip)]
    NoOperation,
    /// Replicas are ready, Leases are held, the built-in loops still run, kubeadm-config is prepared
    HandOver,
    /// Every controller has a leader and a standby, and no hold, probation or rollout
    Upgrade,
    /// The built-in loops run again, and no replica of Nonet leads
    Removal,
}

/// Returns all findings, grouped by topic. An unmet requirement of the operation `stage` is a problem.
pub fn check(facts: &Facts, stage: PlannedOperation) -> Vec<Finding> {
    let mut findings = check_installations(facts, &installation::all_installations(facts), stage);
    // Behind the other findings about loops.
    let end =
        findings.iter().rposition(|finding| finding.topic == Topic::Loops).map_or(findings.len(), |last| last + 1);
    findings.splice(end..end, loops::remaining::check(&facts.kube_controller_manager));
    findings
}

/// Returns the findings of [`check()`] about the named controllers and about the cluster.
pub(crate) fn check_controllers(facts: &Facts, stage: PlannedOperation, names: &[&str]) -> Vec<Finding> {
    let facts = facts.of_controllers(names);
    let mut installations = installation::all_installations(&facts);
    installations.retain(|installation| names.contains(&installation.controller.name));
    check_installations(&facts, &installations, stage)
}

fn check_installations(facts: &Facts, installations: &[Installation<'_>], stage: PlannedOperation) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(installed::check(facts, installations, stage));
    findings.extend(pods::check(facts, installations));
    findings.extend(leases::check(facts, installations, stage));
    findings.extend(loops::check(facts, installations, stage));
    findings.extend(rights::check(facts, installations));
    findings.extend(versions::check(facts, installations, stage));
    findings.extend(clocks::check(facts));
    findings.extend(certificates::check(facts, installations));
    findings
}

/// Returns [`FindingStatus::Problem`] if `stage` is `by`, the operation that needs the unmet requirement, otherwise `otherwise`.
fn status_of_unmet_requirement(
    stage: PlannedOperation,
    by: PlannedOperation,
    otherwise: FindingStatus,
) -> FindingStatus {
    if stage == by { FindingStatus::Problem } else { otherwise }
}

/// Formats the time from `since` to `now`: `3 d`, `5 h`, `7 min`, `12 s`.
fn age(since: Timestamp, now: Timestamp) -> String {
    span(now.as_second() - since.as_second())
}

/// Formats a number of seconds: `3 d`, `5 h`, `7 min`, `12 s`.
fn span(seconds: i64) -> String {
    match seconds {
        172_800.. => format!("{} d", seconds / 86_400),
        7_200.. => format!("{} h", seconds / 3_600),
        120.. => format!("{} min", seconds / 60),
        _ => format!("{} s", seconds.max(0)),
    }
}

/// Formats a number with a noun, and adds `s` to the noun for the plural: `1 Pod`, `2 Pods`.
pub(crate) fn format_count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
