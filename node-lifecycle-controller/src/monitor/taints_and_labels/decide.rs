//! Decides which `NoSchedule` taints a node needs by its conditions, and which labels are copied to their older names. Pure
//! code: no requests, no clock, no randomness.

use std::{sync::Arc, time::Duration};

use common::{duration, prelude::*};
use jiff::Timestamp;

use crate::{disruption::ZoneState, objects::Node, taints};

/// A failed change of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeChangeFailure {
    /// Description of the attempted change, followed by its error.
    pub(crate) error: String,
    pub(crate) failed_at: Timestamp,
}

/// The state of a node, and the monitor's facts about the node for explanations.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The state of the node in the cache or in a later answer of the server.
    pub(crate) node: Arc<Node>,
    /// Age of the newest heartbeat of the node at the time of the snapshot.
    pub(crate) time_since_last_heartbeat: Duration,
    /// Rest of the grace period; `None` if it has passed or the condition `Ready` is already `Unknown`.
    pub(crate) remaining_grace_period: Option<Duration>,
    /// Time for which the node has waited for a `NoExecute` taint; `None` if it does not wait.
    pub(crate) time_waited_for_taint: Option<Duration>,
    /// State of the node's zone, which decides the rate of `NoExecute` taints.
    pub(crate) zone_state: ZoneState,
    /// Time for which passes have made no decisions about nodes; `None` if they make decisions.
    pub(crate) outage_duration: Option<Duration>,
    /// The last failed change of the node, if the change is still necessary.
    pub(crate) last_change_failure: Option<Arc<NodeChangeFailure>>,
}

/// Changes that one sync makes to a node, with texts for explanations.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// One line for each taint to add or remove and each label to set; empty if the sync does not write the node.
    pub(crate) change_lines: Vec<String>,
    /// Text for `/debug/explain`: the condition `Ready`, the last heartbeat, and the state of the zone.
    pub(crate) node_description: String,
    /// Lines for `/debug/explain`: the wait for a taint, the time without decisions about nodes, and the last failed change.
    pub(crate) taint_wait_and_failure_lines: Vec<String>,
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        self.node_description.clone()
    }

    fn wait_reasons(&self) -> Vec<String> {
        self.taint_wait_and_failure_lines.clone()
    }
}

/// Names of labels, each with the older name to which the value is copied.
const COPIED_LABELS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// Returns the copies of labels that are missing or wrong, with the right values. Upstream: `reconcileNodeLabels`.
pub(crate) fn outdated_label_copies(node: &Node) -> Vec<(&'static str, Text)> {
    let labels = &node.metadata.labels;
    let copy = |(source, copy): (&str, &'static str)| {
        let value = labels.get(source)?;
        (labels.get(copy) != Some(value)).then(|| (copy, Text::new(value)))
    };
    COPIED_LABELS.into_iter().filter_map(copy).collect()
}

/// Whether `NoSchedule` taints or copied labels of the node need a change.
pub(crate) fn needs_taint_or_label_change(node: &Node) -> bool {
    !taints::no_schedule_taint_change(node).is_empty() || !outdated_label_copies(node).is_empty()
}

/// Decides which `NoSchedule` taints and copied labels of a node change, and describes the node for explanations.
pub(crate) fn decide(snapshot: &Snapshot) -> Plan {
    let node = &snapshot.node;
    let seconds = |time: Duration| duration::format(Duration::from_secs(time.as_secs()));
    let grace_period =
        snapshot.remaining_grace_period.map_or_else(String::new, |time| format!(", silent in {}", seconds(time)));
    let node_description = format!(
        "Ready is {}, last heartbeat {} ago, its zone is in state {}{grace_period}",
        node.ready_status().as_str(),
        seconds(snapshot.time_since_last_heartbeat),
        snapshot.zone_state.as_str()
    );
    let wait = snapshot.time_waited_for_taint.map(|time| {
        format!("it has waited {} for the rate limit of its zone before it gets a NoExecute taint", seconds(time))
    });
    let outage = snapshot.outage_duration.map(|time| format!("nodes are not judged: blind for {}", seconds(time)));
    let failure = snapshot.last_change_failure.as_ref();
    let failure = failure.map(|failure| format!("the last change failed at {}: {}", failure.failed_at, failure.error));
    let labels = outdated_label_copies(node).into_iter().map(|(key, value)| format!("set label {key} to {value}"));
    Plan {
        change_lines: taints::no_schedule_taint_change(node).description_lines().chain(labels).collect(),
        node_description,
        taint_wait_and_failure_lines: [wait, outage, failure].into_iter().flatten().collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::world::node;

    fn copies(node_labels: Value) -> Vec<String> {
        outdated_label_copies(&node("n", json!({"metadata": {"labels": node_labels}})))
            .into_iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    }

    /// NODE-29.
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
