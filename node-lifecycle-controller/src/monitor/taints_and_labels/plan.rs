//! The plan for one node: changes of its `NoSchedule` taints and copied labels.

use common::{controller::SyncPlan, intern::Text};

use crate::taints::TaintChange;

/// Changes that one sync makes to a node, with texts for explanations.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Changes of `NoSchedule` taints.
    pub(crate) taint_change: TaintChange,
    /// Labels to set, with their values.
    pub(crate) labels_to_set: Vec<(&'static str, Text)>,
    /// Text for `/debug/explain`: the condition `Ready`, the last heartbeat, and the state of the zone.
    pub(crate) node_description: String,
    /// Lines for `/debug/explain`: the wait for a taint, the time without decisions about nodes, and the last failed change.
    pub(crate) taint_wait_and_failure_lines: Vec<String>,
}

impl Plan {
    /// Whether the sync writes the node; false if neither taints nor labels change.
    pub(crate) fn has_taint_or_label_changes(&self) -> bool {
        !self.taint_change.is_empty() || !self.labels_to_set.is_empty()
    }

    /// Returns one line for each taint to add or remove and each label to set.
    pub(crate) fn taint_and_label_change_lines(&self) -> Vec<String> {
        let labels = self.labels_to_set.iter().map(|(key, value)| format!("set label {key} to {value}"));
        self.taint_change.description_lines().chain(labels).collect()
    }
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        self.node_description.clone()
    }

    fn wait_reasons(&self) -> Vec<String> {
        self.taint_wait_and_failure_lines.clone()
    }
}
