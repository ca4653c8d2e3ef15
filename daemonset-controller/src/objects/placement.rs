//! The requirements of a Pod template on nodes.

use common::{
    intern::Labels,
    prelude::*,
    selector::{is_label_key, is_label_value},
    taints::{NO_EXECUTE, NO_SCHEDULE, Toleration},
};
use serde::Deserialize;
use serde_json::Value;

/// Key and effect of the taints that every daemon Pod tolerates, in the order of the added tolerations.
///
/// Upstream: `pkg/controller/daemon/util`, `AddOrUpdateDaemonPodTolerations`.
const TOLERATED_TAINTS: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
];
/// Key and effect of the taint that Pods with `hostNetwork` tolerate in addition.
const TAINT_TOLERATED_ON_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE);

/// The requirements of a Pod template on nodes, and the taints that its Pods tolerate.
#[derive(Debug, PartialEq, Eq)]
pub struct NodePlacement {
    /// `spec.nodeName` of the template; empty if the template names no node.
    pub node_name: Text,
    /// `spec.nodeSelector` of the template: the labels that a node must have.
    pub node_selector: Labels,
    /// The terms of the required node affinity. One of them must match; `None` without a required node affinity.
    pub affinity_terms: Option<Vec<NodeSelectorTerm>>,
    /// The tolerations of the template, and the tolerations that every daemon Pod gets.
    pub tolerations: Vec<Toleration>,
    /// Greatest number of values that are compared to decide about one node.
    pub(crate) comparison_cost: usize,
}

/// A term of a required node affinity.
#[derive(Debug, PartialEq, Eq)]
pub enum NodeSelectorTerm {
    /// The term has no requirement or an invalid requirement, so no node matches.
    MatchesNoNode,
    /// A node matches if it meets every requirement.
    AllRequirements {
        /// The requirements on labels (`matchExpressions`).
        labels: Vec<LabelRequirement>,
        /// The requirements on fields (`matchFields`).
        fields: Vec<FieldRequirement>,
    },
}

/// A requirement on a label of a node. The first value of each variant is the key of the label.
#[derive(Debug, PartialEq, Eq)]
pub enum LabelRequirement {
    /// The label has one of these values.
    In(Text, Vec<Text>),
    /// The label has none of these values, or does not exist.
    NotIn(Text, Vec<Text>),
    /// The node has the label, with any value.
    Exists(Text),
    /// The node does not have the label.
    DoesNotExist(Text),
    /// The value of the label is an integer greater than this number.
    Gt(Text, i64),
    /// The value of the label is an integer less than this number.
    Lt(Text, i64),
}

/// A requirement on a field of a node. Only `metadata.name` has a value; every other field counts as empty.
#[derive(Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The path of the field, for example `metadata.name`.
    pub field: Text,
    /// The value to compare with the field.
    pub value: Text,
    /// True for `In`: the field must have the value. False for `NotIn`: the field must not have it.
    pub must_equal: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    node_name: Text,
    node_selector: Option<Labels>,
    affinity: Option<Affinity>,
    tolerations: Option<Vec<Toleration>>,
    host_network: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector {
    node_selector_terms: Option<Vec<WireTerm>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireTerm {
    match_expressions: Option<Vec<Requirement>>,
    pub(super) match_fields: Option<Vec<Requirement>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Requirement {
    pub(super) key: Text,
    pub(super) operator: Text,
    pub(super) values: Option<Vec<Text>>,
}

impl Affinity {
    /// Returns the terms of the required node affinity; `None` without a required node affinity.
    pub(super) fn required_terms(&self) -> Option<&[WireTerm]> {
        let required = self.node_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref()?;
        Some(required.node_selector_terms.as_deref().unwrap_or_default())
    }
}

impl NodePlacement {
    /// Parses the `spec` of a Pod template. The error names a value that the API server's validation refuses.
    pub fn new(spec: &Value) -> Result<Self, String> {
        let wire = Option::<Wire>::deserialize(spec).map_err(|error| format!("spec.template.spec: {error}"))?;
        let wire = wire.unwrap_or_default();
        let host_network = wire.host_network.unwrap_or(false);
        let mut tolerations = wire.tolerations.unwrap_or_default();
        tolerations.extend(automatic_tolerations(host_network).map(|(key, effect)| Toleration {
            key: key.into(),
            operator: "Exists".into(),
            effect: effect.into(),
            ..Toleration::default()
        }));
        let node_selector = wire.node_selector.unwrap_or_default();
        let terms = wire.affinity.as_ref().and_then(Affinity::required_terms);
        let terms: Option<Vec<_>> = terms.map(|terms| terms.iter().map(NodeSelectorTerm::new).collect());
        let of_terms = terms.iter().flatten().map(NodeSelectorTerm::comparison_cost).sum::<usize>();
        let comparison_cost = 1 + node_selector.iter().count() + tolerations.len() + of_terms;
        Ok(Self { node_name: wire.node_name, node_selector, affinity_terms: terms, tolerations, comparison_cost })
    }

    /// Returns the number of nodes with an eligibility that this number of comparisons can decide; at least 1.
    pub(crate) fn max_nodes_for_comparison_budget(&self, comparisons: usize) -> usize {
        (comparisons / self.comparison_cost).max(1)
    }
}

/// Returns key and effect of the tolerations that the controller adds to each daemon Pod. Their operator is `Exists`.
pub(crate) fn automatic_tolerations(host_network: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    TOLERATED_TAINTS.iter().copied().chain(host_network.then_some(TAINT_TOLERATED_ON_HOST_NETWORK))
}

impl NodeSelectorTerm {
    fn comparison_cost(&self) -> usize {
        match self {
            Self::MatchesNoNode => 1,
            Self::AllRequirements { labels, fields } => {
                1 + fields.len() + labels.iter().map(LabelRequirement::comparison_cost).sum::<usize>()
            }
        }
    }

    fn new(term: &WireTerm) -> Self {
        let labels = term.match_expressions.as_deref().unwrap_or_default();
        let fields = term.match_fields.as_deref().unwrap_or_default();
        let labels: Option<Vec<_>> = labels.iter().map(LabelRequirement::new).collect();
        let fields: Option<Vec<_>> = fields.iter().map(FieldRequirement::new).collect();
        match (labels, fields) {
            (Some(labels), Some(fields)) if !labels.is_empty() || !fields.is_empty() => {
                Self::AllRequirements { labels, fields }
            }
            _ => Self::MatchesNoNode,
        }
    }
}

impl LabelRequirement {
    fn comparison_cost(&self) -> usize {
        match self {
            Self::In(_, values) | Self::NotIn(_, values) => 1 + values.len(),
            Self::Exists(_) | Self::DoesNotExist(_) | Self::Gt(..) | Self::Lt(..) => 1,
        }
    }

    /// Parses a requirement on a label; `None` if it is invalid. Upstream: `apimachinery/pkg/labels`, `NewRequirement`.
    fn new(requirement: &Requirement) -> Option<Self> {
        let key = requirement.key.clone();
        let values = requirement.values.as_deref().unwrap_or_default();
        if !is_label_key(&key) || !values.iter().all(|value| is_label_value(value)) {
            return None;
        }
        let number = || match values {
            [only] => only.parse().ok(),
            _ => None,
        };
        match requirement.operator.as_str() {
            "In" if !values.is_empty() => Some(Self::In(key, values.to_vec())),
            "NotIn" if !values.is_empty() => Some(Self::NotIn(key, values.to_vec())),
            "Exists" if values.is_empty() => Some(Self::Exists(key)),
            "DoesNotExist" if values.is_empty() => Some(Self::DoesNotExist(key)),
            "Gt" => Some(Self::Gt(key, number()?)),
            "Lt" => Some(Self::Lt(key, number()?)),
            _ => None,
        }
    }
}

impl FieldRequirement {
    /// Parses a requirement on a field; `None` if the operator is not `In` or `NotIn`, or if there is not exactly one value.
    fn new(requirement: &Requirement) -> Option<Self> {
        let equal = match requirement.operator.as_str() {
            "In" => true,
            "NotIn" => false,
            _ => return None,
        };
        match requirement.values.as_deref() {
            Some([only]) => Some(Self { field: requirement.key.clone(), value: only.clone(), must_equal: equal }),
            _ => None,
        }
    }
}
