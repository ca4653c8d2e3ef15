//! The state that this process remembers for Jobs. A restart loses it, and the next leader works without it.

use std::sync::Arc;

use common::{
    clock::Instant,
    map::{HashMap, HashSet},
    meta::{Uid, Version},
    object::Resource,
};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::snapshot::Record;

/// The remembered state of each Job, by UID, so that a recreated Job starts without old state. Clones share all state.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    jobs: Arc<Mutex<HashMap<Uid, Remembered>>>,
}

/// The state that this process remembers for one Job.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// UIDs of Pods that no longer have the finalizer, because this process removed it; the cache still shows it.
    pub untracked_here: Arc<HashSet<Uid>>,
    /// For each Pod with a finish time in the future: the time at which this process first saw that the Pod had finished.
    pub seen_ended: Arc<HashMap<Uid, Timestamp>>,
    /// Failures of the Job's Pods since the last success; `None` until this process has written a status of the Job.
    pub backoff: Option<Record>,
    /// Whether this process has written the status with the condition `Complete` or `Failed`.
    pub finished: bool,
    /// The last time at which the server refused a Pod because the namespace is terminating.
    ///
    /// A terminating namespace never becomes active again. Without this time, each Pod that the namespace controller deletes
    /// would cause another refused request.
    pub refused: Option<Instant>,
    /// The version of a resource that the cache must reach before the next sync of the Job.
    awaited: Option<(Resource, Version)>,
}

impl Memory {
    /// Applies a change to the memory of a Job.
    pub fn change(&self, job: &Uid, change: impl FnOnce(&mut Remembered)) {
        change(self.jobs.lock().entry(job.clone()).or_default());
    }

    /// Returns a copy of the memory of a Job; the default value if there is none.
    pub fn of(&self, job: &Uid) -> Remembered {
        self.jobs.lock().get(job).cloned().unwrap_or_default()
    }

    /// Records that the finalizers of these Pods are about to be removed.
    pub fn untracking(&self, job: &Uid, pods: impl IntoIterator<Item = Uid>) {
        self.change(job, |remembered| Arc::make_mut(&mut remembered.untracked_here).extend(pods));
    }

    /// Reverts [`untracking`](Self::untracking) for Pods that may still have their finalizers.
    pub fn still_tracked(&self, job: &Uid, pods: &[Uid]) {
        self.change(job, |remembered| {
            let untracked_here = Arc::make_mut(&mut remembered.untracked_here);
            for pod in pods {
                untracked_here.remove(pod);
            }
        });
    }

    /// Stores the sets that a sync has computed from the cached Pods, if they have changed.
    pub fn keep(&self, job: &Uid, untracked_here: &Arc<HashSet<Uid>>, seen_ended: &Arc<HashMap<Uid, Timestamp>>) {
        let remembered = self.of(job);
        if remembered.untracked_here != *untracked_here || remembered.seen_ended != *seen_ended {
            self.change(job, |remembered| {
                remembered.untracked_here = Arc::clone(untracked_here);
                remembered.seen_ended = Arc::clone(seen_ended);
            });
        }
    }

    /// Records the write that the cache must show before the next sync of the Job. `None` ends the wait.
    pub fn await_write(&self, job: &Uid, write: Option<(Resource, Version)>) {
        if write.is_some() || self.of(job).awaited.is_some() {
            self.change(job, |remembered| remembered.awaited = write);
        }
    }

    /// Whether the Job waits for this resource, and the awaited version is not newer than `version`.
    pub fn has_waited_for(&self, job: &Uid, resource: Resource, version: Version) -> bool {
        let reached = |(r, awaited): (Resource, Version)| r == resource && awaited <= version;
        self.jobs.lock().get(job).is_some_and(|remembered| remembered.awaited.is_some_and(reached))
    }

    /// Removes the memory of a deleted or finished Job.
    pub fn forget(&self, job: &Uid) {
        self.jobs.lock().remove(job);
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use common::pods::PODS;

    use super::*;
    use crate::objects::JOBS;

    /// JOB-9.
    #[test]
    fn a_job_waits_for_one_version_of_one_resource() {
        let (memory, job) = (Memory::default(), Uid::new("job"));
        memory.await_write(&job, Some((PODS, Version::parse("7"))));
        assert!(!memory.has_waited_for(&job, PODS, Version::parse("6")));
        assert!(!memory.has_waited_for(&job, JOBS, Version::parse("9")));
        assert!(memory.has_waited_for(&job, PODS, Version::parse("7")));
        memory.await_write(&job, None);
        assert!(!memory.has_waited_for(&job, PODS, Version::parse("9")));
    }

    /// JOB-70.
    #[test]
    fn a_forgotten_job_leaves_no_memory() {
        let (memory, job) = (Memory::default(), Uid::new("job"));
        memory.change(&job, |remembered| {
            remembered.finished = true;
            remembered.backoff = Some(Record { failures: 2, last: None });
        });
        assert!(memory.of(&job).finished && memory.of(&job).backoff.is_some());
        memory.forget(&job);
        assert!(memory.is_empty() && !memory.of(&job).finished);
    }
}
