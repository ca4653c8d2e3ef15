//! A sync on its way: in a forecast, and against the API server.

use std::{
    borrow::Cow,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    account::{Account, AccountObserver, Expected},
    effect::{Effect, Note},
    outcome::{Failed, Requeue},
    own_writes::OwnWrites,
    request::{Body, Fields, Refusal, Request, Verb},
};
use crate::{
    api::{self, Api, Written},
    consistency::Ledger,
    events::{EventType, ObjectRef, Recorder},
    map::HashSet,
    meta::{Meta, Uid},
};

/// Carries out the syncs of one controller. Cheap to clone.
#[derive(Clone)]
pub struct Executor {
    /// The API server, behind the gate.
    pub api: Api,
    /// Records Events.
    pub recorder: Recorder,
    /// Where own writes are noted, if the controller keeps a ledger.
    pub ledger: Option<Ledger>,
    /// Sees the accounts of syncs begin and end.
    pub accounts: Option<Arc<dyn AccountObserver>>,
    /// Whether the process shuts down: no member of a group is begun then.
    pub is_ending: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// The object of one sync, and the controller that syncs it.
pub trait Subject<N: Note>: Sync {
    /// The object as Events name it, and the uid under which the ledger keeps its record.
    fn object(&self) -> (ObjectRef, Uid);
    /// The uids of the children that the cache shows. Read before the first create, in case its answer is lost.
    fn children(&self) -> HashSet<Uid>;
    /// Changes the controller's memory.
    fn note(&self, note: N);
    /// Reads the controller's caches and memory.
    fn observe_again(&self, question: N::Question) -> Option<N::Fresh>;
}

/// Everything that a sync does if every request is granted.
pub struct Forecast<N: Note> {
    /// The account of a sync that is about to begin; `None` if it sends nothing.
    pub account: Option<Account>,
    /// What a sync that sends nothing does besides.
    effects: Vec<Effect<N>>,
    outcome: Result<Requeue, Failed>,
}

/// Runs a sync to its end against a server that grants every request. It waits for nothing, so that it needs no runtime.
pub fn forecast<N: Note>(now: Timestamp, sync: impl AsyncFnOnce(Io<'_, N>) -> Result<Requeue, Failed>) -> Forecast<N> {
    let server = GrantingServer { now, expected: Mutex::default(), effects: Mutex::default() };
    let outcome = match pin!(sync(Io(Side::Forecast(&server)))).poll(&mut Context::from_waker(Waker::noop())) {
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
        sync: impl AsyncFnOnce(Io<'_, N>) -> Result<Requeue, Failed>,
    ) -> Result<Requeue, Failed> {
        let Forecast { account, effects, outcome } = forecast;
        let run = Run::new(self, subject, account.as_ref());
        let Some(account) = &account else {
            for effect in effects {
                run.apply(effect);
            }
            return outcome;
        };
        self.accounts.iter().for_each(|accounts| accounts.begins(account));
        let mut sync = pin!(sync(Io(Side::Real(&run))));
        let outcome = poll_fn(|context| run.poll_result(sync.as_mut().poll(context))).await;
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

/// The API server as one sync sees it, and the way to the controller's memory. A sync awaits nothing else.
pub struct Io<'r, N: Note>(Side<'r, N>);

enum Side<'r, N: Note> {
    Forecast(&'r GrantingServer<N>),
    Real(&'r Run<'r, N>),
}

impl<N: Note> Clone for Io<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N: Note> Copy for Io<'_, N> {}
impl<N: Note> Clone for Side<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N: Note> Copy for Side<'_, N> {}

/// The answer to a request that was granted.
#[derive(Debug, Default)]
pub struct Answer {
    /// Name, uid and version of the object that was written; empty in a forecast.
    pub fields: Fields,
    body: Option<Bytes>,
}

impl Answer {
    /// The object; `None` in a forecast.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, Refusal> {
        let object = self.body.as_ref().map(|body| serde_json::from_slice(body)).transpose();
        object.map_err(|error| api::Error::Answer(error).into())
    }

    /// The metadata of the object; `None` in a forecast.
    pub fn metadata(&self) -> Result<Option<Meta>, Refusal> {
        Ok(self.read::<Written>()?.map(|written| written.metadata))
    }
}

impl<N: Note> Io<'_, N> {
    /// Sends a request. A write that would leave after this process lost its Lease does not return: the sync ends there.
    pub async fn send(self, request: Request) -> Result<Answer, Refusal> {
        match self.0 {
            Side::Forecast(server) => {
                server.expected.lock().add(&request);
                Ok(Answer::default())
            }
            // On the heap, because a group has many members.
            Side::Real(run) => {
                let (fields, body) = Box::pin(run.send(request)).await?;
                Ok(Answer { fields, body: Some(body) })
            }
        }
    }

    /// Sends a request and reads the object in the answer; `None` in a forecast.
    pub async fn send_and_read<T: DeserializeOwned>(self, request: Request) -> Result<Option<T>, Refusal> {
        self.send(request).await?.read()
    }

    /// Waits.
    pub async fn pause(self, duration: Duration) {
        self.pause_with_jitter(duration, 0.0).await;
    }

    /// Waits for that time, lengthened by a random share of it below `factor`.
    pub async fn pause_with_jitter(self, duration: Duration, factor: f64) {
        if let Side::Real(run) = self.0 {
            run.pause(duration, factor).await;
        }
    }

    /// Reads caches and memory again, after a wait; `None` if nothing has changed since the snapshot, as in a forecast.
    pub fn observe_again(self, question: N::Question) -> Option<N::Fresh> {
        match self.0 {
            Side::Forecast(_) => None,
            Side::Real(run) => run.subject.observe_again(question),
        }
    }

    /// The time.
    pub fn now(self) -> Timestamp {
        match self.0 {
            Side::Forecast(server) => server.now,
            Side::Real(run) => run.executor.api.clock().now(),
        }
    }

    /// Records an Event about the object of the sync.
    pub fn event(self, kind: EventType, reason: impl Into<Cow<'static, str>>, message: impl Into<String>) {
        self.apply(Effect::Event(kind, reason.into(), message.into()));
    }

    /// Changes the controller's memory.
    pub fn note(self, note: N) {
        self.apply(Effect::Note(note));
    }

    /// States why the sync continues otherwise than forecast although the last request was granted: a live read shows another object than
    /// the cache.
    pub fn deviate(self, why: impl Into<String>) {
        self.apply(Effect::Deviation(why.into()));
    }

    /// Whether the process shuts down, so that nothing new is begun.
    pub(super) fn is_ending(self) -> bool {
        matches!(self.0, Side::Real(run) if run.is_ending())
    }

    fn apply(self, effect: Effect<N>) {
        match self.0 {
            Side::Forecast(server) => server.effects.lock().push(effect),
            Side::Real(run) => run.apply(effect),
        }
    }

    /// The body of a request: encoded for the server, left out of a forecast.
    pub fn body<B: Serialize>(self, make: impl FnOnce() -> B) -> Body {
        if self.is_forecast() { Body::default() } else { Body::encode(&make()) }
    }

    /// Whether this is a forecast.
    pub(super) fn is_forecast(self) -> bool {
        matches!(self.0, Side::Forecast(_))
    }
}

/// A server that grants every request at once.
struct GrantingServer<N> {
    now: Timestamp,
    expected: Mutex<Expected>,
    effects: Mutex<Vec<Effect<N>>>,
}

/// One sync on its way.
struct Run<'r, N: Note> {
    executor: &'r Executor,
    subject: &'r dyn Subject<N>,
    /// `None` if nothing is sent.
    account: Option<&'r Account>,
    /// [`Subject::object`], once it is needed.
    object: OnceLock<(ObjectRef, Uid)>,
    own_writes: OwnWrites<'r>,
    /// How many requests and pauses are under way.
    waits: AtomicUsize,
    /// Whether a request was not sent because this process may no longer write.
    is_stopped: AtomicBool,
}

/// Why a sync was broken off: this process may no longer write.
struct Stopped;

/// A request or pause that is under way.
struct Wait<'w>(&'w AtomicUsize);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<'r, N: Note> Run<'r, N> {
    fn new(executor: &'r Executor, subject: &'r dyn Subject<N>, account: Option<&'r Account>) -> Self {
        Self {
            executor,
            subject,
            account,
            object: OnceLock::new(),
            own_writes: OwnWrites::new(executor.ledger.as_ref()),
            waits: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// What a poll of the sync means: it also ends when this process may no longer write and no request is under way.
    fn poll_result(&self, poll: Poll<Result<Requeue, Failed>>) -> Poll<Result<Result<Requeue, Failed>, Stopped>> {
        match poll {
            Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
            Poll::Pending if self.waits.load(Ordering::Relaxed) > 0 => Poll::Pending,
            Poll::Pending if self.is_stopped.load(Ordering::Relaxed) => Poll::Ready(Err(Stopped)),
            Poll::Pending => Poll::Ready(Ok(Err(foreign_wait()))),
        }
    }

    /// Counts a wait as under way until the result is dropped.
    fn waits(&self) -> Wait<'_> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        Wait(&self.waits)
    }

    async fn pause(&self, duration: Duration, factor: f64) {
        let clock = self.executor.api.clock();
        let _wait = self.waits();
        clock.sleep(clock.jitter(duration, factor)).await;
    }

    /// Whether the process shuts down, so that nothing new is begun.
    fn is_ending(&self) -> bool {
        let is_ending = (self.executor.is_ending)();
        if is_ending {
            self.deviate("the process ends");
        }
        is_ending
    }

    fn apply(&self, effect: Effect<N>) {
        match effect {
            Effect::Event(kind, reason, message) => {
                self.executor.recorder.event(&self.object().0, kind, reason, message);
            }
            Effect::Note(note) => self.subject.note(note),
            Effect::Deviation(why) => self.deviate(why),
        }
    }

    fn object(&self) -> &(ObjectRef, Uid) {
        self.object.get_or_init(|| self.subject.object())
    }

    fn deviate(&self, why: impl Into<String>) {
        if let Some(account) = self.account {
            account.deviates(why);
        }
    }

    /// Sends a request and notes what its answer means for the caches. Does not return if this process may no longer write:
    /// [`Executor::run`] does.
    async fn send(&self, request: Request) -> Result<(Fields, Bytes), Refusal> {
        let request = &request;
        self.account.inspect(|account| account.sends(request));
        self.own_writes.sends(request, || &self.object().1, || self.subject.children());
        let answer = match request.call(self.own_writes.precondition(request)) {
            Ok(call) => {
                let _wait = self.waits();
                self.executor.api.call(call).await
            }
            Err(unsent) => Err(unsent),
        };
        let answer = match answer {
            // Some servers answer a deletion with something else than a status or the object.
            Ok(bytes) if matches!(request.verb, Verb::Delete(..)) => {
                Ok((Fields::parse(&bytes).unwrap_or_default(), bytes))
            }
            Ok(bytes) if request.verb.writes() || request.precondition.is_some() => {
                Fields::parse(&bytes).map(|fields| (fields, bytes))
            }
            other => other.map(|bytes| (Fields::default(), bytes)),
        };
        let error = match answer {
            Ok((fields, bytes)) => {
                self.own_writes.granted(request, &fields, || &self.object().1);
                return Ok((fields, bytes));
            }
            Err(error) => error,
        };
        let is_stopped = matches!(error, api::Error::NotLeader);
        let refusal = Refusal::from(error);
        self.account.inspect(|account| account.refused(request, &refusal));
        self.own_writes.refused(request, &refusal, || &self.object().1);
        if is_stopped {
            self.is_stopped.store(true, Ordering::Relaxed);
            return std::future::pending().await;
        }
        Err(refusal)
    }
}

/// The failure of a sync that awaits something else than its [`Io`](super::Io).
fn foreign_wait() -> Failed {
    debug_assert!(false, "a sync awaits something else than its requests");
    Failed::new("bug", "the sync awaits something else than its requests")
}
