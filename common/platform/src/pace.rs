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
//! Otherwise, an event of an own object is delayed by at most the period that `--tune watch-batch-period`
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

#[derive(Debug, Default)]
struct State {
    period: Duration,
    /// How much own work is under way.
    works: AtomicUsize,
    /// Whether own work has begun or ended since the thread last waited.
    has_worked: AtomicBool,
    /// Whether a watch has brought something since the thread last waited.
    has_received: AtomicBool,
    /// When the first key of each queue is due, as far as is known.
    timers: Mutex<Vec<Timer>>,
}

/// When the first key of a queue is due. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Timer(Arc<Mutex<Option<Instant>>>);

impl Timer {
    /// The queue has nothing to do until then.
    pub fn set(&self, due: Instant) {
        *self.0.lock() = Some(due);
    }
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
        let state = State { period, ..State::default() };
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
    pub fn received(&self) {
        if let Some(state) = &self.0 {
            state.has_received.store(true, Relaxed);
        }
    }

    /// A timer for one queue.
    pub fn timer(&self) -> Timer {
        let timer = Timer::default();
        if let Some(state) = &self.0 {
            state.timers.lock().push(timer.clone());
        }
        timer
    }

    /// How long the thread sleeps before it waits for the network. Asked once whenever it has nothing left to do.
    pub fn rest(&self, now: Instant) -> Duration {
        let Some(state) = &self.0 else { return Duration::ZERO };
        let (has_received, has_worked) =
            (state.has_received.swap(false, Relaxed), state.has_worked.swap(false, Relaxed));
        let (mut is_due, mut rest) = (false, state.period);
        for timer in state.timers.lock().iter() {
            let mut due = timer.0.lock();
            match *due {
                // The worker that waits for it wakes now, and sets the timer again.
                Some(at) if at <= now => (is_due, *due) = (true, None),
                Some(at) => rest = rest.min(at - now),
                None => {}
            }
        }
        let is_free = has_received && !has_worked && state.works.load(Relaxed) == 0;
        if is_free && !is_due { rest } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests;
