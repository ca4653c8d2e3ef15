//! Whether a Pod may go to a Node. Pure.

use common::intern::Labels;

use super::objects::{Node, NodeSelectorTerm, Pod, Requirement, Taint, Toleration};

/// Why a Pod may not go to a Node, as the scheduler words it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Misfit {
    /// Node selector or required node affinity do not match.
    Affinity,
    Taint,
    Unschedulable,
}

impl Misfit {
    /// The scheduler's words.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Affinity => "node(s) didn't match Pod's node affinity/selector",
            Self::Taint => "node(s) had untolerated taint(s)",
            Self::Unschedulable => "node(s) were unschedulable",
        }
    }
}

/// Whether `pod` may go to `node`; why not otherwise.
pub(super) fn fits(pod: &Pod, node: &Node) -> Result<(), Misfit> {
    let tolerates =
        |key: &str, value: &str, effect: &str| pod.spec.tolerations.iter().any(|t| tolerates(t, key, value, effect));
    if node.spec.unschedulable && !tolerates("node.kubernetes.io/unschedulable", "", "NoSchedule") {
        return Err(Misfit::Unschedulable);
    }
    if !matches_affinity(pod, node) {
        return Err(Misfit::Affinity);
    }
    let repels =
        |t: &Taint| matches!(t.effect.as_str(), "NoSchedule" | "NoExecute") && !tolerates(&t.key, &t.value, &t.effect);
    if node.spec.taints.iter().any(repels) {
        return Err(Misfit::Taint);
    }
    // Where nobody turns conditions into taints, a Node that is not ready counts as tainted all the same.
    let ready = node.status.conditions.iter().any(|c| c.kind == "Ready" && c.status == "True");
    if !ready && !tolerates("node.kubernetes.io/not-ready", "", "NoSchedule") {
        return Err(Misfit::Taint);
    }
    Ok(())
}

fn tolerates(toleration: &Toleration, key: &str, value: &str, effect: &str) -> bool {
    (toleration.effect.is_empty() || toleration.effect == *effect)
        && (toleration.key.is_empty() || toleration.key == *key)
        && match toleration.operator.as_str() {
            "" | "Equal" => !toleration.key.is_empty() && toleration.value == *value,
            "Exists" => true,
            _ => false,
        }
}

fn matches_affinity(pod: &Pod, node: &Node) -> bool {
    let labels = &node.metadata.labels;
    if !labels.contains_all(&pod.spec.node_selector) {
        return false;
    }
    let Some(required) = pod.spec.affinity.as_ref().and_then(|a| a.node_affinity.required.as_ref()) else {
        return true;
    };
    required.node_selector_terms.iter().any(|term| matches_term(term, labels, &node.metadata.name))
}

/// A term without requirements matches nothing.
fn matches_term(term: &NodeSelectorTerm, labels: &Labels, name: &str) -> bool {
    if term.match_expressions.is_empty() && term.match_fields.is_empty() {
        return false;
    }
    term.match_expressions.iter().all(|r| met(r, labels.get(&r.key)))
        && term.match_fields.iter().all(|r| met(r, (r.key == "metadata.name").then_some(name)))
}

fn met(requirement: &Requirement, value: Option<&str>) -> bool {
    let listed = |value: &str| requirement.values.iter().any(|v| v == value);
    let number = |text: &str| text.parse::<i64>().ok();
    let limit = || requirement.values.first().and_then(|v| number(v));
    match requirement.operator.as_str() {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => value.and_then(number).zip(limit()).is_some_and(|(v, limit)| v > limit),
        "Lt" => value.and_then(number).zip(limit()).is_some_and(|(v, limit)| v < limit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(taints: &Value, unschedulable: bool, ready: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "node-1", "labels": {"zone": "z1", "size": "8"}},
            "spec": {"taints": taints, "unschedulable": unschedulable},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    fn pod(spec: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    fn plain() -> Node {
        node(&json!([]), false, "True")
    }

    #[test]
    fn a_plain_pod_fits_a_plain_node_only() {
        let p = pod(&json!({}));
        assert_eq!(fits(&p, &plain()), Ok(()));
        assert_eq!(fits(&p, &node(&json!([]), true, "True")), Err(Misfit::Unschedulable));
        assert_eq!(fits(&p, &node(&json!([]), false, "Unknown")), Err(Misfit::Taint));
        for effect in ["NoSchedule", "NoExecute"] {
            assert_eq!(fits(&p, &node(&json!([{"key": "k", "effect": effect}]), false, "True")), Err(Misfit::Taint));
        }
        assert_eq!(fits(&p, &node(&json!([{"key": "k", "effect": "PreferNoSchedule"}]), false, "True")), Ok(()));
    }

    #[test]
    fn tolerations_match_by_key_value_and_effect() {
        let tainted = node(&json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]), false, "True");
        for (toleration, fit) in [
            (json!({"key": "k", "value": "v"}), true),
            (json!({"key": "k", "operator": "Equal", "value": "w"}), false),
            (json!({"key": "k", "operator": "Exists"}), true),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
        ] {
            assert_eq!(fits(&pod(&json!({"tolerations": [toleration]})), &tainted).is_ok(), fit, "{toleration}");
        }
    }

    #[test]
    fn a_daemon_pod_fits_its_node_even_if_that_is_not_ready_or_cordoned() {
        let spec = |name: &str| {
            json!({"tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
                {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}}}})
        };
        let down = node(&json!([]), true, "False");
        assert_eq!(fits(&pod(&spec("node-1")), &down), Ok(()));
        assert_eq!(fits(&pod(&spec("node-2")), &down), Err(Misfit::Affinity));
    }

    #[test]
    fn selectors_and_expressions_are_honoured() {
        let term = |r: Value| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
                [{"matchExpressions": [r]}]}}}})
        };
        for (spec, fit) in [
            (json!({"nodeSelector": {"zone": "z1"}}), true),
            (json!({"nodeSelector": {"zone": "z2"}}), false),
            (term(json!({"key": "zone", "operator": "In", "values": ["z0", "z1"]})), true),
            (term(json!({"key": "zone", "operator": "NotIn", "values": ["z1"]})), false),
            (term(json!({"key": "gpu", "operator": "Exists"})), false),
            (term(json!({"key": "gpu", "operator": "DoesNotExist"})), true),
            (term(json!({"key": "size", "operator": "Gt", "values": ["7"]})), true),
            (term(json!({"key": "size", "operator": "Lt", "values": ["7"]})), false),
        ] {
            assert_eq!(fits(&pod(&spec), &plain()).is_ok(), fit, "{spec}");
        }
    }
}
