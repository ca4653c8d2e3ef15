//! Determines which loops kube-controller-manager runs.

use std::collections::BTreeSet;

use common::process::built_in_flags::{ControllersFlag, values_of_flag};
use k8s_openapi::api::core::v1::Pod;

use crate::{
    check::{
        election::{LeaderElectionState, host_of_identity},
        format_count,
        installation::object_name,
        span,
    },
    controllers::{self, Controller, KUBE_SYSTEM_NAMESPACE},
    facts::{FactError, KubeControllerManagerFacts, ManagerStatement},
    finding::Findings,
    manager_flags,
};

/// Remedy if the API does not show which loops kube-controller-manager runs.
pub(in crate::check) const STATE_FLAG_REMEDY: &str = "find out its flag --controllers, and repeat the command with --built-in-controllers LIST, or with \
    --without-manager if there is no kube-controller-manager";

const GET_PODS: &str = "kubectl -n kube-system get pods -l component=kube-controller-manager";

/// State of one loop in all kube-controller-managers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check) enum BuiltInLoopState {
    /// The leader runs the loop, or a manager without election does. Holds the names of all Pods with the loop switched on.
    Runs(Vec<String>),
    /// The Pods with these names have the loop switched on, but none of them leads.
    WouldRun(Vec<String>),
    /// All managers have the loop switched off.
    Off,
    /// There is no kube-controller-manager.
    NoManager,
    /// The facts do not show whether a manager runs the loop.
    Unknown,
}

/// A Pod of kube-controller-manager, with its flags.
struct Process<'a> {
    pod: &'a Pod,
    command_line: Vec<String>,
    controllers: ControllersFlag,
    uses_leader_election: bool,
}

/// All kube-controller-managers of the cluster.
pub(in crate::check) struct KubeControllerManagers<'a> {
    facts: &'a KubeControllerManagerFacts,
    election: LeaderElectionState<'a>,
    processes: Vec<Process<'a>>,
    /// What the caller says; `None` if the cluster refutes it.
    stated: Option<&'a ManagerStatement>,
}

impl<'a> KubeControllerManagers<'a> {
    /// Derives flags and leader from the Pods and the Lease of kube-controller-manager.
    pub(in crate::check) fn from_facts(facts: &'a KubeControllerManagerFacts) -> Self {
        let election = LeaderElectionState::from_reading(&facts.lease);
        let processes = facts.pods.iter().flatten().filter_map(parse_manager_pod).collect();
        let managers = Self { facts, election, processes, stated: facts.stated.as_ref() };
        let stated = managers.stated.filter(|_| managers.refutation().is_none());
        Self { stated, ..managers }
    }

    /// Describes the kube-controller-manager that runs although the caller says that there is no such process; otherwise `None`.
    pub(in crate::check) fn refutation(&self) -> Option<String> {
        if self.facts.stated != Some(ManagerStatement::Absent) {
            return None;
        }
        match self.election {
            LeaderElectionState::Led { holder, renewal_age_seconds, .. } if self.election.has_leader() => {
                Some(format!(
                    "kube-controller-manager still runs: {holder} renewed its Lease {} ago",
                    span(renewal_age_seconds)
                ))
            }
            _ => {
                let pods = self.facts.pods.as_ref().ok().filter(|pods| !pods.is_empty())?;
                let names: Vec<&str> = pods.iter().map(|pod| object_name(&pod.metadata)).collect();
                Some(format!("kube-controller-manager still runs: there is the Pod {}", names.join(", ")))
            }
        }
    }

    /// Whether the caller says that there is no kube-controller-manager, and nothing shows one.
    pub(in crate::check) fn are_absent(&self) -> bool {
        self.stated == Some(&ManagerStatement::Absent)
    }

    /// Whether the flags that count are those that the caller states.
    pub(in crate::check) fn is_stated(&self) -> bool {
        self.stated.is_some()
    }

    /// Returns the state of the loop `name`, with the names of the Pods that have the loop switched on.
    pub(in crate::check) fn loop_state(&self, name: &str) -> BuiltInLoopState {
        match self.stated {
            Some(ManagerStatement::Absent) => return BuiltInLoopState::NoManager,
            Some(ManagerStatement::Controllers(list)) if list.switches_loop_on(name) => {
                return BuiltInLoopState::Runs(vec!["by --built-in-controllers".to_owned()]);
            }
            Some(ManagerStatement::Controllers(_)) => return BuiltInLoopState::Off,
            None => {}
        }
        let on: Vec<&Process<'_>> =
            self.processes.iter().filter(|process| process.controllers.switches_loop_on(name)).collect();
        if on.is_empty() {
            return if self.is_complete() { BuiltInLoopState::Off } else { BuiltInLoopState::Unknown };
        }
        let pods = on.iter().map(|process| process.name().to_owned()).collect();
        let works = match self.election {
            // A leader that is not one of the Pods may run any loop.
            LeaderElectionState::Led { holder, .. } => {
                !self.has_manager(holder) || on.iter().any(|process| process.has_identity(holder))
            }
            LeaderElectionState::Unreadable(_) => true,
            _ => on.iter().any(|process| !process.uses_leader_election),
        };
        if works { BuiltInLoopState::Runs(pods) } else { BuiltInLoopState::WouldRun(pods) }
    }

    /// Returns the names of the Pods that run the loop `migrator`, and whether they run `collector`, too.
    pub(super) fn migrators_with_collector(&self, migrator: &str, collector: &str) -> Vec<(&str, bool)> {
        let migrates = |process: &&Process<'_>| {
            process.controllers.switches_loop_on(migrator)
                && manager_flags::enables_beta_gate(&process.command_line, "StorageVersionMigrator")
                && !manager_flags::is_switched_off(&process.command_line, "enable-garbage-collector")
        };
        let migrators = self.processes.iter().filter(migrates);
        migrators.map(|process| (process.name(), process.controllers.switches_loop_on(collector))).collect()
    }

    /// Whether a list `*,-NAME` names the loop.
    pub(super) fn switches_off_explicitly(&self, name: &str) -> bool {
        let stated = match self.stated {
            Some(ManagerStatement::Controllers(list)) => Some(list),
            _ => None,
        };
        let mut lists = self.processes.iter().map(|process| &process.controllers).chain(stated);
        lists.any(|list| list.switches_loop_on("*") && !list.switches_loop_on(name))
    }

    /// Returns each Pod with its value of `--controllers`, which is `*` without the flag.
    pub(in crate::check) fn controllers_lists(&self) -> Vec<(&str, String)> {
        let list = |process: &Process<'_>| {
            let values = values_of_flag(&process.command_line, "controllers");
            if values.is_empty() { "*".to_owned() } else { values.join(",") }
        };
        self.processes.iter().map(|process| (process.name(), list(process))).collect()
    }

    /// Returns the node, or the machine, of the leader; `None` without a leader.
    pub(in crate::check) fn leader_host(&self) -> Option<&'a str> {
        let LeaderElectionState::Led { holder, .. } = self.election else { return None };
        Some(host_of_identity(holder))
    }

    /// Whether a manager leads that is one of the Pods and renews its Lease, or that needs no Lease. Stated flags count as read.
    pub(in crate::check) fn has_known_leader(&self) -> bool {
        let leads = match self.election {
            LeaderElectionState::Led { holder, is_stalled, .. } => !is_stalled && self.has_manager(holder),
            _ => false,
        };
        leads || self.stated.is_some() || self.processes.iter().any(|process| !process.uses_leader_election)
    }

    /// Whether a kube-controller-manager is known to exist.
    pub(super) fn exists(&self) -> bool {
        let is_stated = matches!(self.stated, Some(ManagerStatement::Controllers(_)));
        is_stated || self.election.has_leader() || self.facts.pods.as_ref().is_ok_and(|pods| !pods.is_empty())
    }

    /// Whether kubeadm has set the cluster up, and there is no Pod of kube-controller-manager.
    pub(super) fn is_missing_on_kubeadm(&self) -> bool {
        let facts = self.facts;
        facts.pods.as_ref().is_ok_and(Vec::is_empty) && matches!(facts.kubeadm_config, Ok(Some(_)))
    }

    /// Returns the control-plane nodes without a Pod of kube-controller-manager. Their flags are unknown.
    pub(in crate::check) fn uncovered_nodes(&self) -> Result<Vec<&'a str>, &'a FactError> {
        let covered: BTreeSet<&str> = self.processes.iter().filter_map(Process::node).collect();
        let nodes = self.facts.control_plane_nodes.as_ref()?;
        Ok(nodes.iter().map(|node| object_name(&node.metadata)).filter(|node| !covered.contains(node)).collect())
    }

    /// Whether `identity`, from the Lease, belongs to one of the Pods.
    fn has_manager(&self, identity: &str) -> bool {
        self.processes.iter().any(|process| process.has_identity(identity))
    }

    /// Whether the Pods show all managers: each Pod could be read, and the leader is one of the Pods.
    fn is_complete(&self) -> bool {
        let leader_is_seen = match self.election {
            LeaderElectionState::Led { holder, .. } => self.has_manager(holder),
            LeaderElectionState::Unreadable(_) => false,
            _ => true,
        };
        !self.processes.is_empty()
            && leader_is_seen
            && self.facts.pods.as_ref().is_ok_and(|p| p.len() == self.processes.len())
    }

    /// Reports which managers were found, and which loops remain unknown.
    pub(super) fn add_findings(&self, findings: &mut Findings) {
        match self.stated {
            Some(ManagerStatement::Absent) => {
                findings.add_info("by --without-manager, there is no kube-controller-manager");
                if let Some(why) = self.facts.lease.as_ref().err().or(self.facts.pods.as_ref().err()) {
                    findings.add_unreadable_fact("whether a kube-controller-manager runs all the same", why);
                }
                return;
            }
            Some(ManagerStatement::Controllers(_)) => {
                return findings
                    .add_info("by --built-in-controllers, kube-controller-manager runs what the flag lists");
            }
            None => {}
        }
        if let Some(found) = self.refutation() {
            findings.add_problem(
                format!("{found}: each loop that it and Nonet both run has two writers"),
                "take its manifest away on each control-plane node as in docs/operating.md, Without kube-controller-manager, or \
                    repeat the command without --without-manager",
            );
            if self.processes.is_empty() {
                return;
            }
        }
        match &self.facts.pods {
            Err(why) => findings.add_unreadable_fact("which loops kube-controller-manager runs", why),
            Ok(pods) if pods.is_empty() => self.report_outside(findings),
            Ok(pods) => {
                for pod in pods.iter().filter(|pod| parse_manager_pod(pod).is_none()) {
                    let found = format!(
                        "cannot tell which loops the Pod {KUBE_SYSTEM_NAMESPACE}/{} runs: it shows no command line",
                        object_name(&pod.metadata)
                    );
                    findings.add_unknown(found, STATE_FLAG_REMEDY);
                }
                self.report_pods(findings);
            }
        }
    }

    fn report_outside(&self, findings: &mut Findings) {
        let found = match self.election {
            LeaderElectionState::Unreadable(why) => {
                return findings.add_unreadable_fact("whether kube-controller-manager runs", why);
            }
            LeaderElectionState::Led { holder, .. } => format!(
                "cannot tell which loops kube-controller-manager runs: {holder} leads, and is not a Pod in \
                    {KUBE_SYSTEM_NAMESPACE} (k3s, managed clusters)"
            ),
            _ => format!(
                "cannot tell whether there is a kube-controller-manager: there is neither a Pod nor a live Lease of it \
                    in {KUBE_SYSTEM_NAMESPACE}, and without leader election it has no Lease"
            ),
        };
        findings.add_unknown(found, STATE_FLAG_REMEDY);
    }

    fn report_pods(&self, findings: &mut Findings) {
        let all = format_count(self.processes.len(), "Pod");
        match self.election {
            LeaderElectionState::Led { holder, renewal_age_seconds: renewed, .. } if self.has_manager(holder) => {
                let ago = span(renewed);
                findings
                    .add_ok(format!("kube-controller-manager: {all}, {holder} leads and renewed its Lease {ago} ago"));
            }
            LeaderElectionState::Led { holder, .. } => {
                let found = format!(
                    "cannot tell which loops run: the leader {holder} of kube-controller-manager is not one of its \
                        Pods in {KUBE_SYSTEM_NAMESPACE}"
                );
                findings.add_unknown(found, format!("{GET_PODS} -o wide"));
            }
            LeaderElectionState::Unreadable(why) => {
                findings.add_unreadable_fact("which kube-controller-manager leads", why);
            }
            _ if self.processes.iter().any(|process| !process.uses_leader_election) => {
                findings.add_ok(format!("kube-controller-manager: {all}, without election"));
            }
            _ => {
                let found = format!("kube-controller-manager: {all}, and none of them leads");
                findings.add_problem(found, GET_PODS);
            }
        }
        self.report_different(findings);
        match self.uncovered_nodes() {
            Err(why) => findings.add_unreadable_fact("whether every control-plane node was checked", why),
            Ok(nodes) => {
                for node in nodes {
                    let found = format!(
                        "cannot tell which loops the control-plane node {node} would run: it has no Pod of \
                            kube-controller-manager now"
                    );
                    let remedy = format!(
                        "on {node}: grep -e --controllers /etc/kubernetes/manifests/kube-controller-manager.yaml"
                    );
                    findings.add_unknown(found, remedy);
                }
            }
        }
    }

    /// Reports Pods with different flags for the loops of Nonet, as when a change has not reached every node.
    fn report_different(&self, findings: &mut Findings) {
        let loops: Vec<&str> = controllers::ALL.iter().flat_map(Controller::loops).collect();
        let runs =
            |process: &Process<'_>| loops.iter().map(|name| process.controllers.switches_loop_on(name)).collect();
        let sets: BTreeSet<Vec<bool>> = self.processes.iter().map(runs).collect();
        if sets.len() > 1 {
            let found = "the control-plane nodes run kube-controller-manager with different --controllers";
            let columns = "-o custom-columns='NODE:.spec.nodeName,COMMAND:.spec.containers[0].command'";
            findings.add_warning(found, format!("make them the same: {GET_PODS} {columns}"));
        }
    }
}

impl Process<'_> {
    fn name(&self) -> &str {
        object_name(&self.pod.metadata)
    }

    fn node(&self) -> Option<&str> {
        self.pod.spec.as_ref()?.node_name.as_deref()
    }

    /// Whether `identity` belongs to this Pod. In the host network, identities begin with the name of the node.
    fn has_identity(&self, identity: &str) -> bool {
        let host = host_of_identity(identity);
        self.node().is_some_and(|node| same_machine(node, host)) || self.name() == host
    }
}

/// Whether two names belong to one machine. One of the names may lack the domain.
fn same_machine(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    long.strip_prefix(short).is_some_and(|domain| domain.is_empty() || domain.starts_with('.'))
}

/// Reads the command line of a Pod; `None` if the Pod shows no command and no arguments.
fn parse_manager_pod(pod: &Pod) -> Option<Process<'_>> {
    let containers = &pod.spec.as_ref()?.containers;
    let named = containers.iter().find(|container| container.name == "kube-controller-manager");
    let container = named.or(containers.first())?;
    let words = container.command.iter().flatten().chain(container.args.iter().flatten());
    let command_line: Vec<String> = words.cloned().collect();
    if command_line.is_empty() {
        return None;
    }
    let elects = !manager_flags::disables_leader_election(&command_line);
    let controllers = ControllersFlag::from_command_line(&command_line);
    Some(Process { pod, command_line, controllers, uses_leader_election: elects })
}
