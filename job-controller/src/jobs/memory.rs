//! The state that this process remembers for Jobs. A restarted process and a new leader start without this state.

use std::sync::Arc;

use common::{
    map::{HashMap, HashSet},
    meta::{ResourceVersion, Uid},
    object::Resource,
};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::snapshot::FailureRecord;

/// The remembered state of each Job, by UID, so that a recreated Job starts with the default state. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct JobMemoryByUid {
    jobs: Arc<Mutex<HashMap<Uid, JobMemory>>>,
}

/// The state that this process remembers for one Job, until the Job has finished or was deleted.
#[derive(Clone, Debug, Default)]
pub struct JobMemory {
    /// UIDs of Pods with a finalizer that this process has removed, although the cache still shows the finalizer.
    pub pod_uids_with_removed_finalizer: Arc<HashSet<Uid>>,
    /// For each Pod with a finish time in the future: the time at which this process first saw that the Pod had finished.
    pub pod_finish_first_seen_at: Arc<HashMap<Uid, Timestamp>>,
    /// Failures of the Job's Pods since the last success; `None` until this process has written a status of the Job.
    pub failure_record: Option<FailureRecord>,
    /// Whether this process has written the status with the condition `Complete` or `Failed`.
    pub has_written_job_end: bool,
    /// The resource and version that a cache must reach before the next sync of the Job; `None` if the next sync need not wait.
    awaited: Option<(Resource, ResourceVersion)>,
}

impl JobMemoryByUid {
    /// Applies `change` to the remembered state of a Job, or to the default state if no state is remembered.
    pub fn update_job_memory(&self, job: &Uid, change: impl FnOnce(&mut JobMemory)) {
        change(self.jobs.lock().entry(job.clone()).or_default());
    }

    /// Returns a copy of the remembered state of a Job, or the default state if no state is remembered.
    pub fn job_memory(&self, job: &Uid) -> JobMemory {
        self.jobs.lock().get(job).cloned().unwrap_or_default()
    }

    /// Records that the finalizers of these Pods are about to be removed.
    pub fn record_finalizer_removal(&self, job: &Uid, pods: impl IntoIterator<Item = Uid>) {
        self.update_job_memory(job, |remembered| {
            Arc::make_mut(&mut remembered.pod_uids_with_removed_finalizer).extend(pods);
        });
    }

    /// Reverts [`record_finalizer_removal`](Self::record_finalizer_removal) for Pods that may still have their finalizers.
    pub fn revert_finalizer_removal(&self, job: &Uid, pods: &[Uid]) {
        self.update_job_memory(job, |remembered| {
            let untracked_here = Arc::make_mut(&mut remembered.pod_uids_with_removed_finalizer);
            for pod in pods {
                untracked_here.remove(pod);
            }
        });
    }

    /// Stores the UIDs of Pods with removed finalizers and the first-seen finish times, if a sync has changed them.
    pub fn store_per_pod_memory(
        &self,
        job: &Uid,
        untracked_here: &Arc<HashSet<Uid>>,
        seen_ended: &Arc<HashMap<Uid, Timestamp>>,
    ) {
        let remembered = self.job_memory(job);
        if remembered.pod_uids_with_removed_finalizer != *untracked_here
            || remembered.pod_finish_first_seen_at != *seen_ended
        {
            self.update_job_memory(job, |remembered| {
                remembered.pod_uids_with_removed_finalizer = Arc::clone(untracked_here);
                remembered.pod_finish_first_seen_at = Arc::clone(seen_ended);
            });
        }
    }

    /// Records the write that the cache must show before the next sync of the Job. With `None`, the next sync does not wait.
    pub fn set_awaited_write(&self, job: &Uid, write: Option<(Resource, ResourceVersion)>) {
        if write.is_some() || self.job_memory(job).awaited.is_some() {
            self.update_job_memory(job, |remembered| remembered.awaited = write);
        }
    }

    /// Whether the next sync of the Job waits for a version of `resource`, and `version` is this version or newer.
    pub fn is_awaited_version_reached(&self, job: &Uid, resource: &Resource, version: ResourceVersion) -> bool {
        let reached = |(r, awaited): &(Resource, ResourceVersion)| r == resource && *awaited <= version;
        self.jobs.lock().get(job).is_some_and(|remembered| remembered.awaited.as_ref().is_some_and(reached))
    }

    /// Removes the remembered state of a deleted or finished Job.
    pub fn forget_job(&self, job: &Uid) {
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
        let (memory, job) = (JobMemoryByUid::default(), Uid::new("job"));
        memory.set_awaited_write(&job, Some((PODS, ResourceVersion::parse("7"))));
        assert!(!memory.is_awaited_version_reached(&job, &PODS, ResourceVersion::parse("6")));
        assert!(!memory.is_awaited_version_reached(&job, &JOBS, ResourceVersion::parse("9")));
        assert!(memory.is_awaited_version_reached(&job, &PODS, ResourceVersion::parse("7")));
        memory.set_awaited_write(&job, None);
        assert!(!memory.is_awaited_version_reached(&job, &PODS, ResourceVersion::parse("9")));
    }

    /// JOB-70.
    #[test]
    fn a_forgotten_job_leaves_no_memory() {
        let (memory, job) = (JobMemoryByUid::default(), Uid::new("job"));
        memory.update_job_memory(&job, |remembered| {
            remembered.has_written_job_end = true;
            remembered.failure_record = Some(FailureRecord { failure_count_since_success: 2, last_failure_at: None });
        });
        assert!(memory.job_memory(&job).has_written_job_end && memory.job_memory(&job).failure_record.is_some());
        memory.forget_job(&job);
        assert!(memory.is_empty() && !memory.job_memory(&job).has_written_job_end);
    }
}
