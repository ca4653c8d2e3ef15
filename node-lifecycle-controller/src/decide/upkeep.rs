//! What follows from the conditions and labels of a node at any time: `NoSchedule` taints, and copies of labels under their
//! older names.

use std::{sync::Arc, time::Duration};

use common::{controller::Explain, duration, intern::Text};

use jiff::Timestamp;

use crate::objects::Node;

use super::{
    taints::{self, TaintChange},
    zones::ZoneState,
};

/// Labels and the older names that they are copied to.
const COPIES: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// A change of a node that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was attempted, and what went wrong.
    pub error: String,
    /// When that was.
    pub at: Timestamp,
}

/// What the monitor knows of a node, for explanations.
#[derive(Clone, Debug)]
pub struct Standing {
    /// How long ago the last sign of life was seen.
    pub heard_ago: Duration,
    /// The time until the node counts as silent; none if it does, or if nothing depends on it.
    pub silent_in: Option<Duration>,
    /// How long the node has waited for a `NoExecute` taint.
    pub waiting: Option<Duration>,
    /// The state of its zone.
    pub zone: ZoneState,
    /// How long the monitor has not seen what nodes do.
    pub blind_for: Option<Duration>,
    /// The last change of the node that failed, if it is still necessary.
    pub failure: Option<Arc<Failure>>,
}

/// Everything one sync of a node may look at.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The newest known state of the node.
    pub node: Arc<Node>,
    /// What the monitor knows of it.
    pub standing: Standing,
}

/// What one sync of a node changes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The `NoSchedule` taints.
    pub taints: TaintChange,
    /// Labels to set.
    pub labels: Vec<(&'static str, Text)>,
    situation: String,
    waiting: Vec<String>,
}

/// The copies of labels that are missing or differ. Upstream: `reconcileNodeLabels`.
pub(crate) fn labels(node: &Node) -> Vec<(&'static str, Text)> {
    let labels = &node.metadata.labels;
    let copy = |(source, copy): (&str, &'static str)| {
        let value = labels.get(source)?;
        (labels.get(copy) != Some(value)).then(|| (copy, Text::new(value)))
    };
    COPIES.into_iter().filter_map(copy).collect()
}

/// Whether there is anything to change.
pub(crate) fn is_needed(node: &Node) -> bool {
    !taints::by_condition(node).is_empty() || !labels(node).is_empty()
}

/// Decides about one node.
pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    let Snapshot { node, standing } = snapshot;
    let Standing { heard_ago, silent_in, waiting, zone, blind_for, failure } = standing;
    let seconds = |time: Duration| duration::format(Duration::from_secs(time.as_secs()));
    let silent_in = silent_in.map_or_else(String::new, |time| format!(", silent in {}", seconds(time)));
    let situation = format!(
        "Ready is {}, last sign of life {} ago, its zone is in state {}{silent_in}",
        node.ready().as_str(),
        seconds(*heard_ago),
        zone.as_str()
    );
    let mut lines = Vec::new();
    if let Some(waiting) = waiting {
        lines.push(format!(
            "it has waited {} for the rate limit of its zone, to be tainted NoExecute",
            seconds(*waiting)
        ));
    }
    if let Some(blind_for) = blind_for {
        lines.push(format!("nodes are not judged: blind since {} ago", seconds(*blind_for)));
    }
    if let Some(failure) = failure {
        lines.push(format!("the last change failed at {}: {}", failure.at, failure.error));
    }
    Plan { taints: taints::by_condition(node), labels: labels(node), situation, waiting: lines }
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn copies(node_labels: Value) -> Vec<String> {
        let node = json!({"metadata": {"name": "n", "labels": node_labels}});
        let node: Node = serde_json::from_str(&node.to_string()).unwrap();
        labels(&node).into_iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    #[test]
    fn labels_are_copied_to_their_older_names() {
        let none = Vec::<String>::new();
        assert_eq!(copies(json!({})), none);
        assert_eq!(copies(json!({"beta.kubernetes.io/os": "linux"})), none, "nothing to copy from");
        assert_eq!(copies(json!({"kubernetes.io/os": "linux"})), ["beta.kubernetes.io/os=linux"]);
        assert_eq!(
            copies(
                json!({"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows", "kubernetes.io/arch": "arm64"})
            ),
            ["beta.kubernetes.io/os=linux", "beta.kubernetes.io/arch=arm64"]
        );
        assert_eq!(copies(json!({"kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "arm64"})), none);
    }
}
