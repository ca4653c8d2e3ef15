//! The loop that judges objects.

use std::sync::Arc;

use common::{
    controller::{Observed, Sequenced},
    events::ObjectRef,
    informer::AnyInformer,
    meta::{OwnerRef, Uid, Version},
    sequence::{Failed, Sequence},
};
use jiff::Timestamp;

use crate::{
    collection::Collection,
    decide::{self, Owner, OwnerKind, Plan, Situation},
    graph::{Identity, Kind, OwnerState, View},
    key::ObjectKey,
    monitors::{Known, Monitors},
    parked::Line,
    sequence::{self, Fresh, Note},
    task::Task,
};

/// Judges objects by their owners.
pub struct Collector {
    pub(crate) collection: Arc<Collection>,
    pub(crate) monitors: Arc<Monitors>,
    /// Discovery, and taking over.
    pub(crate) _tasks: [Task; 2],
}

/// An object as its Events name it, and its uid.
pub(crate) fn object(view: &View) -> (ObjectRef, Uid) {
    let Identity { namespace, name, uid, .. } = &view.identity;
    let object = ObjectRef {
        api_version: view.kind.api_version.clone(),
        kind: view.kind.kind.clone(),
        namespace: namespace.clone(),
        name: (&**name).into(),
        uid: uid.clone(),
        version: Version::UNKNOWN,
    };
    (object, uid.clone())
}

impl Collector {
    fn owner(&self, reference: OwnerRef, state: OwnerState) -> Owner {
        let of = Kind { api_version: reference.api_version.clone(), kind: reference.kind.clone() };
        let (kind, resource) = match self.monitors.known(&of) {
            Known::No => (OwnerKind::Unknown, None),
            Known::At { resource, synced: None } => (OwnerKind::Unwatched, Some(resource)),
            Known::At { resource, synced: Some(false) } => (OwnerKind::Unsynced, Some(resource)),
            Known::At { resource, synced: Some(true) } => (OwnerKind::Synced, Some(resource)),
        };
        Owner { reference, kind, resource, state }
    }

    fn situation(&self, mut view: View, now: Timestamp) -> Situation {
        let states = view.owner_states.iter().copied();
        let references = std::mem::take(&mut view.owners);
        let owners =
            references.into_iter().zip(states).map(|(reference, state)| self.owner(reference, state)).collect();
        let (resource, unseen) = match self.monitors.known(&view.kind) {
            Known::No => (None, false),
            Known::At { resource, synced } => (Some(resource), synced == Some(false)),
        };
        let unsynced = if view.deleting_dependents { self.monitors.coming() } else { Vec::new() };
        Situation { now, view, resource, unseen, owners, unsynced }
    }
}

impl Sequenced for Collector {
    type Key = ObjectKey;
    type Snapshot = Situation;
    type Plan = Plan;
    type Note = Note;

    fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Observed<Situation>, Failed> {
        let view = self.collection.graph.lock().view(&key.0);
        Ok(view.map_or(Observed::Gone, |view| Observed::Ready(self.situation(view, now))))
    }

    fn decide(situation: &Situation) -> Plan {
        decide::decide(situation)
    }

    fn sequence<'a>(situation: &'a Situation, plan: &'a Plan) -> impl Sequence<Note> + 'a {
        sequence::sequence(situation, plan)
    }

    fn object(situation: &Situation) -> (ObjectRef, Uid) {
        object(&situation.view)
    }

    fn note(&self, situation: &Situation, note: Note) {
        let identity = &situation.view.identity;
        let key = || ObjectKey(identity.uid.clone());
        match note {
            Note::Unparked => self.collection.parked.leave(Line::Delete, &key()),
            Note::Parked(awaited) => self.monitors.park(Line::Delete, key(), awaited),
            Note::Absent => self.collection.absent(identity),
            Note::OwnerAbsent(OwnerRef { api_version, kind, name, uid, .. }, namespace) => {
                let mut graph = self.collection.graph.lock();
                let kind = graph.kind_id(&api_version, &kind);
                graph.remember_absent(Identity { kind, namespace, name: name.as_str().into(), uid });
            }
        }
    }

    fn fresh(&self, situation: &Situation, references: Vec<OwnerRef>) -> Option<Fresh> {
        let Identity { namespace, uid, .. } = &situation.view.identity;
        let mut graph = self.collection.graph.lock();
        let in_cycle = graph.may_be_in_cycle(uid);
        let states: Vec<OwnerState> =
            references.iter().map(|reference| graph.owner_state(reference, namespace)).collect();
        drop(graph);
        let owners =
            references.into_iter().zip(states).map(|(reference, state)| self.owner(reference, state)).collect();
        Some(Fresh { owners, in_cycle })
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        vec![&*self.monitors]
    }
}
