//! The loop with a scripted controller, in virtual time.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::{
    api::Api,
    clock::Clock,
    controller::SyncPlan,
    events::EventRecorder,
    gate::{WriteGateKeeper, closed_write_gate},
    io::{Request, RequestBody, Requeue, SyncError, SyncErrorClass},
    leader::LEASES,
    meta::{Meta, NamespacedName},
    metrics::Metrics,
    queue::Priority,
    settings::OperatorSettings,
};

fn trouble(retry: RetryPolicy) -> SyncError {
    SyncError::new(SyncErrorClass::Plan, "in trouble").with_retry_policy(retry)
}

/// A plan that the name in its key determines: the key `every-60` comes back each minute; the plan of `huge` has 10,000 lines.
struct ScriptedPlan(String);

impl SyncPlan for ScriptedPlan {
    fn situation(&self) -> String {
        format!("key {}", self.0)
    }
    fn actions(&self) -> Vec<String> {
        if self.is_notable() { vec!["\u{e9}".repeat(100_000); 10_000] } else { Vec::new() }
    }
    fn requeue_after(&self) -> Option<Duration> {
        match &*self.0 {
            "at-once" => Some(Duration::ZERO),
            name => name.strip_prefix("every-").and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs),
        }
    }
    fn is_notable(&self) -> bool {
        self.0 == "huge"
    }
}

struct ScriptedController {
    clock: Clock,
    /// One move for each call of `act`, in order. Calls after the last move succeed.
    script: Mutex<VecDeque<ScriptedMove>>,
    acts: Mutex<Vec<(String, u128)>>,
    started: crate::clock::Instant,
}

#[derive(Clone, Copy)]
enum ScriptedMove {
    Fail,
    GiveUp,
    Panic,
    Take(Duration),
    Again(Requeue),
}

impl Controller for ScriptedController {
    type Key = NamespacedName;
    type Snapshot = String;
    type Plan = ScriptedPlan;
    const STALE_SYNC_SKIPS: Option<&'static str> = Some("test_stale_sync_skips_total");

    fn observe(&self, key: &NamespacedName, _now: Timestamp) -> Result<String, NoSnapshot> {
        match &*key.name {
            "gone" => Err(NoSnapshot::Gone),
            "behind" => Err(NoSnapshot::Waiting {
                why: "own writes".to_owned(),
                max_wait: Duration::from_secs(300),
                stale_resource: Some(LEASES),
            }),
            name => Ok(name.to_owned()),
        }
    }

    fn decide(snapshot: &String) -> ScriptedPlan {
        ScriptedPlan(snapshot.clone())
    }

    async fn act(name: &String, plan: &ScriptedPlan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
        if plan.is_notable() {
            return Ok(Requeue::AfterPlannedDelay);
        }
        let meta = Meta { name: name.as_str().into(), ..Meta::default() };
        // This request fails. It is needed because a sync that forecasts no request does not run against the server.
        let _ = io.send(Request::patch_status(LEASES, &meta, RequestBody::default()).with_verb_text("obey")).await;
        let Some(next) = io.observe_again(|controller| Some(controller.next_move(name))) else {
            return Ok(Requeue::AfterPlannedDelay);
        };
        match next {
            Some(ScriptedMove::Fail) => Err(trouble(RetryPolicy::Backoff)),
            Some(ScriptedMove::GiveUp) => Err(trouble(RetryPolicy::NextEvent)),
            Some(ScriptedMove::Panic) => panic!("as scripted"),
            Some(ScriptedMove::Take(time)) => {
                io.pause(time).await;
                Ok(Requeue::AfterPlannedDelay)
            }
            Some(ScriptedMove::Again(requeue)) => Ok(requeue),
            None => Ok(Requeue::AfterPlannedDelay),
        }
    }

    fn object(name: &String) -> InvolvedObject {
        InvolvedObject { uid: Uid::new(name), ..InvolvedObject::default() }
    }
}

impl ScriptedController {
    /// Records a call of `act`, and returns the next move of the script.
    fn next_move(&self, name: &str) -> Option<ScriptedMove> {
        self.acts.lock().push((name.to_owned(), (self.clock.monotonic_now() - self.started).as_millis()));
        self.script.lock().pop_front()
    }
}

/// A cache that is always filled. A test can simulate a lost connection to the API server by setting `lost`.
#[derive(Default)]
struct Cache {
    lost: Mutex<Option<String>>,
    replays: AtomicUsize,
}

impl AsRef<dyn AnyInformer> for Cache {
    fn as_ref(&self) -> &(dyn AnyInformer + 'static) {
        self
    }
}

impl AnyInformer for Cache {
    fn resource(&self) -> crate::object::Resource {
        crate::leader::LEASES
    }
    fn informer_status(&self) -> crate::informer::InformerStatus {
        unreachable!("no test reads the state")
    }
    fn len(&self) -> usize {
        0
    }
    fn version(&self) -> crate::meta::ResourceVersion {
        crate::meta::ResourceVersion::UNKNOWN
    }
    fn is_synced(&self) -> bool {
        true
    }
    fn stale_error(&self) -> Option<String> {
        self.lost.lock().clone()
    }
    fn wait_until_synced(&self) -> futures::future::BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
    fn replay(&self) {
        self.replays.fetch_add(1, Ordering::Relaxed);
    }
    fn catch_up_with_predecessor<'a>(
        &'a self,
        _: &'a crate::succession::LeadershipStart,
    ) -> futures::future::BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

struct LoopWorld {
    keeper: WriteGateKeeper,
    clock: Clock,
    puppet: Arc<ScriptedController>,
    cache: Arc<Cache>,
    running: Arc<Loop<ScriptedController>>,
}

fn context(settings: OperatorSettings) -> (WriteGateKeeper, LoopContext) {
    let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 0);
    let (keeper, gate) = closed_write_gate(clock.clone());
    let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))
    });
    let context = LoopContext {
        api: Api::new(kube::Client::new(nobody, "default"), clock.clone(), gate.clone(), "test"),
        clock: clock.clone(),
        write_gate: gate,
        settings: Arc::new(settings),
        metrics: Metrics::new(),
        recorder: EventRecorder::discarding_events("test", clock.clone()),
        write_sampler: None,
        sync_callbacks: None,
        shared_values: crate::runtime::SharedValues::default(),
        parts: crate::runtime::LoopParts::default(),
    };
    (keeper, context)
}

fn world(settings: OperatorSettings, script: &[ScriptedMove]) -> LoopWorld {
    let (keeper, context) = context(settings);
    let clock = context.clock.clone();
    let puppet = Arc::new(ScriptedController {
        clock: clock.clone(),
        script: Mutex::new(script.iter().copied().collect()),
        acts: Mutex::default(),
        started: clock.monotonic_now(),
    });
    let cache = Arc::new(Cache::default());
    context.parts.add_informer(Arc::<Cache>::clone(&cache));
    let queue = context.new_queue("test");
    let running = Loop::start("test", context, Arc::clone(&puppet), queue, 2);
    LoopWorld { keeper, clock, puppet, cache, running }
}

impl LoopWorld {
    fn add(&self, name: &str) {
        self.running.queue().add(NamespacedName::new("ns", name), Priority::Normal);
    }
    async fn after(&self, seconds: u64) -> Vec<u128> {
        self.clock.sleep(Duration::from_secs(seconds)).await;
        self.puppet.acts.lock().iter().map(|(_, at)| *at).collect()
    }
}

/// COMMON-19, COMMON-53.
#[tokio::test(start_paused = true)]
async fn no_worker_acts_before_the_gate_is_open() {
    let world = world(OperatorSettings::new(), &[]);
    world.add("a");
    assert_eq!(world.after(60).await, [0u128; 0]);
    world.keeper.open_without_deadline();
    assert_eq!(world.after(1).await, [60_000]);
}

/// COMMON-33.
#[tokio::test(start_paused = true)]
async fn a_standby_that_dropped_keys_replays_its_caches_when_it_leads() {
    for (keys, replays) in [(1, 0), (60_000, 1)] {
        let world = world(OperatorSettings::new(), &[]);
        for key in 0..keys {
            world.add(&key.to_string());
        }
        world.after(60).await;
        assert_eq!(world.cache.replays.load(Ordering::Relaxed), 0);
        world.keeper.open_without_deadline();
        world.after(1).await;
        assert_eq!(world.cache.replays.load(Ordering::Relaxed), replays, "{keys}");
    }
}

/// COMMON-30, COMMON-34.
#[tokio::test(start_paused = true)]
async fn a_failing_key_backs_off_and_shows_its_error_until_it_succeeds() {
    let world = world(OperatorSettings::new(), &[ScriptedMove::Fail, ScriptedMove::Fail, ScriptedMove::Fail]);
    world.keeper.open_without_deadline();
    world.add("a");
    world.clock.sleep(Duration::from_millis(16)).await;
    let failing = world.running.explain(Some("ns/a"));
    assert_eq!(failing["lastError"]["error"], "in trouble");
    assert_eq!(failing["lastError"]["failures"], 3);
    let acts = world.after(60).await;
    assert_eq!(acts.len(), 4);
    assert!(acts[1] >= 5 && acts[2] - acts[1] >= 10 && acts[3] - acts[2] >= 20, "{acts:?}");
    assert!(world.running.explain(Some("ns/a")).get("lastError").is_none());
    assert_eq!(world.running.queue().failure_count(&NamespacedName::new("ns", "a")), 0);
}

/// COMMON-34.
#[tokio::test(start_paused = true)]
async fn a_key_that_has_failed_for_ten_minutes_is_counted_until_it_succeeds() {
    let world = world(OperatorSettings::new(), &[ScriptedMove::Fail; 18]);
    world.keeper.open_without_deadline();
    world.add("a");
    let counts = |count: u32| {
        let text = world.running.shared.context.metrics.render_prometheus();
        assert!(text.contains(&format!("nonet_sync_failing_keys{{name=\"test\"}} {count}\n")), "{text}");
    };
    world.after(9 * 60).await;
    counts(0);
    world.after(2 * 60).await;
    counts(1);
    // The last failure is after 655 s, and the next sync after as many seconds again.
    world.after(20 * 60).await;
    counts(0);
}

/// COMMON-32.
#[tokio::test(start_paused = true)]
async fn a_panic_in_one_sync_backs_that_key_off_and_nothing_else() {
    let world = world(OperatorSettings::new(), &[ScriptedMove::Panic]);
    world.keeper.open_without_deadline();
    world.add("a");
    world.add("b");
    world.after(1).await;
    let names: Vec<String> = world.puppet.acts.lock().iter().map(|(n, _)| n.clone()).collect();
    assert_eq!(names, ["a", "b", "a"]);
    let text = world.running.shared.context.metrics.render_prometheus();
    assert!(text.contains("nonet_sync_panics_total{name=\"test\"} 1"), "{text}");
}

/// COMMON-39, COMMON-69.
#[tokio::test(start_paused = true)]
async fn a_forgotten_missing_or_waiting_key_is_not_synced_in_a_loop() {
    let world = world(OperatorSettings::new(), &[ScriptedMove::GiveUp]);
    world.keeper.open_without_deadline();
    for name in ["a", "gone", "behind"] {
        world.add(name);
    }
    assert_eq!(world.after(100).await, [0]);
    assert_eq!(world.running.explain(Some("ns/behind"))["waiting"][0], "own writes");
    assert_eq!(world.running.explain(Some("ns/gone"))["state"], "gone");
    let text = world.running.shared.context.metrics.render_prometheus();
    let counted = "test_stale_sync_skips_total{group=\"coordination.k8s.io\",resource=\"leases\"} 1\n";
    assert!(text.contains(counted), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_sync_chooses_when_its_key_comes_back() {
    let script =
        [ScriptedMove::Again(Requeue::After(Duration::from_secs(481))), ScriptedMove::Again(Requeue::AfterBackoff)];
    let world = world(OperatorSettings::new(), &script);
    world.keeper.open_without_deadline();
    world.add("a");
    let acts = world.after(500).await;
    assert_eq!((acts[0], acts[1]), (0, 481_000));
    assert!(acts[2] >= 481_005 && acts[2] < 481_010, "{acts:?}");
}

/// COMMON-31.
#[tokio::test(start_paused = true)]
async fn a_conflict_is_retried_at_once_and_further_ones_after_their_back_off() {
    let script: Vec<ScriptedMove> = (0..30).map(|_| ScriptedMove::Again(Requeue::Conflict)).collect();
    let world = world(OperatorSettings::new(), &script);
    world.keeper.open_without_deadline();
    world.add("a");
    let acts = world.after(3600).await;
    assert_eq!(acts[..2], [0, 0]);
    // The first conflict counts as a failure. The first back-off is therefore 10 ms and not 5 ms; the last is 1000 s.
    assert!((10..15).contains(&acts[2]) && (30..40).contains(&acts[3]), "{acts:?}");
    assert!((20..=22).contains(&acts.len()), "{acts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_waits_for_a_failed_write_does_not_end_the_back_off() {
    let unfinished = ScriptedMove::Again(Requeue::AfterPartialWork(Duration::from_secs(60)));
    let world = world(OperatorSettings::new(), &[ScriptedMove::Fail, unfinished, ScriptedMove::Fail]);
    world.keeper.open_without_deadline();
    world.add("a");
    let acts = world.after(100).await;
    // The second call follows 5 ms after the failure, the third a minute after that, the fourth 10 ms after another failure.
    assert_eq!(acts.len(), 4, "{acts:?}");
    assert!((60_000..60_015).contains(&acts[2]) && (10..15).contains(&(acts[3] - acts[2])), "{acts:?}");
}

/// COMMON-58.
#[tokio::test(start_paused = true)]
async fn shutting_down_waits_for_syncs_in_progress_and_takes_no_more_keys() {
    let world = world(
        OperatorSettings::new(),
        &[ScriptedMove::Take(Duration::from_secs(7)), ScriptedMove::Take(Duration::from_secs(3))],
    );
    world.keeper.open_without_deadline();
    for name in ["a", "b", "c", "d"] {
        world.add(name);
    }
    world.clock.sleep(Duration::from_secs(1)).await;
    let start = world.clock.monotonic_now();
    world.running.shutdown().await;
    assert_eq!(world.clock.monotonic_now() - start, Duration::from_secs(6));
    assert_eq!(world.puppet.acts.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_standby_shuts_down_at_once() {
    let world = world(OperatorSettings::new(), &[]);
    world.add("a");
    world.clock.sleep(Duration::from_secs(1)).await;
    world.running.shutdown().await;
    assert!(world.puppet.acts.lock().is_empty());
}

/// COMMON-72.
#[tokio::test(start_paused = true)]
async fn a_shadow_decides_without_the_gate_and_never_acts() {
    let world = world(OperatorSettings::new().with_shadow_mode(true), &[]);
    world.add("a");
    assert_eq!(world.after(5).await, [0u128; 0]);
    let all = world.running.explain(None);
    assert_eq!(all["recent"][0]["key"], "ns/a");
    assert_eq!(all["recent"][0]["actions"][0], "obey");
}

/// COMMON-73.
#[tokio::test(start_paused = true)]
async fn a_write_that_a_shadow_wants_for_more_than_a_minute_is_a_difference() {
    let world = world(OperatorSettings::new().with_shadow_mode(true), &[]);
    world.add("a");
    world.after(5).await;
    let differences = || world.running.explain(None)["differences"].clone();
    assert_eq!(differences(), serde_json::json!([]));
    world.after(60).await;
    assert_eq!(differences()[0]["key"], "ns/a");
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_due_in_shadow_mode_too() {
    let world = world(OperatorSettings::new().with_shadow_mode(true), &[]);
    for name in ["every-60", "at-once", "once"] {
        world.add(name);
    }
    assert_eq!(world.after(200).await, [0u128; 0]);
    let all = world.running.explain(None);
    let decided = |key: &str| -> Vec<&str> {
        let plans = all["recent"].as_array().unwrap().iter().rev().filter(|plan| plan["key"] == key);
        plans.map(|plan| plan["at"].as_str().unwrap()).collect()
    };
    assert_eq!(
        decided("ns/every-60"),
        ["1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z", "1970-01-01T00:02:00Z", "1970-01-01T00:03:00Z"]
    );
    assert_eq!((decided("ns/once").len(), decided("ns/at-once").len()), (1, 1), "no sync runs in a loop");
}

/// COMMON-92.
#[tokio::test(start_paused = true)]
async fn a_plan_is_due_after_any_outcome_of_the_sync_before() {
    for trouble in [
        ScriptedMove::Fail,
        ScriptedMove::GiveUp,
        ScriptedMove::Panic,
        ScriptedMove::Again(Requeue::AfterBackoff),
        ScriptedMove::Again(Requeue::AfterPlannedDelay),
    ] {
        let world = world(OperatorSettings::new(), &[trouble; 100]);
        world.keeper.open_without_deadline();
        world.add("every-60");
        let acts = world.after(1800).await;
        let longest = acts.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest <= Some(60_000) && acts.last() >= Some(&1_740_000), "{acts:?}");
        assert!(acts.len() < 60, "no sync runs in a loop: {acts:?}");
    }
}

/// COMMON-92.
#[tokio::test(start_paused = true)]
async fn a_back_off_that_ends_before_the_plan_is_due_comes_first() {
    let world = world(OperatorSettings::new(), &[ScriptedMove::Fail]);
    world.keeper.open_without_deadline();
    world.add("every-60");
    let acts = world.after(100).await;
    assert_eq!(acts.len(), 3, "{acts:?}");
    assert!(acts[1] < 10 && (60_000..60_010).contains(&acts[2]), "{acts:?}");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_key_is_reported() {
    let world = world(OperatorSettings::new(), &[]);
    let expected = "\"ns/\" is not a key of this loop: a key is the NAMESPACE/NAME of an object";
    assert_eq!(world.running.explain(Some("ns/"))["error"], expected);
}

/// COMMON-65.
#[tokio::test(start_paused = true)]
async fn readiness_names_a_cache_that_lost_touch_until_it_recovers() {
    let world = world(OperatorSettings::new(), &[]);
    assert_eq!(world.running.check_ready(), Ok(()));
    *world.cache.lost.lock() = Some("no list or watch of leases for 91s: refused".to_owned());
    assert_eq!(world.running.check_ready(), Err("test: no list or watch of leases for 91s: refused".to_owned()));
    *world.cache.lost.lock() = None;
    assert_eq!(world.running.check_ready(), Ok(()));
}

/// COMMON-2, COMMON-13.
#[tokio::test(start_paused = true)]
async fn informers_follow_the_settings_of_the_operator() {
    let period = Duration::from_hours(1);
    let usual = context(OperatorSettings::new()).1.long_lived_cache_config();
    assert!(usual.is_streaming_list_enabled && usual.metrics.is_some() && usual.resync_interval.is_some());
    let settings = OperatorSettings::new()
        .with_feature_gate("WatchListClient", false)
        .with_tunable("min-resync-period", crate::settings::TunableValue::Duration(period));
    let context = context(settings).1;
    let caches = context.long_lived_cache_config();
    assert!(!caches.is_streaming_list_enabled && (period..period * 2).contains(&caches.resync_interval.unwrap()));
    let brief = context.short_lived_cache_config();
    assert!(!brief.is_streaming_list_enabled && brief.metrics.is_none() && brief.resync_interval.is_none());
}

/// COMMON-69.
#[tokio::test(start_paused = true)]
async fn long_plans_are_remembered_in_part() {
    let world = world(OperatorSettings::new().with_shadow_mode(true), &[]);
    world.add("huge");
    world.after(1).await;
    let actions = world.running.explain(None)["recent"][0]["actions"].clone();
    let actions: Vec<&str> = actions.as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!((actions.len(), actions[20]), (21, "... and 9980 more"));
    assert_eq!(actions[0], format!("{}...", "\u{e9}".repeat(250)));
}
