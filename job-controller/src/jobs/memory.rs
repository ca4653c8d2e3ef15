//! The state that this process remembers for Jobs. A restarted process and a new leader start without this state.

use std::sync::Arc;

use common::prelude::*;
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
        self.update_job_memory(job, |memory| {
            Arc::make_mut(&mut memory.pod_uids_with_removed_finalizer).extend(pods);
        });
    }

    /// Reverts [`record_finalizer_removal`](Self::record_finalizer_removal) for Pods that may still have their finalizers.
    pub fn revert_finalizer_removal(&self, job: &Uid, pods: &[Uid]) {
        self.update_job_memory(job, |memory| {
            let removed = Arc::make_mut(&mut memory.pod_uids_with_removed_finalizer);
            for pod in pods {
                removed.remove(pod);
            }
        });
    }

    /// Stores the UIDs of Pods with removed finalizers and the first-seen finish times, if a sync has changed them.
    pub fn store_per_pod_memory(
        &self,
        job: &Uid,
        removed: &Arc<HashSet<Uid>>,
        first_seen_at: &Arc<HashMap<Uid, Timestamp>>,
    ) {
        let memory = self.job_memory(job);
        if memory.pod_uids_with_removed_finalizer != *removed || memory.pod_finish_first_seen_at != *first_seen_at {
            self.update_job_memory(job, |memory| {
                memory.pod_uids_with_removed_finalizer = Arc::clone(removed);
                memory.pod_finish_first_seen_at = Arc::clone(first_seen_at);
            });
        }
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
    use super::*;

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
