//! Builds the snapshot of a Job from the caches, with lookups in their indexes.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::{Behind, Cache},
    controller::{Observed, RECHECK},
    intern::Text,
    io::Failed,
    map::{HashMap, HashSet},
    meta::{Key, Uid, Version},
    object::Resource,
    pods::Phase,
    refs::{self, Claims, Owner},
    selector::Selector,
    store::{ByController, IndexValue, OrphansByNamespace},
};
use jiff::Timestamp;

use super::{
    JobController,
    gangs::Gangs,
    memory::Remembered,
    snapshot::{PodRef, Record, Snapshot, UnseenWrites},
};
use crate::objects::{JOBS, Job};

impl JobController {
    pub(crate) fn observe(&self, key: &Key, now: Timestamp) -> Result<Observed<Snapshot>, Failed> {
        let judged = self.uid(key);
        let behind = judged.as_ref().and_then(|uid| self.behind(&key.namespace, uid));
        let must_wait = |behind: &Behind| match behind {
            Behind::Conflicts { .. } => true,
            Behind::Write { .. } => self.reads_own_writes,
            Behind::Deletes { .. } | Behind::LostCreates { .. } => false,
        };
        if let Some(behind) = behind.clone().filter(|(behind, _)| must_wait(behind)) {
            return Ok(Observed::behind(behind));
        }
        // The Job is read after the check of this process's writes, so that it is not older than these writes.
        let Some(job) = self.jobs.store().get(&key.namespace, &key.name)? else { return Ok(Observed::Gone) };
        let uid = &job.metadata.uid;
        if judged.as_ref() != Some(uid) {
            // The cache has received a new Job with the same name since its UID was read.
            return self.observe(key, now);
        }
        let without_pods = Snapshot {
            owner: Owner::new(JOBS, &job.metadata),
            job: Arc::clone(&job),
            claims: Claims::default(),
            unselected: Vec::new(),
            untracked_here: Arc::default(),
            seen_ended: Arc::default(),
            backoff: Record::default(),
            scheduling: None,
            terminating_namespace: false,
            unseen_writes: None,
            limits: self.limits,
            now,
        };
        if job.is_finished() || job.managed_by.is_some() {
            return Ok(Observed::Ready(without_pods));
        }
        let Remembered { untracked_here, seen_ended, backoff, finished, refused, .. } = self.memory.of(uid);
        if finished {
            return Ok(Observed::wait("the cache does not show yet that the Job has finished", RECHECK));
        }
        let owned = self.pods.store().by_index(ByController, &IndexValue::controlled_by(&job.metadata))?;
        let seen_ended = see_ended(seen_ended, &owned, now);
        let untracked_here = still_shown(untracked_here, &owned);
        let backoff = backoff.unwrap_or_else(|| recollect(&job, &owned, &seen_ended));
        let (claims, unselected) = claim(&without_pods.owner, &job.selector, owned, self.unowned(&job));
        let is_recent = |at| self.context.clock.instant().saturating_duration_since(at) < self.expectations_timeout;
        let unseen_writes = behind.map(|(behind, left)| {
            let is_stale = matches!(behind, Behind::Write { .. });
            let at_most = if is_stale { left.min(RECHECK) } else { left };
            UnseenWrites { why: behind.to_string(), at_most, is_stale }
        });
        Ok(Observed::Ready(Snapshot {
            claims,
            unselected,
            untracked_here,
            seen_ended,
            backoff,
            scheduling: self.gangs.as_ref().map(|gangs| gangs.scheduling(&job)).transpose()?,
            terminating_namespace: refused.is_some_and(is_recent),
            unseen_writes,
            ..without_pods
        }))
    }

    /// Returns the UID of the Job with this key; `None` if the cache has no such Job.
    pub(crate) fn uid(&self, key: &Key) -> Option<Uid> {
        self.jobs.store().peek(&key.namespace, &key.name, |meta| meta.uid.clone())
    }

    /// Records the write of this process that the caches lack. The event that shows this write enqueues the Job at once.
    pub(crate) fn await_write(&self, namespace: &Text, uid: &Uid) -> Option<(Resource, Version)> {
        let awaited = self.behind(namespace, uid).and_then(|(behind, _)| match behind {
            Behind::Write { resource, written, .. } => Some((resource, written)),
            // The version of the changed object is unknown, so any event of this resource ends the wait.
            Behind::Conflicts { resource, .. } => Some((resource, Version::UNKNOWN)),
            Behind::Deletes { .. } | Behind::LostCreates { .. } => None,
        });
        self.memory.await_write(uid, awaited);
        awaited
    }

    /// Returns the writes of this process for a Job that the caches do not show yet, and the maximal time to wait for them.
    pub(crate) fn behind(&self, namespace: &Text, uid: &Uid) -> Option<(Behind, Duration)> {
        let mut caches: Vec<&dyn Cache> = vec![&**self.pods.store(), &**self.jobs.store()];
        caches.extend(self.gangs.iter().flat_map(Gangs::caches));
        self.ledger.behind(uid, &caches, || self.children(namespace, uid))
    }

    /// Returns the UIDs of the cached Pods that a Job controls, even if its selector does not match them.
    pub(crate) fn children(&self, namespace: &Text, uid: &Uid) -> HashSet<Uid> {
        let owner = IndexValue::Controller { namespace: namespace.clone(), uid: uid.clone() };
        let pods = self.pods.store().readable_by_index(ByController, &owner);
        pods.iter().map(|pod| pod.meta().uid.clone()).collect()
    }

    /// Returns the orphan Pods in the Job's namespace, except unreadable ones, which cannot be adopted.
    fn unowned(&self, job: &Job) -> Vec<PodRef> {
        let namespace = IndexValue::Text(job.metadata.namespace.clone());
        self.pods.store().readable_by_index(OrphansByNamespace, &namespace)
    }
}

/// Returns the Pods that the Job keeps, adopts and releases, and the Pods that it controls and neither keeps nor releases.
///
/// Only a terminating Job has Pods of the second group. A Job with an invalid selector claims no Pods, as its plan reports.
pub(crate) fn claim(
    owner: &Owner,
    selector: &Selector,
    owned: Vec<PodRef>,
    unowned: Vec<PodRef>,
) -> (Claims<PodRef>, Vec<PodRef>) {
    let candidates = owned.iter().cloned().chain(unowned);
    let claims = refs::claim(owner, selector, candidates, |_| true).unwrap_or_default();
    if !owner.deleting {
        return (claims, Vec::new());
    }
    let kept: HashSet<Uid> = claims.keep.iter().map(|pod| pod.meta().uid.clone()).collect();
    let is_unselected = |pod: &PodRef| {
        let meta = pod.meta();
        meta.controller().is_some_and(|controller| controller.uid == owner.uid) && !kept.contains(&meta.uid)
    };
    (claims, owned.into_iter().filter(is_unselected).collect())
}

/// Returns the UIDs of `untracked_here` that belong to Pods with the finalizer in the cache.
fn still_shown(untracked_here: Arc<HashSet<Uid>>, owned: &[PodRef]) -> Arc<HashSet<Uid>> {
    if untracked_here.is_empty() {
        return untracked_here;
    }
    let tracked = owned.iter().filter(|pod| pod.tracked).map(|pod| &pod.meta().uid);
    Arc::new(tracked.filter(|uid| untracked_here.contains(*uid)).cloned().collect())
}

/// Returns the time at which this process first saw the end of each Pod with a finish time in the future, by the clock of its
/// node. Deleted Pods are dropped.
fn see_ended(seen: Arc<HashMap<Uid, Timestamp>>, owned: &[PodRef], now: Timestamp) -> Arc<HashMap<Uid, Timestamp>> {
    let is_ahead = |pod: &PodRef| !pod.is_active() && pod.finished > now;
    if seen.is_empty() && !owned.iter().any(is_ahead) {
        return seen;
    }
    let first_seen = |pod: &PodRef| {
        let uid = &pod.meta().uid;
        let at = seen.get(uid).copied().or_else(|| is_ahead(pod).then_some(now))?;
        Some((uid.clone(), at))
    };
    Arc::new(owned.iter().filter_map(first_seen).collect())
}

/// Reconstructs the failures since the last success from existing Pods, after a take-over.
///
/// Reconstructs nothing if a Pod has succeeded: counted Pods that have succeeded are not cached, and one of them may have
/// finished last. Upstream starts without failures (kubernetes/kubernetes#114650).
fn recollect(job: &Job, owned: &[PodRef], seen_ended: &HashMap<Uid, Timestamp>) -> Record {
    if job.status.succeeded > 0 || job.status.failed == 0 {
        return Record::default();
    }
    let counted = owned.iter().filter(|pod| !pod.tracked && pod.phase == Phase::Failed);
    let ends: Vec<Timestamp> = counted
        .map(|pod| seen_ended.get(&pod.meta().uid).map_or(pod.finished, |seen| pod.finished.min(*seen)))
        .collect();
    let failures = u32::try_from(job.status.failed).unwrap_or(0).min(u32::try_from(ends.len()).unwrap_or(u32::MAX));
    Record { failures, last: ends.into_iter().max() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        jobs::memory::Memory,
        world::{at, job, pod},
    };

    fn failed(name: &str, second: i64, finalizers: &Value) -> PodRef {
        let pod = json!({"metadata": {"name": name, "finalizers": finalizers}, "status": {"phase": "Failed",
            "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1, "finishedAt": at(second).to_string()}}}]}});
        Arc::new(serde_json::from_str(&pod.to_string()).unwrap())
    }

    /// JOB-79.
    #[test]
    fn failures_before_a_restart_are_reconstructed_from_counted_pods() {
        let pods = [
            failed("a", -30, &json!([])),
            failed("b", -10, &json!(null)),
            failed("c", -5, &json!([crate::objects::JOB_TRACKING])),
        ];
        let ends = HashMap::default();
        let with = |status: Value| {
            let mut json = job("j").0;
            json["status"] = status;
            recollect(&serde_json::from_str(&json.to_string()).unwrap(), &pods, &ends)
        };
        assert_eq!(with(json!({"failed": 2})), Record { failures: 2, last: Some(at(-10)) });
        assert_eq!(with(json!({"failed": 1})), Record { failures: 1, last: Some(at(-10)) });
        assert_eq!(with(json!({"failed": 2, "succeeded": 1})), Record::default());
        assert_eq!(with(json!({})), Record::default());
    }

    fn uids(uids: &[&str]) -> HashSet<Uid> {
        uids.iter().map(|uid| Uid::new(uid)).collect()
    }

    /// JOB-70.
    #[test]
    fn a_pod_untracked_here_is_remembered_until_the_cache_shows_it() {
        let (memory, job) = (Memory::default(), Uid::new("job"));
        let shown = |job: &Uid, tracked: &[&str]| {
            let pods: Vec<PodRef> = tracked.iter().map(|name| pod(name).build()).collect();
            let still = still_shown(memory.of(job).untracked_here, &pods);
            memory.keep(job, &still, &Arc::default());
            (*still).clone()
        };
        memory.untracking(&job, uids(&["a", "b", "c"]));
        memory.still_tracked(&job, &[Uid::new("b")]);
        assert_eq!(shown(&job, &["a", "b", "c"]), uids(&["a", "c"]));
        assert_eq!(shown(&job, &["c"]), uids(&["c"]));
        assert_eq!(shown(&job, &["a", "c"]), uids(&["c"]), "once shown, it is forgotten");
        assert_eq!(shown(&Uid::new("namesake"), &["c"]), uids(&[]));
    }

    /// JOB-80.
    #[test]
    fn an_end_in_the_future_counts_from_when_it_was_first_seen() {
        let (memory, job) = (Memory::default(), Uid::new("job"));
        let ends = |ahead: &[&str], now: i64, known: &[&str]| {
            let end = |name: &str| if ahead.contains(&name) { 1000 } else { -1000 };
            let pods: Vec<PodRef> = known.iter().map(|name| pod(name).failed_at(1, end(name)).build()).collect();
            let seen = see_ended(memory.of(&job).seen_ended, &pods, at(now));
            memory.keep(&job, &Arc::default(), &seen);
            let mut ends: Vec<_> =
                seen.iter().map(|(uid, end)| (uid.to_string(), end.duration_since(at(0)).as_secs())).collect();
            ends.sort();
            ends
        };
        assert_eq!(ends(&[], 1, &["a"]), []);
        assert!(memory.is_empty());
        assert_eq!(ends(&["a"], 5, &["a", "b"]), [("a".to_owned(), 5)]);
        assert_eq!(ends(&["a", "b"], 7, &["a", "b"]), [("a".to_owned(), 5), ("b".to_owned(), 7)]);
        assert_eq!(ends(&[], 9, &["a"]), [("a".to_owned(), 5)], "also after that time");
    }
}
