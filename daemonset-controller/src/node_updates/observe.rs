use std::sync::Arc;

use common::{intern::Text, meta::Key};

use super::{NodeUpdates, snapshot::Concern};
use crate::{
    objects::{DaemonTemplate, Placement},
    observe::STEP,
    snapshot::nodes::Eligibility,
};

/// The state of a changed node for one DaemonSet, before the node is compared with the placement.
struct Known {
    set: Key,
    template: Arc<DaemonTemplate>,
    before: Option<Eligibility>,
    scheduled: bool,
}

/// Compares the placements of DaemonSets with a node, the smallest placement first. Stops after `at_most` comparisons of parts
/// of placements, and returns `None` for the remaining placements.
///
/// All nodes may change at the same time, and a comparison blocks its thread, so its duration must not depend on the sizes of
/// placements.
fn compare(
    mut known: Vec<Known>,
    at_most: usize,
    eligibility: impl Fn(&Placement) -> Eligibility,
) -> Vec<(Known, Option<Eligibility>)> {
    known.sort_by_key(|known| known.template.placement.size());
    let mut left = at_most;
    let compare = |known: Known| {
        let rest = left.checked_sub(known.template.placement.size());
        left = rest.unwrap_or(0);
        let now = rest.map(|_| eligibility(&known.template.placement));
        (known, now)
    };
    known.into_iter().map(compare).collect()
}

impl NodeUpdates {
    pub(crate) fn concerns(&self, node: &Key) -> Vec<Concern> {
        let controller = &self.0;
        let name = Text::new(&node.name);
        // Users decide the size of a placement, so the comparison with it must not hold the lock of the DaemonSet's memory.
        let known = controller.rosters.each(|set, roster| Known {
            set: set.clone(),
            template: Arc::clone(&roster.template),
            before: roster.decided_eligibility(&name),
            scheduled: roster.has_pods_on(&name),
        });
        let concern = |(known, now): (Known, Option<Eligibility>)| {
            let stored = controller.sets.store().get_readable(&known.set.namespace, &known.set.name);
            Concern {
                before: known.before,
                now,
                scheduled: known.scheduled,
                misscheduled: stored.is_some_and(|set| set.status.number_misscheduled > 0),
                set: known.set,
            }
        };
        let compared = compare(known, STEP, |placement| controller.eligibility(placement, &name));
        let mut concerns: Vec<Concern> = compared.into_iter().map(concern).collect();
        concerns.sort_by(|a, b| a.set.cmp(&b.set));
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
        world::{empty, read},
    };

    use super::*;

    /// A DaemonSet with a Pod on the unchanged node, and with a placement of `values` values in its node affinity.
    fn known(name: &str, values: usize) -> Known {
        let values: Vec<String> = (0..values).map(|n| format!("v{n}")).collect();
        let terms = json!([{"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": values}]}]);
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let template = json!({"spec": {"affinity": {"nodeAffinity": required}}});
        let set: Arc<DaemonSet> = read(&empty(0).spec("template", template).set);
        Known {
            set: Key::new("shop", name),
            template: Arc::new(DaemonTemplate::new(&set.template).unwrap()),
            before: Some(Eligibility::Runs),
            scheduled: true,
        }
    }

    /// DAEMONSET-64.
    #[test]
    fn a_change_of_a_node_costs_at_most_one_step_of_comparisons() {
        let hostile = (0..50).map(|n| known(&format!("hostile-{n}"), 600));
        let usual = ["dns", "logs", "proxy"].map(|name| known(name, 5));
        let sizes = RefCell::new(Vec::new());
        let compared = compare(hostile.chain(usual).collect(), 2000, |placement| {
            sizes.borrow_mut().push(placement.size());
            Eligibility::Runs
        });
        let (sum, count) = (sizes.borrow().iter().sum::<usize>(), sizes.borrow().len());
        assert!(sum <= 2000 && sum > 1200, "{sum} comparisons of {count} placements");
        let concerns = compared.into_iter().map(|(known, now)| Concern {
            set: known.set,
            before: known.before,
            now,
            scheduled: known.scheduled,
            misscheduled: false,
        });
        let affected = decide(&concerns.collect::<Vec<_>>());
        // The three usual DaemonSets and three hostile ones are compared, and nothing has changed for them.
        assert_eq!((count, affected.sets.len(), affected.of), (6, 47, 53));
        assert!(affected.sets.iter().all(|set| set.name.starts_with("hostile")));
    }
}
