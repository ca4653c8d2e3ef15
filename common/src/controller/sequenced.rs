//! A controller whose syncs are [sequences](crate::sequence) of requests.

use jiff::Timestamp;

use super::{Controller, Explain, Explanation, Observed, Requeue};
use crate::{
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
pub trait Sequenced: Send + Sync + 'static {
    /// What its queue holds.
    type Key: QueueKey;
    /// Everything one sync may look at.
    type Snapshot: Send + Sync;
    /// What is decided once, before the first request.
    type Plan: Describe + Send + Sync;
    /// A change of the controller's memory.
    type Note: Note + Sync;
    /// Why a key cannot be observed.
    type Error: super::Failure;

    /// Reads the caches. No requests, no waiting.
    fn observe(&self, key: &Self::Key, now: Timestamp) -> Result<Observed<Self::Snapshot>, Self::Error>;
    /// Decides. Pure: the same snapshot gives the same plan.
    fn decide(snapshot: &Self::Snapshot) -> Self::Plan;
    /// The requests that carry the plan out. Pure, too.
    fn sequence<'a>(snapshot: &'a Self::Snapshot, plan: &'a Self::Plan) -> impl Sequence<Self::Note> + 'a;
    /// The time of a snapshot, by which its sync is forecast.
    fn time(snapshot: &Self::Snapshot) -> Timestamp;
    /// The object of a sync: as its Events name it, and its uid, under which the ledger keeps what was written for it.
    fn object(snapshot: &Self::Snapshot) -> (ObjectRef, Uid);
    /// Changes memory as a sequence says.
    fn note(&self, snapshot: &Self::Snapshot, note: Self::Note);
    /// Reads caches and memory for a sequence that asks for them anew.
    fn fresh(&self, snapshot: &Self::Snapshot, question: <Self::Note as Note>::Question)
    -> <Self::Note as Note>::Fresh;
    /// Updates memory that later snapshots depend on; see [`Controller::record`].
    fn record(&self, _snapshot: &Self::Snapshot, _plan: &Self::Plan) {}
    /// Tidies memory up after a sync, however it ended.
    fn ended(&self, _snapshot: &Self::Snapshot) {}
    /// The uids of the object's children that the cache shows, for a ledger that has lost the answer to a create.
    fn children(&self, _snapshot: &Self::Snapshot) -> HashSet<Uid> {
        HashSet::default()
    }
    /// Whether the process ends: nothing new is begun then.
    fn ends(&self) -> bool;
    /// What carries sequences out.
    fn executor(&self) -> &Executor;
    /// The caches that must be filled before the first sync.
    fn informers(&self) -> Vec<&dyn AnyInformer>;
    /// Hears of a sync that waits; see [`Controller::waiting`].
    fn waiting(&self, _key: &Self::Key) {}
}

/// What a plan says, with the requests that carry it out.
pub fn explain<N: Note>(plan: &impl Describe, sequence: &mut dyn Sequence<N>, now: Timestamp) -> Explanation {
    let actions = forecast(sequence, now).lines();
    Explanation { situation: plan.situation(), waiting: plan.waiting(), actions }
}

/// A plan and the forecast of its requests.
pub struct Forecasted<P, N: Note> {
    plan: P,
    forecast: Forecast<N>,
    account: Account,
}

impl<P: Describe, N: Note> Explain for Forecasted<P, N> {
    fn explain(&self) -> Explanation {
        Explanation { situation: self.plan.situation(), waiting: self.plan.waiting(), actions: self.forecast.lines() }
    }

    fn acts(&self) -> bool {
        !self.forecast.is_quiet() || self.plan.is_notable()
    }

    fn requeue_after(&self) -> Option<std::time::Duration> {
        self.plan.requeue_after()
    }

    fn account(&self) -> Option<&Account> {
        Some(&self.account)
    }
}

impl<C: Sequenced> Controller for C {
    type Key = C::Key;
    type Snapshot = C::Snapshot;
    type Plan = Forecasted<C::Plan, C::Note>;
    type Error = SyncError<C::Error>;

    fn observe(&self, key: &C::Key, now: Timestamp) -> Result<Observed<C::Snapshot>, Self::Error> {
        Sequenced::observe(self, key, now).map_err(SyncError::Observe)
    }

    fn decide(snapshot: &C::Snapshot) -> Self::Plan {
        let plan = <C as Sequenced>::decide(snapshot);
        let forecast = forecast(&mut C::sequence(snapshot, &plan), C::time(snapshot));
        let account = forecast.account();
        Forecasted { plan, forecast, account }
    }

    fn record(&self, snapshot: &C::Snapshot, plan: &Self::Plan) {
        Sequenced::record(self, snapshot, &plan.plan);
    }

    async fn act(&self, snapshot: C::Snapshot, plan: Self::Plan) -> Result<Requeue, Self::Error> {
        let Forecasted { plan, forecast, account } = plan;
        let subject = Subject {
            object: &|| C::object(&snapshot),
            children: &|| self.children(&snapshot),
            ends: &|| self.ends(),
            note: &|note| self.note(&snapshot, note),
            fresh: &|question| self.fresh(&snapshot, question),
        };
        let mut sequence = C::sequence(&snapshot, &plan);
        let outcome = self.executor().execute(&subject, &mut sequence, forecast, &account).await;
        account.shorten();
        self.ended(&snapshot);
        outcome.map_err(SyncError::Act)
    }

    fn informers(&self) -> Vec<&dyn AnyInformer> {
        Sequenced::informers(self)
    }

    fn waiting(&self, key: &C::Key) {
        Sequenced::waiting(self, key);
    }
}

/// Why a sync failed: before its first request, or after.
#[derive(Debug, thiserror::Error)]
pub enum SyncError<E> {
    /// The key could not be observed.
    #[error("{0}")]
    Observe(E),
    /// A request failed, or an answer did not allow to go on.
    #[error("{0}")]
    Act(Failed),
}

impl<E: super::Failure> super::Failure for SyncError<E> {
    fn retry(&self) -> super::Retry {
        match self {
            Self::Observe(error) => error.retry(),
            Self::Act(failed) => failed.retry(),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Observe(error) => error.label(),
            Self::Act(failed) => failed.label(),
        }
    }
}
