use super::{plan::Affected, snapshot::Concern};
use crate::snapshot::nodes::Eligibility;

/// Returns the DaemonSets that must be synced after a change of a node.
pub(crate) fn decide(concerns: &[Concern]) -> Affected {
    let sets = concerns.iter().filter(|concern| concern.is_affected()).map(|concern| concern.set.clone()).collect();
    Affected { sets, of: concerns.len() }
}

impl Concern {
    /// Whether the DaemonSet must be synced after the change of the node. Upstream: `pkg/controller/daemon`, `syncNodeUpdate`.
    ///
    /// Upstream misses nodes that leave the cache, and nodes that keep a Pod but cease to count as desired. If the placement
    /// was not compared with the node, the result is true, and the sync of the DaemonSet compares them.
    fn is_affected(&self) -> bool {
        let Some(now) = self.now else { return true };
        let counted = self.before.unwrap_or(Eligibility::Leaves);
        let changed = counted != now && (self.scheduled || counted.should_run() || now.should_run());
        changed
            || (now.should_run() && !self.scheduled)
            || (!now.should_continue() && self.scheduled && now != Eligibility::Vanished)
            || (self.scheduled && self.misscheduled)
    }
}

#[cfg(test)]
mod tests {
    use common::meta::Key;

    use super::*;
    use Eligibility::{Leaves, Runs, Stays, Vanished};

    /// DAEMONSET-9, DAEMONSET-73.
    #[test]
    fn a_set_is_synced_if_the_node_may_change_its_pods_or_counts() {
        for (before, now, scheduled, misscheduled, affected) in [
            // In these cases, upstream decides the same.
            (None, Runs, false, false, true),
            (None, Leaves, false, false, false),
            (Some(Runs), Runs, true, false, false),
            (Some(Runs), Leaves, true, false, true),
            (Some(Runs), Runs, true, true, true),
            (Some(Stays), Stays, true, true, true),
            (Some(Stays), Stays, true, false, false),
            // In these cases, upstream does not sync the DaemonSet until another event.
            (Some(Runs), Stays, true, false, true),
            (Some(Stays), Runs, true, false, true),
            (Some(Runs), Vanished, false, false, true),
            (Some(Runs), Vanished, true, false, true),
            (Some(Leaves), Vanished, false, false, false),
            (None, Vanished, false, false, false),
            (None, Stays, false, false, false),
        ] {
            let concern = Concern { set: Key::new("shop", "agent"), before, now: Some(now), scheduled, misscheduled };
            assert_eq!(concern.is_affected(), affected, "{concern:?}");
            assert!(Concern { now: None, ..concern }.is_affected(), "without a comparison, the set must be synced");
        }
    }
}
