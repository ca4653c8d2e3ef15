//! Compares the loops that kube-controller-manager and Nonet run: each loop must have exactly one writer.

mod built_in;

use std::collections::BTreeMap;

use common::{leader::SECOND_WRITER_EXPECTED_UNTIL_ANNOTATION, second_writer};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use super::{
    PlannedOperation,
    election::LeaderElectionState,
    installation::{Installation, object_name, object_namespace},
};
use crate::{
    facts::{Facts, to_one_line},
    finding::{Finding, Findings, Topic},
    manager_flags,
};
use built_in::{BuiltInLoopState, KubeControllerManagers};

/// Seconds that a leader needs to find a second writer, which is another manager that runs a loop of the leader.
const SECOND_WRITER_DETECTION_SECONDS: i64 = 600;

/// The processes that run a loop. Loops with the same verdict share one finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// Nonet and these Pods of kube-controller-manager both run the loop.
    Both(Vec<String>),
    /// Nonet runs the loop. These Pods of kube-controller-manager would run it, too, if one of them became the leader.
    BothSoon(Vec<String>),
    /// No process runs the loop; the Lease of Nonet is held for a hand-over.
    NoWriterHeldForHandOver,
    /// No process runs the loop, although Nonet is installed.
    NoWriterWithoutLeader,
    /// No process runs the loop, and Nonet is not installed.
    NoWriterNotInstalled,
    /// No process runs the loop, because no kube-controller-manager leads.
    NoWriterWithoutManager,
    /// The operation requires that kube-controller-manager runs the loop, and kube-controller-manager does not.
    ManagerRequired,
    /// Only Nonet runs the loop.
    Nonet,
    /// Nonet runs the loop; it is unknown whether kube-controller-manager does, too.
    NonetAtLeast,
    /// kube-controller-manager runs the loop, and Nonet stands by.
    ManagerBesideNonet,
    /// kube-controller-manager runs the loop, and Nonet is not installed.
    Manager,
    /// The facts do not show which process runs the loop.
    Unknown,
}

/// Checks every loop, kubeadm-config and the Events about second writers.
pub(super) fn check(facts: &Facts, installations: &[Installation<'_>], stage: PlannedOperation) -> Vec<Finding> {
    let mut findings = Findings::for_topic(Topic::Loops);
    let built_in = KubeControllerManagers::from_facts(&facts.kube_controller_manager);
    built_in.add_findings(&mut findings);
    let mut verdicts: BTreeMap<Verdict, Vec<(&str, &Installation<'_>)>> = BTreeMap::new();
    for installation in installations {
        for name in installation.controller.loops {
            let verdict = verdict(&built_in.loop_state(name), installation, stage);
            verdicts.entry(verdict).or_default().push((name, installation));
        }
    }
    for (verdict, loops) in verdicts {
        report(&mut findings, &verdict, &loops, stage);
    }
    kubeadm(&mut findings, facts, installations, stage);
    second_writers(&mut findings, facts, installations);
    findings.into_list()
}

/// Combines the state of a built-in loop with the election of the controller that replaces it.
fn verdict(state: &BuiltInLoopState, installation: &Installation<'_>, stage: PlannedOperation) -> Verdict {
    let leads = installation.election.has_leader();
    let unknown = matches!(installation.election, LeaderElectionState::Unreadable(_));
    let concerned = installation.is_installed() || installation.election.is_held_for_hand_over();
    let manager_needed = concerned && matches!(stage, PlannedOperation::HandOver | PlannedOperation::Removal);
    match state {
        BuiltInLoopState::Runs(pods) if leads => Verdict::Both(pods.clone()),
        BuiltInLoopState::WouldRun(pods) if leads => Verdict::BothSoon(pods.clone()),
        BuiltInLoopState::Off | BuiltInLoopState::NoManager if leads && !manager_needed => Verdict::Nonet,
        BuiltInLoopState::Unknown if leads && !manager_needed => Verdict::NonetAtLeast,
        _ if unknown => Verdict::Unknown,
        BuiltInLoopState::Runs(_) if concerned => Verdict::ManagerBesideNonet,
        BuiltInLoopState::Runs(_) => Verdict::Manager,
        BuiltInLoopState::Unknown => Verdict::Unknown,
        BuiltInLoopState::WouldRun(_) | BuiltInLoopState::Off | BuiltInLoopState::NoManager if manager_needed => {
            Verdict::ManagerRequired
        }
        BuiltInLoopState::WouldRun(_) => Verdict::NoWriterWithoutManager,
        BuiltInLoopState::Off | BuiltInLoopState::NoManager if installation.election.is_held_for_hand_over() => {
            Verdict::NoWriterHeldForHandOver
        }
        BuiltInLoopState::Off | BuiltInLoopState::NoManager if installation.is_installed() => {
            Verdict::NoWriterWithoutLeader
        }
        BuiltInLoopState::Off | BuiltInLoopState::NoManager => Verdict::NoWriterNotInstalled,
    }
}

fn report(findings: &mut Findings, verdict: &Verdict, loops: &[(&str, &Installation<'_>)], stage: PlannedOperation) {
    let names = loops.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let mut controllers: Vec<&str> = loops.iter().map(|(_, installation)| installation.controller.name).collect();
    controllers.dedup();
    let place = loops.first().map_or("kube-system", |(_, installation)| installation.namespace);
    let off = format!(
        "add -{} to --controllers, in kubeadm-config too, on each control-plane node",
        names.replace(", ", ",-")
    );
    let hold = |verb: &str| -> String {
        let commands =
            controllers.iter().map(|name| format!("kubectl -n {place} {verb} -k deploy/controllers/{name}/hold"));
        commands.collect::<Vec<_>>().join("; ")
    };
    let switch_on = "switch them on: take them out of --controllers, in kubeadm-config too, on each control-plane node";
    let no_process = format!("no process runs {names}: kube-controller-manager does not");
    match verdict {
        Verdict::Both(pods) => {
            let found =
                format!("two writers: kube-controller-manager ({}) and Nonet both run {names}", pods.join(", "));
            findings.add_problem(found, format!("stop Nonet at once: {}; then {off}", hold("apply")));
        }
        Verdict::BothSoon(pods) => {
            let found = format!("two writers soon: {} would run {names} beside Nonet as the leader", pods.join(", "));
            findings.add_problem(found, off);
        }
        Verdict::NoWriterHeldForHandOver => {
            let found = format!("{no_process}, and Nonet is held for the hand-over");
            findings.add_problem(found, format!("release the Leases: {}", hold("delete")));
        }
        Verdict::NoWriterWithoutLeader => {
            let found = format!("{no_process}, and no replica of Nonet leads");
            findings.add_problem(found, format!("see the findings about Leases and Pods, or {switch_on}"));
        }
        Verdict::NoWriterNotInstalled => {
            let found = format!("{no_process}, and Nonet is not installed for it");
            findings.add_problem(found, format!("apply an overlay with {}, or {switch_on}", controllers.join(", ")));
        }
        Verdict::NoWriterWithoutManager => {
            let found =
                format!("no process runs {names}: neither Nonet nor a kube-controller-manager that runs them leads");
            findings.add_problem(
                found,
                "kubectl -n kube-system get pods -l component=kube-controller-manager; \
                 kubectl -n kube-system get lease kube-controller-manager -o yaml",
            );
        }
        Verdict::ManagerRequired => {
            let why = if stage == PlannedOperation::Removal {
                "after the removal of Nonet, no process runs"
            } else {
                "before the hand-over, kube-controller-manager has to run these loops, and does not:"
            };
            findings.add_problem(format!("{why} {names}"), switch_on);
        }
        Verdict::Nonet => findings.add_ok(format!("Nonet alone runs {names}")),
        Verdict::NonetAtLeast => {
            findings.add_info(format!("Nonet runs {names}; it is unknown whether kube-controller-manager does, too"));
        }
        Verdict::ManagerBesideNonet => {
            findings.add_ok(format!("kube-controller-manager runs {names}, and Nonet stands by"));
        }
        Verdict::Manager => findings.add_info(format!("kube-controller-manager runs {names}")),
        Verdict::Unknown => findings.add_unknown(
            format!("cannot tell which process runs {names}"),
            "see the findings about kube-controller-manager and Leases",
        ),
    }
}

/// Checks which loops the next `kubeadm upgrade` will switch on or off in kube-controller-manager.
fn kubeadm(findings: &mut Findings, facts: &Facts, installations: &[Installation<'_>], stage: PlannedOperation) {
    const EDIT: &str = "kubectl -n kube-system edit configmap kubeadm-config; set controllers in \
        controllerManager.extraArgs as in docs/operating.md, Hand over, step 3";
    let map = match &facts.kube_controller_manager.kubeadm_config {
        Err(why) => return findings.add_unreadable_fact("which loops kubeadm upgrade will switch on", why),
        Ok(map) => map.as_ref().and_then(|map| map.data.as_ref()),
    };
    let Some(configuration) = map.and_then(|data| data.get("ClusterConfiguration")) else { return };
    let controllers = match manager_flags::parse_kubeadm_controllers_flag(configuration) {
        Ok(controllers) => controllers,
        Err(why) => {
            let found = "cannot tell which loops kubeadm upgrade will switch on: kubeadm-config is not YAML";
            return findings.add_unknown(format!("{found}: {}", to_one_line(&why)), EDIT);
        }
    };
    let installed = installations.iter().filter(|installation| installation.is_installed());
    let loops: Vec<&str> = installed.flat_map(|installation| installation.controller.loops).copied().collect();
    let (on, off): (Vec<&str>, Vec<&str>) = loops.iter().partition(|name| controllers.switches_loop_on(name));
    if stage == PlannedOperation::Removal {
        if !off.is_empty() {
            findings.add_warning(
                format!("the next kubeadm upgrade will switch off {}: kubeadm-config says so", off.join(", ")),
                EDIT,
            );
        }
    } else if !on.is_empty() {
        findings.add_warning(
            format!(
                "the next kubeadm upgrade will switch on {} in kube-controller-manager: kubeadm-config says so",
                on.join(", ")
            ),
            EDIT,
        );
    } else if !loops.is_empty() {
        findings.add_ok("kubeadm-config keeps the loops of Nonet off at the next kubeadm upgrade");
    }
}

/// Reports the second writers that controllers have found and recorded as Events.
fn second_writers(findings: &mut Findings, facts: &Facts, installations: &[Installation<'_>]) {
    let events = match &facts.lease_events {
        Err(why) => return findings.add_unreadable_fact("whether controllers have found a second writer", why),
        Ok(events) => events,
    };
    let mut latest: BTreeMap<(&str, &str), &Event> = BTreeMap::new();
    for event in events {
        let reason = event.reason.as_deref().unwrap_or_default();
        if matches!(reason, second_writer::SECOND_WRITER_FOUND | second_writer::SECOND_WRITER_GONE) {
            let of = (object_namespace(&event.metadata), event.involved_object.name.as_deref().unwrap_or_default());
            let newest = latest.entry(of).or_insert(event);
            if last_occurrence(event) >= last_occurrence(newest) {
                *newest = event;
            }
        }
    }
    let now = facts.clocks.as_ref().ok().map(|clocks| clocks.server_time);
    for ((place, lease), event) in latest {
        if event.reason.as_deref() == Some(second_writer::SECOND_WRITER_GONE) {
            findings.add_info(format!("{lease} had found a second writer, and sees no sign of it any more"));
            continue;
        }
        let installation = installations.iter().find(|i| i.controller.name == lease && i.namespace == place);
        let leads_since = installation.and_then(|installation| installation.election.leader_since());
        if leads_since.is_some_and(|since| last_occurrence(event).is_some_and(|at| at < since)) {
            let found = format!("an earlier leader of {lease} had found a second writer");
            match now.zip(leads_since).map(|(now, since)| now.as_second() - since.as_second()) {
                Some(seconds) if seconds >= SECOND_WRITER_DETECTION_SECONDS => {
                    findings.add_info(format!("{found}; the current leader sees no sign of it"));
                }
                _ => findings.add_warning(
                    format!("{found}; the current leader has not led long enough to find it"),
                    "repeat the check in ten minutes",
                ),
            }
            continue;
        }
        let expected = installation
            .and_then(|installation| installation.lease_annotation(SECOND_WRITER_EXPECTED_UNTIL_ANNOTATION));
        let until = expected.and_then(|text| text.parse::<Timestamp>().ok());
        let message = event.message.as_deref().unwrap_or("no message").trim();
        let found = format!("{lease} has found a second writer: {message}");
        if let Some(until) = until.filter(|until| now.is_none_or(|now| *until > now)) {
            findings.add_info(format!("{found} (expected until {until})"));
        } else {
            let remedy = format!(
                "compare with the loops above; kubectl -n {place} describe event {}",
                object_name(&event.metadata)
            );
            findings.add_problem(found, remedy);
        }
    }
}

/// Returns the time of the last occurrence of an Event.
fn last_occurrence(event: &Event) -> Option<Timestamp> {
    let created = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let event_time = event.event_time.as_ref().map(|time| time.0);
    event.last_timestamp.as_ref().map(|time| time.0).or(event_time).or(created)
}
