//! The nodes that the next pass examines: nodes that changed or have reached their deadline.

use std::collections::BTreeSet;

use common::prelude::Instant;

use crate::objects::NodeName;

/// Nodes that have changed since a pass examined them, and the deadlines of nodes.
///
/// A heartbeat does not move the deadline of its node. The pass at the old deadline sets the new deadline, so each node is
/// examined once per grace period.
#[derive(Default)]
pub(super) struct ExaminationSchedule {
    /// Nodes that the next pass examines. A pass removes the nodes that it has examined.
    pub(super) changed_nodes: BTreeSet<NodeName>,
    pub(super) deadlines: BTreeSet<(Instant, NodeName)>,
}

impl ExaminationSchedule {
    /// Returns the nodes that a pass at this time examines.
    pub(super) fn due_nodes(&self, now: Instant) -> BTreeSet<&NodeName> {
        let expired = self.deadlines.iter().take_while(|(due, _)| *due < now).map(|(_, name)| name);
        self.changed_nodes.iter().chain(expired).collect()
    }

    /// Replaces the deadline of a node. `deadline` is the copy in the record of the node.
    pub(super) fn set_examination_deadline(
        &mut self,
        name: &NodeName,
        deadline: &mut Option<Instant>,
        new: Option<Instant>,
    ) {
        if let Some(old) = std::mem::replace(deadline, new) {
            self.deadlines.remove(&(old, name.clone()));
        }
        if let Some(new) = new {
            self.deadlines.insert((new, name.clone()));
        }
    }
}
