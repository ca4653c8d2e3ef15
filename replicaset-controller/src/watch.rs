//! Decides which sets a change of a set or a Pod enqueues, and when.

use std::{sync::Arc, time::Duration};

use common::{pod_creation_pauses::PodCreationPauses, prelude::*};

use crate::{
    kind::SetKind,
    objects::{CachedSet, ReplicaSet},
    pod_backoff::FailedPodBackoffs,
    pod_cache::CachedPod,
};

/// The event handlers of sets and Pods. Upstream: `pkg/controller/replicaset`, `addPod`, `updatePod`, `deletePod`, `addRS`, ...
pub(crate) struct EventHandlers<K: SetKind> {
    pub(crate) queue: Queue<NamespacedName>,
    pub(crate) replica_set_store: Arc<Store<CachedSet<K>>>,
    pub(crate) ledger: Ledger,
    pub(crate) pod_creation_pauses: PodCreationPauses,
    /// Minimum debounce of changes that do not affect the count of active Pods; see [`debounce_for_pods`] for large sets.
    pub(crate) min_debounce_period: Duration,
    /// The back-off of sets with failing Pods; `None` unless `--tune failed-pod-backoff` is on.
    pub(crate) failed_pod_backoffs: Option<FailedPodBackoffs>,
}

impl<K: SetKind> EventHandlers<K> {
    /// Enqueues the set of an event, after a debounce if only its status has changed.
    pub(crate) fn on_set_event(&self, event: &CacheEvent<CachedSet<K>>, origin: ChangeOrigin) {
        match event {
            CacheEvent::Deleted(set) => self.forget_set(&set.meta().uid),
            // This process has usually written the status. In a large set, more Pods change soon, and one sync handles them
            // all.
            CacheEvent::Updated { old, new } => {
                let (old, new) = (&old.replica_set, &new.replica_set);
                if new.metadata.is_status_change_of(&old.metadata) {
                    return self.queue.add_debounced(new.metadata.key(), self.debounce_for_set(new));
                }
            }
            _ => {}
        }
        self.queue.add(event.meta().key(), origin);
    }

    /// Removes everything that this process keeps about a deleted set.
    pub(crate) fn forget_set(&self, set_uid: &Uid) {
        self.ledger.forget_owner(set_uid);
        self.pod_creation_pauses.forget(set_uid);
        if let Some(backoff) = &self.failed_pod_backoffs {
            backoff.end_failure_series(set_uid);
        }
    }

    /// Enqueues the set that owns, or owned, a Pod. For an orphan, enqueues every set that may adopt it.
    ///
    /// The initial list of Pods enqueues nothing, because the initial list of sets enqueues every set, and no sync starts
    /// before the Pods have been listed.
    pub(crate) fn on_pod_event(&self, event: &CacheEvent<CachedPod>, origin: ChangeOrigin) {
        if origin == ChangeOrigin::Initial {
            return;
        }
        // The failure is recorded before the key is enqueued, so that the sync knows of the failure.
        if let Some(backoff) = &self.failed_pod_backoffs {
            self.record_for_backoff(backoff, event, origin);
        }
        for owners in concerned_owners(event) {
            match owners {
                ConcernedOwners::Controller(pod) => self.add_owner(event, pod),
                ConcernedOwners::Adopters(pod) => {
                    let selects = |set: &CachedSet<K>| set.replica_set.selector.matches_orphan(&pod.labels);
                    for set in find_potential_adopters(&self.replica_set_store, pod, selects) {
                        self.queue.add(set.meta().key(), Priority::Normal);
                    }
                }
            }
        }
    }

    /// Reports a change of a Pod to the back-off of its set.
    ///
    /// A Pod that is missing from a later list may have failed or been deleted; it does not count as failed.
    fn record_for_backoff(&self, backoff: &FailedPodBackoffs, event: &CacheEvent<CachedPod>, origin: ChangeOrigin) {
        let Some(set) = controlling_owner(&self.replica_set_store, event.meta()) else { return };
        let (set, pod) = (&set.meta().uid, &event.meta().uid);
        match event {
            CacheEvent::Added(new) if new.is_ready() => backoff.end_failure_series(set),
            CacheEvent::Added(_) => backoff.record_new_pod(set, pod),
            CacheEvent::Updated { old, new } if new.is_ready() && !(old.is_ready() && is_same_owner(old, new)) => {
                backoff.end_failure_series(set);
            }
            CacheEvent::Updated { .. } | CacheEvent::Unreadable(_) => {}
            CacheEvent::Deleted(last) => {
                let placed = last.is_active() && !last.node_name.is_empty();
                if origin == ChangeOrigin::Watch && placed && !last.is_ready() {
                    backoff.record_failed_pod(set, pod);
                } else {
                    backoff.record_deleted_pod(set, pod);
                }
            }
        }
    }

    /// Returns the debounce for the larger of `spec.replicas` and `status.replicas`.
    fn debounce_for_set(&self, set: &ReplicaSet) -> Duration {
        let pod_count = set.replicas.max(usize::try_from(set.status.replicas).unwrap_or_default());
        debounce_for_pods(self.min_debounce_period, pod_count)
    }

    /// Enqueues the set that controls the Pod with this metadata, which is the Pod's state before or after the event.
    fn add_owner(&self, event: &CacheEvent<CachedPod>, pod: &Meta) {
        let Some(set) = controlling_owner(&self.replica_set_store, pod) else { return };
        let set = &set.replica_set;
        let debounce = self.debounce_for_set(set);
        let key = set.metadata.key();
        match event {
            CacheEvent::Updated { old, new } if std::ptr::eq(pod, new.meta()) => {
                let ripens = set.min_ready_seconds > 0 && !pod.is_deleting() && !old.is_ready() && new.is_ready();
                let counts = !is_same_owner(old, new)
                    || old.is_active() != new.is_active()
                    || old.meta().labels != new.meta().labels;
                if !ripens && !counts {
                    return self.queue.add_debounced(key, debounce.max(self.min_debounce_period));
                }
                self.queue.add(key.clone(), Priority::Normal);
                if ripens {
                    let delay = Duration::from_secs(u64::from(set.min_ready_seconds.unsigned_abs()));
                    self.queue.add_after(key, delay);
                }
            }
            // The disappearance of a terminating Pod is not urgent, because the set was synced when the termination began.
            CacheEvent::Deleted(last) => {
                self.queue.add_debounced(key, if last.is_active() { Duration::ZERO } else { debounce });
            }
            _ => self.queue.add(key, Priority::Normal),
        }
    }
}

/// Whether both versions of a Pod have the same controller.
fn is_same_owner(old: &CachedPod, new: &CachedPod) -> bool {
    old.meta().controller() == new.meta().controller()
}

#[cfg(test)]
mod tests;
