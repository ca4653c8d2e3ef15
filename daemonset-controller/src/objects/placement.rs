//! What a Pod template says about the nodes on which its Pods may run.

use common::{
    intern::{Labels, Text},
    selector::{is_label_key, is_label_value},
    taints::{NO_EXECUTE, NO_SCHEDULE, Toleration},
};
use serde::Deserialize;
use serde_json::Value;

/// Taints of nodes that every daemon Pod tolerates, with their effects, in the order in which Pods get the tolerations.
///
/// Upstream: `pkg/controller/daemon/util`, `AddOrUpdateDaemonPodTolerations`.
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
];
/// The same for Pods that use the network of their node.
const TOLERATED_ON_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE);

/// Where the Pods of a template may run.
#[derive(Debug, PartialEq, Eq)]
pub struct Placement {
    /// The only node, if the template names one; empty otherwise.
    pub node_name: Text,
    /// Labels that a node must have.
    pub node_selector: Labels,
    /// Terms of the required node affinity, one of which must match; `None` without a required node affinity.
    pub terms: Option<Vec<Term>>,
    /// What the Pods tolerate: the template's tolerations, and those that every daemon Pod gets.
    pub tolerations: Vec<Toleration>,
    /// Whether the Pods use the network of their node.
    pub host_network: bool,
    /// How many comparisons with a node it takes at most.
    size: usize,
}

/// A term of a required node affinity.
#[derive(Debug, PartialEq, Eq)]
pub enum Term {
    /// It has no requirement, or one that breaks the rules: no node matches.
    Never,
    /// Every requirement must be met.
    All {
        /// Requirements on labels.
        labels: Vec<LabelRequirement>,
        /// Requirements on fields.
        fields: Vec<FieldRequirement>,
    },
}

/// A requirement on a label of a node.
#[derive(Debug, PartialEq, Eq)]
pub enum LabelRequirement {
    /// The label has one of these values.
    In(Text, Vec<Text>),
    /// The label has none of these values, or does not exist.
    NotIn(Text, Vec<Text>),
    /// The label exists.
    Exists(Text),
    /// The label does not exist.
    DoesNotExist(Text),
    /// The label is an integer greater than this.
    Gt(Text, i64),
    /// The label is an integer less than this.
    Lt(Text, i64),
}

/// A requirement on a field of a node. The only field that is known is `metadata.name`; every other one is empty.
#[derive(Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The name of the field.
    pub field: Text,
    /// Its value.
    pub value: Text,
    /// Whether the field must have the value, or must not have it.
    pub equal: bool,
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
struct Affinity {
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
struct WireTerm {
    match_expressions: Option<Vec<Requirement>>,
    match_fields: Option<Vec<Requirement>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Requirement {
    key: Text,
    operator: Text,
    values: Option<Vec<Text>>,
}

impl Placement {
    /// Reads the specification of a Pod template. The error says what the API server's validation would have refused.
    pub fn new(spec: &Value) -> Result<Self, String> {
        let wire = Option::<Wire>::deserialize(spec).map_err(|error| format!("spec.template.spec: {error}"))?;
        let wire = wire.unwrap_or_default();
        let required = wire.affinity.and_then(|affinity| affinity.node_affinity);
        let required = required.and_then(|node| node.required_during_scheduling_ignored_during_execution);
        let host_network = wire.host_network.unwrap_or(false);
        let mut tolerations = wire.tolerations.unwrap_or_default();
        tolerations.extend(automatic_tolerations(host_network).map(|(key, effect)| Toleration {
            key: key.into(),
            operator: "Exists".into(),
            effect: effect.into(),
            ..Toleration::default()
        }));
        let node_selector = wire.node_selector.unwrap_or_default();
        let terms: Option<Vec<Term>> =
            required.map(|required| required.node_selector_terms.unwrap_or_default().iter().map(Term::new).collect());
        let of_terms = terms.iter().flatten().map(Term::size).sum::<usize>();
        let size = 1 + node_selector.iter().count() + tolerations.len() + of_terms;
        Ok(Self { node_name: wire.node_name, node_selector, terms, tolerations, host_network, size })
    }

    /// How many comparisons of its parts a comparison with one node takes at most.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// With how many nodes it can be compared in that many comparisons of its parts; at least one.
    pub(crate) fn nodes_in(&self, comparisons: usize) -> usize {
        (comparisons / self.size).max(1)
    }
}

/// Key and effect of the tolerations that every daemon Pod gets.
pub(crate) fn automatic_tolerations(host_network: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    TOLERATED.iter().copied().chain(host_network.then_some(TOLERATED_ON_HOST_NETWORK))
}

impl Term {
    /// How many comparisons with a node it takes at most.
    fn size(&self) -> usize {
        match self {
            Self::Never => 1,
            Self::All { labels, fields } => 1 + fields.len() + labels.iter().map(LabelRequirement::size).sum::<usize>(),
        }
    }

    fn new(term: &WireTerm) -> Self {
        let labels = term.match_expressions.as_deref().unwrap_or_default();
        let fields = term.match_fields.as_deref().unwrap_or_default();
        let labels: Option<Vec<_>> = labels.iter().map(LabelRequirement::new).collect();
        let fields: Option<Vec<_>> = fields.iter().map(FieldRequirement::new).collect();
        match (labels, fields) {
            (Some(labels), Some(fields)) if !labels.is_empty() || !fields.is_empty() => Self::All { labels, fields },
            _ => Self::Never,
        }
    }
}

impl LabelRequirement {
    fn size(&self) -> usize {
        match self {
            Self::In(_, values) | Self::NotIn(_, values) => 1 + values.len(),
            Self::Exists(_) | Self::DoesNotExist(_) | Self::Gt(..) | Self::Lt(..) => 1,
        }
    }

    /// `None` if the requirement breaks the rules. Upstream: `apimachinery/pkg/labels`, `NewRequirement`.
    fn new(wire: &Requirement) -> Option<Self> {
        let key = wire.key.clone();
        let values = wire.values.as_deref().unwrap_or_default();
        if !is_label_key(&key) || !values.iter().all(|value| is_label_value(value)) {
            return None;
        }
        let number = || match values {
            [only] => only.parse().ok(),
            _ => None,
        };
        match wire.operator.as_str() {
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
    /// `None` if the requirement breaks the rules.
    fn new(wire: &Requirement) -> Option<Self> {
        let equal = match wire.operator.as_str() {
            "In" => true,
            "NotIn" => false,
            _ => return None,
        };
        match wire.values.as_deref() {
            Some([only]) => Some(Self { field: wire.key.clone(), value: only.clone(), equal }),
            _ => None,
        }
    }
}
