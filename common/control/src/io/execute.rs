//! Running a sync: in a forecast, and against the API server.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    account::Account,
    effect::{Effect, Note},
    handle::Io,
    outcome::{Failed, Outcome},
    run::{Executor, GrantingServer, Run, Stopped, Subject, foreign_wait},
};

/// Everything that a sync does if every request is granted.
pub struct Forecast<N: Note> {
    /// The account of a sync that is about to begin; `None` if it sends nothing.
    pub account: Option<Account>,
    /// What a sync that sends nothing does besides.
    effects: Vec<Effect<N>>,
    outcome: Outcome,
}

/// Runs a sync to its end against a server that grants every request. It waits for nothing, so that it needs no runtime.
pub fn forecast<N: Note>(now: Timestamp, sync: impl AsyncFnOnce(Io<'_, N>) -> Outcome) -> Forecast<N> {
    let server = GrantingServer { now, expected: Mutex::default(), effects: Mutex::default() };
    let outcome = match pin!(sync(Io::forecast(&server))).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Err(foreign_wait()),
    };
    let account = server.expected.into_inner().into_account();
    // A sync that sends something runs again, and repeats its effects.
    let effects = if account.is_some() { Vec::new() } else { server.effects.into_inner() };
    Forecast { account, effects, outcome }
}

impl Executor {
    /// Runs a sync of which `forecast` is the forecast, and keeps the account up to date meanwhile.
    ///
    /// A sync that sends nothing has run already: only its effects are left to do.
    pub async fn run<N: Note>(
        &self,
        subject: &dyn Subject<N>,
        forecast: Forecast<N>,
        sync: impl AsyncFnOnce(Io<'_, N>) -> Outcome,
    ) -> Outcome {
        let Forecast { account, effects, outcome } = forecast;
        let run = Run::new(self, subject, account.as_ref());
        let Some(account) = &account else {
            effects.into_iter().for_each(|effect| run.apply(effect));
            return outcome;
        };
        self.accounts.iter().for_each(|accounts| accounts.begins(account));
        let outcome = run.drive(sync(Io::real(&run))).await;
        match &outcome {
            Err(Stopped) => account.deviates("this process may not write any more"),
            Ok(Err(failed)) => account.deviates_if_unexplained(failed),
            Ok(Ok(_)) => {}
        }
        account.end();
        self.accounts.iter().for_each(|accounts| accounts.ends(account));
        account.shorten();
        outcome.unwrap_or_else(|Stopped| Err(Failed::stopped()))
    }
}
