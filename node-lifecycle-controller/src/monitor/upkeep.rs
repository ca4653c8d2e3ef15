//! Taints that follow from the conditions of a node, and copies of its labels.

use std::{convert::Infallible, sync::Arc};

use common::{
    controller::{Observed, Sequenced},
    events::ObjectRef,
    informer::AnyInformer,
    meta::{Key, Uid},
    sequence::{Executor, Sequence},
};
use jiff::Timestamp;

use crate::{
    decide::upkeep::{self as decide, Plan, Snapshot},
    objects::NODES,
    observation::Observation,
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
    type Snapshot = Observation<Snapshot>;
    type Plan = Plan;
    type Note = Note;
    type Error = Infallible;

    fn observe(&self, key: &Key, time: Timestamp) -> Result<Observed<Self::Snapshot>, Infallible> {
        let blind_for = self.0.blindness.duration();
        let fleet = self.0.fleet.lock();
        let standing = fleet.standing(&key.name, self.0.context.clock.instant(), blind_for);
        let snapshot = |(node, standing)| Snapshot { node: Arc::clone(node), standing };
        let found = fleet.node(&key.name).zip(standing).map(snapshot);
        Ok(found.map_or(Observed::Gone, |snapshot| Observed::Ready(Observation { snapshot, time })))
    }

    fn decide(observation: &Self::Snapshot) -> Plan {
        decide::decide(&observation.snapshot)
    }

    fn sequence<'a>(observation: &'a Self::Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
        sequence::node::upkeep(&observation.snapshot, plan)
    }

    fn time(observation: &Self::Snapshot) -> Timestamp {
        observation.time
    }

    fn object(observation: &Self::Snapshot) -> (ObjectRef, Uid) {
        let meta = &observation.snapshot.node.metadata;
        (ObjectRef::new(NODES, meta), meta.uid.clone())
    }

    fn note(&self, _: &Self::Snapshot, note: Note) {
        self.0.note(note);
    }

    fn fresh(&self, _: &Self::Snapshot, question: Question) -> bool {
        self.0.answer(question)
    }

    fn ends(&self) -> bool {
        self.0.rounds.is_closed()
    }

    fn executor(&self) -> &Executor {
        &self.0.executor
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        self.0.informers()
    }
}
