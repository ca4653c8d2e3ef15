//! Handlers that map events to the keys of sets.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::Ledger,
    controller::{debounce, priority},
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

/// The event handlers of sets and Pods. Upstream: `pkg/controller/replicaset`, `addPod`, `updatePod`, `deletePod`, `addRS`, ...
pub(crate) struct Watch<K: Kind> {
    pub(crate) queue: Queue<Key>,
    pub(crate) sets: Arc<Store<Set<K>>>,
    pub(crate) ledger: Ledger,
    pub(crate) refused: TerminatingNamespaces,
    /// Minimum debounce of Pod changes that do not affect the number of active Pods. [`debounce`] is longer for large sets.
    pub(crate) batch: Duration,
    /// The back-off of sets with failing Pods; `None` if it is off.
    pub(crate) backoff: Option<PodBackoff>,
}

impl<K: Kind> Watch<K> {
    /// Enqueues the set of an event, after a debounce if only its status has changed.
    pub(crate) fn on_set(&self, event: &Event<Set<K>>, origin: Origin) {
        match event {
            Event::Deleted(set) => self.forget(&set.set().metadata.uid),
            // Usually this process has written the status. In a large set, changes of further Pods follow.
            Event::Updated { old, new } => {
                let (old, new) = (old.set(), new.set());
                if new.metadata.is_status_change_of(&old.metadata) {
                    return self.queue.add_debounced(new.metadata.key(), debounce(self.batch, size(new)));
                }
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
                    return self
                        .queue
                        .add_debounced(set.metadata.key(), debounce(self.batch, size(set)).max(self.batch));
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
        // The end of a terminating Pod is not urgent: the set was synced when the termination began.
        let delay = if pod.is_active() { Duration::ZERO } else { debounce(self.batch, size(set)) };
        self.queue.add_debounced(set.metadata.key(), delay);
    }

    fn add_adopters(&self, pod: &Meta) {
        for set in adopters_of(&self.sets, pod, |set| set.set().selector.matches_orphan(&pod.labels)) {
            self.queue.add(set.set().metadata.key(), Priority::Normal);
        }
    }
}

/// Returns the larger of the desired and the last counted number of Pods.
fn size(set: &ReplicaSet) -> usize {
    set.replicas.max(usize::try_from(set.status.replicas).unwrap_or_default())
}

/// Returns whether both versions of a Pod have the same controller.
fn is_same_owner(old: &CachedPod, new: &CachedPod) -> bool {
    old.meta().controller() == new.meta().controller()
}

#[cfg(test)]
mod tests;
