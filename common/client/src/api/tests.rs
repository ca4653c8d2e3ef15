//! Tests of requests against a server with scripted answers, in virtual time.

use std::collections::VecDeque;

use futures::StreamExt as _;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use parking_lot::Mutex;

use serde_json::json;

use super::*;
use crate::gate::{WithheldWrite, WriteGateKeeper, closed_write_gate};

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

enum Answer {
    Status(u16, &'static str, Option<u64>),
    /// Status 200 with this many bytes of a body that never ends.
    Endless(usize),
    Refused,
    Cut,
    Never,
}

struct World {
    api: Api,
    keeper: WriteGateKeeper,
    clock: Clock,
    requests: Arc<Mutex<Vec<(String, String, Duration)>>>,
}

fn world(answers: Vec<Answer>) -> World {
    let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
    let start = clock.monotonic_now();
    let requests: Arc<Mutex<Vec<(String, String, Duration)>>> = Arc::default();
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let (seen, time) = (Arc::clone(&requests), clock.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let at = time.monotonic_now() - start;
        seen.lock().push((request.method().to_string(), request.uri().to_string(), at));
        let answer = answers.lock().pop_front();
        async move {
            let io = |kind| Err(tower::BoxError::from(std::io::Error::from(kind)));
            match answer {
                Some(Answer::Status(code, body, retry_after)) => {
                    let mut response = Response::builder().status(code);
                    if let Some(seconds) = retry_after {
                        response = response.header("Retry-After", seconds);
                    }
                    let body = Full::new(Bytes::from_static(body.as_bytes())).map_err(|never| match never {});
                    Ok(response.body(body.boxed_unsync())?)
                }
                Some(Answer::Endless(length)) => {
                    let chunk = Bytes::from(vec![b' '; 1 << 20]);
                    let chunks =
                        std::iter::repeat_n(chunk, length >> 20).map(|c| Ok::<_, std::io::Error>(Frame::data(c)));
                    let stream = futures::stream::iter(chunks).chain(futures::stream::pending());
                    Ok(Response::new(StreamBody::new(stream).boxed_unsync()))
                }
                Some(Answer::Refused) => io(std::io::ErrorKind::ConnectionRefused),
                Some(Answer::Cut) | None => io(std::io::ErrorKind::ConnectionReset),
                Some(Answer::Never) => std::future::pending().await,
            }
        }
    });
    let (keeper, gate) = closed_write_gate(clock.clone());
    let api = Api::new(kube::Client::new(service, "default"), clock.clone(), gate, "replicaset-controller/test");
    World { api, keeper, clock, requests }
}

impl World {
    async fn create(&self) -> Result<Bytes, Error> {
        self.api.create(RequestTarget::object(PODS, "ns", ""), &json!({"kind": "Pod"})).await
    }
    fn times(&self) -> Vec<u64> {
        self.requests.lock().iter().map(|(_, _, at)| at.as_secs()).collect()
    }
}

/// COMMON-19.
#[tokio::test(start_paused = true)]
async fn a_closed_gate_stops_writes_and_no_reads() {
    let world = world(vec![Answer::Status(200, "{}", None)]);
    assert!(matches!(world.create().await, Err(Error::Withheld(WithheldWrite::NotLeader))));
    assert!(world.requests.lock().is_empty());
    world.api.get(RequestTarget::object(PODS, "ns", "a")).await.unwrap();
    assert_eq!(world.requests.lock()[0].1, "/api/v1/namespaces/ns/pods/a");
}

/// COMMON-20.
#[tokio::test(start_paused = true)]
async fn a_write_names_the_field_manager_upstream_uses() {
    let world = world(vec![Answer::Status(201, "{}", None)]);
    world.keeper.open_without_deadline();
    world.create().await.unwrap();
    assert_eq!(world.requests.lock()[0].1, "/api/v1/namespaces/ns/pods?fieldManager=kube-controller-manager");
}

/// COMMON-21.
#[tokio::test(start_paused = true)]
async fn a_request_is_retried_after_the_wait_that_the_server_asks_for() {
    let busy = || Answer::Status(429, r#"{"reason":"TooManyRequests"}"#, Some(3));
    let world = world(vec![busy(), Answer::Status(503, "{}", Some(10)), Answer::Status(201, "{}", None)]);
    world.keeper.open_without_deadline();
    world.create().await.unwrap();
    assert_eq!(world.times(), [0, 3, 13]);
}

/// NAMESPACE-43.
#[tokio::test(start_paused = true)]
async fn a_call_without_retries_ends_with_the_first_503_and_waits_for_a_busy_server() {
    let busy = Answer::Status(429, r#"{"reason":"TooManyRequests"}"#, Some(3));
    let world = world(vec![busy, Answer::Status(503, "{}", Some(10)), Answer::Status(200, "{}", None)]);
    let call = Call::get("/api".to_owned(), "application/json").without_retries_if_unavailable();
    let error = world.api.call(call).await.unwrap_err();
    assert!(error.is_unavailable());
    assert_eq!(world.times(), [0, 3]);
}

/// COMMON-21.
#[tokio::test(start_paused = true)]
async fn a_write_is_sent_again_only_if_a_busy_server_asks_for_a_wait() {
    for (answer, label) in [
        (Answer::Status(500, "{}", None), "server"),
        (Answer::Status(504, "{}", Some(1)), "server"),
        (Answer::Status(429, "{}", None), "too_many_requests"),
        (Answer::Cut, "lost"),
    ] {
        let world = world(vec![answer, Answer::Status(201, "{}", None)]);
        world.keeper.open_without_deadline();
        let error = world.create().await.unwrap_err();
        assert_eq!((error.metric_label(), world.requests.lock().len()), (label, 1));
        assert_eq!(error.write_may_have_taken_effect(), label != "too_many_requests");
    }
}

/// COMMON-22.
#[tokio::test(start_paused = true)]
async fn a_refused_connection_means_that_nothing_was_sent() {
    let world = world(vec![Answer::Refused]);
    world.keeper.open_without_deadline();
    let error = world.create().await.unwrap_err();
    assert!(matches!(error, Error::Unsent(_)) && !error.write_may_have_taken_effect(), "{error}");
}

/// COMMON-22.
#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_times_out() {
    let world = world(vec![Answer::Never]);
    world.keeper.open_without_deadline();
    let error = world.create().await.unwrap_err();
    assert_eq!(error.to_string(), "no answer within 65s");
    assert!(error.write_may_have_taken_effect());
}

/// COMMON-19.
#[tokio::test(start_paused = true)]
async fn losing_the_lease_ends_a_write_in_flight() {
    let world = world(vec![Answer::Never, Answer::Status(201, "{}", None)]);
    world.keeper.open_until(world.clock.monotonic_now() + Duration::from_secs(10));
    let error = world.create().await.unwrap_err();
    assert!(matches!(&error, Error::OutcomeUnknown(_)), "{error}");
    world.keeper.close();
    assert!(matches!(world.create().await, Err(Error::Withheld(WithheldWrite::NotLeader))));
    assert_eq!((world.clock.now().as_second(), world.times()), (10, vec![0]));
}

#[derive(Default)]
struct Seen {
    attempts: Mutex<Vec<(u32, Option<u16>, usize)>>,
    finished: Mutex<Vec<(String, u64, Option<usize>)>>,
}

impl RequestCallbacks for Seen {
    fn attempt_finished(&self, seen: AttemptMeasurement<'_>) {
        self.attempts.lock().push((seen.attempt_index, seen.status_code, seen.sent_bytes));
    }
    fn request_finished(&self, method: &str, took: Duration, received: Option<usize>) {
        self.finished.lock().push((method.to_owned(), took.as_secs(), received));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_measured_once_with_all_its_waits_and_attempts() {
    let ok = || Answer::Status(201, "{}", None);
    let world = world(vec![
        ok(),
        Answer::Status(429, "busy", Some(3)),
        ok(),
        Answer::Status(409, "conflict", None),
        Answer::Cut,
    ]);
    let seen = Arc::new(Seen::default());
    let api = world.api.clone().with_request_callbacks(Arc::<Seen>::clone(&seen)).with_throttle(Throttle::new(0.1, 1));
    let create = async || api.create(RequestTarget::object(PODS, "ns", ""), &json!({"kind": "Pod"})).await;
    assert!(create().await.is_err() && seen.finished.lock().is_empty(), "a write that is not sent is not counted");
    world.keeper.open_without_deadline();
    world.clock.sleep(Duration::from_secs(10)).await;
    for _ in 0..4 {
        let _ = create().await;
    }
    let sent = json!({"kind": "Pod"}).to_string().len();
    let attempts =
        [(0, Some(201), sent), (0, Some(429), sent), (1, Some(201), sent), (0, Some(409), sent), (0, None, sent)];
    assert_eq!(*seen.attempts.lock(), attempts);
    let post = |took, received| ("POST".to_owned(), took, received);
    assert_eq!(*seen.finished.lock(), [post(0, Some(2)), post(20, Some(2)), post(10, Some(8)), post(10, None)]);
}

/// COMMON-21.
#[tokio::test(start_paused = true)]
async fn the_wait_for_a_server_is_limited_to_a_minute() {
    let world = world(vec![Answer::Status(503, "{}", Some(86_400)), Answer::Status(201, "{}", None)]);
    world.keeper.open_without_deadline();
    world.create().await.unwrap();
    assert_eq!(world.times(), [0, 60]);
}

/// COMMON-19.
#[tokio::test(start_paused = true)]
async fn losing_the_lease_ends_the_wait_of_a_write_at_once() {
    let world = world(vec![Answer::Status(429, "{}", Some(30)), Answer::Status(201, "{}", None)]);
    world.keeper.open_until(world.clock.monotonic_now() + Duration::from_secs(10));
    let losing = async {
        world.clock.sleep(Duration::from_secs(10)).await;
        world.keeper.close();
    };
    let (written, ()) = tokio::join!(world.create(), losing);
    let error = written.unwrap_err();
    assert!(error.is_too_many_requests(), "{error}");
    assert_eq!((world.clock.now().as_second(), world.times()), (10, vec![0]));
}

/// COMMON-58.
#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_every_wait_and_allows_no_new_one() {
    let busy = || Answer::Status(429, "{}", Some(30));
    let world = world(vec![busy(), busy(), busy(), Answer::Status(201, "{}", None)]);
    world.keeper.open_without_deadline();
    let stop = async {
        world.clock.sleep(Duration::from_secs(5)).await;
        world.keeper.end_waits();
    };
    let reading = world.api.get(RequestTarget::object(PODS, "ns", "a"));
    let (written, read, ()) = tokio::join!(world.create(), reading, stop);
    assert!(written.unwrap_err().is_too_many_requests() && read.unwrap_err().is_too_many_requests());
    assert!(world.create().await.unwrap_err().is_too_many_requests());
    assert_eq!((world.clock.now().as_second(), world.times()), (5, vec![0, 0, 5]));
    // The shutdown has ended all waits, but the gate is open, so a request that need not wait is sent.
    world.create().await.unwrap();
    let api = world.api.clone().with_throttle(Throttle::new(0.01, 1));
    assert!(!matches!(api.create(RequestTarget::object(PODS, "ns", ""), &json!({})).await, Err(Error::Unsent(_))));
    let error = api.create(RequestTarget::object(PODS, "ns", ""), &json!({})).await.unwrap_err();
    assert!(matches!(error, Error::Unsent(_)) && world.clock.now().as_second() == 5, "{error}");
}

/// COMMON-93.
#[tokio::test(start_paused = true)]
async fn the_rate_limit_applies_to_every_attempt() {
    let ok = || Answer::Status(201, "{}", None);
    let world = world(vec![ok(), ok(), ok(), ok()]);
    world.keeper.open_without_deadline();
    let api = world.api.clone().with_throttle(Throttle::new(1.0, 2));
    for _ in 0..4 {
        api.create(RequestTarget::object(PODS, "ns", ""), &json!({})).await.unwrap();
    }
    assert_eq!(world.times(), [0, 0, 1, 2]);
}

/// COMMON-16.
#[tokio::test(start_paused = true)]
async fn the_size_of_an_answer_is_limited() {
    let world = world(vec![Answer::Endless(33 << 20), Answer::Endless(33 << 20), Answer::Endless(33 << 20)]);
    world.keeper.open_without_deadline();
    let error = world.create().await.unwrap_err();
    assert_eq!(error.to_string(), "the answer is longer than 33554432 bytes");
    assert!(error.write_may_have_taken_effect());
    let error = world.api.get(RequestTarget::object(PODS, "ns", "a")).await.unwrap_err();
    assert_eq!(error.to_string(), "the answer is longer than 33554432 bytes");
    assert_eq!(world.clock.now().as_second(), 0, "the read ends at the limit, not at a timeout");
    // The size limit of a list is higher than 33 MiB. The list times out, because its body never ends.
    let error = world.api.list(&PODS, "", "").await.unwrap_err();
    assert_eq!(error.to_string(), "no answer within 65s");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_with_the_uid_of_another_object_is_a_conflict() {
    let world = world(vec![Answer::Status(409, r#"{"reason":"Conflict","message":"uid"}"#, None)]);
    world.keeper.open_without_deadline();
    let options = DeleteOptions { uid: Some(Uid::new("u")), ..DeleteOptions::default() };
    let error = world.api.delete(RequestTarget::object(PODS, "ns", "a"), &options).await.unwrap_err();
    assert!(error.is_conflict());
    assert_eq!(world.requests.lock()[0].0, "DELETE");
    assert_eq!(world.requests.lock()[0].1, "/api/v1/namespaces/ns/pods/a");
}
