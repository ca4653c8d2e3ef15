//! Takes, renews and releases a Lease, so that one process writes at a time.
//!
//! ```text
//!             watches the Lease, and takes it when it is released or expires
//!  candidate ────────────────────────────────────────────► leader ── renews after 8 s, or, idle and alone, 45 s ─┐
//!      ▲                                                     │  ▲────────────────────────────────────────────────┘
//!      └── (never: a process that lost its Lease ends) ◄─────┘ 10 s of failed renewals
//! ```
//! [`step`] decides which requests one attempt sends; this module waits, sends the requests, and moves the [`gate`](crate::gate).
//! A candidate that finds no Lease creates it *held*: no process leads until an operator releases the Lease, because
//! kube-controller-manager may still run the same loops. A Lease that was deleted under its leader is created again by that leader.
//!
//! **How often a leader renews.** The gate closes 10 s after a successful renewal was sent, and a standby takes a Lease that has not
//! changed for 15 s. So a renewal after 8 s is enough. A leader that writes nothing, and knows of no standby, states 60 s in its
//! Lease and renews it after 45 s; its gate is closed most of this time, and its next write waits for a renewal. A standby that
//! finds such a Lease writes the 15 s back, which the leader notices by its watch: from then on, everything is as if the Lease had
//! always stated 15 s. Without a watch, and after a failure, attempts follow every 2 s.
//!
//! Times written by other candidates are never compared with this machine's clock: a Lease expires when *this* candidate has not
//! seen it change for the lease duration. Only a successful renewal moves the deadline of the gate. A process that was stopped
//! therefore finds its gate closed when it resumes. The deadline includes the time in which the machine was suspended, although
//! monotonic time excludes it. It leads on if no other process has taken its Lease meanwhile. The exception is a virtual
//! machine that was stopped without a trace in its kernel's clocks. A
//! process on such a machine may write until the server refuses its next renewal.
//!
//! With a [`ProbationSettings`], versions matter: a standby of a new version asks the leader for the Lease, and the leader
//! releases the Lease for that standby. The new leader is ready only after its probation. If it crashes before, another version
//! takes the Lease back. See [`probation`]. Candidates that do not know probations take part as usual.
//!
//! Upstream: `client-go/tools/leaderelection`. There are four differences: a Lease that does not exist is created held; the
//! deadline of writes counts from the sending of the last successful renewal, not from the next attempt; a watch replaces polls;
//! and the Lease is released only when nothing in this process can still write.

mod attempt;
mod counted;
mod lease;
mod orders;
pub mod probation;
mod settings;
mod status;
mod step;
mod watch;

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use futures::future::OptionFuture;
use tokio::sync::watch as channel;

use crate::{
    api::Api,
    clock::{Clock, Instant},
    duration,
    events::{EventRecorder, EventType},
    gate::WriteGateKeeper,
    meta::ResourceVersion,
    metrics::Metrics,
    object::Resource,
    succession::WriteLog,
};
use counted::ElectionMetrics;
use lease::LeaseObject;
use orders::ElectionCommand;
use probation::{ProbationSettings, RequestingStandby};
use settings::JITTER_FACTOR;
use step::{AttemptOutcome, CandidateMemory};
use watch::{LeaseEvent, LeaseWatch};

pub use lease::HAND_OVER_HOLDER_IDENTITY;
pub use orders::{ElectionStopHandle, StandbyRequestReceiver};
pub use settings::{ElectionSettings, new_holder_identity};
pub use status::ElectionStatus;

/// The API resource of the objects that serve as locks of elections.
pub const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

/// Annotation of a Lease with the time until which an operator expects kube-controller-manager to run the same loops. RFC 3339.
pub const SECOND_WRITER_EXPECTED_UNTIL_ANNOTATION: &str = "nonet/second-writer-expected-until";

/// The reason why [`Election::run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionOutcome {
    /// The Lease was lost. This process must not write again, and has to end.
    LeaseLost,
    /// The candidate was stopped before it led.
    StoppedBeforeLeading,
    /// The leader was stopped and released the Lease.
    Released,
    /// The leader was stopped and could not release the Lease.
    ReleaseFailed,
}

/// A function that reports whether the loops of this process can lead at once, because their caches are filled.
type WarmCheck = Box<dyn Fn() -> bool + Send + Sync>;

/// The participation of this process in the election for one Lease.
pub struct Election {
    settings: ElectionSettings,
    api: Api,
    clock: Clock,
    keeper: Arc<WriteGateKeeper>,
    writes: WriteLog,
    recorder: EventRecorder,
    status: ElectionStatus,
    memory: CandidateMemory,
    order: channel::Receiver<ElectionCommand>,
    stop: ElectionStopHandle,
    metrics: ElectionMetrics,
    is_warm: WarmCheck,
    /// The standby that gets the Lease when this leader releases it; `None` until a standby has asked.
    chosen_standby: Option<RequestingStandby>,
    standby_asked: channel::Sender<bool>,
    /// The last failed request since the last successful attempt; `None` if no request has failed.
    last_failure: Option<String>,
    /// How long the machine had been suspended in total when the last request was sent.
    suspended_at_last_request: Duration,
    /// The version of the Lease in the last answer. Unless the server has lost changes, no later answer has a lower one.
    last_lease_version: ResourceVersion,
    /// When the server last answered with the Lease.
    last_answer_at: Instant,
}

impl Election {
    /// Creates a candidate that has not started. `api` has to bypass the gate, since the election opens the gate. `writes`
    /// collects the versions that this process writes while it leads.
    pub fn new(
        settings: ElectionSettings,
        api: Api,
        keeper: Arc<WriteGateKeeper>,
        writes: WriteLog,
        recorder: EventRecorder,
        metrics: &Metrics,
    ) -> Self {
        let clock = api.clock().clone();
        let now = clock.monotonic_now();
        let status = ElectionStatus { state: Arc::default(), clock: clock.clone(), settings: settings.clone() };
        let (sender, order) = channel::channel(ElectionCommand::Lead);
        let memory = CandidateMemory::new(&settings);
        let metrics = ElectionMetrics::new(metrics, &settings);
        Self {
            settings,
            api,
            clock,
            keeper,
            writes,
            recorder,
            status,
            memory,
            order,
            stop: ElectionStopHandle(sender),
            metrics,
            is_warm: Box::new(|| true),
            chosen_standby: None,
            standby_asked: channel::channel(false).0,
            last_failure: None,
            suspended_at_last_request: Duration::ZERO,
            last_lease_version: ResourceVersion::UNKNOWN,
            last_answer_at: now,
        }
    }

    /// Sets the function that reports whether the loops of this process can lead at once. The candidate asks the leader for the
    /// Lease only while `warm` returns `true`. `warm` must not block.
    #[must_use]
    pub fn ask_for_lease_only_if_caches_filled(mut self, warm: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.is_warm = Box::new(warm);
        self
    }

    /// Returns a handle that reports when a standby asks for the Lease.
    pub fn standby_request_receiver(&self) -> StandbyRequestReceiver {
        StandbyRequestReceiver(self.standby_asked.subscribe())
    }

    /// Returns a handle to the state of this election.
    pub fn status(&self) -> ElectionStatus {
        self.status.clone()
    }

    /// Returns a handle that ends this election.
    pub fn stop_handle(&self) -> ElectionStopHandle {
        self.stop.clone()
    }

    /// Acquires the Lease, leads, and returns when leadership or candidacy ends. The gate is closed when this method returns.
    pub async fn run(mut self) -> ElectionOutcome {
        tracing::info!(
            lock = self.lease_path(),
            identity = self.settings.identity,
            "Attempting to acquire leader lease..."
        );
        let watch = LeaseWatch::new(&self.api, &self.settings);
        let Some(began) = self.acquire(&watch).await else {
            self.keeper.close();
            return ElectionOutcome::StoppedBeforeLeading;
        };
        self.metrics.leading_gauge.set(1.0);
        tracing::info!(lock = self.lease_path(), "Successfully acquired lease");
        self.event(EventType::Normal, "LeaderElection", format!("{} became leader", self.settings.identity));
        self.begin_term();
        let lost = self.renew_until_end(began, &watch).await;
        drop(watch);
        self.keeper.close();
        self.metrics.leading_gauge.set(0.0);
        self.status.state.lock().is_leading = false;
        if let Some(why) = lost {
            self.status.state.lock().last_error.clone_from(&why);
            tracing::error!(lock = self.lease_path(), err = why, "Leader election lost");
            let message = format!("{} stopped leading", self.settings.identity);
            self.event(EventType::Normal, "LeaderElection", message);
            return ElectionOutcome::LeaseLost;
        }
        match tokio::time::timeout(self.settings.renew_deadline, self.release_lease()).await {
            Ok(Ok(())) => {
                tracing::info!(lock = self.lease_path(), "Released lease");
                return ElectionOutcome::Released;
            }
            Ok(Err(err)) => tracing::error!(lock = self.lease_path(), err, "Failed to release lease"),
            Err(_) => tracing::error!(lock = self.lease_path(), "Failed to release lease in time"),
        }
        ElectionOutcome::ReleaseFailed
    }

    fn lease_path(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }

    /// Makes attempts until this candidate holds the Lease. Returns when the last request was sent; `None` if the candidate was
    /// stopped.
    async fn acquire(&mut self, watch: &LeaseWatch) -> Option<Instant> {
        let mut change = None;
        loop {
            if *self.order.borrow_and_update() != ElectionCommand::Lead {
                return None;
            }
            self.memory.has_filled_caches = (self.is_warm)();
            self.memory.deleted_lease_reserved_until =
                self.memory.deleted_lease_reserved_until.max(watch.deleted_lease_expires_at());
            let mut pause = self.clock.jitter(self.settings.retry_period, JITTER_FACTOR);
            let mut is_idle = false;
            match self.attempt(change.take()).await {
                AttemptOutcome::HoldsLease { sent_at } => {
                    if let Some(left) = &self.memory.predecessor_written_versions {
                        self.writes.inherit_written_versions(left);
                    }
                    self.keeper.set_versions_written_by_predecessor(self.memory.predecessor_written_versions.clone());
                    if self.memory.term.as_ref().is_some_and(|term| term.is_on_probation) {
                        self.status.state.lock().probation_began = Some(self.clock.monotonic_now());
                    }
                    self.extend_gate(sent_at);
                    return Some(sent_at);
                }
                AttemptOutcome::LeftToOthers { until } => {
                    pause = pause.min(until.saturating_duration_since(self.clock.monotonic_now()));
                }
                AttemptOutcome::HeldByOther { .. } => is_idle = self.memory.has_filled_caches,
                AttemptOutcome::Failed { .. } => {}
            }
            let poll_at = self.clock.monotonic_now() + pause;
            loop {
                let idle_until = self.memory.idle_until(poll_at);
                // A standby polls only while its watch does not show all changes, or while it has something to write.
                let attempt_at = if is_idle && watch.is_connected() { idle_until } else { Some(poll_at) };
                let sleep = OptionFuture::from(attempt_at.map(tokio::time::sleep_until));
                tokio::select! {
                    biased;
                    _ = self.order.changed() => break,
                    () = watch.changed() => if let ControlFlow::Break(seen) = self.process_event(watch) {
                        change = seen;
                        break;
                    },
                    Some(()) = sleep => break,
                }
            }
        }
    }

    /// Processes the last event of the watch. Breaks if an attempt has to follow, with the Lease that the watch has delivered;
    /// without it, the attempt has to read the Lease.
    fn process_event(&mut self, watch: &LeaseWatch) -> ControlFlow<Option<LeaseObject>> {
        let (lease, seen_at) = match watch.take_event() {
            // If a watch that was requested after the last answer begins with an older Lease, the server has lost changes. The
            // attempt reports that.
            Some(LeaseEvent::Opened { lease, requested_at, .. })
                if lease.version().is_known()
                    && lease.version() < self.last_lease_version
                    && requested_at >= self.last_answer_at =>
            {
                return ControlFlow::Break(Some(lease));
            }
            Some(LeaseEvent::Opened { lease, seen_at, .. } | LeaseEvent::Changed(lease, seen_at)) => (lease, seen_at),
            Some(LeaseEvent::Deleted) => return ControlFlow::Break(None),
            // Only the state of the connection has changed.
            None => return ControlFlow::Continue(()),
        };
        // A standby that gets the Lease anyway may ask again, until this process has ended.
        let is_promised = self.chosen_standby.is_some() && lease.record.holder_identity == self.settings.identity;
        if is_promised || !self.memory.is_news(&lease) {
            return ControlFlow::Continue(());
        }
        // Only a standby learns from the watch that the Lease was renewed.
        if self.status.is_leading() || !self.memory.record_renewal(&lease, seen_at) {
            return ControlFlow::Break(Some(lease));
        }
        self.status.state.lock().lease = Some(lease);
        ControlFlow::Continue(())
    }

    /// Renews the Lease, first after a write at `began`. Returns the reason if the Lease is lost, and `None` after the command to
    /// release it.
    async fn renew_until_end(&mut self, mut began: Instant, watch: &LeaseWatch) -> Option<String> {
        let mut answer_time = self.clock.monotonic_now() - began;
        let mut failing_since: Option<Instant> = None;
        self.keeper.clear_write_demand();
        loop {
            if *self.order.borrow_and_update() == ElectionCommand::Release {
                return None;
            }
            let mut next = began + self.pause_before_renewal(answer_time, failing_since.is_some(), watch);
            if let Some(proven_at) = self.proven_at() {
                next = next.min(proven_at.max(began));
            }
            self.status.state.lock().renewal_due_at = Some(next);
            let mut change = None;
            tokio::select! {
                biased;
                _ = self.order.changed() => continue,
                () = watch.changed() => match self.process_event(watch) {
                    ControlFlow::Break(seen) => change = seen,
                    ControlFlow::Continue(()) => continue,
                },
                () = self.keeper.wait_for_write_demand() => continue,
                () = tokio::time::sleep_until(next) => {}
            }
            began = self.clock.monotonic_now();
            let give_up_at = failing_since.unwrap_or(began) + self.settings.renew_deadline;
            let passes = self.proven_at().is_some_and(|at| began >= at);
            if passes && let Some(term) = &mut self.memory.term {
                // The next write of the Lease removes the annotation of the probation.
                term.is_on_probation = false;
            }
            self.keeper.clear_write_demand();
            let ended = tokio::select! {
                biased;
                ended = self.attempt(change) => ended,
                () = tokio::time::sleep_until(give_up_at) => return Some(self.late_renewal_reason()),
            };
            match ended {
                AttemptOutcome::HoldsLease { sent_at } => {
                    (failing_since, answer_time) = (None, self.clock.monotonic_now() - sent_at);
                    self.extend_gate(sent_at);
                    if passes {
                        self.end_probation();
                    }
                    // This process is notified, ends, and releases the Lease for this standby.
                    if self.chosen_standby.is_none()
                        && let Some(standby) = self.memory.permitted_standby.take()
                    {
                        let RequestingStandby { identity, version } = &standby;
                        let lock = self.lease_path();
                        tracing::info!(lock, identity, version, "A standby of another version asks for the lease");
                        self.chosen_standby = Some(standby);
                        self.standby_asked.send_replace(true);
                    }
                }
                AttemptOutcome::HeldByOther { holder } => return Some(format!("the lease is held by {holder}")),
                AttemptOutcome::LeftToOthers { .. } => return Some("another client released the lease".to_owned()),
                AttemptOutcome::Failed { .. } if self.clock.monotonic_now() >= give_up_at => {
                    return Some(self.late_renewal_reason());
                }
                AttemptOutcome::Failed { .. } => {
                    failing_since.get_or_insert(began);
                }
            }
        }
    }

    /// Returns how long after the last attempt the next one follows. `answer_time` is how long the last renewal took.
    fn pause_before_renewal(&self, answer_time: Duration, is_failing: bool, watch: &LeaseWatch) -> Duration {
        let settings = &self.settings;
        let has_demand = self.keeper.has_write_demand();
        if is_failing || !watch.is_connected() {
            settings.retry_period
        } else if has_demand && self.keeper.needs_renewal() {
            Duration::ZERO
        } else if has_demand || !self.memory.leads_alone(self.clock.monotonic_now()) {
            settings.renewal_period(answer_time)
        } else {
            settings.lone_renewal_period()
        }
    }

    /// Reports the probation of this version and the failure of the version before it, as Events, logs and metrics.
    fn begin_term(&mut self) {
        let condemned = self.memory.newly_failed_version.take();
        let (Some(probation), Some(probations), Some(term)) =
            (&self.settings.probation, &self.metrics.probation_counters, &self.memory.term)
        else {
            return;
        };
        if let Some(version) = condemned {
            probations.failed.inc();
            let lock = self.lease_path();
            tracing::error!(lock, version, "A version has failed its probation, and does not get the lease again");
            let message = format!("version {version} has failed its probation; version {} leads", term.version);
            self.event(EventType::Warning, "ProbationFailed", message);
        }
        if term.is_on_probation {
            probations.begun.inc();
            let time = duration::format(probation.probation_time);
            tracing::info!(lock = self.lease_path(), version = term.version, time, "Leading on probation");
            let message = format!("version {} leads on probation for {time}", term.version);
            self.event(EventType::Normal, "ProbationBegun", message);
        }
    }

    /// Returns when this leader's probation ends; `None` if it is not on probation.
    fn proven_at(&self) -> Option<Instant> {
        let probation_began = self.status.state.lock().probation_began?;
        Some(probation_began + self.settings.probation.as_ref()?.probation_time)
    }

    /// Reports that the version of this process has passed its probation. The Lease already states that.
    fn end_probation(&mut self) {
        self.status.state.lock().probation_began = None;
        let Some(ProbationSettings { version, probation_time: time }) = &self.settings.probation else { return };
        tracing::info!(lock = self.lease_path(), version, "Passed probation");
        let message = format!("version {version} has led for {} and passed its probation", duration::format(*time));
        self.event(EventType::Normal, "ProbationPassed", message);
        if let Some(probations) = &self.metrics.probation_counters {
            probations.passed.inc();
        }
    }

    fn late_renewal_reason(&mut self) -> String {
        let trouble =
            self.last_failure.take().unwrap_or_else(|| "no attempt was made, or none was answered".to_owned());
        format!("not renewed in time, last: {trouble}")
    }

    /// Moves the deadline of the gate after a successful request that was sent at `since`.
    fn extend_gate(&mut self, since: Instant) {
        let now = self.clock.monotonic_now();
        let suspended = self.clock.total_suspended_time().saturating_sub(self.suspended_at_last_request);
        let deadline = step::write_deadline(since, suspended, self.settings.renew_deadline);
        let mut state = self.status.state.lock();
        state.is_leading = true;
        state.renewed_at = Some(now);
        drop(state);
        self.keeper.open_until(deadline);
    }

    fn event(&self, event_type: EventType, reason: &'static str, message: String) {
        if let Some(lease) = self.status.lease_reference() {
            self.recorder.record_event(&lease, event_type, reason, message);
        }
    }
}

impl Drop for Election {
    /// Closes the gate of an election that is dropped while it runs.
    fn drop(&mut self) {
        self.keeper.close();
    }
}

#[cfg(test)]
mod tests;
