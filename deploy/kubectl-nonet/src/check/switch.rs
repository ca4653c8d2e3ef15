//! The switch of loops between kube-controller-manager and Nonet: the flags that the operator sets, and what is still missing.

use std::collections::BTreeMap;

use super::{
    election::LeaderElectionState,
    loops::built_in::{BuiltInLoopState, KubeControllerManagers, STATE_FLAG_REMEDY},
    release::SelectedLease,
};
use crate::{
    facts::Facts,
    manager_flags::{Switch, switch_loops},
};

/// Returns an error if the API never shows which loops kube-controller-manager runs, so that no wait for a switch would end.
///
/// # Errors
/// If there is no Pod of kube-controller-manager, or if the Pods cannot be read, and the caller has stated no flag. Also if
/// kube-controller-manager runs although the caller denies it.
pub(crate) fn require_visible_managers(facts: &Facts) -> Result<(), String> {
    let manager = &facts.kube_controller_manager;
    if let Some(why) = KubeControllerManagers::from_facts(manager).refutation() {
        return Err(format!("{why}: type the command without --without-manager"));
    }
    match &manager.pods {
        _ if manager.stated.is_some() => Ok(()),
        Err(why) => Err(format!("cannot tell which loops kube-controller-manager runs: {why}; {}", why.remedy())),
        Ok(pods) if pods.is_empty() => Err(format!(
            "cannot tell which loops kube-controller-manager runs, because it has no Pod: {STATE_FLAG_REMEDY}"
        )),
        Ok(_) => Ok(()),
    }
}

/// Whether the caller says that there is no kube-controller-manager, and nothing shows one.
pub(crate) fn is_without_manager(facts: &Facts) -> bool {
    KubeControllerManagers::from_facts(&facts.kube_controller_manager).are_absent()
}

/// Returns the flag that each kube-controller-manager needs so that the loops of the controllers are switched, and the order of
/// the changes. `stated` is the value of `--built-in-controllers`.
pub(crate) fn flag_lines(
    facts: &Facts,
    stated: Option<&str>,
    selected: &[&SelectedLease],
    switch: Switch,
) -> Vec<String> {
    let managers = KubeControllerManagers::from_facts(&facts.kube_controller_manager);
    let loops: Vec<&str> = selected.iter().flat_map(|lease| lease.controller.loops()).collect();
    let current = match stated {
        Some(list) => vec![("by --built-in-controllers", list.to_owned())],
        None => managers.controllers_lists(),
    };
    let mut wanted: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (pod, list) in current {
        let new = switch_loops(&list, &loops, switch);
        if new != list {
            wanted.entry(new).or_default().push(pod);
        }
    }
    let mut lines: Vec<String> = wanted
        .into_iter()
        .map(|(list, pods)| {
            format!("set the flag of kube-controller-manager ({}): --controllers={list}", pods.join(", "))
        })
        .collect();
    if matches!(facts.kube_controller_manager.kubeadm_config, Ok(Some(_))) {
        lines.push("set it in kubeadm-config first, as in docs/install/kubeadm.md, Hand over".to_owned());
    }
    if let (Some(node), None) = (managers.leader_host(), stated) {
        let order = if switch == Switch::Off { "last" } else { "first" };
        lines.push(format!("set it on each control-plane node, and on {node}, where the leader runs, {order}"));
    }
    lines
}

/// Whether kube-controller-manager runs a loop of the controller. A manager that would run it as the leader does not count.
pub(crate) fn is_run_by_manager(facts: &Facts, lease: &SelectedLease) -> bool {
    let managers = KubeControllerManagers::from_facts(&facts.kube_controller_manager);
    lease.controller.loops().any(|name| matches!(managers.loop_state(name), BuiltInLoopState::Runs(_)))
}

/// Returns a line for each group of loops of the controllers that no leading kube-controller-manager is known to run.
pub(crate) fn idle_loops(facts: &Facts, selected: &[&SelectedLease]) -> Vec<String> {
    let managers = KubeControllerManagers::from_facts(&facts.kube_controller_manager);
    let mut idle: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in selected.iter().flat_map(|lease| lease.controller.loops()) {
        let why = match managers.loop_state(name) {
            BuiltInLoopState::Runs(_) if managers.has_known_leader() => continue,
            BuiltInLoopState::Runs(pods) | BuiltInLoopState::WouldRun(pods) => {
                format!("switched on in {}, but none of them is known to lead", pods.join(", "))
            }
            BuiltInLoopState::Off => "switched off".to_owned(),
            BuiltInLoopState::NoManager => "there is no kube-controller-manager".to_owned(),
            BuiltInLoopState::Unknown => "unknown, because not every kube-controller-manager is visible".to_owned(),
        };
        idle.entry(why).or_default().push(name);
    }
    idle.into_iter()
        .map(|(why, names)| format!("kube-controller-manager does not run {}: {why}", names.join(", ")))
        .collect()
}

/// Returns a line for each controller whose Lease is not held.
pub(crate) fn not_held(facts: &Facts, selected: &[&SelectedLease]) -> Vec<String> {
    let is_held = |lease: &&&SelectedLease| {
        let mut leases =
            facts.leases.iter().filter(|l| l.name == lease.controller.name && l.namespace == lease.namespace);
        leases.any(|l| LeaderElectionState::from_reading(&l.reading).is_held_for_hand_over())
    };
    let open = selected.iter().filter(|lease| !is_held(lease));
    open.map(|lease| format!("{}: its Lease is not held", lease.controller.name)).collect()
}
