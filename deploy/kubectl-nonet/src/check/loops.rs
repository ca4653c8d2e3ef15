//! Compares the loops that kube-controller-manager and Nonet run: each loop must have exactly one writer.

pub(super) mod built_in;
pub(super) mod remaining;

use std::collections::{BTreeMap, BTreeSet};

use common::{process::leader::SECOND_WRITER_EXPECTED_UNTIL_ANNOTATION, second_writer};
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

/// The loop that migrates stored objects. It uses data of the garbage collector in the same process.
const MIGRATOR: &str = "storage-version-migrator-controller";
/// The loop that kube-controller-manager starts without reading `--controllers`.
const TOKENS: &str = "serviceaccount-token-controller";

/// The processes that run a loop. Loops with the same verdict share one finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// Nonet and these Pods of kube-controller-manager both run the loop.
    Both(Vec<String>),
    /// Nonet runs the loop. These Pods of kube-controller-manager would run it, too, if one of them became the leader.
    BothSoon(Vec<String>),
    /// No process runs the loop; the Lease of Nonet is held, and no process has led with it.
    NoWriterHeldForHandOver,
    /// No process runs the loop; the Lease of Nonet is held since this time, and a process has led before.
    NoWriterHeldAfterLeading(Option<Timestamp>),
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
    check_neighbours(&mut findings, &built_in, installations, stage);
    let mut verdicts: BTreeMap<Verdict, Vec<(&str, &Installation<'_>)>> = BTreeMap::new();
    for installation in installations {
        for name in installation.controller.loops() {
            let verdict = verdict(&built_in.loop_state(name), installation, stage);
            verdicts.entry(verdict).or_default().push((name, installation));
        }
    }
    for (verdict, loops) in verdicts {
        report(&mut findings, &verdict, &loops, &built_in, stage);
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
        BuiltInLoopState::Off | BuiltInLoopState::NoManager => match installation.election {
            LeaderElectionState::HeldForHandOver { has_been_led: true, since, .. } => {
                Verdict::NoWriterHeldAfterLeading(since)
            }
            LeaderElectionState::HeldForHandOver { .. } => Verdict::NoWriterHeldForHandOver,
            _ if installation.is_installed() => Verdict::NoWriterWithoutLeader,
            _ => Verdict::NoWriterNotInstalled,
        },
    }
}

fn report(
    findings: &mut Findings,
    verdict: &Verdict,
    loops: &[(&str, &Installation<'_>)],
    built_in: &KubeControllerManagers<'_>,
    stage: PlannedOperation,
) {
    let names = loops.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let mut controllers: Vec<&str> = loops.iter().map(|(_, installation)| installation.controller.name).collect();
    controllers.dedup();
    let off = switch_off(loops.iter().map(|(name, _)| *name));
    let commands = |command: &str| -> String {
        let mut places: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (_, installation) in loops {
            places.entry(installation.namespace).or_default().insert(installation.controller.name);
        }
        let command = |(place, names): (&str, BTreeSet<&str>)| {
            format!("kubectl nonet {command} {} -n {place}", names.into_iter().collect::<Vec<_>>().join(" "))
        };
        places.into_iter().map(command).collect::<Vec<_>>().join("; ")
    };
    let switch_on = "switch them on: take them out of --controllers, in kubeadm-config too, on each control-plane node";
    let manager =
        if built_in.are_absent() { "there is no kube-controller-manager" } else { "kube-controller-manager does not" };
    let no_process = format!("no process runs {names}: {manager}");
    match verdict {
        Verdict::Both(pods) => {
            let found =
                format!("two writers: kube-controller-manager ({}) and Nonet both run {names}", pods.join(", "));
            findings.add_problem(found, format!("stop Nonet at once: {}; then {off}", commands("hold")));
        }
        Verdict::BothSoon(pods) => {
            let found = format!("two writers soon: {} would run {names} beside Nonet as the leader", pods.join(", "));
            findings.add_problem(found, off);
        }
        Verdict::NoWriterHeldForHandOver => {
            let found = format!("{no_process}, and Nonet is held for the hand-over");
            findings.add_problem(found, commands("release"));
        }
        Verdict::NoWriterHeldAfterLeading(since) => {
            let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
            let found = format!("{no_process}, and no process leads{since}: Nonet has led before, and is held");
            findings.add_problem(found, commands("release"));
        }
        Verdict::NoWriterWithoutLeader => {
            let found = format!("{no_process}, and no replica of Nonet leads");
            let otherwise = if built_in.are_absent() { String::new() } else { format!(", or {switch_on}") };
            findings.add_problem(found, format!("see the findings about Leases and Pods{otherwise}"));
        }
        Verdict::NoWriterNotInstalled => {
            let found = format!("{no_process}, and Nonet is not installed for it");
            let install = format!("choose an installation with {} as in docs/install", controllers.join(", "));
            let look = "kubectl nonet status shows whether it is installed in another namespace; if not,";
            let otherwise = if built_in.are_absent() { String::new() } else { format!("{switch_on}; or ") };
            findings.add_problem(found, format!("{look} {otherwise}{install}"));
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

/// Returns the advice to switch loops of kube-controller-manager off.
pub(super) fn switch_off<'a>(loops: impl Iterator<Item = &'a str>) -> String {
    let items: Vec<String> = loops.map(|name| format!("-{name}")).collect();
    format!("add {} to --controllers, in kubeadm-config too, on each control-plane node", items.join(","))
}

/// Checks what a hand-over changes for kube-controller-manager and for programs that use it.
fn check_neighbours(
    findings: &mut Findings,
    built_in: &KubeControllerManagers<'_>,
    installations: &[Installation<'_>],
    stage: PlannedOperation,
) {
    const COLLECTOR: &str = "garbage-collector-controller";
    let is_handed_over = |i: &Installation<'_>| i.is_installed() && i.controller.has_loop(COLLECTOR);
    let hands_over = stage == PlannedOperation::HandOver && installations.iter().any(is_handed_over);
    for (pod, has_collector) in built_in.migrators_with_collector(MIGRATOR, COLLECTOR) {
        let found = |when: &str| {
            format!(
                "{pod} crashes {when} a StorageVersionMigration is processed: with its feature gate StorageVersionMigrator, \
                    {MIGRATOR} uses data of {COLLECTOR}, which "
            )
        };
        let remedy = switch_off([MIGRATOR].into_iter());
        if !has_collector {
            findings.add_problem(found("as soon as") + "is switched off", remedy);
        } else if hands_over {
            findings.add_warning(found("after the hand-over when") + "the hand-over switches off", remedy);
        }
    }
    if built_in.switches_off_explicitly(TOKENS) {
        findings.add_warning(
            format!(
                "kube-controller-manager runs {TOKENS} although --controllers switches it off: the flag cannot do that"
            ),
            format!("only an empty --service-account-private-key-file does; take -{TOKENS} out of the list"),
        );
    }
    if built_in.is_missing_on_kubeadm() {
        findings.add_warning(
            "there is no Pod of kube-controller-manager: kubeadm upgrade needs its manifest and its Pod, and kubeadm join of a \
                control-plane node waits for its port 10257",
            "put its manifest back before these commands, as in docs/operating.md, Without kube-controller-manager",
        );
    }
    for installation in installations.iter().filter(|_| built_in.exists()) {
        let has_flag = |words: &&Vec<String>| manager_flags::is_switched_on(words, "lead-without-release");
        let has_no_election = |words: &&Vec<String>| manager_flags::is_switched_off(words, "leader-elect");
        let args: Vec<_> = installation
            .pod_specs()
            .flat_map(|spec| &spec.containers)
            .filter_map(|container| container.args.as_ref())
            .collect();
        if installation.is_installed() && args.iter().any(has_no_election) {
            let found = format!(
                "{} has --leader-elect=false: beside kube-controller-manager it writes at once, without a Lease",
                installation.controller.name
            );
            let remedy = format!("remove the flag from its manifest or values; then {}", installation.apply_again());
            findings.add_problem(found, remedy);
        }
        if installation.is_installed() && args.iter().any(has_flag) {
            let found = format!(
                "{} has --lead-without-release: beside kube-controller-manager it leads at once when there is no Lease",
                installation.controller.name
            );
            let change = "remove --lead-without-release (deploy/components/lead-at-once)";
            findings.add_warning(found, installation.apply_again_with("leadAtOnce=false", change));
        }
    }
}

/// Checks which loops the next `kubeadm upgrade` will switch on or off in kube-controller-manager.
fn kubeadm(findings: &mut Findings, facts: &Facts, installations: &[Installation<'_>], stage: PlannedOperation) {
    const EDIT: &str = "kubectl -n kube-system edit configmap kubeadm-config; set controllers in \
        controllerManager.extraArgs as in docs/install/kubeadm.md, Hand over";
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
    let loops: Vec<&str> = installed.flat_map(|installation| installation.controller.loops()).collect();
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
