//! The permission to write: given while this process is the leader, refused otherwise.
//!
//! Every write of every controller passes one gate, in [`crate::api`], so that no code path can skip the check. Leader
//! election opens the gate up to a deadline and moves the deadline with every renewal. The gate closes by itself when the
//! deadline passes.
//!
//! A leader that writes nothing renews its Lease so rarely that its gate is often closed. The first write then waits for a
//! renewal, which it requests: see [`WriteGate::wait_for_permission`]. Leadership itself ends only when the keeper closes the
//! gate.
//!
//! A process that shuts down finishes its running syncs while the gate is still open. These syncs must no longer wait for
//! retries and rate limits, so [`WriteGateKeeper::end_waits`] ends all such waits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    clock::{Clock, Instant},
    succession::{LeadershipStart, WrittenVersions},
    watched as watch,
};

/// The part of the time between an opening of the gate and its deadline in which no write begins, as a divisor. A write that is
/// in flight at the deadline is given up, although it may take effect.
const LAST_PART: u32 = 5;

/// Whether a gate is open, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GateState {
    /// This process does not lead.
    Closed,
    /// Open without a deadline, because there is no leader election.
    Open,
    /// This process leads, and may write until `deadline`, which every renewal of the Lease moves.
    Until {
        deadline: Instant,
        /// Time before the deadline in which no write begins.
        margin: Duration,
        /// Total time for which the machine had been suspended when the deadline was set.
        suspended: Duration,
        /// Since when the gate has been open without a break.
        open_since: Instant,
    },
}

impl GateState {
    /// Returns the time until the gate closes; zero if the gate is closed, and `None` if it has no deadline.
    fn remaining(self, clock: &Clock) -> Option<Duration> {
        match self {
            Self::Closed => Some(Duration::ZERO),
            Self::Open => None,
            Self::Until { deadline, suspended, .. } => {
                let left = deadline.saturating_duration_since(clock.monotonic_now());
                Some(left.saturating_sub(clock.total_suspended_time().saturating_sub(suspended)))
            }
        }
    }

    fn is_open(self, clock: &Clock) -> bool {
        self.remaining(clock).is_none_or(|left| !left.is_zero())
    }

    /// Whether a write may begin: the gate is open, and its deadline is not near.
    fn admits_new_write(self, clock: &Clock) -> bool {
        match self {
            Self::Until { margin, .. } => self.remaining(clock).is_none_or(|left| left > margin),
            Self::Closed | Self::Open => self.is_open(clock),
        }
    }
}

/// Time at which the gate was opened, and the versions that the predecessor wrote.
#[derive(Clone, Debug, Default)]
struct GateOpening {
    since: Option<Instant>,
    left: Option<Arc<WrittenVersions>>,
}

/// The demand for the gate, which decides how often the Lease is renewed.
#[derive(Debug, Default)]
struct WriteDemand {
    /// Whether a write has asked for permission since [`WriteGateKeeper::clear_write_demand`].
    has_writes: AtomicBool,
    /// Count of writes in flight.
    in_flight: AtomicUsize,
    /// Is notified when `has_writes` becomes true, and when a write waits for a renewal.
    notify: Notify,
}

/// The demand of one write in flight, or of a sync that writes. The leader renews its Lease for as long as it exists.
#[derive(Debug)]
#[must_use = "the permit must live as long as the write is in flight"]
pub struct WritePermit(Arc<WriteDemand>);

/// The time at which the objects were read from which a write follows.
#[derive(Clone, Copy, Debug)]
pub struct DecisionTime {
    at: Instant,
    /// Total time for which the machine had been suspended until then.
    suspended: Duration,
}

/// Why a write may not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WithheldWrite {
    /// This process does not lead, or no longer.
    #[error("not the leader")]
    NotLeader,
    /// The process was paused, or could not renew its Lease, since the write was decided on. The caches may have changed.
    #[error("the decision is from before a pause of this process")]
    OldDecision,
}

impl Drop for WritePermit {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The reader's half of the gate, which reports whether writes are allowed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WriteGate {
    state: watch::Receiver<GateState>,
    draining: watch::Receiver<bool>,
    opened: Arc<Mutex<GateOpening>>,
    demand: Arc<WriteDemand>,
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
    let gate = WriteGate { state, draining, opened: Arc::default(), demand: Arc::default(), clock };
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

    /// Opens the gate until `deadline`, or moves the deadline. The time in which the machine is suspended counts, too.
    pub fn open_until(&self, deadline: Instant) {
        let clock = &self.gate.clock;
        let suspended = clock.total_suspended_time();
        let now = clock.monotonic_now();
        let margin = deadline.saturating_duration_since(now) / LAST_PART;
        self.note_opening();
        self.state.send_modify(|state| {
            let open_since = match *state {
                GateState::Until { open_since, .. } if state.is_open(clock) => open_since,
                _ => now,
            };
            *state = GateState::Until { deadline, margin, suspended, open_since };
        });
    }

    /// Whether no write may begin now, so that a write waits for a renewal.
    pub fn needs_renewal(&self) -> bool {
        !self.state.borrow().admits_new_write(&self.gate.clock)
    }

    /// Forgets the writes that have asked for permission so far. Writes in flight still count.
    pub fn clear_write_demand(&self) {
        self.gate.demand.has_writes.store(false, Ordering::Relaxed);
    }

    /// Whether a write is in flight, or has asked for permission since the last [`WriteGateKeeper::clear_write_demand`].
    pub fn has_write_demand(&self) -> bool {
        let WriteDemand { has_writes, in_flight, .. } = &*self.gate.demand;
        has_writes.load(Ordering::Relaxed) || in_flight.load(Ordering::Relaxed) > 0
    }

    /// Waits for the first write since the last [`WriteGateKeeper::clear_write_demand`]. Cancel safe; for one task only.
    pub async fn wait_for_write_demand(&self) {
        self.gate.demand.notify.notified().await;
    }

    /// Ends leadership: closes the gate, and forgets the time at which it was opened.
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
    /// Whether a write in flight may go on. Between two renewals of an idle leader, the gate is closed.
    pub fn is_open(&self) -> bool {
        self.state.borrow().is_open(&self.clock)
    }

    /// Whether this process leads, although its gate may be closed until the next renewal.
    pub fn is_leading(&self) -> bool {
        *self.state.borrow() != GateState::Closed
    }

    /// Returns the time of a decision that is made now.
    pub fn decision_time(&self) -> DecisionTime {
        DecisionTime { at: self.clock.monotonic_now(), suspended: self.clock.total_suspended_time() }
    }

    /// Announces writes, so that the gate stays open until the returned permit is dropped, unless the Lease cannot be renewed.
    pub fn announce_writes(&self) -> WritePermit {
        self.demand.in_flight.fetch_add(1, Ordering::Relaxed);
        if !self.demand.has_writes.swap(true, Ordering::Relaxed) {
            self.demand.notify.notify_one();
        }
        WritePermit(Arc::clone(&self.demand))
    }

    /// Waits until a write may begin, and returns its permit.
    ///
    /// A leader's write that finds the deadline passed or near requests a renewal and waits for it. A write with a
    /// `decision_time` is withheld if the gate was closed since, and if the decision is older than the time for which a renewal of the
    /// Lease opens the gate.
    pub async fn wait_for_permission(&self, decision_time: Option<DecisionTime>) -> Result<WritePermit, WithheldWrite> {
        let mut state = self.state.clone();
        let permit = self.announce_writes();
        loop {
            let now = *state.borrow_and_update();
            match now {
                GateState::Closed => return Err(WithheldWrite::NotLeader),
                GateState::Open => return Ok(permit),
                GateState::Until { margin, open_since, .. } if now.admits_new_write(&self.clock) => {
                    let is_old = |DecisionTime { at, suspended }| {
                        let asleep = self.clock.total_suspended_time().saturating_sub(suspended);
                        let age = self.clock.monotonic_now().saturating_duration_since(at) + asleep;
                        open_since > at && age > margin * LAST_PART
                    };
                    return if decision_time.is_some_and(is_old) {
                        Err(WithheldWrite::OldDecision)
                    } else {
                        Ok(permit)
                    };
                }
                GateState::Until { .. } => {
                    self.demand.has_writes.store(true, Ordering::Relaxed);
                    self.demand.notify.notify_one();
                }
            }
            state.changed().await.map_err(|_| WithheldWrite::NotLeader)?;
        }
    }

    /// Returns the time at which this process began to lead; `None` if it does not lead. Renewals do not change the time.
    pub fn leading_since(&self) -> Option<Instant> {
        self.opened.lock().since.filter(|_| self.is_leading())
    }

    /// Waits until this process leads, and returns the start of the term with the versions that the predecessor wrote.
    pub async fn wait_until_leading(&self) -> LeadershipStart {
        if self.state.clone().wait_for(|state| *state != GateState::Closed).await.is_err() {
            // The keeper was dropped, so the gate can never open again.
            std::future::pending::<()>().await;
        }
        let GateOpening { since, left } = self.opened.lock().clone();
        LeadershipStart {
            leading_since: since.unwrap_or_else(|| self.clock.monotonic_now()),
            versions_written_by_predecessor: left,
        }
    }

    /// Waits until this process no longer leads.
    pub async fn wait_until_leadership_ends(&self) {
        // Without a keeper, the gate cannot open again.
        let _ = self.state.clone().wait_for(|state| *state == GateState::Closed).await;
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
            // The keeper was dropped without a call of `end_waits`. Then the end of leadership ends the waits of writes.
            std::future::pending::<()>().await;
        }
    }

    /// Returns the time until the deadline; `None` if this process does not lead, or there is no deadline.
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
        assert_eq!((gate.is_open(), gate.leading_since()), (false, None));
        keeper.open_until(clock.monotonic_now() + Duration::from_secs(10));
        gate.wait_until_leading().await;
        let start = clock.monotonic_now();
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(gate.leading_since(), Some(start));
        gate.wait_until_closed().await;
        assert_eq!(clock.monotonic_now() - start, Duration::from_secs(10));
        assert_eq!((gate.is_open(), gate.leading_since()), (false, Some(start)), "the process still leads");
        keeper.close();
        assert_eq!((gate.is_leading(), gate.leading_since()), (false, None));
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
        assert!(!gate.is_open() && keeper.needs_renewal());
    }

    /// COMMON-44.
    #[tokio::test(start_paused = true)]
    async fn a_write_of_an_idle_leader_waits_for_the_renewal_that_it_requests() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let (keeper, gate) = closed_write_gate(clock.clone());
        assert_eq!(
            gate.wait_for_permission(None).await.err(),
            Some(WithheldWrite::NotLeader),
            "a standby does not wait"
        );
        keeper.open_until(clock.monotonic_now() + Duration::from_secs(10));
        assert!(gate.wait_for_permission(None).await.is_ok() && keeper.has_write_demand());
        keeper.clear_write_demand();
        assert!(!keeper.has_write_demand());
        keeper.wait_for_write_demand().await;
        // Within the last two seconds, no write begins.
        clock.sleep(Duration::from_secs(8)).await;
        assert!(gate.is_open() && keeper.needs_renewal());
        let request = || {
            tokio::spawn({
                let gate = gate.clone();
                async move { gate.wait_for_permission(None).await }
            })
        };
        let waiting = request();
        keeper.wait_for_write_demand().await;
        clock.sleep(Duration::from_secs(5)).await;
        assert!(!waiting.is_finished());
        keeper.open_until(clock.monotonic_now() + Duration::from_secs(10));
        let permit = waiting.await.unwrap();
        keeper.clear_write_demand();
        assert!(permit.is_ok() && keeper.has_write_demand(), "a write in flight");
        drop(permit);
        assert!(!keeper.has_write_demand());
        clock.sleep(Duration::from_secs(20)).await;
        let waiting = request();
        keeper.wait_for_write_demand().await;
        keeper.close();
        assert!(waiting.await.unwrap().is_err(), "the Lease is lost");
    }

    /// COMMON-44.
    #[tokio::test(start_paused = true)]
    async fn a_write_is_withheld_if_the_gate_was_closed_since_an_old_decision() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let (keeper, gate) = closed_write_gate(clock.clone());
        let open = || keeper.open_until(clock.monotonic_now() + Duration::from_secs(10));
        let second = Duration::from_secs(1);
        // How often the Lease is renewed, after how much time asleep; and whether the write may begin.
        for (renewals, period, suspension, may_write) in [
            (20, second * 7, Duration::ZERO, true), // a long sync
            (1, second * 9, Duration::ZERO, true),
            (1, second * 11, Duration::ZERO, false),
            (2, second * 6, second * 5, false),
        ] {
            open();
            let decided = gate.decision_time();
            for _ in 0..renewals {
                clock.sleep(period).await;
                clock.simulate_suspension(suspension);
                open();
            }
            let permit = gate.wait_for_permission(Some(decided)).await;
            assert_eq!(permit.err(), (!may_write).then_some(WithheldWrite::OldDecision), "{renewals} {period:?}");
            assert!(gate.wait_for_permission(None).await.is_ok());
        }
    }
}
