//! Handlers that map events to the keys of sets.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::Ledger,
    controller::priority,
    meta::{Key, Meta, Uid},
    owners::{adopters_of, owner_of},
    queue::{Priority, Queue},
    store::{Event, Origin, Store},
    terminating_namespaces::TerminatingNamespaces,
};

use crate::{
    kind::Kind,
    objects::{ReplicaSet, Set},
    pod_backoff::PodBackoff,
    pod_cache::CachedPod,
};

/// Number of Pods up to which the debounce of a set has its configured length. Beyond this number the debounce grows in proportion,
/// because the cost of a sync does, too.
const PODS_PER_BATCH: usize = 100;
/// Upper limit of that growth.
const MAX_BATCHES: u32 = 10;

/// Handlers of sets and Pods. Upstream: `pkg/controller/replicaset`, `addPod`, `updatePod`, `deletePod`, `addRS`, ...
pub(crate) struct Watch<K: Kind> {
    pub(crate) queue: Queue<Key>,
    pub(crate) sets: Arc<Store<Set<K>>>,
    pub(crate) ledger: Ledger,
    pub(crate) refused: TerminatingNamespaces,
    /// Debounce of Pod changes that do not change the number of active Pods, for a set of up to [`PODS_PER_BATCH`] Pods.
    pub(crate) batch: Duration,
    /// Receives the failures of Pods; `None` if the back-off is off.
    pub(crate) backoff: Option<PodBackoff>,
}

impl<K: Kind> Watch<K> {
    /// Enqueues the set of every event.
    pub(crate) fn on_set(&self, event: &Event<Set<K>>, origin: Origin) {
        match event {
            Event::Deleted(set) => self.forget(&set.set().metadata.uid),
            // Most often, this process has written the status. More changes of Pods follow in a large set.
            Event::Updated { old, new } if is_large(new.set()) && is_status_change(old.set(), new.set()) => {
                return self.queue.add_debounced(new.set().metadata.key(), self.debounce(new.set()));
            }
            _ => {}
        }
        self.queue.add(event.meta().key(), priority(origin));
    }

    /// Drops the memory of a deleted set.
    pub(crate) fn forget(&self, set: &Uid) {
        self.ledger.forget(set);
        self.refused.forget(set);
        if let Some(backoff) = &self.backoff {
            backoff.forget(set);
        }
    }

    /// Enqueues the set that owns, or owned, a Pod. An orphan enqueues every set that may adopt it.
    ///
    /// The initial list of Pods enqueues nothing: the initial list of sets enqueues every set, and no sync starts before the Pods
    /// have been listed.
    pub(crate) fn on_pod(&self, event: &Event<CachedPod>, origin: Origin) {
        if origin == Origin::Initial {
            return;
        }
        // The failure is recorded before the key is enqueued, so that the sync knows of the failure.
        if let Some(backoff) = &self.backoff {
            self.note(backoff, event, origin);
        }
        match event {
            Event::Added(pod) if pod.meta().controller().is_some() => self.add_owner(pod.meta()),
            Event::Added(pod) => self.add_adopters(pod.meta()),
            Event::Updated { old, new } => self.on_pod_update(old, new),
            Event::Deleted(pod) => self.on_pod_deletion(pod),
            Event::Unreadable(pod) => self.add_owner(&pod.meta),
        }
    }

    /// Reports a change of a Pod to the back-off of its set.
    ///
    /// A Pod that is missing from a later list may have failed or been deleted; it does not count as failed.
    fn note(&self, backoff: &PodBackoff, event: &Event<CachedPod>, origin: Origin) {
        let Some(set) = owner_of(&self.sets, event.meta()) else { return };
        let (set, pod) = (&set.set().metadata.uid, &event.meta().uid);
        match event {
            Event::Added(new) if new.is_ready() => backoff.forget(set),
            Event::Added(_) => backoff.appeared(set, pod),
            Event::Updated { old, new } if new.is_ready() && !(old.is_ready() && is_same_owner(old, new)) => {
                backoff.forget(set);
            }
            Event::Updated { .. } | Event::Unreadable(_) => {}
            Event::Deleted(last) => {
                let placed = last.is_active() && !last.node.is_empty();
                if origin == Origin::Watch && placed && !last.is_ready() {
                    backoff.failed(set, pod);
                } else {
                    backoff.gone(set, pod);
                }
            }
        }
    }

    fn on_pod_update(&self, old: &CachedPod, new: &CachedPod) {
        let (before, after) = (old.meta(), new.meta());
        if before.resource_version == after.resource_version {
            return;
        }
        let moved = before.controller() != after.controller();
        if moved {
            self.add_owner(before);
        }
        if after.controller().is_some() {
            if let Some(set) = owner_of(&self.sets, after) {
                let set = set.set();
                let ripens = set.min_ready_seconds > 0 && !after.is_deleting() && !old.is_ready() && new.is_ready();
                let counts = moved || old.is_active() != new.is_active() || before.labels != after.labels;
                if !ripens && !counts {
                    return self.queue.add_debounced(set.metadata.key(), self.debounce(set));
                }
                self.queue.add(set.metadata.key(), Priority::Normal);
                if ripens {
                    let delay = Duration::from_secs(u64::from(set.min_ready_seconds.unsigned_abs()));
                    self.queue.add_after(set.metadata.key(), delay);
                }
            }
        } else if moved || before.labels != after.labels {
            self.add_adopters(after);
        }
    }

    fn add_owner(&self, pod: &Meta) {
        if let Some(set) = owner_of(&self.sets, pod) {
            self.queue.add(set.set().metadata.key(), Priority::Normal);
        }
    }

    fn on_pod_deletion(&self, pod: &CachedPod) {
        let Some(set) = owner_of(&self.sets, pod.meta()) else { return };
        let set = set.set();
        if is_large(set) && !pod.is_active() {
            // The set was synced when the Pod began to terminate.
            self.queue.add_debounced(set.metadata.key(), self.debounce(set));
        } else {
            self.queue.add(set.metadata.key(), Priority::Normal);
        }
    }

    /// Returns the debounce of a set.
    fn debounce(&self, set: &ReplicaSet) -> Duration {
        let batches = u32::try_from(size(set) / PODS_PER_BATCH).unwrap_or(MAX_BATCHES);
        self.batch * batches.clamp(1, MAX_BATCHES)
    }

    fn add_adopters(&self, pod: &Meta) {
        for set in adopters_of(&self.sets, pod, |set| set.set().selector.matches_orphan(&pod.labels)) {
            self.queue.add(set.set().metadata.key(), Priority::Normal);
        }
    }
}

/// Returns the desired or the last counted number of Pods, the larger one.
fn size(set: &ReplicaSet) -> usize {
    set.replicas.max(usize::try_from(set.status.replicas).unwrap_or_default())
}

/// Returns whether a set has so many Pods that a sync is expensive.
fn is_large(set: &ReplicaSet) -> bool {
    size(set) >= PODS_PER_BATCH
}

/// Returns whether an update leaves the spec and the existence of a set as they were.
fn is_status_change(old: &ReplicaSet, new: &ReplicaSet) -> bool {
    let (old, new) = (&old.metadata, &new.metadata);
    old.resource_version != new.resource_version
        && old.uid == new.uid
        && old.generation == new.generation
        && old.is_deleting() == new.is_deleting()
}

/// Returns whether both versions of a Pod have the same controller.
fn is_same_owner(old: &CachedPod, new: &CachedPod) -> bool {
    old.meta().controller() == new.meta().controller()
}

#[cfg(test)]
mod tests;
