//! The permission to write: open while this process is the leader, closed otherwise.
//!
//! Every write of every controller passes one gate, in [`crate::api`], so that no code path can skip the check. Leader
//! election opens the gate up to a deadline and moves the deadline with every renewal. The gate closes by itself when the
//! deadline passes.
//!
//! A process that shuts down finishes its running syncs while the gate is still open. These syncs must no longer wait for
//! retries and rate limits, so [`WriteGateKeeper::end_waits`] ends all such waits.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{
    clock::{Clock, Instant},
    succession::{LeadershipStart, WrittenVersions},
    watched as watch,
};

/// Whether a gate is open, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GateState {
    Closed,
    /// Open without a deadline, because there is no leader election.
    Open,
    /// Open until `deadline`, which every renewal of the Lease moves.
    Until {
        deadline: Instant,
        /// Total time for which the machine had been suspended when the deadline was set.
        suspended: Duration,
    },
}

impl GateState {
    /// Returns the time until the gate closes; zero if the gate is closed, and `None` if it has no deadline.
    fn remaining(self, clock: &Clock) -> Option<Duration> {
        match self {
            Self::Closed => Some(Duration::ZERO),
            Self::Open => None,
            Self::Until { deadline, suspended } => {
                let left = deadline.saturating_duration_since(clock.monotonic_now());
                Some(left.saturating_sub(clock.total_suspended_time().saturating_sub(suspended)))
            }
        }
    }

    fn is_open(self, clock: &Clock) -> bool {
        self.remaining(clock).is_none_or(|left| !left.is_zero())
    }
}

/// Time at which the gate was opened, and the versions that the predecessor wrote.
#[derive(Clone, Debug, Default)]
struct GateOpening {
    since: Option<Instant>,
    left: Option<Arc<WrittenVersions>>,
}

/// The reader's half of the gate, which reports whether writes are allowed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WriteGate {
    state: watch::Receiver<GateState>,
    draining: watch::Receiver<bool>,
    opened: Arc<Mutex<GateOpening>>,
    clock: Clock,
}

/// The owner's half of a [`WriteGate`], which opens and closes the gate, and ends waits for retries and rate limits.
#[derive(Debug)]
pub struct WriteGateKeeper {
    state: watch::Sender<GateState>,
    draining: watch::Sender<bool>,
    gate: WriteGate,
}

/// Creates a closed gate, and the [`WriteGateKeeper`] that opens and closes it.
pub fn closed_write_gate(clock: Clock) -> (WriteGateKeeper, WriteGate) {
    let (open, state) = watch::channel(GateState::Closed);
    let (drain, draining) = watch::channel(false);
    let gate = WriteGate { state, draining, opened: Arc::default(), clock };
    (WriteGateKeeper { state: open, draining: drain, gate: gate.clone() }, gate)
}

impl WriteGateKeeper {
    /// Opens the gate without a deadline, for a process without leader election.
    pub fn open_without_deadline(&self) {
        self.note_opening();
        self.state.send_replace(GateState::Open);
    }

    /// Sets the versions that the predecessor wrote; `None` if they are unknown. Must be called before the gate opens.
    pub fn set_versions_written_by_predecessor(&self, versions: Option<WrittenVersions>) {
        self.gate.opened.lock().left = versions.map(Arc::new);
    }

    /// Opens the gate until `deadline`, or moves the deadline of an open gate. The time in which the machine is suspended
    /// counts, too.
    pub fn open_until(&self, deadline: Instant) {
        let suspended = self.gate.clock.total_suspended_time();
        self.note_opening();
        self.state.send_replace(GateState::Until { deadline, suspended });
    }

    /// Whether the deadline has passed, or the gate was closed or was never opened.
    pub fn is_closed(&self) -> bool {
        !self.gate.is_open()
    }

    /// Closes the gate before its deadline, and forgets the time at which the gate was opened.
    pub fn close(&self) {
        self.state.send_replace(GateState::Closed);
        *self.gate.opened.lock() = GateOpening::default();
    }

    /// Ends all waits for retries and rate limits, now and in the future. An open gate stays open.
    pub fn end_waits(&self) {
        self.draining.send_replace(true);
    }

    fn note_opening(&self) {
        let now = self.gate.clock.monotonic_now();
        self.gate.opened.lock().since.get_or_insert(now);
    }
}

impl WriteGate {
    /// Whether a write may be sent now.
    pub fn is_open(&self) -> bool {
        self.state.borrow().is_open(&self.clock)
    }

    /// Returns the time at which the gate was opened; `None` while the gate is closed. Renewals do not change the time.
    pub fn open_since(&self) -> Option<Instant> {
        self.opened.lock().since.filter(|_| self.is_open())
    }

    /// Waits until the gate is open, and returns the start of the term with the versions that the predecessor wrote.
    pub async fn wait_until_open(&self) -> LeadershipStart {
        if self.state.clone().wait_for(|state| state.is_open(&self.clock)).await.is_err() {
            // The keeper was dropped, so the gate can never open again.
            std::future::pending::<()>().await;
        }
        let GateOpening { since, left } = self.opened.lock().clone();
        LeadershipStart {
            leading_since: since.unwrap_or_else(|| self.clock.monotonic_now()),
            versions_written_by_predecessor: left,
        }
    }

    /// Waits until the keeper closes the gate or the deadline passes.
    pub async fn wait_until_closed(&self) {
        let mut state = self.state.clone();
        loop {
            let now = *state.borrow_and_update();
            let changed = match now {
                GateState::Closed => return,
                GateState::Open => Ok(state.changed().await),
                GateState::Until { deadline, .. } => tokio::time::timeout_at(deadline, state.changed()).await,
            };
            if !matches!(changed, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// Waits for [`WriteGateKeeper::end_waits`]. Afterwards, no request may wait for a retry or a rate limit.
    pub async fn wait_until_waits_must_end(&self) {
        if self.draining.clone().wait_for(|draining| *draining).await.is_err() {
            // The keeper was dropped without a call of `end_waits`. Then `wait_until_closed` ends the waits of writes.
            std::future::pending::<()>().await;
        }
    }

    /// Returns the time until the deadline; `None` if the gate is closed or has no deadline.
    pub fn time_until_deadline(&self) -> Option<Duration> {
        let state = *self.state.borrow();
        state.remaining(&self.clock).filter(|_| state != GateState::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// COMMON-44.
    #[tokio::test(start_paused = true)]
    async fn an_open_gate_closes_by_itself_at_its_deadline() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let (keeper, gate) = closed_write_gate(clock.clone());
        assert_eq!((gate.is_open(), gate.open_since()), (false, None));
        keeper.open_until(clock.monotonic_now() + Duration::from_secs(10));
        gate.wait_until_open().await;
        let start = clock.monotonic_now();
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(gate.open_since(), Some(start));
        gate.wait_until_closed().await;
        assert_eq!(clock.monotonic_now() - start, Duration::from_secs(10));
        assert_eq!((gate.is_open(), gate.open_since()), (false, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_moved_deadline_keeps_the_gate_open() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let (keeper, gate) = closed_write_gate(clock.clone());
        keeper.open_until(clock.monotonic_now() + Duration::from_secs(10));
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.wait_until_closed().await }
        });
        clock.sleep(Duration::from_secs(9)).await;
        keeper.open_until(clock.monotonic_now() + Duration::from_secs(10));
        clock.sleep(Duration::from_secs(9)).await;
        assert!(gate.is_open());
        keeper.close();
        waiting.await.unwrap();
    }

    /// COMMON-44.
    #[tokio::test(start_paused = true)]
    async fn a_suspension_of_the_machine_counts_towards_the_deadline() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let (keeper, gate) = closed_write_gate(clock.clone());
        clock.simulate_suspension(Duration::from_hours(1));
        keeper.open_until(clock.monotonic_now() + Duration::from_secs(10));
        assert!(gate.is_open(), "a suspension before the opening does not count");
        clock.simulate_suspension(Duration::from_secs(6));
        clock.sleep(Duration::from_secs(3)).await;
        assert_eq!((gate.is_open(), gate.time_until_deadline()), (true, Some(Duration::from_secs(1))));
        clock.simulate_suspension(Duration::from_secs(1));
        assert!(!gate.is_open() && keeper.is_closed());
    }
}
