//! Who stands for which Lease, and how fast.

use std::time::Duration;

use super::probation::Probation;
use crate::{clock::Clock, duration};

/// How a wait between attempts is lengthened at most. Upstream: `leaderelection.JitterFactor`.
pub(super) const JITTER: f64 = 1.2;

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
    /// What this candidate's version is, and how long a new one leads on probation. None if versions do not matter.
    pub probation: Option<Probation>,
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
            probation: None,
        }
    }

    /// How long others wait: a Lease tells it in whole seconds.
    pub(super) fn told_duration(&self) -> Duration {
        Duration::from_secs(self.lease_duration.as_secs())
    }

    /// What is wrong with the timing, if anything is.
    ///
    /// Upstream compares the durations as they are given, and so lets a leader with a lease duration of 10.9s go on for the
    /// 10.5s of its renew deadline while others wait for the 10s that its Lease tells them. Here the Lease counts.
    pub fn check(&self) -> Result<(), String> {
        let [lease, deadline, retry] =
            [self.lease_duration, self.renew_deadline, self.retry_period].map(duration::format);
        if self.retry_period.is_zero() || self.renew_deadline.is_zero() || self.lease_duration.is_zero() {
            return Err("lease duration, renew deadline and retry period must be greater than zero".to_owned());
        }
        let told = self.told_duration();
        if told.is_zero() {
            return Err(format!("lease duration ({lease}) must be at least 1s"));
        }
        if told <= self.renew_deadline {
            let whole = if told == self.lease_duration { "" } else { ", in whole seconds as others are told it," };
            return Err(format!("lease duration ({lease}){whole} must be greater than renew deadline ({deadline})"));
        }
        if self.renew_deadline <= self.retry_period.mul_f64(JITTER) {
            let least = format!("{JITTER} times the retry period ({retry})");
            return Err(format!("renew deadline ({deadline}) must be greater than {least}"));
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
