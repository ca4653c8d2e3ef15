//! One sync on its way: its requests are sent, and its effects take place.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    account::{Account, AccountObserver, Expected},
    effect::{Effect, Note},
    outcome::{Failed, Outcome},
    own_writes::OwnWrites,
    request::{Body, Fields, Precondition, Refusal, Request, Verb, with_precondition},
};
use crate::{
    api::{self, Api, Delete, Target},
    consistency::Ledger,
    events::{ObjectRef, Recorder},
    map::HashSet,
    meta::Uid,
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
    fn observe(&self, question: N::Question) -> Option<N::Fresh>;
}

/// A server that grants every request at once.
pub(super) struct GrantingServer<N> {
    pub(super) now: Timestamp,
    pub(super) expected: Mutex<Expected>,
    pub(super) effects: Mutex<Vec<Effect<N>>>,
}

/// One sync on its way.
pub(super) struct Run<'r, N: Note> {
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
pub(super) struct Stopped;

impl<'r, N: Note> Run<'r, N> {
    pub(super) fn new(executor: &'r Executor, subject: &'r dyn Subject<N>, account: Option<&'r Account>) -> Self {
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

    /// Runs a sync to its end, or until this process may no longer write and no request is under way.
    pub(super) async fn drive(&self, sync: impl Future<Output = Outcome>) -> Result<Outcome, Stopped> {
        let mut sync = pin!(sync);
        poll_fn(|context| match sync.as_mut().poll(context) {
            Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
            Poll::Pending if self.waits.load(Ordering::Relaxed) > 0 => Poll::Pending,
            Poll::Pending if self.is_stopped.load(Ordering::Relaxed) => Poll::Ready(Err(Stopped)),
            Poll::Pending => Poll::Ready(Ok(Err(foreign_wait()))),
        })
        .await
    }

    /// Awaits a future that is counted as under way meanwhile.
    async fn wait<F: Future>(&self, future: F) -> F::Output {
        struct Counted<'w>(&'w AtomicUsize);
        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.waits.fetch_add(1, Ordering::Relaxed);
        let _counted = Counted(&self.waits);
        future.await
    }

    pub(super) async fn pause(&self, duration: Duration, factor: f64) {
        let clock = self.executor.api.clock();
        self.wait(clock.sleep(clock.jitter(duration, factor))).await;
    }

    pub(super) fn observe(&self, question: N::Question) -> Option<N::Fresh> {
        self.subject.observe(question)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.executor.api.clock().now()
    }

    /// Whether the process shuts down, so that nothing new is begun.
    pub(super) fn is_ending(&self) -> bool {
        let is_ending = (self.executor.is_ending)();
        if is_ending {
            self.deviate("the process ends");
        }
        is_ending
    }

    pub(super) fn apply(&self, effect: Effect<N>) {
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
    /// [`Run::drive`] does.
    pub(super) async fn send(&self, request: Request) -> Result<(Fields, Bytes), Refusal> {
        let request = &request;
        self.account.inspect(|account| account.sends(request));
        self.own_writes.sends(request, || &self.object().1, || self.subject.children());
        let answer = match self.wait(self.request(request)).await {
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
            std::future::pending().await
        }
        Err(refusal)
    }

    async fn request(&self, request: &Request) -> Result<Bytes, api::Error> {
        let api = &self.executor.api;
        let creates = matches!(request.verb, Verb::Create(_));
        let name = if creates { "" } else { &*request.name };
        let subresource = request.subresource;
        let target = Target { resource: request.resource, namespace: &request.namespace, name, subresource };
        let precondition = self.own_writes.precondition(request);
        let unsent = |error: String| api::Error::Unsent(format!("the body of the request cannot be encoded: {error}"));
        let encoded = |body: &Body| body.0.clone().map_err(unsent);
        match &request.verb {
            Verb::Get => api.read(&target.path(), request.accept).await,
            Verb::List(query) => api.list(request.resource, &request.namespace, query).await,
            Verb::Create(body) => api.create_encoded(target, encoded(body)?).await,
            Verb::Replace(body) => api.replace_encoded(target, encoded(body)?).await,
            Verb::Patch(kind, body) => {
                let mut body = encoded(body)?;
                if let Some(precondition) = &precondition {
                    body = with_precondition(&body, precondition).map_err(|error| unsent(error.to_string()))?;
                }
                api.patch_encoded(target, *kind, body).await
            }
            Verb::Delete(propagation, grace_seconds) => {
                let Precondition { uid, version } = precondition.unwrap_or_default();
                let uid = (!uid.is_empty()).then_some(uid);
                let version = version.filter(|version| version.is_known());
                let options = Delete { uid, version, propagation: *propagation, grace_seconds: *grace_seconds };
                api.delete(target, &options).await
            }
        }
    }
}

/// The failure of a sync that awaits something else than its [`Io`](super::Io).
pub(super) fn foreign_wait() -> Failed {
    debug_assert!(false, "a sync awaits something else than its requests");
    Failed::new("bug", "the sync awaits something else than its requests")
}
