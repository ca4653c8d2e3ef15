//! A controller whose syncs are [sequences](crate::sequence) of requests.

use jiff::Timestamp;

use super::{Controller, Explain, Explanation, Observed, Requeue};
use crate::{
    consistency::Ledger,
    events::ObjectRef,
    informer::AnyInformer,
    map::HashSet,
    meta::Uid,
    queue::QueueKey,
    sequence::{Account, Executor, Failed, Forecast, Note, Sequence, Subject, forecast},
};

/// What a plan says besides its requests.
pub trait Describe {
    /// The situation in numbers, one line.
    fn situation(&self) -> String;
    /// What is waited for, and why; none when everything is as wanted.
    fn waiting(&self) -> Vec<String> {
        Vec::new()
    }
    /// How long after its snapshot the passing of time alone may change the decision; see [`Explain::requeue_after`].
    fn requeue_after(&self) -> Option<std::time::Duration> {
        None
    }
    /// Whether it is worth remembering for diagnostics although it sends nothing.
    fn is_notable(&self) -> bool {
        false
    }
}

/// A controller whose syncs are sequences of requests.
pub trait Sequenced: Send + Sync + Sized + 'static {
    /// What its queue holds.
    type Key: QueueKey;
    /// Everything one sync may look at.
    type Snapshot: Send + Sync;
    /// What is decided once, before the first request.
    type Plan: Describe + Send + Sync;
    /// A change of the controller's memory.
    type Note: Note + Sync;
    /// See [`Controller::STALE_SYNC_SKIPS`].
    const STALE_SYNC_SKIPS: Option<&'static str> = None;

    /// Reads the caches. No requests, no waiting.
    fn observe(&self, key: &Self::Key, now: Timestamp) -> Result<Observed<Self::Snapshot>, Failed>;
    /// Decides. Pure: the same snapshot gives the same plan.
    fn decide(snapshot: &Self::Snapshot) -> Self::Plan;
    /// The requests that carry the plan out. Pure, too.
    fn sequence<'a>(snapshot: &'a Self::Snapshot, plan: &'a Self::Plan) -> impl Sequence<Self::Note> + 'a;
    /// The object of a sync: as its Events name it, and its uid, under which the ledger keeps what was written for it.
    fn object(snapshot: &Self::Snapshot) -> (ObjectRef, Uid);
    /// Changes memory as a sequence says.
    fn note(&self, snapshot: &Self::Snapshot, note: Self::Note);
    /// Reads caches and memory for a sequence that asks for them anew; `None` if they say the same as the snapshot.
    fn fresh(&self, _: &Self::Snapshot, _: <Self::Note as Note>::Question) -> Option<<Self::Note as Note>::Fresh> {
        None
    }
    /// Updates memory that later snapshots depend on; see [`Controller::record`].
    fn record(&self, _snapshot: &Self::Snapshot, _plan: &Self::Plan) {}
    /// Tidies memory up after a sync, however it ended.
    fn ended(&self, _snapshot: &Self::Snapshot) {}
    /// The uids of the object's children that the cache shows, for a ledger that has lost the answer to a create.
    fn children(&self, _snapshot: &Self::Snapshot) -> HashSet<Uid> {
        HashSet::default()
    }
    /// The ledger of what this process wrote, if there is one.
    fn ledger(&self) -> Option<&Ledger> {
        None
    }
    /// The caches that must be filled before the first sync.
    fn informers(&self) -> Vec<&dyn AnyInformer>;
    /// Notes a sync that waits; see [`Controller::waiting`].
    fn waiting(&self, _key: &Self::Key) {}

    /// What the plan for a snapshot says, with the requests that carry it out.
    fn explain(snapshot: &Self::Snapshot, now: Timestamp) -> Explanation {
        <Self as Controller>::decide(snapshot, now).explain()
    }
}

/// A plan and the forecast of its requests.
pub struct Forecasted<P, N: Note> {
    plan: P,
    forecast: Forecast<N>,
}

impl<P: Describe, N: Note> Explain for Forecasted<P, N> {
    fn explain(&self) -> Explanation {
        let actions = self.account().map(Account::lines).unwrap_or_default();
        Explanation { situation: self.plan.situation(), waiting: self.plan.waiting(), actions }
    }

    fn acts(&self) -> bool {
        self.account().is_some() || self.plan.is_notable()
    }

    fn requeue_after(&self) -> Option<std::time::Duration> {
        self.plan.requeue_after()
    }

    fn account(&self) -> Option<&Account> {
        self.forecast.account.as_ref()
    }
}

impl<C: Sequenced> Controller for C {
    type Key = C::Key;
    type Snapshot = C::Snapshot;
    type Plan = Forecasted<C::Plan, C::Note>;

    const STALE_SYNC_SKIPS: Option<&'static str> = C::STALE_SYNC_SKIPS;

    fn observe(&self, key: &C::Key, now: Timestamp) -> Result<Observed<C::Snapshot>, Failed> {
        Sequenced::observe(self, key, now)
    }

    fn decide(snapshot: &C::Snapshot, now: Timestamp) -> Self::Plan {
        let plan = <C as Sequenced>::decide(snapshot);
        let forecast = forecast(&mut C::sequence(snapshot, &plan), now);
        Forecasted { plan, forecast }
    }

    fn record(&self, snapshot: &C::Snapshot, plan: &Self::Plan) {
        Sequenced::record(self, snapshot, &plan.plan);
    }

    async fn act(&self, executor: &Executor, snapshot: C::Snapshot, plan: Self::Plan) -> Result<Requeue, Failed> {
        let Forecasted { plan, forecast } = plan;
        let subject = Subject {
            object: &|| C::object(&snapshot),
            children: &|| self.children(&snapshot),
            note: &|note| self.note(&snapshot, note),
            fresh: &|question| self.fresh(&snapshot, question),
        };
        let outcome = executor.execute(&subject, &mut C::sequence(&snapshot, &plan), forecast).await;
        self.ended(&snapshot);
        outcome
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
