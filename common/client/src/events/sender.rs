//! The task that sends all Events of a process.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::BuildHasher as _,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::{Event, EventSource},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::{
    EventRecorder, QUEUE, RecordedEvent, ReportingLoop, UniqueTimes,
    correlate::{Correlator, OutgoingEvent},
};
use crate::{
    api::{Api, Call, EncodedBody, Error, PatchFormat, RequestTarget, Throttle, WireFormat},
    client::user_agent,
    clock::Clock,
    informer::{ACCEPT_METADATA, ACCEPT_PROTOBUF_METADATA},
    map::SeededHashState,
    metrics::{Counters, Metrics, Stability},
    object::Resource,
    wire::messages,
};

/// Resource of Events in the core API group.
pub const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");

/// Maximum number of attempts to send an Event if each attempt ends without an HTTP response. Upstream: `maxTriesPerEvent`.
const TRIES: u32 = 12;
/// Wait between attempts; the first wait is a random part of this time. Upstream: `defaultSleepDuration`.
const RETRY: Duration = Duration::from_secs(10);
/// Rate limit in Events per second, separate from the limit of other writes.
const RATE: f64 = 100.0;
/// Number of Events that may be sent without a pause before [`RATE`] applies.
const BURST: u32 = 500;

/// Item in the queue of the task that sends Events.
pub(super) enum QueueItem {
    Event(RecordedEvent),
    /// A request for a signal after all items in front of this item have been processed.
    Flush(oneshot::Sender<()>),
}

/// Number of names that [`SentEventNames`] remembers.
const SENT: usize = 512;

/// The names of the latest Events that a process sent. Clones share the names.
#[derive(Clone, Debug, Default)]
pub struct SentEventNames(Arc<Mutex<VecDeque<u64>>>);

impl SentEventNames {
    /// Records the name of an Event that is about to be sent.
    pub fn record_name(&self, name: &str) {
        let mut names = self.0.lock();
        if names.len() == SENT {
            names.pop_front();
        }
        names.push_back(Self::id(name));
    }

    /// Whether one of the latest Events has this name.
    pub fn contains(&self, name: &str) -> bool {
        self.0.lock().contains(&Self::id(name))
    }

    fn id(name: &str) -> u64 {
        SeededHashState::default().hash_one(name)
    }
}

/// Handle of the task that sends the Events of a process. The task ends when the handle is dropped.
#[derive(Debug)]
pub struct EventSender {
    sent: SentEventNames,
    queue: mpsc::Sender<QueueItem>,
    clock: Clock,
    stamp: Arc<UniqueTimes>,
    task: JoinHandle<()>,
}

impl Drop for EventSender {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl EventSender {
    /// Starts the task that sends Events through `api`. The gate of `api` lets only the leader send Events.
    pub fn start(api: Api, metrics: &Metrics) -> Self {
        let clock = api.clock().clone();
        let (queue, items) = mpsc::channel(QUEUE);
        let sent = metrics.counter(
            "nonet_events_total",
            Stability::Alpha,
            "Events by result: created, patched, suppressed, rejected, lost",
            &["result"],
        );
        let api = api.with_throttle(Throttle::new(RATE, BURST));
        let correlator = Correlator::new(clock.clone());
        let names = SentEventNames::default();
        let task = Task { correlator, api, clients: BTreeMap::new(), sent, names: names.clone() };
        let task = tokio::spawn(task.run(items));
        Self { sent: names, queue, clock, stamp: Arc::default(), task }
    }

    /// Returns the record of the names of the latest Events. The record is shared with the sending task.
    pub fn sent_event_names(&self) -> SentEventNames {
        self.sent.clone()
    }

    /// Creates a recorder for one loop. Its Events name `reporting_loop`.
    pub fn recorder_for_loop(&self, reporting_loop: ReportingLoop) -> EventRecorder {
        let (clock, stamp, queue) = (self.clock.clone(), Arc::clone(&self.stamp), Some(self.queue.clone()));
        EventRecorder { source: reporting_loop, clock, stamp, queue, tap: None }
    }

    /// Waits until every Event recorded so far was sent or dropped. The wait includes all retries, so callers set a timeout.
    pub async fn flush(&self) {
        let (done, finished) = oneshot::channel();
        if self.queue.send(QueueItem::Flush(done)).await.is_ok() {
            let _ = finished.await;
        }
    }
}

struct Task {
    correlator: Correlator,
    /// Client of all loops. Its copies in `clients` share its rate limit.
    api: Api,
    /// Copies of `api` with the user agent of each loop, by the client name of the loop.
    clients: BTreeMap<&'static str, Api>,
    sent: Counters,
    names: SentEventNames,
}

impl Task {
    async fn run(mut self, mut items: mpsc::Receiver<QueueItem>) {
        while let Some(item) = items.recv().await {
            match item {
                QueueItem::Flush(done) => drop(done.send(())),
                QueueItem::Event(event) => match self.correlator.correlate(event) {
                    None => self.count("suppressed"),
                    Some(outgoing) => {
                        let client = outgoing.event.source.client_name;
                        self.names.record_name(&outgoing.name);
                        let named = || self.api.clone().with_user_agent(&user_agent(client));
                        let api = self.clients.entry(client).or_insert_with(named).clone();
                        self.deliver(&api, &outgoing).await;
                    }
                },
            }
        }
    }

    fn count(&self, result: &str) {
        self.sent.with_label_values(&[result]).inc();
    }

    /// Sends one Event. Retries attempts without an HTTP response, and drops an Event that the server refuses.
    async fn deliver(&self, api: &Api, outgoing: &OutgoingEvent) {
        for tries in 1.. {
            let error = match Self::send(api, outgoing).await {
                Ok(result) => return self.count(result),
                Err(error) => error,
            };
            match &error {
                Error::Unsent(_) | Error::OutcomeUnknown(_) if tries < TRIES => {
                    tracing::warn!(err = %error, event = outgoing.name, "Unable to write event (may retry after sleeping)");
                    let wait = if tries == 1 { RETRY.mul_f64(api.clock().random_fraction()) } else { RETRY };
                    api.clock().sleep(wait).await;
                }
                Error::Unsent(_) | Error::OutcomeUnknown(_) => {
                    tracing::error!(err = %error, event = outgoing.name, "Unable to write event (retry limit exceeded!)");
                    return self.count("lost");
                }
                Error::Withheld(_) => return self.count("lost"),
                Error::InvalidAnswer(_) | Error::ChangedByAdmission(_) => return self.count("created"),
                Error::Status(_) => {
                    if error.is_already_exists() || error.is_namespace_terminating() {
                        tracing::debug!(v = 5, err = %error, event = outgoing.name, "Server rejected event (will not retry!)");
                    } else {
                        tracing::error!(err = %error, event = outgoing.name, "Server rejected event (will not retry!)");
                    }
                    return self.count("rejected");
                }
            }
        }
    }

    async fn send(api: &Api, outgoing: &OutgoingEvent) -> Result<&'static str, Error> {
        let accept = match api.preferred_format() {
            WireFormat::Json => ACCEPT_METADATA,
            WireFormat::Protobuf => ACCEPT_PROTOBUF_METADATA,
        };
        let namespace = outgoing.event.object.event_namespace();
        if outgoing.is_repeat {
            let target = RequestTarget::object(EVENTS, namespace, &outgoing.name);
            let patch = EncodedBody::json(&patch(outgoing))?.bytes;
            match api.call(Call::patch(target, PatchFormat::Strategic, patch).with_accept_header(accept)).await {
                Ok(_) => return Ok("patched"),
                // The Event has expired on the server, so it is created again, with the whole count.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let (target, event) = (RequestTarget::object(EVENTS, namespace, ""), body(outgoing));
        let body = EncodedBody::object(api.preferred_format(), "v1", "Event", &messages::EVENT, &event)?;
        api.call(Call::create(target, body).with_accept_header(accept)).await?;
        Ok("created")
    }
}

/// Returns the patch of a repeated Event. The type `Time` is serialized in whole seconds, like the times of all Events.
fn patch(OutgoingEvent { event, count, .. }: &OutgoingEvent) -> Value {
    json!({"count": count, "lastTimestamp": Time(event.recorded_at), "message": event.message})
}

fn body(outgoing: &OutgoingEvent) -> Event {
    let event = &outgoing.event;
    let component = event.source.component.to_owned();
    Event {
        metadata: ObjectMeta {
            name: Some(outgoing.name.clone()),
            namespace: Some(event.object.event_namespace().to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: event.object.reference(),
        reason: Some(event.reason.to_string()),
        message: Some(event.message.clone()),
        source: Some(EventSource { component: Some(component.clone()), host: None }),
        first_timestamp: Some(Time(outgoing.first_time)),
        last_timestamp: Some(Time(event.recorded_at)),
        count: Some(i32::try_from(outgoing.count).unwrap_or(i32::MAX)),
        type_: Some(event.kind.as_str().to_owned()),
        reporting_component: Some(if outgoing.has_reporting_component { component } else { String::new() }),
        reporting_instance: Some(String::new()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use http::{Request, Response};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use parking_lot::Mutex;

    use super::*;
    use crate::{
        events::{EventType, InvolvedObject, MESSAGE},
        gate::{self, WriteGateKeeper},
        intern::Text,
        meta::{ResourceVersion, Uid},
        wire::{Envelope, decode_message},
    };

    type Seen = Arc<Mutex<Vec<(String, Value)>>>;

    fn source(component: &'static str) -> ReportingLoop {
        ReportingLoop { component, client_name: component }
    }

    /// Decodes an Event in protobuf, or a patch.
    fn decode_body(body: &[u8]) -> Value {
        let Ok(envelope) = Envelope::decode(body) else { return serde_json::from_slice(body).unwrap() };
        let mut event: Value = decode_message(&messages::EVENT, envelope.object).unwrap();
        event["apiVersion"] = envelope.api_version.into();
        event["kind"] = envelope.kind.into();
        event
    }

    /// Creates a client of a server that answers with the codes of `script`, then with 201. An `Err` breaks the connection.
    fn server(script: Vec<Result<u16, ()>>) -> (kube::Client, Seen) {
        let seen: Seen = Arc::default();
        let script = Arc::new(Mutex::new(VecDeque::from(script)));
        let log = Arc::clone(&seen);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (log, script) = (Arc::clone(&log), Arc::clone(&script));
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
                let path = parts.uri.path().to_owned();
                log.lock().push((format!("{} {path}", parts.method), decode_body(&body)));
                let code = match script.lock().pop_front() {
                    Some(Ok(code)) => code,
                    Some(Err(())) => return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
                    None => 201,
                };
                let reason = if code == 404 { "NotFound" } else { "" };
                let body = json!({"reason": reason, "message": "m"}).to_string();
                Ok(Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap())
            }
        });
        (
            kube::Client::new(
                tower::service_fn(move |r| {
                    let mut service = service.clone();
                    async move {
                        let response = tower::Service::call(&mut service, r).await?;
                        Ok::<_, std::io::Error>(
                            response.map(|body| body.map_err(|e| std::io::Error::other(e.to_string())).boxed_unsync()),
                        )
                    }
                }),
                "default",
            ),
            seen,
        )
    }

    fn start(script: Vec<Result<u16, ()>>) -> (EventSender, Seen, WriteGateKeeper, Clock) {
        let clock = Clock::simulated("2026-01-02T03:04:05.678Z".parse().unwrap(), 1);
        let (client, seen) = server(script);
        let (keeper, gate) = gate::closed_write_gate(clock.clone());
        keeper.open_without_deadline();
        let sender = EventSender::start(Api::new(client, clock.clone(), gate, "test"), &Metrics::new());
        (sender, seen, keeper, clock)
    }

    fn replica_set() -> InvolvedObject {
        InvolvedObject {
            api_version: Text::new("apps/v1"),
            kind: Text::new("ReplicaSet"),
            namespace: Text::new("ns"),
            name: Text::new("web-1"),
            uid: Uid::new("u-1"),
            version: ResourceVersion::parse("41"),
        }
    }

    /// COMMON-79.
    #[tokio::test(start_paused = true)]
    async fn an_event_has_upstreams_fields_and_a_repeat_is_a_patch() {
        let (sender, seen, _keeper, clock) = start(vec![]);
        let recorder = sender.recorder_for_loop(source("replicaset-controller"));
        recorder.record_event(&replica_set(), EventType::Normal, "SuccessfulCreate", "Created pod: a".to_owned());
        sender.flush().await;
        clock.sleep(Duration::from_secs(2)).await;
        recorder.record_event(&replica_set(), EventType::Normal, "SuccessfulCreate", "Created pod: a".to_owned());
        sender.flush().await;
        let seen = seen.lock().clone();
        let nanos: jiff::Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let name = format!("web-1.{:x}", nanos.as_nanosecond());
        assert_eq!(
            seen[0],
            (
                "POST /api/v1/namespaces/ns/events".to_owned(),
                json!({
                    "kind": "Event", "apiVersion": "v1",
                    "metadata": {"name": name, "namespace": "ns"},
                    "involvedObject": {"kind": "ReplicaSet", "namespace": "ns", "name": "web-1", "uid": "u-1",
                                       "apiVersion": "apps/v1", "resourceVersion": "41"},
                    "reason": "SuccessfulCreate", "message": "Created pod: a",
                    "source": {"component": "replicaset-controller"},
                    "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:05Z",
                    "count": 1, "type": "Normal",
                    "reportingComponent": "replicaset-controller", "reportingInstance": "",
                })
            )
        );
        assert_eq!(
            seen[1],
            (
                format!("PATCH /api/v1/namespaces/ns/events/{name}"),
                json!({"count": 2, "lastTimestamp": "2026-01-02T03:04:07Z", "message": "Created pod: a"})
            )
        );
    }

    #[tokio::test(start_paused = true)]
    async fn events_of_one_instant_have_different_names() {
        let (sender, seen, _keeper, _) = start(vec![]);
        for n in 0..3 {
            sender.recorder_for_loop(source("c")).record_event(&replica_set(), EventType::Normal, "R", n.to_string());
        }
        sender.flush().await;
        let names: std::collections::BTreeSet<_> =
            seen.lock().iter().map(|(_, body)| body["metadata"]["name"].to_string()).collect();
        assert_eq!(names.len(), 3);
    }

    /// COMMON-79.
    #[tokio::test(start_paused = true)]
    async fn an_event_that_expired_is_created_again_with_its_count() {
        let (sender, seen, _keeper, _) = start(vec![Ok(201), Ok(404)]);
        let recorder = sender.recorder_for_loop(source("c"));
        for _ in 0..2 {
            recorder.record_event(&replica_set(), EventType::Warning, "Failed", "m".to_owned());
        }
        sender.flush().await;
        let seen = seen.lock();
        let calls: Vec<_> = seen.iter().map(|(call, _)| call.split(' ').next().unwrap()).collect();
        assert_eq!(calls, ["POST", "PATCH", "POST"]);
        assert_eq!(seen[2].1["count"], 2);
        assert_eq!(seen[2].1["metadata"]["name"], seen[0].1["metadata"]["name"]);
    }

    /// COMMON-81.
    #[tokio::test(start_paused = true)]
    async fn a_refused_event_is_dropped_and_a_broken_connection_is_retried() {
        let (sender, seen, _keeper, clock) = start(vec![Ok(403), Err(()), Err(()), Ok(201)]);
        let recorder = sender.recorder_for_loop(source("c"));
        let begin = clock.monotonic_now();
        recorder.record_event(&replica_set(), EventType::Normal, "A", "refused".to_owned());
        recorder.record_event(&replica_set(), EventType::Normal, "B", "retried".to_owned());
        sender.flush().await;
        assert_eq!(seen.lock().len(), 4);
        let took = clock.monotonic_now() - begin;
        assert!(took >= RETRY && took < RETRY * 2, "{took:?}");
    }

    /// COMMON-81.
    #[tokio::test(start_paused = true)]
    async fn recording_never_waits_and_a_full_queue_drops_events() {
        let (sender, seen, _keeper, _) = start(vec![]);
        let recorder = sender.recorder_for_loop(source("c"));
        for n in 0..QUEUE * 2 {
            let object = InvolvedObject { name: Text::new(&format!("o{n}")), ..replica_set() };
            recorder.record_event(&object, EventType::Normal, "A", "x".to_owned());
        }
        sender.flush().await;
        assert_eq!(seen.lock().len(), QUEUE);
    }

    /// COMMON-94.
    #[tokio::test(start_paused = true)]
    async fn a_process_that_is_not_the_leader_sends_no_events() {
        let (sender, seen, keeper, _) = start(vec![]);
        keeper.close();
        sender.recorder_for_loop(source("c")).record_event(&replica_set(), EventType::Normal, "A", "x".to_owned());
        sender.flush().await;
        assert!(seen.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn events_of_each_loop_are_sent_under_the_name_of_its_client() {
        let agents: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&agents);
        let service = tower::service_fn(move |request: Request<Body>| {
            log.lock().push(request.headers()["user-agent"].to_str().unwrap().to_owned());
            async { Ok::<_, std::io::Error>(Response::new(Body::from(b"{}".to_vec()))) }
        });
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        let (keeper, gate) = gate::closed_write_gate(clock.clone());
        keeper.open_without_deadline();
        let client = kube::Client::new(service, "default");
        let sender = EventSender::start(Api::new(client, clock, gate, "first"), &Metrics::new());
        for (component, client) in [("replicaset-controller", "replicaset-controller"), ("taints", "node-controller")] {
            let recorder = sender.recorder_for_loop(ReportingLoop { component, client_name: client });
            recorder.record_event(&replica_set(), EventType::Normal, "A", "x".to_owned());
        }
        sender.flush().await;
        assert_eq!(*agents.lock(), [user_agent("replicaset-controller"), user_agent("node-controller")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_is_too_long_is_cut_off() {
        let (sender, seen, _keeper, _) = start(vec![]);
        let whole = "\u{e9}".repeat(MESSAGE / 2);
        for message in [whole.clone(), format!("{whole}x"), "\u{e9}".repeat(1 << 20)] {
            sender.recorder_for_loop(source("c")).record_event(&replica_set(), EventType::Normal, "A", message);
        }
        sender.flush().await;
        let messages: Vec<String> =
            seen.lock().iter().map(|(_, body)| body["message"].as_str().unwrap().to_owned()).collect();
        assert_eq!(messages[0], whole);
        // After the cut, the second and the third message are equal, so the third one is a repeat of the second one.
        assert_eq!((messages.len(), messages[1].len()), (3, MESSAGE - 1));
        assert!(messages[1].ends_with("\u{e9}...") && messages[2] == messages[1]);
    }

    /// COMMON-79.
    #[tokio::test(start_paused = true)]
    async fn events_about_cluster_scoped_objects_are_in_default() {
        let (sender, seen, _keeper, _) = start(vec![]);
        let node = InvolvedObject {
            namespace: Text::new(""),
            uid: Uid::new(""),
            version: ResourceVersion::UNKNOWN,
            ..replica_set()
        };
        sender.recorder_for_loop(source("c")).record_event(&node, EventType::Normal, "A", "x".to_owned());
        sender.flush().await;
        let (call, body) = seen.lock()[0].clone();
        assert_eq!(call, "POST /api/v1/namespaces/default/events");
        assert_eq!(body["involvedObject"], json!({"kind": "ReplicaSet", "name": "web-1", "apiVersion": "apps/v1"}));
    }
}
