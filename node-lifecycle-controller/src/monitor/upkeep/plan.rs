//! What changes of a node at any time.

use common::{controller::Explain, intern::Text};

use crate::taints::TaintChange;

/// What one sync of a node changes.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The `NoSchedule` taints.
    pub(crate) taints: TaintChange,
    /// Labels to set.
    pub(crate) labels: Vec<(&'static str, Text)>,
    /// The situation in words.
    pub(crate) situation: String,
    /// What is waited for.
    pub(crate) waiting: Vec<String>,
}

impl Plan {
    /// Whether there is anything to change.
    pub(crate) fn is_needed(&self) -> bool {
        !self.taints.is_empty() || !self.labels.is_empty()
    }

    /// The changes, in words.
    pub(crate) fn changes(&self) -> Vec<String> {
        let labels = self.labels.iter().map(|(key, value)| format!("set label {key} to {value}"));
        self.taints.lines().chain(labels).collect()
    }
}

impl Explain for Plan {
    fn situation(&self) -> String {
        self.situation.clone()
    }

    fn waiting(&self) -> Vec<String> {
        self.waiting.clone()
    }
}
