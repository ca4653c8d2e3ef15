//! From a key to a snapshot, by reading caches only.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::{
    consistency::{Behind, Cache},
    controller::Observed,
    intern::Text,
    map::HashSet,
    meta::{Key, Meta, Uid},
    object::Resource,
    refs::{self, Owner},
    revision::CONTROLLER_REVISIONS,
    store::IndexValue,
};
use jiff::Timestamp;

use crate::{
    DaemonSetController,
    decide::{
        eligibility::{Eligibility, eligibility},
        revisions::{self, Revisions, hash_of},
    },
    error::Error,
    objects::{DAEMON_SETS, DaemonSet, DaemonTemplate, Placement},
    roster::Roster,
    rosters::{Answers, Record},
    snapshot::{Blocked, PodRef, Snapshot},
};

/// Position of the index of Pods, and of revisions, by the uid of their controller.
pub(crate) const BY_OWNER: usize = 0;
/// Position of the index of Pods, and of revisions, without a controller by namespace.
pub(crate) const ORPHANS_BY_NAMESPACE: usize = 1;

/// How long a set waits at most for lagging caches before it is checked again without an event.
const RECHECK: Duration = Duration::from_secs(2);

impl DaemonSetController {
    pub(crate) fn observe_set(&self, key: &Key, now: Timestamp) -> Result<Observed<Snapshot>, Error> {
        // What the cache of Pods shows is in the rosters, too.
        let _unchanged = self.rosters.unchanged();
        loop {
            let known = self.sets.store().peek(&key.namespace, &key.name, |meta| meta.uid.clone());
            let blocked = match known.as_ref().and_then(|uid| self.behind(uid)) {
                Some((behind @ Behind::Write { .. }, left)) if self.reads_own_writes => {
                    return Ok(Observed::Waiting { why: behind.to_string(), at_most: left.min(RECHECK) });
                }
                Some((behind @ Behind::Conflicts { .. }, at_most)) => {
                    return Ok(Observed::Waiting { why: behind.to_string(), at_most });
                }
                Some((behind, left)) => Some(Blocked { why: behind.to_string(), at_most: left.min(RECHECK) }),
                None => None,
            };
            // Read after the check, so that what is read is at least as new as this process's own writes.
            let Some(set) = self.sets.store().get(&key.namespace, &key.name)? else {
                self.rosters.forget(key);
                return Ok(Observed::Gone);
            };
            // Otherwise another set of that name has replaced it in between.
            if known.as_ref() == Some(&set.metadata.uid) {
                return self.snapshot(set, blocked, now).map(Observed::Ready);
            }
        }
    }

    fn snapshot(&self, set: Arc<DaemonSet>, blocked: Option<Blocked>, now: Timestamp) -> Result<Snapshot, Error> {
        let owner = Owner::new(DAEMON_SETS, &set.metadata);
        let template = self.templates.get(&owner.uid, &set.template, DaemonTemplate::new).map_err(Error::Template)?;
        let own = IndexValue::controlled_by(&set.metadata);
        let orphan = IndexValue::Text(owner.namespace.clone());
        // Orphans that cannot be read are skipped: nothing is adopted unread.
        let mut candidates = self.revisions.store().by_index(BY_OWNER, &own)?;
        candidates.extend(self.revisions.store().readable_by_index(ORPHANS_BY_NAMESPACE, &orphan));
        // A selector that breaks the rules claims nothing, and the plan reports it.
        let claims = refs::claim(&owner, &set.selector, candidates, |_| true).unwrap_or_default();
        let revisions = revisions::choose(&set, &template, claims);
        let adopt = self.orphans(&set, &owner, &orphan);
        let limits = self.limits;
        let key = set.metadata.key();
        let uid = owner.uid.clone();
        self.rosters.with(&key, &uid, |record| {
            let Record { roster, failed, cursors, lost_creates, .. } = record;
            let ended = failed.observe(set.status.observed_generation, self.failed_pods, now);
            let roster = match roster.take().filter(|roster| roster.fits(&set, &template)) {
                Some(known) => roster.insert(known),
                None => {
                    let pods: Vec<PodRef> = self.pod_store.by_index(BY_OWNER, &own)?;
                    roster.insert(Roster::new(&set, Arc::clone(&template), pods, self.node_names().into_iter()))
                }
            };
            // Their standing waits for the end of a back-off that does not count any more.
            for node in &ended {
                roster.back_off_changed(node);
            }
            let eligibility = |node: &str| self.eligibility(&template.placement, node);
            let around = Answers { eligibility: &eligibility, failed, bounds: self.failed_pods, now };
            roster.update(&set, &revisions.hash, now, &around);
            self.metrics.decided_nodes(roster.take_decided());
            let appeared = |node: &Text, known: &[Uid]| roster.has_other_pod_on(node, known);
            let lost_creates = lost_creates.pending(self.context.clock.instant(), appeared);
            let release = if owner.deleting { Vec::new() } else { roster.unselected() };
            Ok(Snapshot {
                adopt,
                release,
                relabel: relabel(roster, &revisions),
                live_hashes: live_hashes(roster, &revisions),
                nodes: roster.nodes(&set, limits.burst, cursors, &around),
                terminating_namespace: self.refused.contains(&owner.uid),
                lost_creates,
                revisions,
                template,
                owner,
                blocked,
                limits,
                now,
                set,
            })
        })
    }

    /// The Pods without a controller that a set selects.
    fn orphans(&self, set: &DaemonSet, owner: &Owner, orphan: &IndexValue) -> Vec<PodRef> {
        if owner.deleting || set.selector.is_empty() {
            return Vec::new();
        }
        let selects = |meta: &Meta| !meta.is_deleting() && set.selector.matches(&meta.labels);
        // One that cannot be read is not adopted, and keeps none of the others from being adopted.
        let orphans = self.pod_store.select_by_index(ORPHANS_BY_NAMESPACE, orphan, selects);
        orphans.unwrap_or_else(|_| {
            let all = self.pod_store.readable_by_index(ORPHANS_BY_NAMESPACE, orphan);
            all.into_iter().filter(|pod| selects(pod.meta())).collect()
        })
    }

    /// What a set does on a node.
    pub(crate) fn eligibility(&self, placement: &Placement, node: &str) -> Eligibility {
        match self.nodes.store().get("", node) {
            Ok(Some(node)) => eligibility(placement, &node, self.limits.compares_taints),
            Ok(None) => Eligibility::Vanished,
            // Nothing is created or deleted on a node that cannot be read.
            Err(_) => Eligibility::Stays,
        }
    }

    fn node_names(&self) -> Vec<Text> {
        self.nodes.store().all().iter().map(|node| node.name()).collect()
    }

    /// This process's own writes that the caches do not show yet.
    fn behind(&self, uid: &Uid) -> Option<(Behind, Duration)> {
        let caches: [&dyn Cache; 3] = [&*self.pod_store, &**self.sets.store(), &**self.revisions.store()];
        // Creations whose answers were lost are kept by node.
        self.ledger.behind(uid, &caches, HashSet::default)
    }

    /// The resource whose cache a sync of `key` waits for. Upstream waits for Pods and DaemonSets only, and counts no others.
    pub(crate) fn lags(&self, key: &Key) -> Option<Resource> {
        let uid = self.sets.store().peek(&key.namespace, &key.name, |meta| meta.uid.clone())?;
        match self.behind(&uid)?.0 {
            Behind::Write { resource, .. } => Some(resource).filter(|resource| *resource != CONTROLLER_REVISIONS),
            Behind::Conflicts { .. } | Behind::Deletes { .. } | Behind::LostCreates { .. } => None,
        }
    }
}

/// The Pods whose hash is that of a duplicate of the current revision.
fn relabel(roster: &Roster, revisions: &Revisions) -> Vec<PodRef> {
    let hashes: BTreeSet<&str> =
        revisions.duplicates.iter().map(hash_of).filter(|hash| *hash != &*revisions.hash).collect();
    if hashes.is_empty() { Vec::new() } else { roster.with_hashes(&hashes) }
}

/// The hashes of earlier revisions that Pods carry.
fn live_hashes(roster: &Roster, revisions: &Revisions) -> BTreeSet<Text> {
    let hashes = revisions.old.iter().map(hash_of).filter(|hash| roster.has_hash(hash));
    hashes.map(Text::new).collect()
}
