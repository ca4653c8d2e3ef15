//! Marks Pods as not ready whose node is not ready.

use std::{convert::Infallible, sync::Arc};

use common::{
    controller::{Observed, Sequenced},
    events::ObjectRef,
    informer::AnyInformer,
    meta::{Key, Uid},
    pods::PODS,
    sequence::{Executor, Sequence},
};
use jiff::Timestamp;

use crate::{
    decide::readiness::{self as decide, Plan, Snapshot},
    observation::Observation,
    sequence::{
        self,
        monitor::{Note, Question},
    },
};

use super::Monitor;

/// The Pods of nodes that are not ready, by name.
pub(crate) struct Readiness(pub(crate) Arc<Monitor>);

impl Sequenced for Readiness {
    type Key = Key;
    type Snapshot = Observation<Snapshot>;
    type Plan = Plan;
    type Note = Note;
    type Error = Infallible;

    fn observe(&self, key: &Key, time: Timestamp) -> Result<Observed<Self::Snapshot>, Infallible> {
        let Some(pod) = self.0.caches.pods.store().get_readable(&key.namespace, &key.name) else {
            return Ok(Observed::Gone);
        };
        let now = self.0.context.clock.instant();
        let fleet = self.0.fleet.lock();
        if let Some(blind_for) = fleet.sight.blind_for(now) {
            let why = format!("this process does not see what nodes do, since {}s", blind_for.as_secs());
            return Ok(Observed::Waiting { why, at_most: self.0.period });
        }
        let node = fleet.node(&pod.node).map(|node| node.ready());
        Ok(Observed::Ready(Observation { snapshot: Snapshot { pod, node }, time }))
    }

    fn decide(observation: &Self::Snapshot) -> Plan {
        decide::decide(&observation.snapshot)
    }

    fn sequence<'a>(observation: &'a Self::Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
        sequence::readiness::sequence(&observation.snapshot, plan)
    }

    fn time(observation: &Self::Snapshot) -> Timestamp {
        observation.time
    }

    fn object(observation: &Self::Snapshot) -> (ObjectRef, Uid) {
        let meta = &observation.snapshot.pod.meta;
        (ObjectRef::new(PODS, meta), meta.uid.clone())
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
