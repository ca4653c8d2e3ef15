//! Reads the caches into a [`Snapshot`].

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::{
    consistency::{LedgerCache, UnseenWrite},
    controller::Observation,
    intern::Text,
    io::SyncError,
    map::HashSet,
    meta::{Meta, NamespacedName, Uid},
    refs::{self, Owner},
    store::{ByController, IndexValue, OrphansByNamespace},
};
use jiff::Timestamp;
use parking_lot::MutexGuard;

use crate::{
    DaemonSetController,
    decide::{eligibility::decide_eligibility, nodes_with_delayed_pod_creation, revisions},
    node_index::{ChangeNumber, NodeIndex},
    node_indexes::{DaemonSetRecord, FailedPodDelaysAtSync, SharedDaemonSetRecord},
    objects::{DAEMON_SETS, DaemonSet, NodePlacement, ParsedPodTemplate, SharedPod, SharedRevision},
    snapshot::{
        Snapshot, StaleCache,
        nodes::{Eligibility, RefusedNodeCursors},
        revisions::{CurrentRevision, Revisions, revision_hash_or_name},
    },
};

/// Greatest number of comparisons between nodes and the values of a placement in one sync. For a placement of usual size, this
/// suffices for more nodes than a cluster has.
pub(crate) const MAX_COMPARISONS_PER_SYNC: usize = 1 << 18;
/// Pause of a DaemonSet between two syncs that compare nodes. Other DaemonSets are synced in between.
const COMPARISON_PAUSE: Duration = Duration::from_millis(1);
/// Longest time until a DaemonSet that waits for the caches is checked again without an event.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);

impl DaemonSetController {
    pub(crate) fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        loop {
            let known = self.sets.store().with_metadata(&key.namespace, &key.name, |meta| meta.uid.clone());
            // While this guard exists, the node indexes (nodes and Pods of each DaemonSet) have all Pods of the cache.
            let behind = {
                let _unchanged = self.node_indexes.lock_against_pod_changes();
                known.as_ref().and_then(|uid| self.unobserved_write(uid))
            };
            let blocked = match behind {
                Some((behind @ UnseenWrite::VersionNotReached { .. }, left)) if self.reads_own_writes => {
                    return Ok(Observation::waiting_for_own_writes((behind, left)));
                }
                Some((behind @ UnseenWrite::Conflicts { .. }, left)) => {
                    return Ok(Observation::waiting_for_own_writes((behind, left)));
                }
                Some((behind, left)) => Some(StaleCache {
                    unobserved_write_description: behind.to_string(),
                    max_wait: left.min(RECHECK_INTERVAL),
                }),
                None => None,
            };
            // The DaemonSet is read after the check of the cache, so it contains the writes that the check has found there.
            let Some(set) = self.sets.store().get(&key.namespace, &key.name)? else {
                self.node_indexes.remove_stale_record(key, None);
                return Ok(Observation::Gone);
            };
            // If the uids differ, a new DaemonSet of the same name has replaced the checked one, and the check is repeated.
            if let Some(uid) = known.filter(|uid| *uid == set.metadata.uid) {
                let snapshot = self.read_snapshot(set, blocked, now);
                self.watch.forget_set_if_deleted(key, &uid);
                return snapshot;
            }
        }
    }

    fn read_snapshot(
        &self,
        set: Arc<DaemonSet>,
        blocked: Option<StaleCache>,
        now: Timestamp,
    ) -> Result<Observation<Snapshot>, SyncError> {
        let owner = Owner::new(DAEMON_SETS, &set.metadata);
        let template = self
            .templates
            .get_or_parse(&owner.uid, &set.template, ParsedPodTemplate::new)
            .map_err(|error| SyncError::new("template", format!("cannot make {error}")))?;
        let own = IndexValue::for_controller(&set.metadata);
        let orphan = IndexValue::Text(owner.namespace.clone());
        // Orphans that cannot be decoded are skipped, because only decoded objects may be adopted.
        let mut candidates = self.revisions.store().list_by_index(ByController, &own)?;
        candidates.extend(self.revisions.store().list_decoded_by_index(OrphansByNamespace, &orphan));
        // With an invalid selector, no revision is claimed, and the plan has a `selector_problem`.
        let record = self.node_indexes.get_or_create_record(&set.metadata.key(), &owner.uid);
        let instant = self.context.clock.monotonic_now();
        let (refused, refused_revisions) =
            record.lock().denied_revision_changes.objects_in_back_off(&candidates, instant);
        let is_refused = |revision: &SharedRevision| refused.contains(&revision.meta.uid);
        let mut claims = refs::claim_dependents(&owner, &set.selector, candidates, |_| true).unwrap_or_default();
        claims.to_adopt.retain(|revision| !is_refused(revision));
        claims.to_release.retain(|revision| !is_refused(revision));
        let mut revisions = revisions::choose_current_revision(&set, &template, claims);
        revisions.drop_denied_changes(is_refused);
        // Orphans are read before the node index, so that a Pod that is adopted in between is found at least once.
        let orphans = self.adoptable_orphans(&set, &owner, &orphan);
        let limits = self.limits;
        self.ensure_node_index(&record, &set, &template, &own)?;
        let placement = &template.placement;
        let eligibility = |node: &Text| self.decide_eligibility_on_node(placement, node);
        let mut guard = match decide_changed_nodes(
            &record,
            placement.max_nodes_for_comparison_budget(MAX_COMPARISONS_PER_SYNC),
            eligibility,
        ) {
            Ok(guard) => guard,
            Err(left) => {
                let why = format!("{left} nodes are still to be compared with the placement of its Pods");
                return Ok(Observation::waiting_because(why, COMPARISON_PAUSE));
            }
        };
        let DaemonSetRecord {
            node_index: roster,
            failed_pod_backoff: failed,
            refused_node_cursors: cursors,
            unanswered_pod_creations: lost_creates,
            cursors_generation: generation,
            first_task_of_next_sync: turn,
            taken_revision_name_and_hash: taken,
            denied_pod_changes: refused_pods,
            ..
        } = &mut *guard;
        let Some(roster) = roster else {
            // An event of a Pod that cannot be decoded has dropped the node index, and has enqueued the DaemonSet.
            return Ok(Observation::waiting_because("a Pod of the namespace cannot be decoded", COMPARISON_PAUSE));
        };
        if *generation != set.metadata.generation {
            // The server may accept the Pods of the new generation, so the order of nodes begins with the first node again.
            (*generation, *cursors) = (set.metadata.generation, RefusedNodeCursors::default());
        }
        if let (CurrentRevision::Create { hash, .. }, Some((name, stored))) = (&revisions.current_revision, taken)
            && *name == revisions::revision_name(&set, hash)
        {
            revisions.current_hash = stored.clone();
        }
        // The back-off of these nodes has ended before its time, so their contribution must be decided again.
        for node in &failed.remove_expired_delays(set.status.observed_generation, self.failed_pods, now) {
            roster.mark_contribution_undecided(node);
        }
        let around = FailedPodDelaysAtSync { failed_pod_backoff: failed, backoff_bounds: self.failed_pods, now };
        roster.update(&set, &revisions.current_hash, &revisions.duplicate_hashes, now, &around);
        self.metrics.add_node_decisions(roster.take_node_decision_count());
        let appeared = |node: &Text, known: &[Uid]| roster.has_pods_besides(node, known);
        let lost_creates = lost_creates.nodes_with_unanswered_pod_creation(instant, appeared);
        let turn = *turn;
        let release = if owner.is_deleting { Vec::new() } else { roster.unselected_pods() };
        let relabel = roster.pods_with_revision_hashes(&revisions.duplicate_hashes);
        let unlabelled = roster.pod_revision_hashes.pods_without_hash_label();
        let changed: Vec<SharedPod> =
            release.iter().chain(&relabel).chain(&unlabelled).chain(&orphans).cloned().collect();
        let (unchanged, refused_pods) = refused_pods.objects_in_back_off(&changed, instant);
        let is_refused = |pod: &SharedPod| unchanged.contains(&pod.meta().uid);
        let without_refused = |pods: &[SharedPod]| pods.iter().filter(|pod| !is_refused(pod)).cloned().collect();
        revisions.keep_duplicates_with_hashes(
            &relabel.iter().filter(|pod| is_refused(pod)).map(|pod| pod.revision_hash()).collect(),
        );
        let live_hashes = earlier_revision_hashes_on_pods(roster, &revisions);
        let held_back = nodes_with_delayed_pod_creation(&lost_creates, orphans.iter());
        let unseen_second_pods = roster.count_nodes_not_needing_pod(lost_creates.keys());
        let nodes = roster.actionable_nodes(&set, limits.burst_replicas, cursors, &held_back, &around);
        drop(guard);
        Ok(Observation::Ready(Snapshot {
            orphans_to_adopt: without_refused(&orphans),
            first_task: turn,
            denied_revision_changes: refused_revisions,
            pods_to_release: without_refused(&release),
            pods_to_relabel: without_refused(&relabel),
            pods_without_hash_label: without_refused(&unlabelled),
            denied_pod_changes: refused_pods,
            nodes_with_delayed_pod_creation: held_back,
            possible_second_pod_count: unseen_second_pods,
            earlier_revision_hashes_on_pods: live_hashes,
            actionable_nodes: nodes,
            pod_creation_pause: self.pod_creation_pauses.current_pause(&owner.uid, set.metadata.generation),
            nodes_with_unanswered_pod_creation: lost_creates,
            revisions,
            template,
            owner,
            stale_cache: blocked,
            decision_settings: limits,
            now,
            set,
        }))
    }

    /// Ensures that `record` has a node index (the nodes and Pods of the DaemonSet) for the present selector and template.
    fn ensure_node_index(
        &self,
        record: &SharedDaemonSetRecord,
        set: &DaemonSet,
        template: &Arc<ParsedPodTemplate>,
        own: &IndexValue,
    ) -> Result<(), SyncError> {
        if let Some(roster) = record.lock().node_index.as_mut().filter(|roster| roster.has_selector_of(set)) {
            roster.set_template(template, || self.node_names());
            return Ok(());
        }
        // The guard ensures that no event is lost between the read of the cache and the creation of the node index.
        let _unchanged = self.node_indexes.lock_against_pod_changes();
        let pods: Vec<SharedPod> = self.pod_store.list_by_index(ByController, own)?;
        let mut record = record.lock();
        let nodes = self.node_names().into_iter();
        record.node_index = Some(NodeIndex::new(set, Arc::clone(template), pods, nodes));
        Ok(())
    }

    /// Returns the orphans that the DaemonSet may adopt: its selector matches them, and they are not terminating.
    fn adoptable_orphans(&self, set: &DaemonSet, owner: &Owner, orphan: &IndexValue) -> Vec<SharedPod> {
        if owner.is_deleting || set.selector.is_empty() {
            return Vec::new();
        }
        let selects = |meta: &Meta| !meta.is_deleting() && set.selector.matches(&meta.labels);
        // An orphan that cannot be decoded is not adopted, and does not prevent the adoption of other orphans.
        let orphans = self.pod_store.list_by_index_and_metadata(OrphansByNamespace, orphan, selects);
        orphans.unwrap_or_else(|_| {
            let all = self.pod_store.list_decoded_by_index(OrphansByNamespace, orphan);
            all.into_iter().filter(|pod| selects(pod.meta())).collect()
        })
    }

    /// Decides whether Pods with this placement may run on the node with this name.
    pub(crate) fn decide_eligibility_on_node(&self, placement: &NodePlacement, node: &str) -> Eligibility {
        match self.nodes.store().get("", node) {
            Ok(Some(node)) => decide_eligibility(placement, &node, self.limits.allows_comparison_operators),
            Ok(None) => Eligibility::NodeDeleted,
            // On a node that cannot be decoded, no Pod is created or deleted.
            Err(_) => Eligibility::KeepsPods,
        }
    }

    fn node_names(&self) -> Vec<Text> {
        self.nodes.store().all_decoded().iter().map(|node| node.name()).collect()
    }

    /// Returns a write of this process that the caches do not show yet, and the longest time to wait for it.
    fn unobserved_write(&self, uid: &Uid) -> Option<(UnseenWrite, Duration)> {
        let caches: [&dyn LedgerCache; 3] = [&*self.pod_store, &**self.sets.store(), &**self.revisions.store()];
        // The ledger has no creations with lost answers, because the controller records them by node.
        self.ledger.first_unseen_write(uid, &caches, HashSet::default)
    }
}

/// Decides the eligibility of at most `at_most` changed nodes, without holding a lock. Returns the locked record if no changed
/// node is left, and otherwise the number of undecided nodes.
fn decide_changed_nodes(
    record: &SharedDaemonSetRecord,
    mut at_most: usize,
    eligibility: impl Fn(&Text) -> Eligibility,
) -> Result<MutexGuard<'_, DaemonSetRecord>, usize> {
    loop {
        let guard = record.lock();
        let Some(roster) = guard.node_index.as_ref().filter(|roster| roster.nodes_with_undecided_eligibility.len() > 0)
        else {
            return Ok(guard);
        };
        if at_most == 0 {
            return Err(roster.nodes_with_undecided_eligibility.len());
        }
        let undecided = roster.nodes_with_undecided_eligibility.first_nodes(at_most);
        drop(guard);
        at_most -= undecided.len();
        let decide = |(name, change): (Text, ChangeNumber)| {
            let eligibility = eligibility(&name);
            (name, change, eligibility)
        };
        let decided: Vec<_> = undecided.into_iter().map(decide).collect();
        if let Some(roster) = &mut record.lock().node_index {
            for (name, change, eligibility) in decided {
                roster.store_eligibility(name, change, eligibility);
            }
        }
    }
}

/// Returns the hashes of those earlier revisions that Pods still have.
fn earlier_revision_hashes_on_pods(roster: &NodeIndex, revisions: &Revisions) -> BTreeSet<Text> {
    let hashes = revisions
        .earlier_revisions
        .iter()
        .map(revision_hash_or_name)
        .filter(|hash| roster.pod_revision_hashes.contains_hash(hash));
    hashes.map(Text::new).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use common::meta::{NamespacedName, Uid};

    use crate::{
        node_index::NodeIndex,
        node_indexes::NodeIndexes,
        objects::{DaemonSet, ParsedPodTemplate},
        world::{decode_trimmed, set_without_pods},
    };

    use super::*;

    /// The record of a DaemonSet without Pods and with `nodes` nodes, all with an undecided eligibility.
    fn undecided(rosters: &NodeIndexes, nodes: usize) -> SharedDaemonSetRecord {
        let world = set_without_pods(0);
        let set: Arc<DaemonSet> = decode_trimmed(&world.set);
        let template = Arc::new(ParsedPodTemplate::new(&set.template).unwrap());
        let names = (0..nodes).map(|n| Text::new(&format!("n{n}")));
        let record = rosters.get_or_create_record(&set.metadata.key(), &set.metadata.uid);
        record.lock().node_index = Some(NodeIndex::new(&set, template, Vec::new(), names));
        record
    }

    /// DAEMONSET-64.
    #[test]
    fn comparisons_with_a_placement_hold_no_lock() {
        let rosters = NodeIndexes::default();
        rosters.with_record(&NamespacedName::new("shop", "other"), &Uid::new("OTHER"), |_| ());
        let record = undecided(&rosters, 3);
        let asked = Cell::new(0);
        let decided = decide_changed_nodes(&record, usize::MAX, |node| {
            asked.set(asked.get() + 1);
            assert!(rosters.is_unlocked());
            if asked.get() == 1 {
                // An event of the node during the comparison makes the eligibility of the node undecided again.
                rosters.record_node_change(node);
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
        let rosters = NodeIndexes::default();
        let record = undecided(&rosters, 5);
        let step = || decide_changed_nodes(&record, 2, |_| Eligibility::RunsPods).map(drop);
        assert_eq!([step(), step(), step()], [Err(3), Err(1), Ok(())]);
    }
}
