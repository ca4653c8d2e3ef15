//! The permission to write: open while this process leads, closed otherwise.
//!
//! Every write of every controller passes one gate, in [`crate::api`], so that no code path can forget to ask. Leader election
//! opens it up to a deadline and moves the deadline with every renewal; whoever holds the gate needs no further notice
//! that the deadline has passed.
//!
//! A process that is told to stop finishes what it is doing behind an open gate. What it must not do any more is wait for
//! a better moment: [`Keeper::drain`] says so to everyone who would.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{
    clock::{Clock, Instant},
    succession::{Succession, WrittenVersions},
    watched as watch,
};

/// The state of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    /// Open for good: there is no election.
    Open,
    /// Open until `deadline`, unless moved.
    Until {
        deadline: Instant,
        /// How long the machine had been suspended when the gate was opened.
        suspended: Duration,
    },
}

impl State {
    /// How long the gate is open from now on, unless it is moved; `None` if it is open for good.
    fn remaining(self, clock: &Clock) -> Option<Duration> {
        match self {
            Self::Closed => Some(Duration::ZERO),
            Self::Open => None,
            Self::Until { deadline, suspended } => {
                let left = deadline.saturating_duration_since(clock.instant());
                Some(left.saturating_sub(clock.suspended().saturating_sub(suspended)))
            }
        }
    }

    fn is_open(self, clock: &Clock) -> bool {
        self.remaining(clock).is_none_or(|left| !left.is_zero())
    }
}

/// How it came to be open.
#[derive(Clone, Debug, Default)]
struct Opened {
    since: Option<Instant>,
    left: Option<Arc<WrittenVersions>>,
}

/// Asks whether writes are allowed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gate {
    state: watch::Receiver<State>,
    draining: watch::Receiver<bool>,
    opened: Arc<Mutex<Opened>>,
    clock: Clock,
}

/// Opens and closes a [`Gate`].
#[derive(Debug)]
pub struct Keeper {
    state: watch::Sender<State>,
    draining: watch::Sender<bool>,
    gate: Gate,
}

/// A closed gate and its keeper.
pub fn gate(clock: Clock) -> (Keeper, Gate) {
    let (open, state) = watch::channel(State::Closed);
    let (drain, draining) = watch::channel(false);
    let gate = Gate { state, draining, opened: Arc::default(), clock };
    (Keeper { state: open, draining: drain, gate: gate.clone() }, gate)
}

impl Keeper {
    /// Opens the gate for good (no leader election).
    pub fn open(&self) {
        self.note_opening();
        self.state.send_replace(State::Open);
    }

    /// Says what a predecessor has left, before the gate opens.
    pub fn inherit(&self, left: Option<WrittenVersions>) {
        self.gate.opened.lock().left = left.map(Arc::new);
    }

    /// Opens the gate until `deadline`, or moves the deadline. Time for which the machine is suspended counts, too.
    pub fn open_until(&self, deadline: Instant) {
        let suspended = self.gate.clock.suspended();
        self.note_opening();
        self.state.send_replace(State::Until { deadline, suspended });
    }

    /// Whether the deadline has passed, or nothing was opened.
    pub fn has_expired(&self) -> bool {
        !self.gate.is_open()
    }

    /// Closes the gate at once.
    pub fn close(&self) {
        self.state.send_replace(State::Closed);
        *self.gate.opened.lock() = Opened::default();
    }

    /// Ends all waiting for a better moment, now and from now on. The gate stays as it is.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    fn note_opening(&self) {
        let now = self.gate.clock.instant();
        self.gate.opened.lock().since.get_or_insert(now);
    }
}

impl Gate {
    /// Whether a write may start now.
    pub fn is_open(&self) -> bool {
        self.state.borrow().is_open(&self.clock)
    }

    /// When the gate was opened; none while it is closed. Moving its deadline does not count as opening it.
    pub fn open_since(&self) -> Option<Instant> {
        self.opened.lock().since.filter(|_| self.is_open())
    }

    /// Waits until the gate is open, and says how it came to be.
    pub async fn opened(&self) -> Succession {
        if self.state.clone().wait_for(|state| state.is_open(&self.clock)).await.is_err() {
            // Without a keeper a gate never opens again.
            std::future::pending::<()>().await;
        }
        let Opened { since, left } = self.opened.lock().clone();
        Succession { since: since.unwrap_or_else(|| self.clock.instant()), left }
    }

    /// Waits until the gate is closed, by its keeper or because its deadline has passed.
    pub async fn closed(&self) {
        let mut state = self.state.clone();
        loop {
            let now = *state.borrow_and_update();
            let changed = match now {
                State::Closed => return,
                State::Open => Ok(state.changed().await),
                State::Until { deadline, .. } => tokio::time::timeout_at(deadline, state.changed()).await,
            };
            if !matches!(changed, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// Waits until nobody is to wait for a better moment any more: what is being done is to end.
    pub async fn draining(&self) {
        if self.draining.clone().wait_for(|draining| *draining).await.is_err() {
            // A keeper that is gone without a word leaves a shut gate, see `closed`.
            std::future::pending::<()>().await;
        }
    }

    /// How long the gate stays open unless its deadline is moved; none when closed or open for good.
    pub fn remaining(&self) -> Option<Duration> {
        let state = *self.state.borrow();
        state.remaining(&self.clock).filter(|_| state != State::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_open_gate_closes_by_itself_at_its_deadline() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let (keeper, gate) = gate(clock.clone());
        assert_eq!((gate.is_open(), gate.open_since()), (false, None));
        keeper.open_until(clock.instant() + Duration::from_secs(10));
        gate.opened().await;
        let start = clock.instant();
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(gate.open_since(), Some(start));
        gate.closed().await;
        assert_eq!(clock.instant() - start, Duration::from_secs(10));
        assert_eq!((gate.is_open(), gate.open_since()), (false, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_moved_deadline_keeps_it_open() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let (keeper, gate) = gate(clock.clone());
        keeper.open_until(clock.instant() + Duration::from_secs(10));
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.closed().await }
        });
        clock.sleep(Duration::from_secs(9)).await;
        keeper.open_until(clock.instant() + Duration::from_secs(10));
        clock.sleep(Duration::from_secs(9)).await;
        assert!(gate.is_open());
        keeper.close();
        waiting.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_was_suspended_for_too_long_finds_its_gate_shut() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let (keeper, gate) = gate(clock.clone());
        clock.suspend(Duration::from_hours(1));
        keeper.open_until(clock.instant() + Duration::from_secs(10));
        assert!(gate.is_open(), "what was before counts no more");
        clock.suspend(Duration::from_secs(6));
        clock.sleep(Duration::from_secs(3)).await;
        assert_eq!((gate.is_open(), gate.remaining()), (true, Some(Duration::from_secs(1))));
        clock.suspend(Duration::from_secs(1));
        assert!(!gate.is_open() && keeper.has_expired());
    }
}
