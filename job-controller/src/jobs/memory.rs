//! What this process remembers of Jobs. All of it may be lost at any time.

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

/// Memories of Jobs, by their uid: a namesake knows nothing of them. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    jobs: Arc<Mutex<HashMap<Uid, Remembered>>>,
}

/// What is remembered of one Job.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// As in the [snapshot](super::snapshot::Snapshot::untracked_here).
    pub untracked_here: Arc<HashSet<Uid>>,
    /// As in the [snapshot](super::snapshot::Snapshot::seen_ended).
    pub seen_ended: Arc<HashMap<Uid, Timestamp>>,
    /// Failures of the Job's Pods since the last success, as far as this process has seen them.
    pub backoff: Option<Record>,
    /// The terminal status was written.
    pub finished: bool,
    /// When the server last refused a Pod because the namespace terminates.
    ///
    /// A namespace that has begun to terminate does not stop. Each Pod that the namespace controller deletes would otherwise
    /// bring another vain request.
    pub refused: Option<Instant>,
    /// The version a cache is to reach before the Job's next sync.
    awaited: Option<(Resource, Version)>,
}

impl Memory {
    /// Changes what is remembered of a Job.
    pub fn change(&self, job: &Uid, change: impl FnOnce(&mut Remembered)) {
        change(self.jobs.lock().entry(job.clone()).or_default());
    }

    /// What is remembered of a Job.
    pub fn of(&self, job: &Uid) -> Remembered {
        self.jobs.lock().get(job).cloned().unwrap_or_default()
    }

    /// Notes that finalizers of these Pods are about to be removed.
    pub fn untracking(&self, job: &Uid, pods: impl IntoIterator<Item = Uid>) {
        self.change(job, |remembered| Arc::make_mut(&mut remembered.untracked_here).extend(pods));
    }

    /// Takes that back for Pods whose finalizer may still be there.
    pub fn still_tracked(&self, job: &Uid, pods: &[Uid]) {
        self.change(job, |remembered| {
            let untracked_here = Arc::make_mut(&mut remembered.untracked_here);
            for pod in pods {
                untracked_here.remove(pod);
            }
        });
    }

    /// Keeps what a sync has found of the Job's Pods.
    pub fn keep(&self, job: &Uid, untracked_here: &Arc<HashSet<Uid>>, seen_ended: &Arc<HashMap<Uid, Timestamp>>) {
        let remembered = self.of(job);
        if remembered.untracked_here != *untracked_here || remembered.seen_ended != *seen_ended {
            self.change(job, |remembered| {
                remembered.untracked_here = Arc::clone(untracked_here);
                remembered.seen_ended = Arc::clone(seen_ended);
            });
        }
    }

    /// Notes the write that the Job's next sync waits for, if there is one.
    pub fn await_write(&self, job: &Uid, write: Option<(Resource, Version)>) {
        if write.is_some() || self.of(job).awaited.is_some() {
            self.change(job, |remembered| remembered.awaited = write);
        }
    }

    /// Whether the Job waits for a cache of that resource that has now reached `version`.
    pub fn has_waited_for(&self, job: &Uid, resource: Resource, version: Version) -> bool {
        let reached = |(r, awaited): (Resource, Version)| r == resource && awaited <= version;
        self.jobs.lock().get(job).is_some_and(|remembered| remembered.awaited.is_some_and(reached))
    }

    /// Forgets a Job that is gone or has finished.
    pub fn forget(&self, job: &Uid) {
        self.jobs.lock().remove(job);
    }

    /// Whether nothing is remembered of any Job.
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

    #[test]
    fn nothing_is_left_of_a_job_that_is_forgotten() {
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
