//! The sums of the standings of all nodes.

use std::collections::BTreeSet;

use common::intern::Text;
use jiff::Timestamp;

use crate::{
    decide::standing::{Rollout, Standing},
    snapshot::nodes::Tally,
};

/// The counts, lists and timers to which each node contributes its standing.
#[derive(Default)]
pub(super) struct Totals {
    /// The counts.
    pub(super) tally: Tally,
    /// The nodes on which something is to be done.
    pub(super) lists: Lists,
    /// When the passing of time changes a node.
    timers: BTreeSet<(Timestamp, Text)>,
}

/// The nodes on which something is to be done, by what it is.
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
    /// Adds what a node contributes.
    pub(super) fn add(&mut self, node: &Text, standing: &Standing) {
        self.tally += standing.tally;
        for list in self.lists.of(standing) {
            list.insert(node.clone());
        }
        self.timers.extend(standing.due.map(|due| (due, node.clone())));
    }

    /// Takes back what a node has contributed.
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

    /// When the passing of time next changes a node.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.timers.first().map(|(due, _)| *due)
    }
}

impl Lists {
    /// The lists of a standing.
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
