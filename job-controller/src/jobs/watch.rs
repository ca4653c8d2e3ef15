//! Event handlers of Jobs and Pods, which enqueue Jobs, and Pods that may carry a leftover finalizer (orphans).

use std::{sync::Arc, time::Duration};

use common::{
    controller::priority,
    meta::{Key, Meta, Uid},
    object::{Object as _, Resource},
    owners::{adopters_of, owner_of},
    queue::{Priority, Queue},
    store::{Event, Origin, Store},
};

use super::memory::Memory;
use crate::{
    metrics::ControllerMetrics,
    objects::{CachedPod, JOBS, Job},
    orphans::key::Orphan,
};

/// The delay before the first sync of a Job that was created suspended.
///
/// The creator often updates such a Job at once, with the version from the create. An early status write would make this update
/// fail with a conflict. Upstream is slow enough to avoid the conflict without a delay.
const PREPARATION: Duration = Duration::from_millis(100);

/// Whether a Job is suspended and its status is still empty.
fn is_being_prepared(job: &Job) -> bool {
    job.suspend && job.status.start_time.is_none() && job.status.conditions.is_empty()
}

/// Event handlers that enqueue keys. Upstream: `pkg/controller/job`, `addPod`, `updatePod`, `deletePod`, `updateJob`, ...
pub(crate) struct Watch {
    pub(crate) queue: Queue<Key>,
    pub(crate) orphans: Queue<Orphan>,
    pub(crate) jobs: Arc<Store<Job>>,
    pub(crate) pods: Arc<Store<CachedPod>>,
    pub(crate) memory: Memory,
    pub(crate) metrics: ControllerMetrics,
    /// The debounce period for events of Pods, and for status changes of Jobs.
    pub(crate) batch: Duration,
}

impl Watch {
    pub(crate) fn on_job(&self, event: &Event<Job>, origin: Origin) {
        let key = event.meta().key();
        match event {
            Event::Added(job) => {
                if let Some(by) = &job.managed_by {
                    self.metrics.managed_externally(by);
                }
                if job.is_finished() {
                    self.sweep(&job.metadata, priority(origin));
                }
                if origin == Origin::Watch && is_being_prepared(job) {
                    self.queue.add_after(key, PREPARATION);
                } else {
                    self.queue.add(key, priority(origin));
                }
            }
            Event::Updated { new, .. } if new.is_finished() => self.sweep(&new.metadata, priority(origin)),
            Event::Updated { old, new } if old.metadata.generation != new.metadata.generation => {
                self.queue.add(key, priority(origin));
            }
            Event::Updated { new, .. } => self.add(&new.metadata),
            Event::Deleted(job) => {
                self.sweep(&job.metadata, Priority::Normal);
                self.queue.add(key, Priority::Normal);
            }
            Event::Unreadable(_) => self.queue.add(key, priority(origin)),
        }
    }

    /// Enqueues the Job of a Pod. The first list of Pods enqueues only possible orphans, because the first list of Jobs
    /// enqueues every Job.
    pub(crate) fn on_pod(&self, event: &Event<CachedPod>, origin: Origin) {
        self.count(event);
        match event {
            Event::Added(pod) if origin == Origin::Initial => {
                if pod.tracked {
                    let orphan = pod.meta().controller().map_or_else(
                        || Orphan::pod(pod.meta()),
                        |owner| Orphan::job(&pod.meta().namespace, &owner.name, &owner.uid),
                    );
                    self.orphans.add(orphan, Priority::Low);
                }
            }
            Event::Added(pod) if pod.meta().is_deleting() => self.on_terminating_pod(pod),
            Event::Added(pod) if pod.meta().controller().is_some() => self.add_owner(pod.meta()),
            Event::Added(pod) => {
                self.strip(pod);
                self.add_adopters(pod.meta());
            }
            Event::Updated { old, new } => self.on_pod_update(old, new),
            Event::Deleted(pod) => self.add_owner(pod.meta()),
            Event::Unreadable(pod) => self.add_owner(&pod.meta),
        }
    }

    fn on_pod_update(&self, old: &CachedPod, new: &CachedPod) {
        let (before, after) = (old.meta(), new.meta());
        if before.resource_version == after.resource_version {
            return;
        }
        if after.is_deleting() {
            self.on_terminating_pod(new);
            return;
        }
        let moved = before.controller() != after.controller();
        if moved {
            self.add_owner(before);
        }
        if after.controller().is_some() {
            self.add_owner(after);
            return;
        }
        self.strip(new);
        if moved || before.labels != after.labels {
            self.add_adopters(after);
        }
    }

    /// Enqueues the Job of a terminating Pod, or the Pod as an orphan if no Job counts it any more.
    fn on_terminating_pod(&self, pod: &CachedPod) {
        match owner_of(&self.jobs, pod.meta()).filter(|job| !job.is_finished()) {
            Some(job) => self.add(&job.metadata),
            None => self.strip(pod),
        }
    }

    /// Enqueues a Pod as a possible orphan, if it carries the finalizer.
    fn strip(&self, pod: &CachedPod) {
        if pod.tracked {
            self.orphans.add(Orphan::pod(pod.meta()), Priority::Normal);
        }
    }

    /// Enqueues the Pods of a deleted or finished Job as possible orphans.
    fn sweep(&self, job: &Meta, priority: Priority) {
        self.orphans.add(Orphan::job(&job.namespace, &job.name, &job.uid), priority);
    }

    /// Enqueues a Job: at once if the Job waits for a version that a cache has reached, and debounced otherwise.
    fn add(&self, job: &Meta) {
        if self.waited(&job.uid) {
            self.queue.add(job.key(), Priority::Normal);
        } else {
            self.queue.add_after(job.key(), self.batch);
        }
    }

    /// Enqueues the Job that controls the object `written`, if the Job waits until the cache shows this version of the object.
    pub(crate) fn on_shown(&self, written: &Meta, resource: Resource) {
        if let Some(job) = owner_of(&self.jobs, written)
            && self.memory.has_waited_for(&job.metadata.uid, resource, written.resource_version)
        {
            self.queue.add(job.metadata.key(), Priority::Normal);
        }
    }

    fn waited(&self, job: &Uid) -> bool {
        self.memory.has_waited_for(job, CachedPod::RESOURCE, self.pods.version())
            || self.memory.has_waited_for(job, JOBS, self.jobs.version())
    }

    fn add_owner(&self, pod: &Meta) {
        if let Some(job) = owner_of(&self.jobs, pod) {
            self.add(&job.metadata);
        }
    }

    fn add_adopters(&self, pod: &Meta) {
        for job in adopters_of(&self.jobs, pod, |job| !job.is_finished() && job.selector.matches(&pod.labels)) {
            self.add(&job.metadata);
        }
    }

    /// Updates the metric of terminated Pods with the finalizer, for Pods of any owner.
    fn count(&self, event: &Event<CachedPod>) {
        match event {
            Event::Added(pod) => self.metrics.tracking(false, pod.is_terminated_and_tracked()),
            Event::Updated { old, new } => {
                self.metrics.tracking(old.is_terminated_and_tracked(), new.is_terminated_and_tracked());
            }
            Event::Deleted(pod) => self.metrics.tracking(pod.is_terminated_and_tracked(), false),
            Event::Unreadable(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
