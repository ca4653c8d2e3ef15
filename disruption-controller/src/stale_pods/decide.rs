//! Decides when a condition `DisruptionTarget` is stale, as pure functions.

use std::{sync::Arc, time::Duration};

use common::prelude::*;
use jiff::Timestamp;

use crate::objects::{Disruption, Pod};

/// What one sync reads from the cache.
pub struct Snapshot {
    /// The Pod, which is neither finished nor terminating.
    pub pod: Arc<Pod>,
    /// Its condition.
    pub disruption: Disruption,
    /// How long the Pod may have the condition.
    pub timeout: Duration,
    /// The time of the sync.
    pub now: Timestamp,
}

/// The decision about a Pod.
#[derive(Debug, PartialEq, Eq)]
pub enum Plan {
    /// The Pod may still be terminated, for this long.
    Wait(Duration),
    /// The condition is reset.
    Reset,
}

impl SyncPlan for Plan {
    fn requeue_after(&self) -> Option<Duration> {
        if let Self::Wait(remaining) = self { Some(*remaining) } else { None }
    }

    fn situation(&self) -> String {
        match self {
            Self::Wait(_) => "the Pod may still be terminated".to_owned(),
            Self::Reset => "the Pod was not terminated".to_owned(),
        }
    }
}

/// Resets a condition that has lasted for the timeout.
///
/// Upstream: `pkg/controller/disruption`, `syncStalePodDisruption`.
pub fn decide(snapshot: &Snapshot) -> Plan {
    let remaining = time_until_stale(snapshot.disruption, snapshot.timeout, snapshot.now);
    if remaining.is_zero() { Plan::Reset } else { Plan::Wait(remaining) }
}

/// Returns how long the Pod may still have the condition; zero if the time is missing.
pub fn time_until_stale(Disruption { since }: Disruption, timeout: Duration, now: Timestamp) -> Duration {
    let elapsed = |since: Timestamp| now.duration_since(since);
    since.map_or(Duration::ZERO, |since| match Duration::try_from(elapsed(since)) {
        Ok(elapsed) => timeout.saturating_sub(elapsed),
        Err(_) => timeout.saturating_add(elapsed(since).unsigned_abs()),
    })
}

#[cfg(test)]
mod tests;
