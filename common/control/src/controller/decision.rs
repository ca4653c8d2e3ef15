//! A plan, and what carrying it out is expected to do.

use std::time::Duration;

use jiff::Timestamp;

use super::{Controller, Explain as _, Explanation};
use crate::{
    events::ObjectRef,
    io::{self, Account, Executor, Forecast, Note, Outcome, Subject},
    map::HashSet,
    meta::Uid,
};

/// A plan and the forecast of its requests.
pub struct Decision<C: Controller> {
    /// The plan.
    pub plan: C::Plan,
    forecast: Forecast<C::Note>,
}

impl<C: Controller> Decision<C> {
    /// Decides, and runs the sync against a server that grants everything.
    pub fn of(snapshot: &C::Snapshot, now: Timestamp) -> Self {
        let plan = C::decide(snapshot);
        let forecast = io::forecast(now, async |io| C::carry_out(snapshot, &plan, io).await);
        Self { plan, forecast }
    }

    /// The plan with its expected requests.
    pub fn explain(&self) -> Explanation {
        let mut actions = self.plan.actions();
        actions.extend(self.account().map(Account::lines).unwrap_or_default());
        Explanation { situation: self.plan.situation(), waiting: self.plan.waiting(), actions }
    }

    /// Whether the sync sends requests, or its plan is worth remembering.
    pub fn acts(&self) -> bool {
        self.account().is_some() || self.plan.is_notable()
    }

    /// See [`Explain::requeue_after`](super::Explain::requeue_after).
    pub fn requeue_after(&self) -> Option<Duration> {
        self.plan.requeue_after()
    }

    /// The account of the expected requests; `None` if the sync sends nothing.
    pub fn account(&self) -> Option<&Account> {
        self.forecast.account.as_ref()
    }

    /// Carries the plan out.
    pub(super) async fn carry_out(self, controller: &C, snapshot: &C::Snapshot, executor: &Executor) -> Outcome {
        let Self { plan, forecast } = self;
        let subject = SyncOf { controller, snapshot };
        executor.run(&subject, forecast, async |io| C::carry_out(snapshot, &plan, io).await).await
    }
}

/// One sync of a controller.
struct SyncOf<'a, C: Controller> {
    controller: &'a C,
    snapshot: &'a C::Snapshot,
}

impl<C: Controller> Subject<C::Note> for SyncOf<'_, C> {
    fn object(&self) -> (ObjectRef, Uid) {
        C::object(self.snapshot)
    }

    fn children(&self) -> HashSet<Uid> {
        self.controller.children(self.snapshot)
    }

    fn note(&self, note: C::Note) {
        self.controller.note(self.snapshot, note);
    }

    fn observe(&self, question: <C::Note as Note>::Question) -> Option<<C::Note as Note>::Fresh> {
        self.controller.fresh(self.snapshot, question)
    }
}
