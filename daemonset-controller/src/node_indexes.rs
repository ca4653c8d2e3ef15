//! The node indexes (the nodes and Pods) of all DaemonSets, which events keep up to date.
//!
//! All DaemonSets share the event handlers and the lock of [`NodeIndexes::change`]. A long wait in a handler, or for this lock,
//! delays all of them. A large Pod template must not cause such a wait, so nodes are compared with a placement without any
//! lock. Under the lock of a record, the work grows only with the number of its nodes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{pods::PODS, prelude::*};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};

use crate::{
    failed_pods::{BackoffBounds, FailedPodBackoff},
    node_index::{ChangeNumber, NodeIndex},
    objects::{DaemonSet, SharedPod},
    refused_changes::DeniedChangeBackoff,
    snapshot::{
        FirstTask,
        nodes::{Eligibility, RefusedNodeCursors},
        revisions::Revisions,
    },
};

/// The data that the controller keeps about one DaemonSet between syncs.
#[derive(Default)]
pub(crate) struct DaemonSetRecord {
    pub(crate) uid: Uid,
    pub(crate) node_index: Option<NodeIndex>,
    pub(crate) failed_pod_backoff: FailedPodBackoff,
    /// The requests to create a Pod that got no answer, by node. No other Pod is created for such a node until a new Pod appears
    /// there, or until the API server can no longer execute the request. After a restart, the first list of Pods shows the Pods.
    pub(crate) unanswered_pod_creations: BTreeMap<Text, UnansweredPodCreation>,
    pub(crate) refused_node_cursors: RefusedNodeCursors,
    /// The `metadata.generation` of the DaemonSet for which the cursors of refused nodes were recorded.
    pub(crate) cursors_generation: i64,
    /// The first task of the next sync: adopting orphans, or managing Pods.
    pub(crate) first_task_of_next_sync: FirstTask,
    pub(crate) denied_revision_changes: DeniedChangeBackoff,
    pub(crate) denied_pod_changes: DeniedChangeBackoff,
    /// The name of the new revision and the hash of the existing revision with this name and the same data. `None` if the name
    /// is not taken by such a revision.
    pub(crate) taken_revision_name_and_hash: Option<(String, Text)>,
}

/// A request to create a Pod for a node that got no answer.
pub(crate) struct UnansweredPodCreation {
    /// Uids of the node's Pods when the request was sent. A Pod with another uid may be the created Pod.
    pub(crate) known_uids: Vec<Uid>,
    /// The end of the time in which the request may take effect.
    pub(crate) until: Instant,
}

/// The record of one DaemonSet behind a lock. A thread that takes this lock and the lock of [`NodeIndexes::change`] takes the
/// lock of [`NodeIndexes::change`] first.
pub(crate) type SharedDaemonSetRecord = Arc<Mutex<DaemonSetRecord>>;

/// The records of all DaemonSets that have been synced.
#[derive(Default)]
pub(crate) struct NodeIndexes {
    /// The uids are outside the locks of the records, so that a lookup never waits for the lock of a record.
    records: Mutex<HashMap<NamespacedName, (Uid, SharedDaemonSetRecord)>>,
    failed_pod_backoff_bounds: BackoffBounds,
    /// Locked for writing while the cache of Pods and the node indexes change together, and for reading by syncs.
    change: RwLock<()>,
}

impl DaemonSetRecord {
    /// Returns the back-off of the denied changes of Pods or of revisions.
    pub(crate) fn denied_changes_of(&mut self, resource: &Resource) -> &mut DeniedChangeBackoff {
        if *resource == PODS { &mut self.denied_pod_changes } else { &mut self.denied_revision_changes }
    }

    /// Begins or extends the back-off of a node on which a failed Pod is deleted.
    pub(crate) fn record_failed_pod_deletion(&mut self, node: &Text, now: Timestamp) {
        self.failed_pod_backoff.record_failed_pod_deletion(node, now);
        if let Some(node_index) = &mut self.node_index {
            node_index.mark_contribution_undecided(node);
        }
    }

    /// Brings the contributions in the node index up to date, if there is one. Returns the number of decided contributions.
    pub(crate) fn update_node_index(&mut self, set: &DaemonSet, revisions: &Revisions, now: Timestamp) -> u64 {
        let Some(node_index) = &mut self.node_index else { return 0 };
        if self.cursors_generation != set.metadata.generation {
            // The server may accept the Pods of the new generation, so the order of nodes begins with the first node again.
            self.cursors_generation = set.metadata.generation;
            self.refused_node_cursors = RefusedNodeCursors::default();
        }
        // The back-off of these nodes has ended before its time, so their contribution must be decided again.
        for node in self.failed_pod_backoff.remove_expired_delays(set.status.observed_generation, now) {
            node_index.mark_contribution_undecided(&node);
        }
        node_index.update(set, &revisions.current_hash, &revisions.duplicate_hashes, now, &self.failed_pod_backoff);
        node_index.take_node_decision_count()
    }

    /// Returns the nodes with a creation that may still take effect, each with the remaining time.
    pub(crate) fn nodes_with_unanswered_pod_creation(&mut self, now: Instant) -> BTreeMap<Text, Duration> {
        let has_new_pod = |node: &Text, known_uids: &[Uid]| {
            self.node_index.as_ref().is_some_and(|node_index| node_index.has_pods_besides(node, known_uids))
        };
        let creations = &mut self.unanswered_pod_creations;
        creations.retain(|node, creation| creation.until > now && !has_new_pod(node, &creation.known_uids));
        let remaining = |creation: &UnansweredPodCreation| creation.until.saturating_duration_since(now);
        creations.iter().map(|(node, creation)| (node.clone(), remaining(creation))).collect()
    }
}

/// Brings the memory of eligibilities in a node index up to date: decides at most `max_nodes` changed nodes, and holds no lock
/// during a decision. Returns the locked record if no changed node remains, and otherwise the number of undecided nodes.
pub(crate) fn remember_eligibilities(
    record: &SharedDaemonSetRecord,
    mut max_nodes: usize,
    decide_eligibility: impl Fn(&Text) -> Eligibility,
) -> Result<MutexGuard<'_, DaemonSetRecord>, usize> {
    loop {
        let guard = record.lock();
        let Some(undecided) = guard.node_index.as_ref().map(|node_index| &node_index.nodes_with_undecided_eligibility)
        else {
            return Ok(guard);
        };
        match undecided.len() {
            0 => return Ok(guard),
            remaining if max_nodes == 0 => return Err(remaining),
            _ => {}
        }
        let undecided = undecided.first_nodes(max_nodes);
        drop(guard);
        max_nodes -= undecided.len();
        let decide = |(name, change): (Text, ChangeNumber)| {
            let eligibility = decide_eligibility(&name);
            (name, change, eligibility)
        };
        let decided: Vec<_> = undecided.into_iter().map(decide).collect();
        if let Some(node_index) = &mut record.lock().node_index {
            for (name, change, eligibility) in decided {
                node_index.store_eligibility(name, change, eligibility);
            }
        }
    }
}

impl NodeIndexes {
    pub(crate) fn new(failed_pod_backoff_bounds: BackoffBounds) -> Self {
        Self { failed_pod_backoff_bounds, ..Self::default() }
    }

    /// Calls `change`, which changes the cache of Pods and the node indexes, under the write lock. Syncs do not read meanwhile.
    pub(crate) fn with_locked_pods<R>(&self, change: impl FnOnce() -> R) -> R {
        let _change = self.change.write();
        change()
    }

    /// Keeps the cache of Pods and the node indexes unchanged while the guard exists. Events of Pods wait until the guard is
    /// dropped.
    ///
    /// If the cache shows the writes of this process, the node indexes show them as well while the guard exists.
    pub(crate) fn lock_against_pod_changes(&self) -> RwLockReadGuard<'_, ()> {
        self.change.read()
    }

    /// Returns the record of the DaemonSet. Creates a new record if no record has this uid.
    pub(crate) fn get_or_create_record(&self, key: &NamespacedName, uid: &Uid) -> SharedDaemonSetRecord {
        let mut records = self.records.lock();
        let new = || {
            let failed_pod_backoff = FailedPodBackoff::new(self.failed_pod_backoff_bounds);
            let record = DaemonSetRecord { uid: uid.clone(), failed_pod_backoff, ..DaemonSetRecord::default() };
            (uid.clone(), Arc::new(Mutex::new(record)))
        };
        let known = records.entry(key.clone()).or_insert_with(new);
        if known.0 != *uid {
            *known = new();
        }
        Arc::clone(&known.1)
    }

    /// Calls `work` with the locked record of the DaemonSet. Creates a new record if no record has this uid.
    pub(crate) fn with_record<R>(
        &self,
        key: &NamespacedName,
        uid: &Uid,
        work: impl FnOnce(&mut DaemonSetRecord) -> R,
    ) -> R {
        work(&mut self.get_or_create_record(key, uid).lock())
    }

    /// Removes the record at `key` unless its uid is `current`, the uid of the existing DaemonSet; `None` without such a
    /// DaemonSet.
    pub(crate) fn remove_stale_record(&self, key: &NamespacedName, current: Option<&Uid>) {
        let mut records = self.records.lock();
        if records.get(key).is_some_and(|(uid, _)| Some(uid) != current) {
            records.remove(key);
        }
    }

    fn all_records(&self) -> Vec<(NamespacedName, SharedDaemonSetRecord)> {
        self.records.lock().iter().map(|(key, (_, record))| (key.clone(), Arc::clone(record))).collect()
    }

    /// Drops the node indexes of a namespace with a Pod that cannot be decoded. Returns the keys of the namespace's DaemonSets.
    ///
    /// The caller must enqueue these keys, because changes of nodes do not reach a DaemonSet without a node index.
    pub(crate) fn drop_node_indexes_in_namespace(&self, namespace: &str) -> Vec<NamespacedName> {
        let of_namespace = self.all_records().into_iter().filter(|(key, _)| key.namespace.as_str() == namespace);
        of_namespace.filter(|(_, record)| record.lock().node_index.take().is_some()).map(|(key, _)| key).collect()
    }

    /// Passes a change of a Pod on to the node index of its controller; `old` is `None` for a new Pod, `new` for a deleted Pod.
    pub(crate) fn record_pod_change(&self, old: Option<&SharedPod>, new: Option<&SharedPod>) {
        if let Some(pod) = old {
            self.with_index_of_controller(pod, |node_index| node_index.remove_pod(pod));
        }
        if let Some(pod) = new {
            self.with_index_of_controller(pod, |node_index| node_index.insert_pod(pod));
        }
    }

    fn with_index_of_controller(&self, pod: &SharedPod, change: impl FnOnce(&mut NodeIndex)) {
        let Some(controller) = pod.meta().controller() else { return };
        let record = self.records.lock().get(&NamespacedName::new(&pod.meta().namespace, &controller.name)).cloned();
        let Some((_, record)) = record else { return };
        let mut record = record.lock();
        if pod.is_controlled_by(&controller.name, &record.uid)
            && let Some(node_index) = &mut record.node_index
        {
            change(node_index);
        }
    }

    /// Marks the eligibility of a node as undecided in every node index.
    pub(crate) fn record_node_change(&self, node: &Text) {
        for (_, record) in self.all_records() {
            if let Some(node_index) = &mut record.lock().node_index {
                node_index.mark_eligibility_undecided(node);
            }
        }
    }

    /// Passes the deletion of a node on to every node index, and removes the back-off of the Pods that failed on the node.
    pub(crate) fn record_node_deletion(&self, node: &Text) {
        for (_, record) in self.all_records() {
            let mut record = record.lock();
            record.failed_pod_backoff.remove_node(node);
            if let Some(node_index) = &mut record.node_index {
                node_index.record_node_deletion(node);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.records.lock().len()
    }

    #[cfg(test)]
    pub(crate) fn is_unlocked(&self) -> bool {
        let free = self.change.try_write().is_some() && self.records.try_lock().is_some();
        free && self.all_records().iter().all(|(_, record)| record.try_lock().is_some())
    }

    /// Calls `read` with each node index, under the lock of its record. Returns the values that `read` returns.
    pub(crate) fn map_node_indexes<R>(&self, read: impl Fn(NamespacedName, &NodeIndex) -> R) -> Vec<R> {
        let all = self.all_records().into_iter();
        all.filter_map(|(key, record)| Some(read(key, record.lock().node_index.as_ref()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{
        objects::{DaemonSet, ParsedPodTemplate},
        world::{decode_trimmed, set_without_pods},
    };

    /// The record of a DaemonSet without Pods and with `nodes` nodes, all with an undecided eligibility.
    fn undecided(node_indexes: &NodeIndexes, nodes: usize) -> SharedDaemonSetRecord {
        let world = set_without_pods(0);
        let set: Arc<DaemonSet> = decode_trimmed(&world.set);
        let template = Arc::new(ParsedPodTemplate::new(&set.template).unwrap());
        let names = (0..nodes).map(|n| Text::new(&format!("n{n}")));
        let record = node_indexes.get_or_create_record(&set.metadata.key(), &set.metadata.uid);
        record.lock().node_index = Some(NodeIndex::new(&set, template, Vec::new(), names));
        record
    }

    /// DAEMONSET-64.
    #[test]
    fn comparisons_with_a_placement_hold_no_lock() {
        let node_indexes = NodeIndexes::default();
        node_indexes.with_record(&NamespacedName::new("shop", "other"), &Uid::new("OTHER"), |_| ());
        let record = undecided(&node_indexes, 3);
        let asked = Cell::new(0);
        let decided = remember_eligibilities(&record, usize::MAX, |node| {
            asked.set(asked.get() + 1);
            assert!(node_indexes.is_unlocked());
            if asked.get() == 1 {
                // An event of the node during the comparison makes the eligibility of the node undecided again.
                node_indexes.record_node_change(node);
            }
            Eligibility::RunsPods
        });
        assert!(
            decided.is_ok_and(|record| record.node_index.as_ref().unwrap().nodes_with_undecided_eligibility.len() == 0)
        );
        assert_eq!(asked.get(), 4);
    }

    /// DAEMONSET-64.
    #[test]
    fn a_step_decides_a_limited_number_of_nodes_and_the_next_step_continues() {
        let node_indexes = NodeIndexes::default();
        let record = undecided(&node_indexes, 5);
        let step = || remember_eligibilities(&record, 2, |_| Eligibility::RunsPods).map(drop);
        assert_eq!([step(), step(), step()], [Err(3), Err(1), Ok(())]);
    }
}
