//! A control loop: observe, decide, act.
//!
//! [`Controller`] is what a controller crate implements; [`Loop`] runs it: workers take keys from the queue, read the caches
//! into a snapshot, decide purely, and carry the plan out. Because deciding is free of effects, "why" can be answered at any
//! time by deciding again and printing the plan with the forecast of its requests ([`Decision`]): nothing is stored for it.
//!
//! Workers start when the gate is open, every cache holds a first set that handlers have seen, and every cache shows what a
//! predecessor wrote last ([`succession`](crate::succession)).

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

/// How many lines of one sort a remembered plan has, and how long each is, in bytes.
const LINES: (usize, usize) = (20, 500);

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
    /// [`Controller::act`] did asks for it with [`Requeue`].
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

    /// Reads the caches. No requests, no waiting, and no effects but on what this process remembers: `/debug/explain` observes, too.
    fn observe(&self, key: &Self::Key, now: Timestamp) -> Result<Observed<Self::Snapshot>, Failed>;
    /// Decides. Pure: the same snapshot gives the same plan.
    fn decide(snapshot: &Self::Snapshot) -> Self::Plan;
    /// Carries the plan out, also in a forecast. It awaits nothing but `io`, and has no other effects than those of `io`.
    fn act(
        snapshot: &Self::Snapshot,
        plan: &Self::Plan,
        io: Io<'_, Self::Note>,
    ) -> impl Future<Output = Result<Requeue, Failed>> + Send;
    /// The object of a sync: as its Events name it, and its uid, under which the ledger keeps what was written for it.
    fn object(snapshot: &Self::Snapshot) -> (ObjectRef, Uid);

    /// Changes memory as a sync asks for it.
    fn note(&self, _: &Self::Snapshot, _: Self::Note) {}
    /// Reads caches and memory again for a sync that has waited; `None` if they say the same as the snapshot.
    fn observe_again(
        &self,
        _: &Self::Snapshot,
        _: <Self::Note as Note>::Question,
    ) -> Option<<Self::Note as Note>::Fresh> {
        None
    }
    /// Updates in-memory state that later snapshots depend on, such as the time at which a Pod has to leave its node.
    ///
    /// Runs before [`Controller::act`], and in shadow mode instead of it. Sends no requests and records no Events.
    fn record(&self, _: &Self::Snapshot, _: &Self::Plan) {}
    /// Tidies memory up after a sync, however it ended.
    fn after_sync(&self, _: &Self::Snapshot) {}
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
