//! Reads the claims of a set's Pods, and registers the claims that a set waits for.

use std::collections::{BTreeMap, BTreeSet};

use common::{object::CachedObjectError, prelude::*};

use crate::{
    StatefulSetController,
    decide::{ordinals::missing_ordinals, retention},
    objects::StatefulSet,
    snapshot::{SharedPod, SharedVolumeClaim},
};

impl StatefulSetController {
    /// Returns the cached claims of all existing Pods of a set, and of the Pods that this sync may create.
    pub(crate) fn claims_of(
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
                if let Some(claim) = self.claims.get(&set.metadata.namespace, &name)? {
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

    /// Registers the claims that a set waits for. The deletion of one of these claims enqueues the set.
    pub(crate) fn await_claims(&self, set: &Meta, claim_names: &[String]) {
        let (key, awaited_volume_claims) = (set.key(), &self.watch.awaited_volume_claims);
        let claims: Vec<_> = claim_names.iter().map(|name| NamespacedName::new(&set.namespace, name)).collect();
        awaited_volume_claims.replace_claims_of_set(&key, claims.clone());
        // If a claim was deleted before this call, the event of the deletion enqueued nothing, so the set is enqueued here.
        for claim in &claims {
            if self.claims.with_metadata(&claim.namespace, &claim.name, |_| ()).is_none() {
                awaited_volume_claims.take_sets_waiting_for(claim);
                self.watch.queue.add(key.clone(), Priority::Normal);
            }
        }
        // If the set was deleted before this call, its event removed nothing, so the awaited claims are removed here.
        if self.sets.with_metadata(&set.namespace, &set.name, |_| ()).is_none() {
            awaited_volume_claims.forget_set(&key);
        }
    }
}

#[cfg(test)]
mod tests;
