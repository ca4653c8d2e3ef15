//! Judges facts: no I/O, no clock.

mod certificates;
mod clocks;
mod election;
mod installation;
mod installed;
mod leases;
mod loops;
mod pods;
mod rights;
#[cfg(test)]
mod tests;
mod versions;

use clap::ValueEnum;
use jiff::Timestamp;

use crate::{
    facts::Facts,
    finding::{Finding, Status},
};

pub(crate) use election::needs_second_reading;

/// The operation that the check is made for.
///
/// The comments of the variants are the help of `--before`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Stage {
    /// None: the cluster is judged as it runs.
    #[default]
    #[value(skip)]
    Running,
    /// Replicas ready, Leases held, the built-in loops still at work, kubeadm-config prepared
    HandOver,
    /// Leaders at work, no hold, no probation or rollout on, a standby for each controller
    Upgrade,
    /// The built-in loops at work again, nobody of Nonet leads
    Removal,
}

/// Judges facts. Findings of one topic stand together.
pub fn check(facts: &Facts, stage: Stage) -> Vec<Finding> {
    let installations = installation::all(facts);
    let mut findings = Vec::new();
    findings.extend(installed::check(facts, &installations, stage));
    findings.extend(pods::check(facts));
    findings.extend(leases::check(facts, &installations, stage));
    findings.extend(loops::check(facts, &installations, stage));
    findings.extend(rights::check(facts, &installations));
    findings.extend(versions::check(facts, &installations, stage));
    findings.extend(clocks::check(facts));
    findings.extend(certificates::check(facts, &installations));
    findings
}

/// The status of something that an operation needs, and that is otherwise of the status given.
fn needed(stage: Stage, by: Stage, otherwise: Status) -> Status {
    if stage == by { Status::Problem } else { otherwise }
}

/// How long ago a time was, in words: `3 d`, `5 h`, `7 min`, `12 s`.
fn age(since: Timestamp, now: Timestamp) -> String {
    span(now.as_second() - since.as_second())
}

/// A number of seconds in words.
fn span(seconds: i64) -> String {
    match seconds {
        172_800.. => format!("{} d", seconds / 86_400),
        7_200.. => format!("{} h", seconds / 3_600),
        120.. => format!("{} min", seconds / 60),
        _ => format!("{} s", seconds.max(0)),
    }
}

/// A number with its noun, whose plural ends in `s`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
