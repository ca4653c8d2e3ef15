//! Keys that wait for a sync, with back-off, delays and priorities.
//!
//! The semantics are client-go's: a key waits at most once, is never processed by two workers at the same time, and runs exactly
//! once more if it was added while being processed. In addition there are two priorities, so that changes by users overtake the
//! keys of an initial list. A failing key backs off exponentially and is never dropped.

mod key;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Weak},
    time::Duration,
};

use futures::future::OptionFuture;
pub use key::QueueKey;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    api::Throttle,
    clock::{Clock, Instant},
    map::HashMap,
    store::ChangeOrigin,
};

/// A hundred years, used instead of a delay that overflows the clock.
const LONGEST_DELAY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The most keys that a held queue keeps. On a standby, the keys of deleted objects would otherwise accumulate.
const MAX_HELD_KEYS: usize = 50_000;

/// The order between keys. Keys of a higher priority are handed out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// The key comes from an initial list or a resync.
    Low,
    /// The object of the key has changed.
    Normal,
}

impl From<ChangeOrigin> for Priority {
    /// Returns [`Priority::Low`] for keys of a first list or a resync, [`Priority::Normal`] for keys of a relist or a watch.
    fn from(origin: ChangeOrigin) -> Self {
        match origin {
            ChangeOrigin::Initial | ChangeOrigin::Resync => Self::Low,
            ChangeOrigin::Relist | ChangeOrigin::Watch => Self::Normal,
        }
    }
}

/// The delays of failing keys.
#[derive(Clone, Debug)]
pub struct BackoffSettings {
    /// Delay after the first failure. Each further failure doubles the delay.
    pub base_delay: Duration,
    /// The upper limit of the doubled delay. The limit on [retries](Self::retry_rate_and_burst) may delay a key beyond it.
    pub max_delay: Duration,
    /// Retries per second and burst, shared by all failing keys of a [tenant](QueueKey::tenant); `None` for unlimited retries.
    pub retry_rate_and_burst: Option<(f64, u32)>,
}

impl Default for BackoffSettings {
    /// Returns the values of client-go's default controller rate limiter. There all keys share one token bucket; here
    /// each tenant has a bucket.
    fn default() -> Self {
        Self {
            base_delay: Duration::from_millis(5),
            max_delay: Duration::from_secs(1000),
            retry_rate_and_burst: Some((10.0, 100)),
        }
    }
}

impl BackoffSettings {
    /// Returns the delay of a key that has failed `failures` times before.
    pub fn delay_after_failures(&self, failures: u32) -> Duration {
        let factor = 1u32.checked_shl(failures).filter(|_| failures < 31);
        factor.and_then(|f| self.base_delay.checked_mul(f)).map_or(self.max_delay, |d| d.min(self.max_delay))
    }
}

/// The token buckets that limit the retries of each tenant.
///
/// Full buckets are dropped whenever the count of buckets has doubled. There are thus at most about twice as many buckets as
/// tenants with failing keys.
struct RetryLimits {
    qps: f64,
    burst: u32,
    buckets: HashMap<Box<str>, Throttle>,
    /// The count of buckets at which full buckets are dropped.
    prune_at: usize,
}

impl RetryLimits {
    /// The lower limit of `prune_at`.
    const MIN_PRUNE_AT: usize = 64;

    fn new(qps: f64, burst: u32) -> Self {
        Self { qps, burst, buckets: HashMap::default(), prune_at: Self::MIN_PRUNE_AT }
    }

    /// Takes a token from the tenant's bucket and returns how long to wait for the token.
    fn reserve(&mut self, tenant: &str, now: Instant) -> Duration {
        if let Some(bucket) = self.buckets.get(tenant) {
            return bucket.reserve_token(now);
        }
        if self.buckets.len() >= self.prune_at {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
            self.prune_at = (2 * self.buckets.len()).max(Self::MIN_PRUNE_AT);
        }
        let Some(bucket) = Throttle::new(self.qps, self.burst) else { return Duration::ZERO };
        let wait = bucket.reserve_token(now);
        self.buckets.insert(tenant.into(), bucket);
        wait
    }
}

/// Callbacks of a queue, for metrics.
pub trait QueueCallbacks: Send + Sync {
    /// Is called when a key begins to wait.
    fn on_key_added(&self) {}
    /// Is called when a worker gets a key, which has waited for this time.
    fn on_key_taken(&self, _waited: Duration) {}
    /// Is called when the processing of a key, which took this time, has ended.
    fn on_key_done(&self, _worked: Duration) {}
    /// Is called when a key is added with a delay or a back-off.
    fn on_key_retried(&self) {}
    /// Is called when a worker finds no waiting key, with the time at which the first delayed key is due.
    fn on_idle_until(&self, _due: Instant) {}
}

impl QueueCallbacks for () {}

/// A work queue of unique keys. Clones share the queue.
pub struct Queue<K> {
    inner: Arc<QueueShared<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

struct QueueShared<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    clock: Clock,
    backoff: BackoffSettings,
    callbacks: Arc<dyn QueueCallbacks>,
}

struct State<K> {
    /// Waiting keys in order, one line per [`Priority`]. A key that was raised to `Normal` leaves a stale entry in the `Low`
    /// line.
    lines: [VecDeque<K>; 2],
    /// Keys that need processing, with priority and time of addition. Each valid entry of `lines` is also in `dirty`, and is
    /// not in `processing`.
    dirty: HashMap<K, (Priority, Instant)>,
    /// Keys in progress, with their start time.
    processing: BTreeMap<K, Instant>,
    /// Keys with a delay that remains in force if a worker gets the key earlier.
    delayed: KeyTimers<K>,
    /// Keys with a delay that is cancelled if a worker gets the key earlier.
    rechecks: KeyTimers<K>,
    /// Consecutive failures of each key. [`Queue::reset_failure_count`] removes them.
    failures: HashMap<K, u32>,
    retry_limits: Option<RetryLimits>,
    /// Whether the keys are held for a worker that has not started yet. The callbacks do not count held keys.
    held: bool,
    /// Whether held keys were dropped because there were too many. Further keys are dropped, too, until the keys are released.
    overflowed: bool,
    closed: bool,
}

impl<K: QueueKey> State<K> {
    /// Returns whether to drop a new key because the held queue is full.
    ///
    /// The waiting keys are dropped as well. After [`Queue::release_held_keys`] the caches are replayed, which adds the keys of
    /// all existing objects.
    fn drops_new_key(&mut self) -> bool {
        let count = self.dirty.len() + self.delayed.by_key.len() + self.rechecks.by_key.len();
        if self.held && !self.overflowed && count >= MAX_HELD_KEYS {
            self.overflowed = true;
            self.lines = Default::default();
            self.dirty = HashMap::default();
            (self.delayed, self.rechecks) = (KeyTimers::default(), KeyTimers::default());
        }
        self.overflowed
    }
}

/// A set of keys, each with the time at which it is due.
struct KeyTimers<K> {
    by_time: BTreeSet<(Instant, K)>,
    by_key: HashMap<K, Instant>,
}

impl<K> Default for KeyTimers<K> {
    fn default() -> Self {
        Self { by_time: BTreeSet::new(), by_key: HashMap::default() }
    }
}

impl<K: QueueKey> KeyTimers<K> {
    /// Sets the time of a key, unless the key has an earlier time. Returns whether the time was set.
    fn set_earlier(&mut self, key: K, at: Instant) -> bool {
        if self.by_key.get(&key).is_some_and(|known| *known <= at) {
            return false;
        }
        self.remove(&key);
        self.by_key.insert(key.clone(), at);
        self.by_time.insert((at, key));
        true
    }

    fn remove(&mut self, key: &K) {
        if let Some(at) = self.by_key.remove(key) {
            self.by_time.remove(&(at, key.clone()));
        }
    }

    /// Returns the time at which the first key is due.
    fn next_due(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Removes and returns the key with the earliest time; `None` if that time has not come.
    fn pop_due(&mut self, now: Instant) -> Option<K> {
        let (_, key) = self.next_due().filter(|at| *at <= now).and_then(|_| self.by_time.pop_first())?;
        self.by_key.remove(&key);
        Some(key)
    }

    fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }
}

/// The content of a queue, for diagnostics.
#[derive(Clone, Debug, serde::Serialize)]
pub struct QueueState {
    /// Keys that wait to be processed, in alphabetical order.
    pub waiting: Vec<String>,
    /// Keys in progress, with the seconds since their start.
    pub processing: Vec<(String, f64)>,
    /// Delayed keys, with the seconds until they are due.
    pub delayed: Vec<(String, f64)>,
    /// Failing keys with their counts of failures, the most failures first.
    pub failing: Vec<(String, u32)>,
}

/// A handle to a [`Queue`] that does not keep the queue alive.
pub struct WeakQueue<K> {
    inner: Weak<QueueShared<K>>,
}

impl<K> WeakQueue<K> {
    /// Returns the queue; `None` if all its clones have been dropped.
    pub fn upgrade(&self) -> Option<Queue<K>> {
        self.inner.upgrade().map(|inner| Queue { inner })
    }
}

impl<K: QueueKey> Queue<K> {
    /// Returns a handle that does not keep the queue alive.
    pub fn downgrade(&self) -> WeakQueue<K> {
        WeakQueue { inner: Arc::downgrade(&self.inner) }
    }

    /// Creates an empty queue that hands out keys at once.
    pub fn new(clock: Clock, backoff: BackoffSettings, callbacks: Option<Arc<dyn QueueCallbacks>>) -> Self {
        let state = State {
            lines: [VecDeque::new(), VecDeque::new()],
            dirty: HashMap::default(),
            processing: BTreeMap::new(),
            delayed: KeyTimers::default(),
            rechecks: KeyTimers::default(),
            failures: HashMap::default(),
            retry_limits: backoff.retry_rate_and_burst.map(|(qps, burst)| RetryLimits::new(qps, burst)),
            held: false,
            overflowed: false,
            closed: false,
        };
        let callbacks = callbacks.unwrap_or_else(|| Arc::new(()));
        let shared = QueueShared { state: Mutex::new(state), changed: Notify::new(), clock, backoff, callbacks };
        Self { inner: Arc::new(shared) }
    }

    /// Adds a key that may be handed out at once.
    pub fn add(&self, key: K, priority: impl Into<Priority>) {
        let mut state = self.inner.state.lock();
        if !state.closed {
            self.push(&mut state, key, priority.into());
        }
    }

    fn push(&self, state: &mut State<K>, key: K, priority: Priority) {
        if state.drops_new_key() {
            return;
        }
        let now = self.inner.clock.monotonic_now();
        match state.dirty.get_mut(&key) {
            Some((p, _)) if *p >= priority => return,
            Some((p, _)) => *p = priority,
            None => {
                state.dirty.insert(key.clone(), (priority, now));
                if !state.held {
                    self.inner.callbacks.on_key_added();
                }
            }
        }
        if !state.processing.contains_key(&key) {
            state.lines[priority as usize].push_back(key);
            self.inner.changed.notify_one();
        }
    }

    /// Holds the keys. They wait, the callbacks do not count them, and all of them are dropped if there are more than 50,000.
    ///
    /// Meant for a standby. [`Queue::release_held_keys`] ends the hold.
    pub fn hold_keys(&self) {
        self.inner.state.lock().held = true;
    }

    /// Ends the hold of the keys, and reports the waiting keys to the callbacks as if they had just been added.
    ///
    /// Returns whether keys were dropped. The caller then has to replay the caches.
    #[must_use]
    pub fn release_held_keys(&self) -> bool {
        let mut state = self.inner.state.lock();
        if !std::mem::take(&mut state.held) {
            return false;
        }
        let now = self.inner.clock.monotonic_now();
        for (_, since) in state.dirty.values_mut() {
            *since = now;
            self.inner.callbacks.on_key_added();
        }
        std::mem::take(&mut state.overflowed)
    }

    /// Adds a key after a delay, counted as a retry. If the key already has an earlier time, that time is kept.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.count_retry();
        self.add_debounced(key, delay);
    }

    /// Adds a key after a delay in which further events may accumulate. Does not count as a retry.
    pub fn add_debounced(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key, Priority::Normal);
        }
        self.set_timer(key, delay, |state| &mut state.delayed);
    }

    /// Adds a key after a delay, unless the key is handed out earlier.
    ///
    /// For a sync that waits for an event. The event adds the key, and the delay matters only if the event does not arrive.
    pub fn add_recheck_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add_after(key, delay);
        }
        self.count_retry();
        self.set_timer(key, delay, |state| &mut state.rechecks);
    }

    fn count_retry(&self) {
        if !self.inner.state.lock().held {
            self.inner.callbacks.on_key_retried();
        }
    }

    fn set_timer(&self, key: K, delay: Duration, timers: impl FnOnce(&mut State<K>) -> &mut KeyTimers<K>) {
        let mut state = self.inner.state.lock();
        if state.closed || state.drops_new_key() {
            return;
        }
        // A delay that overflows the clock, for example one computed from a field of an object, means never.
        let now = self.inner.clock.monotonic_now();
        let at = now.checked_add(delay).unwrap_or(now + LONGEST_DELAY);
        if timers(&mut state).set_earlier(key, at) {
            self.inner.changed.notify_one();
        }
    }

    /// Adds a failed key after its back-off, and counts the failure.
    pub fn add_rate_limited(&self, key: K) {
        let now = self.inner.clock.monotonic_now();
        let mut state = self.inner.state.lock();
        let failures = state.failures.entry(key.clone()).or_default();
        let backoff = self.inner.backoff.delay_after_failures(*failures);
        *failures += 1;
        let limited = state.retry_limits.as_mut().map(|limits| limits.reserve(key.tenant(), now));
        drop(state);
        self.add_after(key, backoff.max(limited.unwrap_or_default()));
    }

    /// Adds a key after a conflict, and counts a failure. The key comes back at once after the first failure in a row,
    /// otherwise after its back-off.
    pub fn add_after_conflict(&self, key: K) {
        if self.failure_count(&key) > 0 {
            return self.add_rate_limited(key);
        }
        self.inner.state.lock().failures.insert(key.clone(), 1);
        self.add_after(key, Duration::ZERO);
    }

    /// Sets the count of consecutive failures of a key to zero, for example after a successful sync.
    pub fn reset_failure_count(&self, key: &K) {
        self.inner.state.lock().failures.remove(key);
    }

    /// Returns how often a key has failed since its last success; 0 for unknown keys.
    pub fn failure_count(&self, key: &K) -> u32 {
        self.inner.state.lock().failures.get(key).copied().unwrap_or(0)
    }

    /// Waits for the next key; `None` once the queue is closed. The caller calls [`Queue::mark_processed`] when the key has been
    /// processed.
    pub async fn next_key(&self) -> Option<K> {
        loop {
            let due = {
                let mut state = self.inner.state.lock();
                if state.closed {
                    // Each worker that ends wakes another one, so that all workers end.
                    self.inner.changed.notify_one();
                    return None;
                }
                let now = self.inner.clock.monotonic_now();
                while let Some(key) = state.delayed.pop_due(now).or_else(|| state.rechecks.pop_due(now)) {
                    self.push(&mut state, key, Priority::Normal);
                }
                if let Some(key) = self.pop(&mut state, now) {
                    if state.lines.iter().any(|l| !l.is_empty()) {
                        self.inner.changed.notify_one();
                    }
                    return Some(key);
                }
                state.delayed.next_due().into_iter().chain(state.rechecks.next_due()).min()
            };
            if let Some(due) = due {
                self.inner.callbacks.on_idle_until(due);
            }
            tokio::select! {
                biased;
                () = self.inner.changed.notified() => {}
                Some(()) = OptionFuture::from(due.map(tokio::time::sleep_until)) => {}
            }
        }
    }

    fn pop(&self, state: &mut State<K>, now: Instant) -> Option<K> {
        for line in [Priority::Normal, Priority::Low] {
            while let Some(key) = state.lines[line as usize].pop_front() {
                // An entry in the `Low` line is stale if the key was raised to `Normal`.
                if state.processing.contains_key(&key) || state.dirty.get(&key).is_none_or(|(p, _)| *p != line) {
                    continue;
                }
                if let Some((_, since)) = state.dirty.remove(&key) {
                    self.inner.callbacks.on_key_taken(now.saturating_duration_since(since));
                }
                state.rechecks.remove(&key);
                state.processing.insert(key.clone(), now);
                return Some(key);
            }
        }
        None
    }

    /// Ends the processing of a key. A key that was added meanwhile waits again.
    pub fn mark_processed(&self, key: &K) {
        let mut state = self.inner.state.lock();
        if let Some(since) = state.processing.remove(key) {
            self.inner.callbacks.on_key_done(self.inner.clock.monotonic_now().saturating_duration_since(since));
        }
        if let Some((priority, _)) = state.dirty.get(key).copied() {
            state.lines[priority as usize].push_back(key.clone());
            self.inner.changed.notify_one();
        }
    }

    /// Closes the queue. Workers get no further keys, and waiting or delayed keys are dropped.
    pub fn close(&self) {
        self.inner.state.lock().closed = true;
        self.inner.changed.notify_one();
    }

    /// Whether the queue is closed. A long sync may then end early, and the next leader finishes its work.
    pub fn is_closed(&self) -> bool {
        self.inner.state.lock().closed
    }

    /// Returns the count of waiting keys, without delayed keys and keys in progress.
    pub fn len(&self) -> usize {
        self.inner.state.lock().dirty.len()
    }

    /// Whether no key is waiting, delayed or in progress.
    pub fn is_idle(&self) -> bool {
        let state = self.inner.state.lock();
        state.dirty.is_empty() && state.processing.is_empty() && state.delayed.is_empty() && state.rechecks.is_empty()
    }

    /// Whether no key is waiting. Keys may still be delayed or in progress.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the processing times of the keys in progress: their sum and their maximum.
    pub fn total_and_longest_processing_time(&self) -> (Duration, Duration) {
        let state = self.inner.state.lock();
        let now = self.inner.clock.monotonic_now();
        let ages = state.processing.values().map(|since| now.saturating_duration_since(*since));
        (ages.clone().sum(), ages.max().unwrap_or_default())
    }

    /// Returns the content of the queue, at most `limit` keys in each category.
    pub fn debug_state(&self, limit: usize) -> QueueState {
        let state = self.inner.state.lock();
        let now = self.inner.clock.monotonic_now();
        let mut waiting: Vec<String> = state.dirty.keys().map(ToString::to_string).collect();
        waiting.sort();
        waiting.truncate(limit);
        let mut failing: Vec<(String, u32)> = state.failures.iter().map(|(k, n)| (k.to_string(), *n)).collect();
        failing.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        failing.truncate(limit);
        let age = |since: &Instant| now.saturating_duration_since(*since).as_secs_f64();
        let mut delayed: Vec<&(Instant, K)> = [&state.delayed, &state.rechecks]
            .into_iter()
            .flat_map(|timers| timers.by_time.iter().take(limit))
            .collect();
        delayed.sort();
        delayed.truncate(limit);
        QueueState {
            waiting,
            processing: state.processing.iter().take(limit).map(|(k, t)| (k.to_string(), age(t))).collect(),
            delayed: delayed
                .into_iter()
                .map(|(at, k)| (k.to_string(), at.saturating_duration_since(now).as_secs_f64()))
                .collect(),
            failing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl QueueKey for String {
        fn parse(text: &str) -> Option<Self> {
            Some(text.to_owned())
        }

        fn tenant(&self) -> &str {
            self.split_once('/').map_or("", |(namespace, _)| namespace)
        }
    }

    fn queue() -> Queue<String> {
        Queue::new(Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0), BackoffSettings::default(), None)
    }

    fn key(k: &str) -> String {
        k.to_owned()
    }

    async fn soon(q: &Queue<String>) -> Option<String> {
        tokio::time::timeout(Duration::from_nanos(1), q.next_key()).await.ok().flatten()
    }

    /// COMMON-28.
    #[tokio::test(start_paused = true)]
    async fn adds_during_processing_cause_exactly_one_more_run() {
        let q = queue();
        q.add(key("a"), Priority::Normal);
        q.add(key("a"), Priority::Normal);
        assert_eq!(soon(&q).await.as_deref(), Some("a"));
        for _ in 0..3 {
            q.add(key("a"), Priority::Normal);
        }
        assert_eq!(soon(&q).await, None, "never two workers at the same time");
        q.mark_processed(&key("a"));
        assert_eq!(soon(&q).await.as_deref(), Some("a"));
        q.mark_processed(&key("a"));
        assert_eq!(soon(&q).await, None);
        assert!(q.is_idle());
    }

    /// COMMON-91.
    #[tokio::test(start_paused = true)]
    async fn changed_keys_overtake_the_initial_list() {
        let q = queue();
        for k in ["a", "b", "c"] {
            q.add(key(k), Priority::Low);
        }
        q.add(key("c"), Priority::Normal);
        let mut order = Vec::new();
        while let Some(k) = soon(&q).await {
            q.mark_processed(&k);
            order.push(k);
        }
        assert_eq!(order, ["c", "a", "b"]);
    }

    /// COMMON-29.
    #[tokio::test(start_paused = true)]
    async fn a_delayed_key_keeps_the_earlier_time_and_is_not_cancelled() {
        let q = queue();
        let start = q.inner.clock.monotonic_now();
        q.add_after(key("a"), Duration::from_secs(10));
        q.add_after(key("a"), Duration::from_secs(5));
        q.add_after(key("a"), Duration::from_secs(7));
        q.add(key("a"), Priority::Normal);
        assert_eq!(q.next_key().await.as_deref(), Some("a"));
        q.mark_processed(&key("a"));
        assert_eq!(q.next_key().await.as_deref(), Some("a"));
        assert_eq!(q.inner.clock.monotonic_now() - start, Duration::from_secs(5));
    }

    /// COMMON-29.
    #[tokio::test(start_paused = true)]
    async fn a_recheck_is_cancelled_when_its_key_is_handed_out_before() {
        let q = queue();
        let start = q.inner.clock.monotonic_now();
        q.add_recheck_after(key("a"), Duration::from_secs(2));
        q.add_after(key("a"), Duration::from_secs(9));
        q.add(key("a"), Priority::Normal);
        assert_eq!(q.next_key().await.as_deref(), Some("a"));
        q.mark_processed(&key("a"));
        assert_eq!(q.next_key().await.as_deref(), Some("a"));
        assert_eq!(q.inner.clock.monotonic_now() - start, Duration::from_secs(9), "a delay of `add_after` stays");
        q.mark_processed(&key("a"));
        assert!(q.is_idle());
        // Without an event, the key comes back after the delay.
        q.add_recheck_after(key("a"), Duration::from_secs(2));
        assert_eq!(q.debug_state(1).delayed.len(), 1);
        assert_eq!(q.next_key().await.as_deref(), Some("a"));
        assert_eq!(q.inner.clock.monotonic_now() - start, Duration::from_secs(11));
    }

    /// COMMON-30.
    #[tokio::test(start_paused = true)]
    async fn failures_back_off_up_to_the_cap_and_are_never_dropped() {
        let b = BackoffSettings::default();
        let millis = |n| b.delay_after_failures(n).as_millis();
        assert_eq!((millis(0), millis(3), millis(6), millis(9), millis(14)), (5, 40, 320, 2560, 81_920));
        assert_eq!(
            (b.delay_after_failures(18), b.delay_after_failures(4_000)),
            (Duration::from_secs(1000), Duration::from_secs(1000))
        );
    }

    /// COMMON-90.
    #[tokio::test(start_paused = true)]
    async fn failing_keys_of_one_tenant_delay_no_failing_key_of_another() {
        let q = queue();
        for n in 0..250 {
            q.add_rate_limited(format!("crowd/{n:03}"));
        }
        let start = q.inner.clock.monotonic_now();
        q.add_rate_limited("ordinary/web".to_owned());
        loop {
            let key = q.next_key().await.unwrap();
            q.mark_processed(&key);
            if key == "ordinary/web" {
                break;
            }
        }
        assert!(q.inner.clock.monotonic_now() - start <= Duration::from_millis(6));
    }

    #[tokio::test(start_paused = true)]
    async fn buckets_of_tenants_without_failures_are_dropped() {
        let q = queue();
        for n in 0..10_000 {
            q.add_rate_limited(format!("tenant-{n}/web"));
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        let state = q.inner.state.lock();
        let buckets = state.retry_limits.as_ref().unwrap().buckets.len();
        assert!(buckets <= RetryLimits::MIN_PRUNE_AT, "{buckets}");
    }

    /// COMMON-90.
    #[tokio::test(start_paused = true)]
    async fn many_keys_of_a_tenant_that_fail_at_once_share_one_bucket() {
        let q = queue();
        let start = q.inner.clock.monotonic_now();
        for n in 0..250 {
            q.add_rate_limited(format!("{n:03}"));
        }
        let mut times = Vec::new();
        for _ in 0..250 {
            let k = q.next_key().await.unwrap();
            times.push((q.inner.clock.monotonic_now() - start).as_millis());
            q.mark_processed(&k);
        }
        assert!(
            times[99] <= 6 && (99..=106).contains(&times[100]) && (14_990..=15_006).contains(&times[249]),
            "{times:?}"
        );
    }

    #[derive(Default)]
    struct Counts(Mutex<(usize, usize, Duration)>);

    impl QueueCallbacks for Counts {
        fn on_key_added(&self) {
            self.0.lock().0 += 1;
        }
        fn on_key_retried(&self) {
            self.0.lock().1 += 1;
        }
        fn on_key_taken(&self, waited: Duration) {
            self.0.lock().2 = waited;
        }
    }

    /// COMMON-33.
    #[tokio::test(start_paused = true)]
    async fn a_standby_has_no_backlog_and_a_leader_counts_keys_from_its_take_over() {
        let counts = Arc::new(Counts::default());
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let q: Queue<String> = Queue::new(clock, BackoffSettings::default(), Some(Arc::clone(&counts) as _));
        q.hold_keys();
        q.add(key("a"), Priority::Normal);
        q.add_after(key("b"), Duration::from_secs(1));
        tokio::time::advance(Duration::from_mins(10)).await;
        assert_eq!(*counts.0.lock(), (0, 0, Duration::ZERO));
        assert!(!q.release_held_keys(), "nothing was dropped");
        assert_eq!(counts.0.lock().0, 1);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(q.next_key().await.as_deref(), Some("a"));
        assert_eq!(*counts.0.lock(), (2, 0, Duration::from_secs(2)), "the wait counts from the opening");
        assert_eq!(q.next_key().await.as_deref(), Some("b"));
        assert_eq!(*counts.0.lock(), (2, 0, Duration::ZERO));
    }

    /// COMMON-33.
    #[tokio::test(start_paused = true)]
    async fn a_standby_keeps_a_bounded_number_of_keys_and_reports_dropped_keys() {
        let q = queue();
        q.hold_keys();
        for n in 0..3 * MAX_HELD_KEYS {
            q.add(n.to_string(), Priority::Low);
            q.add_debounced(format!("later-{n}"), Duration::from_secs(1));
            assert!(q.len() <= MAX_HELD_KEYS);
        }
        assert!(q.is_idle());
        assert!(q.release_held_keys() && !q.release_held_keys());
        q.add(key("a"), Priority::Normal);
        assert_eq!(soon(&q).await.as_deref(), Some("a"));
        for n in 0..=MAX_HELD_KEYS {
            q.add(n.to_string(), Priority::Low);
        }
        assert_eq!(q.len(), MAX_HELD_KEYS + 1, "a leader drops nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_debounced_key_does_not_count_as_a_retry() {
        let counts = Arc::new(Counts::default());
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let q: Queue<String> = Queue::new(clock, BackoffSettings::default(), Some(Arc::clone(&counts) as _));
        q.add_debounced(key("a"), Duration::from_millis(20));
        q.add_debounced(key("a"), Duration::from_millis(20));
        assert_eq!(q.next_key().await.as_deref(), Some("a"));
        q.add_after(key("a"), Duration::from_millis(20));
        let (added, retried, _) = *counts.0.lock();
        assert_eq!((added, retried), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn no_delay_is_too_long() {
        let q = queue();
        q.add_after(key("a"), Duration::MAX);
        q.add_after(key("a"), Duration::from_secs(1));
        assert_eq!(q.next_key().await.as_deref(), Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn closing_wakes_every_worker() {
        let q = queue();
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let q = q.clone();
                tokio::spawn(async move { q.next_key().await })
            })
            .collect();
        tokio::task::yield_now().await;
        q.add_after(key("late"), Duration::from_secs(1));
        q.close();
        for w in workers {
            assert_eq!(w.await.unwrap(), None);
        }
        q.add(key("x"), Priority::Normal);
        assert!(q.is_empty());
    }

    proptest::proptest! {
        /// COMMON-28.
        #[test]
        fn no_key_is_lost_or_processed_twice_at_once(ops in proptest::collection::vec((0u8..4, 0u8..4, proptest::bool::ANY), 1..200)) {
            let rt = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            rt.block_on(async {
                let q = queue();
                let mut processing: Vec<String> = Vec::new();
                let mut owed: std::collections::BTreeSet<String> = std::collections::BTreeSet::new();
                for (op, k, low) in ops {
                    let k = format!("k{k}");
                    match op {
                        0 | 1 => {
                            q.add(k.clone(), if low { Priority::Low } else { Priority::Normal });
                            owed.insert(k);
                        }
                        2 => if let Some(got) = soon(&q).await {
                            assert!(!processing.contains(&got), "two workers at the same time: {got}");
                            assert!(owed.remove(&got), "{got} was not added");
                            processing.push(got);
                        },
                        _ => if let Some(done) = processing.pop() { q.mark_processed(&done) },
                    }
                }
                for k in processing { q.mark_processed(&k) }
                while let Some(got) = soon(&q).await {
                    assert!(owed.remove(&got));
                    q.mark_processed(&got);
                }
                assert!(owed.is_empty(), "lost: {owed:?}");
            });
        }
    }

    /// COMMON-29.
    #[tokio::test(start_paused = true)]
    async fn the_earlier_of_two_delays_wins_in_either_order() {
        for (first, second) in [(10, 60), (60, 10)] {
            let q = queue();
            q.add_after(key("a"), Duration::from_secs(first));
            q.add_debounced(key("a"), Duration::from_secs(second));
            let start = q.inner.clock.monotonic_now();
            assert_eq!(q.next_key().await.as_deref(), Some("a"));
            assert_eq!(q.inner.clock.monotonic_now() - start, Duration::from_secs(10));
            q.mark_processed(&key("a"));
            assert!(q.is_idle(), "the later delay is dropped");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_beyond_the_clock_never_ends() {
        let q = queue();
        q.add_after(key("a"), Duration::MAX);
        assert_eq!(q.debug_state(1).delayed.len(), 1);
        assert_eq!(soon(&q).await, None);
    }
}
