//! Reads the caches into a [`Snapshot`].

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::{
    consistency::{Behind, Cache},
    controller::Observed,
    intern::Text,
    io::Failed,
    map::HashSet,
    meta::{Key, Meta, Uid},
    refs::{self, Owner},
    store::{ByController, IndexValue, OrphansByNamespace},
};
use jiff::Timestamp;
use parking_lot::MutexGuard;

use crate::{
    DaemonSetController,
    decide::{eligibility::eligibility, held_back, revisions},
    objects::{DAEMON_SETS, DaemonSet, DaemonTemplate, Placement, PodRef, RevisionRef},
    roster::{Change, Roster},
    rosters::{Answers, Record, SharedRecord},
    snapshot::{
        Blocked, Snapshot,
        nodes::{Cursors, Eligibility},
        revisions::{Current, Revisions, hash_of},
    },
};

/// Greatest number of comparisons of nodes with parts of a placement in one sync. For a placement of usual size, this suffices
/// for more nodes than a cluster has.
pub(crate) const STEP: usize = 1 << 18;
/// Pause of a DaemonSet between two syncs that compare nodes, so that other DaemonSets are synced in between.
const STEP_PAUSE: Duration = Duration::from_millis(1);
/// Longest time until a DaemonSet that waits for the caches is checked again without an event.
const RECHECK: Duration = Duration::from_secs(2);

impl DaemonSetController {
    pub(crate) fn observe(&self, key: &Key, now: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        loop {
            let known = self.sets.store().peek(&key.namespace, &key.name, |meta| meta.uid.clone());
            // While this guard lives, the rosters (nodes and Pods of each DaemonSet) have all Pods of the cache.
            let behind = {
                let _unchanged = self.rosters.unchanged();
                known.as_ref().and_then(|uid| self.behind(uid))
            };
            let blocked = match behind {
                Some((behind @ Behind::Write { .. }, left)) if self.reads_own_writes => {
                    return Ok(Observed::behind((behind, left)));
                }
                Some((behind @ Behind::Conflicts { .. }, left)) => return Ok(Observed::behind((behind, left))),
                Some((behind, left)) => Some(Blocked { why: behind.to_string(), at_most: left.min(RECHECK) }),
                None => None,
            };
            // The DaemonSet is read after the check, so it is at least as new as the writes of this process.
            let Some(set) = self.sets.store().get(&key.namespace, &key.name)? else {
                self.rosters.forget(key, None);
                return Ok(Observed::Gone);
            };
            // If the uids differ, a new DaemonSet of the same name has replaced the checked one, and the check is repeated.
            if let Some(uid) = known.filter(|uid| *uid == set.metadata.uid) {
                let snapshot = self.snapshot(set, blocked, now);
                self.watch.forget_if_gone(key, &uid);
                return snapshot;
            }
        }
    }

    fn snapshot(
        &self,
        set: Arc<DaemonSet>,
        blocked: Option<Blocked>,
        now: Timestamp,
    ) -> Result<Observed<Snapshot>, Failed> {
        let owner = Owner::new(DAEMON_SETS, &set.metadata);
        let template = self
            .templates
            .get(&owner.uid, &set.template, DaemonTemplate::new)
            .map_err(|error| Failed::new("template", format!("cannot make {error}")))?;
        let own = IndexValue::controlled_by(&set.metadata);
        let orphan = IndexValue::Text(owner.namespace.clone());
        // Orphans that cannot be decoded are skipped, because only decoded objects may be adopted.
        let mut candidates = self.revisions.store().by_index(ByController, &own)?;
        candidates.extend(self.revisions.store().readable_by_index(OrphansByNamespace, &orphan));
        // With an invalid selector, no revision is claimed, and the plan reports the problem.
        let record = self.rosters.record(&set.metadata.key(), &owner.uid);
        let instant = self.context.clock.instant();
        let (refused, refused_revisions) = record.lock().refused_revisions.observe(&candidates, instant);
        let is_refused = |revision: &RevisionRef| refused.contains(&revision.meta.uid);
        let mut claims = refs::claim(&owner, &set.selector, candidates, |_| true).unwrap_or_default();
        claims.adopt.retain(|revision| !is_refused(revision));
        claims.release.retain(|revision| !is_refused(revision));
        let mut revisions = revisions::choose(&set, &template, claims);
        revisions.leave(is_refused);
        // The orphans are read before the roster, so that a Pod that is adopted meanwhile is not missing in both.
        let orphans = self.orphans(&set, &owner, &orphan);
        let limits = self.limits;
        self.fill_roster(&record, &set, &template, &own)?;
        let placement = &template.placement;
        let eligibility = |node: &Text| self.eligibility(placement, node);
        let mut guard = match decide_nodes(&record, placement.nodes_in(STEP), eligibility) {
            Ok(guard) => guard,
            Err(left) => {
                let why = format!("{left} nodes are still to be compared with the placement of its Pods");
                return Ok(Observed::wait(why, STEP_PAUSE));
            }
        };
        let Record { roster, failed, cursors, lost_creates, generation, turn, taken, refused_pods, .. } = &mut *guard;
        let Some(roster) = roster else {
            // An event of a Pod that cannot be decoded has dropped the roster, and has enqueued the DaemonSet.
            return Ok(Observed::wait("a Pod of the namespace cannot be decoded", STEP_PAUSE));
        };
        if *generation != set.metadata.generation {
            // The server may accept the Pods of the new generation, so the order of nodes begins with the first node again.
            (*generation, *cursors) = (set.metadata.generation, Cursors::default());
        }
        if let (Current::Create { hash, .. }, Some((name, stored))) = (&revisions.current, taken)
            && *name == revisions::name(&set, hash)
        {
            revisions.hash = stored.clone();
        }
        // The back-off of these nodes has ended early, so their contribution must be decided again.
        for node in &failed.observe(set.status.observed_generation, self.failed_pods, now) {
            roster.back_off_changed(node);
        }
        let around = Answers { failed, bounds: self.failed_pods, now };
        roster.update(&set, &revisions.hash, &revisions.same_hashes, now, &around);
        self.metrics.decided_nodes(roster.take_decided());
        let appeared = |node: &Text, known: &[Uid]| roster.has_other_pod_on(node, known);
        let lost_creates = lost_creates.pending(instant, appeared);
        let turn = *turn;
        let release = if owner.deleting { Vec::new() } else { roster.unselected() };
        let relabel = roster.with_hashes(&revisions.same_hashes);
        let unlabelled = roster.hashes.unlabelled();
        let changed: Vec<PodRef> = release.iter().chain(&relabel).chain(&unlabelled).chain(&orphans).cloned().collect();
        let (unchanged, refused_pods) = refused_pods.observe(&changed, instant);
        let is_refused = |pod: &PodRef| unchanged.contains(&pod.meta().uid);
        let without_refused = |pods: &[PodRef]| pods.iter().filter(|pod| !is_refused(pod)).cloned().collect();
        revisions.keep_duplicates(&relabel.iter().filter(|pod| is_refused(pod)).map(|pod| pod.hash()).collect());
        let live_hashes = live_hashes(roster, &revisions);
        let held_back = held_back(&lost_creates, orphans.iter());
        let unseen_second_pods = roster.count_with_pod(lost_creates.keys());
        let nodes = roster.nodes(&set, limits.burst, cursors, &held_back, &around);
        drop(guard);
        Ok(Observed::Ready(Snapshot {
            adopt: without_refused(&orphans),
            turn,
            refused_revisions,
            release: without_refused(&release),
            relabel: without_refused(&relabel),
            unlabelled: without_refused(&unlabelled),
            refused_pods,
            held_back,
            unseen_second_pods,
            live_hashes,
            nodes,
            terminating_namespace: self.refused.contains(&owner.uid),
            lost_creates,
            revisions,
            template,
            owner,
            blocked,
            limits,
            now,
            set,
        }))
    }

    /// Ensures that `record` has a roster (the nodes and Pods of the DaemonSet) with the present selector and template.
    fn fill_roster(
        &self,
        record: &SharedRecord,
        set: &DaemonSet,
        template: &Arc<DaemonTemplate>,
        own: &IndexValue,
    ) -> Result<(), Failed> {
        if let Some(roster) = record.lock().roster.as_mut().filter(|roster| roster.fits(set)) {
            roster.set_template(template, || self.node_names());
            return Ok(());
        }
        // The guard ensures that no event is lost between the read of the cache and the creation of the roster.
        let _unchanged = self.rosters.unchanged();
        let pods: Vec<PodRef> = self.pod_store.by_index(ByController, own)?;
        let mut record = record.lock();
        let nodes = self.node_names().into_iter();
        record.roster = Some(Roster::new(set, Arc::clone(template), pods, nodes));
        Ok(())
    }

    /// Returns the orphans that the DaemonSet may adopt: its selector matches them, and they are not terminating.
    fn orphans(&self, set: &DaemonSet, owner: &Owner, orphan: &IndexValue) -> Vec<PodRef> {
        if owner.deleting || set.selector.is_empty() {
            return Vec::new();
        }
        let selects = |meta: &Meta| !meta.is_deleting() && set.selector.matches(&meta.labels);
        // An orphan that cannot be decoded is not adopted, and does not prevent the adoption of other orphans.
        let orphans = self.pod_store.select_by_index(OrphansByNamespace, orphan, selects);
        orphans.unwrap_or_else(|_| {
            let all = self.pod_store.readable_by_index(OrphansByNamespace, orphan);
            all.into_iter().filter(|pod| selects(pod.meta())).collect()
        })
    }

    /// Decides whether Pods with this placement may run on the node with this name.
    pub(crate) fn eligibility(&self, placement: &Placement, node: &str) -> Eligibility {
        match self.nodes.store().get("", node) {
            Ok(Some(node)) => eligibility(placement, &node, self.limits.compares_taints),
            Ok(None) => Eligibility::Vanished,
            // On a node that cannot be decoded, no Pod is created or deleted.
            Err(_) => Eligibility::Stays,
        }
    }

    fn node_names(&self) -> Vec<Text> {
        self.nodes.store().all().iter().map(|node| node.name()).collect()
    }

    /// Returns a write of this process that the caches do not show yet, and the longest time to wait for it.
    fn behind(&self, uid: &Uid) -> Option<(Behind, Duration)> {
        let caches: [&dyn Cache; 3] = [&*self.pod_store, &**self.sets.store(), &**self.revisions.store()];
        // The ledger has no lost creations of Pods, because the controller records them by node.
        self.ledger.behind(uid, &caches, HashSet::default)
    }
}

/// Decides the eligibility of the changed nodes without holding a lock, but of at most `at_most` nodes. Returns the locked
/// record if all nodes are decided, and otherwise the number of undecided nodes.
fn decide_nodes(
    record: &SharedRecord,
    mut at_most: usize,
    eligibility: impl Fn(&Text) -> Eligibility,
) -> Result<MutexGuard<'_, Record>, usize> {
    loop {
        let guard = record.lock();
        let Some(roster) = guard.roster.as_ref().filter(|roster| roster.undecided.len() > 0) else {
            return Ok(guard);
        };
        if at_most == 0 {
            return Err(roster.undecided.len());
        }
        let undecided = roster.undecided.first(at_most);
        drop(guard);
        at_most -= undecided.len();
        let decide = |(name, change): (Text, Change)| {
            let eligibility = eligibility(&name);
            (name, change, eligibility)
        };
        let decided: Vec<_> = undecided.into_iter().map(decide).collect();
        if let Some(roster) = &mut record.lock().roster {
            for (name, change, eligibility) in decided {
                roster.decide_node(name, change, eligibility);
            }
        }
    }
}

/// Returns the hashes of those earlier revisions that Pods still have.
fn live_hashes(roster: &Roster, revisions: &Revisions) -> BTreeSet<Text> {
    let hashes = revisions.old.iter().map(hash_of).filter(|hash| roster.hashes.has(hash));
    hashes.map(Text::new).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use common::meta::{Key, Uid};

    use crate::{
        objects::{DaemonSet, DaemonTemplate},
        roster::Roster,
        rosters::Rosters,
        world::{empty, read},
    };

    use super::*;

    /// The memory of a DaemonSet with `nodes` undecided nodes and without Pods.
    fn undecided(rosters: &Rosters, nodes: usize) -> SharedRecord {
        let world = empty(0);
        let set: Arc<DaemonSet> = read(&world.set);
        let template = Arc::new(DaemonTemplate::new(&set.template).unwrap());
        let names = (0..nodes).map(|n| Text::new(&format!("n{n}")));
        let record = rosters.record(&set.metadata.key(), &set.metadata.uid);
        record.lock().roster = Some(Roster::new(&set, template, Vec::new(), names));
        record
    }

    /// DAEMONSET-64.
    #[test]
    fn comparisons_with_a_placement_hold_no_lock() {
        let rosters = Rosters::default();
        rosters.with(&Key::new("shop", "other"), &Uid::new("OTHER"), |_| ());
        let record = undecided(&rosters, 3);
        let asked = Cell::new(0);
        let decided = decide_nodes(&record, usize::MAX, |node| {
            asked.set(asked.get() + 1);
            assert!(rosters.is_free());
            if asked.get() == 1 {
                // An event of the node during the comparison makes the node undecided again.
                rosters.node_changed(node);
            }
            Eligibility::Runs
        });
        assert!(decided.is_ok_and(|record| record.roster.as_ref().unwrap().undecided.len() == 0));
        assert_eq!(asked.get(), 4);
    }

    /// DAEMONSET-64.
    #[test]
    fn a_step_decides_a_limited_number_of_nodes_and_the_next_step_continues() {
        let rosters = Rosters::default();
        let record = undecided(&rosters, 5);
        let step = || decide_nodes(&record, 2, |_| Eligibility::Runs).map(drop);
        assert_eq!([step(), step(), step()], [Err(3), Err(1), Ok(())]);
    }
}
