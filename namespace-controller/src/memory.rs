//! What the loop remembers between syncs: its findings by namespace, and the shared discovery.

use std::time::Duration;

use common::prelude::*;
use parking_lot::Mutex;

use crate::decide::content::{Content, Findings};

/// Time after the deletion of a namespace in which other API servers learn of it. Upstream: `namespaceDeletionGracePeriod`.
pub(crate) const NAMESPACE_DELETION_GRACE_PERIOD: Duration = Duration::from_secs(5);
/// Maximum age of a discovery that a sync uses, counted from its beginning.
const MAX_DISCOVERY_AGE: Duration = Duration::from_secs(10);

/// The memory of the loop.
pub(crate) struct Memory {
    clock: Clock,
    /// For each terminating namespace, the time of its first sync, and what the last sync has found.
    namespaces: Mutex<HashMap<Uid, (Instant, Findings)>>,
    /// The newest discovery with the time of its beginning.
    discovery: Mutex<Option<(Instant, Content)>>,
}

impl Memory {
    pub(crate) fn new(clock: &Clock) -> Self {
        Self { clock: clock.clone(), namespaces: Mutex::default(), discovery: Mutex::default() }
    }

    /// Remembers a namespace that is terminating. A later call changes nothing.
    pub(crate) fn remember(&self, uid: &Uid) {
        let first_sync = self.clock.monotonic_now() + NAMESPACE_DELETION_GRACE_PERIOD;
        self.namespaces.lock().entry(uid.clone()).or_insert_with(|| (first_sync, Findings::default()));
    }

    /// Forgets a namespace that no longer exists.
    pub(crate) fn forget(&self, uid: &Uid) {
        self.namespaces.lock().remove(uid);
    }

    /// Returns what the last sync has found in a namespace, and how long its first sync still has to wait.
    pub(crate) fn findings_of(&self, uid: &Uid) -> (Findings, Duration) {
        let now = self.clock.monotonic_now();
        let known = self.namespaces.lock().get(uid).cloned();
        known.map_or_else(Default::default, |(first_sync, findings)| {
            (findings, first_sync.saturating_duration_since(now))
        })
    }

    /// Remembers what a sync has found in a namespace.
    pub(crate) fn record_findings(&self, uid: &Uid, findings: Findings) {
        self.namespaces.lock().entry(uid.clone()).and_modify(|(_, known)| *known = findings);
    }

    /// Returns the shared discovery.
    ///
    /// # Errors
    /// If it is too old, or began before the first sync of the namespace was due, so that it may lack a kind of the content. Holds the
    /// current time.
    pub(crate) fn discovery_for(&self, uid: &Uid) -> Result<Content, Instant> {
        let now = self.clock.monotonic_now();
        let first_sync = self.namespaces.lock().get(uid).map_or(now, |(first_sync, _)| *first_sync);
        let is_usable =
            |began: Instant| began >= first_sync && now.saturating_duration_since(began) <= MAX_DISCOVERY_AGE;
        self.discovery.lock().clone().filter(|(began, _)| is_usable(*began)).map(|(_, content)| content).ok_or(now)
    }

    /// Remembers a discovery that began at this time.
    pub(crate) fn record_discovery(&self, began: Instant, content: Content) {
        *self.discovery.lock() = Some((began, content));
    }
}
