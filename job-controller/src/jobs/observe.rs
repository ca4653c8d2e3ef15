//! Indexed reads of the caches for the snapshot of a Job, and the parts of the snapshot that follow from them.

use std::sync::Arc;

use common::{pods::Phase, prelude::*, refs};
use jiff::Timestamp;

use super::{
    JobController,
    snapshot::{FailureRecord, SharedPod},
};
use crate::objects::Job;

impl JobController {
    /// Returns the UIDs of the cached Pods that a Job controls, even if its selector does not match them.
    pub(crate) fn child_pod_uids(&self, namespace: &Text, uid: &Uid) -> HashSet<Uid> {
        self.child_pods(namespace, uid).iter().map(|pod| pod.meta().uid.clone()).collect()
    }

    /// Returns the cached Pods that a Job controls, except Pods that cannot be decoded.
    pub(crate) fn child_pods(&self, namespace: &Text, uid: &Uid) -> Vec<SharedPod> {
        let owner = IndexValue::Controller { namespace: namespace.clone(), uid: uid.clone() };
        self.watch.pod_store.list_decoded_by_index(ByController, &owner)
    }

    /// Returns the Pods without a controller in the Job's namespace, except Pods that cannot be decoded and thus not adopted.
    pub(super) fn orphan_pods(&self, job: &Job) -> Vec<SharedPod> {
        let namespace = IndexValue::Text(job.metadata.namespace.clone());
        self.watch.pod_store.list_decoded_by_index(OrphansByNamespace, &namespace)
    }
}

/// Returns the Pods to keep, adopt and release, and the unselected Pods of a terminating Job.
///
/// The Job controls its unselected Pods, but its selector does not match them. A Job with an invalid selector claims no Pods.
pub(crate) fn claim_pods(
    owner: &Owner,
    selector: &Selector,
    owned_pods: Vec<SharedPod>,
    orphan_pods: Vec<SharedPod>,
) -> (DependentClaims<SharedPod>, Vec<SharedPod>) {
    let candidates = owned_pods.iter().cloned().chain(orphan_pods);
    let claims = refs::claim_dependents(owner, selector, candidates, |_| true).unwrap_or_default();
    if !owner.is_deleting {
        return (claims, Vec::new());
    }
    let kept: HashSet<Uid> = claims.to_keep.iter().map(|pod| pod.meta().uid.clone()).collect();
    let is_unselected = |pod: &SharedPod| {
        let meta = pod.meta();
        meta.controller().is_some_and(|controller| controller.uid == owner.uid) && !kept.contains(&meta.uid)
    };
    (claims, owned_pods.into_iter().filter(is_unselected).collect())
}

/// Returns the UIDs in `removed` of Pods that the cache still shows with the finalizer.
pub(super) fn removals_not_cached(removed: Arc<HashSet<Uid>>, owned_pods: &[SharedPod]) -> Arc<HashSet<Uid>> {
    if removed.is_empty() {
        return removed;
    }
    let with_finalizer = owned_pods.iter().filter(|pod| pod.has_tracking_finalizer).map(|pod| &pod.meta().uid);
    Arc::new(with_finalizer.filter(|uid| removed.contains(*uid)).cloned().collect())
}

/// Returns, for each Pod with a finish time in the future by the clock of its node, the time at which this process first saw
/// that the Pod had finished. Deleted Pods are dropped.
pub(super) fn finish_times_first_seen(
    first_seen_at: Arc<HashMap<Uid, Timestamp>>,
    owned_pods: &[SharedPod],
    now: Timestamp,
) -> Arc<HashMap<Uid, Timestamp>> {
    let is_ahead = |pod: &SharedPod| !pod.is_active() && pod.finished_at > now;
    if first_seen_at.is_empty() && !owned_pods.iter().any(is_ahead) {
        return first_seen_at;
    }
    let first_seen = |pod: &SharedPod| {
        let uid = &pod.meta().uid;
        let at = first_seen_at.get(uid).copied().or_else(|| is_ahead(pod).then_some(now))?;
        Some((uid.clone(), at))
    };
    Arc::new(owned_pods.iter().filter_map(first_seen).collect())
}

/// Reconstructs the failures since the last success from existing Pods, after a take-over.
///
/// Reconstructs nothing if a Pod has succeeded: counted Pods that succeeded are not cached, so the time of the last success is
/// unknown. Upstream starts without failures (kubernetes/kubernetes#114650).
pub(super) fn reconstruct_failures(
    job: &Job,
    owned_pods: &[SharedPod],
    first_seen_at: &HashMap<Uid, Timestamp>,
) -> FailureRecord {
    if job.status.succeeded > 0 || job.status.failed == 0 {
        return FailureRecord::default();
    }
    let counted = owned_pods.iter().filter(|pod| !pod.has_tracking_finalizer && pod.phase == Phase::Failed);
    let finished_at = |pod: &SharedPod| {
        first_seen_at.get(&pod.meta().uid).map_or(pod.finished_at, |first_seen| pod.finished_at.min(*first_seen))
    };
    let finish_times: Vec<Timestamp> = counted.map(finished_at).collect();
    let counted_pods = u32::try_from(finish_times.len()).unwrap_or(u32::MAX);
    FailureRecord {
        failure_count_since_success: u32::try_from(job.status.failed).unwrap_or(0).min(counted_pods),
        last_failure_at: finish_times.into_iter().max(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        jobs::memory::JobMemoryByUid,
        world::{job, pod, sync_time_plus_seconds},
    };

    /// JOB-79.
    #[test]
    fn failures_before_a_restart_are_reconstructed_from_counted_pods() {
        let failed = |name: &str, second: i64| pod(name).failed_with_exit_code_at(1, second);
        let mut without_list = failed("b", -10);
        without_list.0["metadata"]["finalizers"] = json!(null);
        let pods = [failed("a", -30).without_finalizer(), without_list, failed("c", -5)].map(|pod| pod.build());
        let ends = HashMap::default();
        let with = |status: Value| {
            let mut json = job("j").0;
            json["status"] = status;
            reconstruct_failures(&serde_json::from_str(&json.to_string()).unwrap(), &pods, &ends)
        };
        for failed in [2, 1] {
            let last_failure_at = Some(sync_time_plus_seconds(-10));
            let failure_record = FailureRecord { failure_count_since_success: failed, last_failure_at };
            assert_eq!(with(json!({ "failed": failed })), failure_record);
        }
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
            let still = removals_not_cached(memory.job_memory(job).pod_uids_with_removed_finalizer, &pods);
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
            let known = memory.job_memory(&job).pod_finish_first_seen_at;
            let seen = finish_times_first_seen(known, &pods, sync_time_plus_seconds(now));
            memory.store_per_pod_memory(&job, &Arc::default(), &seen);
            let seconds = |end: &Timestamp| end.duration_since(sync_time_plus_seconds(0)).as_secs();
            let mut ends: Vec<_> = seen.iter().map(|(uid, end)| (uid.to_string(), seconds(end))).collect();
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
