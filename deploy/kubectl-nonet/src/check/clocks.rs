//! Differences between the clocks of this machine, of the API server and of the leaders.
//!
//! Elections do not compare clocks, but CronJobs, TTLs and certificates depend on them.

use crate::{
    facts::{FactResult, Facts, LeaseReading, TimeReadings},
    finding::{Finding, Findings, Topic},
};

/// Difference between two clocks, in seconds, above which the check warns.
const WARNING_SECONDS: i64 = 5;
/// Difference between two clocks, in seconds, above which the check reports a problem.
const PROBLEM_SECONDS: i64 = 30;
const REMEDY: &str = "synchronize the clocks of all machines; on each: timedatectl";

/// Compares all clocks with the clock of the API server.
pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = Findings::for_topic(Topic::Time);
    match &facts.clocks {
        Err(why) => findings.add_unreadable_fact("the time of the API server", why),
        Ok(TimeReadings { local_time: local, server_time: server }) => {
            judge(&mut findings, "this machine", local.as_second() - server.as_second());
        }
    }
    let leases = facts.leases.iter().map(|lease| (lease.name, &lease.reading));
    for (name, reading) in leases.chain([("kube-controller-manager", &facts.kube_controller_manager.lease)]) {
        if let Some(ahead) = leader_ahead(reading).filter(|ahead| ahead.abs() > WARNING_SECONDS) {
            judge(&mut findings, &format!("the leader of {name}"), ahead);
        }
    }
    findings.into_list()
}

fn judge(findings: &mut Findings, whose: &str, ahead: i64) {
    let direction = if ahead < 0 { "behind" } else { "ahead of" };
    let found = format!("the clock of {whose} is {} s {direction} the API server's", ahead.abs());
    match ahead.abs() {
        0..=WARNING_SECONDS => {
            findings.add_ok(format!("the clock of {whose} and the API server's agree within {WARNING_SECONDS} s"));
        }
        difference if difference <= PROBLEM_SECONDS => findings.add_warning(found, REMEDY),
        _ => findings.add_problem(found, REMEDY),
    }
}

/// Returns the seconds by which a leader's clock is ahead; negative if it is behind. `None` without a renewal between readings.
fn leader_ahead(reading: &FactResult<Option<LeaseReading>>) -> Option<i64> {
    let reading = reading.as_ref().ok()?.as_ref()?;
    let renewed = reading.renew_time()?;
    let before = reading.first_reading?;
    (before.renew_time != Some(renewed)).then(|| {
        // The renewal happened between the two readings. If its time is outside that interval, the leader's clock is wrong.
        let (earliest, latest) = (before.read_at.as_second(), reading.read_at.as_second());
        let renewed = renewed.as_second();
        if renewed < earliest { renewed - earliest } else { (renewed - latest).max(0) }
    })
}
