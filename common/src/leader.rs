//! Leader election over a Lease: who may write.
//!
//! ```text
//!             attempt every 2-4.4 s, at once when the Lease is released
//!  candidate ────────────────────────────────────────────► leader ── renews every 2 s ─┐
//!      ▲                                                     │  ▲──────────────────────┘
//!      └── (never: a process that lost its Lease ends) ◄─────┘ 10 s without a success
//! ```
//! [`step`] decides what one attempt asks of the API server; this module waits, asks, and moves the [`gate`](crate::gate).
//! Another's times are never compared with our clock: what counts is how long *we* have not seen the Lease change. The gate's
//! deadline is moved by each success and by nothing else, so that a process that was stopped finds its gate shut when it goes
//! on. Time for which the machine was suspended counts, though monotonic time leaves it out; a virtual machine that was
//! stopped without its kernel's knowledge cannot tell, and writes until its next renewal is refused.
//!
//! Upstream: `client-go/tools/leaderelection`. We differ in three ways: the deadline counts from when the last successful
//! renewal was sent, not from the next attempt; a released Lease is noticed by a watch rather than by the next poll; and the Lease is released only when nothing
//! is left that could write.

pub mod step;
mod watch;

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch as channel;

use crate::{
    api::{self, Api, Target},
    clock::{Clock, Instant},
    duration,
    events::{EventType, ObjectRef, Recorder},
    gate::Keeper,
    intern::Text,
    meta::{Uid, Version},
    metrics::{Counter, Gauge, Metrics, Stability},
    object::Resource,
    succession::Writes,
};
use step::{Attempt, Ended, Memory, Moment, Reply, Request};

/// Where Leases live.
pub const LEASES: Resource =
    Resource { group: "coordination.k8s.io", version: "v1", plural: "leases", kind: "Lease", namespaced: true };

/// How a wait between attempts is lengthened at most. Upstream: `leaderelection.JitterFactor`.
const JITTER: f64 = 1.2;
/// By how much a leader's last success may lie behind the end of its Lease before it counts as ill.
const HEALTH_TOLERANCE: Duration = Duration::from_secs(20);

/// Who stands for which Lease, and how fast.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the Lease.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// This candidate. [`identity`] makes one.
    pub identity: String,
    /// How long others wait after the last change they saw.
    pub lease_duration: Duration,
    /// How long a leader goes on after it sent its last successful renewal.
    pub renew_deadline: Duration,
    /// How long to wait between attempts.
    pub retry_period: Duration,
}

impl Settings {
    /// Upstream's timing: 15s, 10s, 2s.
    pub fn new(namespace: &str, name: &str, identity: String) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            identity,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    /// How long others wait: a Lease tells it in whole seconds.
    fn told_duration(&self) -> Duration {
        Duration::from_secs(self.lease_duration.as_secs())
    }

    /// What is wrong with the timing, if anything is.
    ///
    /// Upstream compares the durations as they are given, and so lets a leader with a lease duration of 10.9s go on for the
    /// 10.5s of its renew deadline while others wait for the 10s that its Lease tells them. Here the Lease counts.
    pub fn check(&self) -> Result<(), String> {
        let show = duration::format;
        if self.retry_period.is_zero() || self.renew_deadline.is_zero() || self.lease_duration.is_zero() {
            return Err("lease duration, renew deadline and retry period must be greater than zero".to_owned());
        }
        let told = self.told_duration();
        if told.is_zero() {
            return Err(format!("lease duration ({}) must be at least 1s", show(self.lease_duration)));
        }
        if told <= self.renew_deadline {
            let whole = if told == self.lease_duration { "" } else { ", in whole seconds as others are told it," };
            return Err(format!(
                "lease duration ({}){whole} must be greater than renew deadline ({})",
                show(self.lease_duration),
                show(self.renew_deadline)
            ));
        }
        if self.renew_deadline <= self.retry_period.mul_f64(JITTER) {
            return Err(format!(
                "renew deadline ({}) must be greater than {JITTER} times the retry period ({})",
                show(self.renew_deadline),
                show(self.retry_period)
            ));
        }
        Ok(())
    }

    /// How long one request may take.
    pub fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }
}

/// `<hostname>_<uuid>`: a candidate's name, new with every start.
pub fn identity(hostname: &str, clock: &Clock) -> String {
    format!("{hostname}_{}", clock.uuid())
}

/// What the rest of the process may know of its election.
#[derive(Clone)]
pub struct Status {
    inner: Arc<Mutex<State>>,
    clock: Clock,
    tolerance: Duration,
}

#[derive(Clone, Debug, Default)]
struct State {
    leading: bool,
    holder: String,
    renewed: Option<Instant>,
    last_error: String,
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.lock().fmt(f)
    }
}

impl Status {
    /// Whether this process leads.
    pub fn is_leading(&self) -> bool {
        self.inner.lock().leading
    }

    /// Who was last seen to hold the Lease; empty if nobody.
    pub fn holder(&self) -> String {
        self.inner.lock().holder.clone()
    }

    /// Why the last attempt failed, if it did; why the Lease was lost, once it is.
    pub fn last_error(&self) -> String {
        self.inner.lock().last_error.clone()
    }

    /// Fails if this process leads and has not renewed its Lease for much too long: it hangs. A standby is healthy.
    pub fn healthy(&self) -> Result<(), String> {
        let state = self.inner.lock();
        let late = state.renewed.map(|at| self.clock.instant().saturating_duration_since(at));
        match late {
            Some(late) if state.leading && late > self.tolerance => {
                Err(format!("failed election to renew leadership on lease: last renewed {}s ago", late.as_secs()))
            }
            _ => Ok(()),
        }
    }
}

/// How an election ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The Lease was lost: nothing may be written any more, and the process ends.
    Lost,
    /// It was told to stop while it did not lead.
    Withdrawn,
    /// It was told to stop and has given the Lease up.
    Released,
    /// It was told to stop and could not give the Lease up.
    NotReleased,
}

/// What an election is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    /// Lead if possible.
    Stand,
    /// Do not begin to lead; a leader goes on until it is told to release.
    Drain,
    /// Give the Lease up.
    Release,
}

/// Tells an election to end. Dropping it ends nothing.
#[derive(Clone, Debug)]
pub struct Stop(channel::Sender<Order>);

impl Stop {
    /// No new leadership: a candidate withdraws, a leader keeps its Lease for what is still being finished.
    pub fn drain(&self) {
        self.0.send_if_modified(|order| {
            let rises = *order < Order::Drain;
            *order = (*order).max(Order::Drain);
            rises
        });
    }

    /// Ends leadership and gives the Lease up. The caller has made sure that nothing is left that could write.
    pub fn release(&self) {
        self.0.send_replace(Order::Release);
    }
}

/// One candidate.
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
    leading: Gauge,
    slow_path: Counter,
    /// What last went wrong since the last success.
    trouble: Option<String>,
    /// How long the machine had been suspended when the last request was sent.
    suspended: Duration,
}

impl Election {
    /// A candidate that has not begun. `api` writes freely: it is what the gate's opening depends on. `writes` is what is
    /// written while it leads.
    pub fn new(
        settings: Settings,
        api: Api,
        keeper: Arc<Keeper>,
        writes: Writes,
        recorder: Recorder,
        metrics: &Metrics,
    ) -> Self {
        let clock = api.clock().clone();
        let status = Status {
            inner: Arc::default(),
            clock: clock.clone(),
            tolerance: settings.lease_duration + HEALTH_TOLERANCE,
        };
        let leading = metrics
            .gauge(
                "leader_election_master_status",
                Stability::Alpha,
                "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
                &["name"],
            )
            .with(&[&settings.name]);
        leading.set(0.0);
        let slow_path = metrics
            .counter(
                "leader_election_slowpath_total",
                Stability::Alpha,
                "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. Please make sure to group by name.",
                &["name"],
            )
            .with(&[&settings.name]);
        let (sender, order) = channel::channel(Order::Stand);
        let memory = Memory::new(&settings.identity, settings.told_duration());
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
            leading,
            slow_path,
            trouble: None,
            suspended: Duration::ZERO,
        }
    }

    /// What others may know of it.
    pub fn status(&self) -> Status {
        self.status.clone()
    }

    /// Tells it to end.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Stands, leads, and returns when that is over. The gate is shut when it returns.
    pub async fn run(mut self) -> End {
        tracing::info!(lock = self.lock(), identity = self.settings.identity, "Attempting to acquire leader lease...");
        let Some(deadline) = self.acquire().await else {
            self.keeper.close();
            return End::Withdrawn;
        };
        self.leading.set(1.0);
        tracing::info!(lock = self.lock(), "Successfully acquired lease");
        self.announce("became leader");
        let lost = self.keep(deadline).await;
        self.keeper.close();
        self.leading.set(0.0);
        self.status.inner.lock().leading = false;
        if let Some(why) = lost {
            self.status.inner.lock().last_error.clone_from(&why);
            tracing::error!(lock = self.lock(), err = why, "Leader election lost");
            self.announce("stopped leading");
            return End::Lost;
        }
        match tokio::time::timeout(self.settings.renew_deadline, self.release()).await {
            Ok(Ok(())) => {
                tracing::info!(lock = self.lock(), "Released lease");
                End::Released
            }
            Ok(Err(err)) => {
                tracing::error!(lock = self.lock(), err, "Failed to release lease");
                End::NotReleased
            }
            Err(_) => {
                tracing::error!(lock = self.lock(), "Failed to release lease in time");
                End::NotReleased
            }
        }
    }

    fn lock(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }

    /// Attempts until the Lease is ours. Returns until when the gate is open, or nothing if told to stop.
    async fn acquire(&mut self) -> Option<Instant> {
        let released = watch::Released::new(&self.api, &self.settings);
        loop {
            if *self.order.borrow_and_update() != Order::Stand {
                return None;
            }
            if let Ended::Leads { since } = self.attempt().await {
                let left = self.memory.left().cloned();
                if let Some(left) = &left {
                    self.writes.inherit(left);
                }
                self.keeper.inherit(left);
                return Some(self.extend(since));
            }
            let pause = self.clock.jitter(self.settings.retry_period, JITTER);
            tokio::select! {
                biased;
                _ = self.order.changed() => {}
                () = released.seen() => {}
                () = self.clock.sleep(pause) => {}
            }
        }
    }

    /// Renews until told to release; otherwise returns why the Lease was lost.
    async fn keep(&mut self, mut deadline: Instant) -> Option<String> {
        let mut began = self.clock.instant();
        loop {
            if *self.order.borrow_and_update() == Order::Release {
                return None;
            }
            // Counted from the beginning of the last attempt: a slow server leaves no time to lose.
            let next = began + self.settings.retry_period;
            tokio::select! {
                biased;
                _ = self.order.changed() => continue,
                () = tokio::time::sleep_until(next.min(deadline)) => {}
            }
            if self.keeper.has_expired() {
                return Some(self.too_late());
            }
            began = self.clock.instant();
            // An attempt in flight ends at the deadline: its outcome no longer matters.
            let ended = tokio::select! {
                biased;
                ended = self.attempt() => ended,
                () = tokio::time::sleep_until(deadline) => continue,
            };
            match ended {
                // What was written while the gate was shut is refused for good: there is no way back.
                Ended::Leads { .. } if self.keeper.has_expired() => return Some(self.too_late()),
                Ended::Leads { since } => deadline = self.extend(since),
                Ended::Held { by } => return Some(format!("the lease is held by {by}")),
                Ended::Failed { .. } => {}
            }
        }
    }

    fn too_late(&mut self) -> String {
        let trouble = self.trouble.take().unwrap_or_else(|| "no attempt was made or answered".to_owned());
        format!("not renewed in time, last: {trouble}")
    }

    /// A success that was asked for at `since` and is known now moves the deadline.
    fn extend(&mut self, since: Instant) -> Instant {
        let now = self.clock.instant();
        let suspended = self.clock.suspended().saturating_sub(self.suspended);
        let deadline = step::holds_until(since, suspended, self.settings.renew_deadline);
        let mut state = self.status.inner.lock();
        state.leading = true;
        state.renewed = Some(now);
        drop(state);
        self.keeper.open_until(deadline);
        deadline
    }

    /// One attempt to acquire or renew.
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
                step::Next::Ask(next) => request = next,
                step::Next::End(ended) => break ended,
            }
        };
        if attempt.took_slow_path() {
            self.slow_path.inc();
        }
        if matches!(ended, Ended::Leads { .. }) {
            self.trouble = None;
        }
        let mut state = self.status.inner.lock();
        self.memory.holder().clone_into(&mut state.holder);
        state.last_error = match &ended {
            Ended::Failed { why } => why.clone(),
            _ => String::new(),
        };
        drop(state);
        match &ended {
            Ended::Leads { .. } => {}
            Ended::Held { by } => {
                tracing::debug!(lock = self.lock(), holder = by, "The lease is held and has not expired yet");
            }
            Ended::Failed { why } => {
                tracing::error!(lock = self.lock(), err = why, "Error retrieving or updating lease lock");
            }
        }
        ended
    }

    fn moment(&self) -> Moment {
        Moment { instant: self.clock.instant(), wall: self.clock.now() }
    }

    /// Puts one request to the API server.
    async fn ask(&self, request: &Request) -> Reply {
        let (namespace, name) = (&*self.settings.namespace, &*self.settings.name);
        let target = Target::object(LEASES, namespace, name);
        let exchange = async {
            match request {
                Request::Get => self.api.get(target).await,
                Request::Create(lease) => {
                    let body = step::body(namespace, name, lease);
                    self.api.create(Target::object(LEASES, namespace, ""), &body).await
                }
                Request::Replace(lease) => {
                    let body = step::body(namespace, name, lease);
                    self.api.replace(target, &body).await
                }
            }
        };
        let answer = match tokio::time::timeout(self.settings.request_timeout(), exchange).await {
            Ok(answer) => answer,
            Err(_) => {
                Err(api::Error::Lost(format!("no answer within {}", duration::format(self.settings.request_timeout()))))
            }
        };
        match answer {
            Ok(bytes) => match step::read(&bytes) {
                Ok(lease) => Reply::Lease(lease),
                Err(why) => Reply::Failed(why),
            },
            Err(error) if error.is_not_found() => Reply::Missing(error.to_string()),
            Err(error) => Reply::Failed(error.to_string()),
        }
    }

    /// Gives the Lease up, if it is ours.
    async fn release(&mut self) -> Result<(), String> {
        let left = self.writes.left(self.clock.instant());
        loop {
            let lease = match self.ask(&Request::Get).await {
                Reply::Missing(_) => return Ok(()),
                Reply::Failed(why) => return Err(why),
                Reply::Lease(lease) => lease,
            };
            let Some(given_up) = step::given_up(&lease, &self.settings.identity, self.clock.now(), left.as_ref())
            else {
                return Ok(());
            };
            match self.ask(&Request::Replace(given_up)).await {
                Reply::Lease(_) | Reply::Missing(_) => return Ok(()),
                // A renewal whose answer was lost may have come in between: look again, a little later.
                Reply::Failed(why) => {
                    tracing::debug!(lock = self.lock(), err = why, "Failed to release lease, trying again");
                    self.clock.sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Tells the Lease's readers who leads.
    fn announce(&self, what: &str) {
        let metadata = self.memory.metadata();
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
        let lease = ObjectRef {
            api_version: Text::new("coordination.k8s.io/v1"),
            kind: Text::new("Lease"),
            namespace: Text::new(&self.settings.namespace),
            name: Text::new(&self.settings.name),
            uid: Uid::new(text("uid")),
            version: Version::parse(text("resourceVersion")),
        };
        let message = format!("{} {what}", self.settings.identity);
        self.recorder.event(&lease, EventType::Normal, "LeaderElection", message);
    }
}

impl Drop for Election {
    /// An election that is dropped in the middle leaves no open gate behind.
    fn drop(&mut self) {
        self.keeper.close();
    }
}

/// Times of a Lease as they are written: microseconds.
pub(crate) fn micro_time(at: Timestamp) -> String {
    format!("{at:.6}")
}

#[cfg(test)]
mod tests;
