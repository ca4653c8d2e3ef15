//! Changes of taints and labels of a node.

use common::intern::Text;
use serde_json::{Map, Value, json};

use super::upkeep::decide::labels;
use crate::{
    objects::Node,
    taints::{self, Cause, TaintChange},
};

/// Why a change of a node is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Pods may stay there again.
    Relieve,
    /// Its taint does not fit its condition any more.
    Swap,
    /// Its turn to be tainted has come.
    Taint,
    /// Its taints and labels follow from its conditions and labels.
    Upkeep,
}

impl Change {
    /// The change that this state of the node needs.
    ///
    /// `is_due`: whether a taint may be added now.
    pub(crate) fn edit(self, node: &Node, is_due: bool) -> Edit {
        let to = |cause: Option<Cause>| cause.map_or_else(TaintChange::default, |cause| taints::to_cause(node, cause));
        let taints = match self {
            Self::Relieve => taints::to_reachable(node),
            Self::Swap => to(Cause::of(node).filter(|cause| taints::has_cause(node, cause.other()))),
            Self::Taint => to(Cause::of(node).filter(|_| is_due)),
            Self::Upkeep => taints::by_condition(node),
        };
        let labels = if self == Self::Upkeep { labels(node) } else { Vec::new() };
        Edit { taints, labels }
    }

    pub(crate) fn doing(self) -> &'static str {
        match self {
            Self::Relieve => "remove the NoExecute taints of",
            Self::Swap => "replace the NoExecute taint of",
            Self::Taint => "add the NoExecute taint to",
            Self::Upkeep => "update taints and labels of",
        }
    }
}

/// A change of a node.
pub(crate) struct Edit {
    taints: TaintChange,
    labels: Vec<(&'static str, Text)>,
}

impl Edit {
    pub(crate) fn is_empty(&self) -> bool {
        self.taints.is_empty() && self.labels.is_empty()
    }

    /// The patch that makes the change.
    pub(crate) fn patch(&self, taints: &[Value], since: &str) -> Value {
        let mut patch = json!({});
        if !self.labels.is_empty() {
            let labels = self.labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
            patch["metadata"]["labels"] = Value::Object(labels.collect::<Map<_, _>>());
        }
        if !self.taints.is_empty() {
            let taints = taints::applied(taints, &self.taints, since);
            patch["spec"]["taints"] = if taints.is_empty() { Value::Null } else { Value::Array(taints) };
        }
        patch
    }
}
