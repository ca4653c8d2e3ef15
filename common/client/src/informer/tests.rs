//! Tests of the informer against a server with scripted answers, in virtual time.

mod filtered;

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::store::{CacheEvent, ChangeOrigin};
use crate::{
    client::user_agent, clock::Clock, gate::closed_write_gate, history::ServerHistory, meta::Meta, pace::Pace,
    succession::WrittenVersions,
};

#[derive(serde::Deserialize)]
struct Thing {
    metadata: Meta,
    #[serde(default)]
    size: Option<u32>,
}

impl Object for Thing {
    const RESOURCE: Resource = Resource::namespaced("", "v1", "things", "Thing");
    type Indexes = ();
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

enum Answer {
    /// A status code with a JSON body.
    Json(u16, Value),
    /// A stream that the test feeds, and ends by dropping the sender.
    Stream(mpsc::UnboundedReceiver<Bytes>),
    Refused,
    /// Status 429 with this number of seconds in `Retry-After`.
    Busy(u64),
}

#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    requests: Arc<Mutex<Vec<String>>>,
    agents: Arc<Mutex<Vec<String>>>,
    asked: Arc<tokio::sync::Notify>,
}

impl Script {
    fn client(&self) -> kube::Client {
        let script = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let script = script.clone();
            let uri = request.uri().to_string();
            let agent = request.headers().get("user-agent").and_then(|agent| agent.to_str().ok());
            script.agents.lock().extend(agent.map(str::to_owned));
            async move { script.answer(uri).await }
        });
        kube::Client::new(service, "default")
    }

    async fn answer(&self, uri: String) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, tower::BoxError> {
        self.requests.lock().push(uri);
        self.asked.notify_one();
        let next = self.answers.lock().pop_front();
        match next {
            Some(Answer::Json(code, value)) => {
                let body = Full::new(Bytes::from(value.to_string())).boxed_unsync();
                Ok(Response::builder().status(code).body(body)?)
            }
            Some(Answer::Stream(receiver)) => {
                let frames = futures::stream::unfold(receiver, |mut receiver| async move {
                    let bytes = receiver.recv().await?;
                    Some((Ok::<_, Infallible>(Frame::data(bytes)), receiver))
                });
                Ok(Response::new(StreamBody::new(frames).boxed_unsync()))
            }
            Some(Answer::Busy(seconds)) => {
                let body = Full::new(Bytes::from_static(b"{\"reason\":\"TooManyRequests\"}")).boxed_unsync();
                Ok(Response::builder().status(429).header("Retry-After", seconds).body(body)?)
            }
            Some(Answer::Refused) => Err(Box::new(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))),
            None => std::future::pending().await,
        }
    }

    fn then(&self, answer: Answer) {
        self.answers.lock().push_back(answer);
    }

    /// Scripts a stream as the next answer, and returns the handle that feeds it.
    fn stream(&self) -> Feed {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.then(Answer::Stream(receiver));
        Feed(sender)
    }

    /// Scripts a list with this version as the next answer, for the comparison of versions.
    fn answer_version(&self, version: u64) {
        self.then(Answer::Json(200, json!({"metadata": {"resourceVersion": version.to_string()}, "items": []})));
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }

    /// Waits until the server has received `count` requests in total.
    async fn asked(&self, count: usize) {
        while self.requests.lock().len() < count {
            self.asked.notified().await;
        }
    }
}

struct Feed(mpsc::UnboundedSender<Bytes>);

impl Feed {
    fn line(&self, kind: &str, object: &Value) {
        self.raw(&format!("{}\n", json!({"type": kind, "object": object})));
    }
    fn raw(&self, text: &str) {
        self.0.send(Bytes::from(text.to_owned())).unwrap();
    }
    fn initial_end(&self, version: u64) {
        let annotations = json!({"k8s.io/initial-events-end": "true"});
        self.line(
            "BOOKMARK",
            &json!({"metadata": {"resourceVersion": version.to_string(), "annotations": annotations}}),
        );
    }
    fn bookmark(&self, version: u64) {
        self.line("BOOKMARK", &json!({"metadata": {"resourceVersion": version.to_string()}}));
    }
}

fn thing(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": version.to_string()}, "size": 1})
}

struct World {
    script: Script,
    clock: Clock,
    seen: Arc<Mutex<Vec<String>>>,
    changed: Arc<tokio::sync::Notify>,
    informer: Option<Informer<Thing>>,
    pace: Pace,
    history: ServerHistory,
}

impl World {
    fn new() -> Self {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 3);
        let (script, pace) = (Script::default(), Pace::default());
        let (seen, changed, history) = (Arc::default(), Arc::default(), ServerHistory::default());
        Self { script, clock, seen, changed, informer: None, pace, history }
    }

    fn api(&self) -> Api {
        let (keeper, gate) = closed_write_gate(self.clock.clone());
        keeper.open_without_deadline();
        let api = Api::new(self.script.client(), self.clock.clone(), gate, "test").with_pace(self.pace.clone());
        api.with_history(self.history.clone())
    }

    fn start(&mut self, config: InformerConfig) {
        let api = self.api();
        let (seen, changed) = (Arc::clone(&self.seen), Arc::clone(&self.changed));
        let handler: CacheEventHandler<Thing> = Box::new(move |event, origin| {
            let what = match event {
                CacheEvent::Added(o) => format!("+{}", o.metadata.name),
                CacheEvent::Updated { new, .. } => format!("~{}", new.metadata.name),
                CacheEvent::Deleted(o) => format!("-{}", o.metadata.name),
                CacheEvent::Unreadable(m) => format!("?{}", m.meta.name),
            };
            let from = match origin {
                ChangeOrigin::Initial => "i",
                ChangeOrigin::Relist => "l",
                ChangeOrigin::Watch => "w",
                ChangeOrigin::Resync => "r",
            };
            seen.lock().push(format!("{what} {from}"));
            changed.notify_one();
        });
        self.informer = Some(Informer::start(api, config, vec![handler]));
    }

    fn informer(&self) -> &Informer<Thing> {
        self.informer.as_ref().unwrap()
    }

    async fn saw(&self, wanted: &[&str]) {
        let enough = async {
            while self.seen.lock().len() < wanted.len() {
                self.changed.notified().await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(3600), enough).await;
        assert_eq!(*self.seen.lock(), wanted);
    }
}

/// COMMON-1.
#[tokio::test(start_paused = true)]
async fn a_streaming_list_fills_the_cache_at_its_end_and_continues_as_a_watch() {
    let mut world = World::new();
    let feed = world.script.stream();
    world.start(InformerConfig::default());
    feed.line("ADDED", &thing("b", 3));
    feed.line("ADDED", &thing("a", 9));
    world.script.asked(1).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!world.informer().is_synced(), "an incomplete set does not count");
    feed.initial_end(10);
    world.informer().wait_until_synced().await;
    world.saw(&["+b i", "+a i"]).await;
    assert_eq!(world.informer().version(), ResourceVersion::parse("10"));
    feed.line("MODIFIED", &thing("a", 11));
    feed.line("DELETED", &thing("b", 12));
    world.saw(&["+b i", "+a i", "~a w", "-b w"]).await;
    let first = &world.script.requests()[0];
    assert!(first.contains("sendInitialEvents=true") && !first.contains("resourceVersion="), "{first}");
    assert!(first.contains("resourceVersionMatch=NotOlderThan"), "{first}");
}

/// COMMON-14.
#[tokio::test(start_paused = true)]
async fn a_process_sleeps_after_events_and_not_while_it_reads_a_set_or_awaits_an_answer() {
    let mut world = World::new();
    world.pace = Pace::new(Duration::from_millis(20));
    let (pace, clock) = (world.pace.clone(), world.clock.clone());
    let may_sleep = || {
        let _ = pace.next_sleep_duration(clock.monotonic_now());
        pace.record_watch_data();
        !pace.next_sleep_duration(clock.monotonic_now()).is_zero()
    };
    let feed = world.script.stream();
    world.start(InformerConfig::default());
    feed.line("ADDED", &thing("a", 9));
    world.script.asked(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!may_sleep(), "a set is being read");
    feed.initial_end(10);
    world.informer().wait_until_synced().await;
    assert!(may_sleep());
    assert!(pace.next_sleep_duration(clock.monotonic_now()).is_zero(), "no event has arrived");
    feed.line("MODIFIED", &thing("a", 11));
    world.saw(&["+a i", "~a w"]).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!pace.next_sleep_duration(clock.monotonic_now()).is_zero(), "an event has arrived");
    let api = world.api();
    let request = tokio::spawn(async move { api.read_path("/version", "application/json").await });
    world.script.asked(2).await;
    assert!(!may_sleep(), "an answer is awaited");
    request.abort();
    assert!(request.await.is_err() && may_sleep());
}

/// COMMON-18.
#[tokio::test(start_paused = true)]
async fn caches_use_the_user_agent_of_upstreams_shared_informers() {
    for (metadata_only, name) in [(false, "shared-informers"), (true, "metadata-informers")] {
        let mut world = World::new();
        let _feed = world.script.stream();
        world.start(InformerConfig { is_metadata_only: metadata_only, ..InformerConfig::default() });
        world.script.asked(1).await;
        assert_eq!(*world.script.agents.lock(), [user_agent(name)]);
    }
}

/// COMMON-3.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_resumed_from_the_newest_version_seen_without_a_list() {
    let mut world = World::new();
    let feed = world.script.stream();
    world.start(InformerConfig::default());
    feed.line("ADDED", &thing("a", 9));
    feed.initial_end(10);
    feed.bookmark(40);
    world.informer().wait_until_synced().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let next = world.script.stream();
    drop(feed);
    world.script.asked(2).await;
    next.line("MODIFIED", &thing("a", 41));
    world.saw(&["+a i", "~a w"]).await;
    let second = &world.script.requests()[1];
    assert!(second.contains("resourceVersion=40&") && !second.contains("sendInitialEvents"), "{second}");
}

/// COMMON-4.
#[tokio::test(start_paused = true)]
async fn an_expired_version_leads_to_a_full_set_that_is_no_older() {
    let mut world = World::new();
    let feed = world.script.stream();
    world.start(InformerConfig::default());
    feed.line("ADDED", &thing("a", 9));
    feed.line("ADDED", &thing("b", 10));
    feed.initial_end(10);
    let again = world.script.stream();
    feed.line(
        "ERROR",
        &json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}),
    );
    world.script.asked(2).await;
    again.line("ADDED", &thing("b", 10));
    again.line("ADDED", &thing("c", 30));
    again.initial_end(33);
    world.saw(&["+a i", "+b i", "-a l", "+c l"]).await;
    let second = &world.script.requests()[1];
    assert!(second.contains("sendInitialEvents=true") && second.contains("resourceVersion=10"), "{second}");
}

/// COMMON-2.
#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_read_in_pages_of_one_version() {
    let mut world = World::new();
    let invalid =
        json!({"kind": "Status", "reason": "Invalid", "message": "sendInitialEvents is forbidden", "code": 422});
    world.script.then(Answer::Json(422, invalid));
    world.script.then(Answer::Json(
        200,
        json!({"metadata": {"resourceVersion": "7", "continue": "to/ken"}, "items": [thing("a", 1)]}),
    ));
    world.script.then(Answer::Json(200, json!({"metadata": {"resourceVersion": "7"}, "items": [thing("b", 2)]})));
    let feed = world.script.stream();
    world.start(InformerConfig { page_size: 1, ..InformerConfig::default() });
    world.saw(&["+a i", "+b i"]).await;
    world.script.asked(4).await;
    feed.line("ADDED", &thing("c", 8));
    world.saw(&["+a i", "+b i", "+c w"]).await;
    let requests = world.script.requests();
    assert!(requests[2].contains("continue=to%2Fken"), "{requests:?}");
    assert!(requests[3].contains("watch=true") && requests[3].contains("resourceVersion=7"), "{requests:?}");
}

/// COMMON-2.
#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_leads_to_a_list_in_one_page() {
    let mut world = World::new();
    world.script.then(Answer::Json(
        200,
        json!({"metadata": {"resourceVersion": "7", "continue": "t"}, "items": [thing("a", 1)]}),
    ));
    world
        .script
        .then(Answer::Json(410, json!({"reason": "Expired", "code": 410, "message": "continue token expired"})));
    world.script.then(Answer::Json(200, json!({"metadata": {"resourceVersion": "9"}, "items": [thing("b", 8)]})));
    world.start(InformerConfig { is_streaming_list_enabled: false, ..InformerConfig::default() });
    world.saw(&["+b i"]).await;
    assert!(!world.script.requests()[2].contains("limit"), "{:?}", world.script.requests());
}

/// COMMON-5.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_is_retried_with_a_growing_back_off() {
    let mut world = World::new();
    for _ in 0..4 {
        world.script.then(Answer::Refused);
    }
    let feed = world.script.stream();
    let start = world.clock.monotonic_now();
    world.start(InformerConfig::default());
    world.script.asked(5).await;
    let waited = world.clock.monotonic_now() - start;
    assert!(
        waited >= Duration::from_millis(800 + 1600 + 3200 + 6400) && waited < Duration::from_secs(25),
        "{waited:?}"
    );
    feed.initial_end(1);
    world.informer().wait_until_synced().await;
    assert_eq!(world.informer().informer_status().error, None);
}

/// COMMON-5.
#[tokio::test(start_paused = true)]
async fn a_busy_server_is_retried_after_the_wait_that_it_asks_for() {
    let mut world = World::new();
    world.script.then(Answer::Busy(20));
    let feed = world.script.stream();
    let start = world.clock.monotonic_now();
    world.start(InformerConfig::default());
    let asked_after = async |count| {
        world.script.asked(count).await;
        (world.clock.monotonic_now() - start).as_secs()
    };
    assert_eq!(asked_after(2).await, 20);
    feed.initial_end(10);
    let busy = json!({"code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 30}});
    feed.line("ERROR", &busy);
    world.script.then(Answer::Busy(86_400));
    assert_eq!(asked_after(3).await, 50);
    assert_eq!(asked_after(4).await, 110, "the wait is limited to a minute");
    assert!(!world.script.requests()[3].contains("sendInitialEvents"), "{:?}", world.script.requests());
}

/// COMMON-17.
#[tokio::test(start_paused = true)]
async fn a_cache_is_stale_after_nothing_but_failures_for_longer_than_the_limit() {
    let mut world = World::new();
    let metrics = Metrics::new();
    let feed = world.script.stream();
    world.start(InformerConfig { metrics: Some(metrics.clone()), ..InformerConfig::default() });
    feed.initial_end(10);
    feed.bookmark(11);
    world.informer().wait_until_synced().await;
    // A cache without events is not stale as long as its watch works.
    tokio::time::sleep(Duration::from_secs(89)).await;
    assert_eq!(world.informer().stale_error(), None);
    for _ in 0..30 {
        world.script.then(Answer::Refused);
    }
    drop(feed);
    world.script.asked(2).await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(world.informer().stale_error(), None, "a short outage does not make the cache stale");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lost = world.informer().stale_error().unwrap();
    assert!(
        lost.starts_with("no list or watch of things has succeeded for 9") && lost.contains("connection refused"),
        "{lost}"
    );
    assert!(world.informer().is_synced());
    let failures = world.informer().informer_status().error.map(|(_, failures)| failures).unwrap();
    let counted = format!("nonet_informer_failures_total{{group=\"\",resource=\"things\"}} {failures}\n");
    assert!(failures > 1 && metrics.render_prometheus().contains(&counted), "{failures}");
    // A watch that the server ends without an event, within a second, does not count as a success.
    world.script.answers.lock().clear();
    for _ in 0..3 {
        drop(world.script.stream());
    }
    let again = world.script.stream();
    let asked = world.script.requests().len();
    world.script.asked(asked + 3).await;
    assert!(world.informer().stale_error().is_some());
    // The first event of a watch ends the staleness.
    again.bookmark(12);
    world.script.asked(asked + 4).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(world.informer().stale_error(), None);
}

/// COMMON-17.
#[tokio::test(start_paused = true)]
async fn a_watch_that_stays_open_is_a_success_even_without_events() {
    let mut world = World::new();
    let feed = world.script.stream();
    world.start(InformerConfig::default());
    feed.initial_end(10);
    world.informer().wait_until_synced().await;
    for _ in 0..30 {
        world.script.then(Answer::Refused);
    }
    drop(feed);
    tokio::time::sleep(Duration::from_secs(95)).await;
    assert!(world.informer().stale_error().is_some());
    world.script.answers.lock().clear();
    world.script.answer_version(10);
    let _quiet = world.script.stream();
    let asked = world.script.requests().len();
    world.script.asked(asked + 2).await;
    tokio::time::sleep(Duration::from_millis(1001)).await;
    let state = world.informer().informer_status();
    assert_eq!((world.informer().stale_error(), state.error, state.failing_since), (None, None, None));
}

/// COMMON-82.
#[tokio::test(start_paused = true)]
async fn objects_on_their_way_into_the_cache_are_counted() {
    let mut world = World::new();
    let metrics = Metrics::new();
    let feed = world.script.stream();
    world.start(InformerConfig { metrics: Some(metrics.clone()), ..InformerConfig::default() });
    let value = |name: &str| {
        let series =
            format!("{name}{{group=\"\",name=\"kube-controller-manager\",resource=\"things\",version=\"v1\"}} ");
        let text = metrics.render_prometheus();
        text.lines()
            .find_map(|line| line.strip_prefix(&series))
            .unwrap_or_else(|| panic!("{series}: {text}"))
            .to_owned()
    };
    feed.line("ADDED", &thing("a", 8));
    feed.line("ADDED", &thing("b", 9));
    world.script.asked(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((value("informer_queued_items"), value("informer_store_resource_version")), ("2".into(), "0".into()));
    feed.initial_end(1_234_000_000_000_000_010);
    feed.line("MODIFIED", &thing("a", 1_234_000_000_000_000_011));
    world.saw(&["+a i", "+b i", "~a w"]).await;
    assert_eq!((value("informer_queued_items"), value("informer_store_resource_version")), ("0".into(), "11".into()));
    assert_eq!(value("informer_processing_latency_seconds_count"), "2", "one for the full set, one for the change");
}

/// COMMON-16.
#[tokio::test(start_paused = true)]
async fn the_size_of_a_full_set_is_limited() {
    let page = json!({"metadata": {"resourceVersion": "7", "continue": "t"}, "items": [thing("a", 1)]});
    for streaming in [true, false] {
        let mut world = World::new();
        let feed = world.script.stream();
        if streaming {
            for version in 1..100 {
                feed.line("ADDED", &thing("a", version));
            }
        } else {
            world.script.answers.lock().clear();
            (0..100).for_each(|_| world.script.then(Answer::Json(200, page.clone())));
        }
        world.start(InformerConfig {
            is_streaming_list_enabled: streaming,
            max_list_bytes: 1000,
            ..InformerConfig::default()
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        let error = world.informer().informer_status().error.map(|(why, _)| why);
        assert_eq!(error.as_deref(), Some("the list is longer than the limit"));
        assert!(!world.informer().is_synced() && world.script.requests().len() < 20);
    }
}

/// COMMON-6.
#[tokio::test(start_paused = true)]
async fn an_invalid_event_leads_to_a_full_set() {
    for garbage in ["this is not JSON\n", "{\"type\":\"MODIFIED\",\"object\":{\"spec\":1}}\n"] {
        let mut world = World::new();
        let feed = world.script.stream();
        world.start(InformerConfig::default());
        feed.line("ADDED", &thing("a", 9));
        feed.initial_end(10);
        feed.raw(garbage);
        let again = world.script.stream();
        world.script.asked(2).await;
        assert!(world.script.requests()[1].contains("sendInitialEvents"), "{:?}", world.script.requests());
        again.line("ADDED", &thing("a", 9));
        again.line("ADDED", &thing("b", 11));
        again.initial_end(12);
        world.saw(&["+a i", "+b l"]).await;
    }
}

/// COMMON-6.
#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_in_the_middle_of_a_line_is_resumed_after_a_pause() {
    let mut world = World::new();
    let feed = world.script.stream();
    world.start(InformerConfig::default());
    feed.line("ADDED", &thing("a", 9));
    feed.initial_end(10);
    feed.line("MODIFIED", &thing("a", 11));
    feed.raw("{\"type\":\"ADDED\",\"obj");
    world.saw(&["+a i", "~a w"]).await;
    let start = world.clock.monotonic_now();
    world.script.answer_version(11);
    let again = world.script.stream();
    drop(feed);
    world.script.asked(3).await;
    assert!(
        world.clock.monotonic_now() - start >= Duration::from_millis(800),
        "{:?}",
        world.clock.monotonic_now() - start
    );
    assert!(world.script.requests()[2].contains("resourceVersion=11&"), "{:?}", world.script.requests());
    again.line("ADDED", &thing("b", 12));
    world.saw(&["+a i", "~a w", "+b w"]).await;
}

/// COMMON-107.
#[tokio::test(start_paused = true)]
async fn a_server_with_an_older_version_after_a_broken_connection_is_read_again_without_a_minimum_version() {
    let mut world = World::new();
    let reports = world.history.subscribe();
    let feed = world.script.stream();
    world.start(InformerConfig::default());
    feed.line("ADDED", &thing("a", 9));
    feed.line("ADDED", &thing("lost", 10));
    feed.initial_end(10);
    world.saw(&["+a i", "+lost i"]).await;
    world.script.answer_version(8);
    let again = world.script.stream();
    feed.raw("{\"type\":\"ADDED\",\"obj");
    drop(feed);
    again.line("ADDED", &thing("a", 7));
    again.initial_end(8);
    world.saw(&["+a i", "+lost i", "-lost l", "~a l"]).await;
    let requests = world.script.requests();
    assert!(requests[1].contains("limit=1") && !requests[2].contains("resourceVersion="), "{requests:?}");
    assert_eq!((*reports.borrow(), world.informer().version()), (1, ResourceVersion::parse("8")));
}

/// COMMON-107.
#[tokio::test(start_paused = true)]
async fn a_bookmark_of_a_lagging_server_takes_no_cache_back() {
    let mut world = World::new();
    let reports = world.history.subscribe();
    let feed = world.script.stream();
    world.start(InformerConfig::default());
    feed.line("ADDED", &thing("a", 9));
    feed.initial_end(10);
    world.saw(&["+a i"]).await;
    world.script.answer_version(10);
    let again = world.script.stream();
    feed.bookmark(9);
    world.script.asked(3).await;
    assert!(world.script.requests()[2].contains("resourceVersion=10&"), "{:?}", world.script.requests());
    again.line("ADDED", &thing("b", 11));
    world.saw(&["+a i", "+b w"]).await;
    assert_eq!(*reports.borrow(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_failed_is_tried_again_for_the_next_full_set() {
    let refusals = [
        json!({"kind": "Status", "reason": "Invalid", "message": "sendInitialEvents is forbidden", "code": 422}),
        json!({"kind": "Status", "reason": "InternalError", "message": "not today", "code": 500}),
    ];
    for refusal in refusals {
        let mut world = World::new();
        world.script.then(Answer::Json(refusal["code"].as_u64().unwrap() as u16, refusal));
        world.script.then(Answer::Json(200, json!({"metadata": {"resourceVersion": "7"}, "items": [thing("a", 1)]})));
        let feed = world.script.stream();
        world.start(InformerConfig::default());
        feed.line("ERROR", &json!({"code": 410, "reason": "Expired", "message": "too old"}));
        let again = world.script.stream();
        again.line("ADDED", &thing("b", 8));
        again.initial_end(9);
        world.saw(&["+a i", "-a l", "+b l"]).await;
        let lists: Vec<bool> = world.script.requests().iter().map(|r| r.contains("sendInitialEvents")).collect();
        assert_eq!(lists, [true, false, false, true]);
    }
}

/// COMMON-2.
#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_is_closed_at_once_is_replaced_by_pages() {
    let mut world = World::new();
    drop(world.script.stream());
    world.script.then(Answer::Json(200, json!({"metadata": {"resourceVersion": "7"}, "items": [thing("a", 1)]})));
    let start = world.clock.monotonic_now();
    world.start(InformerConfig::default());
    world.saw(&["+a i"]).await;
    assert_eq!(world.clock.monotonic_now(), start);
}

/// COMMON-4.
#[tokio::test(start_paused = true)]
async fn a_version_that_the_server_rejects_is_not_sent_again() {
    let too_large = json!({"code": 504, "reason": "Timeout", "message": "Too large resource version: 10, current: 3",
                           "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large"}]}});
    let expired = json!({"code": 410, "reason": "Expired", "message": "too old resource version"});
    for failure in [too_large, expired.clone()] {
        for in_the_stream in [true, false] {
            let mut world = World::new();
            let feed = world.script.stream();
            world.start(InformerConfig::default());
            feed.initial_end(10);
            feed.line("ERROR", &expired);
            world.script.asked(1).await;
            if in_the_stream {
                world.script.stream().line("ERROR", &failure);
            } else {
                world.script.then(Answer::Json(failure["code"].as_u64().unwrap() as u16, failure.clone()));
            }
            let (again, start) = (world.script.stream(), world.clock.monotonic_now());
            world.script.asked(3).await;
            let waited = world.clock.monotonic_now() - start;
            assert!(waited >= Duration::from_millis(800 + 1600), "{waited:?}");
            let requests = world.script.requests();
            assert!(requests[1].contains("&resourceVersion=10"), "{requests:?}");
            assert!(requests[2].contains("sendInitialEvents") && !requests[2].contains("&resourceVersion="));
            again.line("ADDED", &thing("a", 11));
            again.initial_end(12);
            world.saw(&["+a l"]).await;
        }
    }
}

/// COMMON-5.
#[tokio::test(start_paused = true)]
async fn versions_that_expire_repeatedly_lead_to_a_growing_back_off() {
    let mut world = World::new();
    let start = world.clock.monotonic_now();
    for _ in 0..4 {
        let feed = world.script.stream();
        feed.initial_end(10);
        feed.line("ERROR", &json!({"code": 410, "reason": "Expired", "message": "too old"}));
    }
    world.start(InformerConfig::default());
    world.script.asked(5).await;
    let waited = world.clock.monotonic_now() - start;
    assert!(waited >= Duration::from_millis(800 + 1600 + 3200 + 6400), "{waited:?}");
}

/// COMMON-9.
#[tokio::test(start_paused = true)]
async fn an_unreadable_object_is_reported_with_its_key_and_affects_no_other() {
    let mut world = World::new();
    let feed = world.script.stream();
    world.start(InformerConfig::default());
    feed.line("ADDED", &thing("a", 9));
    feed.initial_end(10);
    let mut bad = thing("a", 11);
    bad["size"] = json!("large");
    feed.line("MODIFIED", &bad);
    feed.line("ADDED", &thing("b", 12));
    world.saw(&["+a i", "?a w", "+b w"]).await;
    let error = world.informer().store().get("ns", "a").err().unwrap().to_string();
    assert!(error.starts_with("things ns/a cannot be read: invalid type: string \"large\""), "{error}");
    assert_eq!(world.informer().store().get("ns", "b").unwrap().unwrap().size, Some(1));
    assert_eq!(world.script.requests().len(), 1);
}

/// COMMON-55.
#[tokio::test(start_paused = true)]
async fn catching_up_uses_the_watch_or_else_a_full_set() {
    let mut world = World::new();
    let feed = world.script.stream();
    world.start(InformerConfig::default());
    feed.line("ADDED", &thing("a", 9));
    feed.initial_end(10);
    world.informer().wait_until_synced().await;
    tokio::time::sleep(Duration::from_secs(1)).await;

    // The watch delivers the required version in time, so there is no relist.
    world.script.then(Answer::Json(200, json!({"metadata": {"resourceVersion": "20"}, "items": []})));
    let caught_up = async {
        world.script.asked(2).await;
        feed.line("MODIFIED", &thing("a", 20));
    };
    let succession =
        LeadershipStart { leading_since: world.clock.monotonic_now(), versions_written_by_predecessor: None };
    tokio::join!(world.informer().catch_up_with_predecessor(&succession), caught_up);
    assert_eq!(world.informer().version(), ResourceVersion::parse("20"));
    assert_eq!(world.script.requests().len(), 2);

    // The watch does not deliver version 30 within `CATCH_UP`, so the informer relists.
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.script.then(Answer::Json(200, json!({"metadata": {"resourceVersion": "30"}, "items": []})));
    let again = world.script.stream();
    let caught_up = async {
        world.script.asked(4).await;
        again.line("ADDED", &thing("a", 25));
        again.initial_end(31);
    };
    let succession =
        LeadershipStart { leading_since: world.clock.monotonic_now(), versions_written_by_predecessor: None };
    tokio::join!(world.informer().catch_up_with_predecessor(&succession), caught_up);
    assert_eq!(
        world.informer().store().get("ns", "a").unwrap().unwrap().metadata.resource_version,
        ResourceVersion::parse("25")
    );
    let last = world.script.requests().pop().unwrap();
    assert!(last.contains("sendInitialEvents=true") && !last.contains("resourceVersion="), "{last}");
}

/// COMMON-55.
#[tokio::test(start_paused = true)]
async fn a_cache_that_was_read_after_the_start_of_the_term_need_not_catch_up() {
    let mut world = World::new();
    let since = world.clock.monotonic_now();
    let feed = world.script.stream();
    world.start(InformerConfig::default());
    feed.initial_end(10);
    world.informer().wait_until_synced().await;
    world
        .informer()
        .catch_up_with_predecessor(&LeadershipStart { leading_since: since, versions_written_by_predecessor: None })
        .await;
    assert_eq!(world.script.requests().len(), 1);
}

/// COMMON-54.
#[tokio::test(start_paused = true)]
async fn a_cache_that_shows_the_predecessors_writes_is_not_read_again() {
    let mut world = World::new();
    let feed = world.script.stream();
    world.start(InformerConfig::default());
    feed.line("ADDED", &thing("a", 9));
    feed.initial_end(10);
    world.informer().wait_until_synced().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let since = world.clock.monotonic_now();
    let after = |written: &str| {
        let note = format!(r#"{{"transitions":0,"written":{written}}}"#);
        LeadershipStart {
            leading_since: since,
            versions_written_by_predecessor: Some(Arc::new(WrittenVersions::from_annotation(&note, 0).unwrap())),
        }
    };
    world.informer().catch_up_with_predecessor(&after("{}")).await;
    world.informer().catch_up_with_predecessor(&after(&format!(r#"{{"{}":"10"}}"#, Thing::RESOURCE))).await;
    // If the cache does not show all writes of the predecessor, the catch-up waits until the watch delivers them.
    let behind = after(&format!(r#"{{"{}":"12"}}"#, Thing::RESOURCE));
    let late_event = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        feed.line("MODIFIED", &thing("a", 12));
    };
    tokio::join!(world.informer().catch_up_with_predecessor(&behind), late_event);
    assert_eq!(world.script.requests().len(), 1, "no request was needed");
    // If a version never arrives, as after a restore of the server's data, the informer relists.
    let again = world.script.stream();
    again.line("ADDED", &thing("a", 12));
    again.initial_end(13);
    world.informer().catch_up_with_predecessor(&after(&format!(r#"{{"{}":"99"}}"#, Thing::RESOURCE))).await;
    assert_eq!(world.script.requests().len(), 2);
}

/// COMMON-13.
#[tokio::test(start_paused = true)]
async fn the_cache_is_replayed_at_its_interval() {
    let mut world = World::new();
    let feed = world.script.stream();
    world.start(InformerConfig { resync_interval: Some(Duration::from_secs(60)), ..InformerConfig::default() });
    feed.line("ADDED", &thing("a", 9));
    feed.initial_end(10);
    world.saw(&["+a i", "~a r"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_cache_is_replayed_on_request() {
    let mut world = World::new();
    let feed = world.script.stream();
    world.start(InformerConfig::default());
    feed.line("ADDED", &thing("a", 9));
    feed.initial_end(10);
    world.saw(&["+a i"]).await;
    world.informer().replay();
    world.saw(&["+a i", "~a r"]).await;
}

/// COMMON-7.
#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_resumed_from_its_version_at_growing_intervals() {
    let mut world = World::new();
    let first = world.script.stream();
    world.start(InformerConfig::default());
    first.initial_end(10);
    first.bookmark(11);
    world.informer().wait_until_synced().await;
    let began = world.clock.monotonic_now();
    let mut feeds = vec![first];
    let mut resumed = Vec::new();
    for asked in 2..=5 {
        feeds.push(world.script.stream());
        world.script.asked(asked).await;
        resumed.push((world.clock.monotonic_now() - began).as_secs());
        assert_eq!(world.informer().stale_error(), None);
    }
    // For a resource that does not change, these times without events are normal.
    assert_eq!(resumed, [150, 150 + 300, 150 + 300 + 600, 150 + 300 + 600 + 660]);
    for request in &world.script.requests()[1..] {
        assert!(request.contains("watch=true") && request.contains("resourceVersion=11&"), "{request}");
        assert!(!request.contains("sendInitialEvents"), "no full set is read: {request}");
    }
    assert_eq!(world.informer().informer_status().error, None, "silence is no failure");
    // After an event, the watch is resumed after 150 seconds without events, as at first.
    let last = feeds.last().unwrap();
    last.line("ADDED", &thing("a", 12));
    world.saw(&["+a w"]).await;
    let last_event = world.clock.monotonic_now();
    feeds.push(world.script.stream());
    world.script.asked(6).await;
    assert_eq!((world.clock.monotonic_now() - last_event).as_secs(), 150);
}
