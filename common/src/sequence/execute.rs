//! Running a sequence against the server.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;

use super::{
    Account, AccountObserver, Body, Class, Effect, Failed, Fields, Forecast, Next, Note, Pace, Precondition, Refusal,
    Request, Role, Sequence, Turn, Verb, request::with_precondition,
};
use crate::{
    api::{self, Api, Delete, Target},
    batch,
    consistency::Ledger,
    controller::Requeue,
    events::{ObjectRef, Recorder},
    map::{HashMap, HashSet},
    meta::{Meta, Uid, Version},
    queue::{Queue, QueueKey},
    runtime::Context,
};

/// Why a sequence was broken off: this process may not write any more.
struct Stopped;

/// Carries sequences out for one controller. Cheap to clone.
#[derive(Clone)]
pub struct Executor {
    pub(super) api: Api,
    pub(super) recorder: Recorder,
    pub(super) ledger: Option<Ledger>,
    pub(super) accounts: Option<Arc<dyn AccountObserver>>,
    /// Whether the process ends: nothing new is begun then.
    pub(super) ends: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// The object of one sync.
pub struct Subject<'a, N: Note> {
    /// Returns the object as Events name it, and the uid under which the ledger keeps its record. Called at most once.
    pub object: &'a (dyn Fn() -> (ObjectRef, Uid) + Send + Sync),
    /// The uids of the children that the cache shows. Asked for before the first create, in case its answer is lost.
    pub children: &'a (dyn Fn() -> HashSet<Uid> + Send + Sync),
    /// Changes the controller's memory.
    pub note: &'a (dyn Fn(N) + Send + Sync),
    /// Reads the controller's caches and memory.
    pub fresh: &'a (dyn Fn(N::Question) -> Option<N::Fresh> + Send + Sync),
}

impl Executor {
    /// An executor for the loop whose keys are in `queue`. It notes writes in `ledger`, if there is one.
    pub(crate) fn new<K: QueueKey>(context: &Context, queue: &Queue<K>, ledger: Option<Ledger>) -> Self {
        let Context { api, recorder, accounts, .. } = context.clone();
        let queue = queue.clone();
        Self { api, recorder, ledger, accounts, ends: Arc::new(move || queue.is_closed()) }
    }

    /// Carries out a sequence of which `forecast` is the forecast, and keeps the account up to date meanwhile.
    pub async fn execute<N: Note>(
        &self,
        subject: &Subject<'_, N>,
        sequence: &mut dyn Sequence<N>,
        forecast: Forecast<N>,
    ) -> Result<Requeue, Failed> {
        let run = Run {
            executor: self,
            subject,
            account: forecast.account.as_ref(),
            object: OnceLock::new(),
            versions: LatestVersions::default(),
            known: tokio::sync::OnceCell::new(),
        };
        let Some(account) = run.account else {
            run.apply(forecast.effects);
            return forecast.outcome.unwrap_or(Ok(Requeue::No));
        };
        self.accounts.iter().for_each(|accounts| accounts.begins(account));
        let mut outcome = None;
        let stopped = run.sequence(sequence, &mut outcome).await;
        if stopped.is_err() {
            account.deviates("this process may not write any more");
        } else if let Some(Err(failed)) = &outcome {
            account.deviates_if_unexplained(failed);
        }
        account.end();
        self.accounts.iter().for_each(|accounts| accounts.ends(account));
        account.shorten();
        match stopped {
            Ok(()) => outcome.unwrap_or(Ok(Requeue::No)),
            Err(Stopped) => Err(Failed::stopped()),
        }
    }
}

/// The versions at which the writes of one sync have left objects.
///
/// A second write to the same object in one sync names the version that the first write returned, because the cache does not show
/// that version yet.
#[derive(Debug, Default)]
struct LatestVersions(Mutex<HashMap<Uid, Version>>);

impl LatestVersions {
    fn insert(&self, uid: &Uid, version: Version) {
        self.0.lock().insert(uid.clone(), version);
    }

    /// The version of an object after the writes of this sync: `judged` if there was none.
    fn newest(&self, uid: &Uid, judged: Version) -> Version {
        self.0.lock().get(uid).copied().unwrap_or(judged)
    }
}

/// One sequence on its way.
struct Run<'r, N: Note> {
    executor: &'r Executor,
    subject: &'r Subject<'r, N>,
    /// `None` if nothing is sent.
    account: Option<&'r Account>,
    /// What [`Subject::object`] says, once it is needed.
    object: OnceLock<(ObjectRef, Uid)>,
    /// The versions at which writes of this sync have left objects.
    versions: LatestVersions,
    /// The children before the first create.
    known: tokio::sync::OnceCell<HashSet<Uid>>,
}

type Outcome = Option<Result<Requeue, Failed>>;

impl<N: Note> Run<'_, N> {
    fn object(&self) -> &(ObjectRef, Uid) {
        self.object.get_or_init(self.subject.object)
    }

    fn sequence<'s>(
        &'s self,
        sequence: &'s mut dyn Sequence<N>,
        outcome: &'s mut Outcome,
    ) -> Pin<Box<dyn Future<Output = Result<(), Stopped>> + Send + 's>> {
        Box::pin(async move {
            let clock = self.executor.api.clock();
            let (mut answer, mut fresh) = (None, None);
            loop {
                let mut turn = Turn::new(clock.now(), false);
                turn.answer = answer.take();
                turn.fresh = fresh.take();
                let next = sequence.next(&mut turn);
                self.apply(std::mem::take(&mut turn.effects));
                if turn.outcome.is_some() && !matches!(outcome, Some(Err(_))) {
                    *outcome = turn.outcome;
                }
                match next {
                    Next::Send(request) => answer = Some(self.send(&request).await?),
                    Next::All(members, pace) => self.all(members, pace).await?,
                    Next::Pause(duration) => clock.sleep(duration).await,
                    Next::PauseWithJitter(duration, factor) => clock.sleep(clock.jitter(duration, factor)).await,
                    Next::Observe(question) => fresh = (self.subject.fresh)(question),
                    Next::Done => return Ok(()),
                }
            }
        })
    }

    async fn all(&self, members: Vec<&mut dyn Sequence<N>>, pace: Pace) -> Result<(), Stopped> {
        let count = members.len();
        let batches = match pace {
            Pace::AtOnce | Pace::AtMost(_) => batch::at_once(count),
            Pace::InOrder => batch::slow_start(count).at_most(1),
            Pace::SlowStart(largest) => batch::slow_start(count).at_most(largest),
        };
        let in_flight = if let Pace::AtMost(most) = pace { most.max(1) } else { batch::IN_FLIGHT };
        let mut rest = members;
        for size in batches {
            let later = rest.split_off(size);
            let mut stops = false;
            for result in batch::all_within(in_flight, rest.into_iter().map(|member| self.member(member))).await {
                stops |= result?;
            }
            if stops && !matches!(pace, Pace::AtOnce | Pace::AtMost(_)) {
                break;
            }
            rest = later;
        }
        Ok(())
    }

    /// Runs a member of a group; returns whether it keeps its siblings from being begun.
    async fn member(&self, member: &mut dyn Sequence<N>) -> Result<bool, Stopped> {
        if (self.executor.ends)() {
            self.deviates("the process ends");
            return Ok(true);
        }
        self.sequence(member, &mut None).await?;
        Ok(member.stops_siblings())
    }

    fn apply(&self, effects: Vec<Effect<N>>) {
        for effect in effects {
            match effect {
                Effect::Tell(kind, reason, message) => {
                    self.executor.recorder.event(&self.object().0, kind, reason, message);
                }
                Effect::Note(note) => (self.subject.note)(note),
                Effect::Deviate(why) => self.deviates(why),
            }
        }
    }

    fn deviates(&self, why: impl Into<String>) {
        if let Some(account) = self.account {
            account.deviates(why);
        }
    }

    /// Sends a request and notes what it means for the caches.
    async fn send(&self, request: &Request) -> Result<Result<(Fields, bytes::Bytes), Refusal>, Stopped> {
        self.account.inspect(|account| account.sends(request));
        self.before(request).await;
        let answer = match self.request(request).await {
            // Some servers answer a deletion with something else than a status or the object.
            Ok(bytes) if matches!(request.verb, Verb::Delete(..)) => {
                Ok((Fields::parse(&bytes).unwrap_or_default(), bytes))
            }
            Ok(bytes) if request.verb.writes() || request.precondition.is_some() => {
                Fields::parse(&bytes).map(|fields| (fields, bytes))
            }
            other => other.map(|bytes| (Fields::default(), bytes)),
        };
        match answer {
            Ok((fields, bytes)) => {
                self.granted(request, &fields);
                Ok(Ok((fields, bytes)))
            }
            Err(error) => {
                let is_stopped = matches!(error, api::Error::NotLeader);
                let refusal = Refusal::from(error);
                self.refused(request, &refusal);
                if is_stopped { Err(Stopped) } else { Ok(Err(refusal)) }
            }
        }
    }

    async fn request(&self, request: &Request) -> Result<bytes::Bytes, api::Error> {
        let api = &self.executor.api;
        let creates = matches!(request.verb, Verb::Create(_));
        let name = if creates { "" } else { &*request.name };
        let subresource = request.subresource;
        let target = Target { resource: request.resource, namespace: &request.namespace, name, subresource };
        let precondition = self.precondition(request);
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

    /// The object that a write is meant for, at the version at which this sync has left it.
    fn precondition(&self, request: &Request) -> Option<Precondition> {
        let Precondition { uid, version } = request.precondition.clone()?;
        let version = version.map(|judged| self.versions.newest(&uid, judged));
        Some(Precondition { uid, version })
    }

    /// Notes what must be known before the answer: an event may come first.
    async fn before(&self, request: &Request) {
        if self.executor.ledger.is_none() || request.role != Role::Child {
            return;
        }
        match &request.verb {
            Verb::Create(_) => {
                self.known.get_or_init(|| async { (self.subject.children)() }).await;
            }
            Verb::Delete(..) => self.await_deletion(request),
            _ => {}
        }
    }

    fn granted(&self, request: &Request, fields: &Fields) {
        match &request.precondition {
            Some(Precondition { uid, .. }) if *uid == fields.uid && request.verb.writes() => {
                self.versions.insert(uid, fields.version);
            }
            Some(Precondition { uid, .. }) if *uid != fields.uid && !request.verb.writes() => {
                self.await_own_deletion(request);
            }
            _ => {}
        }
        let Some(ledger) = &self.executor.ledger else { return };
        let owner = &self.object().1;
        match (&request.verb, request.role) {
            (Verb::Create(_), Role::Child) => ledger.created(owner, request.resource, &fields.uid, fields.version),
            (Verb::Create(_), Role::Itself | Role::Awaited)
            | (Verb::Patch(..) | Verb::Replace(_), Role::Child | Role::Itself | Role::Awaited) => {
                ledger.wrote(owner, request.resource, fields.version);
            }
            (Verb::Delete(..), Role::Awaited) => self.await_deletion(request),
            (_, Role::Released) => self.take_back(request),
            _ => {}
        }
    }

    fn refused(&self, request: &Request, refusal: &Refusal) {
        self.account.inspect(|account| account.refused(request, refusal));
        if matches!((&request.verb, request.role), (Verb::Delete(..), Role::Awaited)) && refusal.error.is_not_found() {
            self.await_deletion(request);
        }
        if refusal.class == Class::Gone && matches!(request.verb, Verb::Get | Verb::Patch(..) | Verb::Replace(_)) {
            self.await_own_deletion(request);
        }
        let (Some(ledger), Role::Child | Role::Released | Role::Itself) = (&self.executor.ledger, request.role) else {
            return;
        };
        let owner = &self.object().1;
        if matches!(request.verb, Verb::Delete(..)) || (request.role == Role::Released && refusal.class == Class::Gone)
        {
            self.take_back(request);
        }
        match (&request.verb, refusal.class) {
            (Verb::Create(_), Class::Unknown) if request.role == Role::Child => {
                ledger.lost_create(owner, request.resource, || self.known.get().cloned().unwrap_or_default());
            }
            (Verb::Patch(..) | Verb::Delete(..), Class::Changed) => {
                if let Some(Precondition { uid, version: Some(version) }) = request.precondition.clone() {
                    let (namespace, name) = (request.namespace.clone(), request.name.clone());
                    let judged = Meta { namespace, name, uid, resource_version: version, ..Meta::default() };
                    ledger.conflicted(owner, request.resource, &judged);
                }
            }
            _ => {}
        }
    }

    /// Notes that the cache has to show the deletion.
    fn await_deletion(&self, request: &Request) {
        if let (Some(ledger), Some(Precondition { uid, .. })) = (&self.executor.ledger, &request.precondition) {
            ledger.deleted(&self.object().1, request.resource, &request.namespace, &request.name, uid);
        }
    }

    /// Notes that the cache has to show that the sync's object is gone, if the request was for that object.
    fn await_own_deletion(&self, request: &Request) {
        let (Some(ledger), Some(Precondition { uid, .. })) = (&self.executor.ledger, &request.precondition) else {
            return;
        };
        if *uid == self.object().1 {
            ledger.gone(uid, request.resource, &request.namespace, &request.name);
        }
    }

    /// Takes back that a deletion is awaited: it was not made, or its event would concern somebody else.
    fn take_back(&self, request: &Request) {
        if let (Some(ledger), Some(precondition)) = (&self.executor.ledger, &request.precondition) {
            ledger.undelete(&self.object().1, &precondition.uid);
        }
    }
}
