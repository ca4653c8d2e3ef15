//! Sets the condition `Ready` of Pods to `False` when their node is not ready.

mod act;
mod decide;
mod observe;
mod plan;
mod snapshot;

use std::sync::Arc;

use common::{
    controller::{Controller, Observed},
    events::ObjectRef,
    informer::AnyInformer,
    io::{Failed, Io, Requeue},
    meta::{Key, Uid},
    pods::PODS,
};
use jiff::Timestamp;

use super::{
    memory::Monitor,
    notes::{Note, Question},
};

use plan::Plan;
use snapshot::Snapshot;

/// The loop that sets the condition `Ready` of Pods to `False` when their node is not ready.
pub(crate) struct Readiness(pub(super) Arc<Monitor>);

impl Controller for Readiness {
    type Key = Key;
    type Snapshot = Snapshot;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &Key, _: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        Ok(observe::observe(&self.0, key))
    }

    fn decide(snapshot: &Snapshot) -> Plan {
        decide::decide(snapshot)
    }

    async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Note>) -> Result<Requeue, Failed> {
        act::act(snapshot, plan, io).await
    }

    fn object(snapshot: &Snapshot) -> (ObjectRef, Uid) {
        let meta = &snapshot.pod.meta;
        (ObjectRef::new(PODS, meta), meta.uid.clone())
    }

    fn note(&self, _: &Snapshot, note: Note) {
        self.0.note(note);
    }

    fn observe_again(&self, _: &Snapshot, question: Question) -> Option<bool> {
        Some(self.0.answer(question))
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        self.0.informers()
    }
}
