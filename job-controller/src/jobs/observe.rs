//! Builds the snapshot of a Job from the caches, with lookups in their indexes.

use std::{sync::Arc, time::Duration};

use common::{
    consistency::{LedgerCache, UnseenWrite},
    controller::{Observation, STALE_CACHE_RECHECK_INTERVAL},
    intern::Text,
    io::SyncError,
    map::{HashMap, HashSet},
    meta::{NamespacedName, ResourceVersion, Uid},
    object::Resource,
    pods::Phase,
    refs::{self, DependentClaims, Owner},
    selector::Selector,
    store::{ByController, IndexValue, OrphansByNamespace},
};
use jiff::Timestamp;

use super::{
    JobController,
    gangs::GangCaches,
    memory::JobMemory,
    snapshot::{FailureRecord, SharedPod, Snapshot, UnseenWrites},
};
use crate::objects::{JOBS, Job};

impl JobController {
    pub(crate) fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Observation<Snapshot>, SyncError> {
        let judged = self.job_uid(key);
        let behind = judged.as_ref().and_then(|uid| self.unseen_write(&key.namespace, uid));
        let must_wait = |behind: &UnseenWrite| match behind {
            UnseenWrite::Conflicts { .. } => true,
            UnseenWrite::VersionNotReached { .. } => self.reads_own_writes,
            UnseenWrite::DeletionsNotShown { .. } | UnseenWrite::UnansweredCreations { .. } => false,
        };
        if let Some(behind) = behind.clone().filter(|(behind, _)| must_wait(behind)) {
            return Ok(Observation::waiting_for_own_writes(behind));
        }
        // The Job is read after the check for unseen writes, so that the check also holds for this version of the Job.
        let Some(job) = self.job_informer.store().get(&key.namespace, &key.name)? else { return Ok(Observation::Gone) };
        let uid = &job.metadata.uid;
        if judged.as_ref() != Some(uid) {
            // The cache has received a new Job with the same name since its UID was read.
            return self.observe(key, now);
        }
        let without_pods = Snapshot {
            owner: Owner::new(JOBS, &job.metadata),
            job: Arc::clone(&job),
            pod_claims: DependentClaims::default(),
            unselected_pods: Vec::new(),
            pod_uids_with_removed_finalizer: Arc::default(),
            pod_finish_first_seen_at: Arc::default(),
            failure_record: FailureRecord::default(),
            scheduling_objects: None,
            pod_creation_pause: None,
            unseen_writes: None,
            decision_settings: self.limits,
            now,
        };
        if job.is_finished() || job.managed_by.is_some() {
            return Ok(Observation::Ready(without_pods));
        }
        let JobMemory {
            pod_uids_with_removed_finalizer: untracked_here,
            pod_finish_first_seen_at: seen_ended,
            failure_record: backoff,
            has_written_job_end: finished,
            ..
        } = self.memory.job_memory(uid);
        if finished {
            return Ok(Observation::waiting_because(
                "the cache does not show yet that the Job has finished",
                STALE_CACHE_RECHECK_INTERVAL,
            ));
        }
        let owned =
            self.pod_informer.store().list_by_index(ByController, &IndexValue::for_controller(&job.metadata))?;
        let seen_ended = record_first_seen_ends(seen_ended, &owned, now);
        let untracked_here = untracked_and_still_shown(untracked_here, &owned);
        let backoff = backoff.unwrap_or_else(|| reconstruct_failures(&job, &owned, &seen_ended));
        let (claims, unselected) = claim_pods(&without_pods.owner, &job.selector, owned, self.orphan_pods(&job));
        let unseen_writes = behind.map(|(behind, left)| {
            let is_stale = matches!(behind, UnseenWrite::VersionNotReached { .. });
            let at_most = if is_stale { left.min(STALE_CACHE_RECHECK_INTERVAL) } else { left };
            UnseenWrites { description: behind.to_string(), max_wait: at_most, has_stale_objects: is_stale }
        });
        Ok(Observation::Ready(Snapshot {
            pod_claims: claims,
            unselected_pods: unselected,
            pod_uids_with_removed_finalizer: untracked_here,
            pod_finish_first_seen_at: seen_ended,
            failure_record: backoff,
            scheduling_objects: self.gangs.as_ref().map(|gangs| gangs.scheduling_objects(&job)).transpose()?,
            pod_creation_pause: self.pod_creation_pauses.current_pause(uid, job.metadata.generation),
            unseen_writes,
            ..without_pods
        }))
    }

    /// Returns the UID of the Job with this key; `None` if the cache has no such Job.
    pub(crate) fn job_uid(&self, key: &NamespacedName) -> Option<Uid> {
        self.job_informer.store().with_metadata(&key.namespace, &key.name, |meta| meta.uid.clone())
    }

    /// Records and returns a write that the caches do not show yet. The event with this write enqueues the Job without delay.
    pub(crate) fn record_awaited_write(&self, namespace: &Text, uid: &Uid) -> Option<(Resource, ResourceVersion)> {
        let awaited = self.unseen_write(namespace, uid).and_then(|(behind, _)| match behind {
            UnseenWrite::VersionNotReached { resource, written, .. } => Some((resource, written)),
            // The version of the changed object is unknown, so any event of this resource ends the wait.
            UnseenWrite::Conflicts { resource, .. } => Some((resource, ResourceVersion::UNKNOWN)),
            UnseenWrite::DeletionsNotShown { .. } | UnseenWrite::UnansweredCreations { .. } => None,
        });
        self.memory.set_awaited_write(uid, awaited.clone());
        awaited
    }

    /// Returns a write for the Job with this UID that the caches do not show yet, and the maximal time to wait for the write.
    pub(crate) fn unseen_write(&self, namespace: &Text, uid: &Uid) -> Option<(UnseenWrite, Duration)> {
        let mut caches: Vec<&dyn LedgerCache> = vec![&**self.pod_informer.store(), &**self.job_informer.store()];
        caches.extend(self.gangs.iter().flat_map(GangCaches::ledger_caches));
        self.ledger.first_unseen_write(uid, &caches, || self.child_pod_uids(namespace, uid))
    }

    /// Returns the UIDs of the cached Pods that a Job controls, even if its selector does not match them.
    pub(crate) fn child_pod_uids(&self, namespace: &Text, uid: &Uid) -> HashSet<Uid> {
        let owner = IndexValue::Controller { namespace: namespace.clone(), uid: uid.clone() };
        let pods = self.pod_informer.store().list_decoded_by_index(ByController, &owner);
        pods.iter().map(|pod| pod.meta().uid.clone()).collect()
    }

    /// Returns the Pods without a controller in the Job's namespace, except Pods that cannot be decoded and thus not adopted.
    fn orphan_pods(&self, job: &Job) -> Vec<SharedPod> {
        let namespace = IndexValue::Text(job.metadata.namespace.clone());
        self.pod_informer.store().list_decoded_by_index(OrphansByNamespace, &namespace)
    }
}

/// Returns the Pods to keep, adopt and release, and the unselected Pods of a terminating Job.
///
/// The Job controls its unselected Pods, but its selector does not match them. A Job with an invalid selector claims no Pods.
pub(crate) fn claim_pods(
    owner: &Owner,
    selector: &Selector,
    owned: Vec<SharedPod>,
    unowned: Vec<SharedPod>,
) -> (DependentClaims<SharedPod>, Vec<SharedPod>) {
    let candidates = owned.iter().cloned().chain(unowned);
    let claims = refs::claim_dependents(owner, selector, candidates, |_| true).unwrap_or_default();
    if !owner.is_deleting {
        return (claims, Vec::new());
    }
    let kept: HashSet<Uid> = claims.to_keep.iter().map(|pod| pod.meta().uid.clone()).collect();
    let is_unselected = |pod: &SharedPod| {
        let meta = pod.meta();
        meta.controller().is_some_and(|controller| controller.uid == owner.uid) && !kept.contains(&meta.uid)
    };
    (claims, owned.into_iter().filter(is_unselected).collect())
}

/// Returns the UIDs in `untracked_here` of Pods that the cache still shows with the finalizer.
fn untracked_and_still_shown(untracked_here: Arc<HashSet<Uid>>, owned: &[SharedPod]) -> Arc<HashSet<Uid>> {
    if untracked_here.is_empty() {
        return untracked_here;
    }
    let tracked = owned.iter().filter(|pod| pod.has_tracking_finalizer).map(|pod| &pod.meta().uid);
    Arc::new(tracked.filter(|uid| untracked_here.contains(*uid)).cloned().collect())
}

/// Returns, for each Pod with a finish time in the future by the clock of its node, the time at which this process first saw
/// that the Pod had finished. Deleted Pods are dropped.
fn record_first_seen_ends(
    seen: Arc<HashMap<Uid, Timestamp>>,
    owned: &[SharedPod],
    now: Timestamp,
) -> Arc<HashMap<Uid, Timestamp>> {
    let is_ahead = |pod: &SharedPod| !pod.is_active() && pod.finished_at > now;
    if seen.is_empty() && !owned.iter().any(is_ahead) {
        return seen;
    }
    let first_seen = |pod: &SharedPod| {
        let uid = &pod.meta().uid;
        let at = seen.get(uid).copied().or_else(|| is_ahead(pod).then_some(now))?;
        Some((uid.clone(), at))
    };
    Arc::new(owned.iter().filter_map(first_seen).collect())
}

/// Reconstructs the failures since the last success from existing Pods, after a take-over.
///
/// Reconstructs nothing if a Pod has succeeded: counted Pods that succeeded are not cached, so the time of the last success is
/// unknown. Upstream starts without failures (kubernetes/kubernetes#114650).
fn reconstruct_failures(job: &Job, owned: &[SharedPod], seen_ended: &HashMap<Uid, Timestamp>) -> FailureRecord {
    if job.status.succeeded > 0 || job.status.failed == 0 {
        return FailureRecord::default();
    }
    let counted = owned.iter().filter(|pod| !pod.has_tracking_finalizer && pod.phase == Phase::Failed);
    let ends: Vec<Timestamp> = counted
        .map(|pod| seen_ended.get(&pod.meta().uid).map_or(pod.finished_at, |seen| pod.finished_at.min(*seen)))
        .collect();
    let failures = u32::try_from(job.status.failed).unwrap_or(0).min(u32::try_from(ends.len()).unwrap_or(u32::MAX));
    FailureRecord { failure_count_since_success: failures, last_failure_at: ends.into_iter().max() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        jobs::memory::JobMemoryByUid,
        world::{job, pod, sync_time_plus_seconds},
    };

    fn failed(name: &str, second: i64, finalizers: &Value) -> SharedPod {
        let pod = json!({"metadata": {"name": name, "finalizers": finalizers}, "status": {"phase": "Failed",
            "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1, "finishedAt": sync_time_plus_seconds(second).to_string()}}}]}});
        Arc::new(serde_json::from_str(&pod.to_string()).unwrap())
    }

    /// JOB-79.
    #[test]
    fn failures_before_a_restart_are_reconstructed_from_counted_pods() {
        let pods = [
            failed("a", -30, &json!([])),
            failed("b", -10, &json!(null)),
            failed("c", -5, &json!([crate::objects::JOB_TRACKING_FINALIZER])),
        ];
        let ends = HashMap::default();
        let with = |status: Value| {
            let mut json = job("j").0;
            json["status"] = status;
            reconstruct_failures(&serde_json::from_str(&json.to_string()).unwrap(), &pods, &ends)
        };
        assert_eq!(
            with(json!({"failed": 2})),
            FailureRecord { failure_count_since_success: 2, last_failure_at: Some(sync_time_plus_seconds(-10)) }
        );
        assert_eq!(
            with(json!({"failed": 1})),
            FailureRecord { failure_count_since_success: 1, last_failure_at: Some(sync_time_plus_seconds(-10)) }
        );
        assert_eq!(with(json!({"failed": 2, "succeeded": 1})), FailureRecord::default());
        assert_eq!(with(json!({})), FailureRecord::default());
    }

    fn uids(uids: &[&str]) -> HashSet<Uid> {
        uids.iter().map(|uid| Uid::new(uid)).collect()
    }

    /// JOB-70.
    #[test]
    fn a_pod_untracked_here_is_remembered_until_the_cache_shows_it() {
        let (memory, job) = (JobMemoryByUid::default(), Uid::new("job"));
        let shown = |job: &Uid, tracked: &[&str]| {
            let pods: Vec<SharedPod> = tracked.iter().map(|name| pod(name).build()).collect();
            let still = untracked_and_still_shown(memory.job_memory(job).pod_uids_with_removed_finalizer, &pods);
            memory.store_per_pod_memory(job, &still, &Arc::default());
            (*still).clone()
        };
        memory.record_finalizer_removal(&job, uids(&["a", "b", "c"]));
        memory.revert_finalizer_removal(&job, &[Uid::new("b")]);
        assert_eq!(shown(&job, &["a", "b", "c"]), uids(&["a", "c"]));
        assert_eq!(shown(&job, &["c"]), uids(&["c"]));
        assert_eq!(shown(&job, &["a", "c"]), uids(&["c"]), "once shown, it is forgotten");
        assert_eq!(shown(&Uid::new("namesake"), &["c"]), uids(&[]));
    }

    /// JOB-80.
    #[test]
    fn an_end_in_the_future_counts_from_when_it_was_first_seen() {
        let (memory, job) = (JobMemoryByUid::default(), Uid::new("job"));
        let ends = |ahead: &[&str], now: i64, known: &[&str]| {
            let end = |name: &str| if ahead.contains(&name) { 1000 } else { -1000 };
            let pods: Vec<SharedPod> =
                known.iter().map(|name| pod(name).failed_with_exit_code_at(1, end(name)).build()).collect();
            let seen = record_first_seen_ends(
                memory.job_memory(&job).pod_finish_first_seen_at,
                &pods,
                sync_time_plus_seconds(now),
            );
            memory.store_per_pod_memory(&job, &Arc::default(), &seen);
            let mut ends: Vec<_> = seen
                .iter()
                .map(|(uid, end)| (uid.to_string(), end.duration_since(sync_time_plus_seconds(0)).as_secs()))
                .collect();
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
