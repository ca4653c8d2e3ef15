//! Checks the leader elections: leaders, holds (no process may lead), and probations (first time of a version as leader).

use common::process::leader::probation::{
    FAILED_VERSIONS_ANNOTATION, PROBATION_ANNOTATION, REQUESTING_STANDBY_ANNOTATION, VERSION_ANNOTATION,
};

use super::{
    PlannedOperation, age, election::LeaderElectionState, installation::Installation, span, status_of_unmet_requirement,
};
use crate::{
    facts::{FactError, Facts},
    finding::{Finding, FindingStatus, Findings, Topic},
};

/// Remaining time of a hold, in seconds, below which the check warns.
const HOLD_ENDS_SOON: i64 = 3 * 86_400;

/// Returns the findings about each election. Leases that cannot be read for the same reason share a finding.
pub(super) fn check(facts: &Facts, installations: &[Installation<'_>], stage: PlannedOperation) -> Vec<Finding> {
    let mut findings = Findings::for_topic(Topic::Leases);
    let mut unreadable: Vec<(&FactError, Vec<&str>)> = Vec::new();
    for installation in installations {
        if let LeaderElectionState::Unreadable(why) = installation.election {
            match unreadable.iter_mut().find(|(known, _)| *known == why) {
                Some((_, controllers)) => controllers.push(installation.controller.name),
                None => unreadable.push((why, vec![installation.controller.name])),
            }
        }
        election(&mut findings, facts, installation, stage);
        if installation.is_installed() {
            probation(&mut findings, installation, stage);
        }
    }
    for (why, controllers) in unreadable {
        findings.add_unreadable_fact(&format!("which process leads {}", controllers.join(", ")), why);
    }
    findings.into_list()
}

fn election(findings: &mut Findings, facts: &Facts, installation: &Installation<'_>, stage: PlannedOperation) {
    let now = installation.lease_reading().map(|reading| reading.read_at).unwrap_or_default();
    let (controller, place) = (installation.controller.name, installation.namespace);
    let exists = installation.is_installed();
    let hold = installation.hold();
    let look = format!("kubectl -n {place} get pods -l app.kubernetes.io/name={controller}");
    let no_leader = |findings: &mut Findings, found: String| match stage {
        PlannedOperation::Removal => findings.add_ok(found),
        PlannedOperation::HandOver if exists => {
            findings.add_problem(format!("{found}, and candidates may take it before the hand-over"), &hold);
        }
        _ if !exists => findings.add_info(found),
        PlannedOperation::Upgrade => findings.add_problem(found, &look),
        PlannedOperation::NoOperation | PlannedOperation::HandOver => findings.add_warning(found, &look),
    };
    match installation.election {
        LeaderElectionState::HeldForHandOver { since, ends, has_been_led } => {
            let since = since.map(|since| format!(", for {}", age(since, now))).unwrap_or_default();
            let what = if has_been_led { "held after a process has led" } else { "held, and never led" };
            let found = format!("{controller}: {what}{since}; there is no leader");
            match stage {
                PlannedOperation::HandOver | PlannedOperation::Removal => findings.add_ok(found),
                PlannedOperation::Upgrade if exists => {
                    findings.add_problem(found, format!("end the hand-over first: {}", installation.release()));
                }
                _ if !exists => findings.add_info(format!("{found}, and it is not installed")),
                _ => findings.add(
                    FindingStatus::Info,
                    found,
                    format!("once kube-controller-manager no longer runs these loops: {}", installation.release()),
                ),
            }
            if let Some(left) =
                ends.map(|ends| ends.as_second() - now.as_second()).filter(|left| *left < HOLD_ENDS_SOON)
            {
                let found = format!(
                    "{controller}: programs other than Nonet may take the Lease from the hold {}",
                    if left > 0 { format!("in {}", span(left)) } else { "now".to_owned() }
                );
                findings.add_warning(found, format!("end the hand-over, or renew the hold: {hold}"));
            }
        }
        LeaderElectionState::Led { holder, since, renewal_age_seconds: renewed, is_stalled: stalled } => {
            let since = since.map(|since| format!(" for {}", age(since, now))).unwrap_or_default();
            let found = format!("{controller}: {holder} has led{since}; it renewed its Lease {} ago", span(renewed));
            if stage == PlannedOperation::HandOver && exists {
                findings.add_problem(format!("{found}, and the Lease is not held for the hand-over"), &hold);
            } else if stage == PlannedOperation::Removal {
                findings.add_problem(format!("{found}, and Nonet must not lead when it is removed"), &hold);
            } else if stalled {
                let found = format!(
                    "{controller}: {holder} has led{since}, and has not renewed its Lease for {}",
                    span(renewed)
                );
                findings.add(
                    status_of_unmet_requirement(stage, PlannedOperation::Upgrade, FindingStatus::Warning),
                    found,
                    format!("{look}; if that process is gone: {hold} && {}", installation.release()),
                );
            } else {
                findings.add_ok(found);
            }
            if facts.pods.is_ok() && !installation.has_pod_with_identity(holder) {
                let found = format!("{controller}: the leader {holder} is not one of the Pods in {place}");
                findings.add_warning(found, format!("find the process that holds the Lease; {look}"));
            }
        }
        LeaderElectionState::Expired { holder, renewal_age_seconds: renewed } => {
            let ago = match renewed {
                i64::MAX => "has never renewed it".to_owned(),
                ..0 => format!("says that it renewed it {} in the future", span(-renewed)),
                _ => format!("renewed it {} ago", span(renewed)),
            };
            let found = format!("{controller}: the Lease has expired; {holder} {ago}");
            no_leader(findings, found);
        }
        LeaderElectionState::NoHolder => {
            no_leader(findings, format!("{controller}: the Lease is free; there is no leader"));
        }
        LeaderElectionState::Absent if exists => {
            let found =
                format!("{controller}: there is no Lease yet; a running process creates it held after ten seconds");
            match stage {
                PlannedOperation::Removal => findings.add_ok(found),
                PlannedOperation::HandOver | PlannedOperation::Upgrade => findings.add_problem(found, &look),
                PlannedOperation::NoOperation => findings.add_warning(found, &look),
            }
        }
        // `check` reports unreadable Leases. A controller that is not installed needs no Lease.
        LeaderElectionState::Unreadable(_) | LeaderElectionState::Absent => {}
    }
}

fn probation(findings: &mut Findings, installation: &Installation<'_>, stage: PlannedOperation) {
    let (controller, place) = (installation.controller.name, installation.namespace);
    let version = installation.lease_annotation(VERSION_ANNOTATION).unwrap_or("of unknown version");
    if installation.election.has_leader()
        && let Some(time) = installation.lease_annotation(PROBATION_ANNOTATION)
    {
        let found = format!("{controller}: the leader, {version}, is on probation for {time}");
        let remedy = format!("wait until it has passed: kubectl -n {place} get lease {controller} -o yaml");
        findings.add(status_of_unmet_requirement(stage, PlannedOperation::Upgrade, FindingStatus::Info), found, remedy);
    }
    if let Some(failed) = installation.lease_annotation(FAILED_VERSIONS_ANNOTATION) {
        let images = installation.pod_specs().flat_map(|spec| &spec.containers).filter_map(|c| c.image.as_deref());
        let tags: Vec<&str> = images.filter_map(super::versions::image_tag).collect();
        let wanted = failed.split(',').map(str::trim).find(|version| {
            let number = version.split('+').next().unwrap_or(version);
            tags.iter().any(|tag| tag.trim_start_matches('v') == number)
        });
        let again = format!("kubectl -n {place} annotate lease {controller} nonet/failed-");
        if let Some(wanted) = wanted.filter(|wanted| *wanted != version) {
            let found = format!("{controller}: {wanted}, the version of its image, has failed on probation");
            let remedy = format!("{}; to let it try again: {again}", installation.roll_back());
            findings.add(
                status_of_unmet_requirement(stage, PlannedOperation::Upgrade, FindingStatus::Warning),
                found,
                remedy,
            );
        } else {
            findings.add(
                FindingStatus::Info,
                format!("{controller}: versions that failed on probation: {failed}"),
                format!("to let them try again: {again}"),
            );
        }
    }
    if let Some(asks) =
        installation.lease_annotation(REQUESTING_STANDBY_ANNOTATION).filter(|_| installation.election.has_leader())
    {
        findings.add_info(format!("{controller}: a standby asks for the Lease: {asks}"));
    }
}
