//! Decides whether the Pods of a DaemonSet may run on a node.

use common::taints::{NO_EXECUTE, NO_SCHEDULE, Taint};

use crate::{
    objects::{FieldRequirement, LabelRequirement, Node, NodePlacement, NodeSelectorTerm},
    snapshot::nodes::Eligibility,
};

/// The only key that Kubernetes supports in `matchFields` of a node selector term.
const NODE_NAME_FIELD: &str = "metadata.name";

/// Decides whether Pods with this placement may run on a node. `compares` is the value of `TaintTolerationComparisonOperators`.
///
/// Readiness and resources of the node have no effect: the scheduler and the kubelet consider them. Upstream:
/// `pkg/controller/daemon`, `NodeShouldRunDaemonPod`.
pub fn decide_eligibility(placement: &NodePlacement, node: &Node, compares: bool) -> Eligibility {
    let name = node.name();
    if !placement.node_name.is_empty() && placement.node_name != name {
        return Eligibility::RemovesPods;
    }
    if !placement.node_selector.iter().all(|(key, value)| node.label(key) == Some(value)) {
        return Eligibility::RemovesPods;
    }
    if !placement.affinity_terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term_matches(term, node, &name))) {
        return Eligibility::RemovesPods;
    }
    let tolerated = |taint: &Taint| placement.tolerations.iter().any(|own| own.tolerates(taint, compares));
    let repels = |effect: &str| node.taints().iter().any(|taint| taint.effect == effect && !tolerated(taint));
    if repels(NO_EXECUTE) {
        Eligibility::RemovesPods
    } else if repels(NO_SCHEDULE) {
        Eligibility::KeepsPods
    } else {
        Eligibility::RunsPods
    }
}

fn term_matches(term: &NodeSelectorTerm, node: &Node, name: &str) -> bool {
    match term {
        NodeSelectorTerm::MatchesNoNode => false,
        NodeSelectorTerm::AllRequirements { labels, fields } => {
            labels.iter().all(|requirement| meets_label_requirement(requirement, node))
                && fields.iter().all(|requirement| meets_field_requirement(requirement, name))
        }
    }
}

fn meets_label_requirement(requirement: &LabelRequirement, node: &Node) -> bool {
    let number = |key: &str| node.label(key).and_then(|value| value.parse::<i64>().ok());
    match requirement {
        LabelRequirement::In(key, values) => node.label(key).is_some_and(|own| values.iter().any(|value| value == own)),
        LabelRequirement::NotIn(key, values) => {
            node.label(key).is_none_or(|own| values.iter().all(|value| value != own))
        }
        LabelRequirement::Exists(key) => node.label(key).is_some(),
        LabelRequirement::DoesNotExist(key) => node.label(key).is_none(),
        LabelRequirement::Gt(key, limit) => number(key).is_some_and(|own| own > *limit),
        LabelRequirement::Lt(key, limit) => number(key).is_some_and(|own| own < *limit),
    }
}

fn meets_field_requirement(requirement: &FieldRequirement, name: &str) -> bool {
    let own = if requirement.field == NODE_NAME_FIELD { name } else { "" };
    (requirement.value == *own) == requirement.must_equal
}

#[cfg(test)]
mod tests;
