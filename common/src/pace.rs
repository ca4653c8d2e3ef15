//! When a process sleeps so that events of watches gather.
//!
//! Most of what a watch delivers concerns objects of other controllers, and for each of these events the wake-up costs more than the
//! event. A thread that has nothing to do therefore sleeps for a moment before it waits for the network again, if the last events
//! brought no work. Whatever arrives meanwhile is handled in one wake-up.
//!
//! Whether the next event will concern this process cannot be known before it is read. What is known is whether something is expected:
//!
//! - a request, a sync or the read of a full set is under way, or a key waits for a write of this process to appear in a cache:
//!   the thread does not sleep, and an answer or an event is handled when it arrives;
//! - the last events made a worker do something: more of the kind may follow, and the thread does not sleep;
//! - no event has arrived since the thread last waited: it does not sleep, and the first event after a quiet time is handled when it
//!   arrives;
//! - a key is due soon: the thread sleeps until then at most.
//!
//! Otherwise, an event of an own object is delayed by at most the period that [`WATCH_BATCH_PERIOD`](crate::settings::WATCH_BATCH_PERIOD)
//! sets.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;

use crate::clock::Instant;

/// The pace of one process. Clones share it. The default never lets a thread sleep.
#[derive(Clone, Debug, Default)]
pub struct Pace(Option<Arc<State>>);

#[derive(Debug)]
struct State {
    period: Duration,
    /// How much own work is under way.
    works: AtomicUsize,
    /// Whether own work has begun or ended since the thread last waited.
    has_worked: AtomicBool,
    /// Whether a watch has brought something since the thread last waited.
    has_heard: AtomicBool,
    /// When the first key is due, as far as is known.
    due: Mutex<Option<Instant>>,
}

/// Own work under way, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Work(Pace);

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(state) = &self.0.0 {
            state.works.fetch_sub(1, Relaxed);
            state.has_worked.store(true, Relaxed);
        }
    }
}

impl Pace {
    /// A pace by which a thread sleeps for at most `period`; never, if that is zero.
    pub fn new(period: Duration) -> Self {
        let state = State {
            period,
            works: AtomicUsize::new(0),
            has_worked: AtomicBool::new(false),
            has_heard: AtomicBool::new(false),
            due: Mutex::new(None),
        };
        Self((!period.is_zero()).then(|| Arc::new(state)))
    }

    /// Whether a thread may ever sleep.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Something begins whose outcome this process waits for.
    pub fn work(&self) -> Work {
        if let Some(state) = &self.0 {
            state.works.fetch_add(1, Relaxed);
            state.has_worked.store(true, Relaxed);
        }
        Work(self.clone())
    }

    /// A watch has brought something.
    pub fn heard(&self) {
        if let Some(state) = &self.0 {
            state.has_heard.store(true, Relaxed);
        }
    }

    /// A worker has nothing to do until then.
    pub fn due(&self, at: Instant) {
        if let Some(state) = &self.0 {
            let mut due = state.due.lock();
            *due = Some(due.map_or(at, |known| known.min(at)));
        }
    }

    /// How long the thread sleeps before it waits for the network. Asked once whenever it has nothing left to do.
    pub fn rest(&self, now: Instant) -> Duration {
        let Some(state) = &self.0 else { return Duration::ZERO };
        let (has_heard, has_worked) = (state.has_heard.swap(false, Relaxed), state.has_worked.swap(false, Relaxed));
        let mut due = state.due.lock();
        // The worker that waits for it wakes now, and says when it is due again.
        if due.is_some_and(|at| at <= now) {
            *due = None;
            return Duration::ZERO;
        }
        if !has_heard || has_worked || state.works.load(Relaxed) > 0 {
            return Duration::ZERO;
        }
        due.map_or(state.period, |at| state.period.min(at - now))
    }
}

#[cfg(test)]
mod tests;
