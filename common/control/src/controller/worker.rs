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

use super::{Controller, Explain as _, Explanation, Observed, RECHECK, differences::Differences};
use crate::{
    clock::Instant,
    events::ObjectRef,
    informer::AnyInformer,
    io::{self, Account, Executor, Forecast, Io, Note, Requeue, Retry, Subject},
    map::HashSet,
    meta::Uid,
    metrics::{Counter, Counters, Stability},
    pace::Work,
    panics,
    queue::{Queue, QueueKey},
    runtime::{Context, Running},
};

/// The most plans that are remembered for diagnostics.
const RECENT: usize = 128;
/// The most keys that diagnostics list in each category.
const LISTED: usize = 100;

/// A started control loop: a controller, its work queue, and its workers.
pub struct Loop<C: Controller> {
    shared: Arc<Shared<C>>,
    workers: tokio::sync::Mutex<JoinSet<()>>,
}

struct Shared<C: Controller> {
    name: &'static str,
    controller: Arc<C>,
    queue: Queue<C::Key>,
    context: Context,
    failures: Mutex<BTreeMap<C::Key, (String, Timestamp)>>,
    recent: Mutex<VecDeque<Recent>>,
    panics: Counter,
    errors: Counters,
    stale_skips: Option<Counters>,
    executor: Executor,
    prepared: tokio::sync::OnceCell<()>,
    /// Keys that wait until a cache shows a write of this process. Each guard keeps the idle thread from sleeping meanwhile.
    awaiting: Mutex<BTreeMap<C::Key, Work>>,
    differences: Differences<C::Key>,
}

/// A plan and its requests, remembered for `/debug/explain`.
struct Recent {
    at: Timestamp,
    key: String,
    explanation: Explanation,
    account: Option<Account>,
}

impl Recent {
    fn to_value(&self) -> Value {
        let Explanation { situation, waiting, actions } = &self.explanation;
        let actions = self.account.as_ref().map_or_else(|| actions.clone(), Account::lines);
        json!({"at": self.at.to_string(), "key": self.key, "situation": situation, "actions": actions, "waiting": waiting})
    }
}

impl<C: Controller> Loop<C> {
    /// Starts `workers` workers, at least one. Each worker waits for the gate and for the caches before its first sync.
    pub fn start(
        name: &'static str,
        context: Context,
        controller: Arc<C>,
        queue: Queue<C::Key>,
        workers: usize,
    ) -> Arc<Self> {
        let panics = context
            .metrics
            .counter("nonet_sync_panics_total", Stability::Alpha, "Syncs that ended in a panic, by loop", &["name"])
            .with(&[name]);
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
        let (closed, ledger) = (queue.clone(), controller.ledger().cloned());
        let Context { api, recorder, accounts, .. } = context.clone();
        let executor = Executor { api, recorder, ledger, accounts, is_ending: Arc::new(move || closed.is_closed()) };
        let shared = Arc::new(Shared {
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
            prepared: tokio::sync::OnceCell::new(),
            awaiting: Mutex::default(),
            differences: Differences::default(),
        });
        if shared.context.settings.shadow() {
            shared.count_differences();
        }
        let mut set = JoinSet::new();
        // Without a worker the loop would do nothing, and no error would show it.
        for _ in 0..workers.max(1) {
            set.spawn(Arc::clone(&shared).work());
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

impl<C: Controller> Shared<C> {
    async fn work(self: Arc<Self>) {
        let shadow = self.context.settings.shadow();
        self.prepared.get_or_init(|| self.prepare(shadow)).await;
        while let Some(key) = self.queue.next().await {
            let _work = self.context.api.pace().work();
            self.awaiting.lock().remove(&key);
            let mut due = None;
            let outcome = AssertUnwindSafe(panics::guard(self.sync(&key, shadow, &mut due))).catch_unwind().await;
            if outcome.is_err() {
                self.panics.inc();
                self.failed(&key, "the sync panicked");
                tracing::error!(logger = self.name, key = %key, "Observed a panic in a sync, backing off");
                self.retry(&key, due);
            }
            self.queue.done(&key);
        }
    }

    /// Waits until this process leads and the caches show all writes of earlier leaders. A shadow waits only for filled caches.
    async fn prepare(&self, shadow: bool) {
        let succession = if shadow { None } else { Some(self.context.gate.opened().await) };
        let _work = self.context.api.pace().work();
        let dropped_keys = self.queue.open();
        for informer in self.controller.informers() {
            informer.synced().await;
            if dropped_keys {
                informer.replay();
            }
        }
        if let Some(succession) = &succession {
            futures::future::join_all(self.controller.informers().into_iter().map(|i| i.catch_up(succession))).await;
        }
        tracing::info!(logger = self.name, "Caches are synced");
    }

    /// Runs one sync. If the sync makes a plan, sets `due` to the time at which the decision may change without an event.
    async fn sync(&self, key: &C::Key, shadow: bool, due: &mut Option<Instant>) {
        let (now, began) = (self.context.clock.now(), self.context.clock.instant());
        let result = match self.controller.observe(key, now) {
            Ok(Observed::Gone) => {
                self.differences.remove(key);
                Ok(Requeue::AsPlanned)
            }
            Ok(Observed::Waiting { why, at_most, stale }) => {
                tracing::debug!(logger = self.name, key = %key, why, "Waiting");
                self.controller.waiting(key);
                if let (Some(resource), Some(skips)) = (stale, &self.stale_skips) {
                    skips.with(&[resource.group, resource.plural]).inc();
                }
                if at_most <= RECHECK {
                    self.awaiting.lock().insert(key.clone(), self.context.api.pace().work());
                }
                self.queue.recheck_after(key.clone(), at_most);
                return;
            }
            Ok(Observed::Ready(snapshot)) => {
                let decision = Decision::<C>::with_forecast(&snapshot, now);
                let delay = decision.requeue_after().filter(|delay| !delay.is_zero());
                *due = delay.and_then(|delay| began.checked_add(delay));
                if decision.acts() {
                    self.remember(now, key, &decision);
                }
                self.controller.record(&snapshot, &decision.plan);
                if shadow {
                    self.differences.note(key, decision.acts(), began);
                    decision.account().into_iter().for_each(Account::shorten);
                    Ok(Requeue::AsPlanned)
                } else {
                    let Decision { plan, forecast } = decision;
                    let subject = SyncOf { controller: &*self.controller, snapshot: &snapshot };
                    let sync = async |io: Io<'_, C::Note>| C::act(&snapshot, &plan, io).await;
                    let outcome = self.executor.run(&subject, forecast, sync).await;
                    self.controller.after_sync(&snapshot);
                    outcome
                }
            }
            Err(error) => Err(error),
        };
        match result {
            Ok(requeue) => {
                self.failures.lock().remove(key);
                self.succeeded(key, requeue, *due);
            }
            Err(error) => {
                self.errors.with(&[self.name, error.label()]).inc();
                match error.retry {
                    Retry::Backoff => {
                        tracing::warn!(logger = self.name, key = %key, err = %error, "Sync failed, backing off");
                        self.failed(key, &error.to_string());
                        self.retry(key, *due);
                    }
                    Retry::Forget => {
                        tracing::debug!(logger = self.name, key = %key, err = %error, "Sync failed, not retrying");
                        self.queue.forget(key);
                        self.arm(key, *due);
                    }
                    Retry::Stop => {
                        tracing::debug!(logger = self.name, key = %key, err = %error, "Sync stopped");
                    }
                }
            }
        }
    }

    fn succeeded(&self, key: &C::Key, requeue: Requeue, due: Option<Instant>) {
        let delay = match requeue {
            Requeue::RateLimited => return self.retry(key, due),
            Requeue::Conflict => {
                self.queue.add_conflicting(key.clone());
                return self.arm(key, due);
            }
            Requeue::Unfinished(delay) => {
                self.queue.add_after(key.clone(), delay);
                return self.arm(key, due);
            }
            Requeue::After(delay) => Some(delay),
            Requeue::AsPlanned => due.map(|due| due.saturating_duration_since(self.context.clock.instant())),
        };
        self.queue.forget(key);
        if let Some(delay) = delay {
            self.queue.add_after(key.clone(), delay);
        }
    }

    /// Brings the key back after its back-off, or at `due` if that is earlier.
    fn retry(&self, key: &C::Key, due: Option<Instant>) {
        self.queue.add_rate_limited(key.clone());
        self.arm(key, due);
    }

    fn arm(&self, key: &C::Key, due: Option<Instant>) {
        if let Some(due) = due {
            self.queue.add_debounced(key.clone(), due.saturating_duration_since(self.context.clock.instant()));
        }
    }

    fn failed(&self, key: &C::Key, error: &str) {
        self.failures.lock().insert(key.clone(), (error.to_owned(), self.context.clock.now()));
    }

    fn remember(&self, at: Timestamp, key: &C::Key, decision: &Decision<C>) {
        let mut recent = self.recent.lock();
        if recent.len() == RECENT {
            recent.pop_front();
        }
        let (explanation, account) = (decision.explain().bounded(), decision.account().cloned());
        recent.push_back(Recent { at, key: key.to_string(), explanation, account });
    }

    fn explain_key(&self, key: &C::Key) -> Value {
        let now = self.context.clock.now();
        let mut out = match self.controller.observe(key, now) {
            Ok(Observed::Gone) => json!({"state": "gone"}),
            Ok(Observed::Waiting { why, .. }) => json!({"state": "waiting", "waiting": [why]}),
            Ok(Observed::Ready(snapshot)) => {
                let decision = Decision::<C>::with_forecast(&snapshot, now);
                let mut out = json!(decision.explain());
                out["state"] = json!(if decision.acts() { "acting" } else { "settled" });
                out
            }
            Err(error) => json!({"state": "failing", "waiting": [error.to_string()]}),
        };
        out["key"] = json!(key.to_string());
        let failures = self.queue.failures(key);
        if let Some((error, at)) = self.failures.lock().get(key) {
            out["lastError"] = json!({"error": error, "at": at.to_string(), "failures": failures});
        }
        out
    }

    /// Registers the gauge with the number of a shadow's differences.
    fn count_differences(self: &Arc<Self>) {
        let help = "Objects for which a shadow has wanted to write for more than a minute while the active controller did not, 100 at most, by loop.";
        let gauge = self.context.metrics.gauge("nonet_shadow_differences", Stability::Alpha, help, &["name"]);
        let (gauge, shared) = (gauge.with(&[self.name]), Arc::downgrade(self));
        self.context.metrics.before_scrape(move || {
            if let Some(shared) = shared.upgrade() {
                gauge.set(shared.differences().len() as f64);
            }
        });
    }

    /// Returns the differences of a shadow: the keys that it has wanted to write for a minute and still wants to write.
    fn differences(&self) -> Vec<C::Key> {
        let (clock, now) = (&self.context.clock, self.context.clock.now());
        let keys = self.differences.lasting(clock.instant());
        let wants_to_write = |key: &C::Key| matches!(self.controller.observe(key, now), Ok(Observed::Ready(snapshot)) if Decision::<C>::with_forecast(&snapshot, now).acts());
        let (lasting, settled): (Vec<_>, Vec<_>) = keys.into_iter().partition(wants_to_write);
        for key in &settled {
            self.differences.remove(key);
        }
        lasting
    }
}

impl<C: Controller> Running for Loop<C> {
    fn ready(&self) -> Result<(), String> {
        for informer in self.shared.controller.informers() {
            if !informer.is_synced() {
                let error = informer.state().error.map_or_else(String::new, |(e, _)| format!(": {e}"));
                return Err(format!("{} waits for {}{error}", self.shared.name, informer.resource()));
            }
            if let Some(lost) = informer.lost_touch() {
                return Err(format!("{}: {lost}", self.shared.name));
            }
        }
        Ok(())
    }

    fn debug_queue(&self) -> Value {
        let mut out = json!({"name": self.shared.name, "queue": self.shared.queue.state(LISTED)});
        if let Some(ledger) = self.shared.controller.ledger() {
            out["awaitingOwnWrites"] = json!(ledger.len());
        }
        out
    }

    fn debug_cache(&self) -> Value {
        let one = |i: &dyn AnyInformer| json!({"resource": i.resource().to_string(), "objects": i.len(), "version": i.version().to_string(), "state": i.state()});
        json!({"name": self.shared.name, "caches": self.shared.controller.informers().into_iter().map(one).collect::<Vec<_>>()})
    }

    fn explain(&self, key: Option<&str>) -> Value {
        if let Some(text) = key {
            return C::Key::parse(text)
                .map_or_else(|| json!({"error": format!("bad key {text:?}")}), |key| self.shared.explain_key(&key));
        }
        let failing: Vec<C::Key> = self.shared.failures.lock().keys().take(LISTED).cloned().collect();
        let recent: Vec<Value> = self.shared.recent.lock().iter().rev().map(Recent::to_value).collect();
        let mut out = json!({
            "name": self.shared.name,
            "failing": failing.iter().map(|key| self.shared.explain_key(key)).collect::<Vec<_>>(),
            "recent": recent,
        });
        if self.shared.context.settings.shadow() {
            let differences = self.shared.differences();
            out["differences"] = differences.iter().take(LISTED).map(|key| self.shared.explain_key(key)).collect();
        }
        out
    }

    fn shutdown(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            self.shared.queue.close();
            let mut workers = self.workers.lock().await;
            // These workers can be aborted: without filled caches they hold no key, and behind a closed gate no write can leave
            // this process.
            if !self.shared.prepared.initialized() || !self.shared.context.gate.is_open() {
                workers.abort_all();
            }
            while workers.join_next().await.is_some() {}
        })
    }
}

/// A plan with the forecast of its requests.
pub struct Decision<C: Controller> {
    /// The decision, without the requests that follow from it.
    pub plan: C::Plan,
    forecast: Forecast<C::Note>,
}

impl<C: Controller> Decision<C> {
    /// Decides, and runs the sync against a server that grants every request.
    pub fn with_forecast(snapshot: &C::Snapshot, now: Timestamp) -> Self {
        let plan = C::decide(snapshot);
        let forecast = io::forecast(now, async |io| C::act(snapshot, &plan, io).await);
        Self { plan, forecast }
    }

    /// Describes the plan and its expected requests.
    pub fn explain(&self) -> Explanation {
        let mut actions = self.plan.actions();
        actions.extend(self.account().map(Account::lines).unwrap_or_default());
        Explanation { situation: self.plan.situation(), waiting: self.plan.waiting(), actions }
    }

    /// Whether the sync would send requests, or its plan is notable without any.
    pub fn acts(&self) -> bool {
        self.account().is_some() || self.plan.is_notable()
    }

    /// Returns the delay of [`Explain::requeue_after`](super::Explain::requeue_after).
    pub fn requeue_after(&self) -> Option<Duration> {
        self.plan.requeue_after()
    }

    /// Returns the account, that is, the list of the expected requests; `None` if the sync sends none.
    pub fn account(&self) -> Option<&Account> {
        self.forecast.account.as_ref()
    }
}

/// The controller and the snapshot of one sync, in the form that the executor uses.
struct SyncOf<'a, C: Controller> {
    controller: &'a C,
    snapshot: &'a C::Snapshot,
}

impl<C: Controller> Subject<C::Note> for SyncOf<'_, C> {
    fn object(&self) -> (ObjectRef, Uid) {
        C::object(self.snapshot)
    }

    fn children(&self) -> HashSet<Uid> {
        self.controller.children(self.snapshot)
    }

    fn note(&self, note: C::Note) {
        self.controller.note(self.snapshot, note);
    }

    fn observe_again(&self, question: <C::Note as Note>::Question) -> Option<<C::Note as Note>::Fresh> {
        self.controller.observe_again(self.snapshot, question)
    }
}

#[cfg(test)]
mod tests;
