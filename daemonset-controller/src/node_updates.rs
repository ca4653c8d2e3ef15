//! The loop of changed nodes: it enqueues the sets that a change concerns.
//!
//! A loop of its own, as upstream has it, with a queue (`daemonset-node-updates`) and workers of its own.

use std::sync::Arc;

use common::{
    controller::{Controller, Explain, Explanation, Observed, Requeue},
    explain::Lines,
    informer::AnyInformer,
    intern::Text,
    meta::Key,
    queue::Priority,
};
use jiff::Timestamp;

use crate::{DaemonSetController, decide::node_update::Concern, error::Error, objects::DaemonTemplate};

/// The loop. It reads the caches of the loop of DaemonSets, and writes nothing.
pub(crate) struct NodeUpdates(pub(crate) Arc<DaemonSetController>);

/// The sets that a changed node concerns.
#[derive(Debug)]
pub(crate) struct Affected {
    sets: Vec<Key>,
    of: usize,
}

impl Explain for Affected {
    fn explain(&self) -> Explanation {
        let mut lines = Lines::default();
        self.sets.iter().for_each(|key| lines.push(|| format!("sync {key}")));
        let situation = format!("the node concerns {} of {} DaemonSets", self.sets.len(), self.of);
        Explanation { situation, waiting: Vec::new(), actions: lines.into_vec() }
    }

    fn acts(&self) -> bool {
        !self.sets.is_empty()
    }
}

impl Controller for NodeUpdates {
    type Key = Key;
    type Snapshot = Vec<Concern>;
    type Plan = Affected;
    type Error = Error;

    fn observe(&self, node: &Key, _now: Timestamp) -> Result<Observed<Vec<Concern>>, Error> {
        let controller = &self.0;
        let name = Text::new(&node.name);
        // The placement is compared without the lock of the roster: its size is decided by users.
        let seen = controller.rosters.each(|set, roster| {
            let template = Arc::clone(roster.template());
            (set.clone(), template, roster.decided_eligibility(&name), roster.has_pods_on(&name))
        });
        let concern = |(set, template, before, scheduled): (Key, Arc<DaemonTemplate>, _, _)| {
            let stored = controller.sets.store().get_readable(&set.namespace, &set.name);
            Concern {
                before,
                now: controller.eligibility(&template.placement, &name),
                scheduled,
                misscheduled: stored.is_some_and(|set| set.status.number_misscheduled > 0),
                set,
            }
        };
        let mut concerns: Vec<Concern> = seen.into_iter().map(concern).collect();
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

    async fn act(&self, _concerns: Vec<Concern>, _affected: Affected) -> Result<Requeue, Error> {
        Ok(Requeue::No)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        self.0.informers()
    }
}
