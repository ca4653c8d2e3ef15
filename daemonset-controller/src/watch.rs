//! The handlers that turn events of watches into keys of DaemonSets.

use std::sync::Arc;

use common::{
    consistency::Ledger,
    controller::priority,
    intern::Text,
    meta::{Key, Meta, OwnerRef, Uid},
    object::Object,
    owners::{adopters_of, owner_of},
    parsed::Parsed,
    queue::{Priority, Queue},
    revision::CONTROLLER_REVISIONS,
    store::{Event, Origin, Store},
    terminating_namespaces::TerminatingNamespaces,
};

use crate::{
    objects::{CachedPod, ControllerRevision, DaemonSet, DaemonTemplate, Node},
    rosters::Rosters,
};

/// The event handlers: they enqueue the DaemonSets that an event concerns, and update the rosters (nodes and Pods of a
/// DaemonSet). Upstream: `pkg/controller/daemon`, `addPod`, `updatePod`, `deletePod`, `addHistory`, `updateHistory`,
/// `deleteHistory`, `addNode`, `updateNode`.
pub(crate) struct Watch {
    pub(crate) queue: Queue<Key>,
    pub(crate) node_updates: Queue<Key>,
    pub(crate) sets: Arc<Store<DaemonSet>>,
    pub(crate) ledger: Ledger,
    pub(crate) refused: TerminatingNamespaces,
    pub(crate) rosters: Arc<Rosters>,
    pub(crate) templates: Arc<Parsed<DaemonTemplate>>,
}

impl Watch {
    /// Enqueues the DaemonSet at every event. If the cache no longer has it, also removes its memory.
    pub(crate) fn on_set(&self, event: &Event<DaemonSet>, origin: Origin) {
        self.forget_if_gone(&event.meta().key(), &event.meta().uid);
        self.queue.add(event.meta().key(), priority(origin));
    }

    /// Removes the memory of a DaemonSet if the cache no longer has it. A sync in flight repeats the removal at its end.
    pub(crate) fn forget_if_gone(&self, key: &Key, uid: &Uid) {
        let current = self.sets.peek(&key.namespace, &key.name, |meta| meta.uid.clone());
        if current.as_ref() == Some(uid) {
            return;
        }
        self.ledger.forget(uid);
        self.refused.forget(uid);
        self.templates.forget(uid);
        self.rosters.forget(key, current.as_ref());
    }

    /// Enqueues a node that was added or deleted, or with changed labels or taints, and marks its eligibility as undecided in
    /// all rosters. Other changes of nodes, above all heartbeats, are ignored.
    ///
    /// The first list of nodes enqueues nothing. The first list of DaemonSets enqueues every DaemonSet, and no sync starts
    /// before both lists are complete.
    pub(crate) fn on_node(&self, event: &Event<Node>, origin: Origin) {
        if let Event::Updated { old, new } = event
            && old.admits_the_same_as(new)
        {
            return;
        }
        let node = Text::new(&event.meta().name);
        match event {
            Event::Deleted(_) => self.rosters.node_gone(&node),
            _ => self.rosters.node_changed(&node),
        }
        if origin != Origin::Initial {
            self.node_updates.add(event.meta().key(), Priority::Normal);
        }
    }

    /// Enqueues the present and the former controller of the Pod; for an orphan, every DaemonSet that may adopt it.
    ///
    /// The first list of Pods enqueues nothing, because the first list of DaemonSets enqueues every DaemonSet.
    pub(crate) fn on_pod(&self, event: &Event<CachedPod>, origin: Origin) {
        match event {
            Event::Added(pod) => self.rosters.pod_changed(None, Some(pod)),
            Event::Updated { old, new } => self.rosters.pod_changed(Some(old), Some(new)),
            Event::Deleted(pod) => self.rosters.pod_changed(Some(pod), None),
            Event::Unreadable(pod) => {
                for set in self.rosters.drop_rosters(&pod.meta.namespace) {
                    self.queue.add(set, Priority::Normal);
                }
            }
        }
        if origin == Origin::Initial {
            return;
        }
        self.on_child(event);
    }

    /// Enqueues the DaemonSet of a revision, as for Pods. A created revision that has a controller enqueues it only if the next
    /// sync waits to see a revision that this process wrote.
    pub(crate) fn on_revision(&self, event: &Event<ControllerRevision>, origin: Origin) {
        let is_expected = |owner: &OwnerRef| self.ledger.awaits_write(&owner.uid, CONTROLLER_REVISIONS);
        let is_unexpected = match event {
            Event::Added(revision) if !revision.meta.is_deleting() => {
                revision.meta.controller().is_some_and(|owner| !is_expected(owner))
            }
            _ => false,
        };
        if origin != Origin::Initial && !is_unexpected {
            self.on_child(event);
        }
    }

    fn on_child<K: Object>(&self, event: &Event<K>) {
        match event {
            Event::Updated { old, new } => self.on_update(old.meta(), new.meta()),
            Event::Added(child) if child.meta().controller().is_none() => self.add_adopters(child.meta()),
            Event::Added(_) | Event::Deleted(_) | Event::Unreadable(_) => self.add_owner(event.meta()),
        }
    }

    fn on_update(&self, before: &Meta, after: &Meta) {
        if before.resource_version == after.resource_version {
            return;
        }
        let moved = before.controller() != after.controller();
        if moved {
            self.add_owner(before);
        }
        if after.controller().is_some() {
            self.add_owner(after);
        } else if moved || before.labels != after.labels {
            self.add_adopters(after);
        }
    }

    fn add_owner(&self, child: &Meta) {
        if let Some(set) = owner_of(&self.sets, child) {
            self.queue.add(set.metadata.key(), Priority::Normal);
        }
    }

    fn add_adopters(&self, child: &Meta) {
        for set in adopters_of(&self.sets, child, |set| set.selector.matches_orphan(&child.labels)) {
            self.queue.add(set.metadata.key(), Priority::Normal);
        }
    }
}

#[cfg(test)]
mod tests;
