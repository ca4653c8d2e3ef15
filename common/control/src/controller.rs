//! A control loop: observe, decide, act.
//!
//! [`Controller`] is the trait that a controller crate implements. [`Loop`] runs it: workers take keys from the queue, read the
//! caches into a snapshot, compute a plan, and act on the plan. Deciding has no side effects. [`Decision`] can therefore
//! explain an object at any time. It decides again, and shows the plan and the requests that a sync would send.
//!
//! Workers start when the gate is open, that is, when this process may write. Before that, handlers must have processed the
//! first list of every cache, and every cache must show the last writes of the previous leader
//! ([`succession`](crate::succession)).

mod differences;
mod queues;
mod worker;

use std::{future::Future, time::Duration};

use jiff::Timestamp;

pub use worker::{Decision, Loop};

use crate::{
    consistency::{Ledger, UnseenWrite},
    events::InvolvedObject,
    informer::AnyInformer,
    io::{Io, MemoryNote, Requeue, SyncError},
    map::HashSet,
    meta::Uid,
    object::Resource,
    queue::{Priority, QueueKey},
    store::ChangeOrigin,
};

/// Limits on the text of a plan that is kept for diagnostics: the lines in each list, and the bytes in each line.
const PLAN_TEXT_LIMITS: (usize, usize) = (20, 500);

/// The longest delay between two checks of the caches by a sync that waits for them to show this process's writes.
pub const STALE_CACHE_RECHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The result of reading the caches for one key.
pub enum Observation<S> {
    /// The object no longer exists; there is nothing to do.
    Gone,
    /// The caches do not allow a decision yet. The awaited event enqueues the key; without the event, the key comes back after
    /// `max_wait`.
    Waiting {
        /// The event or state for which the sync waits, in words for diagnostics.
        why: String,
        /// The delay after which the key comes back if the awaited event has not enqueued it.
        max_wait: Duration,
        /// The resource of the cache that does not show a write of this process yet; `None` for every other reason to wait.
        stale_resource: Option<Resource>,
    },
    /// The snapshot from which the controller decides.
    Ready(S),
}

impl<S> Observation<S> {
    /// Creates a [`Waiting`](Self::Waiting) for any reason other than a stale cache.
    pub fn waiting_because(why: impl Into<String>, at_most: Duration) -> Self {
        Self::Waiting { why: why.into(), max_wait: at_most, stale_resource: None }
    }

    /// Creates a [`Waiting`](Self::Waiting) that lasts until the caches show the writes of this process. The argument is the
    /// result of [`Ledger::first_unseen_write`](crate::consistency::Ledger::first_unseen_write).
    pub fn waiting_for_own_writes((behind, left): (UnseenWrite, Duration)) -> Self {
        let why = behind.to_string();
        let stale = if let UnseenWrite::VersionNotReached { resource, .. } = behind { Some(resource) } else { None };
        Self::Waiting { why, max_wait: left.min(STALE_CACHE_RECHECK_INTERVAL), stale_resource: stale }
    }
}

/// The description of a plan and its requests, as `/debug/explain` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Explanation {
    /// The observed state in one line, such as the counts of desired and of ready Pods.
    pub situation: String,
    /// The reasons why the object makes no progress; empty if it waits for nothing.
    pub waiting: Vec<String>,
    /// The actions in order, each with its reason.
    pub actions: Vec<String>,
}

impl Explanation {
    /// Limits the count and the length of the lines, because the objects of users determine both.
    fn with_bounded_text(mut self) -> Self {
        let (count, length) = PLAN_TEXT_LIMITS;
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

/// The texts with which `/debug/explain` describes a plan.
pub trait ExplainPlan {
    /// Returns the observed state in one line, such as the counts of desired and of ready Pods.
    fn situation(&self) -> String;
    /// Returns the reasons why the object makes no progress; empty if it waits for nothing.
    fn wait_reasons(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the actions of the plan that are not requests, one per line.
    fn actions(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the delay after which the decision may change without an event; `None` if only an event can change it.
    ///
    /// The delay counts from the snapshot. The loop then enqueues the key, whether the sync succeeded, failed or panicked, and
    /// also in shadow mode. [`Requeue::After`] replaces the delay, and [`RetryPolicy::Never`](crate::io::RetryPolicy::Never)
    /// cancels it. A delay of zero is ignored; to bring the key back at once, [`Controller::act`] returns a [`Requeue`].
    fn requeue_after(&self) -> Option<Duration> {
        None
    }
    /// Whether diagnostics remember the plan even if its sync sends no requests.
    fn is_notable(&self) -> bool {
        false
    }
}

/// The logic of one control loop. Each sync of a key observes, decides, and acts.
pub trait Controller: Send + Sync + Sized + 'static {
    /// The subject of a sync, as a key of the work queue; in most loops the namespace and the name of an object.
    type Key: QueueKey;
    /// Everything that one sync reads from the caches.
    type Snapshot: Send + Sync;
    /// The decision of a sync, made before its first request.
    type Plan: ExplainPlan + Send + Sync;
    /// A change of the controller's memory that a sync asks for; [`Infallible`](std::convert::Infallible) if syncs never ask
    /// for a change.
    type Note: MemoryNote;
    /// Name of the metric that counts the syncs postponed because of a stale cache; `None` if these syncs are not counted.
    const STALE_SYNC_SKIPS: Option<&'static str> = None;

    /// Reads the caches into a snapshot, without requests and without waiting.
    ///
    /// The only permitted effects are on the memory of this process, because `/debug/explain` calls this method, too.
    fn observe(&self, key: &Self::Key, now: Timestamp) -> Result<Observation<Self::Snapshot>, SyncError>;
    /// Computes the plan from the snapshot alone, so equal snapshots give equal plans.
    fn decide(snapshot: &Self::Snapshot) -> Self::Plan;
    /// Sends the requests of the plan. A forecast runs this method without a server, so it must wait and act only through `io`.
    fn act(
        snapshot: &Self::Snapshot,
        plan: &Self::Plan,
        io: Io<'_, Self::Note>,
    ) -> impl Future<Output = Result<Requeue, SyncError>> + Send;
    /// Returns the reference to the synced object for Events, and the UID under which the ledger records the sync's writes.
    fn synced_object(snapshot: &Self::Snapshot) -> (InvolvedObject, Uid);

    /// Changes the controller's memory as a sync asks. The default does nothing.
    fn apply_memory_note(&self, _: &Self::Snapshot, _: Self::Note) {}
    /// Reads caches and memory again for a sync that has waited; `None` if nothing differs from the snapshot.
    fn observe_again(
        &self,
        _: &Self::Snapshot,
        _: <Self::Note as MemoryNote>::Query,
    ) -> Option<<Self::Note as MemoryNote>::NewState> {
        None
    }
    /// Updates the state in memory that later snapshots use, such as the time at which a Pod has to leave its node.
    ///
    /// The loop calls this method before [`Controller::act`], and also in shadow mode. It must not send requests or record
    /// Events.
    fn record_plan(&self, _: &Self::Snapshot, _: &Self::Plan) {}
    /// Cleans up the controller's memory after a sync, whether the sync succeeded or failed. Does nothing by default.
    fn after_sync(&self, _: &Self::Snapshot) {}
    /// Returns the UIDs of the object's children in the cache. The ledger needs them if a create request gets no answer.
    fn child_uids(&self, _: &Self::Snapshot) -> HashSet<Uid> {
        HashSet::default()
    }
    /// Returns the record of this process's writes that the caches do not show yet; `None` if the controller has no ledger.
    fn ledger(&self) -> Option<&Ledger> {
        None
    }
    /// Returns the caches that must be filled before the first sync.
    fn informers(&self) -> Vec<&dyn AnyInformer>;
    /// Is called for each sync that cannot decide yet ([`Observation::Waiting`]).
    fn on_waiting(&self, _: &Self::Key) {}
}

/// The count of Pods that lengthens [`debounce_for_pods`] by one period.
const PODS_PER_DEBOUNCE_PERIOD: usize = 100;
/// The upper limit of the delay that [`debounce_for_pods`] returns, in periods.
const MAX_DEBOUNCE_PERIODS: usize = 10;

/// Returns the delay of a sync after a status change, so that one sync handles several changes. It is `period` for every 100
/// Pods of the object, at most ten periods, and zero below 100 Pods. The cost of a sync grows with the count of Pods.
pub fn debounce_for_pods(period: Duration, pods: usize) -> Duration {
    // The count of periods is at most `MAX_DEBOUNCE_PERIODS`, so the conversion cannot fail.
    period * u32::try_from((pods / PODS_PER_DEBOUNCE_PERIOD).min(MAX_DEBOUNCE_PERIODS)).unwrap_or_default()
}

/// Returns [`Priority::Low`] for keys of a first list or a resync, [`Priority::Normal`] for keys of a relist or a watch.
pub fn priority_of_origin(origin: ChangeOrigin) -> Priority {
    match origin {
        ChangeOrigin::Initial | ChangeOrigin::Resync => Priority::Low,
        ChangeOrigin::Relist | ChangeOrigin::Watch => Priority::Normal,
    }
}
