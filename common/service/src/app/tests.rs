use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::{
    api::{Api, RequestTarget},
    metrics::Metrics,
    object::Resource,
    runtime::{LoopContext, RunningLoop},
    settings::OperatorSettings,
};

const THINGS: Resource = Resource::namespaced("", "v1", "things", "Thing");

/// An API server in memory that stores one Lease, refuses watches, and accepts all other requests.
#[derive(Clone, Default)]
struct World {
    lease: Arc<Mutex<Option<Value>>>,
    version: Arc<Mutex<u64>>,
    /// User agent, and method with path, of every request except watches and requests for the Lease.
    written: Arc<Mutex<Vec<(String, String)>>>,
    /// If set, each request outside the Lease is answered with 429 and this number of seconds in the header `Retry-After`.
    busy: Arc<Mutex<Option<u64>>>,
}

impl World {
    fn client(&self) -> kube::Client {
        let world = self.clone();
        kube::Client::new(
            tower::service_fn(move |request: http::Request<Body>| {
                let world = world.clone();
                async move {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    world.serve(request).await
                }
            }),
            "default",
        )
    }

    async fn serve(&self, request: http::Request<Body>) -> Result<http::Response<Full<bytes::Bytes>>, std::io::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let answer = |code: u16, body: Value| {
            Ok(http::Response::builder().status(code).body(Full::from(body.to_string())).unwrap())
        };
        if parts.uri.query().is_some_and(|query| query.contains("watch=true")) {
            return answer(403, json!({"reason": "Forbidden"}));
        }
        if !parts.uri.path().contains("/leases") {
            let agent = parts.headers["user-agent"].to_str().unwrap().to_owned();
            self.written.lock().push((agent, format!("{} {}", parts.method, parts.uri.path())));
            if let Some(seconds) = *self.busy.lock() {
                let body = Full::from(r#"{"reason":"TooManyRequests"}"#);
                return Ok(http::Response::builder().status(429).header("Retry-After", seconds).body(body).unwrap());
            }
            return answer(201, json!({"metadata": {"name": "x"}}));
        }
        let mut lease = self.lease.lock();
        if parts.method == http::Method::GET {
            return lease.clone().map_or_else(|| answer(404, json!({"reason": "NotFound"})), |l| answer(200, l));
        }
        let mut new: Value = serde_json::from_slice(&body).unwrap();
        let version = |l: &Value| l["metadata"]["resourceVersion"].clone();
        if lease.as_ref().is_some_and(|old| version(old) != version(&new)) {
            return answer(409, json!({"reason": "Conflict"}));
        }
        let mut next = self.version.lock();
        *next += 1;
        new["metadata"]["resourceVersion"] = json!(next.to_string());
        *lease = Some(new.clone());
        answer(200, new)
    }

    fn holder(&self) -> String {
        let lease = self.lease.lock();
        lease.as_ref().and_then(|l| l["spec"]["holderIdentity"].as_str()).unwrap_or_default().to_owned()
    }

    fn posts(&self) -> usize {
        self.written.lock().iter().filter(|(_, call)| call.ends_with("/things")).count()
    }
}

/// A loop that creates an object every second while the process leads.
struct Ticker {
    task: JoinHandle<()>,
    stopping: Arc<AtomicBool>,
    /// How long `shutdown` takes before it ends the task.
    finish: Duration,
    clock: Clock,
    /// Time from which the loop is ready, as if its caches were full then.
    warm_at: crate::clock::Instant,
}

impl Ticker {
    fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
        let finish = context.settings.tuned_duration(&FINISH);
        let clock = context.clock.clone();
        let warm_at = clock.monotonic_now() + context.settings.tuned_duration(&WARM_UP);
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopping);
        let task = tokio::spawn(async move {
            context.write_gate.wait_until_leading().await;
            while !stop.load(Ordering::Relaxed) {
                let api: &Api = &context.api;
                let _ = api.create(RequestTarget::object(THINGS, "ns", ""), &json!({})).await;
                context.clock.sleep(Duration::from_secs(1)).await;
            }
        });
        Arc::new(Self { task, stopping, finish, clock, warm_at })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RunningLoop for Ticker {
    fn check_ready(&self) -> Result<(), String> {
        if self.clock.monotonic_now() < self.warm_at { Err("filling caches".to_owned()) } else { Ok(()) }
    }
    fn debug_queue(&self) -> Value {
        Value::Null
    }
    fn debug_cache(&self) -> Value {
        Value::Null
    }
    fn explain(&self, _key: Option<&str>) -> Value {
        Value::Null
    }
    fn shutdown(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            tokio::time::sleep(self.finish).await;
            self.stopping.store(true, Ordering::Relaxed);
            while !self.task.is_finished() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
    }
}

const FINISH: Tunable =
    Tunable { name: "finish", default_value: crate::settings::TunableValue::Duration(Duration::ZERO), help: "" };
const WARM_UP: Tunable =
    Tunable { name: "warm-up", default_value: crate::settings::TunableValue::Duration(Duration::ZERO), help: "" };
const TICKER: LoopDefinition = LoopDefinition {
    name: "ticker-controller",
    alias: "ticker",
    user_agent_suffix: "ticker-client",
    event_component: "ticker-component",
    owned_writes: &[],
    start_loop: Ticker::start,
};

pub(super) const DEFINITION: ProgramDefinition = ProgramDefinition {
    name: "ticker-controller",
    version: "1.2.3",
    about: "Ticks.",
    loops: &[TICKER],
    workers_flags: &[],
    feature_gates: &[],
    tunables: &[],
    single_value_flags: &[],
};

fn parts(world: &World, seed: u64, settings: OperatorSettings) -> StartParameters {
    let clock = Clock::simulated(Timestamp::from_second(1_700_000_000).unwrap(), seed);
    let election = leader::ElectionSettings {
        leads_without_release: true,
        ..leader::ElectionSettings::new("kube-system", "ticker-controller", format!("c{seed}"))
    };
    StartParameters {
        settings: Arc::new(settings),
        leadership: LeadershipMode::Elected(election),
        ..StartParameters::new(world.client(), clock, &[TICKER])
    }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// COMMON-43, COMMON-53.
#[tokio::test(start_paused = true)]
async fn the_leader_works_and_the_standby_waits_until_the_lease_is_released() {
    let world = World::default();
    let first = start_loops(parts(&world, 1, OperatorSettings::new()));
    pass(5).await;
    let second = start_loops(parts(&world, 2, OperatorSettings::new()));
    pass(30).await;
    assert!(first.gate().is_open() && !second.gate().is_open());
    assert_eq!(second.started_loops().len(), 1, "a standby starts its loops");
    let before = world.posts();
    assert!((30..=36).contains(&before), "{before}");
    assert_eq!(first.shutdown(Some(Duration::from_secs(10))).await, ShutdownResult::Clean);
    let stopped_at = world.posts();
    pass(5).await;
    assert_eq!(world.holder(), "c2");
    assert!(second.gate().is_open() && world.posts() > stopped_at);
    let agents: std::collections::BTreeSet<_> =
        world.written.lock().iter().map(|(agent, _)| agent.rsplit('/').next().unwrap().to_owned()).collect();
    assert_eq!(agents.into_iter().collect::<Vec<_>>(), ["ticker-client", "ticker-controller"]);
    assert!(world.written.lock().iter().any(|(_, call)| call == "POST /api/v1/namespaces/kube-system/events"));
}

/// Returns the parameters of a replica with a probation of one minute. Its caches are full after `warm_up` seconds.
fn versioned(world: &World, seed: u64, version: &str, warm_up: u64) -> StartParameters {
    let warm_up = crate::settings::TunableValue::Duration(Duration::from_secs(warm_up));
    let probation =
        leader::probation::ProbationSettings { version: version.to_owned(), probation_time: Duration::from_mins(1) };
    let election = leader::ElectionSettings {
        probation: Some(probation),
        leads_without_release: true,
        ..leader::ElectionSettings::new("kube-system", "ticker-controller", format!("c{seed}"))
    };
    StartParameters {
        leadership: LeadershipMode::Elected(election),
        ..parts(world, seed, OperatorSettings::new().with_tunable("warm-up", warm_up))
    }
}

/// COMMON-59, COMMON-60.
#[tokio::test(start_paused = true)]
async fn the_lease_is_handed_to_a_warm_standby_of_a_new_version_between_two_writes() {
    let world = World::default();
    let old = start_loops(versioned(&world, 1, "1", 0));
    pass(30).await;
    // The leader is asked for the Lease once the caches of the new version are full, after 40 seconds.
    let new = start_loops(versioned(&world, 2, "2", 40));
    let asked = old.wait_for_hand_over_request();
    let start = new.gate().clone();
    let early = tokio::time::timeout(Duration::from_secs(39), asked).await;
    assert!(early.is_err() && !start.is_open(), "the caches of the new version are not full");
    tokio::time::timeout(Duration::from_secs(8), old.wait_for_hand_over_request()).await.unwrap();
    let (before, clock) = (world.posts(), Clock::system());
    let since = clock.monotonic_now();
    assert_eq!(old.shutdown(Some(Duration::from_secs(10))).await, ShutdownResult::Clean);
    let lease = world.lease.lock().clone().unwrap();
    let reserved = lease["metadata"]["annotations"][leader::probation::RESERVATION_ANNOTATION].to_string();
    assert!(reserved.contains("c2") && world.holder().is_empty(), "{lease}");
    assert!(
        clock.monotonic_now() - since < Duration::from_millis(1300),
        "longer than one pause of the loop and its requests"
    );
    assert!(world.posts() <= before + 1, "no new write has begun");
    // This API server refuses watches, so the standby polls the Lease.
    pass(5).await;
    assert_eq!(world.holder(), "c2");
    let status = new.election_status().unwrap().clone();
    assert!(new.gate().is_open() && status.check_ready().unwrap_err().starts_with("on probation: leads for "));
    pass(62).await;
    assert_eq!(status.check_ready(), Ok(()), "the probation has ended after a minute");
    let events = world.written.lock().iter().filter(|(_, call)| call.ends_with("/events")).count();
    assert!(events >= 4, "two leaders, the start and the end of a probation: {events}");
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_does_not_fill_its_caches_asks_at_once() {
    let world = World::default();
    let old = start_loops(versioned(&world, 1, "1", 0));
    pass(30).await;
    let _new = start_loops(StartParameters { is_standby_warm: false, ..versioned(&world, 2, "2", 40) });
    // A renewal at the same time refuses the first request.
    tokio::time::timeout(Duration::from_secs(8), old.wait_for_hand_over_request()).await.unwrap();
}

/// COMMON-58.
#[tokio::test(start_paused = true)]
async fn the_lease_is_kept_until_all_work_is_finished_and_then_released() {
    let world = World::default();
    let settings = OperatorSettings::new()
        .with_tunable("finish", crate::settings::TunableValue::Duration(Duration::from_secs(20)));
    let first = start_loops(parts(&world, 1, settings));
    pass(5).await;
    let gate = first.gate().clone();
    let stopping = tokio::spawn(first.shutdown(None));
    pass(19).await;
    assert!(gate.is_open() && world.holder() == "c1");
    assert_eq!(stopping.await.unwrap(), ShutdownResult::Clean);
    assert!(!gate.is_open());
    assert_eq!(world.holder(), "");
}

/// COMMON-58.
#[tokio::test(start_paused = true)]
async fn a_retry_against_a_busy_server_does_not_delay_the_release_of_the_lease() {
    let world = World::default();
    let first = start_loops(parts(&world, 1, OperatorSettings::new()));
    pass(5).await;
    *world.busy.lock() = Some(3600);
    pass(5).await;
    let (gate, stopping) = (first.gate().clone(), tokio::spawn(first.shutdown(Some(Duration::from_secs(10)))));
    pass(2).await;
    assert!(stopping.is_finished() && !gate.is_open(), "the shutdown still waits");
    assert_eq!((stopping.await.unwrap(), world.holder().as_str()), (ShutdownResult::Clean, ""));
}

/// COMMON-58.
#[tokio::test(start_paused = true)]
async fn work_that_does_not_finish_in_time_is_dropped_and_the_lease_expires() {
    let world = World::default();
    let settings =
        OperatorSettings::new().with_tunable("finish", crate::settings::TunableValue::Duration(Duration::from_mins(1)));
    let first = start_loops(parts(&world, 1, settings));
    pass(5).await;
    let gate = first.gate().clone();
    assert_eq!(first.shutdown(Some(Duration::from_secs(10))).await, ShutdownResult::TimedOut);
    assert!(!gate.is_open());
    let writes = world.posts();
    pass(30).await;
    assert_eq!(world.posts(), writes);
    assert_eq!(world.holder(), "c1");
}

#[tokio::test(start_paused = true)]
async fn a_kill_leaves_the_lease_and_writes_nothing_more() {
    let world = World::default();
    let first = start_loops(parts(&world, 1, OperatorSettings::new()));
    pass(5).await;
    first.kill();
    let writes = world.posts();
    pass(60).await;
    assert_eq!((world.posts(), world.holder().as_str()), (writes, "c1"));
}

/// COMMON-53.
#[tokio::test(start_paused = true)]
async fn a_cold_standby_starts_nothing_before_it_leads() {
    let world = World::default();
    let first = start_loops(parts(&world, 1, OperatorSettings::new()));
    pass(5).await;
    let second = start_loops(StartParameters { is_standby_warm: false, ..parts(&world, 2, OperatorSettings::new()) });
    pass(10).await;
    assert!(second.started_loops().is_empty());
    first.kill();
    pass(30).await;
    assert_eq!(second.started_loops().len(), 1);
    assert_eq!(world.holder(), "c2");
}

/// COMMON-49.
#[tokio::test(start_paused = true)]
async fn the_loss_of_the_lease_is_noticed_and_stops_all_writes() {
    let world = World::default();
    let mut first = start_loops(parts(&world, 1, OperatorSettings::new()));
    pass(5).await;
    {
        let mut lease = world.lease.lock();
        let lease = lease.as_mut().unwrap();
        lease["spec"]["holderIdentity"] = json!("thief");
        lease["metadata"]["resourceVersion"] = json!("9999");
    }
    tokio::time::timeout(Duration::from_secs(3), first.wait_for_lease_loss()).await.unwrap();
    let writes = world.posts();
    pass(10).await;
    assert_eq!(world.posts(), writes);
}

/// COMMON-72.
#[tokio::test(start_paused = true)]
async fn shadow_mode_writes_nothing() {
    let world = World::default();
    let shadow = start_loops(parts(&world, 1, OperatorSettings::new().with_shadow_mode(true)));
    pass(60).await;
    assert_eq!(shadow.started_loops().len(), 1);
    assert!(world.written.lock().is_empty() && world.lease.lock().is_none());
    assert_eq!(
        shadow.shutdown(Some(Duration::from_secs(1))).await,
        ShutdownResult::TimedOut,
        "this loop waits for the gate"
    );
}

#[tokio::test(start_paused = true)]
async fn without_election_the_loops_run_at_once() {
    let world = World::default();
    let metrics = Metrics::new();
    let alone = StartParameters {
        leadership: LeadershipMode::Always,
        metrics: metrics.clone(),
        metrics_host_label: "h:1".to_owned(),
        ..parts(&world, 1, OperatorSettings::new())
    };
    let alone = start_loops(alone);
    pass(3).await;
    assert!(world.posts() >= 3 && world.lease.lock().is_none());
    assert!(
        metrics.render_prometheus().contains("rest_client_requests_total{code=\"201\",host=\"h:1\",method=\"POST\"}")
    );
    assert_eq!(alone.shutdown(Some(Duration::from_secs(5))).await, ShutdownResult::Clean);
}

/// COMMON-93.
#[tokio::test(start_paused = true)]
async fn a_loop_keeps_to_its_rate_limit() {
    let world = World::default();
    let alone = StartParameters {
        leadership: LeadershipMode::Always,
        qps_and_burst_per_loop: Some((0.1, 2)),
        ..parts(&world, 1, OperatorSettings::new())
    };
    let _alone = start_loops(alone);
    pass(31).await;
    assert_eq!(world.posts(), 2 + 3);
}
