use std::sync::Arc;

use common::{intern::Text, meta::NamespacedName};

use super::{NodeUpdateLoop, snapshot::NodeChangeForSet};
use crate::{
    objects::{NodePlacement, ParsedPodTemplate},
    observe::MAX_COMPARISONS_PER_SYNC,
    snapshot::nodes::Eligibility,
};

/// The state of a changed node for one DaemonSet, before the node is compared with the placement.
struct NodeIndexState {
    set: NamespacedName,
    template: Arc<ParsedPodTemplate>,
    before: Option<Eligibility>,
    scheduled: bool,
}

/// Compares the placements of DaemonSets with a node, the smallest placement first. After `at_most` comparisons of values, the
/// remaining placements are not compared, and have no result (`None`).
///
/// A comparison blocks its thread, and all nodes may change at the same time. The time for one node is therefore limited, even
/// if users make placements very large.
fn compare_placements(
    mut known: Vec<NodeIndexState>,
    at_most: usize,
    eligibility: impl Fn(&NodePlacement) -> Eligibility,
) -> Vec<(NodeIndexState, Option<Eligibility>)> {
    known.sort_by_key(|known| known.template.placement.comparison_cost());
    let mut left = at_most;
    let compare = |known: NodeIndexState| {
        let rest = left.checked_sub(known.template.placement.comparison_cost());
        left = rest.unwrap_or(0);
        let now = rest.map(|_| eligibility(&known.template.placement));
        (known, now)
    };
    known.into_iter().map(compare).collect()
}

impl NodeUpdateLoop {
    pub(crate) fn node_changes_for_sets(&self, node: &NamespacedName) -> Vec<NodeChangeForSet> {
        let controller = &self.0;
        let name = Text::new(&node.name);
        // Users decide the size of a placement, so the comparison with it must not hold the lock of the DaemonSet's memory.
        let known = controller.node_indexes.map_node_indexes(|set, roster| NodeIndexState {
            set: set.clone(),
            template: Arc::clone(&roster.template),
            before: roster.decided_eligibility(&name),
            scheduled: roster.has_pods_on(&name),
        });
        let concern = |(known, now): (NodeIndexState, Option<Eligibility>)| {
            let stored = controller.sets.store().get_decoded(&known.set.namespace, &known.set.name);
            NodeChangeForSet {
                eligibility_before: known.before,
                eligibility_now: now,
                has_pods_on_node: known.scheduled,
                has_misscheduled_pods: stored.is_some_and(|set| set.status.number_misscheduled > 0),
                daemon_set_key: known.set,
            }
        };
        let compared = compare_placements(known, MAX_COMPARISONS_PER_SYNC, |placement| {
            controller.decide_eligibility_on_node(placement, &name)
        });
        let mut concerns: Vec<NodeChangeForSet> = compared.into_iter().map(concern).collect();
        concerns.sort_by(|a, b| a.daemon_set_key.cmp(&b.daemon_set_key));
        concerns
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde_json::json;

    use crate::{
        node_updates::decide::decide,
        objects::DaemonSet,
        world::{decode_trimmed, set_without_pods},
    };

    use super::*;

    /// A DaemonSet that had a Pod on the node before the change, and has `values` values in its node affinity.
    fn known(name: &str, values: usize) -> NodeIndexState {
        let values: Vec<String> = (0..values).map(|n| format!("v{n}")).collect();
        let terms = json!([{"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": values}]}]);
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let template = json!({"spec": {"affinity": {"nodeAffinity": required}}});
        let set: Arc<DaemonSet> = decode_trimmed(&set_without_pods(0).spec("template", template).set);
        NodeIndexState {
            set: NamespacedName::new("shop", name),
            template: Arc::new(ParsedPodTemplate::new(&set.template).unwrap()),
            before: Some(Eligibility::RunsPods),
            scheduled: true,
        }
    }

    /// DAEMONSET-64.
    #[test]
    fn a_change_of_a_node_costs_at_most_one_step_of_comparisons() {
        let hostile = (0..50).map(|n| known(&format!("hostile-{n}"), 600));
        let usual = ["dns", "logs", "proxy"].map(|name| known(name, 5));
        let sizes = RefCell::new(Vec::new());
        let compared = compare_placements(hostile.chain(usual).collect(), 2000, |placement| {
            sizes.borrow_mut().push(placement.comparison_cost());
            Eligibility::RunsPods
        });
        let (sum, count) = (sizes.borrow().iter().sum::<usize>(), sizes.borrow().len());
        assert!(sum <= 2000 && sum > 1200, "{sum} comparisons of {count} placements");
        let concerns = compared.into_iter().map(|(known, now)| NodeChangeForSet {
            daemon_set_key: known.set,
            eligibility_before: known.before,
            eligibility_now: now,
            has_pods_on_node: known.scheduled,
            has_misscheduled_pods: false,
        });
        let affected = decide(&concerns.collect::<Vec<_>>());
        // The node is compared with three usual and three hostile DaemonSets. Their eligibility has not changed.
        assert_eq!((count, affected.daemon_set_keys.len(), affected.indexed_set_count), (6, 47, 53));
        assert!(affected.daemon_set_keys.iter().all(|set| set.name.starts_with("hostile")));
    }
}
