//! Reads the [`Snapshot`] of a set from the caches.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use common::{
    consistency::{LedgerCache, UnseenWrite},
    controller::Observation,
    io::SyncError,
    map::HashSet,
    meta::{NamespacedName, Uid},
    object::CachedObjectError,
    refs::{self, Owner},
    revision::{NumberEncoding, template::PodTemplateWithRevisionData},
    store::{ByController, IndexValue, OrphansByNamespace},
};
use jiff::Timestamp;

use crate::{
    StatefulSetController,
    decide::{self, retention, situation::missing_ordinals},
    objects::{STATEFUL_SETS, StatefulSet, parse_ordinal},
    snapshot::{SharedPod, SharedVolumeClaim, Snapshot},
};

impl StatefulSetController {
    pub(crate) fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        let store = self.sets.store();
        let known = store.with_metadata(&key.namespace, &key.name, |meta| meta.uid.clone());
        if let Some(behind) = known.as_ref().and_then(|uid| self.unseen_write_and_timeout(uid)) {
            return Ok(Observation::waiting_for_own_writes(behind));
        }
        // The set is read after the check of the caches, so it includes the writes of this process.
        let Some(set) = store.get(&key.namespace, &key.name)? else { return Ok(Observation::Gone) };
        if known.as_ref() != Some(&set.metadata.uid) {
            // A new set of the same name has replaced the set that was checked.
            return self.observe(key, now);
        }
        self.snapshot(set, now).map(Observation::Ready)
    }

    fn snapshot(&self, set: Arc<StatefulSet>, now: Timestamp) -> Result<Snapshot, SyncError> {
        let owner = Owner::new(STATEFUL_SETS, &set.metadata);
        let own = IndexValue::for_controller(&set.metadata);
        let orphan = IndexValue::Text(owner.namespace.clone());
        // Orphans that cannot be decoded are skipped, because only decoded objects may be adopted.
        let mut revisions = self.revisions.store().list_by_index(ByController, &own)?;
        revisions.extend(self.revisions.store().list_decoded_by_index(OrphansByNamespace, &orphan));
        let mut pods: Vec<SharedPod> = self.pods.store().list_by_index(ByController, &own)?;
        pods.extend(self.pods.store().list_decoded_by_index(OrphansByNamespace, &orphan));
        let is_member = |pod: &SharedPod| parse_ordinal(&set.metadata.name, &pod.meta().name).is_some();
        // With a malformed selector, nothing is claimed, and the plan reports the selector.
        let revisions = refs::claim_dependents(&owner, &set.selector, revisions, |_| true).unwrap_or_default();
        let pods = refs::claim_dependents(&owner, &set.selector, pods, is_member).unwrap_or_default();
        let claimed: Vec<&SharedPod> = pods.to_keep.iter().chain(&pods.to_adopt).collect();
        // The claims of a set that is not managed are not read.
        let claims = match decide::unmanaged_reason(&set, claimed.len()) {
            None => self.claims_of(&set, &claimed)?,
            Some(_) => BTreeMap::new(),
        };
        let template = self
            .templates
            .get_or_parse(&owner.uid, &set.template, |raw| {
                PodTemplateWithRevisionData::new(raw.clone(), NumberEncoding::Doubles)
            })
            .map_err(|error| SyncError::new("template", format!("cannot make {error}")))?;
        let reported = self.reports.reported_mismatches(&owner.uid);
        Ok(Snapshot {
            template,
            owner,
            revisions,
            pods,
            volume_claims: claims,
            reported_mismatches: reported,
            features: self.limits,
            now,
            set,
        })
    }

    /// Returns the cached claims of all existing Pods of a set, and of the Pods that this sync may create.
    fn claims_of(
        &self,
        set: &StatefulSet,
        pods: &[&SharedPod],
    ) -> Result<BTreeMap<String, SharedVolumeClaim>, CachedObjectError> {
        let mut claims = BTreeMap::new();
        if set.volume_claim_templates.is_empty() {
            return Ok(claims);
        }
        let present: BTreeSet<i32> = pods.iter().filter_map(|pod| pod.ordinal()).collect();
        // Adds the claims of an ordinal, and returns whether one of them belongs to an earlier Pod of the same name.
        let mut add = |ordinal: i32| -> Result<bool, CachedObjectError> {
            let (mut stale, pod) = (false, set.pod_name(ordinal));
            for template in &set.volume_claim_templates {
                let name = set.volume_claim_name(template, ordinal);
                if let Some(claim) = self.claims.store().get(&set.metadata.namespace, &name)? {
                    stale |= retention::is_volume_claim_stale(
                        set.volume_claim_retention_policy,
                        &claim.metadata.owners,
                        &pod,
                    );
                    claims.insert(name, claim);
                }
            }
            Ok(stale)
        };
        for ordinal in &present {
            add(*ordinal)?;
        }
        let mut unreadable = None;
        missing_ordinals(
            set,
            |ordinal| present.contains(&ordinal),
            |ordinal| {
                add(ordinal).unwrap_or_else(|error| {
                    unreadable = Some(error);
                    false
                })
            },
        );
        unreadable.map_or(Ok(claims), Err)
    }

    /// Returns a write of this process that the caches do not show yet, and the longest time to wait for it.
    pub(crate) fn unseen_write_and_timeout(&self, uid: &Uid) -> Option<(UnseenWrite, Duration)> {
        let caches: [&dyn LedgerCache; 4] =
            [&**self.pods.store(), &**self.claims.store(), &**self.sets.store(), &**self.revisions.store()];
        self.ledger.first_unseen_write(uid, &caches, HashSet::default)
    }
}

#[cfg(test)]
mod tests;
