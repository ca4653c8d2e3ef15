//! Computes changes of the taints and labels of a node, and their patches.

use common::prelude::Text;
use serde_json::{Map, Value, json};

use super::taints_and_labels::decide::outdated_label_copies;
use crate::{
    objects::Node,
    taints::{self, TaintCause, TaintChange},
};

/// Purpose of a change of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeChange {
    /// Removes the `NoExecute` taints, so that the Pods of the node are not evicted.
    RemoveNoExecute,
    /// Replaces a `NoExecute` taint that no longer fits the condition `Ready`.
    ReplaceNoExecute,
    /// Adds the `NoExecute` taint of a node that has waited for it.
    AddNoExecute,
    /// Updates the taints and labels that follow from the conditions and labels of the node.
    SyncTaintsAndLabels,
}

impl NodeChange {
    /// Returns the taints and labels to change for this purpose, given the state of the node.
    ///
    /// `is_due` is true if a `NoExecute` taint may be added now.
    pub(crate) fn required_edit(self, node: &Node, is_due: bool) -> TaintAndLabelEdit {
        let to = |cause: Option<TaintCause>| {
            cause.map_or_else(TaintChange::default, |cause| taints::change_to_taint_of_cause(node, cause))
        };
        let taints = match self {
            Self::RemoveNoExecute => taints::removal_of_monitor_taints(node),
            Self::ReplaceNoExecute => {
                to(TaintCause::for_node(node).filter(|cause| taints::has_taint_of_cause(node, cause.opposite())))
            }
            Self::AddNoExecute => to(TaintCause::for_node(node).filter(|_| is_due)),
            Self::SyncTaintsAndLabels => taints::no_schedule_taint_change(node),
        };
        let labels = if self == Self::SyncTaintsAndLabels { outdated_label_copies(node) } else { Vec::new() };
        TaintAndLabelEdit { taints, labels }
    }

    pub(crate) fn request_reason(self) -> &'static str {
        match self {
            Self::RemoveNoExecute => "remove the NoExecute taints of",
            Self::ReplaceNoExecute => "replace the NoExecute taint of",
            Self::AddNoExecute => "add the NoExecute taint to",
            Self::SyncTaintsAndLabels => "update taints and labels of",
        }
    }
}

/// Taints and labels that a change modifies.
pub(crate) struct TaintAndLabelEdit {
    taints: TaintChange,
    labels: Vec<(&'static str, Text)>,
}

impl TaintAndLabelEdit {
    pub(crate) fn is_empty(&self) -> bool {
        self.taints.is_empty() && self.labels.is_empty()
    }

    /// Returns the strategic merge patch of the edit. `taints` is the current list, `since` the time of added taints.
    pub(crate) fn merge_patch(&self, taints: &[Value], since: &str) -> Value {
        let mut patch = json!({});
        if !self.labels.is_empty() {
            let labels = self.labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
            patch["metadata"]["labels"] = Value::Object(labels.collect::<Map<_, _>>());
        }
        if !self.taints.is_empty() {
            let taints = taints::apply_taint_change(taints, &self.taints, since);
            patch["spec"]["taints"] = if taints.is_empty() { Value::Null } else { Value::Array(taints) };
        }
        patch
    }
}
