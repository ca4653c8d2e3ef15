//! Decides which DaemonSets a change of a node concerns.

use common::{explain::BoundedLines, prelude::*};

use crate::snapshot::nodes::Eligibility;

/// The eligibility of a changed node for one DaemonSet, before and after the change.
#[derive(Clone, Debug)]
pub(crate) struct NodeChangeForSet {
    pub(crate) daemon_set_key: NamespacedName,
    /// The eligibility of the node at the last sync; `None` if the node neither needed nor had a Pod of the DaemonSet.
    pub(crate) eligibility_before: Option<Eligibility>,
    /// The present eligibility of the node; `None` if the placement of the DaemonSet is too large to be compared in this loop.
    pub(crate) eligibility_now: Option<Eligibility>,
    /// Whether the DaemonSet has Pods on the node, including terminating Pods.
    pub(crate) has_pods_on_node: bool,
    /// Whether `status.numberMisscheduled` of the DaemonSet is above zero, on any node.
    pub(crate) has_misscheduled_pods: bool,
}

/// The DaemonSets to sync after a change of a node.
#[derive(Clone, Debug)]
pub(crate) struct AffectedDaemonSets {
    pub(crate) daemon_set_keys: Vec<NamespacedName>,
    /// Number of DaemonSets with a node index, for the explanation.
    pub(crate) indexed_set_count: usize,
}

impl SyncPlan for AffectedDaemonSets {
    fn situation(&self) -> String {
        format!("the node concerns {} of {} DaemonSets", self.daemon_set_keys.len(), self.indexed_set_count)
    }

    fn actions(&self) -> Vec<String> {
        let mut lines = BoundedLines::default();
        self.daemon_set_keys.iter().for_each(|key| lines.push(|| format!("sync {key}")));
        lines.into_vec()
    }

    fn is_notable(&self) -> bool {
        !self.daemon_set_keys.is_empty()
    }
}

/// Returns the DaemonSets that must be synced after a change of a node.
pub(crate) fn decide(changes: &[NodeChangeForSet]) -> AffectedDaemonSets {
    let affected = changes.iter().filter(|change| change.is_affected());
    AffectedDaemonSets {
        daemon_set_keys: affected.map(|change| change.daemon_set_key.clone()).collect(),
        indexed_set_count: changes.len(),
    }
}

impl NodeChangeForSet {
    /// Whether the DaemonSet must be synced after the change of the node. Upstream: `pkg/controller/daemon`, `syncNodeUpdate`.
    ///
    /// Upstream does not sync when a node leaves the cache, or when a node with a Pod ceases to count as desired. If the
    /// placement was not compared with the node, the result is true, and the sync of the DaemonSet compares them.
    fn is_affected(&self) -> bool {
        let Some(now) = self.eligibility_now else { return true };
        let counted = self.eligibility_before.unwrap_or(Eligibility::RemovesPods);
        let changed = counted != now && (self.has_pods_on_node || counted.should_run() || now.should_run());
        changed
            || (now.should_run() && !self.has_pods_on_node)
            || (!now.should_continue_running() && self.has_pods_on_node && now != Eligibility::NodeDeleted)
            || (self.has_pods_on_node && self.has_misscheduled_pods)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Eligibility::{KeepsPods, NodeDeleted, RemovesPods, RunsPods};

    /// DAEMONSET-9, DAEMONSET-73.
    #[test]
    fn a_set_is_synced_if_the_node_may_change_its_pods_or_counts() {
        for (before, now, scheduled, misscheduled, affected) in [
            // In these cases, upstream decides the same.
            (None, RunsPods, false, false, true),
            (None, RemovesPods, false, false, false),
            (Some(RunsPods), RunsPods, true, false, false),
            (Some(RunsPods), RemovesPods, true, false, true),
            (Some(RunsPods), RunsPods, true, true, true),
            (Some(KeepsPods), KeepsPods, true, true, true),
            (Some(KeepsPods), KeepsPods, true, false, false),
            // In these cases, upstream does not sync the DaemonSet until another event.
            (Some(RunsPods), KeepsPods, true, false, true),
            (Some(KeepsPods), RunsPods, true, false, true),
            (Some(RunsPods), NodeDeleted, false, false, true),
            (Some(RunsPods), NodeDeleted, true, false, true),
            (Some(RemovesPods), NodeDeleted, false, false, false),
            (None, NodeDeleted, false, false, false),
            (None, KeepsPods, false, false, false),
        ] {
            let concern = NodeChangeForSet {
                daemon_set_key: NamespacedName::new("shop", "agent"),
                eligibility_before: before,
                eligibility_now: Some(now),
                has_pods_on_node: scheduled,
                has_misscheduled_pods: misscheduled,
            };
            assert_eq!(concern.is_affected(), affected, "{concern:?}");
            assert!(
                NodeChangeForSet { eligibility_now: None, ..concern }.is_affected(),
                "without a comparison, the set must be synced"
            );
        }
    }
}
