//! The settings of an election: its Lease, its candidate, and its timing.

use std::time::Duration;

use super::probation::ProbationSettings;
use crate::{clock::Clock, duration};

/// Upper limit of the jitter added to a wait between attempts, as a factor of the wait. Upstream:
/// `leaderelection.JitterFactor`.
pub(super) const JITTER_FACTOR: f64 = 1.2;

/// The duration of the Lease of a leader that knows of no standby, in lease durations. It renews one lease duration earlier.
const LONE_LEASE_DURATIONS: u32 = 4;

/// The settings of one candidate: its Lease, its identity, and its timing.
#[derive(Clone, Debug)]
pub struct ElectionSettings {
    /// `metadata.name` of the Lease.
    pub name: String,
    /// `metadata.namespace` of the Lease.
    pub namespace: String,
    /// Holder identity of this candidate, unique for each start. See [`new_holder_identity`].
    pub identity: String,
    /// How long other candidates leave the Lease to its holder after the last change that they observed.
    pub lease_duration: Duration,
    /// How long a leader may write after it has sent its last successful renewal.
    pub renew_deadline: Duration,
    /// The wait between attempts, before jitter.
    pub retry_period: Duration,
    /// Version of this candidate, and length of a probation; `None` if versions do not matter.
    pub probation: Option<ProbationSettings>,
    /// Whether this candidate takes a Lease that does not exist. If false, it creates the Lease held, and waits until an operator
    /// releases it.
    pub leads_without_release: bool,
}

impl ElectionSettings {
    /// Creates settings with upstream's timing: 15s lease duration, 10s renew deadline, 2s retry period.
    pub fn new(namespace: &str, name: &str, identity: String) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            identity,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            probation: None,
            leads_without_release: false,
        }
    }

    /// Returns the lease duration as the Lease states it: in whole seconds.
    pub(super) fn stated_lease_duration(&self) -> Duration {
        Duration::from_secs(self.lease_duration.as_secs())
    }

    /// Returns how long after a renewal the next one is sent, where a renewal took `last_answer_time`: so that the gate stays open,
    /// with time for two answers of this kind and for two attempts.
    pub(super) fn renewal_period(&self, last_answer_time: Duration) -> Duration {
        (self.renew_deadline * 4 / 5).saturating_sub(last_answer_time * 2).max(self.retry_period)
    }

    /// Returns how long after a renewal an idle leader without standbys sends the next one.
    pub(super) fn lone_renewal_period(&self) -> Duration {
        self.stated_lease_duration() * (LONE_LEASE_DURATIONS - 1)
    }

    /// Returns the duration in seconds that the Lease of a leader without standbys states.
    pub(super) fn lone_lease_duration_seconds(&self) -> i64 {
        (self.stated_lease_duration() * LONE_LEASE_DURATIONS).as_secs() as i64
    }

    /// Checks the timing; the error describes the problem.
    ///
    /// Upstream compares the durations of the flags. A leader with a lease duration of 10.9s may then write for the 10.5s of its
    /// renew deadline, while other candidates wait only for the 10s that its Lease states. This check uses the duration that the
    /// Lease states.
    pub fn check_timing(&self) -> Result<(), String> {
        let [lease, deadline, retry] =
            [self.lease_duration, self.renew_deadline, self.retry_period].map(duration::format);
        if self.retry_period.is_zero() || self.renew_deadline.is_zero() || self.lease_duration.is_zero() {
            return Err("lease duration, renew deadline and retry period must be greater than zero".to_owned());
        }
        let told = self.stated_lease_duration();
        if told.is_zero() {
            return Err(format!("lease duration ({lease}) must be at least 1s"));
        }
        if told <= self.renew_deadline {
            let whole = if told == self.lease_duration { "" } else { ", which the lease states in whole seconds," };
            return Err(format!("lease duration ({lease}){whole} must be greater than renew deadline ({deadline})"));
        }
        if self.renew_deadline <= self.retry_period.mul_f64(JITTER_FACTOR) {
            let least = format!("{JITTER_FACTOR} times the retry period ({retry})");
            return Err(format!("renew deadline ({deadline}) must be greater than {least}"));
        }
        Ok(())
    }

    /// Returns the time-out of one request: half the renew deadline, at least one second.
    pub fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }
}

/// Returns a holder identity that is unique for each start: `<hostname>_<uuid>`.
pub fn new_holder_identity(hostname: &str, clock: &Clock) -> String {
    format!("{hostname}_{}", clock.random_uuid())
}
