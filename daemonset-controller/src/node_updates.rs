//! The loop of changed nodes: it enqueues the sets that a change concerns.
//!
//! A loop of its own, as upstream has it, with a queue (`daemonset-node-updates`) and workers of its own.

use std::{convert::Infallible, sync::Arc};

use common::{
    controller::{Controller, Explain, Observed},
    events::ObjectRef,
    explain::Lines,
    informer::AnyInformer,
    intern::Text,
    io::{Failed, Io, Outcome, Requeue},
    meta::{Key, Uid},
    queue::Priority,
};
use jiff::Timestamp;

use crate::{
    DaemonSetController,
    decide::{eligibility::Eligibility, node_update::Concern},
    objects::{DaemonTemplate, Placement},
    observe::STEP,
};

/// The loop. It reads the caches of the loop of DaemonSets, and writes nothing.
pub(crate) struct NodeUpdates(pub(crate) Arc<DaemonSetController>);

/// The sets that a changed node concerns.
#[derive(Debug)]
pub(crate) struct Affected {
    sets: Vec<Key>,
    of: usize,
}

/// What the roster of a set has about a node.
struct Known {
    set: Key,
    template: Arc<DaemonTemplate>,
    before: Option<Eligibility>,
    scheduled: bool,
}

/// Compares the placements of sets with a node, the smallest first, in at most that many comparisons of their parts. The sets of the
/// others come with `None`.
///
/// All nodes may change at once, and nothing else runs during one comparison: the sizes of placements must not decide how long it takes.
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

impl Explain for Affected {
    fn situation(&self) -> String {
        format!("the node concerns {} of {} DaemonSets", self.sets.len(), self.of)
    }

    fn actions(&self) -> Vec<String> {
        let mut lines = Lines::default();
        self.sets.iter().for_each(|key| lines.push(|| format!("sync {key}")));
        lines.into_vec()
    }

    fn is_notable(&self) -> bool {
        !self.sets.is_empty()
    }
}

impl Controller for NodeUpdates {
    type Key = Key;
    type Snapshot = Vec<Concern>;
    type Plan = Affected;
    type Note = Infallible;

    fn observe(&self, node: &Key, _now: Timestamp) -> Result<Observed<Vec<Concern>>, Failed> {
        let controller = &self.0;
        let name = Text::new(&node.name);
        // The placement is compared without the lock of the roster: its size is decided by users.
        let known = controller.rosters.each(|set, roster| Known {
            set: set.clone(),
            template: Arc::clone(roster.template()),
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
        Ok(Observed::Ready(concerns))
    }

    fn decide(concerns: &Vec<Concern>) -> Affected {
        let sets = concerns.iter().filter(|concern| concern.is_affected()).map(|concern| concern.set.clone()).collect();
        Affected { sets, of: concerns.len() }
    }

    fn record(&self, _concerns: &Vec<Concern>, affected: &Affected) {
        for set in &affected.sets {
            self.0.queue.add(set.clone(), Priority::Normal);
        }
    }

    async fn carry_out(_: &Vec<Concern>, _: &Affected, _: Io<'_, Infallible>) -> Outcome {
        Ok(Requeue::No)
    }

    /// No Event and no record of own writes concerns a changed node.
    fn object(_: &Vec<Concern>) -> (ObjectRef, Uid) {
        (ObjectRef::default(), Uid::default())
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        self.0.informers()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde_json::json;

    use crate::{
        objects::DaemonSet,
        world::{empty, read},
    };

    use super::*;

    /// A set whose placement takes that many values, and on whose node nothing changes.
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

    #[test]
    fn a_change_of_a_node_costs_no_more_comparisons_than_a_step_has() {
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
        let affected = NodeUpdates::decide(&concerns.collect());
        // The usual sets and three others are compared, and nothing has changed for them.
        assert_eq!((count, affected.sets.len(), affected.of), (6, 47, 53));
        assert!(affected.sets.iter().all(|set| set.name.starts_with("hostile")));
    }
}
