//! Handlers that turn events of watches into keys of sets in the queue.

use std::{sync::Arc, time::Duration};

use common::{
    parsed::ParseCache,
    prelude::*,
    revision::{CONTROLLER_REVISIONS, template::PodTemplateWithRevisionData},
};

use crate::{
    awaited::AwaitedVolumeClaims,
    metrics::ControllerMetrics,
    objects::{CachedPod, CachedRevision, CachedVolumeClaim, PERSISTENT_VOLUME_CLAIMS, StatefulSet},
    reports::ReportTimes,
};

/// Enqueues the sets that an event concerns. Upstream: `pkg/controller/statefulset`, `addPod`, `updatePod`, `deletePod`,
/// `enqueueStatefulSet`.
pub(crate) struct EventHandlers {
    pub(crate) queue: Queue<NamespacedName>,
    pub(crate) stateful_set_store: Arc<Store<StatefulSet>>,
    pub(crate) ledger: Ledger,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) awaited_volume_claims: AwaitedVolumeClaims,
    pub(crate) report_times: ReportTimes,
    pub(crate) template_cache: ParseCache<PodTemplateWithRevisionData>,
}

impl EventHandlers {
    pub(crate) fn on_set(&self, event: &CacheEvent<StatefulSet>, origin: ChangeOrigin) {
        if let CacheEvent::Deleted(set) = event {
            self.forget_set(set);
        }
        self.queue.add(event.meta().key(), origin);
    }

    /// Removes a deleted set from the memory of the controller. Data under the name are kept if a new set has this name.
    pub(crate) fn forget_set(&self, set: &StatefulSet) {
        let meta = &set.metadata;
        self.ledger.forget_owner(&meta.uid);
        self.template_cache.forget(&meta.uid);
        self.report_times.forget_set(&meta.uid);
        let successor = self.stateful_set_store.get_decoded(&meta.namespace, &meta.name);
        if successor.as_ref().is_none_or(|successor| successor.pod_management_policy != set.pod_management_policy) {
            self.metrics.forget_set(set);
        }
        if successor.is_none() {
            self.awaited_volume_claims.forget_set(&meta.key());
        }
    }

    /// Enqueues the sets that wait for a claim, and the sets to which a deleted claim belongs by its name: a pending Pod of the
    /// set needs the claim again. Upstream syncs these sets only at some other event.
    pub(crate) fn on_volume_claim(&self, event: &CacheEvent<CachedVolumeClaim>, _: ChangeOrigin) {
        self.add_sets_awaiting(&PERSISTENT_VOLUME_CLAIMS, event.meta());
        if let CacheEvent::Deleted(claim) = event {
            for set in self.awaited_volume_claims.take_sets_waiting_for(&claim.metadata.key()) {
                self.queue.add(set, Priority::Normal);
            }
            self.add_sets_of_claim(&claim.metadata);
        }
    }

    /// Enqueues each set with a template and an ordinal that give the claim its name, `<template>-<set>-<ordinal>`.
    fn add_sets_of_claim(&self, claim: &Meta) {
        let Some((prefix, _)) = claim.name.rsplit_once('-') else { return };
        // Names of templates and of sets may contain dashes.
        for (dash, _) in prefix.match_indices('-') {
            let Some(set) = self.stateful_set_store.get_decoded(&claim.namespace, &prefix[dash + 1..]) else {
                continue;
            };
            if set.volume_claim_templates.iter().any(|template| template.name.as_str() == &prefix[..dash]) {
                self.queue.add(set.metadata.key(), Priority::Normal);
            }
        }
    }

    pub(crate) fn on_revision(&self, event: &CacheEvent<CachedRevision>, _: ChangeOrigin) {
        self.add_sets_awaiting(&CONTROLLER_REVISIONS, event.meta());
    }

    /// Enqueues the sets that wait until a cache shows the version of this object.
    ///
    /// Pods, claims and revisions have separate watches, and their events come in any order. Without this call, a set would not
    /// be synced if the event of its claim or revision comes after the event of its Pod.
    fn add_sets_awaiting(&self, resource: &Resource, object: &Meta) {
        for set in self.ledger.take_keys_awaiting(resource, object) {
            self.queue.add(set, Priority::Normal);
        }
    }

    /// Enqueues the set that owns the Pod and the set that owned it before. For an orphan, enqueues the sets that may adopt it.
    ///
    /// The first list of Pods enqueues nothing, because the first list of sets enqueues every set, and no sync starts before
    /// both lists are complete.
    pub(crate) fn on_pod(&self, event: &CacheEvent<CachedPod>, origin: ChangeOrigin) {
        if origin == ChangeOrigin::Initial {
            return;
        }
        let selects = |set: &StatefulSet, labels: &_| set.selector.matches_orphan(labels);
        for set in find_concerned_owners(&self.stateful_set_store, event, selects) {
            self.queue.add(set.metadata.key(), Priority::Normal);
        }
        if let CacheEvent::Updated { old, new } = event
            && new.is_ready()
            && !old.is_ready()
            && let Some(set) = controlling_owner(&self.stateful_set_store, new.meta())
            && set.min_ready_seconds > 0
        {
            let delay = Duration::from_secs(u64::from(set.min_ready_seconds.unsigned_abs()));
            self.queue.add_after(set.metadata.key(), delay);
        }
        if let CacheEvent::Deleted(pod) = event {
            self.add_set_waiting_for_name(pod.meta());
        }
    }

    /// Enqueues the set that could not create a Pod because the deleted Pod had the name. Upstream waits for the back-off.
    fn add_set_waiting_for_name(&self, pod: &Meta) {
        let Some((name, _)) = pod.name.rsplit_once('-') else { return };
        let Some(set) = self.stateful_set_store.get_decoded(&pod.namespace, name) else { return };
        if self.report_times.refused_creations(&set.metadata.uid, &pod.name).is_some() {
            self.queue.add(set.metadata.key(), Priority::Normal);
        }
    }
}

#[cfg(test)]
mod tests;
