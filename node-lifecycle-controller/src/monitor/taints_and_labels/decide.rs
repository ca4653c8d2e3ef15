//! The decision which `NoSchedule` taints a node needs by its conditions, and which labels are copied to their older names.

use std::time::Duration;

use common::{duration, intern::Text};

use super::{
    plan::Plan,
    snapshot::{NodeFacts, Snapshot},
};
use crate::{objects::Node, taints};

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
    let Snapshot { node, node_facts: standing } = snapshot;
    let NodeFacts {
        time_since_last_heartbeat: heard_ago,
        remaining_grace_period: silent_in,
        time_waited_for_taint: waiting,
        zone_state: zone,
        outage_duration: blind_for,
        last_change_failure: failure,
    } = standing;
    let seconds = |time: Duration| duration::format(Duration::from_secs(time.as_secs()));
    let silent_in = silent_in.map_or_else(String::new, |time| format!(", silent in {}", seconds(time)));
    let situation = format!(
        "Ready is {}, last heartbeat {} ago, its zone is in state {}{silent_in}",
        node.ready_status().as_str(),
        seconds(*heard_ago),
        zone.as_str()
    );
    let mut lines = Vec::new();
    if let Some(waiting) = waiting {
        lines.push(format!(
            "it has waited {} for the rate limit of its zone before it gets a NoExecute taint",
            seconds(*waiting)
        ));
    }
    if let Some(blind_for) = blind_for {
        lines.push(format!("nodes are not judged: blind for {}", seconds(*blind_for)));
    }
    if let Some(failure) = failure {
        lines.push(format!("the last change failed at {}: {}", failure.failed_at, failure.error));
    }
    Plan {
        taint_change: taints::no_schedule_taint_change(node),
        labels_to_set: outdated_label_copies(node),
        node_description: situation,
        taint_wait_and_failure_lines: lines,
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
