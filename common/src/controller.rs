//! A control loop: observe, decide, act.
//!
//! [`Controller`] is what a controller crate implements; [`Loop`] runs it: workers take keys from the queue, read the caches
//! into a snapshot, decide purely, and carry the plan out. Because deciding is free of effects, "why" can be answered at any
//! time by deciding again and printing the plan with the forecast of its requests ([`Decision`]): nothing is stored for it.
//!
//! Workers start when the gate is open, every cache holds a first set that handlers have seen, and every cache shows what a
//! predecessor wrote last ([`succession`](crate::succession)).

mod decision;
mod differences;
mod queues;
mod sequenced;

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

use differences::Differences;
pub use decision::Decision;
pub use sequenced::Sequenced;

pub use crate::io::{Failed, Outcome, Requeue, Retry};

use crate::{
    clock::Instant,
    consistency::{Behind, Ledger},
    events::ObjectRef,
    informer::AnyInformer,
    io::{Account, Executor, Io, Note},
    map::HashSet,
    meta::Uid,
    metrics::{Counter, Counters, Stability},
    object::Resource,
    pace::Work,
    panics,
    queue::{Priority, Queue, QueueKey},
    runtime::{Context, Running},
    store::Origin,
};

/// How many plans with actions are remembered for diagnostics.
const RECENT: usize = 128;
/// How many lines of one sort a remembered plan has, and how long each is, in bytes.
const LINES: (usize, usize) = (20, 500);
/// How many keys of a sort diagnostics list.
const LISTED: usize = 100;

/// The longest time between two checks whether caches have caught up with the writes of this process.
pub const RECHECK: Duration = Duration::from_secs(2);

/// What a sync finds in the caches.
pub enum Observed<S> {
    /// The object is gone; there is nothing to do.
    Gone,
    /// The caches do not allow a decision yet. An event of what is waited for brings the key back; if none comes, it comes
    /// back after `at_most`.
    Waiting {
        /// What is waited for.
        why: String,
        /// How long at most.
        at_most: Duration,
        /// The resource whose cache does not show a write of this process yet; `None` if something else is waited for.
        stale: Option<Resource>,
    },
    /// Everything the decision needs.
    Ready(S),
}

impl<S> Observed<S> {
    /// Waits for something else than a write of this process.
    pub fn wait(why: impl Into<String>, at_most: Duration) -> Self {
        Self::Waiting { why: why.into(), at_most, stale: None }
    }

    /// Waits until the caches show what the ledger misses.
    pub fn behind((behind, left): (Behind, Duration)) -> Self {
        let stale = if let Behind::Write { resource, .. } = behind { Some(resource) } else { None };
        Self::Waiting { why: behind.to_string(), at_most: left.min(RECHECK), stale }
    }
}

/// What a plan says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Explanation {
    /// The situation in numbers, one line.
    pub situation: String,
    /// What is waited for, and why; none when everything is as wanted.
    pub waiting: Vec<String>,
    /// The actions in order, each with its reason.
    pub actions: Vec<String>,
}

impl Explanation {
    /// The same with lines left out and shortened: objects decide how many there are and what they quote.
    fn bounded(mut self) -> Self {
        let (count, length) = LINES;
        let shorten = |line: &mut String| {
            if line.len() > length {
                line.truncate(line.floor_char_boundary(length));
                line.push_str("...");
            }
        };
        shorten(&mut self.situation);
        for lines in [&mut self.waiting, &mut self.actions] {
            let more = lines.len().saturating_sub(count);
            lines.truncate(count);
            lines.shrink_to_fit();
            lines.iter_mut().for_each(shorten);
            if more > 0 {
                lines.push(format!("... and {more} more"));
            }
        }
        self
    }
}

/// What a plan says about itself, besides its requests.
pub trait Explain {
    /// The situation in numbers, one line.
    fn situation(&self) -> String;
    /// What is waited for, and why; none when everything is as wanted.
    fn waiting(&self) -> Vec<String> {
        Vec::new()
    }
    /// What is done besides requests, a line each.
    fn actions(&self) -> Vec<String> {
        Vec::new()
    }
    /// How long after its snapshot the passing of time alone may change the decision; `None` if only an event can.
    ///
    /// The loop brings the key back at that time whether the sync succeeded, failed or panicked, or, in shadow mode, was not carried out;
    /// only [`Requeue::After`] takes its place. A delay of zero is ignored: a key that is to be processed again at once because of what
    /// [`Controller::carry_out`] did asks for it with [`Requeue`].
    fn requeue_after(&self) -> Option<Duration> {
        None
    }
    /// Whether it is worth remembering for diagnostics although it sends nothing.
    fn is_notable(&self) -> bool {
        false
    }
}

/// A controller. A sync observes, decides, and carries its plan out.
pub trait Controller: Send + Sync + Sized + 'static {
    /// What its queue holds.
    type Key: QueueKey;
    /// Everything that one sync reads of the caches.
    type Snapshot: Send + Sync;
    /// What is decided once, before the first request.
    type Plan: Explain + Send + Sync;
    /// A change of the controller's memory that a sync asks for; [`Infallible`](std::convert::Infallible) if there is none.
    type Note: Note;
    /// The metric that counts syncs which wait for a stale cache, if there is one.
    const STALE_SYNC_SKIPS: Option<&'static str> = None;

    /// Reads the caches. No effects, no requests, no waiting.
    fn observe(&self, key: &Self::Key, now: Timestamp) -> Result<Observed<Self::Snapshot>, Failed>;
    /// Decides. Pure: the same snapshot gives the same plan.
    fn decide(snapshot: &Self::Snapshot) -> Self::Plan;
    /// Carries the plan out, also in a forecast. It awaits nothing but `io`, and has no other effects than those of `io`.
    fn carry_out(
        snapshot: &Self::Snapshot,
        plan: &Self::Plan,
        io: Io<'_, Self::Note>,
    ) -> impl Future<Output = Outcome> + Send;
    /// The object of a sync: as its Events name it, and its uid, under which the ledger keeps what was written for it.
    fn object(snapshot: &Self::Snapshot) -> (ObjectRef, Uid);

    /// Changes memory as a sync asks for it.
    fn note(&self, _: &Self::Snapshot, _: Self::Note) {}
    /// Reads caches and memory again for a sync; `None` if they say the same as the snapshot.
    fn fresh(&self, _: &Self::Snapshot, _: <Self::Note as Note>::Question) -> Option<<Self::Note as Note>::Fresh> {
        None
    }
    /// Updates in-memory state that later snapshots depend on, such as the time at which a Pod has to leave its node.
    ///
    /// Runs before [`Controller::carry_out`], and in shadow mode instead of it. Sends no requests and records no Events.
    fn record(&self, _: &Self::Snapshot, _: &Self::Plan) {}
    /// Tidies memory up after a sync, however it ended.
    fn ended(&self, _: &Self::Snapshot) {}
    /// The uids of the object's children that the cache shows, for a ledger that has lost the answer to a create.
    fn children(&self, _: &Self::Snapshot) -> HashSet<Uid> {
        HashSet::default()
    }
    /// The ledger of what this process wrote, if there is one.
    fn ledger(&self) -> Option<&Ledger> {
        None
    }
    /// The caches that must be filled before the first sync.
    fn informers(&self) -> Vec<&dyn AnyInformer>;
    /// Notes a sync that waits ([`Observed::Waiting`]).
    fn waiting(&self, _: &Self::Key) {}
}

/// The priority of a key that an event of that origin enqueues.
pub fn priority(origin: Origin) -> Priority {
    match origin {
        Origin::Initial | Origin::Resync => Priority::Low,
        Origin::Relist | Origin::Watch => Priority::Normal,
    }
}

/// A controller at work.
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
    /// Keys that wait for a write of this process to appear in a cache.
    awaiting: Mutex<BTreeMap<C::Key, Work>>,
    /// What a shadow would do otherwise.
    differences: Differences<C::Key>,
}

/// A plan that was carried out lately.
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
    /// Starts `workers` workers. They wait for the gate and the caches themselves.
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
                "Syncs put off because a cache did not show this process's own writes yet, by the resource that lagged";
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
        // A loop without a worker would be silently dead.
        for _ in 0..workers.max(1) {
            set.spawn(Arc::clone(&shared).work());
        }
        Arc::new(Self { shared, workers: tokio::sync::Mutex::new(set) })
    }

    /// The controller.
    pub fn controller(&self) -> &Arc<C> {
        &self.shared.controller
    }

    /// The queue.
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

    /// Waits for the permission to write and for caches that are as new as it.
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

    /// Runs one sync. `due` becomes the time at which the plan wants the key back, as soon as there is a plan.
    async fn sync(&self, key: &C::Key, shadow: bool, due: &mut Option<Instant>) {
        let (now, began) = (self.context.clock.now(), self.context.clock.instant());
        let result = match self.controller.observe(key, now) {
            Ok(Observed::Gone) => {
                self.differences.remove(key);
                Ok(Requeue::No)
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
                let decision = Decision::<C>::of(&snapshot, now);
                let delay = decision.requeue_after().filter(|delay| !delay.is_zero());
                *due = delay.and_then(|delay| began.checked_add(delay));
                if decision.acts() {
                    self.remember(now, key, &decision);
                }
                self.controller.record(&snapshot, &decision.plan);
                if shadow {
                    self.differences.note(key, decision.acts(), began);
                    decision.account().into_iter().for_each(Account::shorten);
                    Ok(Requeue::No)
                } else {
                    let outcome = decision.carry_out(&*self.controller, &snapshot, &self.executor).await;
                    self.controller.ended(&snapshot);
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
                        tracing::debug!(logger = self.name, key = %key, err = %error, "Sync given up");
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
            Requeue::No => due.map(|due| due.saturating_duration_since(self.context.clock.instant())),
        };
        self.queue.forget(key);
        if let Some(delay) = delay {
            self.queue.add_after(key.clone(), delay);
        }
    }

    /// Brings the key back after its back-off, or when its plan is due if that is earlier.
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
                let decision = Decision::<C>::of(&snapshot, now);
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
                .map_or_else(|| json!({"error": format!("{text:?} is no key")}), |key| self.shared.explain_key(&key));
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
            // Workers that still wait for the gate or a cache hold no key; without the gate nothing they do leaves the process.
            if !self.shared.prepared.initialized() || !self.shared.context.gate.is_open() {
                workers.abort_all();
            }
            while workers.join_next().await.is_some() {}
        })
    }
}

#[cfg(test)]
mod tests;
