//! A controller whose syncs are [sequences](crate::sequence) of requests.

#![allow(missing_docs)]

use jiff::Timestamp;

use super::{Controller, Explain, Explanation, Observed};
use crate::{
    consistency::Ledger,
    events::ObjectRef,
    informer::AnyInformer,
    io::{Failed, Io, Note, Outcome},
    map::HashSet,
    meta::Uid,
    queue::QueueKey,
    sequence::{Sequence, take_turns},
};

/// A controller whose syncs are sequences of requests.
pub trait Sequenced: Send + Sync + Sized + 'static {
    type Key: QueueKey;
    type Snapshot: Send + Sync;
    type Plan: Explain + Send + Sync;
    type Note: Note + Sync;
    const STALE_SYNC_SKIPS: Option<&'static str> = None;

    fn observe(&self, key: &Self::Key, now: Timestamp) -> Result<Observed<Self::Snapshot>, Failed>;
    fn decide(snapshot: &Self::Snapshot) -> Self::Plan;
    fn sequence<'a>(snapshot: &'a Self::Snapshot, plan: &'a Self::Plan) -> impl Sequence<Self::Note> + 'a;
    fn object(snapshot: &Self::Snapshot) -> (ObjectRef, Uid);
    fn note(&self, snapshot: &Self::Snapshot, note: Self::Note);
    fn fresh(&self, _: &Self::Snapshot, _: <Self::Note as Note>::Question) -> Option<<Self::Note as Note>::Fresh> {
        None
    }
    fn record(&self, _snapshot: &Self::Snapshot, _plan: &Self::Plan) {}
    fn ended(&self, _snapshot: &Self::Snapshot) {}
    fn children(&self, _snapshot: &Self::Snapshot) -> HashSet<Uid> {
        HashSet::default()
    }
    fn ledger(&self) -> Option<&Ledger> {
        None
    }
    fn informers(&self) -> Vec<&dyn AnyInformer>;
    fn waiting(&self, _key: &Self::Key) {}

    fn explain(snapshot: &Self::Snapshot, now: Timestamp) -> Explanation {
        super::Decision::<Self>::of(snapshot, now).explain()
    }
}

impl<C: Sequenced> Controller for C {
    type Key = C::Key;
    type Snapshot = C::Snapshot;
    type Plan = C::Plan;
    type Note = C::Note;

    const STALE_SYNC_SKIPS: Option<&'static str> = C::STALE_SYNC_SKIPS;

    fn observe(&self, key: &C::Key, now: Timestamp) -> Result<Observed<C::Snapshot>, Failed> {
        Sequenced::observe(self, key, now)
    }
    fn decide(snapshot: &C::Snapshot) -> C::Plan {
        <C as Sequenced>::decide(snapshot)
    }
    async fn carry_out(snapshot: &C::Snapshot, plan: &C::Plan, io: Io<'_, C::Note>) -> Outcome {
        take_turns(io, &mut C::sequence(snapshot, plan)).await
    }
    fn object(snapshot: &C::Snapshot) -> (ObjectRef, Uid) {
        <C as Sequenced>::object(snapshot)
    }
    fn note(&self, snapshot: &C::Snapshot, note: C::Note) {
        Sequenced::note(self, snapshot, note);
    }
    fn fresh(&self, snapshot: &C::Snapshot, q: <C::Note as Note>::Question) -> Option<<C::Note as Note>::Fresh> {
        Sequenced::fresh(self, snapshot, q)
    }
    fn record(&self, snapshot: &C::Snapshot, plan: &C::Plan) {
        Sequenced::record(self, snapshot, plan);
    }
    fn ended(&self, snapshot: &C::Snapshot) {
        Sequenced::ended(self, snapshot);
    }
    fn children(&self, snapshot: &C::Snapshot) -> HashSet<Uid> {
        Sequenced::children(self, snapshot)
    }
    fn informers(&self) -> Vec<&dyn AnyInformer> {
        Sequenced::informers(self)
    }
    fn ledger(&self) -> Option<&Ledger> {
        Sequenced::ledger(self)
    }
    fn waiting(&self, key: &C::Key) {
        Sequenced::waiting(self, key);
    }
}
