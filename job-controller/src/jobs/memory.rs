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
#[derive(Debug, Default)]
pub struct Remembered {
    /// Pods whose finalizer was removed, though no cache has shown that yet. They have been dealt with.
    processed: Arc<HashSet<Uid>>,
    /// Failures of the Job's Pods since the last success, as far as this process has seen them.
    pub backoff: Option<Record>,
    /// Pods that have ended in the future by the clock of their node, each with when that was seen.
    ends: Arc<HashMap<Uid, Timestamp>>,
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
    pub fn change<R>(&self, job: &Uid, change: impl FnOnce(&mut Remembered) -> R) -> R {
        let mut jobs = self.jobs.lock();
        if let Some(known) = jobs.get_mut(job) {
            return change(known);
        }
        change(jobs.entry(job.clone()).or_default())
    }

    /// Reads what is remembered of a Job, if anything is.
    pub fn read<R>(&self, job: &Uid, read: impl FnOnce(&Remembered) -> R) -> Option<R> {
        self.jobs.lock().get(job).map(read)
    }

    /// Notes that finalizers of these Pods are about to be removed.
    pub fn process(&self, job: &Uid, pods: impl IntoIterator<Item = Uid>) {
        self.change(job, |known| Arc::make_mut(&mut known.processed).extend(pods));
    }

    /// Takes that back for a Pod whose finalizer may still be there.
    pub fn unprocess(&self, job: &Uid, pod: &Uid) {
        self.change(job, |known| Arc::make_mut(&mut known.processed).remove(pod));
    }

    /// Pods that have been dealt with though the cache does not show it; those it shows without the finalizer, or not at
    /// all, are forgotten. `tracked` are the Pods the cache shows with the finalizer.
    pub fn processed(&self, job: &Uid, tracked: impl FnOnce() -> HashSet<Uid>) -> Arc<HashSet<Uid>> {
        if self.read(job, |known| known.processed.is_empty()).unwrap_or(true) {
            return Arc::default();
        }
        let tracked = tracked();
        self.change(job, |known| {
            if !known.processed.is_subset(&tracked) {
                Arc::make_mut(&mut known.processed).retain(|pod| tracked.contains(pod));
            }
            Arc::clone(&known.processed)
        })
    }

    /// When Pods ended whose node says that this is yet to come: when this was asked first. `ahead` are those Pods now, and
    /// `known` tells whether a Pod is still there.
    pub fn ends(
        &self,
        job: &Uid,
        ahead: &[Uid],
        now: Timestamp,
        known: impl FnOnce() -> HashSet<Uid>,
    ) -> Arc<HashMap<Uid, Timestamp>> {
        if ahead.is_empty() && self.read(job, |known| known.ends.is_empty()).unwrap_or(true) {
            return Arc::default();
        }
        let known = known();
        self.change(job, |remembered| {
            let ends = Arc::make_mut(&mut remembered.ends);
            ends.retain(|pod, _| known.contains(pod));
            for pod in ahead {
                ends.entry(pod.clone()).or_insert(now);
            }
            Arc::clone(&remembered.ends)
        })
    }

    /// Notes what the Job's next sync waits for, if anything.
    pub fn wait_for(&self, job: &Uid, what: Option<(Resource, Version)>) {
        if what.is_some() || self.read(job, |known| known.awaited.is_some()).unwrap_or(false) {
            self.change(job, |known| known.awaited = what);
        }
    }

    /// Whether the Job waits for a cache of that resource that has now reached `version`.
    pub fn has_waited_for(&self, job: &Uid, resource: Resource, version: Version) -> bool {
        let reached = |(r, awaited): (Resource, Version)| r == resource && awaited <= version;
        self.read(job, |known| known.awaited.is_some_and(reached)).unwrap_or(false)
    }

    /// Forgets a Job that is gone or over.
    pub fn forget(&self, job: &Uid) {
        self.jobs.lock().remove(job);
    }
}

#[cfg(test)]
mod tests {
    use common::pods::PODS;

    use super::*;
    use crate::objects::JOBS;

    fn set(uids: &[&str]) -> HashSet<Uid> {
        uids.iter().map(|uid| Uid::new(uid)).collect()
    }

    #[test]
    fn a_processed_pod_is_remembered_until_the_cache_shows_it() {
        let (memory, job) = (Memory::default(), Uid::new("job"));
        memory.process(&job, set(&["a", "b", "c"]));
        memory.unprocess(&job, &Uid::new("b"));
        assert_eq!(*memory.processed(&job, || set(&["a", "b", "c"])), set(&["a", "c"]));
        assert_eq!(*memory.processed(&job, || set(&["c"])), set(&["c"]));
        assert_eq!(*memory.processed(&job, || set(&["a", "c"])), set(&["c"]), "seen once is seen");
        assert_eq!(*memory.processed(&Uid::new("namesake"), || set(&["c"])), set(&[]));
    }

    #[test]
    fn a_job_waits_for_one_version_of_one_resource() {
        let (memory, job) = (Memory::default(), Uid::new("job"));
        memory.wait_for(&job, Some((PODS, Version::parse("7"))));
        assert!(!memory.has_waited_for(&job, PODS, Version::parse("6")));
        assert!(!memory.has_waited_for(&job, JOBS, Version::parse("9")));
        assert!(memory.has_waited_for(&job, PODS, Version::parse("7")));
        memory.wait_for(&job, None);
        assert!(!memory.has_waited_for(&job, PODS, Version::parse("9")));
    }

    #[test]
    fn an_end_in_the_future_is_when_it_was_seen_first() {
        let (memory, job, at) = (Memory::default(), Uid::new("job"), |s| Timestamp::from_second(s).unwrap());
        let ends = |ahead: &[&str], now: i64, known: &[&str]| {
            let ahead: Vec<Uid> = ahead.iter().map(|uid| Uid::new(uid)).collect();
            let ends = memory.ends(&job, &ahead, at(now), || set(known));
            let mut ends: Vec<_> = ends.iter().map(|(uid, end)| (uid.to_string(), end.as_second())).collect();
            ends.sort();
            ends
        };
        assert_eq!(ends(&[], 1, &["a"]), []);
        assert!(memory.jobs.lock().is_empty());
        assert_eq!(ends(&["a"], 5, &["a", "b"]), [("a".to_owned(), 5)]);
        assert_eq!(ends(&["a", "b"], 7, &["a", "b"]), [("a".to_owned(), 5), ("b".to_owned(), 7)]);
        assert_eq!(ends(&[], 9, &["a"]), [("a".to_owned(), 5)], "also when that time has come");
    }

    #[test]
    fn nothing_is_left_of_a_job_that_is_forgotten() {
        let (memory, job) = (Memory::default(), Uid::new("job"));
        memory.change(&job, |known| {
            known.finished = true;
            known.backoff = Some(Record { failures: 2, last: None });
        });
        assert_eq!(memory.read(&job, |known| known.finished && known.backoff.is_some()), Some(true));
        memory.forget(&job);
        assert!(memory.jobs.lock().is_empty() && memory.read(&job, |_| ()).is_none());
    }
}
