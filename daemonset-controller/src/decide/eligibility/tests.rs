use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::{objects::ParsedPodTemplate, world::decode_trimmed};

fn node(labels: Value, taints: Value) -> std::sync::Arc<Node> {
    decode_trimmed(&json!({"metadata": {"name": "n1", "labels": labels}, "spec": {"taints": taints}}))
}

fn decide_with(spec: &Value, node: &Node, compares: bool) -> Eligibility {
    let template = common::wire::RawMessage::deserialize(json!({"spec": spec})).unwrap();
    decide_eligibility(&ParsedPodTemplate::new(&template).unwrap().placement, node, compares)
}

fn required(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

/// DAEMONSET-12, DAEMONSET-13, DAEMONSET-16.
#[test]
fn node_selectors_and_required_affinities_choose_nodes() {
    let node = node(json!({"zone": "z1", "size": "8", "empty": ""}), json!(null));
    let label = |key: &str, operator: &str, values: Value| {
        required(json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
    };
    let field = |operator: &str, values: Value| {
        required(json!([{"matchFields": [{"key": "metadata.name", "operator": operator, "values": values}]}]))
    };
    for (spec, runs) in [
        (json!({}), true),
        (json!(null), true),
        (json!({"nodeName": "n1"}), true),
        (json!({"nodeName": "n2"}), false),
        (json!({"nodeSelector": {"zone": "z1"}}), true),
        (json!({"nodeSelector": {"zone": "z1", "disk": "ssd"}}), false),
        (json!({"nodeSelector": {"not a key!": "x"}}), false),
        (label("zone", "In", json!(["z0", "z1"])), true),
        (label("zone", "In", json!(["z0"])), false),
        (label("gpu", "In", json!([""])), false),
        (label("zone", "NotIn", json!(["z1"])), false),
        (label("gpu", "NotIn", json!(["x"])), true),
        (label("gpu", "Exists", json!([])), false),
        (label("zone", "Exists", json!(null)), true),
        (label("gpu", "DoesNotExist", json!([])), true),
        (label("size", "Gt", json!(["7"])), true),
        (label("size", "Gt", json!(["8"])), false),
        (label("size", "Lt", json!(["9"])), true),
        (label("zone", "Lt", json!(["9"])), false),
        (label("gpu", "Lt", json!(["9"])), false),
        (field("In", json!(["n1"])), true),
        (field("In", json!(["n2"])), false),
        (field("NotIn", json!(["n1"])), false),
        (field("NotIn", json!(["n2"])), true),
        // Terms that are invalid or have no requirement match no node.
        (required(json!(null)), false),
        (required(json!([])), false),
        (required(json!([{}])), false),
        (required(json!([{"matchExpressions": [], "matchFields": []}])), false),
        (label("zone", "Near", json!(["z1"])), false),
        (label("zone", "In", json!([])), false),
        (label("zone", "Exists", json!(["z1"])), false),
        (label("gpu", "DoesNotExist", json!(["x"])), false),
        (label("size", "Gt", json!(["7", "8"])), false),
        (label("size", "Gt", json!(["seven"])), false),
        (label("zone", "NotIn", json!(["not a value!"])), false),
        (label("not a key!", "DoesNotExist", json!([])), false),
        (field("Exists", json!([])), false),
        (field("NotIn", json!(["n2", "n3"])), false),
        // A node matches if all requirements of one term match.
        (required(json!([{}, {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}])), true),
        (
            required(json!([{"matchExpressions": [{"key": "zone", "operator": "Exists"}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}])),
            false,
        ),
        // Preferred terms and affinities to other Pods have no effect.
        (
            json!({"affinity": {"podAntiAffinity": {"x": 1}, "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": 1, "preference": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}}]}}}),
            true,
        ),
    ] {
        let wanted = if runs { Eligibility::RunsPods } else { Eligibility::RemovesPods };
        assert_eq!(decide_with(&spec, &node, false), wanted, "{spec}");
    }
}

/// DAEMONSET-12, DAEMONSET-14, DAEMONSET-15.
#[test]
fn taints_prevent_new_pods_or_remove_all_pods() {
    use Eligibility::{KeepsPods, RemovesPods, RunsPods};
    let taint = |key: &str, value: &str, effect: &str| json!({"key": key, "value": value, "effect": effect});
    let tolerates = |toleration: Value| json!({"tolerations": [toleration]});
    let key = "node.kubernetes.io/";
    for (spec, taints, wanted) in [
        (json!({}), json!([taint("k", "v", "PreferNoSchedule")]), RunsPods),
        (json!({}), json!([taint("k", "v", "NoSchedule")]), KeepsPods),
        (json!({}), json!([taint("k", "v", "NoExecute")]), RemovesPods),
        (json!({}), json!([taint("k", "v", "NoSchedule"), taint("k", "v", "NoExecute")]), RemovesPods),
        (tolerates(json!({"operator": "Exists"})), json!([taint("k", "v", "NoExecute")]), RunsPods),
        (
            tolerates(json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"})),
            json!([taint("k", "v", "NoExecute")]),
            RemovesPods,
        ),
        (tolerates(json!({"key": "k", "value": "v"})), json!([taint("k", "v", "NoSchedule")]), RunsPods),
        (tolerates(json!({"key": "k", "value": "w"})), json!([taint("k", "v", "NoSchedule")]), KeepsPods),
        (
            tolerates(json!({"key": "k", "value": "v", "tolerationSeconds": 5})),
            json!([taint("k", "v", "NoExecute")]),
            RunsPods,
        ),
        // Every daemon Pod tolerates each of these taints of Kubernetes with one effect only.
        (json!({}), json!([taint(&format!("{key}not-ready"), "", "NoExecute")]), RunsPods),
        (json!({}), json!([taint(&format!("{key}not-ready"), "", "NoSchedule")]), KeepsPods),
        (json!({}), json!([taint(&format!("{key}unreachable"), "", "NoExecute")]), RunsPods),
        (json!({}), json!([taint(&format!("{key}disk-pressure"), "", "NoSchedule")]), RunsPods),
        (json!({}), json!([taint(&format!("{key}memory-pressure"), "", "NoSchedule")]), RunsPods),
        (json!({}), json!([taint(&format!("{key}pid-pressure"), "", "NoSchedule")]), RunsPods),
        (json!({}), json!([taint(&format!("{key}unschedulable"), "", "NoSchedule")]), RunsPods),
        (json!({}), json!([taint(&format!("{key}network-unavailable"), "", "NoSchedule")]), KeepsPods),
        (
            json!({"hostNetwork": true}),
            json!([taint(&format!("{key}network-unavailable"), "", "NoSchedule")]),
            RunsPods,
        ),
    ] {
        assert_eq!(decide_with(&spec, &node(json!({}), taints.clone()), false), wanted, "{spec} {taints}");
    }
}

/// DAEMONSET-86.
#[test]
fn tolerations_compare_numbers_with_the_gate() {
    let spec = json!({"tolerations": [{"key": "level", "operator": "Lt", "value": "10"}]});
    for (value, compares, wanted) in [
        ("9", true, Eligibility::RunsPods),
        ("10", true, Eligibility::KeepsPods),
        ("x", true, Eligibility::KeepsPods),
        ("9", false, Eligibility::KeepsPods),
    ] {
        let node = node(json!({}), json!([{"key": "level", "value": value, "effect": "NoSchedule"}]));
        assert_eq!(decide_with(&spec, &node, compares), wanted, "{value} {compares}");
    }
}

/// DAEMONSET-17.
#[test]
fn a_specification_of_the_wrong_kind_is_an_error() {
    for spec in
        [json!([]), json!({"nodeSelector": 7}), json!({"tolerations": [3]}), json!({"affinity": {"nodeAffinity": 7}})]
    {
        let template = common::wire::RawMessage::deserialize(json!({"spec": spec})).unwrap();
        assert!(ParsedPodTemplate::new(&template).unwrap_err().starts_with("spec.template.spec"), "{spec}");
    }
}
