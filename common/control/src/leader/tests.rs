use std::collections::VecDeque;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Method, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use jiff::SignedDuration;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::{sync::broadcast, task::JoinHandle};

use super::{
    step::{CurrentTime, ElectionAttempt, ElectionReply, ElectionRequest},
    *,
};
use crate::{
    api::{self, RequestTarget},
    gate::{self, WriteGate},
    meta::ResourceVersion,
    succession,
};

mod holds;
mod upgrades;

type Stream = UnsyncBoxBody<Bytes, std::io::Error>;

const SECOND: Duration = Duration::from_secs(1);
/// The count of clients that the server distinguishes.
const CLIENTS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The request does not arrive.
    Refused,
    /// The request takes effect, and its answer is lost.
    AnswerLost,
}

/// An API server with a single Lease.
#[derive(Clone)]
struct Server {
    state: Arc<Mutex<ServerState>>,
    changes: broadcast::Sender<Value>,
}

#[derive(Default)]
struct ServerState {
    lease: Option<Value>,
    version: u64,
    /// Successful writes: index of the client, written Lease.
    writes: Vec<(usize, Value)>,
    faults: [VecDeque<Fault>; CLIENTS],
    down: [bool; CLIENTS],
    /// Clients that never get an answer to a request.
    mute: [bool; CLIENTS],
    /// The delay of each client's answers after its requests took effect.
    slow: [Duration; CLIENTS],
    /// Clients whose writes do not arrive.
    cannot_write: [bool; CLIENTS],
    /// The delay of each event of a watch.
    slow_watch: Duration,
    watch_forbidden: bool,
    /// If set, the server refuses every watch: `Retry-After` in seconds, and the count of refused watches so far.
    watch_busy: Option<(u64, usize)>,
    requests: usize,
}

impl Server {
    fn new() -> Self {
        Self { state: Arc::default(), changes: broadcast::channel(64).0 }
    }

    fn client(&self, who: usize) -> kube::Client {
        let server = self.clone();
        kube::Client::new(
            tower::service_fn(move |request: http::Request<Body>| {
                let server = server.clone();
                async move { server.serve(who, request).await }
            }),
            "default",
        )
    }

    async fn serve(&self, who: usize, request: http::Request<Body>) -> Result<Response<Stream>, std::io::Error> {
        let broken = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| broken())?.to_bytes();
        tokio::time::sleep(Duration::from_millis(3)).await;
        let query = parts.uri.query().unwrap_or_default();
        let fault = {
            let mut state = self.state.lock();
            state.requests += 1;
            if state.down[who] { Some(Fault::Refused) } else { state.faults[who].pop_front() }
        };
        if self.state.lock().mute[who] {
            std::future::pending::<()>().await;
        }
        if fault == Some(Fault::Refused) {
            return Err(broken());
        }
        if query.contains("watch=true") {
            return Ok(self.watch(who));
        }
        if self.state.lock().cannot_write[who] && parts.method != Method::GET {
            return Err(broken());
        }
        let answer = self.apply(who, &parts.method, &body);
        let slow = self.state.lock().slow[who];
        tokio::time::sleep(slow).await;
        if fault == Some(Fault::AnswerLost) { Err(broken()) } else { Ok(answer) }
    }

    fn watch(&self, who: usize) -> Response<Stream> {
        let mut state = self.state.lock();
        if let Some((seconds, told)) = &mut state.watch_busy {
            *told += 1;
            let mut answer = status(429, "TooManyRequests");
            answer.headers_mut().insert("retry-after", (*seconds).into());
            return answer;
        }
        if state.watch_forbidden {
            return status(403, "Forbidden");
        }
        let first = state.lease.clone().map(|lease| json!({"type": "ADDED", "object": lease}));
        let (server, delay) = (self.clone(), state.slow_watch);
        // The connection of a client that is cut off breaks.
        let changes = futures::stream::unfold(self.changes.subscribe(), move |mut changes| {
            let server = server.clone();
            async move {
                loop {
                    let change = tokio::time::timeout(SECOND / 2, changes.recv()).await;
                    if server.state.lock().down[who] {
                        return Some((Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)), changes));
                    }
                    if let Ok(change) = change {
                        return change.ok().map(|change| (Ok(change), changes));
                    }
                }
            }
        });
        let lines = futures::stream::iter(first.map(Ok))
            .chain(changes)
            .then(move |event| async move {
                tokio::time::sleep(delay).await;
                event
            })
            .map(|event| event.map(|event| Frame::data(Bytes::from(format!("{event}\n")))));
        Response::new(StreamBody::new(lines).boxed_unsync())
    }

    fn apply(&self, who: usize, method: &Method, body: &[u8]) -> Response<Stream> {
        let mut state = self.state.lock();
        if *method == Method::GET {
            return state.lease.as_ref().map_or_else(|| status(404, "NotFound"), |lease| ok(200, lease));
        }
        let mut lease: Value = serde_json::from_slice(body).unwrap();
        let sends_entries = lease["metadata"].get("managedFields").is_some();
        assert!(!sends_entries || who == CLIENTS - 1, "only client-go's elector, the last client, sends them back");
        let kind = match (method, &state.lease) {
            (&Method::POST, None) => "ADDED",
            (&Method::POST, Some(_)) => return status(409, "AlreadyExists"),
            (_, None) => return status(404, "NotFound"),
            (_, Some(old)) => {
                assert!(lease["metadata"]["resourceVersion"].is_string(), "an update carries its version");
                if old["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"] {
                    return status(409, "Conflict");
                }
                "MODIFIED"
            }
        };
        state.version += 1;
        lease["metadata"]["resourceVersion"] = json!(state.version.to_string());
        lease["metadata"]["uid"] = json!("0b4ae1b5-3c9f-4d3f-9a44-7d6f5f2f5a01");
        lease["metadata"]["managedFields"] = holder_written_by(api::FIELD_MANAGER);
        state.lease = Some(lease.clone());
        state.writes.push((who, lease.clone()));
        let _ = self.changes.send(json!({"type": kind, "object": lease}));
        ok(if kind == "ADDED" { 201 } else { 200 }, &lease)
    }

    fn lease(&self) -> Value {
        self.state.lock().lease.clone().unwrap_or_default()
    }

    /// Creates, replaces or deletes (`None`) the Lease like an operator.
    fn put(&self, lease: Option<Value>) {
        let mut state = self.state.lock();
        state.version += 1;
        let version = state.version.to_string();
        let kind = match (&state.lease, &lease) {
            (_, None) => "DELETED",
            (None, _) => "ADDED",
            _ => "MODIFIED",
        };
        let mut shown = lease.clone().or_else(|| state.lease.clone()).unwrap_or_default();
        shown["metadata"]["resourceVersion"] = json!(version);
        // The server records a new owner only if the value changes.
        let holder = &shown["spec"]["holderIdentity"];
        if lease.is_some() && state.lease.as_ref().is_none_or(|old| old["spec"]["holderIdentity"] != *holder) {
            shown["metadata"]["managedFields"] = holder_written_by("kubectl-replace");
        }
        state.lease = lease.is_some().then(|| shown.clone());
        let _ = self.changes.send(json!({"type": kind, "object": shown}));
    }

    fn holder(&self) -> String {
        self.lease()["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    fn writes(&self, who: usize) -> usize {
        self.state.lock().writes.iter().filter(|(by, _)| *by == who).count()
    }
}

fn holder_written_by(manager: &str) -> Value {
    json!([{"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {"f:holderIdentity": {}}}}])
}

fn ok(code: u16, body: &Value) -> Response<Stream> {
    let mut response = Response::new(Full::from(body.to_string()).map_err(|e| match e {}).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

fn status(code: u16, reason: &str) -> Response<Stream> {
    ok(code, &json!({"kind": "Status", "status": "Failure", "reason": reason, "message": reason, "code": code}))
}

/// A candidate that runs as a task, with the handles to observe and to stop it.
struct Candidate {
    gate: WriteGate,
    stop: ElectionStopHandle,
    status: ElectionStatus,
    metrics: Metrics,
    clock: Clock,
    task: JoinHandle<ElectionOutcome>,
    writes: WriteLog,
    said: Arc<Mutex<Vec<String>>>,
    question: StandbyRequestReceiver,
    /// This channel is closed when the task has ended.
    running: channel::Receiver<()>,
}

/// Starts a candidate that takes a missing Lease.
fn candidate(server: &Server, who: usize, skew: i64) -> Candidate {
    let settings = ElectionSettings {
        leads_without_release: true,
        ..ElectionSettings::new("kube-system", "replicaset-controller", format!("c{who}"))
    };
    start(server, who, skew, settings, || true)
}

fn start(
    server: &Server,
    who: usize,
    skew: i64,
    settings: ElectionSettings,
    warm: impl Fn() -> bool + Send + Sync + 'static,
) -> Candidate {
    let clock = Clock::simulated("2026-01-02T03:04:05Z".parse().unwrap(), who as u64 + 1);
    clock.shift_wall_clock(SignedDuration::from_secs(skew));
    let (always, open) = gate::closed_write_gate(clock.clone());
    always.open_without_deadline();
    let api = Api::new(server.client(who), clock.clone(), open, "test");
    let (keeper, gate) = gate::closed_write_gate(clock.clone());
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    let recorder = EventRecorder::forwarding_events_to("test", clock.clone(), move |object, _, reason, message| {
        heard.lock().push(format!("{} {} {reason}: {message}", object.kind, object.name));
    });
    let (metrics, writes) = (Metrics::new(), WriteLog::default());
    let election = Election::new(settings, api, Arc::new(keeper), writes.clone(), recorder, &metrics)
        .ask_for_lease_only_if_caches_filled(warm);
    let (stop, status, question) = (election.stop_handle(), election.status(), election.standby_request_receiver());
    let (runs, running) = channel::channel(());
    let task = tokio::spawn(async move {
        // The client of the election has a gate that is always open. The gate's keeper must live as long as the candidate.
        let (_always, _runs) = (always, runs);
        election.run().await
    });
    Candidate { gate, stop, status, metrics, clock, task, writes, said, question, running }
}

async fn advance_time(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Waits until the gate is open and returns how long that took.
async fn wait_open(c: &Candidate) -> Duration {
    let start = c.clock.monotonic_now();
    tokio::time::timeout(Duration::from_mins(10), c.gate.wait_until_leading()).await.expect("the gate opens");
    c.clock.monotonic_now() - start
}

/// COMMON-41, COMMON-96.
#[tokio::test(start_paused = true)]
async fn a_leader_without_standbys_and_writes_renews_its_lease_every_45_seconds() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    let created = server.lease();
    assert_eq!(
        created["spec"],
        json!({
            "holderIdentity": "c0",
            "leaseDurationSeconds": 60,
            "acquireTime": "2026-01-02T03:04:05.003000Z",
            "renewTime": "2026-01-02T03:04:05.003000Z",
            "leaseTransitions": 0,
        })
    );
    advance_time(SECOND * 200).await;
    let renewed = server.lease();
    let annotations = json!({"nonet/standby-lease-duration": r#"{"holder":"c0","seconds":15}"#});
    assert_eq!(renewed["metadata"]["annotations"], annotations, "there are no others without a probation");
    assert_eq!(renewed["spec"]["acquireTime"], created["spec"]["acquireTime"]);
    assert_eq!(renewed["spec"]["leaseTransitions"], 0);
    assert_eq!(server.writes(0), 1 + 4);
    assert!(a.gate.is_leading() && !a.gate.is_open(), "a write waits for a renewal");
    let requests = server.state.lock().requests;
    advance_time(Duration::from_hours(1)).await;
    assert_eq!(server.state.lock().requests - requests, 80, "an hour at rest");
    assert!(a.status.is_leading() && a.status.check_healthy().is_ok());
    assert_eq!(*a.said.lock(), ["Lease replicaset-controller LeaderElection: c0 became leader"]);
    assert!(a.metrics.render_prometheus().contains("leader_election_master_status{name=\"replicaset-controller\"} 1"));
}

/// COMMON-41.
#[tokio::test(start_paused = true)]
async fn a_leader_that_writes_renews_its_lease_every_eight_seconds() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    advance_time(SECOND * 30).await;
    let before = server.writes(0);
    let start = a.clock.monotonic_now();
    assert!(a.gate.wait_for_permission(None).await.is_ok());
    assert!(a.clock.monotonic_now() - start < SECOND / 10, "the renewal that the write requests is sent at once");
    for _ in 0..800 {
        assert!(a.gate.wait_for_permission(None).await.is_ok());
        assert!(a.gate.time_until_deadline().unwrap() >= SECOND * 2, "enough for the write itself");
        advance_time(SECOND / 10).await;
    }
    let renewals = server.writes(0) - before;
    assert!((10..=12).contains(&renewals), "{renewals} in 80 s");
    advance_time(SECOND * 450).await;
    let renewals = server.writes(0) - before - renewals;
    assert!((10..=11).contains(&renewals), "{renewals} in 450 s of rest");
}

/// COMMON-42, COMMON-43.
#[tokio::test(start_paused = true)]
async fn a_standby_shortens_a_long_lease_and_then_waits_without_a_request() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    advance_time(SECOND * 50).await;
    assert_eq!(server.lease()["spec"]["leaseDurationSeconds"], 60);
    let (b, c) = (candidate(&server, 1, 0), candidate(&server, 2, 0));
    advance_time(SECOND).await;
    assert_eq!(server.lease()["spec"]["leaseDurationSeconds"], 15);
    assert_eq!(server.lease()["metadata"]["annotations"], json!({}));
    assert!(a.gate.is_open(), "the leader has renewed at once");
    let writes = server.writes(0);
    let requests = server.state.lock().requests;
    advance_time(SECOND * 160).await;
    let renewals = server.writes(0) - writes;
    assert!((19..=21).contains(&renewals), "{renewals} in 160 s");
    let requests = server.state.lock().requests - requests;
    assert_eq!(requests, renewals, "the standbys send nothing");
    // After an hour, the leader finds out whether it still has a standby.
    b.task.abort();
    c.task.abort();
    advance_time(Duration::from_hours(1)).await;
    assert_eq!(server.lease()["spec"]["leaseDurationSeconds"], 60);
    assert!(!b.gate.is_open() && !c.gate.is_open() && a.gate.is_leading());
}

/// A leader that rests or writes crashes or is cut off from the server at any time, with a standby that waits or has just started.
/// COMMON-42, COMMON-45.
#[tokio::test(start_paused = true)]
async fn a_leader_lost_a_thousand_times_is_followed_within_a_lease_duration() {
    let server = Server::new();
    let dice = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 7);
    let mut leader = candidate(&server, 0, 0);
    wait_open(&leader).await;
    for kill in 1..=1000_usize {
        let waits = dice.random_below(3) > 0;
        let standby = || candidate(&server, kill % 4, (dice.random_below(7200) as i64) - 3600);
        let early = waits.then(standby);
        for _ in 0..dice.random_below(40) {
            if dice.random_below(2) == 0 {
                assert!(leader.gate.wait_for_permission(None).await.is_ok());
            }
            advance_time(dice.jitter(SECOND, 2.0)).await;
        }
        // A leader that is cut off goes on for as long as its last renewal allows.
        let client = (kill - 1) % 4;
        if kill % 2 == 0 {
            server.state.lock().down[client] = true;
        } else {
            leader.task.abort();
        }
        let lost = leader.clock.monotonic_now();
        let next = match early {
            Some(early) => early,
            None => {
                advance_time(dice.jitter(SECOND, 2.0)).await;
                standby()
            }
        };
        let started = next.clock.monotonic_now();
        let took = wait_open(&next).await;
        assert!(!leader.gate.is_open(), "two lead after loss {kill}");
        assert!(took <= Duration::from_millis(15_500), "loss {kill}: {took:?}, {:?}", started - lost);
        leader.task.abort();
        server.state.lock().down[client] = false;
        leader = next;
    }
}

/// COMMON-42.
#[tokio::test(start_paused = true)]
async fn a_crashed_leader_is_replaced_when_its_lease_expires_and_not_before() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    let b = candidate(&server, 1, 0);
    advance_time(SECOND * 30).await;
    assert!(!b.gate.is_open());
    assert_eq!(b.status.holder(), "c0");
    a.task.abort();
    let took = wait_open(&b).await;
    assert!(took >= SECOND * 7 && took <= SECOND * 16, "{took:?}");
    assert_eq!(server.lease()["spec"]["leaseTransitions"], 1);
    assert_eq!(server.lease()["spec"]["acquireTime"], server.lease()["spec"]["renewTime"]);
}

/// COMMON-43.
#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_over_in_well_under_a_second() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    let b = candidate(&server, 1, 0);
    advance_time(SECOND * 31).await;
    a.stop.prevent_new_leadership();
    advance_time(SECOND * 5).await;
    assert!(a.gate.is_open(), "a leader keeps its lease while it finishes its work");
    a.stop.release_lease();
    let took = wait_open(&b).await;
    assert!(took < Duration::from_millis(100), "{took:?}");
    assert_eq!(a.task.await.unwrap(), ElectionOutcome::Released);
    assert!(!a.gate.is_open());
    let writes = server.state.lock().writes.clone();
    let given_up = &writes.iter().rev().find(|(who, _)| *who == 0).unwrap().1["spec"];
    assert_eq!(given_up["holderIdentity"], "");
    assert_eq!(given_up["leaseDurationSeconds"], 1);
    assert_eq!(given_up["leaseTransitions"], 0);
    assert_eq!(given_up["acquireTime"], given_up["renewTime"]);
    assert_eq!(server.lease()["spec"]["leaseTransitions"], 1);
}

/// COMMON-54, COMMON-56.
#[tokio::test(start_paused = true)]
async fn the_versions_that_a_leader_wrote_are_left_to_its_successor_only() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    assert_eq!(a.gate.wait_until_leading().await.versions_written_by_predecessor, None, "there was no predecessor");
    let target = RequestTarget::object(LEASES, "kube-system", "some");
    a.writes.record_write_answer(target, br#"{"metadata":{"resourceVersion":"7"}}"#, a.clock.monotonic_now());
    a.stop.release_lease();
    a.task.await.unwrap();
    let note = |lease: &Value| lease["metadata"]["annotations"].get(succession::WRITTEN_VERSIONS_ANNOTATION).cloned();
    let left = r#"{"transitions":0,"written":{"leases.coordination.k8s.io":"7"}}"#;
    assert_eq!(note(&server.lease()), Some(json!(left)));
    let b = candidate(&server, 1, 0);
    wait_open(&b).await;
    assert_eq!(
        b.gate.wait_until_leading().await.versions_written_by_predecessor.unwrap().newest_written_version(&LEASES),
        ResourceVersion::parse("7")
    );
    assert_eq!(note(&server.lease()), None, "the successor of a crashed leader must not read it");
    b.task.abort();
    let c = candidate(&server, 2, 0);
    wait_open(&c).await;
    assert_eq!(c.gate.wait_until_leading().await.versions_written_by_predecessor, None);
}

/// COMMON-43.
#[tokio::test(start_paused = true)]
async fn without_the_right_to_watch_a_candidate_polls() {
    let server = Server::new();
    server.state.lock().watch_forbidden = true;
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    let b = candidate(&server, 1, 0);
    advance_time(SECOND * 31).await;
    a.stop.release_lease();
    let took = wait_open(&b).await;
    assert!(took < Duration::from_millis(4500), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_honors_retry_after_while_polling_continues() {
    let server = Server::new();
    server.state.lock().watch_busy = Some((40, 0));
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    let told = || server.state.lock().watch_busy.unwrap().1;
    let before = told();
    let b = candidate(&server, 1, 0);
    advance_time(SECOND * 39).await;
    assert_eq!(told() - before, 1, "the standby retries the watch only after the requested time");
    a.stop.release_lease();
    wait_open(&b).await;
}

/// COMMON-47.
#[tokio::test(start_paused = true)]
async fn clocks_that_are_hours_apart_change_nothing() {
    for skew in [-7200, 7200] {
        let server = Server::new();
        let a = candidate(&server, 0, 0);
        wait_open(&a).await;
        let b = candidate(&server, 1, skew);
        advance_time(SECOND * 120).await;
        assert!(a.gate.is_open() && !b.gate.is_open(), "skew {skew}");
        a.task.abort();
        let took = wait_open(&b).await;
        assert!(took >= SECOND * 7 && took <= SECOND * 16, "{took:?}");
    }
}

/// COMMON-48.
#[tokio::test(start_paused = true)]
async fn a_leader_survives_the_loss_of_an_answer() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    advance_time(SECOND).await;
    server.state.lock().faults[0].push_back(Fault::AnswerLost);
    advance_time(SECOND * 60).await;
    assert!(a.gate.is_leading());
    assert_eq!(server.lease()["spec"]["leaseTransitions"], 0);
    assert!(
        a.metrics.render_prometheus().contains("leader_election_slowpath_total{name=\"replicaset-controller\"} 1\n")
    );
}

/// COMMON-48.
#[tokio::test(start_paused = true)]
async fn a_candidate_notices_its_take_over_although_the_answer_was_lost() {
    let server = Server::new();
    // The answer to the read arrives, and the answer to the creation is lost.
    let a = candidate(&server, 0, 0);
    // The first two requests are the read of the Lease and the watch, in any order.
    while server.state.lock().requests < 2 {
        advance_time(Duration::from_millis(1)).await;
    }
    server.state.lock().faults[0].push_back(Fault::AnswerLost);
    wait_open(&a).await;
    assert_eq!(server.holder(), "c0");
    assert_eq!(server.lease()["spec"]["leaseTransitions"], 0);
}

/// COMMON-44.
#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_writing_after_ten_seconds_and_before_another_leads() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    let b = candidate(&server, 1, 0);
    advance_time(SECOND * 30).await;
    server.state.lock().down[0] = true;
    let cut = a.clock.monotonic_now();
    a.gate.wait_until_closed().await;
    let closed = a.clock.monotonic_now() - cut;
    assert!(closed <= SECOND * 10 && closed >= SECOND, "{closed:?}");
    assert!(!b.gate.is_open());
    assert_eq!(a.task.await.unwrap(), ElectionOutcome::LeaseLost);
    wait_open(&b).await;
    assert!(a.metrics.render_prometheus().contains("leader_election_master_status{name=\"replicaset-controller\"} 0"));
    assert!(a.said.lock()[1].ends_with("c0 stopped leading"));
    let why = a.status.last_error();
    assert!(why.starts_with("not renewed in time, last: get: ") && why.contains("connection reset"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn the_reason_for_a_lost_lease_names_the_unanswered_request() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    server.state.lock().mute[0] = true;
    assert_eq!(a.task.await.unwrap(), ElectionOutcome::LeaseLost);
    assert_eq!(a.status.last_error(), "not renewed in time, last: get: no answer within 5s");
}

/// COMMON-44.
#[tokio::test(start_paused = true)]
async fn a_leader_that_was_paused_resumes_with_a_closed_gate_and_leads_on_if_its_lease_was_not_taken() {
    for has_standby in [false, true] {
        let server = Server::new();
        let a = candidate(&server, 0, 0);
        wait_open(&a).await;
        let b = has_standby.then(|| candidate(&server, 1, 0));
        advance_time(SECOND).await;
        // All timers fire only after the whole 30 seconds, as in a process that was stopped.
        tokio::time::advance(SECOND * 30).await;
        assert!(!a.gate.is_open());
        let may_write = a.gate.wait_for_permission(None).await.is_ok();
        let leaders = usize::from(may_write) + b.iter().filter(|b| b.gate.is_open()).count();
        assert_eq!(leaders, 1);
        advance_time(SECOND * 30).await;
        assert_eq!(a.gate.is_leading(), may_write);
    }
}

/// COMMON-43.
#[tokio::test(start_paused = true)]
async fn a_watch_that_opens_after_the_take_over_shows_an_older_lease_and_changes_nothing() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    a.stop.release_lease();
    assert_eq!(a.task.await.unwrap(), ElectionOutcome::Released);
    server.state.lock().slow_watch = SECOND / 10;
    let b = candidate(&server, 1, 0);
    wait_open(&b).await;
    let requests = server.state.lock().requests;
    advance_time(SECOND * 5).await;
    assert!(b.status.is_leading());
    assert_eq!(server.state.lock().requests - requests, 0);
}

/// COMMON-44.
#[tokio::test(start_paused = true)]
async fn a_leader_that_can_read_but_not_write_its_lease_tries_until_its_deadline() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    for (failing, lost) in [(SECOND * 5, false), (SECOND * 25, true)] {
        // The next renewal fails.
        advance_time(SECOND * 40).await;
        server.state.lock().cannot_write[0] = true;
        let permitted = tokio::time::timeout(failing, a.gate.wait_for_permission(None)).await;
        assert!(!permitted.is_ok_and(|permit| permit.is_ok()), "no write without a renewal");
        server.state.lock().cannot_write[0] = false;
        advance_time(SECOND * 3).await;
        assert_eq!(a.task.is_finished(), lost, "{failing:?}");
    }
}

/// COMMON-49.
#[tokio::test(start_paused = true)]
async fn a_stolen_lease_is_given_up_at_once() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    let mut stolen = server.lease();
    stolen["spec"]["holderIdentity"] = json!("thief");
    server.put(Some(stolen));
    let start = a.clock.monotonic_now();
    a.gate.wait_until_closed().await;
    assert!(a.clock.monotonic_now() - start < Duration::from_millis(2500));
    assert_eq!(a.task.await.unwrap(), ElectionOutcome::LeaseLost);
    assert_eq!(server.holder(), "thief");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_candidate_withdraws_at_once_and_writes_nothing() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    let b = candidate(&server, 1, 0);
    advance_time(SECOND * 10).await;
    let writes = server.writes(1);
    b.stop.prevent_new_leadership();
    let start = b.clock.monotonic_now();
    assert_eq!(b.task.await.unwrap(), ElectionOutcome::StoppedBeforeLeading);
    assert!(b.clock.monotonic_now() - start < Duration::from_millis(50));
    assert_eq!(server.holder(), "c0");
    assert_eq!(server.writes(1), writes);
}

/// COMMON-50.
#[tokio::test(start_paused = true)]
async fn unknown_metadata_of_a_lease_is_written_back() {
    let server = Server::new();
    server.state.lock().lease = Some(json!({
        "metadata": {"name": "replicaset-controller", "namespace": "kube-system", "resourceVersion": "7",
                     "labels": {"a": "b"}, "fromTheFuture": 1, "managedFields": [{"manager": "x"}]},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 4, "strategy": "X"},
    }));
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    let lease = server.lease();
    assert_eq!(lease["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(lease["metadata"]["fromTheFuture"], 1);
    assert_eq!(lease["spec"]["leaseTransitions"], 5);
    assert_eq!(lease["spec"].get("strategy"), None);
}

/// With random losses of requests and answers, at most one gate is open at a time, and one candidate leads in the end.
/// COMMON-45.
#[tokio::test(start_paused = true)]
async fn no_two_candidates_ever_lead_at_once() {
    for seed in 0..40 {
        let server = Server::new();
        let mut candidates: Vec<_> = (0..3).map(|who| candidate(&server, who, who as i64 * 1000 - 500)).collect();
        let dice = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1000 + seed);
        for _ in 0..600 {
            advance_time(dice.jitter(Duration::from_millis(150), 2.0)).await;
            let open = candidates.iter().filter(|c| c.gate.is_open()).count();
            assert!(open <= 1, "seed {seed}: {open} gates are open");
            let who = dice.random_below(3);
            // A process that lost its Lease ends, and is started again some time later.
            if candidates[who].task.is_finished() && dice.random_below(10) == 0 {
                candidates[who] = candidate(&server, who, 0);
            }
            let mut state = server.state.lock();
            match dice.random_below(20) {
                0 => state.faults[who].push_back(Fault::Refused),
                1 | 2 => state.faults[who].push_back(Fault::AnswerLost),
                3 => state.down[who] = !state.down[who],
                _ => {}
            }
        }
        server.state.lock().down = [false; CLIENTS];
        server.state.lock().faults = Default::default();
        advance_time(SECOND * 30).await;
        let open = candidates.iter().filter(|c| c.gate.is_open()).count();
        let alive = candidates.iter().filter(|c| !c.task.is_finished()).count();
        assert_eq!(open, usize::from(alive > 0), "seed {seed}: {alive} are alive");
        for c in candidates {
            c.task.abort();
        }
    }
}

#[test]
fn renewals_within_one_second_are_not_noticed() {
    let at = |text: &str| text.parse().ok();
    let record = |renewed: &str| lease::LeaseRecord {
        holder_identity: "other".to_owned(),
        duration_seconds: 15,
        acquire_time: at("2026-01-01T00:00:00.1Z"),
        renew_time: at(renewed),
        transition_count: 0,
    };
    let mut memory = CandidateMemory::new(&ElectionSettings::new("kube-system", "x", "me".to_owned()));
    let start = tokio::time::Instant::from_std(std_instant());
    let mut look = |record: lease::LeaseRecord, seconds: u64| {
        let now =
            CurrentTime { instant: start + SECOND * seconds as u32, wall_clock_time: jiff::Timestamp::UNIX_EPOCH };
        let (mut attempt, request) = ElectionAttempt::begin(&memory, now);
        assert_eq!(request, ElectionRequest::Get);
        attempt.process_reply(
            &mut memory,
            ElectionReply::Lease(lease::LeaseObject::new(Map::new(), record)),
            now.instant,
            now,
        )
    };
    let held = ControlFlow::Break(AttemptOutcome::HeldByOther { holder: "other".to_owned() });
    assert_eq!(look(record("2026-01-01T00:00:10.100Z"), 0), held);
    assert_eq!(look(record("2026-01-01T00:00:10.900Z"), 10), held);
    // Fifteen seconds after the first read, the Lease counts as expired: the renewal within the same second was not noticed.
    let ControlFlow::Continue(ElectionRequest::Replace(lease)) = look(record("2026-01-01T00:00:10.900Z"), 15) else {
        panic!("the lease has run out");
    };
    assert_eq!((lease.record.holder_identity.as_str(), lease.record.transition_count), ("me", 1));
}

#[expect(clippy::disallowed_methods, reason = "any instant is good enough")]
fn std_instant() -> std::time::Instant {
    std::time::Instant::now()
}

/// COMMON-51.
#[test]
fn invalid_timing_is_rejected() {
    let settings = |lease, renew, retry| ElectionSettings {
        lease_duration: Duration::from_secs_f64(lease),
        renew_deadline: Duration::from_secs_f64(renew),
        retry_period: Duration::from_secs_f64(retry),
        ..ElectionSettings::new("kube-system", "x", "me".to_owned())
    };
    for (lease, renew, retry) in [(15.0, 10.0, 2.0), (15.5, 10.5, 2.5), (11.0, 10.9, 2.0)] {
        assert_eq!(settings(lease, renew, retry).check_timing(), Ok(()), "{lease} {renew} {retry}");
    }
    for (lease, renew, retry) in
        [(10.0, 10.0, 2.0), (15.0, 10.0, 10.0), (15.0, 2.0, 2.0), (0.0, 0.0, 0.0), (15.0, 10.0, 0.0), (0.9, 0.5, 0.1)]
    {
        assert!(settings(lease, renew, retry).check_timing().is_err(), "{lease} {renew} {retry}");
    }
    // The Lease states the duration to other candidates in whole seconds: 10 s.
    assert_eq!(
        settings(10.9, 10.5, 2.0).check_timing().unwrap_err(),
        "lease duration (10.9s), which the lease states in whole seconds, must be greater than renew deadline (10.5s)"
    );
}

/// COMMON-46.
#[tokio::test(start_paused = true)]
async fn a_leader_with_slow_answers_keeps_leading_and_stops_well_before_another_leads() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    let b = candidate(&server, 1, 0);
    server.state.lock().slow[0] = Duration::from_millis(4900);
    advance_time(SECOND * 61).await;
    assert!(a.gate.is_open(), "slow answers within the time-out renew the lease: {}", a.status.last_error());
    // The server answers one more renewal, slowly. It answers no request after that one.
    let writes = server.writes(0);
    while server.writes(0) == writes {
        advance_time(Duration::from_millis(1)).await;
    }
    server.state.lock().mute[0] = true;
    a.gate.wait_until_closed().await;
    let closed = a.clock.monotonic_now();
    wait_open(&b).await;
    let apart = b.clock.monotonic_now() - closed;
    assert!(apart >= Duration::from_millis(4990), "{apart:?}");
    assert_eq!(a.task.await.unwrap(), ElectionOutcome::LeaseLost);
}

/// COMMON-44.
#[tokio::test(start_paused = true)]
async fn a_leader_that_was_suspended_for_too_long_renews_before_it_writes() {
    for (suspended, kept) in [(4, true), (11, false), (3600, false)] {
        let server = Server::new();
        let a = candidate(&server, 0, 0);
        wait_open(&a).await;
        advance_time(SECOND * 31).await;
        assert!(a.gate.wait_for_permission(None).await.is_ok());
        a.clock.simulate_suspension(SECOND * suspended);
        assert_eq!(a.gate.is_open(), kept, "{suspended} s");
        let writes = server.writes(0);
        assert!(a.gate.wait_for_permission(None).await.is_ok(), "the Lease was not taken");
        assert_eq!(server.writes(0) - writes, usize::from(!kept), "{suspended} s: renewals before the next write");
    }
}

/// COMMON-44.
#[tokio::test(start_paused = true)]
async fn a_renewal_during_a_suspension_counts_from_its_sending() {
    let server = Server::new();
    let a = candidate(&server, 0, 0);
    wait_open(&a).await;
    let writes = server.writes(0);
    server.state.lock().slow[0] = SECOND;
    while server.writes(0) == writes {
        advance_time(Duration::from_millis(1)).await;
    }
    // The server has received a renewal. The machine is suspended for 6 s before the answer arrives.
    server.state.lock().mute[0] = true;
    a.clock.simulate_suspension(SECOND * 6);
    advance_time(SECOND * 2).await;
    assert!(a.gate.time_until_deadline().unwrap() <= SECOND * 2, "{:?}", a.gate.time_until_deadline());
}

/// COMMON-44.
#[test]
fn a_holder_stops_one_renew_deadline_after_sending_including_suspended_time() {
    let sent = Clock::system().monotonic_now();
    for (suspended, seconds) in [(0, 10), (4, 6), (10, 0), (3600, 0)] {
        assert_eq!(step::write_deadline(sent, SECOND * suspended, SECOND * 10), sent + SECOND * seconds);
    }
}
