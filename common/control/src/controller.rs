//! A control loop: observe, decide, act.
//!
//! [`Controller`] is the trait that a controller crate implements. [`Loop`] runs it: workers take keys from the queue, read the
//! caches into a snapshot, compute a plan, and act on the plan. Deciding has no side effects. [`Decision`] can therefore answer
//! "why" at any time: it decides again and prints the plan with the forecast of its requests. No plan has to be stored for that.
//!
//! Workers start when the gate is open, handlers have processed a first full set of every cache, and every cache shows the last
//! writes of the predecessor ([`succession`](crate::succession)).

mod differences;
mod queues;
mod worker;

use std::{future::Future, time::Duration};

use jiff::Timestamp;

pub use worker::{Decision, Loop};

use crate::{
    consistency::{Behind, Ledger},
    events::ObjectRef,
    informer::AnyInformer,
    io::{Failed, Io, Note, Requeue},
    map::HashSet,
    meta::Uid,
    object::Resource,
    queue::{Priority, QueueKey},
    store::Origin,
};

/// Limits of a remembered plan: lines of one kind, and bytes of a line.
const LINES: (usize, usize) = (20, 500);

/// The longest interval between two checks whether the caches show the writes of this process.
pub const RECHECK: Duration = Duration::from_secs(2);

/// The result of reading the caches for one key.
pub enum Observed<S> {
    /// The object no longer exists, so that there is nothing to do.
    Gone,
    /// The caches do not allow a decision yet. The key comes back with the awaited event, or after `at_most` without one.
    Waiting {
        /// Names the awaited event or condition.
        why: String,
        /// The longest wait.
        at_most: Duration,
        /// The resource whose cache does not show a write of this process yet; `None` for every other reason to wait.
        stale: Option<Resource>,
    },
    /// The snapshot from which the controller decides.
    Ready(S),
}

impl<S> Observed<S> {
    /// Creates a [`Waiting`](Self::Waiting) for any reason other than a stale cache.
    pub fn wait(why: impl Into<String>, at_most: Duration) -> Self {
        Self::Waiting { why: why.into(), at_most, stale: None }
    }

    /// Creates a [`Waiting`](Self::Waiting) until the caches show the writes in the ledger; takes the result of
    /// [`Ledger::behind`](crate::consistency::Ledger::behind).
    pub fn behind((behind, left): (Behind, Duration)) -> Self {
        let stale = if let Behind::Write { resource, .. } = behind { Some(resource) } else { None };
        Self::Waiting { why: behind.to_string(), at_most: left.min(RECHECK), stale }
    }
}

/// A readable description of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Explanation {
    /// The observed numbers, in one line.
    pub situation: String,
    /// The reasons why the object does not move on; empty if nothing is awaited.
    pub waiting: Vec<String>,
    /// The actions in order, each with its reason.
    pub actions: Vec<String>,
}

impl Explanation {
    /// Limits the number and the length of the lines. Both depend on objects that users write.
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

/// Describes a plan, except for its requests.
pub trait Explain {
    /// Returns the observed numbers, in one line.
    fn situation(&self) -> String;
    /// Returns the reasons why the object does not move on; empty if nothing is awaited.
    fn waiting(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the actions that are not requests, one a line.
    fn actions(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the delay after which the decision may change by the passing of time alone; `None` if only an event can change it.
    ///
    /// The delay counts from the snapshot. The loop brings the key back then if the sync succeeded, failed or panicked, and also
    /// in shadow mode; [`Requeue::After`] replaces the delay, and [`Retry::Stop`](crate::io::Retry::Stop) cancels it. A delay of
    /// zero is ignored: a sync whose key has to come back at once because of [`Controller::act`] returns a [`Requeue`].
    fn requeue_after(&self) -> Option<Duration> {
        None
    }
    /// Whether diagnostics remember the plan although it sends no requests.
    fn is_notable(&self) -> bool {
        false
    }
}

/// A controller, whose syncs observe, decide, and act.
pub trait Controller: Send + Sync + Sized + 'static {
    /// The key of the work queue.
    type Key: QueueKey;
    /// Everything that one sync reads from the caches.
    type Snapshot: Send + Sync;
    /// The decision, made once and before the first request.
    type Plan: Explain + Send + Sync;
    /// A change of the controller's memory that a sync asks for; [`Infallible`](std::convert::Infallible) if there is none.
    type Note: Note;
    /// Name of the metric that counts syncs postponed because of a stale cache; `None` if there is no such metric.
    const STALE_SYNC_SKIPS: Option<&'static str> = None;

    /// Reads the caches into a snapshot, without requests and without waiting.
    ///
    /// The only permitted effects are on the memory of this process, because `/debug/explain` calls this method, too.
    fn observe(&self, key: &Self::Key, now: Timestamp) -> Result<Observed<Self::Snapshot>, Failed>;
    /// Computes the plan. Pure: equal snapshots give equal plans.
    fn decide(snapshot: &Self::Snapshot) -> Self::Plan;
    /// Sends the requests of the plan. Also runs for the forecast, so that `io` is the only way to wait and to have effects.
    fn act(
        snapshot: &Self::Snapshot,
        plan: &Self::Plan,
        io: Io<'_, Self::Note>,
    ) -> impl Future<Output = Result<Requeue, Failed>> + Send;
    /// Returns the synced object: its reference for Events, and its UID, under which the ledger records own writes.
    fn object(snapshot: &Self::Snapshot) -> (ObjectRef, Uid);

    /// Applies a change of memory that a sync asks for.
    fn note(&self, _: &Self::Snapshot, _: Self::Note) {}
    /// Reads caches and memory again for a sync that has waited; `None` if nothing differs from the snapshot.
    fn observe_again(
        &self,
        _: &Self::Snapshot,
        _: <Self::Note as Note>::Question,
    ) -> Option<<Self::Note as Note>::Fresh> {
        None
    }
    /// Updates the state in memory that later snapshots depend on, such as the time at which a Pod has to leave its node.
    ///
    /// Runs before [`Controller::act`], and also in shadow mode. Sends no requests and records no Events.
    fn record(&self, _: &Self::Snapshot, _: &Self::Plan) {}
    /// Cleans up memory after a sync, whether the sync succeeded or failed.
    fn after_sync(&self, _: &Self::Snapshot) {}
    /// Returns the UIDs of the object's children in the cache. The ledger needs them when the answer to a create is lost.
    fn children(&self, _: &Self::Snapshot) -> HashSet<Uid> {
        HashSet::default()
    }
    /// Returns the ledger of own writes; `None` if the controller has no ledger.
    fn ledger(&self) -> Option<&Ledger> {
        None
    }
    /// Returns the caches that must be filled before the first sync.
    fn informers(&self) -> Vec<&dyn AnyInformer>;
    /// Is called for each sync that cannot decide yet ([`Observed::Waiting`]).
    fn waiting(&self, _: &Self::Key) {}
}

/// Number of Pods for which [`debounce`] grows by one period.
const PODS_PER_PERIOD: usize = 100;
/// Upper limit of that growth.
const MAX_PERIODS: usize = 10;

/// Returns the debounce of status changes of a set with this number of Pods: `period` for every 100 Pods, up to ten periods, and
/// none for smaller sets. The cost of a sync grows with the number of Pods, too.
pub fn debounce(period: Duration, pods: usize) -> Duration {
    // At most `MAX_PERIODS`.
    period * u32::try_from((pods / PODS_PER_PERIOD).min(MAX_PERIODS)).unwrap_or_default()
}

/// Returns the priority of a key from the origin of the event that enqueues it.
pub fn priority(origin: Origin) -> Priority {
    match origin {
        Origin::Initial | Origin::Resync => Priority::Low,
        Origin::Relist | Origin::Watch => Priority::Normal,
    }
}
