//! Computes changes of the taints and labels of a node, and their patches.

use common::intern::Text;
use serde_json::{Map, Value, json};

use super::upkeep::decide::labels;
use crate::{
    objects::Node,
    taints::{self, Cause, TaintChange},
};

/// Purpose of a change of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Removes the `NoExecute` taints, so that Pods may stay.
    Relieve,
    /// Replaces a `NoExecute` taint that no longer fits the condition `Ready`.
    Swap,
    /// Adds the `NoExecute` taint of a node that has waited for it.
    Taint,
    /// Updates the taints and labels that follow from the conditions and labels of the node.
    Upkeep,
}

impl Change {
    /// Returns the taints and labels to change for this purpose in this state of the node.
    ///
    /// `is_due` is true if a `NoExecute` taint may be added now.
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

/// Taints and labels that a change modifies.
pub(crate) struct Edit {
    taints: TaintChange,
    labels: Vec<(&'static str, Text)>,
}

impl Edit {
    pub(crate) fn is_empty(&self) -> bool {
        self.taints.is_empty() && self.labels.is_empty()
    }

    /// Returns the strategic merge patch of the edit. `taints` is the current list, `since` the time of added taints.
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
