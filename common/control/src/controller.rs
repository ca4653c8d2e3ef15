//! A control loop: observe, decide, act.
//!
//! [`Controller`] is the trait that a controller crate implements. [`Loop`] runs it: workers take keys from the queue, read the
//! caches into a snapshot, compute a plan, and act on the plan. Deciding has no side effects. [`Decision`] can therefore
//! explain an object at any time. It decides again, and shows the plan and the requests that a sync would send.
//!
//! Workers start when the gate is open, that is, when this process may write. Before that, handlers must have processed the
//! first list of every cache, and every cache must show the last writes of the previous leader
//! ([`succession`](crate::succession)).

mod consumer;
mod differences;
mod queues;
mod worker;

use std::{future::Future, time::Duration};

use jiff::Timestamp;

pub use consumer::{KeyHandler, QueueConsumer};
pub use worker::{Decision, Loop};

use crate::{
    consistency::{LedgerOwner, PendingWrites, ReadError},
    events::InvolvedObject,
    io::{Io, Requeue, SyncError},
    map::HashSet,
    meta::Uid,
    object::{CachedObjectError, Resource},
    queue::QueueKey,
    runtime::LoopInformer,
};

/// Limits on the text of a plan that is kept for diagnostics: the lines in each list, and the bytes in each line.
const PLAN_TEXT_LIMITS: (usize, usize) = (20, 500);

/// The reason why a key has no snapshot, so that its sync decides nothing.
#[derive(Debug)]
pub enum NoSnapshot {
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
    /// The caches cannot be read, for example because an object cannot be decoded.
    Failed(SyncError),
}

impl NoSnapshot {
    /// Creates a [`Waiting`](Self::Waiting) for any reason other than a stale cache.
    pub fn waiting_because(why: impl Into<String>, max_wait: Duration) -> Self {
        Self::Waiting { why: why.into(), max_wait, stale_resource: None }
    }
}

impl From<ReadError> for NoSnapshot {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Gone => Self::Gone,
            ReadError::Pending(PendingWrites { description, max_wait, stale_resource }) => {
                Self::Waiting { why: description, max_wait, stale_resource }
            }
            ReadError::Unreadable(error) => error.into(),
        }
    }
}

impl From<SyncError> for NoSnapshot {
    fn from(error: SyncError) -> Self {
        Self::Failed(error)
    }
}

impl From<CachedObjectError> for NoSnapshot {
    fn from(error: CachedObjectError) -> Self {
        Self::Failed(error.into())
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

/// The decision of a sync: when the next sync is due, and the texts with which `/debug/explain` describes the decision.
///
/// The requests of the plan are not among its texts, because [`Controller::act`] shows them when it runs as a forecast.
pub trait SyncPlan {
    /// Returns the delay after which the decision may change without an event; `None` if only an event can change it.
    ///
    /// The delay counts from the snapshot. The loop then enqueues the key, whether the sync succeeded, failed or panicked, and
    /// also in shadow mode. [`Requeue::After`] replaces the delay, and [`RetryPolicy::Never`](crate::io::RetryPolicy::Never)
    /// cancels it. A delay of zero is ignored; to bring the key back at once, [`Controller::act`] returns a [`Requeue`].
    fn requeue_after(&self) -> Option<Duration> {
        None
    }
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
    /// Whether the plan counts as an action, in diagnostics and in shadow mode, even if its sync sends no requests.
    fn is_notable(&self) -> bool {
        false
    }
}

/// A plan that has nothing but texts. The answers of the server decide what the sync does.
impl SyncPlan for Explanation {
    fn situation(&self) -> String {
        self.situation.clone()
    }

    fn wait_reasons(&self) -> Vec<String> {
        self.waiting.clone()
    }

    fn actions(&self) -> Vec<String> {
        self.actions.clone()
    }
}

/// The logic of one control loop.
///
/// # Flow
///
/// A worker takes a key from the queue. [`observe`](Self::observe) reads the caches into a snapshot, [`decide`](Self::decide)
/// computes the plan, and [`act`](Self::act) sends the requests of the plan. `act` runs twice: first as a forecast, whose requests
/// appear in `/debug/explain`, and then against the API server. A forecast without requests and effects ends the sync.
///
/// # Guarantees
///
/// - Only one worker syncs a key at a time, and only while this process leads.
/// - No sync runs before the informers of the [`LoopContext`](crate::runtime::LoopContext) are filled and show the last writes of
///   the previous leader.
/// - A key comes back after its back-off if its sync fails or panics. Other keys are not affected.
///
/// # Assumptions
///
/// - `decide` is a function of the snapshot alone: no clock, no randomness, no hash order.
/// - `act` has no `self`. It awaits only its [`Io`], and changes the controller's memory only in closures of
///   [`Io::update_memory`], which a forecast does not call.
/// - `observe` sends and starts nothing, because `/debug/explain` calls it, too. It may remember what a sync awaits, update indexes
///   that follow from the caches, and ask pure functions of the deciding half which objects it has to read.
///
/// # Errors
///
/// `observe` returns the reason why there is no snapshot ([`NoSnapshot`]). `act` returns a [`SyncError`], whose
/// [`RetryPolicy`](crate::io::RetryPolicy) determines when the key comes back.
///
/// The documentation of the crate `common` has a whole loop as an example.
pub trait Controller: Send + Sync + Sized + 'static {
    /// The subject of a sync, as a key of the work queue; in most loops the namespace and the name of an object.
    type Key: QueueKey;
    /// Everything that one sync reads from the caches.
    type Snapshot: Send + Sync;
    /// The decision of a sync, made before its first request.
    type Plan: SyncPlan + Send + Sync;
    /// Name of the metric that counts the syncs postponed because of a stale cache; `None` if these syncs are not counted.
    const STALE_SYNC_SKIPS: Option<&'static str> = None;

    /// Reads the caches into a snapshot, without requests and without waiting.
    ///
    /// # Errors
    /// If the object does not exist, if the caches do not allow a decision yet, or if they cannot be read.
    fn observe(&self, key: &Self::Key, now: Timestamp) -> Result<Self::Snapshot, NoSnapshot>;
    /// Computes the plan from the snapshot alone, so equal snapshots give equal plans.
    fn decide(snapshot: &Self::Snapshot) -> Self::Plan;
    /// Sends the requests of the plan, and returns when the key comes back.
    fn act(
        snapshot: &Self::Snapshot,
        plan: &Self::Plan,
        io: Io<'_, Self>,
    ) -> impl Future<Output = Result<Requeue, SyncError>> + Send;

    /// Returns the reference to the synced object for Events; by default an empty one, for a loop without Events.
    fn object(_: &Self::Snapshot) -> InvolvedObject {
        InvolvedObject::default()
    }
    /// Returns the owner under which the ledger records the writes of a sync; by default the UID of [`Self::object`].
    fn ledger_owner(snapshot: &Self::Snapshot) -> LedgerOwner {
        LedgerOwner::Object(Self::object(snapshot).uid)
    }
    /// Returns the UIDs of the object's children in the cache. The ledger needs them if a create request gets no answer.
    fn child_uids(&self, _: &Self::Snapshot) -> HashSet<Uid> {
        HashSet::default()
    }
    /// Updates the state in memory that later snapshots use, such as the time at which a Pod has to leave its node.
    ///
    /// The loop calls this method before [`Controller::act`], and also in shadow mode. It must not write or record
    /// Events, but may start an informer.
    fn record_plan(&self, _: &Self::Snapshot, _: &Self::Plan) {}
    /// Checks what the loop needs besides its caches, such as a file, for the readiness of the process. The error is one line.
    fn check_ready(&self) -> Result<(), String> {
        Ok(())
    }
    /// Describes a problem that does not make the process unready, in one line for diagnostics; `None` without a problem.
    fn problem(&self) -> Option<String> {
        None
    }
    /// Returns informers that start and end while the loop runs. Workers do not wait for their first lists. Only a new leader
    /// waits, up to five seconds, until these caches show what the server had when the term began.
    fn optional_informers(&self) -> Vec<LoopInformer> {
        Vec::new()
    }
    /// Cleans up the controller's memory after a sync, whether the sync succeeded or failed. Does nothing by default.
    fn after_sync(&self, _: &Self::Snapshot) {}
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
