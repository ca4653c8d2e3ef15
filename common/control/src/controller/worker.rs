//! The workers of a loop. Each takes keys from the queue and runs one sync per key.

use std::{
    collections::{BTreeMap, VecDeque},
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures::FutureExt as _;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Controller, Explanation, NoSnapshot, SyncPlan as _, differences::ShadowDifferences};
use crate::{
    clock::Instant,
    consistency::{LedgerOwner, STALE_CACHE_RECHECK_INTERVAL},
    events::InvolvedObject,
    informer::AnyInformer,
    io::{self, Io, RequestAccount, Requeue, RetryPolicy, SyncExecutor, SyncForecast, SyncSubject},
    map::HashSet,
    meta::Uid,
    metrics::{Counter, Counters, Stability},
    pace::WorkGuard,
    panics,
    queue::{Queue, QueueKey},
    runtime::{LoopContext, RunningLoop},
    succession::LeadershipStart,
};

/// The most plans that are remembered for diagnostics.
const MAX_RECENT_PLANS: usize = 128;
/// How long the syncs of a key must fail until metrics count the key as failing.
const MIN_FAILING_TIME: Duration = Duration::from_mins(10);
/// How long a new leader waits for the caches of [`Controller::optional_informers`].
const OPTIONAL_CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);
/// The most keys that diagnostics list in each category.
const MAX_LISTED_KEYS: usize = 100;

/// A started control loop: a controller, its work queue, and its workers.
pub struct Loop<C: Controller> {
    shared: Arc<LoopState<C>>,
    workers: tokio::sync::Mutex<JoinSet<()>>,
}

struct LoopState<C: Controller> {
    name: &'static str,
    controller: Arc<C>,
    queue: Queue<C::Key>,
    context: LoopContext,
    failures: Mutex<BTreeMap<C::Key, KeyFailure>>,
    recent: Mutex<VecDeque<RecentPlan>>,
    panics: Counter,
    errors: Counters,
    stale_skips: Option<Counters>,
    executor: SyncExecutor,
    prepared_once: tokio::sync::OnceCell<()>,
    /// Keys that wait until a cache shows a write of this process. Each guard keeps the idle thread awake while its key waits.
    awaiting: Mutex<BTreeMap<C::Key, WorkGuard>>,
    differences: ShadowDifferences<C::Key>,
}

/// The failures of a key since its last success.
struct KeyFailure {
    latest_error: String,
    latest_at: Timestamp,
    failing_since: Instant,
}

/// A plan and its requests, remembered for `/debug/explain`.
struct RecentPlan {
    at: Timestamp,
    key: String,
    explanation: Explanation,
    account: Option<RequestAccount>,
}

impl RecentPlan {
    fn to_value(&self) -> Value {
        let Explanation { situation, waiting, actions } = &self.explanation;
        let actions = self.account.as_ref().map_or_else(|| actions.clone(), RequestAccount::describe_writes);
        json!({"at": self.at.to_string(), "key": self.key, "situation": situation, "actions": actions, "waiting": waiting})
    }
}

impl<C: Controller> Loop<C> {
    /// Starts `workers` workers; if `workers` is 0, starts one. A worker waits for gate and caches before its first sync.
    pub fn start(
        name: &'static str,
        context: LoopContext,
        controller: Arc<C>,
        queue: Queue<C::Key>,
        workers: usize,
    ) -> Arc<Self> {
        let panics = context
            .metrics
            .counter("nonet_sync_panics_total", Stability::Alpha, "Syncs that ended in a panic, by loop", &["name"])
            .with_label_values(&[name]);
        let errors = context.metrics.counter(
            "nonet_sync_errors_total",
            Stability::Alpha,
            "Syncs that failed, by loop and class of error",
            &["name", "error"],
        );
        let stale_skips = C::STALE_SYNC_SKIPS.map(|name| {
            let help =
                "Syncs postponed because a cache did not show this process's own writes yet, by the resource of the cache";
            context.metrics.counter(name, Stability::Alpha, help, &["group", "resource"])
        });
        let LoopContext { api, recorder, sync_callbacks, .. } = context.clone();
        let loop_queue = queue.clone();
        let executor = SyncExecutor {
            api,
            recorder,
            ledger: context.parts.ledger(),
            sync_callbacks,
            is_shutting_down: Arc::new(move || loop_queue.is_closed()),
        };
        let shared = Arc::new(LoopState {
            name,
            controller,
            queue,
            context,
            failures: Mutex::default(),
            recent: Mutex::default(),
            panics,
            errors,
            stale_skips,
            executor,
            prepared_once: tokio::sync::OnceCell::new(),
            awaiting: Mutex::default(),
            differences: ShadowDifferences::default(),
        });
        shared.register_failing_key_gauge();
        if shared.context.settings.is_shadow() {
            shared.register_difference_gauge();
        }
        let mut set = JoinSet::new();
        // Without a worker the loop would do nothing, and no error would show it.
        for _ in 0..workers.max(1) {
            set.spawn(Arc::clone(&shared).run_worker());
        }
        Arc::new(Self { shared, workers: tokio::sync::Mutex::new(set) })
    }

    /// Returns the controller, which owns the caches and the memory of this loop.
    pub fn controller(&self) -> &Arc<C> {
        &self.shared.controller
    }

    /// Returns the work queue, from which the workers take their keys.
    pub fn queue(&self) -> &Queue<C::Key> {
        &self.shared.queue
    }
}

impl<C: Controller> LoopState<C> {
    async fn run_worker(self: Arc<Self>) {
        let shadow = self.context.settings.is_shadow();
        self.prepared_once.get_or_init(|| self.wait_until_ready(shadow)).await;
        while let Some(key) = self.queue.next_key().await {
            let _work = self.context.api.pace().begin_work();
            self.awaiting.lock().remove(&key);
            let mut due = None;
            let outcome = AssertUnwindSafe(panics::mark_panics_caught(self.sync_key(&key, shadow, &mut due)))
                .catch_unwind()
                .await;
            if outcome.is_err() {
                self.panics.inc();
                self.record_failure(&key, "the sync panicked");
                tracing::error!(logger = self.name, key = %key, "Observed a panic in a sync, backing off");
                self.requeue_with_backoff(&key, due);
            }
            self.queue.mark_processed(&key);
        }
    }

    /// Waits until this process leads and the caches show all writes of earlier leaders. A shadow waits only for filled caches.
    async fn wait_until_ready(&self, shadow: bool) {
        let succession = if shadow { None } else { Some(self.context.write_gate.wait_until_leading().await) };
        let _work = self.context.api.pace().begin_work();
        let dropped_keys = self.queue.release_held_keys();
        let informers = self.context.parts.informers();
        for informer in &informers {
            let informer: &dyn AnyInformer = (**informer).as_ref();
            informer.wait_until_synced().await;
            if dropped_keys {
                informer.replay();
            }
        }
        if let Some(succession) = &succession {
            let informers = informers.iter().map(|informer| (**informer).as_ref());
            futures::future::join_all(informers.map(|informer| informer.catch_up_with_predecessor(succession))).await;
            let optional_informers = self.controller.optional_informers();
            let informers = optional_informers.iter().map(|informer| (**informer).as_ref());
            // The predecessor read what others have written, and the versions of that are unknown.
            let start = LeadershipStart { versions_written_by_predecessor: None, ..succession.clone() };
            let all = futures::future::join_all(informers.map(|informer| informer.catch_up_with_predecessor(&start)));
            let _ = tokio::time::timeout(OPTIONAL_CATCH_UP_TIMEOUT, all).await;
        }
        tracing::info!(logger = self.name, "Caches are synced");
    }

    /// Runs one sync. If the sync makes a plan, sets `due` to the time at which the decision may change without an event.
    async fn sync_key(&self, key: &C::Key, shadow: bool, due: &mut Option<Instant>) {
        let (now, began) = (self.context.clock.now(), self.context.clock.monotonic_now());
        let decision_time = self.context.write_gate.decision_time();
        let result = match self.controller.observe(key, now) {
            Err(NoSnapshot::Gone) => {
                self.differences.remove(key);
                Ok(Requeue::AfterPlannedDelay)
            }
            Err(NoSnapshot::Waiting { why, max_wait, stale_resource }) => {
                tracing::debug!(logger = self.name, key = %key, why, "Waiting");
                if let (Some(resource), Some(skips)) = (stale_resource, &self.stale_skips) {
                    skips.with_label_values(&[resource.group(), resource.plural()]).inc();
                }
                if max_wait <= STALE_CACHE_RECHECK_INTERVAL {
                    self.awaiting.lock().insert(key.clone(), self.context.api.pace().begin_work());
                }
                self.queue.add_recheck_after(key.clone(), max_wait);
                return;
            }
            Ok(snapshot) => {
                let decision = Decision::<C>::with_forecast(&snapshot, now);
                let delay = decision.requeue_after().filter(|delay| !delay.is_zero());
                *due = delay.and_then(|delay| began.checked_add(delay));
                if decision.has_actions() {
                    self.remember_plan(now, key, &decision);
                }
                self.controller.record_plan(&snapshot, &decision.plan);
                if shadow {
                    self.differences.record_difference(key, decision.has_actions(), began);
                    decision.request_account().into_iter().for_each(RequestAccount::truncate_entries);
                    Ok(Requeue::AfterPlannedDelay)
                } else {
                    let Decision { plan, forecast } = decision;
                    let subject = ControllerSubject { controller: &*self.controller, snapshot: &snapshot };
                    let sync = async |io: Io<'_, C>| C::act(&snapshot, &plan, io).await;
                    let outcome = self.executor.run(&*self.controller, &subject, decision_time, forecast, sync).await;
                    self.controller.after_sync(&snapshot);
                    outcome
                }
            }
            Err(NoSnapshot::Failed(error)) => Err(error),
        };
        match result {
            Ok(requeue) => {
                self.failures.lock().remove(key);
                self.requeue_after_success(key, requeue, *due);
            }
            Err(error) => {
                self.errors.with_label_values(&[self.name, error.class().as_str()]).inc();
                match error.retry_policy {
                    RetryPolicy::Backoff => {
                        tracing::warn!(logger = self.name, key = %key, err = %error, "Sync failed, backing off");
                        self.record_failure(key, &error.to_string());
                        self.requeue_with_backoff(key, *due);
                    }
                    RetryPolicy::NextEvent => {
                        tracing::debug!(logger = self.name, key = %key, err = %error, "Sync failed, not retrying");
                        self.queue.reset_failure_count(key);
                        self.requeue_when_due(key, *due);
                    }
                    RetryPolicy::Never => {
                        tracing::debug!(logger = self.name, key = %key, err = %error, "Sync stopped");
                    }
                }
            }
        }
    }

    fn requeue_after_success(&self, key: &C::Key, requeue: Requeue, due: Option<Instant>) {
        let delay = match requeue {
            Requeue::AfterBackoff => return self.requeue_with_backoff(key, due),
            Requeue::Conflict => {
                self.queue.add_after_conflict(key.clone());
                return self.requeue_when_due(key, due);
            }
            Requeue::AfterPartialWork(delay) => {
                self.queue.add_after(key.clone(), delay);
                return self.requeue_when_due(key, due);
            }
            Requeue::After(delay) => Some(delay),
            Requeue::AfterPlannedDelay => {
                due.map(|due| due.saturating_duration_since(self.context.clock.monotonic_now()))
            }
        };
        self.queue.reset_failure_count(key);
        if let Some(delay) = delay {
            self.queue.add_after(key.clone(), delay);
        }
    }

    /// Brings the key back after its back-off, or at `due` if that is earlier.
    fn requeue_with_backoff(&self, key: &C::Key, due: Option<Instant>) {
        self.queue.add_rate_limited(key.clone());
        self.requeue_when_due(key, due);
    }

    fn requeue_when_due(&self, key: &C::Key, due: Option<Instant>) {
        if let Some(due) = due {
            self.queue.add_debounced(key.clone(), due.saturating_duration_since(self.context.clock.monotonic_now()));
        }
    }

    fn record_failure(&self, key: &C::Key, error: &str) {
        let (clock, mut failures) = (&self.context.clock, self.failures.lock());
        let failing_since = failures.get(key).map_or_else(|| clock.monotonic_now(), |failure| failure.failing_since);
        let failure = KeyFailure { latest_error: error.to_owned(), latest_at: clock.now(), failing_since };
        failures.insert(key.clone(), failure);
    }

    fn remember_plan(&self, at: Timestamp, key: &C::Key, decision: &Decision<C>) {
        let mut recent = self.recent.lock();
        if recent.len() == MAX_RECENT_PLANS {
            recent.pop_front();
        }
        let (explanation, account) = (decision.explain().with_bounded_text(), decision.request_account().cloned());
        recent.push_back(RecentPlan { at, key: key.to_string(), explanation, account });
    }

    fn explain_key(&self, key: &C::Key) -> Value {
        let now = self.context.clock.now();
        let mut out = match self.controller.observe(key, now) {
            Err(NoSnapshot::Gone) => json!({"state": "gone"}),
            Err(NoSnapshot::Waiting { why, .. }) => json!({"state": "waiting", "waiting": [why]}),
            Ok(snapshot) => {
                let decision = Decision::<C>::with_forecast(&snapshot, now);
                let mut out = json!(decision.explain());
                out["state"] = json!(if decision.has_actions() { "acting" } else { "settled" });
                out
            }
            Err(NoSnapshot::Failed(error)) => json!({"state": "failing", "waiting": [error.to_string()]}),
        };
        out["key"] = json!(key.to_string());
        let failures = self.queue.failure_count(key);
        if let Some(KeyFailure { latest_error, latest_at, .. }) = self.failures.lock().get(key) {
            out["lastError"] = json!({"error": latest_error, "at": latest_at.to_string(), "failures": failures});
        }
        out
    }

    fn register_failing_key_gauge(self: &Arc<Self>) {
        let help = "Keys whose syncs have failed for more than ten minutes, by loop";
        let gauge = self.context.metrics.gauge("nonet_sync_failing_keys", Stability::Alpha, help, &["name"]);
        let (gauge, shared) = (gauge.with_label_values(&[self.name]), Arc::downgrade(self));
        self.context.metrics.run_before_each_scrape(move || {
            if let Some(shared) = shared.upgrade() {
                let now = shared.context.clock.monotonic_now();
                let is_failing =
                    |failure: &&KeyFailure| now.saturating_duration_since(failure.failing_since) > MIN_FAILING_TIME;
                gauge.set(shared.failures.lock().values().filter(is_failing).count() as f64);
            }
        });
    }

    fn register_difference_gauge(self: &Arc<Self>) {
        let help = "Objects for which a shadow has wanted to write for more than a minute while the active controller did not, 100 at most, by loop.";
        let gauge = self.context.metrics.gauge("nonet_shadow_differences", Stability::Alpha, help, &["name"]);
        let (gauge, shared) = (gauge.with_label_values(&[self.name]), Arc::downgrade(self));
        self.context.metrics.run_before_each_scrape(move || {
            if let Some(shared) = shared.upgrade() {
                gauge.set(shared.shadow_differences().len() as f64);
            }
        });
    }

    /// Returns the keys of the objects that a shadow has wanted to write for at least a minute and still wants to write.
    fn shadow_differences(&self) -> Vec<C::Key> {
        let (clock, now) = (&self.context.clock, self.context.clock.now());
        let keys = self.differences.keys_with_difference_of_min_age(clock.monotonic_now());
        let wants_to_write = |key: &C::Key| matches!(self.controller.observe(key, now), Ok(snapshot) if Decision::<C>::with_forecast(&snapshot, now).has_actions());
        let (lasting, settled): (Vec<_>, Vec<_>) = keys.into_iter().partition(wants_to_write);
        for key in &settled {
            self.differences.remove(key);
        }
        lasting
    }
}

impl<C: Controller> RunningLoop for Loop<C> {
    fn check_ready(&self) -> Result<(), String> {
        for informer in self.shared.context.parts.informers() {
            let informer: &dyn AnyInformer = (*informer).as_ref();
            if !informer.is_synced() {
                let error = informer.informer_status().error.map_or_else(String::new, |(e, _)| format!(": {e}"));
                return Err(format!("{} waits for {}{error}", self.shared.name, informer.resource()));
            }
            if let Some(lost) = informer.stale_error() {
                return Err(format!("{}: {lost}", self.shared.name));
            }
        }
        self.shared.controller.check_ready().map_err(|why| format!("{}: {why}", self.shared.name))
    }

    fn problems_besides_readiness(&self) -> Option<String> {
        self.shared.controller.problem()
    }

    fn debug_queue(&self) -> Value {
        let mut out = json!({"name": self.shared.name, "queue": self.shared.queue.debug_state(MAX_LISTED_KEYS)});
        if let Some(ledger) = &self.shared.executor.ledger {
            out["awaitingOwnWrites"] = json!(ledger.len());
        }
        out
    }

    fn debug_cache(&self) -> Value {
        let one = |i: &dyn AnyInformer| json!({"resource": i.resource().to_string(), "objects": i.len(), "version": i.version().to_string(), "state": i.informer_status()});
        let informers =
            self.shared.context.parts.informers().into_iter().chain(self.shared.controller.optional_informers());
        json!({"name": self.shared.name, "caches": informers.map(|informer| one((*informer).as_ref())).collect::<Vec<_>>()})
    }

    fn explain(&self, key: Option<&str>) -> Value {
        if let Some(text) = key {
            let error = || json!({"error": format!("{text:?} is not a key of this loop: a key is {}", C::Key::FORM)});
            return C::Key::parse(text).map_or_else(error, |key| self.shared.explain_key(&key));
        }
        let failing: Vec<C::Key> = self.shared.failures.lock().keys().take(MAX_LISTED_KEYS).cloned().collect();
        let recent: Vec<Value> = self.shared.recent.lock().iter().rev().map(RecentPlan::to_value).collect();
        let mut out = json!({
            "name": self.shared.name,
            "failing": failing.iter().map(|key| self.shared.explain_key(key)).collect::<Vec<_>>(),
            "recent": recent,
        });
        if self.shared.context.settings.is_shadow() {
            let differences = self.shared.shadow_differences();
            out["differences"] =
                differences.iter().take(MAX_LISTED_KEYS).map(|key| self.shared.explain_key(key)).collect();
        }
        out
    }

    fn shutdown(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            self.shared.queue.close();
            let mut workers = self.workers.lock().await;
            // These workers can be aborted, because without filled caches they hold no key, and behind a closed gate no write
            // can leave this process.
            if !self.shared.prepared_once.initialized() || !self.shared.context.write_gate.is_leading() {
                workers.abort_all();
            }
            while workers.join_next().await.is_some() {}
        })
    }
}

/// A plan with the forecast of its requests.
pub struct Decision<C: Controller> {
    /// The plan as decided from the snapshot. The forecast contains the requests of this plan.
    pub plan: C::Plan,
    forecast: SyncForecast,
}

impl<C: Controller> Decision<C> {
    /// Decides, and forecasts the requests by running the sync against a simulated server that grants each of them.
    pub fn with_forecast(snapshot: &C::Snapshot, now: Timestamp) -> Self {
        let plan = C::decide(snapshot);
        let forecast = io::forecast_sync(now, async |io: Io<'_, C>| C::act(snapshot, &plan, io).await);
        Self { plan, forecast }
    }

    /// Describes the plan and its expected requests.
    pub fn explain(&self) -> Explanation {
        let mut actions = self.plan.actions();
        actions.extend(self.request_account().map(RequestAccount::describe_writes).unwrap_or_default());
        Explanation { situation: self.plan.situation(), waiting: self.plan.wait_reasons(), actions }
    }

    /// Whether the sync would send requests, or its plan is [notable](super::SyncPlan::is_notable) without requests.
    pub fn has_actions(&self) -> bool {
        self.request_account().is_some() || self.plan.is_notable()
    }

    /// Returns the plan's delay until the decision may change without an event; `None` if only an event can change it.
    pub fn requeue_after(&self) -> Option<Duration> {
        self.plan.requeue_after()
    }

    /// Returns the account, that is, the list of the expected requests; `None` if the sync sends no request.
    pub fn request_account(&self) -> Option<&RequestAccount> {
        self.forecast.request_account.as_ref()
    }
}

/// The controller and the snapshot of one sync, in the form that the executor uses.
struct ControllerSubject<'a, C: Controller> {
    controller: &'a C,
    snapshot: &'a C::Snapshot,
}

impl<C: Controller> SyncSubject for ControllerSubject<'_, C> {
    fn object(&self) -> InvolvedObject {
        C::object(self.snapshot)
    }

    fn ledger_owner(&self) -> LedgerOwner {
        C::ledger_owner(self.snapshot)
    }

    fn child_uids(&self) -> HashSet<Uid> {
        self.controller.child_uids(self.snapshot)
    }
}

#[cfg(test)]
mod tests;
