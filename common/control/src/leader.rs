//! Takes, renews and releases a Lease, so that one process writes at a time.
//!
//! ```text
//!             attempt every 2-4.4 s, at once when the Lease is released
//!  candidate ────────────────────────────────────────────► leader ── renews every 2 s ─┐
//!      ▲                                                     │  ▲──────────────────────┘
//!      └── (never: a process that lost its Lease ends) ◄─────┘ 10 s without a success
//! ```
//! [`step`] decides which requests one attempt sends; this module waits, sends the requests, and moves the [`gate`](crate::gate).
//! A candidate that finds no Lease creates it *held*: no process leads until an operator releases the Lease, because
//! kube-controller-manager may still run the same loops. A Lease that was deleted under its leader is created again by that leader.
//!
//! Times written by other candidates are never compared with this machine's clock: a Lease expires when *this* candidate has not
//! seen it change for the lease duration. Only a successful renewal moves the deadline of the gate. A process that was stopped
//! therefore finds its gate closed when it resumes. The deadline includes the time in which the machine was suspended, although
//! monotonic time excludes it. The exception is a virtual machine that was stopped without a trace in its kernel's clocks. A
//! process on such a machine may write until the server refuses its next renewal.
//!
//! With a [`ProbationSettings`], versions matter: a standby of a new version asks the leader for the Lease, and the leader
//! releases the Lease for that standby. The new leader is ready only after its probation. If it crashes before, another version
//! takes the Lease back. See [`probation`]. Candidates that do not know probations take part as usual.
//!
//! Upstream: `client-go/tools/leaderelection`. There are four differences: a Lease that does not exist is created held; the
//! deadline counts from the sending of the last successful renewal, not from the next attempt; a watch notices a released Lease,
//! not only the next poll; and the Lease is released only when nothing in this process can still write.

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
    api::{self, Api, RequestTarget},
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
use orders::ElectionCommand;
use probation::{ProbationSettings, RequestingStandby};
use settings::JITTER_FACTOR;
use step::{AttemptOutcome, CandidateMemory, CurrentTime, ElectionAttempt, ElectionReply, ElectionRequest};
use watch::LeaseWatch;

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
        let Some(deadline) = self.acquire(&watch).await else {
            self.keeper.close();
            return ElectionOutcome::StoppedBeforeLeading;
        };
        // A leader without a probation needs no watch, because no standby asks it for the Lease.
        let watch = self.settings.probation.is_some().then_some(watch);
        self.metrics.leading_gauge.set(1.0);
        tracing::info!(lock = self.lease_path(), "Successfully acquired lease");
        self.event(EventType::Normal, "LeaderElection", format!("{} became leader", self.settings.identity));
        self.begin_term();
        let lost = self.renew_until_end(deadline, watch.as_ref()).await;
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

    /// Makes attempts until this candidate holds the Lease. Returns the deadline of the gate; `None` if the candidate was
    /// stopped.
    async fn acquire(&mut self, watch: &LeaseWatch) -> Option<Instant> {
        loop {
            if *self.order.borrow_and_update() != ElectionCommand::Lead {
                return None;
            }
            self.memory.has_filled_caches = (self.is_warm)();
            self.memory.deleted_lease_reserved_until =
                self.memory.deleted_lease_reserved_until.max(*watch.observations.deleted_lease_expires_at.lock());
            let mut pause = self.clock.jitter(self.settings.retry_period, JITTER_FACTOR);
            match self.attempt().await {
                AttemptOutcome::HoldsLease { sent_at } => {
                    if let Some(left) = &self.memory.predecessor_written_versions {
                        self.writes.inherit_written_versions(left);
                    }
                    self.keeper.set_versions_written_by_predecessor(self.memory.predecessor_written_versions.clone());
                    if self.memory.term.as_ref().is_some_and(|term| term.is_on_probation) {
                        self.status.state.lock().probation_began = Some(self.clock.monotonic_now());
                    }
                    return Some(self.extend_gate(sent_at));
                }
                AttemptOutcome::LeftToOthers { until } => {
                    pause = pause.min(until.saturating_duration_since(self.clock.monotonic_now()));
                }
                AttemptOutcome::HeldByOther { .. } | AttemptOutcome::Failed { .. } => {}
            }
            tokio::select! {
                biased;
                _ = self.order.changed() => {}
                () = watch.observations.lease_available_notify.notified() => {}
                () = self.clock.sleep(pause) => {}
            }
        }
    }

    /// Renews the Lease. Returns the reason if the Lease is lost, and `None` after the command to release it.
    async fn renew_until_end(&mut self, mut deadline: Instant, watch: Option<&LeaseWatch>) -> Option<String> {
        let mut began = self.clock.monotonic_now();
        loop {
            if *self.order.borrow_and_update() == ElectionCommand::Release {
                return None;
            }
            let asked = watch
                .filter(|_| self.chosen_standby.is_none())
                .map(|watch| watch.observations.standby_asked_notify.notified());
            // The period counts from the start of the last attempt, because a slow answer must not delay the next renewal.
            let next = began + self.settings.retry_period;
            tokio::select! {
                biased;
                _ = self.order.changed() => continue,
                // A standby has written its request into the Lease. The attempt reads the Lease and decides about the request.
                Some(()) = OptionFuture::from(asked) => {}
                () = tokio::time::sleep_until(next.min(deadline)) => {}
            }
            if self.keeper.is_closed() {
                return Some(self.late_renewal_reason());
            }
            began = self.clock.monotonic_now();
            let passes = self.has_led_long_enough();
            if passes && let Some(term) = &mut self.memory.term {
                // The next write of the Lease removes the annotation of the probation.
                term.is_on_probation = false;
            }
            // An attempt in flight ends at the deadline of the gate, because its outcome no longer matters then.
            let ended = tokio::select! {
                biased;
                ended = self.attempt() => ended,
                () = tokio::time::sleep_until(deadline) => continue,
            };
            match ended {
                // The gate was closed for a while and has refused writes. The refused syncs do not run again, so this process
                // cannot go on leading.
                AttemptOutcome::HoldsLease { .. } if self.keeper.is_closed() => {
                    return Some(self.late_renewal_reason());
                }
                AttemptOutcome::HoldsLease { sent_at } => {
                    deadline = self.extend_gate(sent_at);
                    if passes {
                        self.end_probation();
                    }
                    // This process is notified, ends, and releases the Lease for this standby.
                    if let Some(standby) = self.memory.permitted_standby.take() {
                        let RequestingStandby { identity, version } = &standby;
                        let lock = self.lease_path();
                        tracing::info!(lock, identity, version, "A standby of another version asks for the lease");
                        self.chosen_standby = Some(standby);
                        self.standby_asked.send_replace(true);
                    }
                }
                AttemptOutcome::HeldByOther { holder } => return Some(format!("the lease is held by {holder}")),
                AttemptOutcome::LeftToOthers { .. } => return Some("another client released the lease".to_owned()),
                AttemptOutcome::Failed { .. } => {}
            }
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

    /// Whether this leader is on probation and has led for the whole time of the probation.
    fn has_led_long_enough(&self) -> bool {
        let since = self.status.state.lock().probation_began;
        let led_for = since.map(|since| self.clock.monotonic_now().saturating_duration_since(since));
        let time = self.settings.probation.as_ref().map(|probation| probation.probation_time);
        led_for.is_some() && led_for >= time
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

    /// Moves the deadline of the gate after a successful request that was sent at `since`. Returns the deadline.
    fn extend_gate(&mut self, since: Instant) -> Instant {
        let now = self.clock.monotonic_now();
        let suspended = self.clock.total_suspended_time().saturating_sub(self.suspended_at_last_request);
        let deadline = step::write_deadline(since, suspended, self.settings.renew_deadline);
        let mut state = self.status.state.lock();
        state.is_leading = true;
        state.renewed_at = Some(now);
        drop(state);
        self.keeper.open_until(deadline);
        deadline
    }

    /// Makes one attempt to acquire or to renew the Lease.
    async fn attempt(&mut self) -> AttemptOutcome {
        let (mut attempt, mut request) = ElectionAttempt::begin(&self.memory, self.current_moment());
        let ended = loop {
            let since = self.clock.monotonic_now();
            self.suspended_at_last_request = self.clock.total_suspended_time();
            let reply = self.send_request(&request).await;
            let now = self.current_moment();
            if let ElectionReply::Failed(why) | ElectionReply::NotFound(why) = &reply {
                self.last_failure = Some(format!("{}: {why}", request.verb()));
            }
            if let ElectionReply::Lease(lease) = &reply {
                self.last_answer_at = now.instant;
                self.compare_lease_version(lease.version());
            }
            match attempt.process_reply(&mut self.memory, reply, since, now) {
                ControlFlow::Continue(next) => request = next,
                ControlFlow::Break(ended) => break ended,
            }
        };
        if attempt.took_slow_path {
            self.metrics.slow_path_total.inc();
        }
        if matches!(ended, AttemptOutcome::HoldsLease { .. }) {
            self.last_failure = None;
        }
        let lease = self.memory.lease().cloned();
        let (is_held, was_held) = (
            lease.as_ref().is_some_and(|lease| lease.record.is_held_for_hand_over()),
            self.status.is_held_for_hand_over(),
        );
        let is_held_after_leading = lease.as_ref().is_some_and(|lease| lease.record.is_held_after_leading());
        // A replica without contact to the API server does not know whether the Lease is still held.
        let age = self.clock.monotonic_now().saturating_duration_since(self.last_answer_at);
        let is_known = age <= self.settings.lease_duration;
        self.metrics.lease_held_gauge.set(f64::from(is_held && is_known));
        self.metrics.lease_held_after_leading_gauge.set(f64::from(is_held_after_leading && is_known));
        let lock = self.lease_path();
        if is_held && !was_held {
            let release = self.status.release_command();
            tracing::info!(
                lock,
                release,
                "The lease is held: standing by until it is released, once kube-controller-manager no longer runs these loops"
            );
        }
        if was_held && !is_held {
            tracing::info!(lock, "The lease is no longer held");
        }
        let mut state = self.status.state.lock();
        state.lease = lease;
        state.last_error =
            if let AttemptOutcome::Failed { failure } = &ended { failure.clone() } else { String::new() };
        drop(state);
        match &ended {
            AttemptOutcome::HoldsLease { .. } => {}
            AttemptOutcome::HeldByOther { holder } => {
                tracing::debug!(lock, holder, "The lease is held and has not expired yet");
            }
            AttemptOutcome::LeftToOthers { .. } => {
                tracing::debug!(lock, "The lease is left to other candidates for a while");
            }
            AttemptOutcome::Failed { failure } => {
                tracing::error!(lock, err = failure, "Error retrieving or updating lease lock");
            }
        }
        ended
    }

    /// Reports lost changes of the server if this answer has an older Lease than the answer before. The renewals of a leader are
    /// seconds apart, so that hardly any loss is shorter.
    fn compare_lease_version(&mut self, version: ResourceVersion) {
        let last = std::mem::replace(&mut self.last_lease_version, version);
        if version.is_known() && version < last {
            let evidence = format!("the Lease {} has version {version}, it had version {last}", self.lease_path());
            self.api.history().report_lost_changes(&evidence);
        }
    }

    fn current_moment(&self) -> CurrentTime {
        CurrentTime { instant: self.clock.monotonic_now(), wall_clock_time: self.clock.now() }
    }

    /// Sends one request to the API server. The request fails if no answer arrives within half the renew deadline.
    async fn send_request(&self, request: &ElectionRequest) -> ElectionReply {
        let (namespace, name) = (&*self.settings.namespace, &*self.settings.name);
        let (lease, leases) =
            (RequestTarget::object(LEASES, namespace, name), RequestTarget::object(LEASES, namespace, ""));
        let body = |lease| lease::encode_lease(namespace, name, lease);
        let exchange = async {
            match request {
                ElectionRequest::Get => self.api.get(lease).await,
                ElectionRequest::Create(created) => self.api.create(leases, &body(created)).await,
                ElectionRequest::Replace(replaced) => self.api.replace(lease, &body(replaced)).await,
            }
        };
        let timeout = self.settings.request_timeout();
        let answer = tokio::time::timeout(timeout, exchange).await.unwrap_or_else(|_| {
            Err(api::Error::OutcomeUnknown(format!("no answer within {}", duration::format(timeout))))
        });
        match answer {
            Ok(bytes) => lease::decode_lease(&bytes).map_or_else(ElectionReply::Failed, ElectionReply::Lease),
            Err(error) if error.is_not_found() => ElectionReply::NotFound(error.to_string()),
            Err(error) => ElectionReply::Failed(error.to_string()),
        }
    }

    /// Releases the Lease if this candidate holds it.
    async fn release_lease(&mut self) -> Result<(), String> {
        let written_versions = self.writes.written_versions_for_successor(self.clock.monotonic_now());
        loop {
            let lease = match self.send_request(&ElectionRequest::Get).await {
                ElectionReply::NotFound(_) => return Ok(()),
                ElectionReply::Failed(why) => return Err(why),
                ElectionReply::Lease(lease) => lease,
            };
            let (now, reserved_standby) = (self.clock.now(), self.chosen_standby.as_ref());
            let Some(given_up) =
                step::released_lease(&lease, &self.memory, now, written_versions.as_ref(), reserved_standby)
            else {
                return Ok(());
            };
            match self.send_request(&ElectionRequest::Replace(given_up)).await {
                ElectionReply::Lease(_) | ElectionReply::NotFound(_) => return Ok(()),
                // A renewal without an answer may have changed the Lease meanwhile. The next iteration reads the Lease again.
                ElectionReply::Failed(why) => {
                    tracing::debug!(lock = self.lease_path(), err = why, "Failed to release lease, trying again");
                    self.clock.sleep(Duration::from_millis(100)).await;
                }
            }
        }
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
