//! Decides when a thread sleeps so that events of watches accumulate.
//!
//! Most events of a watch concern objects of other controllers, and the wake-up for such an event costs more than the event
//! itself. Therefore, if the last events caused no work, an idle thread sleeps for a moment before it waits for the network
//! again. One wake-up then handles all events that arrived in the meantime.
//!
//! Whether the next event concerns this process is known only after the event has been read. But the process knows whether it
//! expects something:
//!
//! - A request, a sync or the read of a list is under way, or a key waits for a write of this process to appear in a cache:
//!   the thread does not sleep, and an answer or an event is handled on arrival.
//! - Many requests are in flight at the same time: the thread sleeps for a few milliseconds, so that the answers of some requests
//!   and the events of their objects are handled together.
//! - The last events caused a worker to do something: more such events may follow, and the thread does not sleep.
//! - No event has arrived since the thread last waited: the thread does not sleep, and the first event after a quiet time is
//!   handled on arrival.
//! - The delay of a key ends before the period does: the thread sleeps until the end of the delay at most.
//!
//! In all other cases, an event of an object that concerns this process is delayed by at most the period that
//! `--tune watch-batch-period` sets.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;

use crate::clock::Instant;

/// Minimum number of requests in flight at which the thread sleeps between answers. So many requests keep the server busy for
/// longer than [`ANSWER_PERIOD`], and no single answer starts the next request.
const MANY_REQUESTS: usize = 8;
/// Longest sleep between the answers of many requests.
const ANSWER_PERIOD: Duration = Duration::from_millis(4);

/// Decides how long the thread of a process sleeps. Clones share their state. With the default, the thread never sleeps.
#[derive(Clone, Debug, Default)]
pub struct Pace(Option<Arc<State>>);

#[derive(Debug, Default)]
struct State {
    period: Duration,
    /// Number of [`WorkGuard`] guards that exist.
    works: AtomicUsize,
    /// Number of [`RequestGuard`] guards that exist.
    requests: AtomicUsize,
    /// Whether work of this process has begun or ended since the thread last waited.
    has_worked: AtomicBool,
    /// Whether a watch has received anything since the thread last waited.
    has_received: AtomicBool,
    /// One timer for each queue, from [`Pace::add_queue_timer`].
    timers: Mutex<Vec<QueueTimer>>,
}

/// The earliest time at which the delay of a key in one queue ends; unknown by default. Clones share the time.
#[derive(Clone, Debug, Default)]
pub struct QueueTimer(Arc<Mutex<Option<Instant>>>);

impl QueueTimer {
    /// Sets the time until which the queue has nothing to do.
    pub fn set(&self, due: Instant) {
        *self.0.lock() = Some(due);
    }
}

/// Guard for a request, which counts as in flight until the guard is dropped. Created by [`Pace::begin_request`].
#[derive(Debug)]
#[must_use]
pub struct RequestGuard(Pace);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if let Some(state) = &self.0.0 {
            state.requests.fetch_sub(1, Relaxed);
        }
    }
}

/// Guard for work that is under way: the thread does not sleep until the guard is dropped.
#[derive(Debug)]
#[must_use]
pub struct WorkGuard(Pace);

impl Drop for WorkGuard {
    fn drop(&mut self) {
        if let Some(state) = &self.0.0 {
            state.works.fetch_sub(1, Relaxed);
            state.has_worked.store(true, Relaxed);
        }
    }
}

impl Pace {
    /// Creates a pace at which the thread sleeps for at most `period`, or never if `period` is zero.
    pub fn new(period: Duration) -> Self {
        let state = State { period, ..State::default() };
        Self((!period.is_zero()).then(|| Arc::new(state)))
    }

    /// Whether the thread ever sleeps, which requires a period above zero.
    pub fn allows_sleep(&self) -> bool {
        self.0.is_some()
    }

    /// Marks the start of an operation with a result that this process awaits. The operation ends when the guard is dropped.
    pub fn begin_work(&self) -> WorkGuard {
        if let Some(state) = &self.0 {
            state.works.fetch_add(1, Relaxed);
            state.has_worked.store(true, Relaxed);
        }
        WorkGuard(self.clone())
    }

    /// Counts a request as in flight until the guard is dropped.
    pub fn begin_request(&self) -> RequestGuard {
        if let Some(state) = &self.0 {
            state.requests.fetch_add(1, Relaxed);
        }
        RequestGuard(self.clone())
    }

    /// Records that a watch has received data since the thread last waited.
    pub fn record_watch_data(&self) {
        if let Some(state) = &self.0 {
            state.has_received.store(true, Relaxed);
        }
    }

    /// Creates the timer of a queue. A timer that is not set does not limit the sleep.
    pub fn add_queue_timer(&self) -> QueueTimer {
        let timer = QueueTimer::default();
        if let Some(state) = &self.0 {
            state.timers.lock().push(timer.clone());
        }
        timer
    }

    /// Returns the time to sleep before the thread waits for the network. Called once each time the thread becomes idle.
    pub fn next_sleep_duration(&self, now: Instant) -> Duration {
        let Some(state) = &self.0 else { return Duration::ZERO };
        let (has_received, has_worked) =
            (state.has_received.swap(false, Relaxed), state.has_worked.swap(false, Relaxed));
        let (mut is_due, mut rest) = (false, state.period);
        for timer in state.timers.lock().iter() {
            let mut due = timer.0.lock();
            match *due {
                // The worker that waits for this key wakes up now, and sets the timer again.
                Some(at) if at <= now => (is_due, *due) = (true, None),
                Some(at) => rest = rest.min(at - now),
                None => {}
            }
        }
        let is_free = has_received && !has_worked && state.works.load(Relaxed) == 0;
        let has_many_requests = state.requests.load(Relaxed) >= MANY_REQUESTS;
        match (is_due, is_free, has_many_requests) {
            (false, true, _) => rest,
            (false, false, true) => rest.min(ANSWER_PERIOD),
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests;
