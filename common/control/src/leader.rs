//! Leader election over a Lease.
//!
//! ```text
//!             attempt every 2-4.4 s, at once when the Lease is released
//!  candidate ────────────────────────────────────────────► leader ── renews every 2 s ─┐
//!      ▲                                                     │  ▲──────────────────────┘
//!      └── (never: a process that lost its Lease ends) ◄─────┘ 10 s without a success
//! ```
//! [`step`] decides which requests one attempt sends; this module waits, sends the requests, and moves the [`gate`](crate::gate).
//! Times written by other candidates are never compared with this machine's clock: a Lease expires when *this* candidate has not
//! seen it change for the lease duration. Only a successful renewal moves the deadline of the gate. A process that was stopped
//! therefore finds its gate closed when it resumes. Time in which the machine was suspended counts, although monotonic time
//! excludes it. The exception is a virtual machine that was stopped without the knowledge of its kernel: its process may write
//! until its next renewal is refused.
//!
//! With a [`Probation`], versions matter: a standby of a new version asks the leader for the Lease, and the leader releases the
//! Lease for it. The new leader is ready only after its probation. If it crashes during the probation, another version takes the
//! Lease back. See [`probation`]. Candidates that do not know probations take part as usual.
//!
//! Upstream: `client-go/tools/leaderelection`. There are three differences: the deadline counts from the sending of the last
//! successful renewal, not from the next attempt; a watch notices a released Lease, not only the next poll; and the Lease is
//! released only when nothing in this process can still write.

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
    api::{self, Api, Target},
    clock::{Clock, Instant},
    duration,
    events::{EventType, Recorder},
    gate::Keeper,
    metrics::Metrics,
    object::Resource,
    succession::Writes,
};
use counted::ElectionMetrics;
use orders::Order;
use probation::{Applicant, Probation};
use settings::JITTER;
use step::{Attempt, Ended, Memory, Moment, Reply, Request};
use watch::LeaseWatch;

pub use lease::HOLDER_OF_HOLDS;
pub use orders::{Question, Stop};
pub use settings::{Settings, identity};
pub use status::Status;

/// The API resource of the objects that serve as locks of elections.
pub const LEASES: Resource =
    Resource { group: "coordination.k8s.io", version: "v1", plural: "leases", kind: "Lease", namespaced: true };

/// The annotation of a Lease with the time until which an operator expects a second writer. RFC 3339.
pub const SECOND_WRITER_EXPECTED_UNTIL: &str = "nonet/second-writer-expected-until";

/// The result of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The Lease was lost. This process must not write again, and ends.
    Lost,
    /// The candidate was stopped before it led.
    Withdrawn,
    /// The leader was stopped and released the Lease.
    Released,
    /// The leader was stopped and could not release the Lease.
    NotReleased,
}

/// A function that reports whether the loops of this process can lead at once, because their caches are filled.
type Warm = Box<dyn Fn() -> bool + Send + Sync>;

/// One candidate for a Lease.
pub struct Election {
    settings: Settings,
    api: Api,
    clock: Clock,
    keeper: Arc<Keeper>,
    writes: Writes,
    recorder: Recorder,
    status: Status,
    memory: Memory,
    order: channel::Receiver<Order>,
    stop: Stop,
    metrics: ElectionMetrics,
    warm: Warm,
    /// The standby that gets the Lease when this leader releases it; `None` until a standby has asked.
    heir: Option<Applicant>,
    asked: channel::Sender<bool>,
    /// The last failed request since the last successful attempt.
    trouble: Option<String>,
    /// How long the machine had been suspended in total when the last request was sent.
    suspended: Duration,
}

impl Election {
    /// Creates a candidate that has not started. `api` has to bypass the gate, since the election opens the gate. `writes`
    /// collects the versions that this process writes while it leads.
    pub fn new(
        settings: Settings,
        api: Api,
        keeper: Arc<Keeper>,
        writes: Writes,
        recorder: Recorder,
        metrics: &Metrics,
    ) -> Self {
        let clock = api.clock().clone();
        let status = Status { state: Arc::default(), clock: clock.clone(), settings: settings.clone() };
        let (sender, order) = channel::channel(Order::Stand);
        let memory = Memory::new(&settings.identity, settings.told_duration(), settings.probation.clone());
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
            stop: Stop(sender),
            metrics,
            warm: Box::new(|| true),
            heir: None,
            asked: channel::channel(false).0,
            trouble: None,
            suspended: Duration::ZERO,
        }
    }

    /// Sets the function that reports whether the loops of this process can lead at once. The candidate asks the leader for the
    /// Lease only while `warm` returns `true`. `warm` must not block.
    #[must_use]
    pub fn asks_when(mut self, warm: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.warm = Box::new(warm);
        self
    }

    /// Returns a handle that reports when a standby asks for the Lease.
    pub fn question(&self) -> Question {
        Question(self.asked.subscribe())
    }

    /// Returns a handle to the state of this election.
    pub fn status(&self) -> Status {
        self.status.clone()
    }

    /// Returns a handle that ends this election.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Acquires the Lease, leads, and returns when leadership or candidacy ends. The gate is closed when this method returns.
    pub async fn run(mut self) -> End {
        tracing::info!(lock = self.lock(), identity = self.settings.identity, "Attempting to acquire leader lease...");
        let watch = LeaseWatch::new(&self.api, &self.settings);
        let Some(deadline) = self.acquire(&watch).await else {
            self.keeper.close();
            return End::Withdrawn;
        };
        // A leader without a probation needs no watch, because no standby asks it for the Lease.
        let watch = self.settings.probation.is_some().then_some(watch);
        self.metrics.leading.set(1.0);
        tracing::info!(lock = self.lock(), "Successfully acquired lease");
        self.event(EventType::Normal, "LeaderElection", format!("{} became leader", self.settings.identity));
        self.begin_term();
        let lost = self.keep(deadline, watch.as_ref()).await;
        drop(watch);
        self.keeper.close();
        self.metrics.leading.set(0.0);
        self.status.state.lock().leading = false;
        if let Some(why) = lost {
            self.status.state.lock().last_error.clone_from(&why);
            tracing::error!(lock = self.lock(), err = why, "Leader election lost");
            let message = format!("{} stopped leading", self.settings.identity);
            self.event(EventType::Normal, "LeaderElection", message);
            return End::Lost;
        }
        match tokio::time::timeout(self.settings.renew_deadline, self.release()).await {
            Ok(Ok(())) => {
                tracing::info!(lock = self.lock(), "Released lease");
                return End::Released;
            }
            Ok(Err(err)) => tracing::error!(lock = self.lock(), err, "Failed to release lease"),
            Err(_) => tracing::error!(lock = self.lock(), "Failed to release lease in time"),
        }
        End::NotReleased
    }

    fn lock(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }

    /// Makes attempts until this candidate holds the Lease. Returns the deadline of the gate; `None` if the candidate was
    /// stopped.
    async fn acquire(&mut self, watch: &LeaseWatch) -> Option<Instant> {
        loop {
            if *self.order.borrow_and_update() != Order::Stand {
                return None;
            }
            self.memory.warm = (self.warm)();
            self.memory.left_alone_until = self.memory.left_alone_until.max(*watch.seen.deleted_until.lock());
            let mut pause = self.clock.jitter(self.settings.retry_period, JITTER);
            match self.attempt().await {
                Ended::Leads { since } => {
                    if let Some(left) = &self.memory.left {
                        self.writes.inherit(left);
                    }
                    self.keeper.inherit(self.memory.left.clone());
                    if self.memory.term.as_ref().is_some_and(|term| term.on_probation) {
                        self.status.state.lock().on_probation_since = Some(self.clock.instant());
                    }
                    return Some(self.extend(since));
                }
                Ended::LeftToOthers { until } => {
                    pause = pause.min(until.saturating_duration_since(self.clock.instant()));
                }
                Ended::Held { .. } | Ended::Failed { .. } => {}
            }
            tokio::select! {
                biased;
                _ = self.order.changed() => {}
                () = watch.seen.release.notified() => {}
                () = self.clock.sleep(pause) => {}
            }
        }
    }

    /// Renews the Lease. Returns the reason if the Lease is lost, and `None` if this process orders its release.
    async fn keep(&mut self, mut deadline: Instant, watch: Option<&LeaseWatch>) -> Option<String> {
        let mut began = self.clock.instant();
        loop {
            if *self.order.borrow_and_update() == Order::Release {
                return None;
            }
            let asked = watch.filter(|_| self.heir.is_none()).map(|watch| watch.seen.question.notified());
            // The period counts from the start of the last attempt, because a slow answer must not delay the next renewal.
            let next = began + self.settings.retry_period;
            tokio::select! {
                biased;
                _ = self.order.changed() => continue,
                // A standby has written its request into the Lease. The attempt reads the Lease and decides about the request.
                Some(()) = OptionFuture::from(asked) => {}
                () = tokio::time::sleep_until(next.min(deadline)) => {}
            }
            if self.keeper.has_expired() {
                return Some(self.too_late());
            }
            began = self.clock.instant();
            let passes = self.has_led_long_enough();
            if passes && let Some(term) = &mut self.memory.term {
                // The next write of the Lease removes the annotation of the probation.
                term.on_probation = false;
            }
            // An attempt in flight ends at the deadline of the gate, because its outcome no longer matters then.
            let ended = tokio::select! {
                biased;
                ended = self.attempt() => ended,
                () = tokio::time::sleep_until(deadline) => continue,
            };
            match ended {
                // The gate was closed for a while and has refused writes. The refused syncs have ended, so this process cannot
                // go on leading.
                Ended::Leads { .. } if self.keeper.has_expired() => return Some(self.too_late()),
                Ended::Leads { since } => {
                    deadline = self.extend(since);
                    if passes {
                        self.end_probation();
                    }
                    // This standby gets the Lease next. The process is notified, ends, and releases the Lease.
                    if let Some(applicant) = self.memory.applicant.take() {
                        let Applicant { identity, version } = &applicant;
                        let lock = self.lock();
                        tracing::info!(lock, identity, version, "A standby of another version asks for the lease");
                        self.heir = Some(applicant);
                        self.asked.send_replace(true);
                    }
                }
                Ended::Held { by } => return Some(format!("the lease is held by {by}")),
                Ended::LeftToOthers { .. } => return Some("another client released the lease".to_owned()),
                Ended::Failed { .. } => {}
            }
        }
    }

    /// Reports the probation of this version and the failure of the version before it, as Events, logs and metrics.
    fn begin_term(&mut self) {
        let condemned = self.memory.condemned.take();
        let (Some(probation), Some(probations), Some(term)) =
            (&self.settings.probation, &self.metrics.probations, &self.memory.term)
        else {
            return;
        };
        if let Some(version) = condemned {
            probations.failed.inc();
            let lock = self.lock();
            tracing::error!(lock, version, "A version has failed its probation, and does not get the lease again");
            let message = format!("version {version} has failed its probation; version {} leads", term.version);
            self.event(EventType::Warning, "ProbationFailed", message);
        }
        if term.on_probation {
            probations.begun.inc();
            let time = duration::format(probation.time);
            tracing::info!(lock = self.lock(), version = term.version, time, "Leading on probation");
            let message = format!("version {} leads on probation for {time}", term.version);
            self.event(EventType::Normal, "ProbationBegun", message);
        }
    }

    /// Whether this leader is on probation and has led for the whole time of the probation.
    fn has_led_long_enough(&self) -> bool {
        let since = self.status.state.lock().on_probation_since;
        let led_for = since.map(|since| self.clock.instant().saturating_duration_since(since));
        let time = self.settings.probation.as_ref().map(|probation| probation.time);
        led_for.is_some() && led_for >= time
    }

    /// Reports that the version of this process has passed its probation. The Lease already states that.
    fn end_probation(&mut self) {
        self.status.state.lock().on_probation_since = None;
        let Some(Probation { version, time }) = &self.settings.probation else { return };
        tracing::info!(lock = self.lock(), version, "Passed probation");
        let message = format!("version {version} has led for {} and passed its probation", duration::format(*time));
        self.event(EventType::Normal, "ProbationPassed", message);
        if let Some(probations) = &self.metrics.probations {
            probations.passed.inc();
        }
    }

    fn too_late(&mut self) -> String {
        let trouble = self.trouble.take().unwrap_or_else(|| "no attempt was made, or none was answered".to_owned());
        format!("not renewed in time, last: {trouble}")
    }

    /// Moves the deadline of the gate after a successful request that was sent at `since`. Returns the deadline.
    fn extend(&mut self, since: Instant) -> Instant {
        let now = self.clock.instant();
        let suspended = self.clock.suspended().saturating_sub(self.suspended);
        let deadline = step::holds_until(since, suspended, self.settings.renew_deadline);
        let mut state = self.status.state.lock();
        state.leading = true;
        state.renewed = Some(now);
        drop(state);
        self.keeper.open_until(deadline);
        deadline
    }

    /// Makes one attempt to acquire or to renew the Lease.
    async fn attempt(&mut self) -> Ended {
        let (mut attempt, mut request) = Attempt::begin(&self.memory, self.moment());
        let ended = loop {
            let since = self.clock.instant();
            self.suspended = self.clock.suspended();
            let reply = self.ask(&request).await;
            let now = self.moment();
            if let Reply::Failed(why) | Reply::Missing(why) = &reply {
                self.trouble = Some(format!("{}: {why}", request.verb()));
            }
            match attempt.answered(&mut self.memory, reply, since, now) {
                ControlFlow::Continue(next) => request = next,
                ControlFlow::Break(ended) => break ended,
            }
        };
        if attempt.slow_path {
            self.metrics.slow_path.inc();
        }
        if matches!(ended, Ended::Leads { .. }) {
            self.trouble = None;
        }
        let lease = self.memory.lease().cloned();
        let (is_held, was_held) = (lease.as_ref().is_some_and(|lease| lease.record.is_hold()), self.status.is_held());
        self.metrics.held.set(f64::from(is_held));
        let lock = self.lock();
        if is_held && !was_held {
            tracing::info!(lock, "The lease is held for a hand-over: standing by until the hold is deleted");
        }
        if was_held && !is_held {
            tracing::info!(lock, "The lease is no longer held for a hand-over");
        }
        let mut state = self.status.state.lock();
        state.lease = lease;
        state.last_error = if let Ended::Failed { why } = &ended { why.clone() } else { String::new() };
        drop(state);
        match &ended {
            Ended::Leads { .. } => {}
            Ended::Held { by } => tracing::debug!(lock, holder = by, "The lease is held and has not expired yet"),
            Ended::LeftToOthers { .. } => tracing::debug!(lock, "The lease is left to other candidates for a while"),
            Ended::Failed { why } => tracing::error!(lock, err = why, "Error retrieving or updating lease lock"),
        }
        ended
    }

    fn moment(&self) -> Moment {
        Moment { instant: self.clock.instant(), wall: self.clock.now() }
    }

    /// Sends one request to the API server. The request fails without an answer within half the renew deadline.
    async fn ask(&self, request: &Request) -> Reply {
        let (namespace, name) = (&*self.settings.namespace, &*self.settings.name);
        let (lease, leases) = (Target::object(LEASES, namespace, name), Target::object(LEASES, namespace, ""));
        let body = |lease| lease::body(namespace, name, lease);
        let exchange = async {
            match request {
                Request::Get => self.api.get(lease).await,
                Request::Create(created) => self.api.create(leases, &body(created)).await,
                Request::Replace(replaced) => self.api.replace(lease, &body(replaced)).await,
            }
        };
        let timeout = self.settings.request_timeout();
        let answer = tokio::time::timeout(timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(api::Error::Lost(format!("no answer within {}", duration::format(timeout)))));
        match answer {
            Ok(bytes) => lease::read(&bytes).map_or_else(Reply::Failed, Reply::Lease),
            Err(error) if error.is_not_found() => Reply::Missing(error.to_string()),
            Err(error) => Reply::Failed(error.to_string()),
        }
    }

    /// Releases the Lease if this candidate holds it.
    async fn release(&mut self) -> Result<(), String> {
        let left = self.writes.left(self.clock.instant());
        loop {
            let lease = match self.ask(&Request::Get).await {
                Reply::Missing(_) => return Ok(()),
                Reply::Failed(why) => return Err(why),
                Reply::Lease(lease) => lease,
            };
            let (now, heir) = (self.clock.now(), self.heir.as_ref());
            let Some(given_up) = step::given_up(&lease, &self.memory, now, left.as_ref(), heir) else { return Ok(()) };
            match self.ask(&Request::Replace(given_up)).await {
                Reply::Lease(_) | Reply::Missing(_) => return Ok(()),
                // A renewal without an answer may have changed the Lease meanwhile. The next pass reads the Lease again.
                Reply::Failed(why) => {
                    tracing::debug!(lock = self.lock(), err = why, "Failed to release lease, trying again");
                    self.clock.sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn event(&self, kind: EventType, reason: &'static str, message: String) {
        if let Some(lease) = self.status.lease() {
            self.recorder.event(&lease, kind, reason, message);
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
