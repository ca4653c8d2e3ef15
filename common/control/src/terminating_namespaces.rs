//! Which owners the server refuses every Pod because their namespace terminates.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{
    clock::{Clock, Instant},
    map::HashMap,
    meta::Uid,
};

/// Owners of Pods whose namespace terminates, by uid, each with when the server said so. Clones share them.
///
/// A namespace that has begun to terminate does not stop. Each Pod that the namespace controller deletes would otherwise bring
/// another vain request. After the time-out of expectations the server is asked again, as upstream does.
#[derive(Clone)]
pub struct TerminatingNamespaces {
    owners: Arc<Mutex<HashMap<Uid, Instant>>>,
    clock: Clock,
    timeout: Duration,
}

impl TerminatingNamespaces {
    /// No owner. An entry counts for `timeout`.
    pub fn new(clock: Clock, timeout: Duration) -> Self {
        Self { owners: Arc::default(), clock, timeout }
    }

    /// Notes that the server has refused a Pod of that owner.
    pub fn insert(&self, owner: &Uid) {
        self.owners.lock().insert(owner.clone(), self.clock.instant());
    }

    /// Whether the server has refused a Pod of that owner lately.
    pub fn contains(&self, owner: &Uid) -> bool {
        let refused = self.owners.lock().get(owner).copied();
        refused.is_some_and(|at| self.clock.instant().saturating_duration_since(at) < self.timeout)
    }

    /// How many owners are known, also those of which the server was asked long ago.
    pub fn len(&self) -> usize {
        self.owners.lock().len()
    }

    /// Whether no owner is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets an owner that is gone.
    pub fn forget(&self, owner: &Uid) {
        self.owners.lock().remove(owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_refusal_counts_until_the_time_out_or_until_the_owner_is_gone() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let refused = TerminatingNamespaces::new(clock.clone(), Duration::from_secs(300));
        let (a, b) = (Uid::new("a"), Uid::new("b"));
        refused.insert(&a);
        refused.insert(&b);
        refused.forget(&b);
        assert!(refused.contains(&a) && !refused.contains(&b));
        clock.sleep(Duration::from_secs(300)).await;
        assert!(!refused.contains(&a) && refused.len() == 1);
        refused.forget(&a);
        assert!(refused.is_empty());
    }
}
