//! Remembers the owners in terminating namespaces, where the server refuses every new Pod.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{
    clock::{Clock, Instant},
    map::HashMap,
    meta::Uid,
};

/// UIDs of owners in terminating namespaces, each with the time of the server's last refusal. Clones share the owners.
///
/// The termination of a namespace cannot be undone. Without this memory, each Pod that the namespace controller deletes would
/// cause another create request in vain. After the time-out the controller tries to create a Pod again, as upstream does.
#[derive(Clone)]
pub struct OwnersInTerminatingNamespaces {
    owners: Arc<Mutex<HashMap<Uid, Instant>>>,
    clock: Clock,
    timeout: Duration,
}

impl OwnersInTerminatingNamespaces {
    /// Creates an empty set. An owner expires when `timeout` has passed since its last insertion.
    pub fn new(clock: Clock, timeout: Duration) -> Self {
        Self { owners: Arc::default(), clock, timeout }
    }

    /// Records that the server has just refused a Pod of `owner`.
    pub fn insert(&self, owner: &Uid) {
        self.owners.lock().insert(owner.clone(), self.clock.monotonic_now());
    }

    /// Whether the server has refused a Pod of `owner` within the time-out.
    pub fn contains(&self, owner: &Uid) -> bool {
        let refused = self.owners.lock().get(owner).copied();
        refused.is_some_and(|at| self.clock.monotonic_now().saturating_duration_since(at) < self.timeout)
    }

    /// Returns the count of owners, including expired ones.
    pub fn len(&self) -> usize {
        self.owners.lock().len()
    }

    /// Whether the set has no owners, not even expired ones.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes an owner that no longer exists.
    pub fn forget(&self, owner: &Uid) {
        self.owners.lock().remove(owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_refusal_counts_until_the_time_out_or_until_the_owner_is_forgotten() {
        let clock = Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 0);
        let refused = OwnersInTerminatingNamespaces::new(clock.clone(), Duration::from_secs(300));
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
