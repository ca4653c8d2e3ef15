//! Taints that follow from the conditions of a node, and copies of its labels.

use std::sync::Arc;

use common::{
    controller::{Observed, Sequenced},
    events::ObjectRef,
    informer::AnyInformer,
    meta::{Key, Uid},
    sequence::{Failed, Sequence},
};
use jiff::Timestamp;

use crate::{
    decide::upkeep::{self as decide, Plan, Snapshot},
    objects::NODES,
    sequence::{
        self,
        monitor::{Note, Question},
    },
};

use super::Monitor;

/// The upkeep of nodes, by name.
pub(crate) struct Upkeep(pub(crate) Arc<Monitor>);

impl Sequenced for Upkeep {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &Key, _: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        let blind_for = self.0.blindness.duration();
        let fleet = self.0.fleet.lock();
        let standing = fleet.standing(&key.name, self.0.context.clock.instant(), blind_for);
        let snapshot = |(node, standing)| Snapshot { node: Arc::clone(node), standing };
        let found = fleet.node(&key.name).zip(standing).map(snapshot);
        Ok(found.map_or(Observed::Gone, Observed::Ready))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
        sequence::node::upkeep(snapshot, plan)
    }

    fn object(snapshot: &Snapshot) -> (ObjectRef, Uid) {
        let meta = &snapshot.node.metadata;
        (ObjectRef::new(NODES, meta), meta.uid.clone())
    }

    fn note(&self, _: &Snapshot, note: Note) {
        self.0.note(note);
    }

    fn fresh(&self, _: &Snapshot, question: Question) -> Option<bool> {
        Some(self.0.answer(question))
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        self.0.informers()
    }
}
