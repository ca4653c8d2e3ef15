//! Differences between the clocks of this machine, of the API server and of the leaders.
//!
//! Elections do not compare clocks, but CronJobs, TTLs and certificates depend on them.

use crate::{
    facts::{Facts, LeaseReading, Read, Times},
    finding::{Finding, Findings, Topic},
};

/// Difference between two clocks, in seconds, above which the check warns.
const NOTABLE: i64 = 5;
/// Difference between two clocks, in seconds, above which the check reports a problem.
const SEVERE: i64 = 30;
const REMEDY: &str = "synchronize the clocks of all machines; on each: timedatectl";

/// Compares all clocks with the clock of the API server.
pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = Findings::of(Topic::Time);
    match &facts.clocks {
        Err(why) => findings.unreadable("the time of the API server", why),
        Ok(Times { local, server }) => judge(&mut findings, "this machine", local.as_second() - server.as_second()),
    }
    let leases = facts.leases.iter().map(|lease| (lease.name, &lease.reading));
    for (name, reading) in leases.chain([("kube-controller-manager", &facts.manager.lease)]) {
        if let Some(ahead) = leader_ahead(reading).filter(|ahead| ahead.abs() > NOTABLE) {
            judge(&mut findings, &format!("the leader of {name}"), ahead);
        }
    }
    findings.into_list()
}

fn judge(findings: &mut Findings, whose: &str, ahead: i64) {
    let direction = if ahead < 0 { "behind" } else { "ahead of" };
    let found = format!("the clock of {whose} is {} s {direction} the API server's", ahead.abs());
    match ahead.abs() {
        0..=NOTABLE => findings.ok(format!("the clock of {whose} and the API server's agree within {NOTABLE} s")),
        difference if difference <= SEVERE => findings.warning(found, REMEDY),
        _ => findings.problem(found, REMEDY),
    }
}

/// Returns the seconds that a leader's clock is ahead. `None` without a renewal between the two readings of the Lease.
fn leader_ahead(reading: &Read<Option<LeaseReading>>) -> Option<i64> {
    let reading = reading.as_ref().ok()?.as_ref()?;
    let renewed = reading.renewed()?;
    let before = reading.before?;
    (before.renewed != Some(renewed)).then(|| {
        // The renewal happened between the two readings. If its time is outside that interval, the leader's clock is wrong.
        let (earliest, latest) = (before.at.as_second(), reading.at.as_second());
        let renewed = renewed.as_second();
        if renewed < earliest { renewed - earliest } else { (renewed - latest).max(0) }
    })
}
