//! Runs a sync, either as a forecast without requests or against the API server.

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
    account::{ForecastRequests, RequestAccount, SyncCallbacks},
    body::{AnswerContent, RequestBody},
    outcome::{Requeue, SyncError, SyncErrorClass},
    own_writes::SyncWrites,
    request::{AnswerMetadata, Precondition, Refusal, Request, Verb},
};
use crate::{
    api::{self, Api, Call, EncodedBody, WireFormat, WrittenObject},
    consistency::{Ledger, LedgerOwner},
    discovery::{self, DiscoveredResources},
    events::{EventRecorder, EventType, InvolvedObject},
    gate::{DecisionTime, WithheldWrite},
    informer,
    map::HashSet,
    meta::{Meta, NamespacedName, Uid},
    object::Resource,
    partial_object::{ObjectPage, PartialObject},
    wire::{Envelope, MessageSchema, decode_message, messages::METADATA_ONLY_OBJECT},
};

/// The runner of one controller's syncs against the API server. Cheap to clone.
#[derive(Clone)]
pub struct SyncExecutor {
    /// Client of the API server. Writes pass the gate.
    pub api: Api,
    /// Recorder of Events on the objects of syncs.
    pub recorder: EventRecorder,
    /// Record of each sync's writes until the caches show them; `None` if the controller has no ledger.
    pub ledger: Option<Ledger>,
    /// Callbacks around each sync that sends requests; `None` outside of simulation and tests.
    pub sync_callbacks: Option<Arc<dyn SyncCallbacks>>,
    /// Whether the process shuts down. Groups of requests then begin no further members.
    pub is_shutting_down: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// The object of one sync, with access to the controller's caches.
pub trait SyncSubject: Sync {
    /// Returns the reference of the object for Events.
    fn object(&self) -> InvolvedObject;
    /// Returns the owner under which the ledger records the writes.
    fn ledger_owner(&self) -> LedgerOwner;
    /// Returns the UIDs of the children in the cache. Called before the first create request, in case its answer is lost.
    fn child_uids(&self) -> HashSet<Uid>;
}

/// The requests and the outcome of a sync if every request is granted.
pub struct SyncForecast {
    /// The expected requests, to which the run of the sync adds the sent ones; `None` if the sync sends nothing.
    pub request_account: Option<RequestAccount>,
    now: Timestamp,
    /// Whether the sync records Events or changes the controller's memory.
    has_effects: bool,
    outcome: Result<Requeue, SyncError>,
}

/// Runs a sync against a simulated server that grants every request. The run never waits and needs no runtime.
pub fn forecast_sync<M: Sync>(
    now: Timestamp,
    sync: impl AsyncFnOnce(Io<'_, M>) -> Result<Requeue, SyncError>,
) -> SyncForecast {
    let server = GrantingServer { now, expected: Mutex::default(), has_effects: AtomicBool::new(false) };
    let outcome = poll_once(sync(Io(IoBackend::Forecast(&server))));
    let request_account = server.expected.into_inner().into_account();
    SyncForecast { request_account, now, has_effects: server.has_effects.into_inner(), outcome }
}

/// Polls a sync that never waits.
fn poll_once(sync: impl Future<Output = Result<Requeue, SyncError>>) -> Result<Requeue, SyncError> {
    match pin!(sync).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Err(foreign_await_error()),
    }
}

impl SyncExecutor {
    /// Runs the sync of `forecast` against the API server, and keeps the account up to date.
    ///
    /// If the sync sends nothing, its outcome is that of the forecast. It then runs a second time only for its effects, if it has
    /// any, and sees the time of the forecast. `decision_time` is the time before the snapshot was taken.
    pub async fn run<M: Sync>(
        &self,
        memory: &M,
        subject: &dyn SyncSubject,
        decision_time: DecisionTime,
        forecast: SyncForecast,
        sync: impl AsyncFnOnce(Io<'_, M>) -> Result<Requeue, SyncError>,
    ) -> Result<Requeue, SyncError> {
        let SyncForecast { request_account: account, now, has_effects, outcome } = forecast;
        let run = SyncRun::new(self, memory, subject, decision_time, account.as_ref());
        let Some(account) = &account else {
            if has_effects {
                drop(poll_once(sync(Io(IoBackend::EffectsOnly(&run, now)))));
            }
            return outcome;
        };
        self.sync_callbacks.iter().for_each(|accounts| accounts.on_sync_begin(account));
        let _announced = self.api.gate().announce_writes();
        let mut sync = pin!(sync(Io(IoBackend::ApiServer(&run))));
        let outcome = poll_fn(|context| run.poll_result(sync.as_mut().poll(context))).await;
        match &outcome {
            Err(why) => account.record_deviation(why.to_string()),
            Ok(Err(failed)) => account.record_failure_if_unexplained(failed),
            Ok(Ok(_)) => {}
        }
        account.finish();
        self.sync_callbacks.iter().for_each(|accounts| accounts.on_sync_end(account));
        account.truncate_entries();
        outcome.unwrap_or_else(|why| Err(SyncError::withheld(why)))
    }
}

/// Gives one sync access to the API server, and to the memory of its controller, which has the type `M`.
///
/// # Flow
///
/// A sync gets an `Io` in [`act`](crate::controller::Controller::act) and awaits only methods of its `Io`. It runs first as a
/// forecast against a simulated server that grants every request, and then, if this process leads, against the API server.
///
/// # Guarantees
///
/// - A forecast has no effects: it sends nothing, records no Event, never waits, and calls no closure of
///   [`Self::update_memory`], [`Self::observe_again`] and [`Self::encode_body`].
/// - Requests, Events and changes of the memory take effect in the order of the calls.
/// - If this process may no longer write, the sync ends at its next write, and nothing after it runs. If the process was paused for
///   longer than it leads after a renewal, or could not renew its Lease, the same happens, and the key is synced again.
///
/// # Assumptions
///
/// The requests of a sync follow from its snapshot, its plan and the answers. [`Self::now`] and [`Self::observe_again`] may change
/// them; the account then needs a reason ([`Self::explain_deviation`]).
///
/// # Errors
///
/// A request that is not granted is a [`Refusal`] with a class that determines how the controller continues.
pub struct Io<'r, M>(IoBackend<'r, M>);

enum IoBackend<'r, M> {
    Forecast(&'r GrantingServer),
    /// The second run of a sync that sends nothing. It sees the time of the forecast.
    EffectsOnly(&'r SyncRun<'r, M>, Timestamp),
    ApiServer(&'r SyncRun<'r, M>),
}

impl<M> Clone for Io<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for Io<'_, M> {}
impl<M> Clone for IoBackend<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for IoBackend<'_, M> {}

/// The answer to a granted request.
#[derive(Debug, Default)]
pub struct Answer {
    /// Name, UID and version of the written object; empty in a forecast.
    pub metadata: AnswerMetadata,
    /// The answer with its format; `None` in a forecast.
    body: Option<(WireFormat, Bytes)>,
    /// Schema of an object in protobuf.
    schema: Option<&'static MessageSchema>,
}

impl Answer {
    /// Decodes the object; `None` in a forecast. The answer to a write contains only the metadata, unless the request says more
    /// ([`Request::with_object_answer`]).
    pub fn decode<T: DeserializeOwned>(&self) -> Result<Option<T>, Refusal> {
        let Some((format, body)) = &self.body else { return Ok(None) };
        Ok(Some(self.decode_body(*format, body)?))
    }

    fn decode_body<T: DeserializeOwned>(&self, format: WireFormat, body: &[u8]) -> Result<T, api::Error> {
        if format == WireFormat::Json {
            return Ok(serde_json::from_slice(body)?);
        }
        Ok(decode_message(self.schema.unwrap_or(&METADATA_ONLY_OBJECT), Envelope::decode(body)?.object)?)
    }

    /// Decodes the metadata of the object; `None` in a forecast.
    pub fn decode_metadata(&self) -> Result<Option<Meta>, Refusal> {
        Ok(self.decode::<WrittenObject>()?.map(|written| written.metadata))
    }
}

impl<'r, M: Sync> Io<'r, M> {
    /// Sends a request. Does not return if a write is withheld, because the sync ends there.
    pub async fn send(self, request: Request) -> Result<Answer, Refusal> {
        match self.0 {
            IoBackend::Forecast(server) => {
                server.expected.lock().add(&request);
                Ok(Answer::default())
            }
            IoBackend::EffectsOnly(..) => Ok(Answer::default()),
            // The future is on the heap, because a group of requests holds the futures of many members.
            IoBackend::ApiServer(run) => {
                let schema = match request.answer_content() {
                    AnswerContent::Object(schema) => Some(schema),
                    _ => None,
                };
                let (metadata, format, body) = Box::pin(run.send(request)).await?;
                Ok(Answer { metadata, body: Some((format, body)), schema })
            }
        }
    }

    /// Sends a request and decodes the object in the answer; `None` in a forecast.
    pub async fn send_and_decode<T: DeserializeOwned>(self, request: Request) -> Result<Option<T>, Refusal> {
        self.send(request.with_whole_answer()).await?.decode()
    }

    /// Reads the discovery documents of the server; `None` in a forecast. `resource` appears in explanations only.
    pub async fn discover(self, resource: &Resource) -> Result<Option<DiscoveredResources>, Refusal> {
        let mut discovered = DiscoveredResources::default();
        for root in discovery::ROOTS {
            let request = Request::discovery(root, resource.clone()).without_retries_if_unavailable();
            match self.send(request).await?.body {
                Some((_, document)) => discovered.add_document(&document)?,
                None => return Ok(None),
            }
        }
        Ok(Some(discovered))
    }

    /// Waits for `duration`. A forecast does not wait.
    pub async fn pause(self, duration: Duration) {
        self.pause_with_jitter(duration, 0.0).await;
    }

    /// Waits for `duration` plus a random part of `factor` times `duration`. A forecast does not wait.
    pub async fn pause_with_jitter(self, duration: Duration, factor: f64) {
        if let IoBackend::ApiServer(run) = self.0 {
            run.pause(duration, factor).await;
        }
    }

    /// Reads caches and memory again after a wait; `None` in a forecast, or if `read` finds nothing new.
    pub fn observe_again<T>(self, read: impl FnOnce(&M) -> Option<T>) -> Option<T> {
        if let IoBackend::ApiServer(run) = self.0 { read(run.memory) } else { None }
    }

    /// Returns the current time; in a forecast, the time of the snapshot.
    pub fn now(self) -> Timestamp {
        match self.0 {
            IoBackend::Forecast(server) => server.now,
            IoBackend::EffectsOnly(_, now) => now,
            IoBackend::ApiServer(run) => run.executor.api.clock().now(),
        }
    }

    /// Records an Event on the object of the sync.
    pub fn record_event(self, event_type: EventType, reason: impl Into<Cow<'static, str>>, message: impl Into<String>) {
        if let Some(run) = self.effective_run() {
            run.executor.recorder.record_event(run.object(), event_type, reason.into(), message.into());
        }
    }

    /// Changes the controller's memory, counts in its metrics, or logs. `update` is not called in a forecast.
    pub fn update_memory(self, update: impl FnOnce(&M)) {
        if let Some(run) = self.effective_run() {
            update(run.memory);
        }
    }

    /// States why the sync differs from its forecast although the last request was granted, for example because a live read
    /// returned another object than the cache.
    pub fn explain_deviation(self, why: impl Into<String>) {
        if let IoBackend::ApiServer(run) = self.0 {
            run.deviate(why);
        }
    }

    /// Whether the process shuts down, so that the sync begins nothing new.
    pub(super) fn is_shutting_down(self) -> bool {
        matches!(self.0, IoBackend::ApiServer(run) if run.is_shutting_down())
    }

    /// Returns the run whose effects take place; in a forecast, notes that the sync has effects.
    fn effective_run(self) -> Option<&'r SyncRun<'r, M>> {
        match self.0 {
            IoBackend::Forecast(server) => {
                server.has_effects.store(true, Ordering::Relaxed);
                None
            }
            IoBackend::EffectsOnly(run, _) | IoBackend::ApiServer(run) => Some(run),
        }
    }

    /// Encodes the body of a request as JSON. `make` is not called in a forecast.
    pub fn encode_body<B: Serialize>(self, make: impl FnOnce() -> B) -> RequestBody {
        if self.is_forecast() { RequestBody::default() } else { RequestBody::encode(&make()) }
    }

    /// Encodes an object to create or to replace, in the format that the client prefers. `message` is the schema of the object.
    /// `make` is not called in a forecast.
    ///
    /// An object with parts that were received as JSON is sent as JSON.
    pub fn encode_object<B: Serialize>(
        self,
        resource: &Resource,
        message: &'static MessageSchema,
        make: impl FnOnce() -> B,
    ) -> RequestBody {
        let IoBackend::ApiServer(run) = self.0 else { return RequestBody::default() };
        let format = run.executor.api.preferred_format();
        EncodedBody::object(format, &resource.api_version(), resource.kind(), message, &make()).into()
    }

    /// Whether requests are only collected and not sent.
    pub(super) fn is_forecast(self) -> bool {
        !matches!(self.0, IoBackend::ApiServer(_))
    }
}

/// The simulated server of a forecast. It grants every request at once, and collects the requests.
struct GrantingServer {
    now: Timestamp,
    expected: Mutex<ForecastRequests>,
    has_effects: AtomicBool,
}

/// One sync that runs against the API server.
struct SyncRun<'r, M> {
    executor: &'r SyncExecutor,
    memory: &'r M,
    subject: &'r dyn SyncSubject,
    /// The expected and the sent requests; `None` if the sync sends nothing.
    account: Option<&'r RequestAccount>,
    /// The result of [`SyncSubject::object`], set at the first use.
    object: OnceLock<InvolvedObject>,
    /// The result of [`SyncSubject::ledger_owner`], set at the first use.
    ledger_owner: OnceLock<LedgerOwner>,
    own_writes: SyncWrites<'r>,
    /// Count of requests and pauses in flight.
    waits: AtomicUsize,
    decision_time: DecisionTime,
    /// The reason why a write was withheld. The sync ends early.
    withheld: OnceLock<WithheldWrite>,
}

/// Decrements the count of requests and pauses in flight when it is dropped.
struct InFlightGuard<'w>(&'w AtomicUsize);

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<'r, M> SyncRun<'r, M> {
    fn new(
        executor: &'r SyncExecutor,
        memory: &'r M,
        subject: &'r dyn SyncSubject,
        decision_time: DecisionTime,
        account: Option<&'r RequestAccount>,
    ) -> Self {
        Self {
            executor,
            memory,
            subject,
            account,
            object: OnceLock::new(),
            ledger_owner: OnceLock::new(),
            own_writes: SyncWrites::new(executor.ledger.as_ref()),
            waits: AtomicUsize::new(0),
            decision_time,
            withheld: OnceLock::new(),
        }
    }

    /// Replaces a pending result by an error if no request or pause is in flight, because then nothing would wake the sync:
    /// a write was withheld, or the sync awaits something other than its `Io`.
    fn poll_result(
        &self,
        poll: Poll<Result<Requeue, SyncError>>,
    ) -> Poll<Result<Result<Requeue, SyncError>, WithheldWrite>> {
        match poll {
            Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
            Poll::Pending if self.waits.load(Ordering::Relaxed) > 0 => Poll::Pending,
            Poll::Pending => {
                Poll::Ready(self.withheld.get().map_or_else(|| Ok(Err(foreign_await_error())), |why| Err(*why)))
            }
        }
    }

    /// Counts a request or a pause as in flight until the returned guard is dropped.
    fn count_in_flight(&self) -> InFlightGuard<'_> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        InFlightGuard(&self.waits)
    }

    async fn pause(&self, duration: Duration, factor: f64) {
        let clock = self.executor.api.clock();
        let _wait = self.count_in_flight();
        clock.sleep(clock.jitter(duration, factor)).await;
    }

    /// Whether the process shuts down. If so, the account gets the shutdown as the cause of later deviations.
    fn is_shutting_down(&self) -> bool {
        let is_ending = (self.executor.is_shutting_down)();
        if is_ending {
            self.deviate("the process shuts down");
        }
        is_ending
    }

    fn object(&self) -> &InvolvedObject {
        self.object.get_or_init(|| self.subject.object())
    }

    fn ledger_owner(&self) -> &LedgerOwner {
        self.ledger_owner.get_or_init(|| self.subject.ledger_owner())
    }

    fn deviate(&self, why: impl Into<String>) {
        if let Some(account) = self.account {
            account.record_deviation(why);
        }
    }

    /// Sends a request, and records the request and its answer in the ledger. Does not return if the write is withheld;
    /// [`SyncExecutor::run`] returns instead.
    async fn send(&self, request: Request) -> Result<(AnswerMetadata, WireFormat, Bytes), Refusal> {
        let request = &request;
        self.account.inspect(|account| account.record_sending(request));
        self.own_writes.record_sending(request, || self.ledger_owner(), || self.subject.child_uids());
        let api = &self.executor.api;
        let precondition = self.own_writes.precondition_after_last_write(request);
        let answer = match request.to_api_call(precondition, api.preferred_format()) {
            Ok(call) => {
                let _wait = self.count_in_flight();
                api.call_with_format(call.with_decision_time(self.decision_time)).await
            }
            Err(unsent) => Err(unsent),
        };
        let answer = match answer {
            // Some servers answer a deletion with neither a status nor the object.
            Ok((format, bytes)) if matches!(request.verb, Verb::Delete(..) | Verb::DeleteCollection(_)) => {
                Ok((AnswerMetadata::parse(format, &bytes).unwrap_or_default(), format, bytes))
            }
            Ok((format, bytes)) if request.verb.is_write() || request.precondition.is_some() => {
                AnswerMetadata::parse(format, &bytes).map(|fields| (fields, format, bytes))
            }
            other => other.map(|(format, bytes)| (AnswerMetadata::default(), format, bytes)),
        };
        let error = match answer {
            Ok((fields, format, bytes)) => {
                self.own_writes.record_granted_request(request, &fields, || self.ledger_owner());
                return Ok((fields, format, bytes));
            }
            Err(error) => error,
        };
        let withheld = if let api::Error::Withheld(why) = error { Some(why) } else { None };
        let refusal = Refusal::of_request(request, error);
        self.account.inspect(|account| match withheld {
            Some(_) => account.record_withheld(request),
            None => account.record_refusal(request, &refusal),
        });
        if self.own_writes.record_refusal(request, &refusal, || self.ledger_owner()) {
            self.examine_stuck_cache(request).await;
        }
        if let Some(why) = withheld {
            let _ = self.withheld.set(why);
            return std::future::pending().await;
        }
        Err(refusal)
    }

    /// Compares the object of a refused request with the server, because the cache has not changed for seconds after an earlier
    /// refusal. Reports lost changes of the server if the object is older there than in the cache, or does not exist.
    async fn examine_stuck_cache(&self, request: &Request) {
        let Some(Precondition { uid, version: Some(cached) }) = &request.precondition else { return };
        let key = NamespacedName { namespace: request.namespace.clone(), name: Arc::clone(&request.name) };
        let (resource, api) = (&request.resource, &self.executor.api);
        let in_flight = self.count_in_flight();
        // A list, because controllers may list what they watch, and not all of them may get it.
        let query = format!("fieldSelector=metadata.name%3D{}", request.name);
        let answer = api.call(Call::list(resource, &request.namespace, &query, informer::ACCEPT_METADATA_LIST)).await;
        drop(in_flight);
        let Ok(Ok(page)) = answer.map(|answer| serde_json::from_slice::<ObjectPage<PartialObject>>(&answer)) else {
            return;
        };
        let live = page.items.into_iter().find(|live| live.metadata.uid == *uid);
        let evidence = match live.map(|live| live.metadata.resource_version) {
            Some(live) if live >= *cached => return,
            Some(live) => format!("{resource} {key} has version {live}, the cache has version {cached}"),
            None => format!("{resource} {key} with the UID {uid} does not exist, and the cache goes on to show it"),
        };
        api.history().report_lost_changes(&evidence);
    }
}

/// Creates the failure of a sync that awaits something other than its [`Io`].
fn foreign_await_error() -> SyncError {
    debug_assert!(false, "a sync awaits something other than its requests");
    SyncError::new(SyncErrorClass::Bug, "the sync awaits something other than its requests")
}
