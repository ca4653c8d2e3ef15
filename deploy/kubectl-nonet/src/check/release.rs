//! Selects the Leases that `release` and `hold` change, and finds the second writers that a release would start.

use std::collections::BTreeMap;

use super::{
    election::LeaderElectionState,
    installation::{Installation, all_installations},
    loops::{
        built_in::{BuiltInLoopState, KubeControllerManagers, STATE_FLAG_REMEDY},
        switch_off,
    },
};
use crate::{
    controllers::{self, Controller},
    facts::Facts,
};

/// The Lease of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SelectedLease {
    pub(crate) controller: &'static Controller,
    pub(crate) namespace: String,
    /// Whether the Lease was held, or could not be read.
    pub(crate) may_be_held: bool,
    /// Whether the Lease had a leader.
    pub(crate) has_leader: bool,
}

/// Returns the Leases of the installed controllers in `names`, or of all installed controllers.
///
/// A named controller that runs outside the cluster counts as installed if its Lease exists.
///
/// # Errors
/// If a controller is not installed, or if the facts do not show what is installed. The message has the way out.
pub(crate) fn select(facts: &Facts, names: &[String]) -> Result<Vec<SelectedLease>, String> {
    if let Some(why) = facts.deployments.as_ref().err().or(facts.pods.as_ref().err()) {
        return Err(format!("cannot tell which controllers are installed: {why}; {}", why.remedy()));
    }
    let stated = facts.stated_namespace.as_deref();
    let place = stated.map(|namespace| format!(" in the namespace {namespace}")).unwrap_or_default();
    let is_wanted = |i: &Installation<'_>| {
        let is_named = names.iter().any(|name| name == i.controller.name) && i.lease_reading().is_some();
        stated.is_none_or(|namespace| namespace == i.namespace)
            && (is_named || i.is_installed())
            && (names.is_empty() || names.iter().any(|name| name == i.controller.name))
    };
    let mut installations = all_installations(facts);
    installations.retain(is_wanted);
    let is_missing = |name: &&String| !installations.iter().any(|i| i.controller.name == name.as_str());
    if let Some(name) = names.iter().find(is_missing) {
        return Err(format!("{name} is not installed{place}: install it first; a running process creates its Lease"));
    }
    if installations.is_empty() {
        return Err(format!(
            "Nonet is not installed{place}: install controllers first, or name another cluster with --context"
        ));
    }
    let mut selected: Vec<SelectedLease> = installations.iter().map(select_lease).collect();
    // Endpoints that point to Pods of the past hurt first. The list of controllers ends with node-lifecycle-controller.
    selected.sort_by_key(|lease| lease.controller.name != "endpointslice-controller");
    Ok(selected)
}

fn select_lease(installation: &Installation<'_>) -> SelectedLease {
    let election = installation.election;
    SelectedLease {
        controller: installation.controller,
        namespace: installation.namespace.to_owned(),
        may_be_held: election.is_held_for_hand_over() || matches!(election, LeaderElectionState::Unreadable(_)),
        has_leader: election.has_leader(),
    }
}

/// Returns a line with the way out for each second writer that a release of the Leases may start.
pub(crate) fn second_writers(facts: &Facts, selected: &[SelectedLease]) -> Vec<String> {
    let held: Vec<&SelectedLease> = selected.iter().filter(|lease| lease.may_be_held).collect();
    if held.is_empty() {
        return Vec::new();
    }
    let mut lines = built_in_writers(facts, &held);
    if let Err(why) = &facts.cluster_wide_search {
        lines.push(format!("cannot tell what is installed in other namespaces: {why}; {}", why.remedy()));
    }
    let installations = all_installations(facts);
    for lease in held.iter().copied() {
        let (name, place) = (lease.controller.name, lease.namespace.as_str());
        let is_other = |i: &&Installation<'_>| i.controller.name == name && i.namespace != place && i.is_installed();
        for other in installations.iter().filter(is_other) {
            if held.iter().any(|held| held.controller.name == name && held.namespace == other.namespace) {
                lines.push(format!(
                    "{name} is installed in the namespaces {place} and {}, and both would lead: choose one with -n",
                    other.namespace
                ));
            } else if !other.election.is_held_for_hand_over() {
                lines.push(format!(
                    "{name} is installed in the namespace {}, too, and is not held there: {}, and remove it there",
                    other.namespace,
                    other.hold()
                ));
            }
        }
    }
    lines
}

/// Returns a line for the loops that kube-controller-manager runs, or may run.
pub(crate) fn built_in_writers(facts: &Facts, held: &[&SelectedLease]) -> Vec<String> {
    let built_in = KubeControllerManagers::from_facts(&facts.kube_controller_manager);
    let mut running: BTreeMap<Vec<String>, Vec<&str>> = BTreeMap::new();
    let mut unknown = Vec::new();
    for name in controllers::ALL.iter().flat_map(Controller::loops) {
        if !held.iter().any(|lease| lease.controller.has_loop(name)) {
            continue;
        }
        match built_in.loop_state(name) {
            BuiltInLoopState::Runs(pods) | BuiltInLoopState::WouldRun(pods) => {
                running.entry(pods).or_default().push(name);
            }
            BuiltInLoopState::Off | BuiltInLoopState::NoManager => {}
            BuiltInLoopState::Unknown => unknown.push(name),
        }
    }
    let mut lines: Vec<String> = running
        .into_iter()
        .map(|(pods, loops)| {
            let off = switch_off(loops.iter().copied());
            format!("kube-controller-manager ({}) has {} switched on: {off}", pods.join(", "), loops.join(", "))
        })
        .collect();
    if let Some(why) = built_in.refutation() {
        lines.push(format!("{why}: type the command without --without-manager"));
    } else if !unknown.is_empty() {
        let why = facts.kube_controller_manager.pods.as_ref().err().map(|why| format!(" ({why})")).unwrap_or_default();
        let loops = unknown.join(", ");
        lines.push(format!("cannot tell whether kube-controller-manager runs {loops}{why}: {STATE_FLAG_REMEDY}"));
    } else if !built_in.is_stated() {
        match built_in.uncovered_nodes() {
            Err(why) => lines
                .push(format!("cannot tell whether every kube-controller-manager was read: {why}; {}", why.remedy())),
            Ok(nodes) if nodes.is_empty() => {}
            Ok(nodes) => lines.push(format!(
                "cannot tell which loops {} would run, because no Pod of kube-controller-manager is there now: \
                    {STATE_FLAG_REMEDY}",
                nodes.join(", ")
            )),
        }
    }
    lines
}
