//! Reads the caches and the memory of a DaemonSet into a [`Snapshot`].

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::{prelude::*, refs};
use jiff::Timestamp;
use parking_lot::MutexGuard;

use crate::{
    DaemonSetController,
    decide::{eligibility::decide_eligibility, revisions::decide_revisions},
    node_index::NodeIndex,
    node_indexes::{DaemonSetRecord, SharedDaemonSetRecord, remember_eligibilities},
    objects::{DAEMON_SETS, DaemonSet, NodePlacement, ParsedPodTemplate, SharedPod},
    snapshot::{
        DeniedChanges, PodsToChange, Snapshot,
        nodes::{DelayedPodCreations, Eligibility},
        revisions::{Revisions, revision_hash_or_name},
    },
    watch::EventHandlers,
};

/// Maximum number of comparisons between nodes and the values of a placement in one sync. For a placement of usual size, this
/// suffices for more nodes than a cluster has.
pub(crate) const MAX_COMPARISONS_PER_SYNC: usize = 1 << 18;
/// Pause of a DaemonSet between two syncs that compare nodes. Other DaemonSets are synced in between.
const COMPARISON_PAUSE: Duration = Duration::from_millis(1);

impl DaemonSetController {
    /// Reads everything that a decision about a DaemonSet depends on: its revisions, its nodes and its Pods.
    pub(crate) fn read_snapshot(
        &self,
        set: Arc<DaemonSet>,
        pending_writes: Option<PendingWrites>,
        now: Timestamp,
    ) -> Result<Snapshot, NoSnapshot> {
        let EventHandlers { node_indexes, parsed_templates, pod_creation_pauses, .. } = &*self.watch;
        let owner = Owner::new(DAEMON_SETS, &set.metadata);
        let template = parsed_templates
            .get_or_parse(&owner.uid, &set.template, ParsedPodTemplate::new)
            .map_err(|error| SyncError::new(SyncErrorClass::Template, format!("cannot make {error}")))?;
        let record = node_indexes.get_or_create_record(&set.metadata.key(), &owner.uid);
        let instant = self.context.clock.monotonic_now();
        let (mut revisions, denied_revision_changes) =
            self.read_revisions(&set, &owner, &template, &record, instant)?;
        // Orphans are read before the node index, so that a Pod that is adopted in between is found at least once.
        let orphans = self.adoptable_orphans(&set, &owner);
        let mut guard = self.lock_updated_record(&record, &set, &template, &revisions, now)?;
        let record = &mut *guard;
        let unanswered = record.nodes_with_unanswered_pod_creation(instant);
        let Some(node_index) = &record.node_index else {
            // An event of a Pod that cannot be decoded has dropped the node index, and has enqueued the DaemonSet.
            return Err(NoSnapshot::waiting_because("a Pod of the namespace cannot be decoded", COMPARISON_PAUSE));
        };
        let actionable_nodes = node_index.actionable_nodes(
            &set,
            self.decision_settings.burst_replicas,
            &record.refused_node_cursors,
            DelayedPodCreations::new(unanswered, &orphans),
            now,
            &record.failed_pod_backoff,
        );
        let mut pods_to_change = read_pods_to_change(node_index, orphans, &owner, &revisions);
        let (denied_uids, denied_pod_changes) =
            record.denied_pod_changes.objects_in_back_off(&pods_to_change.all_pods(), instant);
        revisions.keep_duplicates_with_hashes(&pods_to_change.omit_denied_changes(&denied_uids));
        Ok(Snapshot {
            first_task: record.first_task_of_next_sync,
            actionable_nodes,
            pods_to_change,
            earlier_revision_hashes_on_pods: earlier_revision_hashes_on_pods(node_index, &revisions),
            pod_creation_pause: pod_creation_pauses.current_pause(&owner.uid, set.metadata.generation),
            decision_settings: self.decision_settings,
            denied_revision_changes,
            denied_pod_changes,
            revisions,
            template,
            owner,
            pending_writes,
            now,
            set,
        })
    }

    /// Reads the revisions of a DaemonSet, and the denied changes of revisions that are in back-off.
    fn read_revisions(
        &self,
        set: &DaemonSet,
        owner: &Owner,
        template: &ParsedPodTemplate,
        record: &SharedDaemonSetRecord,
        now: Instant,
    ) -> Result<(Revisions, DeniedChanges), NoSnapshot> {
        let candidates = self.revisions.list_controlled_and_orphans(&set.metadata)?;
        let (denied_uids, denied_changes, taken_name_and_hash) = {
            let mut record = record.lock();
            let (uids, changes) = record.denied_revision_changes.objects_in_back_off(&candidates, now);
            (uids, changes, record.taken_revision_name_and_hash.clone())
        };
        // With an invalid selector, no revision is claimed, and the plan has a `selector_problem`.
        let claims = refs::claim_dependents(owner, &set.selector, candidates, |_| true).unwrap_or_default();
        let revisions = decide_revisions(set, template, claims, &denied_uids, taken_name_and_hash.as_ref());
        Ok((revisions, denied_changes))
    }

    /// Brings the node index of a DaemonSet up to date, and returns the locked record with the index.
    fn lock_updated_record<'r>(
        &self,
        record: &'r SharedDaemonSetRecord,
        set: &DaemonSet,
        template: &Arc<ParsedPodTemplate>,
        revisions: &Revisions,
        now: Timestamp,
    ) -> Result<MutexGuard<'r, DaemonSetRecord>, NoSnapshot> {
        self.ensure_node_index(record, set, template)?;
        let placement = &template.placement;
        let max_nodes = placement.max_nodes_for_comparison_budget(MAX_COMPARISONS_PER_SYNC);
        let decide_eligibility = |node: &Text| self.decide_eligibility_on_node(placement, node);
        let mut record = remember_eligibilities(record, max_nodes, decide_eligibility).map_err(|remaining| {
            let why = format!("{remaining} nodes are still to be compared with the placement of its Pods");
            NoSnapshot::waiting_because(why, COMPARISON_PAUSE)
        })?;
        self.decided_nodes.inc_by(record.update_node_index(set, revisions, now));
        Ok(record)
    }

    /// Ensures that `record` has a node index (the nodes and Pods of the DaemonSet) for the present selector and template.
    fn ensure_node_index(
        &self,
        record: &SharedDaemonSetRecord,
        set: &DaemonSet,
        template: &Arc<ParsedPodTemplate>,
    ) -> Result<(), NoSnapshot> {
        if let Some(node_index) = record.lock().node_index.as_mut().filter(|known| known.has_selector_of(set)) {
            node_index.set_template(template, || self.node_names());
            return Ok(());
        }
        // The guard ensures that no event is lost between the read of the cache and the creation of the node index.
        let _unchanged = self.watch.node_indexes.lock_against_pod_changes();
        let pods = self.pods.store().list_by_index(ByController, &IndexValue::for_controller(&set.metadata))?;
        let mut record = record.lock();
        let nodes = self.node_names().into_iter();
        record.node_index = Some(NodeIndex::new(set, Arc::clone(template), pods, nodes));
        Ok(())
    }

    /// Returns the orphans that the DaemonSet may adopt: its selector matches them, and they are not terminating.
    fn adoptable_orphans(&self, set: &DaemonSet, owner: &Owner) -> Vec<SharedPod> {
        if owner.is_deleting || set.selector.is_empty() {
            return Vec::new();
        }
        let namespace = IndexValue::Text(owner.namespace.clone());
        let selects = |meta: &Meta| !meta.is_deleting() && set.selector.matches(&meta.labels);
        // An orphan that cannot be decoded is not adopted, and does not prevent the adoption of other orphans.
        let orphans = self.pods.store().list_by_index_and_metadata(OrphansByNamespace, &namespace, selects);
        orphans.unwrap_or_else(|_| {
            let all = self.pods.store().list_decoded_by_index(OrphansByNamespace, &namespace);
            all.into_iter().filter(|pod| selects(pod.meta())).collect()
        })
    }

    /// Decides whether Pods with this placement may run on the node with this name.
    pub(crate) fn decide_eligibility_on_node(&self, placement: &NodePlacement, node: &str) -> Eligibility {
        match self.nodes.get("", node) {
            Ok(Some(node)) => decide_eligibility(placement, &node, self.decision_settings.allows_comparison_operators),
            Ok(None) => Eligibility::NodeDeleted,
            // On a node that cannot be decoded, no Pod is created or deleted.
            Err(_) => Eligibility::KeepsPods,
        }
    }

    fn node_names(&self) -> Vec<Text> {
        self.nodes.all_decoded().iter().map(|node| node.name()).collect()
    }
}

/// Returns the Pods that need a change, with the orphans of the DaemonSet.
pub(crate) fn read_pods_to_change(
    node_index: &NodeIndex,
    orphan_pods: Vec<SharedPod>,
    owner: &Owner,
    revisions: &Revisions,
) -> PodsToChange {
    PodsToChange {
        orphans_to_adopt: orphan_pods,
        pods_to_release: if owner.is_deleting { Vec::new() } else { node_index.unselected_pods() },
        pods_to_relabel: node_index.pods_with_revision_hashes(&revisions.duplicate_hashes),
        pods_without_hash_label: node_index.pod_revision_hashes.pods_without_hash_label(),
    }
}

/// Returns the hashes of those earlier revisions that Pods still have.
pub(crate) fn earlier_revision_hashes_on_pods(node_index: &NodeIndex, revisions: &Revisions) -> BTreeSet<Text> {
    let hashes = revisions.earlier_revisions.iter().map(revision_hash_or_name);
    hashes.filter(|hash| node_index.pod_revision_hashes.contains_hash(hash)).map(Text::new).collect()
}
