use std::collections::BTreeSet;

use common::intern::Text;
use jiff::Timestamp;

use crate::{
    decide::standing::{Rollout, Standing},
    snapshot::nodes::Tally,
};

/// The sums over the contributions of all nodes of a DaemonSet.
#[derive(Default)]
pub(super) struct Totals {
    /// The sum of the counts of all nodes.
    pub(super) tally: Tally,
    /// The nodes that need an action or block a rollout.
    pub(super) lists: Lists,
    /// The times at which a contribution changes without an event, each with the name of the node.
    timers: BTreeSet<(Timestamp, Text)>,
}

/// The nodes that need an action or block a rollout, by kind of action. A node may be in several lists.
#[derive(Default)]
pub(super) struct Lists {
    pub(super) create: BTreeSet<Text>,
    pub(super) delete: BTreeSet<Text>,
    pub(super) blocking: BTreeSet<Text>,
    pub(super) replace: BTreeSet<Text>,
    pub(super) candidates: BTreeSet<Text>,
    pub(super) remove: BTreeSet<Text>,
    pub(super) sunset: BTreeSet<Text>,
}

impl Totals {
    /// Adds the contribution of a node.
    pub(super) fn add(&mut self, node: &Text, standing: &Standing) {
        self.tally += standing.tally;
        for list in self.lists.of(standing) {
            list.insert(node.clone());
        }
        self.timers.extend(standing.due.map(|due| (due, node.clone())));
    }

    /// Subtracts the contribution of a node. `standing` must be the value that was added.
    pub(super) fn subtract(&mut self, node: &Text, standing: &Standing) {
        self.tally -= standing.tally;
        for list in self.lists.of(standing) {
            list.remove(node);
        }
        if let Some(due) = standing.due {
            self.timers.remove(&(due, node.clone()));
        }
    }

    /// Removes the timers that have expired, and returns their nodes.
    pub(super) fn take_expired(&mut self, now: Timestamp) -> impl Iterator<Item = Text> {
        std::iter::from_fn(move || {
            self.timers.first().filter(|(due, _)| *due <= now)?;
            self.timers.pop_first().map(|(_, node)| node)
        })
    }

    /// Returns the first time at which the contribution of a node changes without an event; `None` if there is none.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.timers.first().map(|(due, _)| *due)
    }
}

impl Lists {
    /// Returns the lists to which a node with this contribution belongs.
    fn of(&mut self, standing: &Standing) -> impl Iterator<Item = &mut BTreeSet<Text>> {
        let rollout = match standing.rollout {
            Rollout::Settled => None,
            Rollout::Blocking => Some(&mut self.blocking),
            Rollout::Replace => Some(&mut self.replace),
            Rollout::Candidate => Some(&mut self.candidates),
            Rollout::Remove => Some(&mut self.remove),
            Rollout::Sunset => Some(&mut self.sunset),
        };
        let create = standing.creates.then_some(&mut self.create);
        let delete = standing.deletes.then_some(&mut self.delete);
        [create, delete, rollout].into_iter().flatten()
    }
}
