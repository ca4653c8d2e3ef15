//! Names the loops of kube-controller-manager that no process runs and no controller of Nonet could run.

use super::built_in::{BuiltInLoopState, KubeControllerManagers};
use crate::{
    facts::{KubeControllerManagerFacts, ManagerStatement},
    finding::{Finding, Findings, Topic},
    remaining_loops::{self, LoopStart, RemainingLoop},
};

/// Returns a finding for each loop that is usual and that no process runs. Where kube-controller-manager runs with some loops
/// switched off, this was a choice, and therefore is no warning.
pub(in crate::check) fn check(facts: &KubeControllerManagerFacts) -> Vec<Finding> {
    let mut findings = Findings::for_topic(Topic::Loops);
    let managers = KubeControllerManagers::from_facts(facts);
    for remaining in remaining_loops::ALL.iter().filter(|remaining| remaining.start.is_usual()) {
        let (name, loss) = (remaining.name, remaining.loss);
        if facts.stated == Some(ManagerStatement::Absent) {
            let begin = if managers.are_absent() {
                "no process runs"
            } else {
                "without kube-controller-manager, no process runs"
            };
            if let Some(missing) = missing_kinds(facts, remaining) {
                findings.add_info(format!(
                    "{begin} {name}, which has nothing to do in this cluster: there is no {missing}"
                ));
            } else {
                findings.add_warning(format!("{begin} {name}: {loss}"), way_to_run(remaining));
            }
        } else if is_on_by_default(remaining.start) && managers.loop_state(name) == BuiltInLoopState::Off {
            findings
                .add_info(format!("no process runs {name}, which kube-controller-manager has switched off: {loss}"));
        }
    }
    findings.into_list()
}

/// Whether `--controllers` decides about the loop, and `*` switches it on.
fn is_on_by_default(start: LoopStart) -> bool {
    matches!(start, LoopStart::Default | LoopStart::WithFlags(_))
}

/// Lists the kinds of a loop if the cluster is known to have no object of any of them; otherwise `None`.
fn missing_kinds(facts: &KubeControllerManagerFacts, remaining: &RemainingLoop) -> Option<String> {
    let is_missing = |path: &str| matches!(facts.has_objects.get(path), Some(Ok(false)));
    let are_missing = !remaining.kinds.is_empty() && remaining.kinds.iter().all(|kind| is_missing(kind.path));
    are_missing.then(|| remaining.kinds.iter().map(|kind| kind.noun).collect::<Vec<_>>().join(" and no "))
}

/// Returns the flags of a kube-controller-manager that runs the loop beside Nonet.
fn way_to_run(remaining: &RemainingLoop) -> String {
    let name = remaining.name;
    let flags = match remaining.start {
        LoopStart::FlagsAlone(flags) => format!("{flags} and any other loop in --controllers"),
        LoopStart::WithFlags(flags) => format!("--controllers={name} and {flags}"),
        _ => format!("--controllers={name}"),
    };
    format!("if that matters, run a kube-controller-manager with {flags}")
}
