//! Which nodes the next pass examines: nodes that have changed, and nodes whose time is over.

use std::collections::BTreeSet;

use common::clock::Instant;

use crate::objects::Name;

/// Nodes that have changed, and the deadlines of nodes.
///
/// A heartbeat does not move the deadline of its node: an early deadline is put right when it comes up, once in a grace period.
#[derive(Default)]
pub(super) struct Schedule {
    changed: BTreeSet<Name>,
    pub(super) deadlines: BTreeSet<(Instant, Name)>,
}

impl Schedule {
    /// The nodes that a pass at that time examines.
    pub(super) fn due(&self, now: Instant) -> BTreeSet<&Name> {
        let expired = self.deadlines.iter().take_while(|(due, _)| *due < now).map(|(_, name)| name);
        self.changed.iter().chain(expired).collect()
    }

    /// The next pass examines a node.
    pub(super) fn touch(&mut self, name: &Name) {
        self.changed.insert(name.clone());
    }

    /// A node has been examined and has not changed since.
    pub(super) fn examined(&mut self, name: &Name) {
        self.changed.remove(name);
    }

    /// Replaces the deadline of a node.
    pub(super) fn set_deadline(&mut self, name: &Name, deadline: &mut Option<Instant>, new: Option<Instant>) {
        if let Some(old) = std::mem::replace(deadline, new) {
            self.deadlines.remove(&(old, name.clone()));
        }
        if let Some(new) = new {
            self.deadlines.insert((new, name.clone()));
        }
    }
}
