//! The handlers that turn events of watches into keys of DaemonSets.

use std::sync::Arc;

use common::{parsed::ParseCache, pod_creation_pauses::PodCreationPauses, prelude::*, revision::CONTROLLER_REVISIONS};

use crate::{
    node_indexes::NodeIndexes,
    objects::{CachedPod, ControllerRevision, DaemonSet, Node, ParsedPodTemplate},
};

/// The event handlers, which enqueue the DaemonSets that an event concerns, and update the node indexes (nodes and Pods of a
/// DaemonSet). Upstream: `pkg/controller/daemon`, `addPod`, `updatePod`, `deletePod`, `addHistory`, `updateHistory`,
/// `deleteHistory`, `addNode`, `updateNode`.
pub(crate) struct EventHandlers {
    pub(crate) daemon_set_queue: Queue<NamespacedName>,
    pub(crate) node_update_queue: Queue<NamespacedName>,
    pub(crate) daemon_set_store: Arc<Store<DaemonSet>>,
    pub(crate) ledger: Ledger,
    pub(crate) pod_creation_pauses: PodCreationPauses,
    pub(crate) node_indexes: Arc<NodeIndexes>,
    pub(crate) parsed_templates: Arc<ParseCache<ParsedPodTemplate>>,
}

impl EventHandlers {
    /// Enqueues the DaemonSet at every event. Also removes the data about a DaemonSet that the cache no longer has.
    pub(crate) fn on_set(&self, event: &CacheEvent<DaemonSet>, origin: ChangeOrigin) {
        self.forget_set_if_deleted(&event.meta().key(), &event.meta().uid);
        self.daemon_set_queue.add(event.meta().key(), origin);
    }

    /// Removes the controller's data about a DaemonSet that the cache no longer has. A sync in flight repeats this at its end.
    pub(crate) fn forget_set_if_deleted(&self, key: &NamespacedName, uid: &Uid) {
        let current = self.daemon_set_store.with_metadata(&key.namespace, &key.name, |meta| meta.uid.clone());
        if current.as_ref() == Some(uid) {
            return;
        }
        self.ledger.forget_owner(uid);
        self.pod_creation_pauses.forget(uid);
        self.parsed_templates.forget(uid);
        self.node_indexes.remove_stale_record(key, current.as_ref());
    }

    /// Enqueues a node that was added or deleted, or has new labels or taints, and marks the eligibility of the node as
    /// undecided in all node indexes. Other changes of nodes, above all heartbeats, are ignored.
    ///
    /// The first list of nodes enqueues nothing. The first list of DaemonSets enqueues every DaemonSet, and no sync starts
    /// before both lists are complete.
    pub(crate) fn on_node(&self, event: &CacheEvent<Node>, origin: ChangeOrigin) {
        if let CacheEvent::Updated { old, new } = event
            && old.has_same_labels_and_taints(new)
        {
            return;
        }
        let node = Text::new(&event.meta().name);
        match event {
            CacheEvent::Deleted(_) => self.node_indexes.record_node_deletion(&node),
            _ => self.node_indexes.record_node_change(&node),
        }
        if origin != ChangeOrigin::Initial {
            self.node_update_queue.add(event.meta().key(), Priority::Normal);
        }
    }

    /// Enqueues the present and the former controller of the Pod; for an orphan, every DaemonSet that may adopt it.
    ///
    /// The first list of Pods enqueues nothing, because the first list of DaemonSets enqueues every DaemonSet.
    pub(crate) fn on_pod(&self, event: &CacheEvent<CachedPod>, origin: ChangeOrigin) {
        match event {
            CacheEvent::Added(pod) => self.node_indexes.record_pod_change(None, Some(pod)),
            CacheEvent::Updated { old, new } => self.node_indexes.record_pod_change(Some(old), Some(new)),
            CacheEvent::Deleted(pod) => self.node_indexes.record_pod_change(Some(pod), None),
            CacheEvent::Unreadable(pod) => {
                for set in self.node_indexes.drop_node_indexes_in_namespace(&pod.meta.namespace) {
                    self.daemon_set_queue.add(set, Priority::Normal);
                }
            }
        }
        if origin != ChangeOrigin::Initial {
            self.enqueue_for_child(event);
        }
    }

    /// Enqueues the DaemonSet of a revision, as for Pods. The creation of a revision with a controller enqueues the DaemonSet
    /// only if its next sync waits to see a revision that this process wrote.
    pub(crate) fn on_revision(&self, event: &CacheEvent<ControllerRevision>, origin: ChangeOrigin) {
        let is_expected = |owner: &OwnerRef| self.ledger.may_have_unseen_write(&owner.uid, &CONTROLLER_REVISIONS);
        let is_unexpected = match event {
            CacheEvent::Added(revision) if !revision.meta.is_deleting() => {
                revision.meta.controller().is_some_and(|owner| !is_expected(owner))
            }
            _ => false,
        };
        if origin != ChangeOrigin::Initial && !is_unexpected {
            self.enqueue_for_child(event);
        }
    }

    fn enqueue_for_child<K: Object>(&self, event: &CacheEvent<K>) {
        let selects = |set: &DaemonSet, labels: &_| set.selector.matches_orphan(labels);
        for set in find_concerned_owners(&self.daemon_set_store, event, selects) {
            self.daemon_set_queue.add(set.metadata.key(), Priority::Normal);
        }
    }
}

#[cfg(test)]
mod tests;
