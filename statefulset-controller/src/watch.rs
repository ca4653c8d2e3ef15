//! Handlers that turn events of watches into keys of sets in the queue.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::Ledger,
    controller::meta::{Meta, NamespacedName},
    object::Resource,
    owners::{controlling_owner, find_potential_adopters},
    parsed::ParseCache,
    queue::{Priority, Queue},
    revision::{CONTROLLER_REVISIONS, template::PodTemplateWithRevisionData},
    store::{CacheEvent, ChangeOrigin, Store},
};

use crate::{
    awaited::{AwaitedVolumeClaims, AwaitedWrites},
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
    pub(crate) awaited_volume_claims: Arc<AwaitedVolumeClaims>,
    pub(crate) awaited_writes: Arc<AwaitedWrites>,
    pub(crate) report_times: Arc<ReportTimes>,
    pub(crate) template_cache: Arc<ParseCache<PodTemplateWithRevisionData>>,
}

impl EventHandlers {
    /// Enqueues the set at every event.
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
            self.awaited_writes.record_awaited_write(&meta.key(), None);
        }
    }

    /// Enqueues the sets that wait for a claim, and the sets to which a deleted claim belongs by its name: a pending Pod of the
    /// set needs the claim again. Upstream syncs these sets only at some other event.
    pub(crate) fn on_volume_claim(&self, event: &CacheEvent<CachedVolumeClaim>, _: ChangeOrigin) {
        self.add_waiting(PERSISTENT_VOLUME_CLAIMS, event.meta());
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

    /// Enqueues the sets that wait until the cache shows this revision.
    pub(crate) fn on_revision(&self, event: &CacheEvent<CachedRevision>, _: ChangeOrigin) {
        self.add_waiting(CONTROLLER_REVISIONS, event.meta());
    }

    fn add_waiting(&self, resource: Resource, object: &Meta) {
        for set in self.awaited_writes.take_sets_waiting_for_version(resource, object) {
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
        match event {
            CacheEvent::Added(pod) if pod.meta().controller().is_some() => self.add_owner(pod.meta()),
            CacheEvent::Added(pod) => self.add_adopters(pod.meta()),
            CacheEvent::Updated { old, new } => self.on_pod_update(old, new),
            CacheEvent::Deleted(pod) => {
                self.add_owner(pod.meta());
                self.add_waiting_for_name(pod.meta());
            }
            CacheEvent::Unreadable(pod) => self.add_owner(&pod.meta),
        }
    }

    fn on_pod_update(&self, old: &CachedPod, new: &CachedPod) {
        let (before, after) = (old.meta(), new.meta());
        if before.resource_version == after.resource_version {
            return;
        }
        let moved = before.controller() != after.controller();
        if moved {
            self.add_owner(before);
        }
        if after.controller().is_some() {
            if let Some(set) = controlling_owner(&self.stateful_set_store, after) {
                self.queue.add(set.metadata.key(), Priority::Normal);
                if set.min_ready_seconds > 0 && !old.is_ready() && new.is_ready() {
                    let delay = Duration::from_secs(u64::from(set.min_ready_seconds.unsigned_abs()));
                    self.queue.add_after(set.metadata.key(), delay);
                }
            }
        } else if moved || before.labels != after.labels {
            self.add_adopters(after);
        }
    }

    fn add_owner(&self, pod: &Meta) {
        if let Some(set) = controlling_owner(&self.stateful_set_store, pod) {
            self.queue.add(set.metadata.key(), Priority::Normal);
        }
    }

    /// Enqueues the set that could not create a Pod because the deleted Pod had the name. Upstream waits for the back-off.
    fn add_waiting_for_name(&self, pod: &Meta) {
        let Some((name, _)) = pod.name.rsplit_once('-') else { return };
        let Some(set) = self.stateful_set_store.get_decoded(&pod.namespace, name) else { return };
        if self.report_times.refused_creations(&set.metadata.uid, &pod.name).is_some() {
            self.queue.add(set.metadata.key(), Priority::Normal);
        }
    }

    fn add_adopters(&self, pod: &Meta) {
        for set in
            find_potential_adopters(&self.stateful_set_store, pod, |set| set.selector.matches_orphan(&pod.labels))
        {
            self.queue.add(set.metadata.key(), Priority::Normal);
        }
    }
}

#[cfg(test)]
mod tests;
