//! The consumer of changed nodes, which enqueues the DaemonSets that a change of a node concerns.
//!
//! As upstream, it has its own queue and its own workers. It reads the caches of the loop of DaemonSets, and writes nothing.

mod decide;

use std::sync::Arc;

use common::{controller::KeyHandler, prelude::*};

use self::decide::{AffectedDaemonSets, NodeChangeForSet};
use crate::{
    DaemonSetController,
    objects::{NodePlacement, ParsedPodTemplate},
    observe::MAX_COMPARISONS_PER_SYNC,
    snapshot::nodes::Eligibility,
};

/// The handler of changed nodes.
pub(crate) struct NodeUpdates(pub(crate) Arc<DaemonSetController>);

impl NodeUpdates {
    /// Name of the queue of changed nodes, and of its consumer in metrics and diagnostics.
    pub(crate) const QUEUE_NAME: &str = "daemonset-node-updates";

    fn node_changes_for_sets(&self, node: &Text) -> Vec<NodeChangeForSet> {
        let Self(controller) = self;
        // Users decide the size of a placement, so the comparison with it must not hold the lock of the DaemonSet's memory.
        let mut changes = controller.watch.node_indexes.map_node_indexes(|key, node_index| {
            let change = NodeChangeForSet {
                daemon_set_key: key,
                eligibility_before: node_index.decided_eligibility(node),
                eligibility_now: None,
                has_pods_on_node: node_index.has_pods_on(node),
                has_misscheduled_pods: false,
            };
            (change, Arc::clone(&node_index.template))
        });
        compare_placements(&mut changes, MAX_COMPARISONS_PER_SYNC, |placement| {
            controller.decide_eligibility_on_node(placement, node)
        });
        let mut changes: Vec<NodeChangeForSet> = changes.into_iter().map(|(change, _)| change).collect();
        for change in &mut changes {
            let NamespacedName { namespace, name } = &change.daemon_set_key;
            let set = controller.watch.daemon_set_store.get_decoded(namespace, name);
            change.has_misscheduled_pods = set.is_some_and(|set| set.status.number_misscheduled > 0);
        }
        changes.sort_by(|a, b| a.daemon_set_key.cmp(&b.daemon_set_key));
        changes
    }
}

impl KeyHandler for NodeUpdates {
    type Key = NamespacedName;
    type Effects = AffectedDaemonSets;

    fn find_effects(&self, node: &NamespacedName) -> AffectedDaemonSets {
        decide::decide(&self.node_changes_for_sets(&Text::new(&node.name)))
    }

    fn apply_effects(&self, affected: &AffectedDaemonSets) {
        for set in &affected.daemon_set_keys {
            self.0.watch.daemon_set_queue.add(set.clone(), Priority::Normal);
        }
    }
}

/// Compares the placements of DaemonSets with a node, the smallest placement first. After `max_comparisons` comparisons of values,
/// the remaining placements are not compared, and their present eligibility stays `None`.
///
/// A comparison blocks its thread, and all nodes may change at the same time. The time for one node is therefore limited, even
/// if users make placements very large.
fn compare_placements(
    changes: &mut [(NodeChangeForSet, Arc<ParsedPodTemplate>)],
    max_comparisons: usize,
    eligibility: impl Fn(&NodePlacement) -> Eligibility,
) {
    changes.sort_by_key(|(_, template)| template.placement.comparison_cost);
    let mut remaining = max_comparisons;
    for (change, template) in changes {
        let Some(rest) = remaining.checked_sub(template.placement.comparison_cost) else { return };
        remaining = rest;
        change.eligibility_now = Some(eligibility(&template.placement));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde_json::json;

    use super::*;
    use crate::{
        objects::DaemonSet,
        world::{decode_trimmed, set_without_pods},
    };

    /// A DaemonSet that had a Pod on the node before the change, and has `values` values in its node affinity.
    fn known(name: &str, values: usize) -> (NodeChangeForSet, Arc<ParsedPodTemplate>) {
        let values: Vec<String> = (0..values).map(|n| format!("v{n}")).collect();
        let terms = json!([{"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": values}]}]);
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let template = json!({"spec": {"affinity": {"nodeAffinity": required}}});
        let set: Arc<DaemonSet> = decode_trimmed(&set_without_pods(0).spec("template", template).set);
        let change = NodeChangeForSet {
            daemon_set_key: NamespacedName::new("shop", name),
            eligibility_before: Some(Eligibility::RunsPods),
            eligibility_now: None,
            has_pods_on_node: true,
            has_misscheduled_pods: false,
        };
        (change, Arc::new(ParsedPodTemplate::new(&set.template).unwrap()))
    }

    /// DAEMONSET-64.
    #[test]
    fn a_change_of_a_node_costs_at_most_one_step_of_comparisons() {
        let hostile = (0..50).map(|n| known(&format!("hostile-{n}"), 600));
        let usual = ["dns", "logs", "proxy"].map(|name| known(name, 5));
        let sizes = RefCell::new(Vec::new());
        let mut changes: Vec<_> = hostile.chain(usual).collect();
        compare_placements(&mut changes, 2000, |placement| {
            sizes.borrow_mut().push(placement.comparison_cost);
            Eligibility::RunsPods
        });
        let (sum, count) = (sizes.borrow().iter().sum::<usize>(), sizes.borrow().len());
        assert!(sum <= 2000 && sum > 1200, "{sum} comparisons of {count} placements");
        let changes: Vec<NodeChangeForSet> = changes.into_iter().map(|(change, _)| change).collect();
        let affected = decide::decide(&changes);
        // The node is compared with three usual and three hostile DaemonSets. Their eligibility has not changed.
        assert_eq!((count, affected.daemon_set_keys.len(), affected.indexed_set_count), (6, 47, 53));
        assert!(affected.daemon_set_keys.iter().all(|set| set.name.starts_with("hostile")));
    }
}
