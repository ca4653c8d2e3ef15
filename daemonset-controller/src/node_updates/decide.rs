use super::{plan::AffectedDaemonSets, snapshot::NodeChangeForSet};
use crate::snapshot::nodes::Eligibility;

/// Returns the DaemonSets that must be synced after a change of a node.
pub(crate) fn decide(concerns: &[NodeChangeForSet]) -> AffectedDaemonSets {
    let sets =
        concerns.iter().filter(|concern| concern.is_affected()).map(|concern| concern.daemon_set_key.clone()).collect();
    AffectedDaemonSets { daemon_set_keys: sets, indexed_set_count: concerns.len() }
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
    use common::meta::NamespacedName;

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
