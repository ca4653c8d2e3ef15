//! The sets for which the server refuses every Pod because their namespace terminates.

use std::{sync::Arc, time::Duration};

use common::{
    clock::{Clock, Instant},
    map::HashMap,
    meta::Uid,
};
use parking_lot::Mutex;

/// Sets whose namespace terminates, by uid, each with when the server said so. Clones share them.
///
/// A namespace that has begun to terminate does not stop. Each Pod that the namespace controller deletes would otherwise bring
/// another vain request. After the time-out of expectations the server is asked again, as upstream does.
#[derive(Clone)]
pub(crate) struct TerminatingNamespaces {
    sets: Arc<Mutex<HashMap<Uid, Instant>>>,
    clock: Clock,
    timeout: Duration,
}

impl TerminatingNamespaces {
    pub(crate) fn new(clock: Clock, timeout: Duration) -> Self {
        Self { sets: Arc::default(), clock, timeout }
    }

    /// Notes that the server has refused a Pod of that set.
    pub(crate) fn insert(&self, set: &Uid) {
        self.sets.lock().insert(set.clone(), self.clock.instant());
    }

    /// Whether the server has refused a Pod of that set lately.
    pub(crate) fn contains(&self, set: &Uid) -> bool {
        let refused = self.sets.lock().get(set).copied();
        refused.is_some_and(|at| self.clock.instant().saturating_duration_since(at) < self.timeout)
    }

    /// Forgets a set that is gone.
    pub(crate) fn forget(&self, set: &Uid) {
        self.sets.lock().remove(set);
    }
}
