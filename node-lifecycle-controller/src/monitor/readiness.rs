//! Marks Pods as not ready whose node is not ready.

use std::sync::Arc;

use common::{
    controller::{Observed, Sequenced},
    events::ObjectRef,
    informer::AnyInformer,
    meta::{Key, Uid},
    pods::PODS,
    sequence::{Failed, Sequence},
};
use jiff::Timestamp;

use crate::{
    decide::readiness::{self as decide, Plan, Snapshot},
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
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &Key, _: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        let Some(pod) = self.0.caches.pods.store().get_readable(&key.namespace, &key.name) else {
            return Ok(Observed::Gone);
        };
        let now = self.0.context.clock.instant();
        let fleet = self.0.fleet.lock();
        if let Some(blind_for) = fleet.sight.blind_for(now) {
            let why = format!("this process does not see what nodes do, since {}s", blind_for.as_secs());
            return Ok(Observed::wait(why, self.0.heartbeats.period));
        }
        let node = fleet.node(&pod.node).map(|node| node.ready());
        Ok(Observed::Ready(Snapshot { pod, node }))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    fn sequence<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> impl Sequence<Note> + 'a {
        sequence::readiness::sequence(snapshot, plan)
    }

    fn object(snapshot: &Snapshot) -> (ObjectRef, Uid) {
        let meta = &snapshot.pod.meta;
        (ObjectRef::new(PODS, meta), meta.uid.clone())
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
