//! Event handlers of Jobs and Pods. They enqueue Jobs, and also orphans: Pods that may carry a leftover finalizer.

use std::{sync::Arc, time::Duration};

use common::prelude::*;

use crate::{
    metrics::JobMetrics,
    objects::{CachedPod, JOBS, Job},
    orphans::key::OrphanKey,
};

/// The delay before the first sync of a Job that was created suspended.
///
/// The creator often updates such a Job within milliseconds, with the version from the create. A status write before the update
/// would cause a conflict. Upstream is slow enough to avoid the conflict without a delay.
const SUSPENDED_JOB_SYNC_DELAY: Duration = Duration::from_millis(100);

/// Whether a Job is suspended and its status is still empty.
fn is_being_prepared(job: &Job) -> bool {
    job.suspend && job.status.start_time.is_none() && job.status.conditions.is_empty()
}

/// Event handlers that enqueue keys. Upstream: `pkg/controller/job`, `addPod`, `updatePod`, `deletePod`, `updateJob`, ...
pub(crate) struct EventHandlers {
    pub(crate) job_queue: Queue<NamespacedName>,
    pub(crate) orphan_queue: Queue<OrphanKey>,
    pub(crate) job_store: Arc<Store<Job>>,
    pub(crate) pod_store: Arc<Store<CachedPod>>,
    pub(crate) ledger: Ledger,
    pub(crate) metrics: JobMetrics,
    /// The debounce period for events of Pods, and for status changes of Jobs.
    pub(crate) sync_batch_period: Duration,
}

impl EventHandlers {
    pub(crate) fn on_job(&self, event: &CacheEvent<Job>, origin: ChangeOrigin) {
        let key = event.meta().key();
        match event {
            CacheEvent::Added(job) => {
                if let Some(managed_by) = &job.managed_by {
                    self.metrics.record_externally_managed_job(managed_by);
                }
                if job.is_finished() {
                    self.orphan_queue.add(OrphanKey::for_job(&job.metadata), origin);
                }
                if origin == ChangeOrigin::Watch && is_being_prepared(job) {
                    self.job_queue.add_after(key, SUSPENDED_JOB_SYNC_DELAY);
                } else {
                    self.job_queue.add(key, origin);
                }
            }
            CacheEvent::Updated { new, .. } if new.is_finished() => {
                self.orphan_queue.add(OrphanKey::for_job(&new.metadata), origin);
            }
            CacheEvent::Updated { old, new } if old.metadata.generation != new.metadata.generation => {
                self.job_queue.add(key, origin);
            }
            CacheEvent::Updated { new, .. } => self.enqueue_job(&new.metadata),
            CacheEvent::Deleted(job) => {
                self.orphan_queue.add(OrphanKey::for_job(&job.metadata), Priority::Normal);
                self.job_queue.add(key, Priority::Normal);
            }
            CacheEvent::Unreadable(_) => self.job_queue.add(key, origin),
        }
    }

    /// Enqueues the Job of a Pod. The first list of Pods enqueues only Pods that may be orphans, because the first list of Jobs
    /// enqueues every Job.
    pub(crate) fn on_pod(&self, event: &CacheEvent<CachedPod>, origin: ChangeOrigin) {
        self.record_tracking_metric(event);
        match event {
            CacheEvent::Added(pod) if origin == ChangeOrigin::Initial => {
                if pod.has_tracking_finalizer {
                    let orphan = pod.meta().controller().map_or_else(
                        || OrphanKey::for_pod(pod.meta()),
                        |owner| OrphanKey::for_owner(&pod.meta().namespace, &owner.name, &owner.uid),
                    );
                    self.orphan_queue.add(orphan, Priority::Low);
                }
                return;
            }
            CacheEvent::Updated { old, new } if old.meta().resource_version == new.meta().resource_version => return,
            CacheEvent::Added(pod) | CacheEvent::Updated { new: pod, .. } if pod.meta().is_deleting() => {
                return self.on_terminating_pod(pod);
            }
            CacheEvent::Added(pod) | CacheEvent::Updated { new: pod, .. } if pod.meta().controller().is_none() => {
                self.enqueue_possible_orphan(pod);
            }
            _ => {}
        }
        for owners in concerned_owners(event) {
            match owners {
                ConcernedOwners::Controller(pod) => {
                    if let Some(job) = controlling_owner(&self.job_store, pod) {
                        self.enqueue_job(&job.metadata);
                    }
                }
                ConcernedOwners::Adopters(pod) => {
                    let selects = |job: &Job| !job.is_finished() && job.selector.matches(&pod.labels);
                    for job in find_potential_adopters(&self.job_store, pod, selects) {
                        self.enqueue_job(&job.metadata);
                    }
                }
            }
        }
    }

    /// Enqueues the Job of a terminating Pod. If no Job counts the Pod any more, enqueues the Pod as a possible orphan.
    fn on_terminating_pod(&self, pod: &CachedPod) {
        match controlling_owner(&self.job_store, pod.meta()).filter(|job| !job.is_finished()) {
            Some(job) => self.enqueue_job(&job.metadata),
            None => self.enqueue_possible_orphan(pod),
        }
    }

    /// Enqueues a Pod as a possible orphan, if it carries the finalizer.
    fn enqueue_possible_orphan(&self, pod: &CachedPod) {
        if pod.has_tracking_finalizer {
            self.orphan_queue.add(OrphanKey::for_pod(pod.meta()), Priority::Normal);
        }
    }

    /// Enqueues a Job, without delay if a cache has reached the version that the Job's next sync waits for, else debounced.
    fn enqueue_job(&self, job: &Meta) {
        let key = job.key();
        if self.ledger.is_awaited(&key, &CachedPod::RESOURCE, self.pod_store.version())
            || self.ledger.is_awaited(&key, &JOBS, self.job_store.version())
        {
            self.job_queue.add(key, Priority::Normal);
        } else {
            self.job_queue.add_after(key, self.sync_batch_period);
        }
    }

    /// Enqueues the Job that controls the object `written`, if the next sync of the Job waits for this version of the object.
    pub(crate) fn on_scheduling_object(&self, written: &Meta, resource: &Resource) {
        if let Some(job) = controlling_owner(&self.job_store, written)
            && self.ledger.is_awaited(&job.metadata.key(), resource, written.resource_version)
        {
            self.job_queue.add(job.metadata.key(), Priority::Normal);
        }
    }

    /// Updates the metric of finished Pods with the finalizer, for Pods of any owner.
    fn record_tracking_metric(&self, event: &CacheEvent<CachedPod>) {
        let (before, after) = match event {
            CacheEvent::Added(pod) => (false, pod.is_finished_and_tracked()),
            CacheEvent::Updated { old, new } => (old.is_finished_and_tracked(), new.is_finished_and_tracked()),
            CacheEvent::Deleted(pod) => (pod.is_finished_and_tracked(), false),
            CacheEvent::Unreadable(_) => return,
        };
        self.metrics.record_finished_tracked_pod_change(before, after);
    }
}

#[cfg(test)]
mod tests;
