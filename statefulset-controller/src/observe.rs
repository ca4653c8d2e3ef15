//! From a key to a snapshot: reads of caches, and nothing else.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::{Behind, Cache},
    controller::Observed,
    map::HashSet,
    meta::{Key, Uid},
    object::Resource,
    refs::{self, Owner},
    store::IndexValue,
};
use jiff::Timestamp;

use crate::{
    StatefulSetController,
    error::Error,
    objects::{STATEFUL_SETS, StatefulSet, ordinal_of},
    snapshot::{PodRef, Snapshot},
};

/// Position of the index of Pods, and of revisions, by the uid of their controller.
pub(crate) const BY_OWNER: usize = 0;
/// Position of the index of Pods, and of revisions, without a controller by namespace.
pub(crate) const ORPHANS_BY_NAMESPACE: usize = 1;

/// After how long a set whose caches lag is looked at again although nothing of it has happened.
const RECHECK: Duration = Duration::from_secs(2);

impl StatefulSetController {
    pub(crate) fn look(&self, key: &Key, now: Timestamp) -> Result<Observed<Snapshot>, Error> {
        let store = self.sets.store();
        let known = store.peek(&key.namespace, &key.name, |meta| meta.uid.clone());
        if let Some((behind, left)) = known.as_ref().and_then(|uid| self.behind(uid)) {
            return Ok(Observed::Waiting { why: behind.to_string(), at_most: left.min(RECHECK) });
        }
        // Read after the check: what is older than own writes is not looked at.
        let Some(set) = store.get(&key.namespace, &key.name)? else { return Ok(Observed::Gone) };
        if known.as_ref() != Some(&set.metadata.uid) {
            // Another one of that name came just now.
            return self.look(key, now);
        }
        self.snapshot(set, now).map(Observed::Ready)
    }

    fn snapshot(&self, set: Arc<StatefulSet>, now: Timestamp) -> Result<Snapshot, Error> {
        let owner = Owner::new(STATEFUL_SETS, &set.metadata);
        let own = IndexValue::Uid(owner.uid.clone());
        let orphan = IndexValue::Text(owner.namespace.clone());
        // Of orphans those that cannot be read are nobody's: none can be adopted unread.
        let mut revisions = self.revisions.store().by_index(BY_OWNER, &own)?;
        revisions.extend(self.revisions.store().readable_by_index(ORPHANS_BY_NAMESPACE, &orphan));
        let mut pods: Vec<PodRef> = self.pods.store().by_index(BY_OWNER, &own)?;
        pods.extend(self.pods.store().readable_by_index(ORPHANS_BY_NAMESPACE, &orphan));
        let is_member = |pod: &PodRef| ordinal_of(&set.metadata.name, &pod.meta().name).is_some();
        // A selector that breaks the rules claims nothing; the plan says so.
        let revisions = refs::claim(&owner, &set.selector, revisions, |_| true).unwrap_or_default();
        let pods = refs::claim(&owner, &set.selector, pods, is_member).unwrap_or_default();
        let claimed: Vec<&PodRef> = pods.keep.iter().chain(&pods.adopt).collect();
        let claims = self.claims_of(&set, &claimed)?;
        Ok(Snapshot { owner, revisions, pods, claims, limits: self.limits, now, set })
    }

    /// What of this process's own writes the caches do not show yet.
    fn behind(&self, uid: &Uid) -> Option<(Behind, Duration)> {
        let caches: [&dyn Cache; 4] =
            [&**self.pods.store(), &**self.claims.store(), &**self.sets.store(), &**self.revisions.store()];
        self.ledger.behind(uid, &caches, HashSet::default)
    }

    /// The resource whose cache a sync of `key` waits for, if it does.
    pub(crate) fn lags(&self, key: &Key) -> Option<Resource> {
        let uid = self.sets.store().peek(&key.namespace, &key.name, |meta| meta.uid.clone())?;
        match self.behind(&uid)?.0 {
            Behind::Write { resource, .. } => Some(resource),
            Behind::Deletes { .. } | Behind::LostCreates { .. } => None,
        }
    }
}
